// SPDX-License-Identifier: GPL-2.0

//! Tests that need the kernel's TCP and SCTP: connections over the loopback interface, with both
//! ends in this crate.

mod connecting;
mod fixture;
mod receiving;
mod sctp;
mod sending;

use kernel::error::Result;
pub(crate) use receiving::Shortage;

/// A test, which returns true if it passed.
pub type Test = fn() -> Result<bool>;

/// The tests, each with its name, which is its claim.
pub const TESTS: &[(&str, Test)] = &[
    (
        "both ends of a connection over IPv4 have the addresses of each other",
        connecting::ends_agree_over_ipv4,
    ),
    (
        "both ends of a connection over IPv6 have the addresses of each other",
        connecting::ends_agree_over_ipv6,
    ),
    (
        "who connects where nobody listens is refused",
        connecting::nobody_listens,
    ),
    (
        "who connects to a silent peer is told after the user timeout",
        connecting::silent_peer_times_out,
    ),
    (
        "who connects from a port that is taken gets another one",
        connecting::taken_port_is_another,
    ),
    (
        "listeners of IPv4 and of IPv6 share a port, and two of one do not",
        connecting::families_share_a_port,
    ),
    (
        "a listener of one interface is not found over another",
        connecting::listener_has_an_interface,
    ),
    (
        "events that came before somebody listened are told",
        connecting::earlier_events_are_told,
    ),
    (
        "a frame is whole, however TCP cut it",
        receiving::frame_is_whole_however_it_was_cut,
    ),
    (
        "a frame that was not taken is the next one again",
        receiving::frame_that_was_not_taken_stays,
    ),
    (
        "what leaves a frame is refused",
        receiving::what_leaves_a_frame_is_refused,
    ),
    (
        "a head that tells nonsense is refused, and nothing is taken",
        receiving::nonsense_is_refused,
    ),
    (
        "much that arrived is shown in portions",
        receiving::portions_are_bounded,
    ),
    (
        "urgent octets stay in the stream",
        receiving::urgent_octets_stay,
    ),
    (
        "a stream ends between frames or within one",
        receiving::stream_ends_between_frames_or_within,
    ),
    (
        "part of a frame has an age, until the frame is taken",
        receiving::part_has_an_age,
    ),
    (
        "a frame larger than the receive buffer is put together",
        receiving::larger_than_the_receive_buffer,
    ),
    (
        "frames that were put together and others come in order",
        receiving::frames_come_in_order,
    ),
    (
        "a frame of the greatest length arrives in a buffer that TCP sizes",
        receiving::greatest_length_arrives,
    ),
    (
        "a stream that ends while a frame is put together ends within it",
        receiving::stream_ends_within,
    ),
    (
        "a frame is put together although memory is short, and until then there is a part that has an age",
        receiving::shortage_loses_nothing,
    ),
    (
        "a peer that does not receive stops who sends, and later wakes it",
        sending::full_connection_wakes,
    ),
    (
        "a peer that never receives ends the connection after the user timeout",
        sending::peer_that_never_receives,
    ),
    (
        "too many pieces are refused, and none is sent",
        sending::too_many_pieces,
    ),
    (
        "pages that TCP sends from are room again when the peer has read them, and not before",
        sending::pages_are_lent,
    ),
    (
        "pages that TCP sends from outlive their owner",
        sending::pages_outlive_their_owner,
    ),
    (
        "memory that TCP keeps to copy to is given back, and what is under way arrives",
        sending::memory_is_given_back,
    ),
    (
        "no event is told after detaching, while a peer sends",
        connecting::no_event_after_detaching,
    ),
    (
        "an aborted connection is reset, and an idle one ends in order",
        connecting::abort_and_close_differ,
    ),
    (
        "what was discarded does not reset the connection",
        connecting::discarded_octets_do_not_reset,
    ),
    (
        "peers that a listener did not accept are reset when it goes",
        connecting::listener_goes_with_children,
    ),
    (
        "peers may connect while their listener goes",
        connecting::listener_goes_while_peers_connect,
    ),
    (
        "addresses are read from a list with commas",
        sctp::list_is_read,
    ),
    (
        "addresses of private networks are offered to peers there only",
        sctp::addresses_are_of_one_scope,
    ),
    (
        "a socket of SCTP can have more addresses, if this host has them",
        sctp::addresses_are_of_this_host,
    ),
    // Shows S8-2, S11.1-1.
    (
        "both ends of an association over IPv4 hear of streams and adaptation layer",
        sctp::both_hear_over_ipv4,
    ),
    (
        "both ends of an association over IPv6 hear of streams and adaptation layer",
        sctp::both_hear_over_ipv6,
    ),
    (
        "who sets up an association where nobody listens is refused",
        sctp::nobody_listens,
    ),
    // Shows S10-1.
    (
        "a chunk arrives whole and unordered, with its payload protocol",
        sctp::chunk_is_whole,
    ),
    (
        "a chunk that is sent in pieces arrives as one",
        sctp::pieces_are_one_chunk,
    ),
    (
        "a chunk is the same until it is taken, and is read in parts",
        sctp::chunk_stays_until_it_is_taken,
    ),
    // Shows S9-4.
    (
        "a chunk longer than the fragmentation point is refused, and one as long is not",
        sctp::too_long_is_refused,
    ),
    // Shows S10-3.
    (
        "a full send buffer bounds the chunks on their way, and wakes who sends",
        sctp::full_buffer_wakes,
    ),
    (
        "that all is acknowledged is seen, and takes no memory",
        sctp::acknowledgement_is_seen_and_takes_no_memory,
    ),
    (
        "what a listener accepted has the functions of C, if nobody listens to it",
        sctp::accepted_has_functions_of_c,
    ),
    (
        "an association that ends differs from one that is aborted",
        sctp::end_and_loss_differ,
    ),
    (
        "what was sent before the end arrives",
        sctp::what_was_sent_last_arrives,
    ),
    (
        "associations that a listener did not accept end when it goes",
        sctp::listener_goes_with_children,
    ),
];
