// SPDX-License-Identifier: GPL-2.0

//! Tests of reverse-direction calls that cannot be delivered.

use super::{
    echo::{
        Caller,
        Echo,
        CLASS,
        NO_MODULE, //
    },
    Test, //
};
use crate::prelude::*;
use crate::{
    CallbackError,
    CallbackRqst, //
};

/// The tests. The name of each is what it claims.
pub const TESTS: &[(&str, Test)] = &[
    (
        "a reverse-direction call is neither cut off nor longer than a page",
        callback_has_a_size,
    ),
    (
        "without a callback service a call uses nothing up",
        callback_without_a_service_uses_nothing_up,
    ),
    (
        "the peer has no more reverse-direction calls than it may",
        peer_has_no_more_callbacks_than_it_may,
    ),
];

/// XID and direction.
const SHORTEST: usize = 8;

/// The most reverse-direction calls of a peer: those of the present connection and those of the one
/// before.
const LIMIT: usize = 2 * Echo::CALLBACK_SLOTS as usize;

fn callback_has_a_size() -> Result<bool> {
    let _registered = CLASS.register(&NO_MODULE)?;
    let caller = Caller::new()?;
    let call = KVec::from_elem(0, CallbackRqst::MAX_LEN + 1, GFP_KERNEL)?;
    let deliver = |len: usize| -> Result<_> {
        let call = call.get(..len).ok_or(EINVAL)?;
        Ok(caller.with_transport(|xprt| xprt.deliver_callback(call)))
    };
    let mut passed = true;
    for len in [0, 4, SHORTEST - 1, CallbackRqst::MAX_LEN + 1] {
        passed &= deliver(len)? == Err(CallbackError::Size);
    }
    // These lengths are right. There is nobody to take the calls.
    for len in [SHORTEST, CallbackRqst::MAX_LEN] {
        passed &= deliver(len)? == Err(CallbackError::NoService);
    }
    Ok(passed)
}

fn callback_without_a_service_uses_nothing_up() -> Result<bool> {
    let _registered = CLASS.register(&NO_MODULE)?;
    let caller = Caller::new()?;
    let refused = caller.with_transport(|xprt| {
        (0..=LIMIT).all(|_| xprt.deliver_callback(&[0; SHORTEST]) == Err(CallbackError::NoService))
    });
    Ok(refused)
}

fn peer_has_no_more_callbacks_than_it_may() -> Result<bool> {
    let _registered = CLASS.register(&NO_MODULE)?;
    let caller = Caller::new()?;
    let mut taken = KVec::with_capacity(LIMIT, GFP_KERNEL)?;
    let passed = caller.with_transport(|xprt| -> Result<bool> {
        let pool = &xprt.parts.bc_pool;
        while let Ok(rqst) = pool.take() {
            taken.push_within_capacity(rqst)?;
        }
        let full = || xprt.deliver_callback(&[0; SHORTEST]);
        let overflow = full() == Err(CallbackError::Overflow) && taken.len() == LIMIT;
        pool.put(taken.pop().ok_or(EINVAL)?);
        let room = full() == Err(CallbackError::NoService);
        Ok(overflow && room)
    })?;
    Ok(passed)
}
