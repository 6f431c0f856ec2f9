// SPDX-License-Identifier: GPL-2.0

//! Tests of the permits for pages.

use super::super::rdma_read::ReadPermit;
use crate::prelude::*;
use sunrpc::selftest::empty_weak;

/// More pages than the sysctl can allow.
const TOO_MANY: usize = 1 << 25;

/// Returns a connection that reads no call.
fn connection() -> Result<Arc<ServerConn>> {
    ServerConn::new(empty_weak()?, &[], 1)
}

pub(super) fn one_call_is_always_read() -> Result<bool> {
    let (one, other) = (connection()?, connection()?);
    let first = ReadPermit::new(&one, TOO_MANY);
    let second = ReadPermit::new(&one, 1);
    let theirs = ReadPermit::new(&other, 1);
    Ok(first.is_some() && second.is_none() && theirs.is_some())
}

pub(super) fn call_that_is_not_read_lets_another() -> Result<bool> {
    let calls = connection()?;
    let first = ReadPermit::new(&calls, 1).ok_or(EBUSY)?;
    let waits = ReadPermit::new(&calls, TOO_MANY).is_none();
    first.cancel();
    let not_woken = calls.pages_seq() == 0;
    Ok(waits && not_woken && ReadPermit::new(&calls, TOO_MANY).is_some())
}

pub(super) fn end_of_a_call_wakes_once() -> Result<bool> {
    let calls = connection()?;
    let first = ReadPermit::new(&calls, 1).ok_or(EBUSY)?;
    let second = ReadPermit::new(&calls, 1).ok_or(EBUSY)?;
    let waits = ReadPermit::new(&calls, TOO_MANY).is_none() && calls.pages_seq() == 0;
    drop(first);
    let woken = calls.pages_seq() == 1;
    drop(second);
    let once = calls.pages_seq() == 1;
    drop(ReadPermit::new(&calls, TOO_MANY).ok_or(EBUSY)?);
    Ok(waits && woken && once && calls.pages_seq() == 1)
}
