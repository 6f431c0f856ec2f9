// SPDX-License-Identifier: GPL-2.0

//! Tests of events of a queue pair.

use super::fixture::{
    Fixture,
    PORT, //
};
use crate::prelude::*;
use crate::QueuePair;

/// The events that end a connection.
const FATAL: [cbindings::ib_event_type; 5] = [
    cbindings::ib_event_type_IB_EVENT_QP_FATAL,
    cbindings::ib_event_type_IB_EVENT_QP_REQ_ERR,
    cbindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
    cbindings::ib_event_type_IB_EVENT_PATH_MIG_ERR,
    cbindings::ib_event_type_IB_EVENT_DEVICE_FATAL,
];

/// The events that a connection survives.
const HARMLESS: [cbindings::ib_event_type; 4] = [
    cbindings::ib_event_type_IB_EVENT_COMM_EST,
    cbindings::ib_event_type_IB_EVENT_SQ_DRAINED,
    cbindings::ib_event_type_IB_EVENT_PATH_MIG,
    cbindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED,
];

/// Reports all fatal events of `queue`, as the driver of its device would.
pub fn report_fatal_events<H: Handler>(queue: &QueuePair<H>) -> Result {
    FATAL.iter().try_for_each(|event| report(queue, *event))
}

/// Reports `event` of `queue`.
fn report<H: Handler>(queue: &QueuePair<H>, event: cbindings::ib_event_type) -> Result {
    // SAFETY: The queue pair keeps its id live.
    let queue = unsafe { (*queue.id().as_raw()).qp };
    // SAFETY: No test drains a queue pair before it reports events of it, so the C queue pair is
    // live, and these fields do not change.
    let (device, handler, context) = unsafe {
        (
            (*queue).device,
            (*queue).event_handler.ok_or(EINVAL)?,
            (*queue).qp_context,
        )
    };
    let mut event = cbindings::ib_event {
        device,
        event,
        ..Default::default()
    };
    event.element.qp = queue;
    // SAFETY: The core set handler and context for the driver, which may call the handler with an
    // event of this queue pair.
    unsafe { handler(&mut event, context) };
    Ok(())
}

pub(super) fn upper_layer_learns_what_is_fatal() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    let reported = || {
        let end = &fixture.end;
        (
            end.fatal_events.load(Relaxed),
            end.harmless_events.load(Relaxed),
        )
    };
    for event in HARMLESS {
        report(&fixture.queue, event)?;
    }
    let harmless = reported();
    report_fatal_events(&fixture.queue)?;
    Ok(harmless == (0, HARMLESS.len()) && reported() == (FATAL.len(), HARMLESS.len()))
}
