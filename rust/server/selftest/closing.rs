// SPDX-License-Identifier: GPL-2.0

//! Tests of a connection that has ended while threads still use it.

use super::super::{
    connection::ServerConn,
    credits::Credits,
    waiting::WorkQueue, //
};
use kernel::prelude::*;

pub(super) fn ended_connection_has_no_room_for_work() -> Result<bool> {
    let mut queue = WorkQueue::with_capacity(4, GFP_KERNEL)?;
    let before = queue.close();
    // A thread that raises the grant grows the queue at the same time.
    let mut longer = WorkQueue::with_capacity(8, GFP_KERNEL)?;
    queue.grow_into(&mut longer);
    Ok(before.capacity() == 4 && queue.capacity() == 0 && longer.capacity() == 8)
}

pub(super) fn credits_go_back_when_the_connection_ends() -> Result<bool> {
    let before = Credits::all_borrowed();
    let credits = KBox::pin_init(Credits::new(), GFP_KERNEL)?;
    credits.set_first(2);
    let update = credits.begin_update().ok_or(EBUSY)?;
    update.raise(64, |_| Ok(()))?;
    let taken = Credits::all_borrowed() == before + 56;
    credits.end();
    let given_back = Credits::all_borrowed() == before;
    // A thread may be raising the grant at the same time.
    let refused = update.raise(128, |_| Ok(())).is_err();
    Ok(taken && given_back && refused && Credits::all_borrowed() == before)
}
