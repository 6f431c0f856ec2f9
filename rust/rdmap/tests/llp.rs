// SPDX-License-Identifier: GPL-2.0

//! Properties of every stream of FPDUs, start-up frame, window of numbers and session.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use rdmap::enhanced::ReadLimits;
use rdmap::fault::{Code, Fault, LlpError};
use rdmap::mpa::frame::Layout;
use rdmap::mpa::marker::Position;
use rdmap::mpa::startup::{Failed, Frame, Initiator, Kind, Offer, Outcome, Responder};
use rdmap::order::{Invalid, Order};
use rdmap::sctp::chunk::Function;
use rdmap::sctp::session::{Event, Indication, Session};
use rdmap::sctp::window::{RxWindow, WORDS};

use crate::rx::{arrive, deliver, ordered, send};
use crate::tx::{terminate, tx_half};

fn start(markers: bool) -> Position {
    match markers {
        true => Position::START,
        false => Position::NO_MARKERS,
    }
}

/// Returns the stream of these ULPDUs.
fn stream_of(ulpdus: &[Vec<u8>], markers: bool, crc: bool) -> Vec<u8> {
    let (mut stream, mut at) = (Vec::new(), start(markers));
    for ulpdu in ulpdus {
        let layout = Layout::new(u16::try_from(ulpdu.len()).unwrap(), at);
        let (front, back) = ulpdu.split_at(ulpdu.len() / 3);
        let from = stream.len();
        stream.resize(from + layout.wire_len(), 0xee);
        let emitted = layout.emit(&[front, back], crc, &mut stream[from..]);
        assert_eq!(emitted, Some(layout.wire_len()));
        at = layout.next();
    }
    stream
}

/// Returns the ULPDUs of a stream that arrives in pieces.
fn received(
    stream: &[u8],
    pieces: &[usize],
    markers: bool,
    crc: bool,
) -> Result<Vec<Vec<u8>>, LlpError> {
    let (mut ulpdus, mut at) = (Vec::new(), start(markers));
    let (mut queue, mut rest) = (Vec::new(), stream);
    let mut pieces = pieces.iter().cycle();
    while !rest.is_empty() {
        let length = (*pieces.next().unwrap()).min(rest.len());
        let (piece, behind) = rest.split_at(length);
        queue.extend(piece);
        rest = behind;
        while let Some(layout) = Layout::of(&queue, at) {
            let Some(verdict) = layout.verify(&queue, crc) else {
                break;
            };
            verdict?;
            let ulpdu: Vec<u8> = layout.ulpdu(&queue).flatten().copied().collect();
            assert_eq!(usize::from(layout.ulpdu_len()), ulpdu.len());
            ulpdus.push(ulpdu);
            queue.drain(..layout.wire_len());
            at = layout.next();
        }
    }
    assert!(queue.is_empty());
    Ok(ulpdus)
}

fn ulpdus() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let length = prop_oneof![0..40_usize, 400..1500_usize, Just(5000)];
    vec(
        length.prop_flat_map(|length| vec(any::<u8>(), length)),
        0..12,
    )
}

proptest! {
    #![proptest_config(crate::seeds_beside_tests())]

    // Shows D-12, M-4, M-6.
    #[test]
    fn any_split_of_the_stream_gives_the_same_fpdus(
        ulpdus in ulpdus(), pieces in vec(1..900_usize, 1..20), markers: bool, crc: bool,
    ) {
        let stream = stream_of(&ulpdus, markers, crc);
        prop_assert_eq!(stream.len() % 4, 0);
        prop_assert_eq!(received(&stream, &pieces, markers, crc), Ok(ulpdus));
    }

    // Shows M-4.
    #[test]
    fn markers_stand_at_every_512th_octet(ulpdus in ulpdus()) {
        let stream = stream_of(&ulpdus, true, true);
        // Where FPDUs begin, by walking over the octets that are no marker's.
        let is_marker = |at: usize| at % 512 < 4;
        let (mut plain_at, mut begins) = (0, BTreeSet::new());
        let plain: Vec<_> = (0..stream.len()).filter(|at| !is_marker(*at)).collect();
        while plain_at < plain.len() {
            begins.insert(plain[plain_at]);
            let length = usize::from(u16::from_be_bytes([stream[plain[plain_at]], stream[plain[plain_at + 1]]]));
            plain_at += (length + 2).next_multiple_of(4) + 4;
        }
        prop_assert_eq!(plain_at, plain.len());
        for at in (0..stream.len()).step_by(512) {
            let pointer = usize::from(u16::from_be_bytes([stream[at + 2], stream[at + 3]]));
            let begin = match pointer {
                0 => at + 4,
                _ => at - pointer,
            };
            prop_assert!(begins.contains(&begin), "marker at {} points to {}", at, begin);
            prop_assert!(!begins.iter().any(|other| begin < *other && *other < at));
        }
    }

    // Shows D-12, M-2.
    #[test]
    fn any_flipped_bit_is_noticed(ulpdu in vec(any::<u8>(), 0..700), markers: bool, bit: Index) {
        let at = start(markers);
        let mut stream = stream_of(&[ulpdu], markers, true);
        let whole = Layout::of(&stream, at).unwrap().verify(&stream, true);
        prop_assert_eq!(whole, Some(Ok(())));
        let bit = bit.index(stream.len() * 8);
        stream[bit / 8] ^= 1 << (bit % 8);
        let changed = Layout::of(&stream, at).unwrap().verify(&stream, true);
        prop_assert_ne!(changed, Some(Ok(())));
    }

    #[test]
    fn any_stream_is_read_within_its_octets(stream in vec(any::<u8>(), 0..3000), markers: bool, crc: bool) {
        let mut rest = &stream[..];
        let mut at = start(markers);
        while let Some(layout) = Layout::of(rest, at) {
            let Some(Ok(())) = layout.verify(rest, crc) else { break };
            let length: usize = layout.ulpdu(rest).map(<[u8]>::len).sum();
            prop_assert_eq!(length, usize::from(layout.ulpdu_len()));
            rest = &rest[layout.wire_len()..];
            at = layout.next();
        }
    }

    // Shows M-8, M-13.
    #[test]
    fn any_part_of_a_startup_frame_is_waited_for(flags: u8, revision in 1..3_u8, private_data in vec(any::<u8>(), 4..513), cut: Index) {
        let mut octets = b"MPA ID Rep Frame".to_vec();
        octets.extend([flags, revision]);
        octets.extend(u16::try_from(private_data.len()).unwrap().to_be_bytes());
        octets.extend(&private_data);
        let (frame, length) = Frame::parse(Kind::Reply, &octets).unwrap().unwrap();
        prop_assert_eq!(length, octets.len());
        prop_assert!(private_data.ends_with(frame.private_data));
        let mut again = [0; Frame::MAX_LEN];
        let emitted = frame.emit(&mut again).unwrap();
        prop_assert_eq!(Frame::parse(Kind::Reply, &again[..emitted]), Ok(Some((frame, length))));
        let cut = cut.index(octets.len());
        prop_assert_eq!(Frame::parse(Kind::Reply, &octets[..cut]), Ok(None));
        // The other side's frame is refused at the first octet that tells.
        prop_assert_eq!(Frame::parse(Kind::Request, &octets[..10]), Err(LlpError::Startup));
    }

    #[test]
    fn any_startup_octets_come_to_an_end(octets in vec(any::<u8>(), 0..560), good in 0..20_usize) {
        let mut stream = b"MPA ID Req Frame\x00\x01\x00\x00".to_vec();
        stream.truncate(good);
        stream.extend(octets);
        if let Ok(Some((frame, length))) = Frame::parse(Kind::Request, &stream) {
            prop_assert!(length <= stream.len() && length <= Frame::MAX_LEN);
            prop_assert!(frame.private_data.len() <= Frame::MAX_PRIVATE_DATA);
        }
    }

    // Shows S5.2.1-1, S6-1, S10-4, D-12.
    #[test]
    fn window_keeps_account_like_a_set(start in 0..70_000_u64, jumps in vec((0..6_u64, any::<u16>(), any::<bool>()), 0..200)) {
        let mut window = RxWindow::new(Box::new([0; WORDS]));
        for seq in 0..start {
            window.pass(u16::try_from(seq % 65_536).unwrap()).unwrap();
        }
        let (mut in_order_upto, mut placed) = (start, BTreeSet::new());
        for (near, far, wild) in jumps {
            let ssn = match wild {
                true => far,
                false => u16::try_from((in_order_upto + near) % 65_536).unwrap(),
            };
            let distance = u64::from(ssn.wrapping_sub(u16::try_from(in_order_upto % 65_536).unwrap()));
            let seq = in_order_upto + distance;
            let expected = if distance >= 32_768 || placed.contains(&seq) {
                Err(Invalid::Repeated)
            } else if distance == 32_767 {
                Err(Invalid::Window)
            } else {
                Ok(seq)
            };
            prop_assert_eq!(window.pass(ssn), expected);
            if expected.is_ok() {
                placed.insert(seq);
                while placed.remove(&in_order_upto) {
                    in_order_upto += 1;
                }
            }
            prop_assert_eq!(window.in_order_upto(), in_order_upto);
        }
    }

    // Shows S6.1-2, S6.1-3, S6.6-1, S6.6-2.
    #[test]
    fn session_keeps_its_promises(active: bool, events in vec(event(), 0..40)) {
        let mut session = Session::new();
        let mut sent = Vec::new();
        let mut told = Vec::new();
        let first = match active {
            true => Event::Connect { enhanced: false },
            false => Event::Control { function: Function::Initiate, enhanced: false, seq: 0, full: false },
        };
        for event in std::iter::once(first).chain(events) {
            let action = session.on(event);
            sent.extend(action.send);
            told.extend(action.indication);
            if event == Event::Lost || session == Session::new() {
                break;
            }
            if session.may_send() {
                prop_assert!(told.contains(&Indication::Established) || sent.contains(&Function::Accept));
                prop_assert!(!sent.contains(&Function::Terminate));
            }
        }
        // One Terminate at most, and it is the last.
        let terminates = sent.iter().filter(|function| **function == Function::Terminate).count();
        prop_assert!(terminates <= 1);
        prop_assert!(terminates == 0 || sent.last() == Some(&Function::Terminate));
        prop_assert!(sent.len() <= 2);
        // One end at most, and nothing behind it.
        let is_end = |indication: &&Indication| !matches!(indication, Indication::Request | Indication::Established);
        let ends = told.iter().filter(is_end).count();
        prop_assert!(ends <= 1);
        prop_assert!(ends == 0 || told.last().filter(is_end).is_some());
        prop_assert!(told.iter().filter(|indication| **indication == Indication::Established).count() <= 1);
    }
}

fn event() -> impl Strategy<Value = Event> {
    let function = prop_oneof![
        1 => Just(Function::Initiate),
        3 => Just(Function::Accept),
        1 => Just(Function::Reject),
        2 => Just(Function::Terminate),
    ];
    prop_oneof![
        3 => (function, 0..3_u64).prop_map(|(function, seq)| Event::Control { function, enhanced: false, seq, full: false }),
        3 => (0..5_u64).prop_map(|seq| Event::Segment { seq }),
        2 => (0..6_u64).prop_map(Event::InOrderUpto),
        1 => Just(Event::Illegal),
        2 => Just(Event::Accept),
        1 => Just(Event::Reject),
        1 => Just(Event::Disconnect),
        1 => Just(Event::Fail),
        2 => Just(Event::SenderDry),
        1 => Just(Event::Timeout),
        1 => Just(Event::Lost),
    ]
}

// Shows M-8.
#[test]
fn wrong_startup_frames_are_refused_at_once() {
    let request = |flags, revision, length: u16| {
        let mut octets = b"MPA ID Req Frame".to_vec();
        octets.extend([flags, revision]);
        octets.extend(length.to_be_bytes());
        Frame::parse(Kind::Request, &octets).map(|frame| frame.is_some())
    };
    assert_eq!(request(0, 1, 0), Ok(true));
    assert_eq!(request(0, 0, 0), Err(LlpError::Startup));
    assert_eq!(request(0, 3, 0), Err(LlpError::Startup));
    assert_eq!(request(0, 1, 513), Err(LlpError::Startup));
    assert_eq!(request(0, 1, 512), Ok(false));
    // Enhanced, with no room for what that means.
    assert_eq!(request(0x10, 2, 0), Err(LlpError::Startup));
    // In revision 1 the flag means nothing, and neither do reserved ones.
    assert_eq!(request(0x1f, 1, 0), Ok(true));
    assert_eq!(Frame::parse(Kind::Request, b"GET "), Err(LlpError::Startup));
}

/// RFC 6581, section 6: without S there are no numbers of Reads in front of the private data.
#[test]
fn private_data_of_revision_2_is_whole_without_s() {
    let octets = b"MPA ID Req Frame\x40\x02\x00\x06\x00\x04\x00\x02hi";
    let (frame, length) = Frame::parse(Kind::Request, octets).unwrap().unwrap();
    assert_eq!(length, octets.len());
    assert_eq!((frame.revision, frame.enhanced), (2, None));
    assert_eq!(frame.private_data, b"\x00\x04\x00\x02hi");
}

/// RFC 6581, section 9.1: a responder takes as many Reads as the initiator wants to send, or
/// refuses; an initiator raises its IRD to what the responder sends.
// Shows E6581-2, E6581-3.
#[test]
fn either_end_takes_more_reads_than_it_offered_up_to_its_limit() {
    let offer = Offer {
        crc: true,
        markers: false,
        reads: ReadLimits { ird: 4, ord: 2 },
        max_ird: 16,
        enhanced: true,
        peer_to_peer: false,
    };
    for ord in [4, 5, 16, 17] {
        let mut request = b"MPA ID Req Frame\x50\x02\x00\x04\x00\x08\x00".to_vec();
        request.push(ord);
        let (request, _) = Frame::parse(Kind::Request, &request).unwrap().unwrap();
        let mut responder = Responder::new(offer);
        responder.request(&request).unwrap();
        let reads = responder.accept(&[]).map(|(_, stream)| stream.reads);
        let agreed = ReadLimits {
            ird: u16::from(ord),
            ord: 2,
        };
        let refused = Err(Failed::Llp(LlpError::InsufficientIrd));
        assert_eq!(reads, if ord <= 16 { Ok(agreed) } else { refused });

        let mut reply = b"MPA ID Rep Frame\x50\x02\x00\x04\x00\x08\x00".to_vec();
        reply.push(ord);
        let (reply, _) = Frame::parse(Kind::Reply, &reply).unwrap().unwrap();
        let reads = match Initiator::new(offer).reply(&reply) {
            Ok(Outcome::Accepted(stream, _)) => Ok(stream.reads),
            Ok(Outcome::Rejected(_)) => panic!("{reply:?}"),
            Err(lower) => Err(lower),
        };
        let refused = Err(LlpError::InsufficientIrd);
        assert_eq!(reads, if ord <= 16 { Ok(agreed) } else { refused });
    }
}

/// MPA reports a wrong CRC: the stream fails, and the peer receives a Terminate before TCP is
/// closed.
// Shows M-12.
#[test]
fn nothing_behind_a_wrong_crc_is_delivered_and_the_peer_is_told() {
    let ulpdus = [1, 2, 3].map(|msn| send(msn, 0, true, &[7; 20]));
    let mut stream = stream_of(&ulpdus, false, true);
    let each = stream.len() / 3;
    stream[each + 30] ^= 1;
    let (mut rx, mut tx) = (ordered(), tx_half(1));
    rx.post_receive(100).unwrap();
    let (mut delivered, mut at) = (0, start(false));
    for fpdu in stream.chunks(each) {
        let layout = Layout::of(fpdu, at).unwrap();
        match layout.verify(fpdu, true).unwrap() {
            Ok(()) => {
                let ulpdu: Vec<u8> = layout.ulpdu(fpdu).flatten().copied().collect();
                arrive(&mut rx, (), &ulpdu).unwrap();
                delivered += usize::from(deliver(&mut rx).is_some());
            }
            Err(lower) => {
                assert!(tx.fail(Fault::llp(lower)));
                assert!(rx.close().is_some());
            }
        }
        at = layout.next();
    }
    assert_eq!(delivered, 1);
    assert!(!tx.is_over());
    let told = terminate(&mut tx);
    assert_eq!(told.code, Code::new(2, 0, 2));
    assert!(tx.is_over());
}
