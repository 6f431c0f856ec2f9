// SPDX-License-Identifier: GPL-2.0

//! Behaviour that correct programs rely on: who may send first, Writes with nothing behind them,
//! Sends before the end, events.

use std::fs::File;
use std::io::Read;
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
use crate::connection::End;
use crate::entry;
use crate::kernel::page_size;
use crate::kernel::readable;
use crate::verbs::Buffer;
use crate::verbs::Context;
use crate::verbs::Cq;
use crate::verbs::Qp;
use crate::verbs::FLUSHED;
use crate::verbs::LOCAL_WRITE;
use crate::verbs::PATIENCE;
use crate::verbs::REMOTE_READ;
use crate::verbs::REMOTE_WRITE;
use crate::verbs::REM_ACCESS;
use crate::verbs::SUCCESS;

cases![
    accepting_end_sends_first,
    lone_writes_arrive,
    unsignalled_requests_are_sent,
    doorbells_carry_out,
    complete_sends_arrive,
    refused_read_says_so,
    events_are_not_lost,
    events_come_once,
    events_that_nobody_reads_are_as_many_as_were_asked_for,
];

/// The end that accepts sends first, from queues that are as small as what it sends.
fn accepting_end_sends_first(device: &Device) -> Outcome {
    for entries in [1, 2, 16] {
        let context = Context::open(&device.name)?;
        let client = Qp::with_cq(&context, entries, Cq::new(&context, entries)?)?;
        let server = Qp::with_cq(&context, entries, Cq::new(&context, entries)?)?;
        let (mut client, mut server) = connect(device, client, server)?;
        let room = Arc::new(context.buffer(page_size(), LOCAL_WRITE)?);
        for id in 0..entries {
            client.qp.receive_into(id.into(), &room, 0, 64);
        }
        for id in 0..entries {
            server.qp.post(entry::inline(id.into(), b"first"))?;
        }
        for id in 0..entries {
            let completion = client
                .qp
                .cq
                .wait_for(PATIENCE)
                .ok_or(format!("{entries}: no receive {id}"))?;
            expect(
                "it is received",
                (completion.id, completion.status) == (id.into(), SUCCESS),
            )?;
        }
        for id in 0..entries {
            let completion = server
                .qp
                .cq
                .wait_for(PATIENCE)
                .ok_or(format!("{entries}: no completion {id}"))?;
            expect(
                "it is sent",
                (completion.id, completion.status) == (id.into(), SUCCESS),
            )?;
        }
    }
    Ok(())
}

/// A Write arrives without anything behind it, whichever end writes first.
fn lone_writes_arrive(device: &Device) -> Outcome {
    for len in [2u32, 4096, 65536, 1 << 20] {
        let (mut client, mut server) = pair(device, 1)?;
        let there = server
            .qp
            .context
            .buffer(len as usize, LOCAL_WRITE | REMOTE_WRITE)?;
        let here = client
            .qp
            .context
            .buffer(len as usize, LOCAL_WRITE | REMOTE_WRITE)?;
        for round in 1..=10u8 {
            // Neither end has written what it waits for.
            for (end, from, to, octet) in [
                (&mut client, &here, &there, 2 * round),
                (&mut server, &there, &here, 2 * round + 1),
            ] {
                from.memory.fill(octet);
                end.qp.post(entry::rdma(
                    octet.into(),
                    entry::WRITE,
                    &[from.sge(0, len)],
                    to.mr.rkey,
                    to.memory.address(),
                ))?;
                let completion = end
                    .qp
                    .cq
                    .wait_for(PATIENCE)
                    .ok_or(format!("no completion of Write {octet} of {len} octets"))?;
                expect("it is written", completion.status == SUCCESS)?;
                let last = (len as usize - 1) / 8 * 8;
                let until = Instant::now() + PATIENCE;
                while to.memory.octets(last, 1)[0] != octet {
                    if Instant::now() > until {
                        return Err(format!(
                            "the end of Write {octet} of {len} octets does not arrive"
                        ));
                    }
                }
            }
        }
    }
    Ok(())
}

/// A hundred Writes, of which the last one only completes visibly, are sent without another
/// doorbell than those that the library rings: if the entry before was taken.
fn unsignalled_requests_are_sent(device: &Device) -> Outcome {
    let (mut client, server) = pair(device, 128)?;
    let there = server
        .qp
        .context
        .buffer(2 * page_size(), LOCAL_WRITE | REMOTE_WRITE)?;
    let here = client.qp.context.buffer(2 * page_size(), LOCAL_WRITE)?;
    for round in 0..20 {
        for number in 1..=100 {
            let list = [here.sge(0, 2 * page_size() as u32)];
            let mut words = entry::rdma(
                number,
                entry::WRITE,
                &list,
                there.mr.rkey,
                there.memory.address(),
            );
            if number != 100 {
                words[1] &= !u64::from(entry::SIGNALLED);
            }
            client.qp.put(words);
            if client.qp.entry_before_is_taken() {
                client
                    .qp
                    .doorbell()
                    .map_err(|errno| format!("the doorbell: errno {errno}"))?;
            }
        }
        let completion = client
            .qp
            .cq
            .wait()
            .map_err(|error| format!("round {round}: {error}"))?;
        expect(
            "the last one is written",
            (completion.id, completion.status) == (100, SUCCESS),
        )?;
    }
    Ok(())
}

/// A doorbell carries out what it tells of, unless the device works for the queue pair just then: no other thread need wake up.
fn doorbells_carry_out(device: &Device) -> Outcome {
    const ROUNDS: u64 = 200;
    let (mut client, mut server) = pair(device, 8)?;
    let there = Arc::new(server.qp.context.buffer(page_size(), LOCAL_WRITE)?);
    let mut taken = 0;
    for id in 0..ROUNDS {
        server.qp.receive_into(id, &there, 0, 64);
        client.qp.post(entry::inline(id, b"at once"))?;
        taken += u64::from(client.qp.last_entry_is_taken());
        for end in [&mut client, &mut server] {
            let completion = end.qp.cq.wait()?;
            expect("it is sent", completion.status == SUCCESS)?;
        }
        // An acknowledgement may be under way, of which the device takes note.
        thread::sleep(Duration::from_millis(1));
    }
    println!("{taken} of {ROUNDS} were taken when the doorbell was heard");
    expect("most are", taken > ROUNDS / 2)
}

/// Sends that are complete arrive, although their queue pair goes right behind: many programs end then.
fn complete_sends_arrive(device: &Device) -> Outcome {
    const COUNT: u64 = 16;
    let len = 16 * page_size() as u32;
    for round in 0..10 {
        let (mut client, mut server) = pair(device, 32)?;
        let here = client.qp.context.buffer(len as usize, LOCAL_WRITE)?;
        let there = Arc::new(server.qp.context.buffer(len as usize, LOCAL_WRITE)?);
        for id in 0..COUNT {
            server.qp.receive_into(id, &there, 0, len);
        }
        let list = [here.sge(0, len)];
        for id in 0..COUNT {
            client.qp.post(entry::request(id, entry::SEND, &list))?;
        }
        for id in 0..COUNT {
            let completion = client.qp.cq.wait()?;
            expect(
                &format!("round {round}: {completion:?} is Send {id}"),
                (completion.id, completion.status) == (id, SUCCESS),
            )?;
        }
        // Not in order, as `disconnect` would be.
        client
            .cm
            .destroy(client.id)
            .map_err(|errno| format!("DESTROY_ID: errno {errno}"))?;
        drop(client);
        for id in 0..COUNT {
            let completion = server.qp.cq.wait()?;
            expect(
                &format!("round {round}: {completion:?} is Receive {id}"),
                (completion.id, completion.status) == (id, SUCCESS),
            )?;
        }
    }
    Ok(())
}

/// A Read that the peer refuses completes with that reason, and what is behind it is flushed.
fn refused_read_says_so(device: &Device) -> Outcome {
    let len = page_size() as u32;
    for wrong in 0..5u32 {
        let (mut client, mut server) = pair(device, 8)?;
        let rights = LOCAL_WRITE | REMOTE_READ;
        let there = server.qp.context.buffer(page_size(), rights)?;
        let unreadable = server
            .qp
            .context
            .buffer(page_size(), LOCAL_WRITE | REMOTE_WRITE)?;
        let here = Arc::new(client.qp.context.buffer(page_size(), LOCAL_WRITE)?);
        let room = Arc::new(server.qp.context.buffer(page_size(), LOCAL_WRITE)?);
        server.qp.receive_into(9, &room, 0, 64);
        let (key, address) = (there.mr.rkey, there.memory.address());
        let (key, address, octets) = match wrong {
            0 => (key ^ 1, address, len),
            1 => (key ^ 0x100, address, len),
            2 => (key, address + 1, len),
            3 => (key, address - 8, 8),
            _ => (unreadable.mr.rkey, unreadable.memory.address(), len),
        };
        let read = |id, key, address, octets| {
            entry::rdma(id, entry::READ, &[here.sge(0, octets)], key, address)
        };
        client.qp.keeps.push(here.clone());
        let good = read(1, there.mr.rkey, there.memory.address(), len);
        client.qp.post(good)?;
        let completion = client.qp.cq.wait()?;
        expect("a Read succeeds", completion.status == SUCCESS)?;
        client.qp.put(read(2, key, address, octets));
        client.qp.post(entry::inline(3, b"behind"))?;
        for (id, status) in [(2, REM_ACCESS), (3, FLUSHED)] {
            let completion = client.qp.cq.wait()?;
            if (completion.id, completion.status) != (id, status) {
                return Err(format!(
                    "wrong Read {wrong}: {completion:?} instead of {id} with {status}"
                ));
            }
        }
    }
    Ok(())
}

/// Reads an event of a channel. `None` if none comes.
fn event(channel: &File, limit: Duration) -> Option<()> {
    readable(channel, limit.as_millis() as i32).then(|| {
        let mut channel = channel;
        let _ = channel.read(&mut [0; 8]);
    })
}

/// A connection whose client gets events of its completions, and memory for what arrives.
struct Notified {
    context: Context,
    channel: File,
    client: End,
    server: End,
    room: Arc<Buffer>,
}

impl Notified {
    /// Connects queue pairs of `entries` requests. The completion queue has room for four times as
    /// many.
    fn new(device: &Device, entries: u32) -> Result<Self, String> {
        let context = Context::open(&device.name)?;
        let channel = context
            .uverbs
            .create_channel()
            .map_err(|errno| format!("CREATE_COMP_CHANNEL: errno {errno}"))?;
        let cq = Cq::with_channel(&context, 4 * entries, Some(&channel))?;
        let client = Qp::with_cq(&context, entries, cq)?;
        let (client, server) = connect(device, client, Qp::new(&context, entries)?)?;
        let room = Arc::new(context.buffer(page_size(), LOCAL_WRITE)?);
        Ok(Self {
            context,
            channel,
            client,
            server,
            room,
        })
    }
}

/// Whoever asks for an event, finds nothing in the queue and sleeps is told of the next completion:
/// many times, with queue pairs that share the queue, while they complete.
fn events_are_not_lost(device: &Device) -> Outcome {
    let Notified {
        context: _context,
        channel,
        mut client,
        mut server,
        room,
    } = Notified::new(device, 16)?;
    for round in 0..3000 {
        server.qp.receive_into(round, &room, 0, 64);
        client.qp.post(entry::inline(round, b"event"))?;
        loop {
            // As a program does that sleeps: ask, look once more, sleep.
            client.qp.cq.arm(false);
            if client.qp.cq.poll().is_some() {
                break;
            }
            event(&channel, Duration::from_secs(10)).ok_or(format!("no event in round {round}"))?;
            if client.qp.cq.poll().is_some() {
                break;
            }
        }
        server.qp.cq.wait()?;
        server.qp.keeps.clear();
    }
    Ok(())
}

/// As many completions as there are cause one event for each time that it was asked for.
// Shows T15.
fn events_come_once(device: &Device) -> Outcome {
    let Notified {
        context: _context,
        channel,
        mut client,
        mut server,
        room,
    } = Notified::new(device, 64)?;
    let mut send = |client: &mut End, count: u64| -> Outcome {
        for id in 0..count {
            server.qp.receive_into(id, &room, 0, 64);
            client.qp.post(entry::inline(id, b"event"))?;
            server.qp.cq.wait()?;
        }
        Ok(())
    };
    send(&mut client, 20)?;
    expect(
        "no event unless asked for",
        event(&channel, Duration::from_millis(300)).is_none(),
    )?;
    client.qp.cq.arm(true);
    send(&mut client, 20)?;
    expect(
        "nor for what is not solicited",
        event(&channel, Duration::from_millis(300)).is_none(),
    )?;
    client.qp.cq.arm(false);
    send(&mut client, 20)?;
    expect(
        "one when asked for",
        event(&channel, Duration::from_secs(10)).is_some(),
    )?;
    expect(
        "and no other",
        event(&channel, Duration::from_millis(300)).is_none(),
    )
}

// Shows T15.
fn events_that_nobody_reads_are_as_many_as_were_asked_for(device: &Device) -> Outcome {
    const ASKED: u64 = 200;
    let Notified {
        context: _context,
        channel,
        mut client,
        mut server,
        room,
    } = Notified::new(device, 16)?;
    for id in 0..ASKED {
        // One that asks again before there is a completion has asked once.
        for _ in 0..5 {
            client.qp.cq.arm(false);
        }
        for _ in 0..2 {
            server.qp.receive_into(id, &room, 0, 64);
            client.qp.post(entry::inline(id, b"event"))?;
            client.qp.cq.wait()?;
            server.qp.cq.wait()?;
        }
        server.qp.keeps.clear();
    }
    let mut events = 0;
    while event(&channel, Duration::from_millis(300)).is_some() {
        events += 1;
    }
    match events == ASKED {
        true => Ok(()),
        false => Err(format!("{events} events instead of {ASKED}")),
    }
}
