// SPDX-License-Identifier: GPL-2.0

//! Tests that need a device: memory that the device or the peer may access is kept, whatever fails,
//! until neither can.
//!
//! The device, such as soft RoCE, has the address 192.0.2.1. Both ends of a connection are created
//! there.

mod batches;
mod coverage;
mod drain;
mod fixture;
mod handler;
mod lost_completions;
mod memory_lifetime;
mod message_queue;
mod misuse;
mod policy;
mod queue_events;
mod round_trip;
mod route_queries;

pub use fixture::{
    address,
    net, //
};
pub use queue_events::report_fatal_events;

use kernel::error::Result;

/// A test, which returns true if it passed.
pub type Test = fn() -> Result<bool>;

/// The tests, each with the claim that it shows.
pub const TESTS: &[(&str, Test)] = &[
    // Shows SEC-19.
    (
        "data of a Send stays when the Send has arrived",
        memory_lifetime::data_stays_when_the_send_has_arrived,
    ),
    (
        "data of a Send goes with a later completion",
        memory_lifetime::data_goes_with_a_later_completion,
    ),
    (
        "a message can be read without its device",
        memory_lifetime::message_can_be_read_without_its_device,
    ),
    (
        "messages come out of a queue in order, and one that is put back is the first",
        message_queue::messages_come_in_order,
    ),
    (
        "the Receive of a message goes with the memory of that message only",
        memory_lifetime::message_is_joined_with_its_own_memory,
    ),
    // Shows S4.5.4-01, SEC-07.
    (
        "a Send that cannot be posted leaves no region valid",
        memory_lifetime::unposted_send_leaves_no_region_valid,
    ),
    // Shows SEC-11.
    (
        "an invalidation that cannot be posted gives its regions back",
        memory_lifetime::unposted_invalidation_gives_back,
    ),
    // Shows S4.5.4-02, SEC-11, SEC-18.
    (
        "an invalidation that fails does not free its regions",
        memory_lifetime::failed_invalidation_does_not_free,
    ),
    // Shows S8.1.3-03, SEC-08, SEC-09.
    (
        "memory is released before the upper layer learns that it is invalid",
        memory_lifetime::memory_is_released_before_it_is_reported,
    ),
    // Shows SEC-10.
    (
        "one invalidation that fails, wherever in its chain, fails all",
        memory_lifetime::one_failed_invalidation_fails_all,
    ),
    // Shows SEC-07.
    (
        "registrations are posted directly before their Send",
        memory_lifetime::registrations_precede_their_send,
    ),
    // Shows SEC-05.
    (
        "a region has another key each time",
        memory_lifetime::a_region_has_another_key_each_time,
    ),
    (
        "a region covers head, pages and tail of a message, where the device takes gaps",
        coverage::region_covers_what_the_device_takes,
    ),
    // Shows SEC-18.
    (
        "nothing is released before the queue pair is destroyed",
        drain::nothing_is_released_before_the_queue_pair_is_destroyed,
    ),
    (
        "a queue pair is drained once",
        drain::a_queue_pair_is_drained_once,
    ),
    (
        "a region that is not deregistered keeps its memory",
        memory_lifetime::region_that_is_not_deregistered_keeps_its_memory,
    ),
    (
        "a Read that never completes goes with its queue pair",
        lost_completions::lost_read_goes_with_its_queue_pair,
    ),
    (
        "a Read whose completion is lost keeps the pages that were moved into it",
        lost_completions::lost_read_keeps_its_own_pages,
    ),
    // Shows S4.5.4-02.
    (
        "an invalidation that never completes gives its regions back",
        lost_completions::lost_invalidation_is_given_back,
    ),
    (
        "a Receive that never completes goes with its queue pair",
        lost_completions::lost_receive_goes_with_its_queue_pair,
    ),
    (
        "so does one that no completion handler has taken over",
        lost_completions::unseen_receive_goes_with_its_queue_pair,
    ),
    (
        "a Receive that completes makes room for one, and no more",
        lost_completions::completed_receive_makes_room,
    ),
    (
        "a batch has the elements of its own requests, and one completion",
        batches::batch_has_its_own,
    ),
    (
        "Reads that are more than a batch bring all",
        batches::reads_go_in_batches,
    ),
    (
        "pages that were moved into Reads come back with the data",
        batches::own_pages_come_back,
    ),
    (
        "pages that were moved into Reads are freed if a Read is denied",
        batches::own_pages_go_with_a_denied_read,
    ),
    (
        "pages that were moved into Reads come back, or are freed, if these are not posted",
        batches::own_pages_of_unposted_reads_come_back,
    ),
    (
        "the upper layer learns of a batch that could not be posted",
        batches::unposted_batch_is_reported,
    ),
    (
        "RDMA Reads that complete cover the Sends before them, and no barrier is posted beside them",
        batches::reads_cover_sends_before_them,
    ),
    (
        "Writes that are more than a batch are there before their Send",
        batches::writes_go_in_batches,
    ),
    // Shows SEC-23, P7.1-1.
    (
        "a Read that is denied fails all of them, whatever batch it is of",
        batches::denied_read_fails_all,
    ),
    // Shows P7.1-1.
    (
        "a Write that is denied fails its message, whatever batch it is of",
        batches::denied_write_fails_its_message,
    ),
    (
        "Reads go with no Send, and Writes are no Reads",
        misuse::reads_and_writes_are_not_mixed_up,
    ),
    (
        "Reads of which nothing is posted give back what goes with them",
        misuse::reads_that_are_not_posted_give_their_context_back,
    ),
    // Shows S8.1.3-01.
    (
        "memory that a Send is to register is denied before that",
        misuse::planned_memory_is_denied,
    ),
    (
        "data that would be gathered behind the end of a message is refused",
        misuse::gathering_behind_the_end_is_refused,
    ),
    (
        "an id has no device and no addresses before it is resolved",
        misuse::unresolved_id_has_no_device,
    ),
    (
        "no request has more elements than its queue pair takes",
        misuse::queue_pair_bounds_elements,
    ),
    (
        "an id without a connection request is neither accepted nor rejected",
        misuse::id_without_request_is_not_answered,
    ),
    (
        "the upper layer gets events of its queue pair, and learns which are fatal",
        queue_events::upper_layer_learns_what_is_fatal,
    ),
    (
        "the least round trip of two minutes ago is forgotten",
        round_trip::old_round_trips_are_forgotten,
    ),
    (
        "few round trips are no estimate",
        round_trip::few_round_trips_are_no_estimate,
    ),
    (
        "the removal of a device waits for a query of a route, and lets none begin",
        route_queries::removal_waits,
    ),
    (
        "a query of a route is over when it is answered",
        route_queries::query_ends_with_its_answer,
    ),
    (
        "a query of a route is over when its id is destroyed",
        route_queries::query_ends_with_its_id,
    ),
];
