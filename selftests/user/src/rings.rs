// SPDX-License-Identifier: GPL-2.0

//! Rings with anything in them: they cost their owner only.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use crate::case::cases;
use crate::case::expect;
use crate::case::Outcome;
use crate::connection::connect;
use crate::connection::pair;
use crate::connection::Device;
use crate::entry;
use crate::entry::Sge;
use crate::kernel::page_size;
use crate::numbers::Numbers;
use crate::others::beside_others;
use crate::others::RACE;
use crate::regions::works;
use crate::verbs::Completion;
use crate::verbs::Context;
use crate::verbs::Cq;
use crate::verbs::Qp;
use crate::verbs::FLUSHED;
use crate::verbs::LOCAL_WRITE;
use crate::verbs::LOC_PROT;
use crate::verbs::LOC_QP_OP;
use crate::verbs::REMOTE_READ;
use crate::verbs::REMOTE_WRITE;
use crate::verbs::SUCCESS;

cases![
    refused_requests_complete_in_their_turn,
    lists_that_wrap_are_refused,
    entries_of_any_octets,
    entries_that_change_while_they_are_taken,
    flags_that_are_always_set,
    doorbells_from_many_threads,
    requests_before_the_connection_are_not_sent,
    completions_that_nobody_takes,
    completions_have_no_other_memory,
];

/// A completion is one of those that the library has in its tables.
fn is_known(completion: &Completion) -> Outcome {
    let known = completion.opcode <= 8 && completion.status <= 9;
    expect(&format!("{completion:?} has an opcode and a status"), known)
}

fn sge(address: u64, length: u32, lkey: u32) -> Sge {
    Sge {
        address,
        length,
        lkey,
    }
}

/// Requests that are wrong each in its way, and the status of their completions.
fn wrong(buffer: Sge) -> Vec<([u64; 15], u16)> {
    let list = |entries: usize| entry::request(2, entry::SEND, &vec![buffer; entries.min(6)]);
    let with = |mut words: [u64; 15], flags: u16, count: u8, opcode: u8| {
        words[1] =
            u64::from(entry::VALID | flags) | u64::from(count) << 16 | u64::from(opcode) << 24;
        words
    };
    let mut all = Vec::new();
    for opcode in [4, 6, 7, 8, 9, 10, 11, 12, 13, 64, 128, 255] {
        all.push((with(list(1), entry::SIGNALLED, 1, opcode), LOC_QP_OP));
    }
    for count in [7, 8, 32, 128, 255] {
        all.push((
            with(list(6), entry::SIGNALLED, count, entry::SEND),
            LOC_QP_OP,
        ));
    }
    for length in [81, 120, 4096, 1 << 31, u64::from(u32::MAX)] {
        let mut words = entry::inline(2, &[0; 80]);
        words[4] = length;
        all.push((words, LOC_QP_OP));
    }
    all.push((
        with(list(1), entry::SIGNALLED | entry::INLINE, 1, entry::READ),
        LOC_QP_OP,
    ));
    all.push((with(list(2), entry::SIGNALLED, 2, entry::READ), LOC_QP_OP));
    let Sge { address, lkey, .. } = buffer;
    for (address, length, lkey) in [
        (address - 1, 2, lkey),
        (address + page_size() as u64, 1, lkey),
        (address, page_size() as u32 + 1, lkey),
        (address, 1, lkey ^ 1),
        (address, 1, lkey ^ 0x100),
        (address, 1, 0),
        (address, 1, u32::MAX),
        (0, 1, lkey),
        (1 << 63, 1, lkey),
    ] {
        all.push((
            entry::request(2, entry::SEND, &[sge(address, length, lkey)]),
            LOC_PROT,
        ));
    }
    all
}

/// Requests that were posted before a refused one succeed, and those behind it are flushed.
fn refused_requests_complete_in_their_turn(device: &Device) -> Outcome {
    let context = Context::open(&device.name)?;
    let buffer = context.buffer(page_size(), LOCAL_WRITE)?;
    for (number, (words, status)) in wrong(buffer.sge(0, 8)).into_iter().enumerate() {
        let (mut client, mut server) =
            connect(device, Qp::new(&context, 8)?, Qp::new(&context, 8)?)?;
        let room = Arc::new(context.buffer(page_size(), LOCAL_WRITE)?);
        server.qp.receive_into(7, &room, 0, 64);
        server.qp.receive_into(8, &room, 0, 64);
        client.qp.put(entry::inline(1, b"before"));
        client.qp.put(words);
        client.qp.put(entry::inline(3, b"behind"));
        client
            .qp
            .doorbell()
            .map_err(|errno| format!("the doorbell: errno {errno}"))?;
        for (id, status) in [(1, SUCCESS), (2, status), (3, FLUSHED)] {
            let completion = client.qp.cq.wait()?;
            is_known(&completion)?;
            if (completion.id, completion.status) != (id, status) {
                return Err(format!(
                    "wrong request {number}: {completion:?} instead of {id} with {status}"
                ));
            }
        }
        let completion = server.qp.cq.wait()?;
        expect(
            "what was before arrives",
            (completion.status, completion.length) == (SUCCESS, 6),
        )?;
        let completion = server.qp.cq.wait()?;
        expect("what was behind does not", completion.status == FLUSHED)?;
    }
    works(device)
}

// Shows T18.
fn lists_that_wrap_are_refused(device: &Device) -> Outcome {
    let context = Context::open(&device.name)?;
    let buffer = context.buffer(page_size(), LOCAL_WRITE)?;
    let key = buffer.mr.lkey;
    let own = buffer.memory.address();
    let lists = [
        vec![sge(own, u32::MAX, key); 6],
        vec![sge(own, 1 << 31, key); 2],
        vec![sge(own, 8, key), sge(own, u32::MAX - 7, key)],
        vec![sge(u64::MAX, 2, key)],
        vec![sge(u64::MAX - 7, 16, key)],
        vec![sge(own.wrapping_sub(1 << 32), u32::MAX, key)],
        vec![sge(0u64.wrapping_sub(own), u32::MAX, key)],
    ];
    for list in &lists {
        for opcode in [entry::SEND, entry::WRITE, entry::READ] {
            let (mut client, _server) =
                connect(device, Qp::new(&context, 8)?, Qp::new(&context, 8)?)?;
            client.qp.post(entry::rdma(1, opcode, list, key, own))?;
            let completion = client.qp.cq.wait()?;
            let failed = [LOC_PROT, LOC_QP_OP].contains(&completion.status);
            expect("a request with such a list fails", failed)?;
        }
        let (mut client, mut server) =
            connect(device, Qp::new(&context, 8)?, Qp::new(&context, 8)?)?;
        server.qp.post_receive(entry::receive(2, list));
        client.qp.post(entry::inline(1, &[b'!'; 64]))?;
        let completion = server.qp.cq.wait()?;
        expect(
            "a Receive with such a list fails",
            completion.status != SUCCESS,
        )?;
    }
    expect(
        "nothing is written",
        buffer.memory.octets(0, page_size()) == vec![0; page_size()],
    )
}

// Shows T3, T4.
fn entries_of_any_octets(device: &Device) -> Outcome {
    let mut numbers = Numbers::new(0);
    let context = Context::open(&device.name)?;
    let buffer = context.buffer(page_size(), LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ)?;
    for _ in 0..40 {
        let (mut client, mut server) =
            connect(device, Qp::new(&context, 16)?, Qp::new(&context, 16)?)?;
        for _ in 0..16 {
            let mut words = [0; 15].map(|_: u64| numbers.next());
            // Half of them are nearly right: opcode, number of entries, and the keys.
            if numbers.next() % 2 == 0 {
                let [opcode, count, flags] = [0, 1, 2].map(|_| numbers.next());
                words[1] = flags % 32
                    | count % 8 << 16
                    | opcode % 8 << 24
                    | u64::from(buffer.mr.rkey) << 32;
                words[2] = buffer.memory.address();
                for entry in words[3..].chunks_mut(2) {
                    entry[0] = buffer.memory.address();
                    entry[1] = entry[1] % 700 | u64::from(buffer.mr.lkey) << 32;
                }
            }
            words[1] |= u64::from(entry::VALID);
            client.qp.put(words);
            let mut words = [0; 14].map(|_: u64| numbers.next());
            words[1] |= u64::from(entry::VALID);
            server.qp.post_receive(words);
        }
        let _ = client.qp.doorbell();
        for end in [&mut client, &mut server] {
            while let Some(completion) = end.qp.cq.wait_for(Duration::from_millis(20)) {
                is_known(&completion)?;
            }
        }
    }
    works(device)
}

// Shows T3.
fn entries_that_change_while_they_are_taken(device: &Device) -> Outcome {
    beside_others(device, 2, |stop| {
        let context = Context::open(&device.name)?;
        let buffer = context.buffer(page_size(), LOCAL_WRITE)?;
        let secret = Context::open(&device.name)?.buffer(page_size(), LOCAL_WRITE)?;
        secret.memory.fill(b's');
        while !stop.load(Ordering::Relaxed) {
            let (mut client, mut server) =
                connect(device, Qp::new(&context, 4)?, Qp::new(&context, 64)?)?;
            let room = Arc::new(context.buffer(page_size(), LOCAL_WRITE)?);
            for id in 0..64 {
                server.qp.receive_into(id, &room, 0, page_size() as u32);
            }
            let ring = client.qp.send.clone();
            let done = AtomicBool::new(false);
            thread::scope(|scope| {
                // Lists of good and of bad entries, in all slots, at full speed.
                scope.spawn(|| {
                    let mut numbers = Numbers::new(7);
                    while !done.load(Ordering::Relaxed) {
                        let good = buffer.sge(0, 8);
                        let bad = [
                            secret.sge(0, 8),
                            sge(1 << 63, u32::MAX, 0x5d),
                            buffer.sge(0, u32::MAX),
                        ];
                        let sge = match numbers.next() % 8 {
                            which @ 0..=2 => bad[which as usize],
                            _ => good,
                        };
                        let slot = (numbers.next() % 4) as usize * entry::SQE_LEN;
                        ring.word(slot + 24).store(sge.address, Ordering::Relaxed);
                        let word = u64::from(sge.length) | u64::from(sge.lkey) << 32;
                        ring.word(slot + 32).store(word, Ordering::Relaxed);
                    }
                });
                for id in 0..64 {
                    if client
                        .qp
                        .post(entry::request(id, entry::SEND, &[buffer.sge(0, 8)]))
                        .is_err()
                    {
                        break;
                    }
                    match client.qp.cq.wait_for(Duration::from_secs(5)) {
                        Some(completion) if completion.status == SUCCESS => {}
                        _ => break,
                    }
                }
                done.store(true, Ordering::Relaxed);
            });
            expect(
                "nothing of another's region is sent",
                !room.memory.octets(0, page_size()).contains(&b's'),
            )?;
        }
        Ok(())
    })
}

// Shows T4.
fn flags_that_are_always_set(device: &Device) -> Outcome {
    beside_others(device, 2, |stop| {
        let context = Context::open(&device.name)?;
        let buffer = context.buffer(page_size(), LOCAL_WRITE)?;
        while !stop.load(Ordering::Relaxed) {
            let (mut client, mut server) =
                connect(device, Qp::new(&context, 64)?, Qp::new(&context, 64)?)?;
            for id in 0..64 {
                client.qp.put(entry::inline(id, &[b'!'; 8]));
                server
                    .qp
                    .post_receive(entry::receive(id, &[buffer.sge(0, 64)]));
            }
            let until = Instant::now() + RACE / 4;
            thread::scope(|scope| {
                for which in 0..2 {
                    let (client, server) = (&client.qp, &server.qp);
                    scope.spawn(move || {
                        let mut numbers = Numbers::new(which + 1);
                        while Instant::now() < until {
                            for slot in 0..64 {
                                // The flags of requests are always set, those of completions are anything.
                                let head = u64::from(entry::VALID | entry::INLINE) | 3 << 24;
                                client
                                    .send
                                    .word(slot * entry::SQE_LEN + 8)
                                    .store(head, Ordering::Relaxed);
                                let head = u64::from(entry::VALID) | 1 << 16;
                                server
                                    .receive
                                    .word(slot * entry::RQE_LEN + 8)
                                    .store(head, Ordering::Relaxed);
                                for end in [client, server] {
                                    let cq = &end.cq;
                                    let free = numbers.next() % 2;
                                    cq.ring
                                        .word(slot * Cq::LEN + 8)
                                        .store(numbers.next() * free, Ordering::Relaxed);
                                    let control = cq.raw.ring.slots as usize * Cq::LEN;
                                    cq.ring
                                        .word(control)
                                        .store(numbers.next(), Ordering::Relaxed);
                                }
                            }
                            let _ = client.doorbell();
                        }
                    });
                }
            });
        }
        Ok(())
    })
}

// Shows T16.
fn doorbells_from_many_threads(device: &Device) -> Outcome {
    const THREADS: usize = 50;
    beside_others(device, THREADS, |stop| {
        let (mut client, mut server) = pair(device, 4)?;
        let (rung, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let mut counts = [0_u64; 2];
                    while !stop.load(Ordering::Relaxed) {
                        let result = client.qp.context.uverbs.doorbell(client.qp.raw.handle);
                        counts[usize::from(result.is_err())] += 1;
                    }
                    rung.fetch_add(counts[0], Ordering::Relaxed);
                    refused.fetch_add(counts[1], Ordering::Relaxed);
                });
            }
        });
        let (rung, refused) = (rung.into_inner(), refused.into_inner());
        println!("{rung} doorbells, and {refused} that were refused");
        expect("each doorbell is heard", rung > 1000 && refused == 0)?;
        // Its own connection is there, too, and has done nothing else.
        let room = Arc::new(server.qp.context.buffer(page_size(), LOCAL_WRITE)?);
        server.qp.receive_into(1, &room, 0, 64);
        client.send(2, b"after all")?;
        let completion = server.qp.cq.wait()?;
        expect(
            "a message arrives",
            (completion.id, completion.status, completion.length) == (1, SUCCESS, 9),
        )
    })
}

// Shows T17.
fn requests_before_the_connection_are_not_sent(device: &Device) -> Outcome {
    let context = Context::open(&device.name)?;
    let (mut early, mut other) = (Qp::new(&context, 8)?, Qp::new(&context, 8)?);
    for id in 0..8 {
        early.put(entry::inline(id, b"early"));
    }
    expect("the doorbell is refused", early.doorbell().is_err())?;
    let room = Arc::new(context.buffer(page_size(), LOCAL_WRITE)?);
    for id in 0..8 {
        other.receive_into(id, &room, 0, 64);
    }
    let (mut client, mut server) = connect(device, early, other)?;
    expect(
        "nothing is sent",
        server.qp.cq.wait_for(Duration::from_millis(500)).is_none(),
    )?;
    client.send(100, b"after it")?;
    let completion = server.qp.cq.wait()?;
    expect(
        "what is posted then is sent",
        (completion.status, completion.length) == (SUCCESS, 8),
    )?;
    expect("as it was", room.memory.octets(0, 8) == b"after it")
}

// Shows T14.
fn completions_that_nobody_takes(device: &Device) -> Outcome {
    let context = Context::open(&device.name)?;
    let few = Qp::with_cq(&context, 64, Cq::new(&context, 4)?)?;
    let (mut client, mut server) = connect(device, Qp::new(&context, 64)?, few)?;
    let room = Arc::new(context.buffer(page_size(), LOCAL_WRITE)?);
    for id in 0..64 {
        server.qp.receive_into(id, &room, 0, 64);
    }
    let mut failed = false;
    for id in 0..64 {
        client.qp.post(entry::inline(id, b"more")).ok();
        match client.qp.cq.wait_for(Duration::from_secs(5)) {
            Some(completion) if completion.status == SUCCESS => {}
            _ => failed = true,
        }
        if failed {
            break;
        }
    }
    expect("the connection ends", failed || client.ended().is_ok())?;
    let slots = server.qp.cq.raw.ring.slots;
    for id in 0..u64::from(slots) {
        let completion = server.qp.cq.wait()?;
        expect(
            "no completion was overwritten",
            (completion.id, completion.status) == (id, SUCCESS),
        )?;
    }
    works(device)
}

// Shows T24, T25.
fn completions_have_no_other_memory(device: &Device) -> Outcome {
    let (mut client, mut server) = pair(device, 8)?;
    let room = Arc::new(server.qp.context.buffer(page_size(), LOCAL_WRITE)?);
    for round in 0..64 {
        server.qp.receive_into(round, &room, 0, 64);
        client.qp.post(entry::inline(round, b"octets"))?;
        for (end, opcode) in [(&mut client, entry::SEND), (&mut server, entry::RECEIVE)] {
            let number = end.qp.raw.number;
            let completion = end.qp.cq.wait()?;
            let expected = Completion {
                id: round,
                opcode,
                status: SUCCESS,
                length: 6,
                rest: [0, number.into()],
            };
            if completion != expected {
                return Err(format!("{completion:?} instead of {expected:?}"));
            }
        }
    }
    Ok(())
}
