// SPDX-License-Identifier: GPL-2.0

//! Tests: the request that a Terminate of the peer is about.

use crate::tx::closed;
use crate::tx::drain;
use crate::tx::read;
use crate::tx::send;
use crate::tx::tx_half;
use crate::tx::write;
use crate::tx::Queues;
use crate::tx::THERE;
use rdmap::atomic::Atomic;
use rdmap::fault::Code;
use rdmap::fault::OffendingSegment;
use rdmap::fault::RemoteError;
use rdmap::header::Header;
use rdmap::header::Model;
use rdmap::header::Untagged;
use rdmap::stag::Range;
use rdmap::stag::Stag;
use rdmap::terminate::Terminate;
use rdmap::tx::Operation;
use rdmap::tx::Request;
use rdmap::tx::Status;
use rdmap::tx::TxHalf;

const ACCESS: Code = Code::new(0, 1, 0);

/// The Terminate of a peer about a segment with this header.
fn about(model: Model, code: Code) -> Terminate {
    let header = Header { last: true, model }.emit();
    let offending = OffendingSegment::of(header.as_slice(), 100).unwrap();
    Terminate {
        code,
        segment_length: Some(offending.segment_length),
        header: Some(offending.header),
        read: None,
    }
}

fn untagged(message: Untagged, msn: u32) -> Model {
    Model::Untagged {
        message,
        msn,
        offset: 0,
    }
}

fn a_send(msn: u32) -> Model {
    let message = Untagged::Send {
        solicited: false,
        invalidate: None,
    };
    untagged(message, msn)
}

fn tagged(stag: u32, offset: u64, response: bool) -> Model {
    Model::Tagged {
        response,
        stag: Stag(stag),
        offset,
    }
}

/// Returns how all requests complete after this Terminate.
fn ends(tx: &mut TxHalf<Queues>, terminate: &Terminate) -> Vec<Status> {
    tx.refused(terminate);
    tx.close(closed());
    std::iter::from_fn(|| tx.complete())
        .map(|completion| completion.status)
        .collect()
}

/// Reads and Sends, of which nothing is complete, as the LLP has all of them still.
fn sent(requests: &[Request]) -> TxHalf<Queues> {
    let mut tx = tx_half(4);
    for request in requests {
        tx.post(*request).unwrap();
    }
    drain(&mut tx, 1500);
    tx
}

const REFUSED: Status = Status::Refused(RemoteError::Access);
const FLUSHED: Status = Status::Flushed;

fn atomic() -> Request {
    Request {
        operation: Operation::Atomic {
            stag: Stag(3),
            offset: 8,
            operation: Atomic::FetchAdd { add: 1, mask: 0 },
        },
        fence: false,
    }
}

#[test]
fn message_number_finds_the_read_or_atomic_operation() {
    for (msn, expected) in [
        (1, [FLUSHED, REFUSED, FLUSHED, FLUSHED]),
        (2, [FLUSHED, FLUSHED, REFUSED, FLUSHED]),
        (3, [FLUSHED, FLUSHED, FLUSHED, REFUSED]),
        (0, [FLUSHED; 4]),
        (4, [FLUSHED; 4]),
        (u32::MAX, [FLUSHED; 4]),
    ] {
        let mut tx = sent(&[send(1), read(1), atomic(), read(1)]);
        let terminate = about(untagged(Untagged::ReadRequest, msn), ACCESS);
        assert_eq!(ends(&mut tx, &terminate), expected, "{msn}");
    }
    let mut tx = sent(&[read(1), atomic()]);
    let terminate = about(untagged(Untagged::AtomicRequest, 2), ACCESS);
    assert_eq!(ends(&mut tx, &terminate), [FLUSHED, REFUSED]);
}

#[test]
fn messages_that_are_complete_count() {
    let mut tx = sent(&[read(1), send(1), read(1)]);
    tx.done(0).unwrap();
    tx.release(2);
    assert_eq!(tx.complete().map(|done| done.status), Some(Status::Success));
    assert_eq!(tx.complete().map(|done| done.status), Some(Status::Success));
    for request in [read(1), send(1)] {
        tx.post(request).unwrap();
    }
    drain(&mut tx, 1500);
    let terminate = about(untagged(Untagged::ReadRequest, 3), ACCESS);
    assert_eq!(ends(&mut tx, &terminate), [FLUSHED, REFUSED, FLUSHED]);
}

#[test]
fn message_that_is_complete_is_nobodys() {
    let mut tx = sent(&[read(1), read(1)]);
    tx.done(0).unwrap();
    tx.release(1);
    assert_eq!(tx.complete().map(|done| done.status), Some(Status::Success));
    let terminate = about(untagged(Untagged::ReadRequest, 1), ACCESS);
    assert_eq!(ends(&mut tx, &terminate), [FLUSHED]);
}

#[test]
fn message_number_finds_the_send() {
    let immediate = Request {
        operation: Operation::WriteImmediate {
            range: Range {
                stag: Stag(5),
                offset: 0,
                length: 8,
            },
            data: [0; 8],
            solicited: false,
        },
        fence: false,
    };
    let no_buffer = Code::new(1, 2, 2);
    let refused = Status::Refused(RemoteError::InvalidRequest);
    for (model, expected) in [
        (a_send(1), [refused, FLUSHED, FLUSHED, FLUSHED]),
        (a_send(2), [FLUSHED, FLUSHED, refused, FLUSHED]),
        (
            untagged(Untagged::Immediate { solicited: false }, 2),
            [FLUSHED, FLUSHED, refused, FLUSHED],
        ),
        (a_send(3), [FLUSHED, FLUSHED, FLUSHED, refused]),
        (a_send(4), [FLUSHED; 4]),
    ] {
        let mut tx = sent(&[send(1), read(1), immediate, send(1)]);
        assert_eq!(ends(&mut tx, &about(model, no_buffer)), expected);
    }
}

/// The message is being sent when its first segment is refused; what is behind it was not begun.
#[test]
fn message_that_is_being_sent_is_found() {
    for (model, code) in [
        (a_send(1), Code::new(1, 2, 5)),
        (tagged(5, 7000, false), Code::new(1, 1, 0)),
    ] {
        let mut tx = tx_half(1);
        let is_send = matches!(model, Model::Untagged { .. });
        let request = if is_send { send(900) } else { write(900, 7000) };
        tx.post(request).unwrap();
        tx.post(request).unwrap();
        tx.peek(500, &THERE).unwrap();
        tx.commit().unwrap();
        let terminate = about(model, code);
        let refused = Status::Refused(code.remote_error());
        assert_eq!(ends(&mut tx, &terminate), [refused, FLUSHED]);
    }
}

/// The stream ends with the Terminate, whatever is sent of the message until it is closed.
#[test]
fn message_that_is_refused_ends_so_even_if_the_rest_is_sent_or_has_no_memory() {
    let refused = Status::Refused(RemoteError::Access);
    for (model, request) in [
        (a_send(1), send(900)),
        (tagged(5, 7000, false), write(900, 7000)),
    ] {
        for is_abandoned in [false, true] {
            let mut tx = tx_half(1);
            tx.post(request).unwrap();
            tx.post(request).unwrap();
            tx.peek(500, &THERE).unwrap();
            tx.commit().unwrap();
            tx.refused(&about(model, ACCESS));
            tx.peek(500, &THERE).unwrap();
            if is_abandoned {
                tx.abandon();
            } else {
                drain(&mut tx, 500);
            }
            tx.release(u64::MAX);
            assert_eq!(tx.complete(), None);
            tx.close(closed());
            let ends = [tx.complete(), tx.complete(), tx.complete()];
            let ends = ends.map(|completion| completion.map(|done| done.status));
            assert_eq!(ends, [Some(refused), Some(FLUSHED), None]);
        }
    }
}

#[test]
fn request_that_was_not_begun_is_not_meant() {
    for model in [a_send(1), tagged(5, 7000, false)] {
        let mut tx = tx_half(1);
        tx.post(send(1)).unwrap();
        tx.post(write(1, 7000)).unwrap();
        assert_eq!(ends(&mut tx, &about(model, ACCESS)), [FLUSHED; 2]);
    }
}

#[test]
fn memory_finds_the_write() {
    for (stag, offset, expected) in [
        (5, 1000, [REFUSED, FLUSHED]),
        (5, 1009, [REFUSED, FLUSHED]),
        (5, 1010, [FLUSHED; 2]),
        (5, 2000, [FLUSHED, REFUSED]),
        (5, 999, [FLUSHED; 2]),
        (6, 1000, [FLUSHED; 2]),
    ] {
        let mut tx = sent(&[write(10, 1000), write(10, 2000)]);
        let terminate = about(tagged(stag, offset, false), Code::new(1, 1, 0));
        assert_eq!(ends(&mut tx, &terminate), expected, "{stag} {offset}");
    }
    for (offset, expected) in [
        (1000, [REFUSED, FLUSHED, FLUSHED]),
        (1010, [FLUSHED, REFUSED, FLUSHED]),
        (1020, [FLUSHED, FLUSHED, REFUSED]),
        (1021, [FLUSHED; 3]),
    ] {
        let mut tx = sent(&[write(10, 1000), write(10, 1010), write(0, 1020)]);
        let terminate = about(tagged(5, offset, false), Code::new(1, 1, 0));
        assert_eq!(ends(&mut tx, &terminate), expected, "adjacent, {offset}");
    }
}

#[test]
fn response_or_nothing_is_no_request_of_this_end() {
    let bare = Terminate {
        header: None,
        ..about(a_send(1), ACCESS)
    };
    for terminate in [
        bare,
        about(tagged(5, 1000, true), Code::new(1, 1, 0)),
        about(untagged(Untagged::Terminate, 1), ACCESS),
        about(untagged(Untagged::AtomicResponse, 1), ACCESS),
    ] {
        let mut tx = sent(&[send(1), write(10, 1000), read(1)]);
        assert_eq!(ends(&mut tx, &terminate), [FLUSHED; 3]);
    }
}

/// Even if the LLP has all of it: the peer says that it failed.
#[test]
fn request_that_is_refused_does_not_succeed() {
    let mut tx = sent(&[send(1)]);
    tx.release(1);
    tx.refused(&about(a_send(1), Code::new(1, 2, 2)));
    assert_eq!(tx.complete(), None);
    tx.close(closed());
    let completion = tx.complete().map(|done| done.status);
    assert_eq!(
        completion,
        Some(Status::Refused(RemoteError::InvalidRequest))
    );
}

#[test]
fn codes_are_told_apart_as_verbs_do() {
    for (layer, etype, code, error) in [
        (0, 0, 0xff, RemoteError::Operation),
        (0, 1, 0x00, RemoteError::Access),
        (0, 1, 0x09, RemoteError::Access),
        (0, 2, 0x05, RemoteError::InvalidRequest),
        (0, 2, 0x06, RemoteError::InvalidRequest),
        (0, 2, 0x07, RemoteError::Operation),
        (0, 2, 0x09, RemoteError::Access),
        (1, 0, 0x00, RemoteError::Operation),
        (1, 1, 0x00, RemoteError::Access),
        (1, 1, 0x03, RemoteError::Access),
        (1, 1, 0x04, RemoteError::InvalidRequest),
        (1, 2, 0x02, RemoteError::InvalidRequest),
        (1, 2, 0x05, RemoteError::InvalidRequest),
        (2, 0, 0x01, RemoteError::Operation),
        (15, 15, 0x06, RemoteError::Operation),
    ] {
        let code = Code::new(layer, etype, code);
        assert_eq!(code.remote_error(), error, "{code:?}");
    }
}
