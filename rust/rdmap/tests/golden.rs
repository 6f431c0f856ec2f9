// SPDX-License-Identifier: GPL-2.0

//! Vectors from the RFCs, from dissectors and from other implementations, octet for octet.

use rdmap::atomic::{Atomic, AtomicResponse};
use rdmap::enhanced::{Enhanced, ReadDepth, ReadLimits};
use rdmap::header::{Header, Model, Untagged};
use rdmap::mpa::crc::Crc;
use rdmap::mpa::frame::Layout;
use rdmap::mpa::marker::Position;
use rdmap::mpa::startup::{Frame, Initiator, Kind, Offer};
use rdmap::stag::{Range, Stag};
use rdmap::tx::{Operation, Outgoing, Request, TxHalf};

use crate::rx::ByStag;
use crate::tx::tx_half;
use crate::Queues;

fn send(msn: u32) -> Header {
    Header {
        last: true,
        model: Model::Untagged {
            message: Untagged::Send {
                solicited: false,
                invalidate: None,
            },
            msn,
            offset: 0,
        },
    }
}

/// The FPDU of a Send of `length` zeros.
fn fpdu(msn: u32, length: usize, at: Position) -> Vec<u8> {
    let header = send(msn).emit();
    let ulpdu_len = u16::try_from(header.len() + length).unwrap();
    let layout = Layout::new(ulpdu_len, at);
    let mut out = vec![0xaa; layout.wire_len()];
    let ulpdu = [header.as_slice(), &vec![0; length]];
    assert_eq!(layout.emit(&ulpdu, true, &mut out), Some(out.len()));
    assert_eq!(layout.verify(&out, true), Some(Ok(())));
    out
}

// Shows GV-01.
#[test]
fn gv01_crc32c_of_the_digits() {
    assert_eq!(Crc::new().update(b"123456789").value(), 0xe306_9283);
}

/// RFC 5044, figure 5.
// Shows GV-02, M-2.
#[test]
fn gv02_first_fpdu_of_a_stream_with_markers() {
    let out = fpdu(1, 24, Position::START);
    let mut expected = vec![0, 0, 0, 0, 0x00, 0x2a, 0x41, 0x43];
    expected.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    expected.extend([0; 24]);
    expected.extend([0x52, 0x23, 0x99, 0x83]);
    assert_eq!(out, expected);
}

/// RFC 5044, figure 6.
// Shows GV-03, M-2, M-4.
#[test]
fn gv03_fpdu_with_a_marker_inside() {
    let out = fpdu(2, 24, Position::behind_start(0x1ec));
    let mut expected = vec![0x00, 0x2a, 0x41, 0x43];
    expected.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]);
    expected.extend([0x00, 0x00, 0x00, 0x14]);
    expected.extend([0; 24]);
    expected.extend([0x84, 0x92, 0x58, 0x98]);
    assert_eq!(out, expected);
}

// Shows GV-04, P4.1-1, P5.2.1-1.
#[test]
fn gv04_read_request_begins_with_41_41() {
    let header = Header {
        last: true,
        model: Model::Untagged {
            message: Untagged::ReadRequest,
            msn: 9,
            offset: 0,
        },
    };
    let expected = [0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0];
    assert_eq!(header.emit().as_slice(), expected);
    assert_eq!(Header::parse(&expected), Ok((header, &[][..])));
}

/// A Send of 16 octets, as Wireshark's wiki shows it.
// Shows GV-07, P5.3-1.
#[test]
fn gv07_send_of_sixteen_octets() {
    let mut segment = vec![0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    segment.extend([7; 16]);
    assert_eq!(segment.len(), 34);
    assert_eq!(Header::parse(&segment), Ok((send(1), &[7; 16][..])));
}

// Shows GV-09, X4.1-1, X4.1-2, X4.1-3, X6.3-1.
#[test]
fn gv09_immediate_data() {
    let mut tx = tx_half(1);
    let write = Operation::WriteImmediate {
        range: Range::default(),
        data: [0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0],
        solicited: true,
    };
    let mut expected = vec![0x41, 0x49, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    expected.extend([0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0]);
    assert_eq!(whole_segments(&mut tx, write)[1], expected);
}

// Shows GV-10, X4.1-1, X4.1-2, X4.1-3, X5.1-4, X5.2-8.
#[test]
fn gv10_fetch_add() {
    let mut tx = tx_half(1);
    let add = Operation::Atomic {
        stag: Stag(0xa59d_8500),
        offset: 0x1008,
        operation: Atomic::FetchAdd {
            add: 0x0102_0304_0506_0708,
            mask: 1 << 31,
        },
    };
    let mut expected = vec![0x41, 0x4a, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0];
    expected.extend([0, 0, 0, 0, 0, 0, 0, 0, 0xa5, 0x9d, 0x85, 0x00]);
    expected.extend([0, 0, 0, 0, 0, 0, 0x10, 0x08]);
    expected.extend([1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0x80, 0, 0, 0]);
    expected.extend([0; 8]);
    expected.extend([0xff; 8]);
    assert_eq!(whole_segments(&mut tx, add), [expected]);
}

// Shows GV-11, X4.1-1, X4.1-2, X4.1-3, X5.1-4, X5.2-8.
#[test]
fn gv11_cmp_swap() {
    let mut tx = tx_half(1);
    let swap = Operation::Atomic {
        stag: Stag(7),
        offset: u64::MAX - 7,
        operation: Atomic::CmpSwap {
            swap: 0x11,
            swap_mask: 0x22,
            compare: 0x33,
            compare_mask: 0x44,
        },
    };
    let mut expected = vec![0x41, 0x4a, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0];
    expected.extend([0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 7]);
    expected.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf8]);
    for octet in [0x11, 0x22, 0x33, 0x44] {
        expected.extend([0, 0, 0, 0, 0, 0, 0, octet]);
    }
    assert_eq!(whole_segments(&mut tx, swap), [expected]);
}

/// RFC 7306, figure 6: 12 octets behind the header of DDP.
// Shows GV-12, X4.1-1, X4.1-2, X4.1-3, X5.1-4, X5.2-8.
#[test]
fn gv12_atomic_response() {
    let mut segment = vec![0x41, 0x4b, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0];
    segment.extend([0x11, 0x22, 0x33, 0x44, 1, 2, 3, 4, 5, 6, 7, 8]);
    let (header, payload) = Header::parse(&segment).unwrap();
    let model = Model::Untagged {
        message: Untagged::AtomicResponse,
        msn: 1,
        offset: 0,
    };
    assert_eq!(header, Header { last: true, model });
    let response = AtomicResponse {
        identifier: 0x1122_3344,
        original: 0x0102_0304_0506_0708,
    };
    assert_eq!(AtomicResponse::parse(payload, 12), Ok(response));
    let again = [header.emit().as_slice(), response.emit().as_slice()].concat();
    assert_eq!(again, segment);
}

/// Returns the segments of a request, none of which has memory behind it.
fn whole_segments(tx: &mut TxHalf<Queues>, operation: Operation) -> Vec<Vec<u8>> {
    let fence = false;
    tx.post(Request { operation, fence }).unwrap();
    let mut segments = Vec::new();
    while let Some(outgoing) = tx.peek(128, &ByStag) {
        let header = match outgoing {
            Outgoing::Segment { header, .. } | Outgoing::Atomic { header, .. } => header,
            other => panic!("{other:?}"),
        };
        segments.push(header.as_slice().to_vec());
        tx.commit().unwrap();
    }
    segments
}

/// The Request of the in-tree siw, captured.
// Shows GV-08, M-11.
#[test]
fn gv08_request_of_siw() {
    let mut request = b"MPA ID Req Frame".to_vec();
    request.extend([0x10, 0x02, 0x00, 0x09, 0x00, 0x04, 0x00, 0x02]);
    request.extend(b"HELLO");
    let (frame, length) = Frame::parse(Kind::Request, &request).unwrap().unwrap();
    assert_eq!(length, request.len());
    let enhanced = Enhanced {
        ird: ReadDepth::new(4),
        ord: ReadDepth::new(2),
        ..Enhanced::default()
    };
    assert_eq!(frame.enhanced, Some(enhanced));
    assert_eq!(frame.private_data, b"HELLO");
    assert!(!(frame.markers || frame.crc || frame.reject));
    let ours = Initiator::new(Offer {
        crc: false,
        markers: false,
        reads: ReadLimits { ird: 4, ord: 2 },
        max_ird: 4,
        enhanced: true,
        peer_to_peer: false,
    });
    let mut out = [0; Frame::MAX_LEN];
    let length = ours.request(b"HELLO").emit(&mut out).unwrap();
    assert_eq!(out[..length], request);
}
