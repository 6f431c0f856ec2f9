// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues: what correct programs rely on, and what hostile ones try.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use crate::case::cases;
use crate::case::expect;
use crate::case::refused;
use crate::case::Outcome;
use crate::connection::connect;
use crate::connection::Device;
use crate::connection::End;
use crate::entry;
use crate::entry::Sge;
use crate::kernel::page_size;
use crate::kernel::Memory;
use crate::kernel::RawAsync;
use crate::kernel::EBUSY;
use crate::kernel::EINVAL;
use crate::kernel::ENOENT;
use crate::kernel::ENOMEM;
use crate::kernel::EOPNOTSUPP;
use crate::kernel::READ;
use crate::kernel::SHARED;
use crate::kernel::WRITE;
use crate::numbers::Numbers;
use crate::others::beside_others;
use crate::others::RACE;
use crate::regions::works;
use crate::regions::ReadOnly;
use crate::verbs::Buffer;
use crate::verbs::Context;
use crate::verbs::Cq;
use crate::verbs::Qp;
use crate::verbs::Srq;
use crate::verbs::FLUSHED;
use crate::verbs::LOCAL_WRITE;
use crate::verbs::LOC_LEN;
use crate::verbs::LOC_PROT;
use crate::verbs::LOC_QP_OP;
use crate::verbs::PATIENCE;
use crate::verbs::REMOTE_READ;
use crate::verbs::SUCCESS;

cases![
    shared_receives_serve_many,
    limit_is_told_once,
    shared_queue_has_its_own_domain,
    shared_queue_is_kept_while_it_is_used,
    wrong_shared_receives_end_who_takes_them,
    queue_pair_that_ends_leaves_the_rest,
    message_without_a_shared_receive_ends_its_sender,
    shared_flags_that_are_always_set,
    shared_receives_are_not_posted_by_commands,
    shared_queues_have_a_size,
];

/// Kinds of events.
const LIMIT_REACHED: u32 = 15;
const LAST_RECEIVE: u32 = 16;

/// Clients whose servers, of one context, take Receives from one queue.
struct Shared {
    srq: Srq,
    context: Context,
    clients: Vec<End>,
    servers: Vec<End>,
    room: Arc<Buffer>,
}

impl Shared {
    /// Connects that many. The queue has room for `receives`, and none is posted.
    fn new(device: &Device, connections: u32, receives: u32, limit: u32) -> Result<Self, String> {
        let context = Context::open(&device.name)?;
        let srq = Srq::new(&context, receives, limit)?;
        Self::with(device, connections, context, srq)
    }

    fn with(device: &Device, connections: u32, context: Context, srq: Srq) -> Result<Self, String> {
        let room = Arc::new(srq.context.buffer(4 * page_size(), LOCAL_WRITE)?);
        let (mut clients, mut servers) = (Vec::new(), Vec::new());
        for _ in 0..connections {
            let client = Qp::new(&Context::open(&device.name)?, 16)?;
            let server = Qp::sharing(&context, 16, &srq)?;
            let (client, server) = connect(device, client, server)?;
            clients.push(client);
            servers.push(server);
        }
        Ok(Self {
            srq,
            context,
            clients,
            servers,
            room,
        })
    }

    /// Posts a Receive of 64 octets.
    fn receive(&mut self, id: u64) {
        let place = id as usize % 64 * 64;
        self.srq.receive_into(id, &self.room.clone(), place, 64);
    }

    /// Returns the next event of the servers' context.
    fn event(&self, limit: Duration) -> Result<Option<RawAsync>, String> {
        let event = self.context.uverbs.async_event(limit);
        event.map_err(|errno| format!("events: errno {errno}"))
    }

    /// Expects an event, and no other behind it.
    fn is_told(&self, tag: u64, kind: u32) -> Outcome {
        let event = self.event(PATIENCE)?.ok_or(format!("no event {kind}"))?;
        expect(
            &format!("{event:?} is of {tag:#x} and of kind {kind}"),
            (event.tag, event.kind) == (tag, kind),
        )?;
        self.is_told_nothing()
    }

    fn is_told_nothing(&self) -> Outcome {
        match self.event(Duration::from_millis(300))? {
            None => Ok(()),
            Some(event) => Err(format!("{event:?} comes")),
        }
    }
}

/// Messages of all connections take Receives in the order in which they were posted. Completions
/// come in the queue of the connection, and name it.
fn shared_receives_serve_many(device: &Device) -> Outcome {
    const CONNECTIONS: usize = 4;
    let mut shared = Shared::new(device, CONNECTIONS as u32, 16, 0)?;
    expect("it has as many", shared.srq.raw.max_wr == 16)?;
    for id in 0..16 {
        shared.receive(id);
    }
    let mut numbers = Numbers::new(4);
    for id in 0..200 {
        let which = numbers.below(CONNECTIONS as u64) as usize;
        let octets = [id as u8 + 1; 48];
        shared.clients[which].send(id, &octets)?;
        let server = &mut shared.servers[which];
        let number = server.qp.raw.number;
        let completion = server.qp.cq.wait()?;
        let expected = (id, SUCCESS, 48, [0, u64::from(number)]);
        let found = (
            completion.id,
            completion.status,
            completion.length,
            completion.rest,
        );
        expect(
            &format!("{completion:?} is {expected:?}"),
            found == expected,
        )?;
        let place = id as usize % 64 * 64;
        expect(
            "its octets are there",
            shared.room.memory.octets(place, 48) == octets,
        )?;
        shared.receive(id + 16);
    }
    shared.is_told_nothing()
}

/// Who wants to know that fewer Receives are left than a limit is told of it once.
fn limit_is_told_once(device: &Device) -> Outcome {
    let mut shared = Shared::new(device, 1, 8, 3)?;
    for id in 0..8 {
        shared.receive(id);
    }
    let send = |shared: &mut Shared| -> Outcome {
        shared.clients[0].send(1, b"message")?;
        shared.servers[0].qp.cq.wait().map(|_| ())
    };
    let limit = |shared: &Shared| {
        let limit = shared.context.uverbs.query_srq(shared.srq.raw.handle);
        limit.map_err(|errno| format!("QUERY_SRQ: errno {errno}"))
    };
    let arm = |shared: &Shared, limit| {
        let (uverbs, srq) = (&shared.context.uverbs, shared.srq.raw.handle);
        uverbs.modify_srq(srq, 2, 0, limit)
    };
    // Three are left then.
    for _ in 0..5 {
        send(&mut shared)?;
    }
    shared.is_told_nothing()?;
    expect("it is asked for", limit(&shared)? == 3)?;
    send(&mut shared)?;
    shared.is_told(Srq::TAG, LIMIT_REACHED)?;
    expect("it is not asked for any more", limit(&shared)? == 0)?;
    send(&mut shared)?;
    shared.is_told_nothing()?;
    // One is left.
    for id in 8..15 {
        shared.receive(id);
    }
    arm(&shared, 8).map_err(|errno| format!("MODIFY_SRQ: errno {errno}"))?;
    send(&mut shared)?;
    shared.is_told(Srq::TAG, LIMIT_REACHED)?;
    arm(&shared, 1).map_err(|errno| format!("MODIFY_SRQ: errno {errno}"))?;
    arm(&shared, 0).map_err(|errno| format!("MODIFY_SRQ: errno {errno}"))?;
    for _ in 0..7 {
        send(&mut shared)?;
    }
    shared.is_told_nothing()?;
    refused("a limit of more than it has", arm(&shared, 9), &[EINVAL])?;
    refused(
        "another size",
        shared
            .context
            .uverbs
            .modify_srq(shared.srq.raw.handle, 1, 16, 0),
        &[EINVAL, EOPNOTSUPP],
    )
}

/// The memory of its Receives is of the protection domain of the queue, not of the queue pair.
// Shows T1, T8.
fn shared_queue_has_its_own_domain(device: &Device) -> Outcome {
    let context = Context::open(&device.name)?;
    let pd = context.uverbs.alloc_pd();
    let pd = pd.map_err(|errno| format!("ALLOC_PD: errno {errno}"))?;
    let other = Context {
        uverbs: context.uverbs.clone(),
        pd,
    };
    let srq = Srq::new(&other, 4, 0)?;
    let mut shared = Shared::with(device, 2, context.clone(), srq)?;
    shared.receive(0);
    shared.clients[0].send(1, b"of its own")?;
    let completion = shared.servers[0].qp.cq.wait()?;
    expect("it is received", completion.status == SUCCESS)?;

    let of_queue_pair = Arc::new(context.buffer(page_size(), LOCAL_WRITE)?);
    shared.srq.receive_into(2, &of_queue_pair, 0, 64);
    shared.clients[0].send(3, b"of another")?;
    let completion = shared.servers[0].qp.cq.wait()?;
    expect(
        "memory of the queue pair's domain is refused",
        (completion.id, completion.status) == (2, LOC_PROT),
    )?;
    // A region that the process may not write.
    let file = ReadOnly::new()?;
    let mr = file.register(&other)?;
    shared.srq.post(entry::receive(4, &[file.sge(mr)]));
    shared.clients[1].send(5, b"into a file")?;
    let completion = shared.servers[1].qp.cq.wait()?;
    expect(
        "memory that may not be written is refused",
        (completion.id, completion.status) == (4, LOC_PROT),
    )?;
    file.is_unchanged()?;
    let memory = of_queue_pair.memory.octets(0, page_size());
    expect("nothing is written", memory.iter().all(|octet| *octet == 0))
}

// Shows T12.
fn shared_queue_is_kept_while_it_is_used(device: &Device) -> Outcome {
    let mut shared = Shared::new(device, 2, 8, 0)?;
    for id in 0..8 {
        shared.receive(id);
    }
    let (uverbs, srq) = (shared.context.uverbs.clone(), shared.srq.raw);
    refused("to destroy it", uverbs.destroy_srq(srq.handle), &[EBUSY])?;
    shared.clients[0].send(1, b"it works")?;
    let completion = shared.servers[0].qp.cq.wait()?;
    expect("it works", completion.status == SUCCESS)?;
    // Messages are under way while the queue pairs go.
    for client in &mut shared.clients {
        for id in 0..3 {
            client.qp.put(entry::inline(id, b"under way"));
        }
        let _ = client.qp.doorbell();
    }
    for server in &shared.servers {
        let destroyed = uverbs.destroy_qp(server.qp.raw.handle);
        destroyed.map_err(|errno| format!("DESTROY_QP: errno {errno}"))?;
    }
    let destroyed = uverbs.destroy_srq(srq.handle);
    destroyed.map_err(|errno| format!("DESTROY_SRQ: errno {errno}"))?;
    refused(
        "to destroy it again",
        uverbs.destroy_srq(srq.handle),
        &[EINVAL, ENOENT],
    )?;
    let len = srq.ring.slots as usize * entry::RQE_LEN;
    let mapped = Memory::of_device(&uverbs, len, READ | WRITE, SHARED, srq.ring.offset);
    refused("to map it", mapped.map(|_| ()), &[EINVAL])?;
    // The ring that was mapped is memory of this process.
    shared.receive(9);
    let gone = Qp::sharing(&shared.context, 4, &shared.srq);
    expect("no queue pair uses it", gone.is_err())?;
    works(device)
}

/// A Receive that is wrong ends the queue pair that takes it, and no other.
// Shows T4, T18.
fn wrong_shared_receives_end_who_takes_them(device: &Device) -> Outcome {
    let context = Context::open(&device.name)?;
    let buffer = context.buffer(page_size(), LOCAL_WRITE)?;
    let read_only = context.buffer(page_size(), REMOTE_READ)?;
    let Sge { address, lkey, .. } = buffer.sge(0, 64);
    let of = |address, length, lkey| {
        entry::receive(
            7,
            &[Sge {
                address,
                length,
                lkey,
            }],
        )
    };
    let with_count = |count: u64| {
        let mut words = entry::receive(7, &[buffer.sge(0, 8); 6]);
        words[1] = u64::from(entry::VALID) | count << 16;
        words
    };
    let mut all = vec![
        (of(address, 64, lkey ^ 1), LOC_PROT),
        (of(address, 64, lkey ^ 0x100), LOC_PROT),
        (of(address - 1, 64, lkey), LOC_PROT),
        (of(address + page_size() as u64 - 8, 64, lkey), LOC_PROT),
        (of(u64::MAX - 8, 64, lkey), LOC_PROT),
        (of(address, 64, 0x5d), LOC_PROT),
        (of(0, u32::MAX, 0), LOC_PROT),
        (
            of(read_only.memory.address(), 64, read_only.mr.lkey),
            LOC_PROT,
        ),
        (of(address, 8, lkey), LOC_LEN),
    ];
    all.extend([7, 8, 255].map(|count| (with_count(count), LOC_QP_OP)));
    for (number, (words, status)) in all.into_iter().enumerate() {
        let srq = Srq::new(&context, 4, 0)?;
        let mut shared = Shared::with(device, 2, context.clone(), srq)?;
        shared.srq.post(words);
        shared.receive(8);
        shared.clients[0].send(1, b"taken wrong")?;
        let completion = shared.servers[0].qp.cq.wait()?;
        expect(
            &format!("wrong Receive {number}: {completion:?} has status {status}"),
            (completion.id, completion.status) == (7, status),
        )?;
        shared.clients[1].send(2, b"taken well")?;
        let completion = shared.servers[1].qp.cq.wait()?;
        expect(
            "the other one goes on",
            (completion.id, completion.status) == (8, SUCCESS),
        )?;
    }
    works(device)
}

/// A queue pair that ends leaves to others what it did not take. It takes nothing any more, and its
/// process is told so.
fn queue_pair_that_ends_leaves_the_rest(device: &Device) -> Outcome {
    let mut shared = Shared::new(device, 2, 8, 0)?;
    for id in 0..4 {
        shared.receive(id);
    }
    shared.clients[0].send(1, b"before")?;
    let completion = shared.servers[0].qp.cq.wait()?;
    expect("it is received", completion.id == 0)?;
    let first = shared.clients.remove(0);
    let tag = shared.servers[0].qp.cq.raw.handle.into();
    drop(first);
    shared.is_told(tag, LAST_RECEIVE)?;
    expect("none was flushed", shared.servers[0].qp.cq.poll().is_none())?;
    // A Send of a queue pair that has ended takes none, either.
    shared.servers[0].qp.put(entry::inline(2, b"behind"));
    let _ = shared.servers[0].qp.doorbell();
    let completion = shared.servers[0].qp.cq.wait()?;
    expect("a Send is flushed", completion.status == FLUSHED)?;
    for id in 1..4 {
        shared.clients[0].send(id, b"of others")?;
        let completion = shared.servers[1].qp.cq.wait()?;
        expect(
            "others take what is left",
            (completion.id, completion.status) == (id, SUCCESS),
        )?;
    }
    // The other one, and as the process wants it.
    let handle = shared.servers[1].qp.raw.handle;
    let ended = shared.context.uverbs.fail_qp(handle);
    ended.map_err(|errno| format!("MODIFY_QP: errno {errno}"))?;
    shared.is_told(shared.servers[1].qp.cq.raw.handle.into(), LAST_RECEIVE)
}

/// Whoever sends when no Receive is left loses the connection, and others keep theirs.
fn message_without_a_shared_receive_ends_its_sender(device: &Device) -> Outcome {
    let mut shared = Shared::new(device, 2, 2, 0)?;
    shared.clients[0]
        .qp
        .post(entry::inline(1, b"into nothing"))?;
    shared.servers[0].ended()?;
    shared.clients[0].ended()?;
    let mut told = Vec::new();
    for _ in 0..2 {
        let event = shared.event(PATIENCE)?;
        told.push(event.ok_or(format!("{told:?} are the only events"))?.kind);
    }
    // QP_REQ_ERR is 2.
    told.sort_unstable();
    expect(
        &format!("{told:?} are the events"),
        told == [2, LAST_RECEIVE],
    )?;
    shared.is_told_nothing()?;
    shared.receive(3);
    shared.clients[1].send(2, b"into something")?;
    let completion = shared.servers[1].qp.cq.wait()?;
    expect(
        "the other one goes on",
        (completion.id, completion.status) == (3, SUCCESS),
    )
}

// Shows T4.
fn shared_flags_that_are_always_set(device: &Device) -> Outcome {
    beside_others(device, 3, |stop| {
        while !stop.load(Ordering::Relaxed) {
            let mut shared = Shared::new(device, 2, 64, 1)?;
            for id in 0..64 {
                shared.receive(id);
            }
            let until = Instant::now() + RACE / 4;
            let (srq, clients) = (&shared.srq, &mut shared.clients);
            let (servers, uverbs) = (&shared.servers, &shared.context.uverbs);
            thread::scope(|scope| {
                scope.spawn(move || {
                    while Instant::now() < until {
                        for slot in 0..64 {
                            let head = u64::from(entry::VALID) | 1 << 16;
                            let flags = srq.ring.word(slot * entry::RQE_LEN + 8);
                            flags.store(head, Ordering::Relaxed);
                        }
                        let _ = uverbs.modify_srq(srq.raw.handle, 2, 0, 64);
                    }
                });
                scope.spawn(move || {
                    while Instant::now() < until {
                        for server in servers {
                            for slot in 0..32 {
                                let flags = server.qp.cq.ring.word(slot * Cq::LEN + 8);
                                flags.store(0, Ordering::Relaxed);
                            }
                        }
                    }
                });
                while Instant::now() < until {
                    for client in &mut *clients {
                        client.qp.put(entry::inline(1, &[b'!'; 8]));
                        let _ = client.qp.doorbell();
                        let _ = client.qp.cq.poll();
                    }
                }
            });
            // As many events as there were, which nobody needs.
            while shared.event(Duration::ZERO)?.is_some() {}
        }
        Ok(())
    })
}

// Shows T2.
fn shared_receives_are_not_posted_by_commands(device: &Device) -> Outcome {
    let context = Context::open(&device.name)?;
    let srq = Srq::new(&context, 4, 0)?;
    let own = context.buffer(page_size(), LOCAL_WRITE)?;
    for (address, key) in [
        (own.memory.address(), own.mr.lkey),
        (0xffff_8880_0000_0000, 0x5d),
        (0x6000_0000, 0x5d),
    ] {
        refused(
            "POST_SRQ_RECV",
            context
                .uverbs
                .post_srq_recv(srq.raw.handle, address, 64, key),
            &[EINVAL, EOPNOTSUPP],
        )?;
    }
    Ok(())
}

fn shared_queues_have_a_size(device: &Device) -> Outcome {
    let context = Context::open(&device.name)?;
    let uverbs = &context.uverbs;
    for (receives, entries, limit) in [
        (0, 1, 0),
        (1 << 20, 1, 0),
        (u32::MAX, 1, 0),
        (16, 7, 0),
        (16, u32::MAX, 0),
        (16, 1, 17),
        (16, 1, u32::MAX),
    ] {
        refused(
            &format!("a queue of {receives} with {entries} and a limit of {limit}"),
            uverbs.create_srq(context.pd, receives, entries, limit, 0),
            &[EINVAL, ENOMEM],
        )?;
    }
    let cq = Cq::new(&context, 4)?;
    refused(
        "a queue for tag matching",
        uverbs.create_tag_srq(context.pd, cq.raw.handle),
        &[EINVAL, EOPNOTSUPP],
    )?;
    refused(
        "a queue pair with a queue that is not there",
        uverbs.create_shared_qp(context.pd, cq.raw.handle, 4, 0x7777),
        &[EINVAL, ENOENT],
    )?;
    // That of another context has the same handle, or none.
    let other = Srq::new(&Context::open(&device.name)?, 4, 0)?;
    refused(
        "a queue pair with another's queue",
        uverbs.create_shared_qp(context.pd, cq.raw.handle, 4, other.raw.handle),
        &[EINVAL, ENOENT],
    )?;
    let srq = Srq::new(&context, 5, 0)?;
    expect(
        "it has a power of two",
        (srq.raw.max_wr, srq.raw.ring.slots) == (8, 8),
    )?;
    expect(
        "it is from no other place",
        srq.raw.ring.offset >= 145 << 12,
    )?;
    let qp = uverbs.create_shared_qp(context.pd, cq.raw.handle, 4, srq.raw.handle);
    let qp = qp.map_err(|errno| format!("CREATE_QP: errno {errno}"))?;
    expect(
        "a queue pair has no ring for Receives then",
        (qp.receive.slots, qp.receive.offset) == (0, 0),
    )
}
