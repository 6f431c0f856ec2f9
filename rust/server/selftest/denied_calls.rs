// SPDX-License-Identifier: GPL-2.0

//! Tests of calls whose chunks the client denied access to.

use super::super::denied_calls::DeniedCalls;
use kernel::prelude::*;
use proto::admission::Host;

const CLIENT: Host = [1; 16];
const OTHER: Host = [2; 16];

pub(super) fn call_is_answered_once() -> Result<bool> {
    let calls = DeniedCalls::new()?;
    calls.add(CLIENT, 7);
    let of_other = calls.take(&OTHER, 7) == (false, false);
    let another = calls.take(&CLIENT, 8) == (false, true);
    let once = calls.take(&CLIENT, 7) == (true, false);
    Ok(of_other && another && once && calls.take(&CLIENT, 7) == (false, false))
}

pub(super) fn calls_of_another_client_stay() -> Result<bool> {
    let calls = DeniedCalls::new()?;
    calls.add(OTHER, 7);
    for xid in 0..100 {
        calls.add(CLIENT, xid);
    }
    let oldest_went = calls.take(&CLIENT, 0) == (false, true);
    let newest_stayed = calls.take(&CLIENT, 99) == (true, true);
    Ok(oldest_went && newest_stayed && calls.take(&OTHER, 7) == (true, false))
}

pub(super) fn each_call_is_counted() -> Result<bool> {
    let calls = DeniedCalls::new()?;
    let before = calls.added();
    for xid in 0..100 {
        calls.add(CLIENT, xid);
    }
    Ok(calls.added() == before + 100)
}
