// SPDX-License-Identifier: GPL-2.0

//! Tests of a connection whose device reports a failure of the queue pair.

use super::super::{
    config::{
        QueueLimits,
        LOST, //
    },
    connection::ServerConn, //
};
use crate::endpoint::selftest::connection::wait;
use kernel::prelude::*;
use proto::conn::server::Event;
use rdma::{
    cm::Id,
    selftest::{
        address,
        net,
        report_fatal_events, //
    },
    send::Buffers,
    ProtectionDomain, //
};
use sunrpc::selftest::link_to_nothing;

const PORT: u16 = 20_052;
const TIMEOUT_MS: u32 = 10_000;

pub(super) fn failed_queue_pair_is_one_lost_connection() -> Result<bool> {
    let connection = ServerConn::new(link_to_nothing()?, &[], 1)?;
    let id = Id::new(&net(), connection.clone())?;
    id.resolve_address(&address(PORT)?, TIMEOUT_MS)?;
    // There is no event: the server resolves no addresses.
    let limits = wait(|| id.limits().ok())?;
    let parameters = QueueLimits::new(&limits)?.parameters()?;
    let pd = ProtectionDomain::new(id.clone())?;
    let queue = parameters.make(id, pd, &mut Buffers::new())?;
    let lost = LOST.get();
    report_fatal_events(&queue)?;
    let never_open = LOST.get() == lost;
    for event in [Event::Prepared, Event::Established] {
        let _ = connection.state.on(event);
    }
    let open = connection.state.is_open();
    // There are several fatal events.
    report_fatal_events(&queue)?;
    let permit = LOST.get() == lost + 1;
    connection.lost(Event::Disconnected, c"what was posted failed, too");
    let once = LOST.get() == lost + 1;
    Ok(never_open && open && permit && once && !connection.state.is_open())
}
