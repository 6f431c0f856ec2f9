// SPDX-License-Identifier: GPL-2.0

//! The messages that a Requester may send, and the reduction of a Call.

use proto::chunk::Segment;
use proto::cm_private_data::PrivateData;
use proto::error::Misuse;
use proto::header::{Body, Call};
use proto::plan::{Argument, CallForm, Plan, ReplyForm, Role, Sizes, Thresholds};
use proto::xdr::roundup;

use crate::common::*;

const CALL: Call<'_> = Call {
    xid: XID,
    credits: 1,
    body: Body::Msg,
    read: &[],
    write: &[],
    reply: None,
};

fn emit(call: &Call<'_>) -> Result<Vec<u8>, Misuse> {
    let mut out = vec![0; call.wire_len()];
    call.emit(&mut out).map(|_| out)
}

/// Returns the part of a Call with this argument that stays behind the header, and the part in the
/// chunk.
fn reduce(call: &[u8], argument: Argument) -> (Vec<u8>, Vec<u8>) {
    let form = CallForm::ReadChunk(argument);
    let (position, chunk) = form.read_chunk(call.len()).unwrap();
    assert_eq!(position, argument.position);
    let inline = form.inline(call.len()).map(|range| call[range].to_vec());
    (inline.concat(), call[chunk].to_vec())
}

/// Returns a counted item with its padding.
fn opaque(bytes: &[u8]) -> Vec<u8> {
    let mut item = words([u32::try_from(bytes.len()).unwrap()]);
    item.extend(bytes);
    item.resize(4 + roundup(bytes.len()), 0);
    item
}

/// Returns the plan for a Call of these sizes at the smallest threshold.
fn form(call: usize, argument: Argument) -> CallForm {
    let sizes = Sizes {
        call,
        argument: Some(argument),
        reply: 100,
        result: None,
        reduction: true,
        segments: 1,
    };
    Plan::new(&sizes, &Thresholds::DEFAULT).unwrap().call
}

// Shows S3.3.1-01.
#[test]
fn call_without_credits_is_not_encoded() {
    let call = Call { credits: 0, ..CALL };
    assert_eq!(emit(&call), Err(Misuse::ZeroCredits));
}

// Shows S3.4.5-04.
#[test]
fn position_between_units_is_not_encoded() {
    let read = [read(97, 1, 100)];
    let call = Call {
        read: &read,
        ..CALL
    };
    assert_eq!(emit(&call), Err(Misuse::Position(97)));
}

// Shows S3.5.3-03.
#[test]
fn call_has_one_payload() {
    let zero = [read(0, 1, 100)];
    let two = Call {
        read: &zero,
        ..CALL
    };
    assert_eq!(emit(&two), Err(Misuse::TwoPayloads));
    let long = Call {
        body: Body::NoMsg,
        ..two
    };
    assert!(emit(&long).is_ok());
    for list in [&[][..], &[read(96, 1, 100)], &[read(0, 1, 0)]] {
        let none = Call {
            body: Body::NoMsg,
            read: list,
            ..CALL
        };
        assert_eq!(emit(&none), Err(Misuse::NoPayload));
    }
}

// Shows S4.2.4-01.
#[test]
fn all_presence_combinations() {
    let segments: &[Segment] = &[segment(1, 4096)];
    let read_list = [read(96, 1, 4096)];
    for bits in 0..8 {
        let call = Call {
            read: if bits & 1 != 0 { &read_list } else { &[] },
            write: if bits & 2 != 0 { &[segments] } else { &[] },
            reply: (bits & 4 != 0).then_some(segments),
            ..CALL
        };
        let mut message = emit(&call).unwrap();
        message.extend(write_call(XID, 4096));
        let call = served(&message);
        assert_eq!(!call.lists.read.is_empty(), bits & 1 != 0);
        assert_eq!(!call.lists.write.is_empty(), bits & 2 != 0);
        assert_eq!(call.lists.reply.is_some(), bits & 4 != 0);
        assert_eq!(call.lists.is_empty(), bits == 0);
        assert_eq!(call.payload, write_call(XID, 4096));
    }
}

// Shows S3.5.3-05, S4.2.4-04, S4.3.1-02.
#[test]
fn long_call_with_and_without_other_chunks() {
    let segments: &[Segment] = &[segment(7, 4096)];
    let zero = [read(0, 1, 96)];
    let both = [read(0, 1, 96), read(96, 2, 4096)];
    for (read, write, reply) in [
        (&zero[..], &[][..], None),
        (&zero, &[], Some(segments)),
        (&both, &[segments], Some(segments)),
    ] {
        let call = Call {
            body: Body::NoMsg,
            read,
            write,
            reply,
            ..CALL
        };
        let message = emit(&call).unwrap();
        let call = served(&message);
        assert_eq!(call.body, Body::NoMsg);
        assert!(call.payload.is_empty());
        assert_eq!(call.payload_len(), 96);
    }
}

// Shows S3.4.5-02, S4.3.1.1-01.
#[test]
fn position_counts_from_the_first_byte_of_the_whole_call() {
    // Behind the count word, which is at 92.
    let mut call = write_call(XID, 1001);
    assert_eq!(call.len(), 96);
    call.extend([0xDA; 1004]);
    // A second item: its Position counts the first one, and its fill.
    call.extend(opaque(&[0xDB; 8]));
    let second = u32::try_from(call.len() - 8).unwrap();
    assert_eq!(second, 96 + 1004 + 4);

    let (mut inline, data) = reduce(
        &call,
        Argument {
            position: 96,
            length: 1001,
        },
    );
    assert_eq!(data.len(), 1001);
    inline.truncate(100);
    let list = [read(96, 1, 1001), read(second, 2, 8)];
    let header = Call {
        read: &list,
        ..CALL
    };
    let mut message = emit(&header).unwrap();
    message.extend(inline);
    assert_eq!(served(&message).message_len(), 96 + 1004 + 12);
}

// Shows S3.4.4.1-01, S3.4.4.4-02, S3.4.5.2-01, S3.4.5.2-05.
#[test]
fn chunk_has_no_fill_and_the_count_word_stays() {
    for length in 1..10 {
        let data = vec![0xDA; length];
        let count = u32::try_from(length).unwrap();
        let mut call = write_call(XID, count);
        call.extend(&data);
        call.resize(96 + roundup(length), 0);
        // Another operation behind the data.
        call.extend(words([9, 8]));
        let argument = Argument {
            position: 96,
            length,
        };
        let (inline, chunk) = reduce(&call, argument);
        assert_eq!(chunk, data);
        assert_eq!(inline[92..96], count.to_be_bytes());
        assert_eq!(inline[96..], words([9, 8]));

        let list = [read(96, 1, count)];
        let header = Call {
            read: &list,
            ..CALL
        };
        let mut message = emit(&header).unwrap();
        message.extend(inline);
        let received = served(&message);
        assert_eq!(
            received.check_arguments(|_, _| Some(argument.length)),
            Ok(())
        );
        assert_eq!(received.message_len(), u64::try_from(call.len()).unwrap());
    }
}

// Shows S3.4.4.1-02.
#[test]
fn planner_takes_all_of_the_item_or_nothing() {
    let argument = Argument {
        position: 96,
        length: 5001,
    };
    let length = 96 + 5004 + 8;
    assert_eq!(form(length, argument), CallForm::ReadChunk(argument));
    let (inline, chunk) = reduce(&vec![0; length], argument);
    assert_eq!((inline.len(), chunk.len()), (96 + 8, 5001));
}

// Shows S3.4.4.1-03.
#[test]
fn array_leaves_with_its_inner_counts() {
    // The outer count stays; the elements go whole, each with its own count.
    let elements = [opaque(b"a"), opaque(b"bcdef"), opaque(b"")].concat();
    let mut call = null_call(XID);
    call.extend(words([3]));
    call.extend(&elements);
    let argument = Argument {
        position: 44,
        length: elements.len(),
    };
    let (inline, chunk) = reduce(&call, argument);
    assert_eq!(inline[40..], words([3]));
    assert_eq!(chunk, elements);
    assert_eq!(chunk[..4], words([1]));
}

// Shows S3.4.4.2-01, S3.4.4.2-02.
#[test]
fn presence_word_of_an_optional_item_stays() {
    let body = opaque(&[0xDA; 2000]);
    let mut call = null_call(XID);
    call.extend(words([1]));
    call.extend(&body);
    let argument = Argument {
        position: 44,
        length: body.len(),
    };
    assert_eq!(form(call.len(), argument), CallForm::ReadChunk(argument));
    let (inline, chunk) = reduce(&call, argument);
    assert_eq!(inline[40..], words([1]));
    assert_eq!(chunk, body);

    // Absent, there is nothing to put into a chunk.
    let argument = Argument {
        length: 0,
        ..argument
    };
    assert_eq!(form(44, argument), CallForm::Inline);
    assert_eq!(form(4000, argument), CallForm::PositionZero);
}

// Shows S3.4.2-01, S3.4.2-02, S4.3.1-03, S6-01, S6.1-03.
#[test]
fn planner_reduces_only_what_it_is_told_of() {
    let sizes = Sizes {
        call: 100_000,
        argument: None,
        reply: 100_000,
        result: None,
        reduction: true,
        segments: 1,
    };
    let plan = Plan::new(&sizes, &Thresholds::DEFAULT).unwrap();
    assert_eq!(plan.call, CallForm::PositionZero);
    assert_eq!(plan.reply, ReplyForm::ReplyChunk { reply: 100_000 });
}

// Shows S3.3.2-02.
#[test]
fn planner_at_the_thresholds() {
    let thresholds = Thresholds {
        call: 4096,
        reply: 2048,
    };
    for (excess, call, reply) in [(-4, true, true), (0, true, true), (4, false, false)] {
        let at = |threshold: usize| threshold.checked_add_signed(excess).unwrap() - 28;
        let sizes = Sizes {
            call: at(4096),
            argument: None,
            reply: 100,
            result: None,
            reduction: true,
            segments: 3,
        };
        let plan = Plan::new(&sizes, &thresholds).unwrap();
        assert_eq!(plan.call == CallForm::Inline, call);
        let sizes = Sizes {
            call: 100,
            reply: at(2048),
            ..sizes
        };
        let plan = Plan::new(&sizes, &thresholds).unwrap();
        assert_eq!(plan.reply == ReplyForm::Inline, reply);
    }
}

// Shows S8.2.2.2-02.
#[test]
fn long_credential_counts_into_the_call() {
    let sizes = Sizes {
        call: 40 + 32 + 4 + 900,
        argument: Some(Argument {
            position: 76,
            length: 900,
        }),
        reply: 100,
        result: None,
        reduction: true,
        segments: 1,
    };
    let plan = |sizes| Plan::new(&sizes, &Thresholds::DEFAULT).unwrap().call;
    assert_eq!(plan(sizes), CallForm::Inline);
    let argument = Argument {
        position: 476,
        length: 900,
    };
    let sizes = Sizes {
        call: sizes.call + 400,
        argument: Some(argument),
        ..sizes
    };
    assert_eq!(plan(sizes), CallForm::ReadChunk(argument));
}

// Shows S3.3.2-01, S3.3.3-09, P-05, P-13.
#[test]
fn thresholds_are_the_smaller_of_both() {
    let data = |send, receive| PrivateData::new(send, receive, false).unwrap();
    // Client's send and receive, server's send and receive, Call and Reply.
    for (client, server, call, reply) in [
        ((4096, 4096), (4096, 4096), 4096, 4096),
        ((1024, 8192), (4096, 2048), 1024, 4096),
        ((8192, 1024), (4096, 2048), 2048, 1024),
        ((65_536, 262_144), (262_144, 65_536), 65_536, 262_144),
    ] {
        let client = data(client.0, client.1);
        let server = data(server.0, server.1);
        let expected = Thresholds { call, reply };
        assert_eq!(
            Thresholds::negotiate(Role::Client, client, Some(server)),
            expected
        );
        assert_eq!(
            Thresholds::negotiate(Role::Server, server, Some(client)),
            expected
        );
        assert_eq!(
            Thresholds::negotiate(Role::Client, client, None),
            Thresholds::DEFAULT
        );
        assert_eq!(
            Thresholds::negotiate(Role::Server, server, None),
            Thresholds::DEFAULT
        );
    }
    let default = Thresholds {
        call: 1024,
        reply: 1024,
    };
    assert_eq!(Thresholds::DEFAULT, default);
}
