// SPDX-License-Identifier: GPL-2.0

//! Vectors from the RFCs, from dissectors and from other implementations, octet for octet.

use rdmap::enhanced::Enhanced;
use rdmap::enhanced::ReadDepth;
use rdmap::enhanced::ReadLimits;
use rdmap::header::Header;
use rdmap::header::Model;
use rdmap::header::Untagged;
use rdmap::mpa::crc::Crc;
use rdmap::mpa::frame::Layout;
use rdmap::mpa::marker::Position;
use rdmap::mpa::startup::Frame;
use rdmap::mpa::startup::Initiator;
use rdmap::mpa::startup::Kind;
use rdmap::mpa::startup::Offer;

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
