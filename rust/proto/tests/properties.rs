// SPDX-License-Identifier: GPL-2.0

//! Properties that hold for every input, tried on random ones.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proto::call::{Incoming, Part, Reason, Rejection};
use proto::chunk::{self, Limits, Lists, ReadSegment, Segment};
use proto::cm_private_data::PrivateData;
use proto::credit::{self, Window};
use proto::header::{Body, Call, Prefix};
use proto::plan::{Argument, CallForm, Plan, ReplyForm, Sizes, Thresholds};
use proto::reduction::ReducedReply;
use proto::reply::{self, Offer};
use proto::reply_builder::{self, ReplyBuilder, Unreturnable};
use proto::xdr::{roundup, Reader};

use crate::common;
use crate::common::*;

fn segments() -> impl Strategy<Value = Vec<Segment>> {
    vec(any_segment(), 0..6)
}

fn any_segment() -> impl Strategy<Value = Segment> {
    (any::<u32>(), any::<u32>(), any::<u64>()).prop_map(|(handle, length, offset)| Segment {
        handle,
        length,
        offset,
    })
}

fn reads() -> impl Strategy<Value = Vec<ReadSegment>> {
    // A Position of zero and a payload behind the header exclude each other.
    let position = (1..=u32::MAX / 4).prop_map(|position| position * 4);
    let read =
        (position, any_segment()).prop_map(|(position, segment)| ReadSegment { position, segment });
    vec(read, 0..6)
}

/// Returns three chunk fields of any shape.
fn lists() -> impl Strategy<Value = (Vec<ReadSegment>, Vec<Vec<Segment>>, Option<Vec<Segment>>)> {
    (
        reads(),
        vec(segments(), 0..4),
        proptest::option::of(segments()),
    )
}

/// Cuts `bytes` at any places into `cuts.len() + 1` runs, some of them empty.
fn cut<'a>(bytes: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// Memory that a Responder pulls from: registered runs of bytes.
#[derive(Default)]
struct Memory(HashMap<u32, Vec<u8>>);

impl Memory {
    fn register(&mut self, bytes: &[u8]) -> Segment {
        let handle = u32::try_from(self.0.len()).unwrap();
        self.0.insert(handle, bytes.to_vec());
        segment(handle, u32::try_from(bytes.len()).unwrap())
    }

    fn pull(&self, segments: impl Iterator<Item = Segment>) -> Vec<u8> {
        let pull = |segment: Segment| {
            let from = segment.offset - self::segment(segment.handle, 0).offset;
            let from = usize::try_from(from).unwrap();
            let to = from + usize::try_from(segment.length).unwrap();
            self.0[&segment.handle][from..to].to_vec()
        };
        segments.flat_map(pull).collect()
    }
}

proptest! {
    // A finding becomes a test of its own, not a line in a file.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // Shows S3.2-01, S4-01, S4.1.2-10.
    #[test]
    fn decoding_gives_what_was_encoded((read, write, reply) in lists(), xid: u32, credits in 1..u32::MAX) {
        let write: Vec<&[Segment]> = write.iter().map(|chunk| &chunk[..]).collect();
        let call = Call { xid, credits, body: Body::Msg, read: &read, write: &write, reply: reply.as_deref() };
        let size = 28 + 24 * read.len()
            + write.iter().map(|chunk| 8 + 16 * chunk.len()).sum::<usize>()
            + reply.as_ref().map_or(0, |chunk| 4 + 16 * chunk.len());
        prop_assert_eq!(call.wire_len(), size);

        // Exactly that much is written, and one byte less is refused.
        let mut out = vec![0xA5; size + 8];
        prop_assert_eq!(call.emit(&mut out), Ok(size));
        prop_assert!(out[size..].iter().all(|byte| *byte == 0xA5));
        prop_assert!(call.emit(&mut vec![0; size - 1]).is_err());

        let mut reader = Reader::new(&out);
        let prefix = Prefix::parse(&mut reader).unwrap();
        prop_assert_eq!(prefix, Prefix { xid, version: 1, credits, procedure: 0 });
        let lists = Lists::parse(&mut reader, &Limits::UNLIMITED).unwrap();
        // The payload starts where the header ends.
        prop_assert_eq!(reader.at(), size);
        prop_assert!(lists.read.iter().eq(read.iter().copied()));
        prop_assert_eq!(lists.read.len(), read.len());
        prop_assert_eq!(lists.write.len(), write.len());
        for (decoded, encoded) in lists.write.iter().zip(&write) {
            prop_assert!(decoded.iter().eq(encoded.iter().copied()));
            prop_assert_eq!(decoded.is_empty(), encoded.is_empty());
        }
        prop_assert_eq!(lists.reply.is_some(), reply.is_some());
        let decoded: Vec<_> = lists.reply.into_iter().flatten().collect();
        prop_assert_eq!(decoded, reply.unwrap_or_default());
    }

    // Shows S6.1-02.
    #[test]
    fn limits_are_kept((read, write, reply) in lists(), reads in 0..6usize, chunks in 0..4usize, most in 0..6usize) {
        let write: Vec<&[Segment]> = write.iter().map(|chunk| &chunk[..]).collect();
        let call = Call { xid: 1, credits: 1, body: Body::Msg, read: &read, write: &write, reply: reply.as_deref() };
        let mut out = vec![0; call.wire_len()];
        call.emit(&mut out).unwrap();
        let limits = Limits { read_segments: reads, write_chunks: chunks, segments: most };
        let mut reader = Reader::new(&out[16..]);
        let within = read.len() <= reads
            && write.len() <= chunks
            && write.iter().chain(&reply.as_deref()).all(|chunk| chunk.len() <= most);
        prop_assert_eq!(Lists::parse(&mut reader, &limits).is_ok(), within);
    }

    // Shows S4.5-01, S8.2.2.4-01, SEC-26, SEC-27.
    #[test]
    fn any_bytes_decode_or_do_not(message in vec(any::<u8>(), 0..200)) {
        let _ = reply::parse(&message);
        let _ = proto::call::parse(&message, &POLICY);
        let _ = PrivateData::parse(&message);
    }

    // Shows S4.5-01.
    #[test]
    fn any_words_decode_or_do_not(rest in vec(prop_oneof![0..4u32, any::<u32>()], 0..60), procedure in 0..6u32) {
        let message = message(procedure, &rest, &[]);
        let _ = reply::parse(&message);
        if let Ok(Incoming::Call(call)) = proto::call::parse(&message, &POLICY) {
            let parts: u64 = call.parts().map(|part| match part {
                Part::Payload { length, .. } | Part::Chunk { length, .. } | Part::Padding(length) => length,
            }).sum();
            prop_assert_eq!(parts, call.message_len());
            prop_assert_eq!(call.outline().call(&message), Some(call));
            prop_assert_eq!(call.outline().call(&message[..27]), None);
        }
    }

    /// Arguments leave the message in random pieces and come back in any order.
    // Shows S2.2.4.2-01, S3.4.1-01, S3.4.4-01, S3.4.4.4-01, S3.4.5-03, S3.4.5-05, S3.4.5-06,
    // S3.4.5-07, S3.4.5.1-01, S3.4.5.2-03, S3.4.5.2-06, S3.5.3-10, S4-02, S6.1-05.
    #[test]
    fn reduced_message_is_rebuilt(
        items in vec((0..3u32, vec(any::<u8>(), 0..10), vec(any::<Index>(), 0..4), 0..3u8), 1..4),
        order: Vec<Index>,
        long: bool,
        long_cuts in vec(any::<Index>(), 0..4),
    ) {
        let mut memory = Memory::default();
        let mut whole = null_call(XID);
        let mut inline = whole.clone();
        let mut lists: Vec<Vec<ReadSegment>> = Vec::new();
        let mut arguments = HashMap::new();
        for (words_before, bytes, cuts, form) in &items {
            for stream in [&mut whole, &mut inline] {
                stream.extend(words(vec![7; usize::try_from(*words_before).unwrap()]));
                // The count word stays.
                stream.extend(words([u32::try_from(bytes.len()).unwrap()]));
            }
            let position = u32::try_from(whole.len()).unwrap();
            let mut data = bytes.clone();
            data.resize(roundup(bytes.len()), 0);
            whole.extend(&data);
            // Fill does not travel, or in the last segment, or in one of its own.
            let sent = match form {
                0 => &data[..bytes.len()],
                _ => &data[..],
            };
            let mut runs = cut(sent, cuts);
            if *form == 2 {
                runs = cut(&data[..bytes.len()], cuts);
                runs.push(&data[bytes.len()..]);
            }
            lists.push(runs.iter().map(|run| ReadSegment { position, segment: memory.register(run) }).collect());
            arguments.insert(position, bytes.len());
        }
        for stream in [&mut whole, &mut inline] {
            stream.extend(words([9]));
        }
        if long {
            let runs = cut(&inline, &long_cuts);
            lists.push(runs.iter().map(|run| ReadSegment { position: 0, segment: memory.register(run) }).collect());
        }
        // Shuffle, but keep the order within each chunk.
        let mut read = Vec::new();
        let mut order = order.into_iter();
        while lists.iter().any(|list| !list.is_empty()) {
            lists.retain(|list| !list.is_empty());
            let pick = order.next().map_or(0, |index| index.index(lists.len()));
            read.push(lists[pick].remove(0));
        }

        let body = if long { Body::NoMsg } else { Body::Msg };
        let call = Call { xid: XID, credits: 1, body, read: &read, write: &[], reply: None };
        let mut message = vec![0; call.wire_len()];
        call.emit(&mut message).unwrap();
        if !long {
            message.extend(&inline);
        }
        let call = served(&message);
        let payload = match body {
            Body::Msg => call.payload.to_vec(),
            Body::NoMsg => memory.pull(call.lists.read.chunk(0)),
        };
        prop_assert_eq!(&payload, &inline);
        prop_assert_eq!(call.check_message(&payload), Ok(()));
        let mut rebuilt = Vec::new();
        for part in call.parts() {
            match part {
                Part::Payload { from, length } if long => {
                    let part = chunk::slice(call.lists.read.chunk(0), from, length);
                    rebuilt.extend(memory.pull(part));
                }
                Part::Payload { from, length } => {
                    let from = usize::try_from(from).unwrap();
                    rebuilt.extend(&payload[from..from + usize::try_from(length).unwrap()]);
                }
                Part::Chunk { position, length } => {
                    let bytes = memory.pull(call.lists.read.chunk(position));
                    prop_assert_eq!(u64::try_from(bytes.len()).unwrap(), length);
                    rebuilt.extend(bytes);
                }
                Part::Padding(count) => rebuilt.resize(rebuilt.len() + usize::try_from(count).unwrap(), 0),
            }
        }
        prop_assert_eq!(rebuilt, whole);
        prop_assert_eq!(call.check_arguments(|position, _| arguments.get(&position).copied()), Ok(()));
    }

    /// A chunk that starts anywhere but where something was taken out is refused.
    // Shows S3.4.5-08.
    #[test]
    fn unreachable_positions_are_refused(
        first in 1..40u32, first_length in 0..64u32, second in 1..60u32, second_length in 0..64u32,
    ) {
        let second = second + u32::from(second >= first);
        let (first, second) = (first * 4, second * 4);
        let read = [read(first, 1, first_length), read(second, 2, second_length)];
        let call = Call { xid: XID, credits: 1, body: Body::Msg, read: &read, write: &[], reply: None };
        let mut message = vec![0; call.wire_len()];
        call.emit(&mut message).unwrap();
        message.extend(write_call(XID, first_length));
        // The same rule, counted in bytes: the lower chunk is put in, and the upper must start in
        // what is there then, not before the lower one ends.
        let (low, low_length, high) = if first < second {
            (first, first_length, second)
        } else {
            (second, second_length, first)
        };
        let low_length = low_length.next_multiple_of(4);
        let fits = (40..=96).contains(&low) && low + low_length <= high && high <= 96 + low_length;
        match proto::call::parse(&message, &POLICY) {
            Ok(_) => prop_assert!(fits),
            Err(Rejection::Refuse(_, Reason::Position(_))) => prop_assert!(!fits),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    /// The data in chunks, their padding and the message are all of the reply, each byte once.
    #[test]
    fn layout_loses_nothing(
        chunks in vec(0..40u32, 0..4),
        results in vec((0..20usize, 0..40usize, any::<bool>()), 0..5),
        behind in 0..20usize,
        reduction: bool,
    ) {
        let chunks: Vec<Vec<Segment>> = (1..).zip(&chunks).map(|(handle, length)| {
            (*length > 0).then(|| segment(handle, *length)).into_iter().collect()
        }).collect();
        let write: Vec<&[Segment]> = chunks.iter().map(|chunk| &chunk[..]).collect();
        let header = Call { xid: XID, credits: 1, body: Body::Msg, read: &[], write: &write, reply: None };
        let mut message = vec![0; header.wire_len()];
        header.emit(&mut message).unwrap();
        message.extend(null_call(XID));
        let call = served(&message);

        let mut at = 0;
        let results: Vec<_> = results.into_iter().map(|(before, length, passed)| {
            let start = at + 4 * before;
            at = start + roundup(length);
            (start..start + length, passed)
        }).collect();
        let total = at + 4 * behind;
        let mut layout = ReducedReply::<4>::new(&call, reduction, total);
        for (result, passed) in &results {
            if *passed {
                layout.skip();
            } else if let Err(error) = layout.place(result.clone()) {
                let too_long = matches!(error, Unreturnable::Result { .. });
                prop_assert!(too_long);
                return Ok(());
            }
        }

        let mut seen = vec![0; total];
        let mut rest = 0;
        for range in layout.remaining() {
            rest += range.len();
            seen[range].iter_mut().for_each(|byte| *byte += 1);
        }
        prop_assert_eq!(rest, layout.rest());
        for (index, result) in layout.reduced() {
            prop_assert_eq!(layout.written()[index], u64::try_from(result.len()).unwrap());
            prop_assert!(results.contains(&(result.clone(), false)));
            seen[result.start..result.start + roundup(result.len())].iter_mut().for_each(|byte| *byte += 1);
        }
        prop_assert_eq!(seen, vec![1; total]);
        prop_assert!(ReplyBuilder::new(&call, layout.written(), 0, 4096).is_ok());
    }

    /// The header of a reply repeats what was offered, with the lengths that were written.
    // Shows S3.4.3-03, S3.4.6-04, S3.4.6-05, S4.3.3-06, SEC-20.
    #[test]
    fn echo_equals_the_offer(
        write in vec(vec(0..5000u32, 0..5), 0..4),
        reply in proptest::option::of(vec(0..5000u32, 0..5)),
        used in vec(any::<Index>(), 4),
        payload in 5..2000u64,
        threshold in prop_oneof![Just(1024usize), Just(4096)],
    ) {
        let chunk = |lengths: &Vec<u32>| -> Vec<Segment> {
            (1..).zip(lengths).map(|(handle, length)| segment(handle, *length)).collect()
        };
        let write: Vec<Vec<Segment>> = write.iter().map(chunk).collect();
        let write: Vec<&[Segment]> = write.iter().map(|chunk| &chunk[..]).collect();
        let reply = reply.as_ref().map(chunk);
        let offer = Offer { write: &write, reply: reply.as_deref() };
        let header = Call { xid: XID, credits: 1, body: Body::Msg, read: &[], write: offer.write, reply: offer.reply };
        let mut message = vec![0; header.wire_len()];
        header.emit(&mut message).unwrap();
        message.extend(null_call(XID));
        let call = served(&message);

        let total = |chunk: &[Segment]| chunk::total(chunk.iter().copied());
        let written: Vec<u64> = write.iter().zip(&used).map(|(chunk, used)| {
            let room = usize::try_from(total(chunk)).unwrap();
            u64::try_from(used.index(room + 1)).unwrap()
        }).collect();
        let payload = payload * 4;
        let room = offer.reply.map_or(0, total);
        let length = header.wire_len();
        let fits = length + usize::try_from(payload).unwrap() <= threshold;
        let answer = match ReplyBuilder::new(&call, &written, payload, threshold) {
            Ok(answer) => answer,
            Err(_) => {
                prop_assert!(length > threshold || (!fits && payload > room));
                return Ok(());
            }
        };
        prop_assert!(length <= threshold && (fits || payload <= room));
        prop_assert_eq!(answer.body() == Body::Msg, fits);
        let mut out = vec![0xA5; length + 4];
        prop_assert_eq!(answer.emit(GRANT, &mut out), Ok(length));
        prop_assert_eq!(&out[length..], [0xA5; 4]);
        prop_assert!(answer.emit(GRANT, &mut vec![0; length - 1]).is_err());
        out.truncate(length);
        if fits {
            let mut rest = common::reply(XID, &[]);
            rest.resize(usize::try_from(payload).unwrap(), 0);
            out.extend(rest);
        }
        prop_assert!(out.len() <= threshold);

        let Ok(reply::Incoming::Reply(back)) = reply::parse(&out) else {
            return Err(TestCaseError::fail("no reply"));
        };
        let outcome = back.check(&offer).unwrap();
        let sum: u64 = written.iter().sum();
        prop_assert_eq!(u64::try_from(outcome.written_len).unwrap(), sum);
        let in_chunk = if fits { 0 } else { payload };
        prop_assert_eq!(u64::try_from(outcome.reply_chunk_len).unwrap(), in_chunk);
        prop_assert_eq!(chunk::total(answer.reply_segments()), in_chunk);
    }

    // Shows S3.4.3-02, S3.4.6-03, S3.4.6-05, S3.4.6.2-02, N-20.
    #[test]
    fn segments_are_filled_in_order(lengths in vec(0..100u32, 0..6), used: Index) {
        let chunk: Vec<_> = (1..).zip(&lengths).map(|(handle, length)| segment(handle, *length)).collect();
        let header = Call { xid: XID, credits: 1, body: Body::Msg, read: &[], write: &[&chunk], reply: None };
        let mut message = vec![0; header.wire_len()];
        header.emit(&mut message).unwrap();
        message.extend(null_call(XID));
        let call = served(&message);
        let offered = call.lists.write.iter().next().unwrap();
        let room = usize::try_from(offered.total()).unwrap();
        let length = used.index(room + 1);
        let mut rest = u32::try_from(length).unwrap();
        for (filled, offered) in reply_builder::written_segments(offered, u64::from(rest)).zip(&chunk) {
            prop_assert_eq!((filled.handle, filled.offset), (offered.handle, offered.offset));
            prop_assert_eq!(filled.length, rest.min(offered.length));
            rest -= filled.length;
        }
        prop_assert_eq!(rest, 0);
    }

    /// A reply that leaves out unused segments says the same as one that repeats them.
    // Shows ADV-49.
    #[test]
    fn unused_segments_may_be_missing(lengths in vec(0..100u32, 1..6), used: Index, kept: Index) {
        let chunk: Vec<_> = (1..).zip(&lengths).map(|(handle, length)| segment(handle, *length)).collect();
        let room: u32 = lengths.iter().sum();
        let mut rest = u32::try_from(used.index(usize::try_from(room).unwrap() + 1)).unwrap();
        let mut segments = Vec::new();
        for (handle, length) in (1..).zip(&lengths) {
            let written = rest.min(*length);
            rest -= written;
            segments.push(common::hloo(handle, written));
        }
        let needed = segments.iter().rposition(|segment| segment[1] > 0).map_or(0, |last| last + 1);
        let check = |segments: &[[u32; 4]]| {
            let mut lists = vec![0, 1, u32::try_from(segments.len()).unwrap()];
            lists.extend(segments.iter().flatten());
            lists.extend([0, 0]);
            let message = common::message(0, &lists, &common::reply(XID, &[]));
            let Ok(reply::Incoming::Reply(back)) = reply::parse(&message) else {
                return None;
            };
            let outcome = back.check(&Offer { write: &[&chunk], reply: None });
            Some(outcome.map(|outcome| (outcome.inline.len(), outcome.written_len)))
        };
        let kept = needed + kept.index(segments.len() - needed + 1);
        let whole = check(&segments);
        prop_assert!(matches!(whole, Some(Ok(_))));
        prop_assert_eq!(check(&segments[..kept]), whole);
    }

    /// Each plan fits, and a message that is planned to be long would not have fitted inline.
    // Shows S2.3.2-06, S3.4.6.2-01, S3.5.3-01, S3.5.3-04, S4.2.4-11, S4.3.3-01, N-11.
    #[test]
    fn plans_fit(
        head in 10..400usize, argument in 0..9000usize, tail in 0..100usize,
        rest in 6..700usize, result in 0..9000usize,
        reduction: bool, segments in 1..20usize,
        call in 1..5usize, back in 1..5usize,
    ) {
        let (head, tail) = (head * 4, tail * 4);
        let sizes = Sizes {
            call: head + roundup(argument) + tail,
            argument: Some(Argument { position: u32::try_from(head).unwrap(), length: argument }),
            reply: rest * 4 + roundup(result),
            result: Some(result),
            reduction,
            segments,
        };
        let thresholds = Thresholds { call: call * 1024, reply: back * 1024 };
        let Ok(plan) = Plan::new(&sizes, &thresholds) else {
            // Only a header can be too long.
            prop_assert!(28 + 24 * segments + 12 + 32 * segments > 1024);
            return Ok(());
        };
        let chunk = 4 + 16 * segments;
        let offered = match plan.reply {
            ReplyForm::Inline => 0,
            ReplyForm::WriteChunk { write } => {
                prop_assert_eq!(write, result);
                prop_assert!(28 + 4 + chunk + rest * 4 <= thresholds.reply);
                4 + chunk
            }
            ReplyForm::WriteAndReplyChunk { write, reply } => {
                prop_assert_eq!((write, reply), (result, rest * 4));
                prop_assert!(28 + 4 + chunk + rest * 4 > thresholds.reply);
                4 + chunk + chunk
            }
            ReplyForm::ReplyChunk { reply } => {
                prop_assert_eq!(reply, sizes.reply);
                prop_assert!(!reduction || result == 0);
                chunk
            }
        };
        prop_assert!(28 + offered <= thresholds.reply);
        prop_assert_eq!(plan.reply == ReplyForm::Inline, 28 + sizes.reply <= thresholds.reply);
        let whole = 28 + offered + sizes.call;
        let reduced = 28 + offered + 24 * segments + head + tail;
        match plan.call {
            CallForm::Inline => prop_assert!(whole <= thresholds.call),
            CallForm::ReadChunk(_) => {
                prop_assert!(whole > thresholds.call && reduction && argument > 0);
                prop_assert!(reduced <= thresholds.call);
            }
            CallForm::PositionZero => {
                prop_assert!(whole > thresholds.call);
                prop_assert!(!reduction || argument == 0 || reduced > thresholds.call);
                prop_assert!(28 + offered + 24 * segments <= thresholds.call);
            }
        }
    }

    /// The window follows the last grant and the last request, whatever is in flight.
    // Shows S3.3.1-03, S3.3.1-07, S3.3.1-08, S3.3.1-09.
    #[test]
    fn window_is_the_smaller_of_request_and_grant(steps in vec((any::<bool>(), 0..20u32), 1..200)) {
        let mut window = Window::new(4);
        let (mut requested, mut granted) = (4, 1);
        for (is_reply, number) in steps {
            if is_reply {
                // A level, not a difference.
                granted = number.max(1);
                prop_assert_eq!(window.on_reply(number), granted.min(requested));
            } else {
                requested = number.max(1);
                window.request(number);
                prop_assert_eq!(window.requested(), requested);
            }
            prop_assert_eq!(window.window(), granted.min(requested));
        }
    }

    /// Under any schedule, every Call that the Requester may send finds a Receive, if those for a
    /// grant are posted before each reply.
    // Shows S3.3.1-11, S3.3.1-12.
    #[test]
    fn every_granted_credit_has_a_receive(steps in vec(0..4u8, 1..300), limit in 1..40u32) {
        let mut window = Window::new(u32::MAX);
        let (mut granted, mut posted) = (1u32, 1u32);
        let (mut calls, mut serving) = (0u32, 0u32);
        let mut replies = std::collections::VecDeque::new();
        for step in steps {
            let in_flight = calls + serving + u32::try_from(replies.len()).unwrap();
            match step {
                0 => calls += u32::from(in_flight < window.window()),
                1 if calls > 0 => {
                    prop_assert!(posted > 0, "no Receive for a Call");
                    calls -= 1;
                    posted -= 1;
                    serving += 1;
                }
                2 if serving > 0 => {
                    if let Some(more) = credit::next_grant(granted, serving, 0, limit, limit) {
                        // It never sinks: nobody holds a credit that is not backed any more.
                        prop_assert!(more > granted && more <= limit);
                        granted = more;
                    }
                    posted = granted;
                    serving -= 1;
                    replies.push_back(granted);
                }
                3 => {
                    if let Some(grant) = replies.pop_front() {
                        window.on_reply(grant);
                    }
                }
                _ => {}
            }
            // Calls on their way, and those that may still be sent.
            let in_flight = calls + serving + u32::try_from(replies.len()).unwrap();
            prop_assert!(posted >= calls + window.window().saturating_sub(in_flight));
        }
    }

    // Shows P-06.
    #[test]
    fn private_data_survives(send in 1024..400_000usize, receive in 1024..400_000usize, flag: bool) {
        let data = PrivateData::new(send, receive, flag).unwrap();
        let size = |bytes: usize| (bytes - bytes % 1024).min(262_144);
        prop_assert_eq!(data.send_size(), size(send));
        prop_assert_eq!(data.receive_size(), size(receive));
        prop_assert_eq!(data.remote_invalidation(), flag);
        prop_assert_eq!(PrivateData::parse(&data.emit()), Some(data));
    }
}
