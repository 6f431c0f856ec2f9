// SPDX-License-Identifier: GPL-2.0

//! Properties of every header, Terminate and control message, and hostile ones.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use rdmap::enhanced::{Enhanced, ReadDepth};
use rdmap::fault::{Cause, Code, Fault, Misuse, OffendingSegment, Violation};
use rdmap::header::{Header, Model, ReadRequest, Untagged};
use rdmap::sctp::chunk::{Body, Chunk, Control, Function, PPID_CONTROL, PPID_SEGMENT};
use rdmap::stag::{Access, Denied, Region, Stag};
use rdmap::terminate::Terminate;

fn untagged() -> impl Strategy<Value = Untagged> {
    prop_oneof![
        (any::<bool>(), option::of(any::<u32>().prop_map(Stag))).prop_map(
            |(solicited, invalidate)| Untagged::Send {
                solicited,
                invalidate
            }
        ),
        Just(Untagged::ReadRequest),
        Just(Untagged::Terminate),
    ]
}

fn header() -> impl Strategy<Value = Header> {
    let tagged =
        (any::<bool>(), any::<u32>(), any::<u64>()).prop_map(|(response, stag, offset)| {
            Model::Tagged {
                response,
                stag: Stag(stag),
                offset,
            }
        });
    let untagged = (untagged(), any::<u32>(), any::<u32>()).prop_map(|(message, msn, offset)| {
        Model::Untagged {
            message,
            msn,
            offset,
        }
    });
    (any::<bool>(), prop_oneof![tagged, untagged]).prop_map(|(last, model)| Header { last, model })
}

fn read_request() -> impl Strategy<Value = ReadRequest> {
    (
        any::<u32>(),
        any::<u64>(),
        any::<u32>(),
        any::<u32>(),
        any::<u64>(),
    )
        .prop_map(
            |(sink, sink_offset, length, source, source_offset)| ReadRequest {
                sink_stag: Stag(sink),
                sink_offset,
                length,
                source_stag: Stag(source),
                source_offset,
            },
        )
}

proptest! {
    #![proptest_config(crate::seeds_beside_tests())]

    // Shows P3.1-2, P3.1-6, P4.1-1, P4.1-2, P4.1-3, P4.1-5, P4.2-1, P5.3-10.
    #[test]
    fn header_comes_back(header in header(), payload in vec(any::<u8>(), 0..40)) {
        let mut segment = header.emit().as_slice().to_vec();
        prop_assert_eq!(Header::len_of(segment[0]), segment.len());
        segment.extend(&payload);
        prop_assert_eq!(Header::parse(&segment), Ok((header, &payload[..])));
    }

    // Shows P4.1-7, D-1.
    #[test]
    fn reserved_bits_are_ignored(header in header(), ddp in 0..16_u8, rdmap in 0..4_u8) {
        let mut segment = header.emit().as_slice().to_vec();
        segment[0] |= ddp << 2;
        segment[1] |= rdmap << 4;
        prop_assert_eq!(Header::parse(&segment), Ok((header, &[][..])));
    }

    // Shows P4.1-8.
    #[test]
    fn invalidate_stag_is_ignored_where_it_means_nothing(stag in any::<u32>(), code in prop_oneof![Just(1_u8), Just(3), Just(5), Just(7)]) {
        let queue = match code { 1 => 1, 7 => 2, _ => 0 };
        let mut segment = vec![0x41, 0x40 | code, 0, 0, 0, 0, 0, 0, 0, queue, 0, 0, 0, 1, 0, 0, 0, 0];
        let clean = Header::parse(&segment).map(|(header, _)| header);
        segment[2..6].copy_from_slice(&stag.to_be_bytes());
        let dirty = Header::parse(&segment).map(|(header, _)| header);
        prop_assert_eq!(clean, dirty);
        prop_assert!(dirty.is_ok());
        // Sent, it is zero.
        let sent = dirty.unwrap().emit();
        prop_assert_eq!(&sent.as_slice()[2..6], &[0; 4]);
    }

    // Shows P7.2-1, P7.2-6.
    #[test]
    fn any_segment_parses_or_has_a_code(segment in vec(any::<u8>(), 0..64)) {
        match Header::parse(&segment) {
            Ok((header, payload)) => {
                prop_assert!(segment.ends_with(payload));
                let again = header.emit();
                prop_assert_eq!(Header::parse(again.as_slice()), Ok((header, &[][..])));
            }
            Err(violation) => {
                let fault = Fault::peer(violation, OffendingSegment::of(&segment, segment.len()));
                let terminate = Terminate::new(&fault);
                prop_assert_eq!(Terminate::parse(terminate.emit().as_slice()), Some(terminate));
            }
        }
    }

    // Shows P4.4-1, P4.4-4, P4.4-5, P5.2.1-7.
    #[test]
    fn read_request_comes_back(request in read_request(), cut in 0..ReadRequest::LEN) {
        let octets = request.emit();
        prop_assert_eq!(octets.len(), ReadRequest::LEN);
        prop_assert_eq!(ReadRequest::parse(octets.as_slice()), Some(request));
        prop_assert_eq!(ReadRequest::parse(&octets.as_slice()[..cut]), None);
    }

    #[test]
    fn any_terminate_is_read_within_its_octets(payload in vec(any::<u8>(), 0..80)) {
        match Terminate::parse(&payload) {
            None => prop_assert!(payload.len() < 4),
            Some(terminate) => {
                let again = terminate.emit();
                prop_assert!(again.len() <= Terminate::MAX_LEN);
            }
        }
    }

    // Shows P5.2.1-10, P7.2-7c, P7.2-7d, P7.2-7e, P8.1.1-3.
    #[test]
    fn access_is_what_arithmetic_without_end_allows(
        base in prop_oneof![any::<u64>(), u64::MAX - 99..=u64::MAX, 0..100_u64],
        length in prop_oneof![any::<u64>(), 0..200_u64],
        offset in prop_oneof![any::<u64>(), u64::MAX - 99..=u64::MAX, 0..200_u64],
        want in prop_oneof![1..200_u32, 1..=u32::MAX],
    ) {
        let region = Region { base, length, valid: true, of_this_stream: true, remote_read: true,
            remote_write: false, remote_atomic: false, remote_invalidate: false };
        let (first, end) = (u128::from(offset), u128::from(offset) + u128::from(want));
        let expected = if end > 1 << 64 {
            Err(Denied::Wrap)
        } else if first < u128::from(base) || end > u128::from(base) + u128::from(length) {
            Err(Denied::Bounds)
        } else {
            Ok(())
        };
        prop_assert_eq!(region.check(offset, want, Access::RemoteRead), expected);
    }

    #[test]
    fn enhanced_comes_back(octets in any::<[u8; 4]>()) {
        let (enhanced, rest) = Enhanced::split(&octets).unwrap();
        prop_assert!(rest.is_empty());
        let again = enhanced.emit();
        prop_assert_eq!(again.as_slice(), octets);
    }

    // Shows S5.2.3-2, S5.2.3-3.
    #[test]
    fn any_chunk_is_read_within_its_octets(ppid in 15..19_u32, payload in vec(any::<u8>(), 0..600)) {
        let Ok(chunk) = Chunk::parse(ppid, true, &payload) else {
            return Ok(());
        };
        prop_assert_eq!(&chunk.ssn.to_be_bytes(), &payload[..2]);
        match chunk.body {
            Body::Segment(segment) => prop_assert_eq!(segment, &payload[2..]),
            Body::Control(control) => {
                let mut out = [0; 516];
                let length = control.emit(chunk.ssn, &mut out).unwrap();
                let again = Chunk::parse(PPID_CONTROL, true, &out[..length]).unwrap();
                prop_assert_eq!(again, chunk);
            }
        }
    }
}

fn refused(octets: [u8; 18]) -> Code {
    Cause::Peer(Header::parse(&octets).unwrap_err()).code()
}

fn with(changes: &[(usize, u8)]) -> [u8; 18] {
    let mut octets = [0; 18];
    octets[..2].copy_from_slice(&[0x41, 0x43]);
    for (at, octet) in changes {
        octets[*at] = *octet;
    }
    octets
}

// Shows P4.1-6, P7.2-1, P7.2-3, D-1, D-9.
#[test]
fn wrong_versions_are_named_by_layer() {
    assert_eq!(refused(with(&[(0, 0x40)])), Code::new(1, 2, 6));
    assert_eq!(refused(with(&[(0, 0x42)])), Code::new(1, 2, 6));
    assert_eq!(refused(with(&[(0, 0xc0), (1, 0x40)])), Code::new(1, 1, 4));
    // The version of the RDMA Consortium is not supported.
    assert_eq!(refused(with(&[(1, 0x03)])), Code::new(0, 2, 5));
    assert_eq!(refused(with(&[(1, 0x83)])), Code::new(0, 2, 5));
}

// Shows P4.1-3, P4.1-4, P7.2-2, P7.2-6, X4.1-3, X4.1-4.
#[test]
fn opcode_must_fit_model_and_queue() {
    for code in 12..16 {
        assert_eq!(refused(with(&[(1, 0x40 | code)])), Code::new(0, 2, 6));
    }
    // A Write and a Read Response that are untagged, the others tagged.
    for code in [0, 2] {
        assert_eq!(refused(with(&[(1, 0x40 | code)])), Code::new(0, 2, 6));
    }
    for code in [1, 3, 4, 5, 6, 7, 8, 9, 10, 11] {
        let tagged = with(&[(0, 0xc1), (1, 0x40 | code)]);
        assert_eq!(refused(tagged), Code::new(0, 2, 6));
    }
    // A Send in the queue of Read Requests, a Read Request in that of Sends.
    assert_eq!(refused(with(&[(9, 1)])), Code::new(0, 2, 6));
    assert_eq!(refused(with(&[(1, 0x41)])), Code::new(0, 2, 6));
}

// Shows P3.1-2, P7.2-6, X4.1-3, X4.1-4.
#[test]
fn there_are_four_queues() {
    assert_eq!(refused(with(&[(9, 3)])), Code::new(0, 2, 6));
    for queue in [4, 0xff] {
        assert_eq!(refused(with(&[(9, queue)])), Code::new(1, 2, 1));
    }
    assert_eq!(refused(with(&[(6, 1)])), Code::new(1, 2, 1));
}

#[test]
fn version_is_looked_at_before_opcode_and_queue() {
    let all_wrong = with(&[(0, 0x42), (1, 0x0f), (9, 9)]);
    assert_eq!(refused(all_wrong), Code::new(1, 2, 6));
    let rdmap_wrong = with(&[(1, 0x0f), (9, 9)]);
    assert_eq!(refused(rdmap_wrong), Code::new(0, 2, 5));
    let opcode_wrong = with(&[(1, 0x4f), (9, 9)]);
    assert_eq!(refused(opcode_wrong), Code::new(0, 2, 6));
}

#[test]
fn segment_shorter_than_its_header_is_refused() {
    let segment = with(&[]);
    for length in 0..18 {
        let short = Header::parse(&segment[..length]);
        assert_eq!(short, Err(Violation::Truncated));
    }
    let tagged = with(&[(0, 0xc1), (1, 0x40)]);
    assert_eq!(Header::parse(&tagged[..13]), Err(Violation::Truncated));
    assert!(Header::parse(&tagged[..14]).is_ok());
}

// Shows P4.8-2.
#[test]
fn codes_are_those_of_the_registries() {
    let table = [
        (Violation::Source(Denied::Invalid), (0, 1, 0)),
        (Violation::Source(Denied::Bounds), (0, 1, 1)),
        (Violation::Source(Denied::Rights), (0, 1, 2)),
        (Violation::Source(Denied::Stream), (0, 1, 3)),
        (Violation::Source(Denied::Wrap), (0, 1, 4)),
        (Violation::Invalidate(Denied::Stream), (0, 1, 9)),
        (Violation::Invalidate(Denied::Shared), (0, 1, 9)),
        (Violation::Invalidate(Denied::Invalid), (0, 2, 9)),
        (Violation::RdmapVersion, (0, 2, 5)),
        (Violation::Opcode, (0, 2, 6)),
        (Violation::NoRead, (0, 2, 6)),
        (Violation::Truncated, (0, 2, 0xff)),
        (Violation::Tagged(Denied::Invalid), (1, 1, 0)),
        (Violation::Tagged(Denied::Rights), (1, 1, 0)),
        (Violation::Tagged(Denied::Bounds), (1, 1, 1)),
        (Violation::Tagged(Denied::Stream), (1, 1, 2)),
        (Violation::Tagged(Denied::Wrap), (1, 1, 3)),
        (Violation::DdpVersion { tagged: true }, (1, 1, 4)),
        (Violation::Queue, (1, 2, 1)),
        (Violation::NoBuffer, (1, 2, 2)),
        (Violation::MessageNumber, (1, 2, 3)),
        (Violation::MessageOffset, (1, 2, 4)),
        (Violation::TooLong, (1, 2, 5)),
        (Violation::DdpVersion { tagged: false }, (1, 2, 6)),
    ];
    for (violation, (layer, etype, code)) in table {
        assert_eq!(
            violation.code(),
            Code::new(layer, etype, code),
            "{violation:?}"
        );
    }
}

/// RFC 5040, section 4.8: behind the control word there may be the length of a segment (M), its DDP
/// header (D) and that of a Read Request (R).
// Shows P4.8-5, P4.8-6, P4.8-7.
#[test]
fn terminate_is_read_as_its_bits_say() {
    let mut payload = vec![0x11, 0x02, 0, 0, 0, 46];
    payload.extend([0xc1; 14]);
    payload.extend([7; 28]);
    let read = ReadRequest {
        sink_stag: Stag(0x0707_0707),
        sink_offset: 0x0707_0707_0707_0707,
        length: 0x0707_0707,
        source_stag: Stag(0x0707_0707),
        source_offset: 0x0707_0707_0707_0707,
    };
    for (bits, has_length, has_header, has_read) in [
        (0x00, false, false, false),
        (0x1f, false, false, false),
        (0x20, false, false, false),
        (0x40, false, true, false),
        (0x60, false, true, true),
        (0x80, true, false, false),
        (0xa0, true, false, false),
        (0xc0, true, true, false),
        (0xe0, true, true, true),
    ] {
        payload[2] = bits;
        let told = Terminate::parse(&payload).unwrap();
        assert_eq!(told.code, Code::new(1, 1, 2));
        let header = told.header.as_ref().map(|header| header.as_slice());
        assert_eq!(told.segment_length, has_length.then_some(46), "{bits:#x}");
        assert_eq!(header, has_header.then_some(&[0xc1; 14][..]), "{bits:#x}");
        assert_eq!(told.read, has_read.then_some(read), "{bits:#x}");
    }
}

/// RFC 6581, section 9: 14 bits, of which the highest number says that nothing is negotiated.
// Shows E6581-2.
#[test]
fn no_number_of_reads_says_that_it_is_not_negotiated() {
    for (reads, octets) in [
        (0x3ffd, [0x3f, 0xfd]),
        (0x3ffe, [0x3f, 0xfe]),
        (0x3fff, [0x3f, 0xfe]),
        (0x4000, [0x3f, 0xfe]),
        (u16::MAX, [0x3f, 0xfe]),
    ] {
        let enhanced = Enhanced {
            ord: ReadDepth::new(reads),
            ..Enhanced::default()
        };
        assert_eq!(enhanced.emit().as_slice()[..2], [0, 0]);
        assert_eq!(enhanced.emit().as_slice()[2..], octets);
        assert!(enhanced.ord.number().is_some());
    }
    let (enhanced, _) = Enhanced::split(&[0xbf, 0xff, 0x7f, 0xff]).unwrap();
    assert_eq!((enhanced.ird.number(), enhanced.ord.number()), (None, None));
}

/// RFC 5043, section 5.2.3.
// Shows S5.2.3-2.
#[test]
fn control_message_has_512_octets_of_private_data_at_most() {
    let emit = |length, enhanced: Option<Enhanced>| {
        let control = Control {
            function: Function::Accept,
            enhanced,
            is_enhanced: enhanced.is_some(),
            private_data: &[9; 600][..length],
        };
        control.emit(0, &mut [0; 700])
    };
    assert_eq!(emit(512, None), Ok(516));
    assert_eq!(emit(513, None), Err(Misuse::PrivateData));
    assert_eq!(emit(600, None), Err(Misuse::PrivateData));
    let enhanced = Some(Enhanced::default());
    assert_eq!(emit(508, enhanced), Ok(516));
    assert_eq!(emit(509, enhanced), Err(Misuse::PrivateData));
}

// Shows S5.2-1, S12-1.
#[test]
fn segments_and_control_messages_have_their_identifiers() {
    assert_eq!((PPID_SEGMENT, PPID_CONTROL), (16, 17));
    assert_eq!(rdmap::sctp::chunk::ADAPTATION, 1);
}
