// SPDX-License-Identifier: GPL-2.0

//! Hostile chunk lists to the Responder, with the exact answer to each.
//!
//! A test `advNN_...` is case NN of the conformance table.

use proto::call::{Call, Part, Reason};
use proto::chunk::Limits;
use proto::reply_builder::{Destination, Placement, ReplyBuilder, Unreturnable};
use proto::upper_layer_binding::Binding;

use crate::adversarial_calls::{answered, reasons, refused};
use crate::common::golden;
use crate::common::hostile::*;
use crate::common::*;

/// Returns the handles of the read segments at a Position, in order.
fn handles(call: &Call<'_>, position: u32) -> Vec<u32> {
    let chunk = call.lists.read.chunk(position);
    chunk.map(|segment| segment.handle).collect()
}

// Shows S4.1.2-02, S4.5.2-01, ADV-17.
#[test]
fn adv17_read_list_presence_two() {
    answered(17);
}

// Shows S4.1.2-02, ADV-18.
#[test]
fn adv18_write_list_presence_all_ones() {
    answered(18);
}

// Shows S4.1.2-02, ADV-19.
#[test]
fn adv19_reply_chunk_presence_two() {
    answered(19);
}

// Shows S4.5-03, S4.5.2-01, ADV-20.
#[test]
fn adv20_end_inside_a_read_segment() {
    answered(20);
}

// Shows S4.1.2-03, S4.5-03, S4.5.2-01, ADV-21.
#[test]
fn adv21_end_instead_of_a_terminator() {
    answered(21);
}

// Shows S4.1.2-04, S4.5-03, S4.5.2-01, ADV-22.
#[test]
fn adv22_one_segment_more_than_fits() {
    answered(22);
}

// Shows S4.1.2-04, S4.5.2-01, SEC-21, ADV-23.
#[test]
fn adv23_counts_that_wrap_when_multiplied() {
    answered(23);
}

// Shows S3.4.5-04, S4.5.2-01, ADV-28.
#[test]
fn adv28_positions_between_units() {
    answered(28);
}

// Shows S3.4.5-08, ADV-29.
#[test]
fn adv29_positions_beyond_the_end() {
    served(&write(&[(96, 1, 4096)], 4096));
    answered(29);
    let expected = [100, 96 + 4096 + 4, 0x7FFF_FFFC].map(Reason::Position);
    assert_eq!(reasons(29), expected);
}

// Shows S3.4.5-08, ADV-30.
#[test]
fn adv30_overlapping_chunks() {
    answered(30);
    assert_eq!(reasons(30), [Reason::Position(100)]);
    // Right behind the first one is no overlap.
    served(&write(&[(96, 1, 4096), (96 + 4096, 2, 4096)], 4096));
}

// Shows S6.1-06, S6.1-07, S8.2.2-01, ADV-31.
#[test]
fn adv31_positions_inside_the_rpc_header() {
    answered(31);
    let positions = [4, 20, 36];
    assert_eq!(reasons(31), positions.map(Reason::Position));
    for position in positions {
        // The header of a long message is seen when it was pulled.
        let long = nomsg(&[(0, 1, 96), (position, 2, 64)]);
        let call = served(&long);
        let pulled = write_call(XID, 4096);
        assert_eq!(call.check_message(&pulled), Err(Reason::Position(position)));
    }
}

// Shows S3.4.2-02, S3.4.4.4-01, S6.1-06, S6.1-07, ADV-32.
#[test]
fn adv32_chunk_that_is_no_eligible_argument() {
    // GETATTR without its file handle, which came by chunk.
    let getattr = words([XID, 0, 2, 100_003, 3, 1, 0, 0, 0, 0, 32]);
    let message = message(0, &read_list(&[(44, 1, 32)]), &getattr);
    let call = served(&message);
    assert_eq!(bound(&call), Err(Reason::Position(44)));
    assert_eq!(error(&call.refuse()), hex(golden::GV10));
}

// Shows S6.1-06, S6.1-07.
#[test]
fn adv32_handle_or_name_beside_an_eligible_argument() {
    // WRITE without its file handle, which came by chunk, alone and together with the data.
    let write = [XID, 0, 2, 100_003, 3, 7, 0, 0, 0, 0, 32, 0, 0, 64, 2, 64];
    let handle = words([&write[..], &[7; 16]].concat());
    let handle = message(0, &read_list(&[(44, 1, 32)]), &handle);
    assert_eq!(bound(&served(&handle)), Err(Reason::Position(44)));
    let both = message(0, &read_list(&[(44, 1, 32), (96, 2, 64)]), &words(write));
    assert_eq!(bound(&served(&both)), Err(Reason::Position(44)));

    // SYMLINK of NFSv2 without its name, and without its path, which has attributes behind it.
    let symlink = |rest: &[u32]| {
        let head = [XID, 0, 2, 100_003, 2, 13, 0, 0, 0, 0];
        words([&head[..], &[9; 8], rest].concat())
    };
    let name = symlink(&[4, 4, 0x7061_7468, 1, 1, 1, 1, 1, 1, 1, 1]);
    let name = message(0, &read_list(&[(76, 1, 4)]), &name);
    assert_eq!(bound(&served(&name)), Err(Reason::Position(76)));
    let path = symlink(&[4, 0x6E61_6D65, 4, 1, 1, 1, 1, 1, 1, 1, 1]);
    let path = message(0, &read_list(&[(84, 1, 4)]), &path);
    assert_eq!(bound(&served(&path)), Ok(()));
}

#[test]
fn chunk_that_is_an_eligible_argument() {
    let message = write(&[(96, 1, 1000)], 1000);
    assert_eq!(bound(&served(&message)), Ok(()));
}

// Shows S3.4.5-07, S4.3.1-01, ADV-33.
#[test]
fn adv33_interleaved_segments() {
    let message = write(
        &[
            (96, 1, 1000),
            (2096, 11, 400),
            (96, 2, 500),
            (2096, 12, 400),
            (96, 3, 500),
        ],
        2000,
    );
    let call = served(&message);
    assert_eq!(handles(&call, 96), [1, 2, 3]);
    assert_eq!(handles(&call, 2096), [11, 12]);
    assert_eq!(call.message_len(), 96 + 2000 + 800);
}

// Shows S3.4.5-07, ADV-34.
#[test]
fn adv34_descending_positions() {
    let message = write(&[(2096, 2, 800), (96, 1, 2000)], 2000);
    let call = served(&message);
    let chunks: Vec<_> = call.chunks().collect();
    assert_eq!(chunks, [(96, 2000), (2096, 800)]);
}

// Shows S3.5.3-10, ADV-35.
#[test]
fn adv35_position_zero_chunk_anywhere_in_the_list() {
    let list = [(0, 1, 100), (96, 2, 4095), (0, 3, 20)];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2]] {
        let message = nomsg(&order.map(|index| list[index]));
        let call = served(&message);
        assert_eq!(handles(&call, 0), [1, 3]);
        assert_eq!(handles(&call, 96), [2]);
        let parts: Vec<_> = call.parts().collect();
        assert_eq!(
            parts,
            [
                Part::Payload {
                    from: 0,
                    length: 96
                },
                Part::Chunk {
                    position: 96,
                    length: 4095
                },
                Part::Padding(1),
                Part::Payload {
                    from: 96,
                    length: 24
                },
            ]
        );
    }
}

// Shows ADV-36.
#[test]
fn adv36_two_payloads() {
    answered(36);
    assert_eq!(reasons(36), [Reason::TwoPayloads]);
}

// Shows S4.2.4-06, ADV-37.
#[test]
fn adv37_position_zero_chunk_without_bytes() {
    answered(37);
}

// Shows ADV-38.
#[test]
fn adv38_position_zero_chunk_too_short_for_a_call() {
    answered(38);
    served(&nomsg(&[(0, 1, 24)]));
}

// Shows S3.5.3-09, ADV-39.
#[test]
fn adv39_position_zero_chunk_without_fill() {
    answered(39);
    assert_eq!(reasons(39), [Reason::Unpadded(41)]);
}

// Shows S3.4.4-02, S3.4.4-03, S8.1.4-01, SEC-21, ADV-41.
#[test]
fn adv41_chunks_that_no_argument_needs() {
    answered(41);
    let lengths = [1 << 30, 1 << 32, 41 * u64::from(u32::MAX)];
    assert_eq!(reasons(41), lengths.map(Reason::TooLong));
}

// Shows S4.4.3-01, SEC-21, ADV-42.
#[test]
fn adv42_segment_that_wraps() {
    answered(42);
    // The last byte of all memory may be the last of a segment.
    for length in [0x0F, 0x10] {
        for message in near_the_end(length) {
            served(&message);
        }
    }
}

// Shows S3.4.4-01, ADV-43.
#[test]
fn adv43_segments_of_one_byte() {
    let message = write(&[(96, 1, 1); 41], 41);
    let call = served(&message);
    assert_eq!(call.message_len(), 96 + 44);
}

// Shows S3.4.3-02, ADV-44.
#[test]
fn adv44_empty_segments() {
    let message = write(
        &[(96, 9, 0), (96, 1, 8), (96, 9, 0), (96, 2, 8), (96, 9, 0)],
        16,
    );
    let call = served(&message);
    let parts: Vec<_> = call.parts().collect();
    assert_eq!(
        parts,
        [
            Part::Payload {
                from: 0,
                length: 96
            },
            Part::Chunk {
                position: 96,
                length: 16
            },
        ]
    );
    // Nothing but empty segments is no part at all.
    let message = write(&[(96, 9, 0)], 0);
    let call = served(&message);
    assert_eq!(call.parts().count(), 1);
    assert_eq!(call.check_arguments(|_, _| None), Ok(()));
}

// Shows S4.1.2-05, S6.1-02, ADV-45.
#[test]
fn adv45_many_empty_write_chunks() {
    let mut lists = vec![0];
    lists.extend([1, 0].repeat(120));
    lists.extend([0, 0]);
    let message = msg(&lists);
    let call = served(&message);
    let answer = ReplyBuilder::new(&call, &[], 24, 1024).unwrap();
    let mut out = [0; 1024];
    let length = answer.emit(GRANT, &mut out).unwrap();
    assert_eq!(length, 28 + 120 * 8);
    assert_eq!(out[20..28], words([1, 0]));
    // If the chunks alone fill the Send, there is only one thing to say.
    let header = Unreturnable::Header { length: 988 };
    assert_eq!(ReplyBuilder::new(&call, &[], 24, 980).err(), Some(header));
    assert_eq!(error(&call.refuse()), hex(golden::GV10));
    // A Responder that wants fewer says the same at once.
    let few = proto::call::Policy {
        limits: Limits {
            write_chunks: 119,
            ..POLICY.limits
        },
        ..POLICY
    };
    assert_eq!(serve(&message, &few), err_chunk());
}

// Shows S4.3.2-02, S4.3.2.3-03, S4.3.2.3-04, ADV-46.
#[test]
fn adv46_empty_chunk_asks_for_inline() {
    let message = msg(&write_list(&[&[], &[(2, 4096)]], None));
    let call = served(&message);
    let mut placement = Placement::new(&call, true);
    assert_eq!(placement.place(100), Ok(Destination::Inline));
    let Ok(Destination::Chunk { index: 1, .. }) = placement.place(4000) else {
        panic!();
    };
    let answer = ReplyBuilder::new(&call, &[0, 4000], 24 + 100, 1024).unwrap();
    let mut out = [0; 60];
    answer.emit(GRANT, &mut out).unwrap();
    let [h, l, o, p] = hloo(2, 4000);
    let expected = [XID, 1, GRANT, 0, 0, 1, 0, 1, 1, h, l, o, p, 0, 0];
    assert_eq!(out[..], words(expected));
}

// Shows S3.4.4-02, ADV-47.
#[test]
fn adv47_chunk_beyond_four_gib() {
    let half = 0x8000_0000;
    let message = msg(&write_list(&[&[(1, half), (2, half)]], None));
    let call = served(&message);
    let Ok(Destination::Chunk { segments, .. }) = Placement::new(&call, true).place(4096) else {
        panic!();
    };
    let lengths: Vec<_> = proto::reply_builder::written_segments(segments, 4096)
        .map(|s| s.length)
        .collect();
    assert_eq!(lengths, [4096, 0]);
}

/// Checks that the chunks of an inline message are eligible arguments.
fn bound(call: &Call<'_>) -> Result<(), Reason> {
    let binding = Binding::of(call.payload);
    call.check_arguments(|position, after| {
        let position = usize::try_from(position).unwrap();
        binding.argument(&call.payload[..position], after)
    })
}

/// Checks a Call with these read segments whose WRITE of five bytes is at Position 96.
fn five(read: &[(u32, u32, u32)]) -> Result<(), Reason> {
    bound(&served(&write(read, 5)))
}

// Shows S3.4.5.2-02, S3.4.5.2-03, S3.4.5.2-04, S3.4.5.2-06, ADV-91.
#[test]
fn adv91_argument_with_and_without_fill() {
    for read in [&[(96, 1, 5)][..], &[(96, 1, 8)], &[(96, 1, 5), (96, 2, 3)]] {
        assert_eq!(five(read), Ok(()));
        let message = write(read, 5);
        assert_eq!(served(&message).message_len(), 104);
    }
}

// Shows S3.4.5.2-02, S4.5.2-03, N-22, ADV-92.
#[test]
fn adv92_argument_with_more_than_fill() {
    let expected = Reason::Length {
        position: 96,
        length: 12,
    };
    assert_eq!(five(&[(96, 1, 12)]), Err(expected));
}

// Shows S3.4.5.2-05, S4.5.2-03, N-22, ADV-93.
#[test]
fn adv93_argument_with_less_than_it_says() {
    for length in [1, 4] {
        let expected = Reason::Length {
            position: 96,
            length: u64::from(length),
        };
        assert_eq!(five(&[(96, 1, length)]), Err(expected));
    }
}

// Shows S8.2.2.3-05, ADV-102.
#[test]
fn adv102_fill_of_any_value() {
    // A credential of five octets, its fill not zero.
    let mut call = words([XID, 0, 2, 100_003, 3, 0, 1, 5]);
    call.extend([1, 2, 3, 4, 5, 0xFF, 0xFF, 0xFF]);
    call.extend(words([0, 0]));
    served(&message(0, &[0, 0, 0], &call));
    // A Read chunk with its fill: what is in it is never looked at.
    assert_eq!(five(&[(96, 1, 8)]), Ok(()));
    let long = nomsg(&[(0, 1, 48)]);
    assert_eq!(served(&long).check_message(&call), Ok(()));
}

// Shows ADV-109.
#[test]
fn adv109_chunks_that_fill_the_reply() {
    // 1024 bytes are the header with a Reply chunk of 62 segments, and nothing else.
    let segments: Vec<_> = (0..62).map(|handle| (handle, 4096)).collect();
    let message = msg(&write_list(&[], Some(&segments[..61])));
    let call = served(&message);
    assert!(ReplyBuilder::new(&call, &[], 100_000, 1008).is_ok());
    let header = Unreturnable::Header { length: 1008 };
    let answer = ReplyBuilder::new(&call, &[], 100_000, 1004);
    assert_eq!(answer.err(), Some(header));
    assert_eq!(error(&call.refuse()), hex(golden::GV10));
    refused(&msg(&write_list(&[], Some(&segments))));
}

// Shows S6.1-02, ADV-111.
#[test]
fn adv111_more_positions_than_a_call_has_arguments() {
    answered(111);
    assert_eq!(reasons(111), [Reason::TooManyPositions; 3]);
    // One less is served.
    let message = write(&neighbours(16), 4);
    assert_eq!(served(&message).chunks().count(), 16);
    let mut long = neighbours(15);
    long.insert(8, (0, 17, 96));
    assert_eq!(served(&nomsg(&long)).chunks().count(), 15);
}

// Shows ADV-111.
#[test]
fn adv111_list_of_any_length_is_gone_through_a_few_times() {
    let any = proto::call::Policy {
        limits: Limits::UNLIMITED,
        ..POLICY
    };
    // Once for each segment, and nobody would wait for the end of this.
    assert_eq!(serve(&write(&neighbours(200_000), 4), &any), err_chunk());
    let empty = |(position, handle, _)| (position, handle, 0);
    let chunks: Vec<_> = neighbours(16).into_iter().map(empty).collect();
    let mut message = write(&chunks.repeat(12_500), 64);
    message.extend([0; 64]);
    let Served::Call(call) = serve(&message, &any) else {
        panic!();
    };
    assert_eq!(call.lists.read.len(), 200_000);
    assert_eq!(call.chunks().count(), 16);
    assert_eq!(call.parts().count(), 1);
}
