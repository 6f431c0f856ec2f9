// SPDX-License-Identifier: GPL-2.0

//! Tests of the policy of a Send queue: here without a queue pair, and in [`send_queue`] with one.

pub mod connection;
mod send_queue;

use super::send_policy::Signalling;
use kernel::{
    prelude::*,
    time::{
        msecs_to_jiffies,
        Jiffies, //
    }, //
};
use rdma::{
    rate_limit::RateLimit,
    NextSend,
    SqCredits, //
};

/// A test, which returns true if it passed.
type Test = fn() -> Result<bool>;

/// The tests, each with the claim that it shows.
pub const TESTS: &[(&str, Test)] = &[
    (
        "one Send in sixteen asks for a completion",
        one_send_in_sixteen_asks,
    ),
    (
        "a Send with Writes before it asks for a completion",
        send_with_writes_asks,
    ),
    (
        "a Send that takes the last buffer asks for a completion",
        send_with_the_last_buffer_asks,
    ),
    (
        "memory that a Send took along is covered by the first Send a second later",
        old_memory_is_covered,
    ),
    (
        "as many SQ credits are reserved as there are, and come back",
        credits_come_back,
    ),
    ("ten lines are logged in five seconds", ten_lines_are_logged),
    (
        "the next line says how many were left out",
        left_out_lines_are_counted,
    ),
    (
        "a caller that found no Send buffer is woken by the next, once",
        send_queue::caller_without_buffer_is_woken_once,
    ),
    (
        "a caller that found no SQ credits is woken by the next completion",
        send_queue::caller_without_credits_is_woken,
    ),
    (
        "Send buffers are made when none is free, up to the limit",
        send_queue::buffers_are_made_up_to_the_limit,
    ),
    (
        "a Send buffer that was not made may be made later",
        send_queue::buffer_that_was_not_made_may_be_made_later,
    ),
    (
        "when no Send buffer can be made, a barrier brings one that was posted without a completion",
        send_queue::barrier_brings_the_buffer_that_cannot_be_made,
    ),
    (
        "a Send asks for a completion if no buffer is free and there are enough, or no more",
        send_queue::completions_are_asked_for_if_there_are_enough_buffers,
    ),
    (
        "Send buffers that are given up may be made again",
        send_queue::buffers_are_given_up,
    ),
    (
        "a Send that finds no room for its registrations is woken by the completion that makes room",
        send_queue::registrations_wait_for_room,
    ),
    (
        "spare Send buffers leave as many as one completion may cover",
        send_queue::spare_buffers_leave_an_interval,
    ),
    (
        "a transfer that is over is used for the next",
        send_queue::transfer_that_is_over_is_used_again,
    ),
    (
        "a Send that gathers data takes no long transfer",
        send_queue::gathered_data_leaves_long_transfers,
    ),
    (
        "transfers that are over are kept up to a limit",
        send_queue::transfers_are_kept_up_to_a_limit,
    ),
    (
        "a deferred Send goes out with the next that is not, or on demand",
        send_queue::deferred_send_goes_with_the_next,
    ),
    (
        "a Send that asks for a completion is not deferred",
        send_queue::send_that_asks_for_a_completion_is_not_deferred,
    ),
    (
        "a barrier completes after the Sends before it",
        send_queue::barrier_covers_earlier_sends,
    ),
    (
        "a deferred Send ends with a drain, and is never sent",
        send_queue::deferred_send_ends_with_a_drain,
    ),
];

const NOW: Jiffies = Jiffies::MAX - 10;

const PLAIN: NextSend = NextSend {
    has_writes: false,
    has_gathered: false,
    lacks_room: false,
    now: NOW,
};

fn one_send_in_sixteen_asks() -> Result<bool> {
    let mut signalling = Signalling::new();
    Ok((1..=64).all(|count| signalling.asks_for_completion(&PLAIN, false) == (count % 16 == 0)))
}

fn send_with_writes_asks() -> Result<bool> {
    let mut signalling = Signalling::new();
    let writes = NextSend {
        has_writes: true,
        ..PLAIN
    };
    let asks = signalling.asks_for_completion(&writes, false);
    // The count starts again.
    let next = (1..=15).any(|_| signalling.asks_for_completion(&PLAIN, false));
    Ok(asks && !next && signalling.asks_for_completion(&PLAIN, false))
}

fn send_with_the_last_buffer_asks() -> Result<bool> {
    let mut signalling = Signalling::new();
    Ok(signalling.asks_for_completion(&PLAIN, true)
        && !signalling.asks_for_completion(&PLAIN, false))
}

fn old_memory_is_covered() -> Result<bool> {
    let second = msecs_to_jiffies(Signalling::MAX_GATHERED_AGE_MS);
    let at = |now: Jiffies, has_gathered| NextSend {
        has_gathered,
        now,
        ..PLAIN
    };
    let mut signalling = Signalling::new();
    let lends = signalling.asks_for_completion(&at(NOW, true), false);
    // The clock wraps meanwhile. Younger memory does not reset the age of older memory.
    let almost = NOW.wrapping_add(second - 1);
    let early = signalling.asks_for_completion(&at(almost, true), false);
    let due = signalling.asks_for_completion(&at(NOW.wrapping_add(second), false), false);
    let after = signalling.asks_for_completion(&at(NOW.wrapping_add(2 * second), false), false);
    Ok(!lends && !early && due && !after)
}

fn credits_come_back() -> Result<bool> {
    let credits = SqCredits::new(5)?;
    let three = credits.reserve(3).ok_or(ENOMEM)?;
    let too_many = credits.reserve(3).is_none();
    let two = credits.reserve(2).ok_or(ENOMEM)?;
    let none = credits.reserve(1).is_none() && credits.reserve(0).is_some();
    drop(two);
    let some = credits.reserve(3).is_none() && credits.reserve(2).is_some();
    // What is resized gives back what it does not need, and all if there are not enough.
    let four = three.resize(4).ok_or(ENOMEM)?;
    let one_left = credits.free() == 1;
    let two = four.resize(2).ok_or(ENOMEM)?;
    let three_left = credits.free() == 3;
    let all = two.resize(6).is_none() && credits.free() == 5 && credits.total() == 5;
    Ok(too_many && none && some && one_left && three_left && all)
}

fn ten_lines_are_logged() -> Result<bool> {
    let limit = RateLimit::new();
    let lines = |now| (0..100).filter(|_| limit.allows_at(now).is_some()).count();
    let begin = RateLimit::INTERVAL_NS * 3;
    let first = lines(begin) + lines(begin + RateLimit::INTERVAL_NS - 1);
    let second = lines(begin + RateLimit::INTERVAL_NS);
    let each = usize::try_from(RateLimit::LINES)?;
    Ok(first == each && second == each)
}

fn left_out_lines_are_counted() -> Result<bool> {
    let limit = RateLimit::new();
    let begin = RateLimit::INTERVAL_NS * 3;
    let none = (0..RateLimit::LINES).all(|_| limit.allows_at(begin) == Some(0));
    let left_out = (0..7).all(|_| limit.allows_at(begin).is_none());
    let next = begin + RateLimit::INTERVAL_NS;
    let reported = limit.allows_at(next) == Some(7) && limit.allows_at(next) == Some(0);
    Ok(none && left_out && reported)
}
