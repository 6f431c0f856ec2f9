// SPDX-License-Identifier: GPL-2.0

//! Tests: faults, Terminates, and the end of the transmit half.

use crate::tx::{closed, drain, inbound_read, opcodes, read, send, terminate, tx_half, All, THERE};
use crate::Queues;
use rdmap::fault::{Cause, Fault, LlpError, Misuse};
use rdmap::header::Header;
use rdmap::stag::{Denied, Stag};
use rdmap::terminate::Terminate;
use rdmap::tx::{Completion, Operation, Outgoing, Request, Status, TxHalf, HEADER_LEN};

// Shows P5.4-1, P5.4-5, P5.4-6, P7.1-5.
#[test]
fn terminate_is_the_last_and_the_first_fault_wins() {
    let mut tx = tx_half(1);
    tx.post(send(500)).unwrap();
    tx.post(send(1)).unwrap();
    tx.peek(128, &THERE).unwrap();
    tx.commit().unwrap();
    assert!(tx.fail(Fault::llp(LlpError::Crc)));
    assert!(!tx.fail(Fault::LOCAL));
    let told = terminate(&mut tx);
    assert_eq!(told.code, Cause::Llp(LlpError::Crc).code());
    assert_eq!(told.header, None);
    assert!(tx.is_over());
    assert_eq!(tx.peek(128, &THERE), None);
    // Segments that the LLP still has keep their requests from completing.
    assert_eq!(tx.complete(), None);
    tx.release(1);
    let flushed = |number| {
        Some(Completion {
            number,
            status: Status::Flushed,
        })
    };
    assert_eq!(tx.complete(), flushed(0));
    assert_eq!(tx.complete(), flushed(1));
    assert_eq!(tx.post(send(1)), Ok(2));
    assert_eq!(tx.complete(), flushed(2));
}

// Shows P5.4-7, P6.2-2.
#[test]
fn closed_stream_sends_nothing_and_flushes_all() {
    let mut tx = tx_half(2);
    for request in [send(1), read(1), send(1)] {
        tx.post(request).unwrap();
    }
    drain(&mut tx, 128);
    tx.release(1);
    tx.close(closed());
    tx.fail(Fault::LOCAL);
    assert_eq!(tx.peek(128, &THERE), None);
    let ends: Vec<_> = std::iter::from_fn(|| tx.complete())
        .map(|completion| completion.status)
        .collect();
    assert_eq!(ends, [Status::Success, Status::Flushed, Status::Flushed]);
}

// Shows P4.4-2, P4.8-8.
#[test]
fn response_that_fails_halfway_says_how_far_it_came() {
    let mut tx = tx_half(1);
    tx.respond(inbound_read(1000, 5000)).unwrap();
    tx.peek(128, &THERE).unwrap();
    tx.commit().unwrap();
    tx.peek(200, &THERE).unwrap();
    tx.commit().unwrap();
    let gone = All(Err(Denied::Invalid));
    let Some(Outgoing::Segment { header, .. }) = tx.peek(128, &gone) else {
        panic!("there is no Terminate");
    };
    // There is no longer one.
    assert_eq!((header.len(), HEADER_LEN), (70, 70));
    let (_, payload) = Header::parse(header.as_slice()).unwrap();
    let told = Terminate::parse(payload).unwrap();
    assert_eq!(told.code, rdmap::fault::Code::new(0, 1, 0));
    let sent = 128 - 14 + 200 - 14;
    let left = told.read.unwrap();
    assert_eq!(left.length, 1000 - sent);
    assert_eq!(left.sink_offset, 5000 + u64::from(sent));
    assert_eq!(left.source_offset, 100 + u64::from(sent));
    assert_eq!(
        (left.sink_stag, left.source_stag),
        (Stag(0xa59d_8500), Stag(7))
    );
}

// Shows P7.1-2.
#[test]
fn request_whose_memory_is_not_there_ends_the_stream() {
    let mut tx = tx_half(1);
    tx.post(send(1)).unwrap();
    tx.post(send(1)).unwrap();
    tx.peek(128, &THERE).unwrap();
    tx.abandon();
    let told = terminate(&mut tx);
    assert_eq!((told.code.layer, told.code.etype), (0, 0));
    assert_eq!((told.header, told.segment_length), (None, None));
    let ends: Vec<_> = std::iter::from_fn(|| tx.complete())
        .map(|completion| completion.status)
        .collect();
    assert_eq!(ends, [Status::Failed, Status::Flushed]);
}

fn statuses(tx: &mut TxHalf<Queues>) -> Vec<Status> {
    std::iter::from_fn(|| tx.complete())
        .map(|completion| completion.status)
        .collect()
}

fn local() -> Request {
    Request {
        operation: Operation::Local,
        fence: false,
    }
}

/// The receive half is still open: the response may be placed where the upper layer would already
/// use the memory again.
#[test]
fn read_that_left_is_not_flushed_before_the_stream_is_closed() {
    let mut tx = tx_half(2);
    for request in [send(1), read(1), send(1)] {
        tx.post(request).unwrap();
    }
    drain(&mut tx, 128);
    tx.release(3);
    tx.fail(Fault::LOCAL);
    assert_eq!(statuses(&mut tx), [Status::Success]);
    terminate(&mut tx);
    tx.release(4);
    assert_eq!(statuses(&mut tx), []);
    tx.close(closed());
    assert_eq!(statuses(&mut tx), [Status::Flushed; 2]);
}

#[test]
fn read_that_did_not_leave_is_flushed_by_a_fault() {
    let mut tx = tx_half(2);
    tx.post(read(1)).unwrap();
    tx.fail(Fault::LOCAL);
    assert_eq!(statuses(&mut tx), [Status::Flushed]);
}

#[test]
fn local_operation_that_was_started_is_waited_for() {
    for abandoned in [false, true] {
        let mut tx = tx_half(1);
        for _ in 0..2 {
            tx.post(local()).unwrap();
        }
        assert_eq!(tx.peek(128, &THERE), Some(Outgoing::Local(0)));
        tx.commit().unwrap();
        tx.fail(Fault::LOCAL);
        terminate(&mut tx);
        assert_eq!(statuses(&mut tx), []);
        let status = match abandoned {
            true => {
                tx.abandon();
                Status::Failed
            }
            false => {
                tx.done(0).unwrap();
                Status::Success
            }
        };
        assert_eq!(statuses(&mut tx), [status, Status::Flushed]);
    }
}

/// Who started it may never say that it is done.
#[test]
fn local_operation_does_not_keep_a_closed_stream_from_completing() {
    let mut tx = tx_half(1);
    tx.post(local()).unwrap();
    tx.post(send(1)).unwrap();
    tx.peek(128, &THERE).unwrap();
    tx.commit().unwrap();
    tx.close(closed());
    assert_eq!(statuses(&mut tx), [Status::Flushed; 2]);
    assert_eq!(tx.done(0), Err(Misuse::Unknown));
}

#[test]
fn local_operation_that_is_done_behind_a_flushed_read_is_flushed() {
    let mut tx = tx_half(1);
    tx.post(read(1)).unwrap();
    tx.post(local()).unwrap();
    drain_with_local(&mut tx);
    tx.close(closed());
    assert_eq!(statuses(&mut tx), [Status::Flushed; 2]);
}

/// Hands over a Read and starts and ends a local operation.
fn drain_with_local(tx: &mut TxHalf<Queues>) {
    for _ in 0..2 {
        tx.peek(128, &THERE).unwrap();
        tx.commit().unwrap();
    }
    tx.done(1).unwrap();
}

/// The response was faster than the sender's return from the socket.
#[test]
fn read_may_be_done_before_its_request_is_committed() {
    let mut tx = tx_half(1);
    tx.post(read(1)).unwrap();
    tx.post(read(1)).unwrap();
    tx.peek(128, &THERE).unwrap();
    assert_eq!(tx.done(1), Err(Misuse::Unknown));
    tx.done(0).unwrap();
    assert_eq!(tx.done(0), Err(Misuse::Unknown));
    assert_eq!(tx.complete(), None);
    tx.commit().unwrap();
    assert_eq!(tx.complete(), None);
    tx.release(1);
    assert_eq!(statuses(&mut tx), [Status::Success]);
    // It is not outstanding any more.
    assert_eq!(opcodes(&drain(&mut tx, 128)), [1]);
    assert_eq!(tx.peek(128, &THERE), None);
}

#[test]
fn request_is_kept_while_the_llp_takes_its_first_segment() {
    let mut tx = tx_half(1);
    tx.post(send(300)).unwrap();
    tx.peek(128, &THERE).unwrap();
    tx.fail(Fault::LOCAL);
    assert_eq!(tx.complete(), None);
    tx.commit().unwrap();
    assert_eq!(tx.complete(), None);
    tx.release(1);
    assert_eq!(statuses(&mut tx), [Status::Flushed]);
}

#[test]
fn request_that_was_not_taken_is_returned_after_the_terminate_is_offered() {
    let mut tx = tx_half(1);
    tx.post(send(300)).unwrap();
    tx.peek(128, &THERE).unwrap();
    tx.fail(Fault::LOCAL);
    assert_eq!(tx.complete(), None);
    tx.peek(128, &THERE).unwrap();
    assert_eq!(statuses(&mut tx), [Status::Flushed]);
}

#[test]
fn stream_stays_closed_when_its_terminate_was_under_way() {
    let mut tx = tx_half(1);
    tx.post(read(1)).unwrap();
    drain(&mut tx, 128);
    tx.fail(Fault::LOCAL);
    tx.peek(128, &THERE).unwrap();
    tx.close(closed());
    tx.commit().unwrap();
    assert_eq!(statuses(&mut tx), [Status::Flushed]);
}

#[test]
fn queues_have_an_end() {
    let mut tx = tx_half(1);
    for _ in 0..8 {
        tx.post(send(1)).unwrap();
    }
    assert_eq!(tx.post(send(1)), Err(Misuse::Full));
    assert_eq!(tx.commit(), Err(Misuse::State));
}
