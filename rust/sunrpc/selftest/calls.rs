// SPDX-License-Identifier: GPL-2.0

//! Tests of calls over an [`Echo`](super::echo::Echo).

use super::{
    echo::{
        ehostunreach,
        Caller,
        ALIVE,
        BROKEN_OFF,
        BUSY,
        CLASS,
        CONNECTED,
        CONNECTING,
        ENCODED_READABLE,
        FAIL,
        IMPOSSIBLE,
        NO_MODULE,
        ONE_WAY,
        READABLE,
        REFUSE,
        SHORT_TIMEOUT,
        SILENT,
        SLOW,
        TIMED_OUT,
        TIMEOUT,
        UNANSWERED,
        UNSENDABLE,
        WITH_REPLY, //
    },
    Test, //
};
use crate::prelude::*;
use crate::{
    clnt::{
        credits::OrphanedCalls,
        timeouts::{
            jiffies,
            ATTEMPT_INTERVAL,
            HZ, //
        }, //
    },
    task::gfp_flags, //
};
use core::sync::atomic::Ordering::{
    Acquire,
    Relaxed,
    Release, //
};
use kernel::{
    time::{
        delay::fsleep,
        Delta, //
    },
    workqueue, //
};

/// The tests. The name of each is what it claims.
pub const TESTS: &[(&str, Test)] = &[
    // Shows S3.3.1-18.
    (
        "a call without a reply ends the connection",
        call_without_a_reply_ends_the_connection,
    ),
    (
        "a call that can never be sent fails",
        call_that_can_never_be_sent_fails,
    ),
    (
        "a call that cannot be sent any more fails no other",
        call_that_cannot_be_sent_any_more_fails_no_other,
    ),
    (
        "a worker may wait for memory, but does not try hard",
        worker_may_wait_for_memory,
    ),
    (
        "a device that fails for a moment fails no call",
        device_that_fails_for_a_moment_fails_no_call,
    ),
    (
        "a reply may come before its call is counted as released",
        reply_may_come_before_its_call_is_counted_as_released,
    ),
    (
        "the time for a reply counts from when the call was sent",
        time_for_a_reply_counts_from_when_the_call_was_sent,
    ),
    (
        "the peer reads nothing of a call that RPCSEC_GSS may encrypt once more",
        peer_reads_nothing_that_is_encrypted_once_more,
    ),
    (
        "attempts to connect are neither made in a loop nor further and further apart",
        attempts_to_connect_are_a_few_seconds_apart,
    ),
    (
        "a call that must not wait for a server fails with the first attempt that has no answer",
        call_that_must_not_wait_fails_with_the_first_attempt,
    ),
    (
        "a call that the peer does not understand is sent again at once, over the same connection",
        call_that_is_not_understood_is_sent_again_at_once,
    ),
    (
        "a reply does not close the window that was opened since its grant was taken",
        reply_does_not_close_an_opened_window,
    ),
    (
        "an attempt to connect holds up nothing that sunrpc does",
        attempt_to_connect_holds_up_nothing,
    ),
];

fn call_without_a_reply_ends_the_connection() -> Result<bool> {
    // This is dropped last.
    let _registered = CLASS.register(&NO_MODULE)?;
    let caller = Caller::new()?;
    let connected = || CONNECTED.load(Relaxed);
    let before = connected();
    caller.call(WITH_REPLY)?;
    caller.call(WITH_REPLY)?;
    let once = connected() - before == 1;
    caller.call(ONE_WAY)?;
    caller.call(WITH_REPLY)?;
    drop(caller);
    Ok(once && connected() - before == 2 && ALIVE.load(Relaxed) == 0)
}

fn call_that_can_never_be_sent_fails() -> Result<bool> {
    let _registered = CLASS.register(&NO_MODULE)?;
    let caller = Caller::new()?;
    let refused = caller.call(IMPOSSIBLE) == Err(EMSGSIZE);
    caller.call(WITH_REPLY)?;
    drop(caller);
    Ok(refused && ALIVE.load(Relaxed) == 0)
}

fn call_that_cannot_be_sent_any_more_fails_no_other() -> Result<bool> {
    let _registered = CLASS.register(&NO_MODULE)?;
    let caller = Arc::new(Caller::new()?, GFP_KERNEL)?;
    caller.call(WITH_REPLY)?;
    BUSY.store(true, Relaxed);
    let unsendable = caller.start(UNSENDABLE, cbindings::RPC_TASK_SOFT as c_int);
    fsleep(Delta::from_millis(200));
    let sendable = caller.start(WITH_REPLY, 0);
    // The first call is the first to be sent. But its task waits again for its turn after each
    // time-out, so the task of the second one sends both.
    fsleep(Delta::from_millis(1_000));
    BUSY.store(false, Relaxed);
    caller.call(WITH_REPLY)?;
    let statuses = [unsendable?.status(), sendable?.status()];
    drop(caller);
    Ok(statuses == [EIO.to_errno(), 0] && ALIVE.load(Relaxed) == 0)
}

fn worker_may_wait_for_memory() -> Result<bool> {
    static ASKED: AtomicBool = AtomicBool::new(false);
    static MAY_WAIT: AtomicBool = AtomicBool::new(false);
    ASKED.store(false, Relaxed);
    workqueue::system().try_spawn(GFP_KERNEL, || {
        let flags = gfp_flags();
        let may_wait = flags.contains(GFP_KERNEL | __GFP_NOWARN) && flags != GFP_KERNEL;
        MAY_WAIT.store(may_wait, Relaxed);
        ASKED.store(true, Release);
    })?;
    let asked = (0..500).any(|_| {
        fsleep(Delta::from_millis(10));
        ASKED.load(Acquire)
    });
    Ok(asked && MAY_WAIT.load(Relaxed) && gfp_flags() == GFP_KERNEL)
}

fn device_that_fails_for_a_moment_fails_no_call() -> Result<bool> {
    let _registered = CLASS.register(&NO_MODULE)?;
    let caller = Caller::new()?;
    FAIL.store(true, Relaxed);
    let replied = caller.call(WITH_REPLY).is_ok();
    let failed = !FAIL.swap(false, Relaxed);
    drop(caller);
    Ok(failed && replied && ALIVE.load(Relaxed) == 0)
}

fn attempts_to_connect_are_a_few_seconds_apart() -> Result<bool> {
    let _registered = CLASS.register(&NO_MODULE)?;
    let caller = Caller::new()?;
    // Two are made at once.
    BROKEN_OFF.store(4, Relaxed);
    let begin = jiffies();
    caller.call(WITH_REPLY)?;
    let took = jiffies().wrapping_sub(begin);
    let all = BROKEN_OFF.load(Relaxed) == 0;
    drop(caller);
    let expected = 3 * ATTEMPT_INTERVAL;
    Ok(all
        && (expected - HZ..expected + 2 * ATTEMPT_INTERVAL).contains(&took)
        && ALIVE.load(Relaxed) == 0)
}

fn call_that_must_not_wait_fails_with_the_first_attempt() -> Result<bool> {
    let _registered = CLASS.register(&NO_MODULE)?;
    let caller = Caller::with(&SHORT_TIMEOUT, cbindings::rpc_auth_flavors_RPC_AUTH_NULL)?;
    UNANSWERED.store(2, Relaxed);
    // As the first call of a mount, and that to the server of a referral.
    let flags = cbindings::RPC_TASK_SOFT | cbindings::RPC_TASK_SOFTCONN;
    let failed = caller.call_with(WITH_REPLY, flags as c_int) == Err(ehostunreach());
    let once = UNANSWERED.swap(0, Relaxed) == 1;
    caller.call(WITH_REPLY)?;
    drop(caller);
    Ok(failed && once && ALIVE.load(Relaxed) == 0)
}

fn reply_may_come_before_its_call_is_counted_as_released() -> Result<bool> {
    let calls = OrphanedCalls::new();
    // The reply frees no credit yet, and the call then takes none.
    let early = !calls.replied() && !calls.add() && calls.credits() == 0;
    // In the usual order the call keeps a credit, which its reply frees, once.
    let late = calls.add() && calls.credits() == 1 && calls.replied();
    Ok(early && late && calls.credits() == 0 && !calls.replied())
}

fn time_for_a_reply_counts_from_when_the_call_was_sent() -> Result<bool> {
    let _registered = CLASS.register(&NO_MODULE)?;
    let caller = Caller::with(&SHORT_TIMEOUT, cbindings::rpc_auth_flavors_RPC_AUTH_NULL)?;
    let caller = Arc::new(caller, GFP_KERNEL)?;
    caller.call(WITH_REPLY)?;
    let before = CONNECTED.load(Relaxed);
    let connected = || CONNECTED.load(Relaxed) - before;
    // The calls wait for three quarters of their time before they are sent. NFSv4 sets the flag,
    // NFSv3 does not.
    SILENT.store(true, Relaxed);
    BUSY.store(true, Relaxed);
    let calls = [cbindings::RPC_TASK_NO_RETRANS_TIMEOUT as c_int, 0];
    let calls = calls.map(|flags| caller.start(WITH_REPLY, flags));
    fsleep(Delta::from_millis(1_500));
    BUSY.store(false, Relaxed);
    let another = caller.start(WITH_REPLY, 0);
    // Their time is over, but they have been sent for less than half of it.
    fsleep(Delta::from_millis(800));
    let stays = connected() == 0;
    // In the end they are sent over another connection.
    SILENT.store(false, Relaxed);
    let mut replied = another?.status() == 0;
    for call in calls {
        replied &= call?.status() == 0;
    }
    let connected = connected();
    drop(caller);
    Ok(stays && replied && connected == 1 && ALIVE.load(Relaxed) == 0)
}

fn peer_reads_nothing_that_is_encrypted_once_more() -> Result<bool> {
    let _registered = CLASS.register(&NO_MODULE)?;
    // For this crate the flavor is like RPCSEC_GSS, as it is neither of the two that leave the
    // arguments as they are.
    let caller = Caller::with(&TIMEOUT, cbindings::rpc_auth_flavors_RPC_AUTH_TLS)?;
    let caller = Arc::new(caller, GFP_KERNEL)?;
    let call = || caller.start(WITH_REPLY, 0);
    // It is an error for AUTH_TLS, but there is a reply.
    call()?.status();
    let before = CONNECTED.load(Relaxed);
    ENCODED_READABLE.store(false, Relaxed);
    SILENT.store(true, Relaxed);
    let call = call();
    let sent = (0..5_000).any(|_| {
        fsleep(Delta::from_millis(1));
        READABLE.load(Relaxed)
    });
    SILENT.store(false, Relaxed);
    // There is a reply when the call was encoded anew and sent over another connection.
    call?.status();
    let again = CONNECTED.load(Relaxed) != before;
    let never_readable = !ENCODED_READABLE.load(Relaxed);
    drop(caller);
    Ok(sent && again && never_readable && ALIVE.load(Relaxed) == 0)
}

fn call_that_is_not_understood_is_sent_again_at_once() -> Result<bool> {
    let _registered = CLASS.register(&NO_MODULE)?;
    let caller = Caller::with(&SHORT_TIMEOUT, cbindings::rpc_auth_flavors_RPC_AUTH_NULL)?;
    caller.call(WITH_REPLY)?;
    let before = CONNECTED.load(Relaxed);
    TIMED_OUT.store(false, Relaxed);
    REFUSE.store(true, Relaxed);
    caller.call(WITH_REPLY)?;
    let refused = !REFUSE.swap(false, Relaxed);
    let at_once = !TIMED_OUT.load(Relaxed);
    let stays = CONNECTED.load(Relaxed) == before;
    drop(caller);
    Ok(refused && at_once && stays && ALIVE.load(Relaxed) == 0)
}

fn reply_does_not_close_an_opened_window() -> Result<bool> {
    let _registered = CLASS.register(&NO_MODULE)?;
    let caller = Caller::new()?;
    let stays = caller.with_transport(|xprt| {
        let is = |credits| xprt.fills_window(credits) && !xprt.fills_window(credits - 1);
        xprt.set_window(2, || 2);
        let before = is(2);
        // When the grant was taken, there were resources for two calls. Now there are for four.
        let grant = 2;
        xprt.open_window(xprt.connect_cookie(), |set| set(4));
        xprt.set_window(grant, || 4);
        before && is(4)
    });
    drop(caller);
    Ok(stays && ALIVE.load(Relaxed) == 0)
}

fn attempt_to_connect_holds_up_nothing() -> Result<bool> {
    let _registered = CLASS.register(&NO_MODULE)?;
    let caller = Arc::new(Caller::new()?, GFP_KERNEL)?;
    SLOW.store(true, Relaxed);
    let call = caller.start(WITH_REPLY, 0)?;
    let began = (0..500).any(|_| {
        fsleep(Delta::from_millis(10));
        CONNECTING.load(Relaxed)
    });
    // sunrpc's queue closes, receives and sends for all transports. When memory is short it has one
    // thread.
    // SAFETY: sunrpc has the queue as long as it is loaded.
    let queue = unsafe { cbindings::xprtiod_workqueue };
    // SAFETY: The queue is there, and the caller is no work item of it.
    unsafe { cbindings::__flush_workqueue(queue) };
    let meanwhile = CONNECTING.load(Relaxed);
    SLOW.store(false, Relaxed);
    let replied = call.status() == 0;
    drop(caller);
    Ok(began && meanwhile && replied && ALIVE.load(Relaxed) == 0)
}
