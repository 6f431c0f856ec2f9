// SPDX-License-Identifier: GPL-2.0

//! Tests of parts of a connection: queues, budgets, credits, limits.

mod accept_queue;
mod connection;
mod read_permit;
mod work_queue;

use crate::prelude::*;

/// A test, which returns true if it passed.
type Test = fn() -> Result<bool>;

/// The tests, each with the claim that it shows.
pub const TESTS: &[(&str, Test)] = &[
    (
        "a connection may read one call, whatever others read",
        read_permit::one_call_is_always_read,
    ),
    (
        "a call that is not read after all leaves another one its turn",
        read_permit::call_that_is_not_read_lets_another,
    ),
    (
        "a call that waits for the pages of another is woken once",
        read_permit::end_of_a_call_wakes_once,
    ),
    (
        "what waits comes out of its queue with its own message and state",
        work_queue::each_element_keeps_its_message_and_state,
    ),
    (
        "Reads that find too few credits again are tried before others",
        work_queue::element_that_is_tried_again_is_the_first,
    ),
    (
        "a connection that has ended has no queues",
        connection::ended_connection_has_no_queues,
    ),
    (
        "a thread that is late with a malformed message counts it before the call that followed",
        connection::late_malformed_message_is_before_the_call,
    ),
    (
        "credits go back when their connection ends, also if a thread is taking more",
        connection::credits_go_back_when_the_connection_ends,
    ),
    (
        "most replies raise no grant, and take no lock to find out",
        connection::round_trip_is_looked_up_seldom,
    ),
    (
        "idle pages for RDMA Reads go back when memory is short, and no others",
        connection::idle_pages_go_back,
    ),
    (
        "a pool keeps so many pages and no more",
        connection::pool_keeps_so_many_pages,
    ),
    (
        "a page with another reference is not kept",
        connection::page_of_somebody_else_is_not_kept,
    ),
    (
        "a call that the client denied access to is answered once, and only to that client",
        connection::call_is_answered_once,
    ),
    (
        "a client that denies access to many calls does not push out those of others",
        connection::calls_of_another_client_stay,
    ),
    (
        "a connection notices each call that is added",
        connection::each_call_is_counted,
    ),
    (
        "however short a queue pair is, the memory for the longest WRITE can be registered",
        connection::longest_call_can_be_registered,
    ),
    (
        "a queue pair that fails is one lost connection, however often the device says so",
        connection::failed_queue_pair_is_one_lost_connection,
    ),
    (
        "a client that has gone before it is accepted is passed over, and has no queue pair",
        accept_queue::client_that_has_gone_is_passed_over,
    ),
    (
        "clients that have gone before they are accepted are forgotten without a thread",
        accept_queue::clients_that_have_gone_are_forgotten,
    ),
    (
        "when so many clients wait to be accepted, the next one is rejected, also if they are of one host",
        accept_queue::one_client_too_many_is_rejected,
    ),
    (
        "a host that had many connections accepted waits for the next one",
        accept_queue::host_that_had_many_accepted_waits,
    ),
];
