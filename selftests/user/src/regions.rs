// SPDX-License-Identifier: GPL-2.0

//! Memory regions: what may not be written is not, and what is gone cannot be used.

use std::fs;
use std::fs::File;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::case::cases;
use crate::case::expect;
use crate::case::refused;
use crate::case::Outcome;
use crate::connection::connect;
use crate::connection::pair;
use crate::connection::Device;
use crate::connection::End;
use crate::entry;
use crate::entry::Sge;
use crate::kernel::page_size;
use crate::kernel::Memory;
use crate::kernel::RawMr;
use crate::kernel::EACCES;
use crate::kernel::EFAULT;
use crate::kernel::EINVAL;
use crate::kernel::ENOMEM;
use crate::kernel::EPERM;
use crate::kernel::READ;
use crate::kernel::WRITE;
use crate::others::beside_others;
use crate::verbs::Context;
use crate::verbs::Qp;
use crate::verbs::FLUSHED;
use crate::verbs::LOCAL_WRITE;
use crate::verbs::LOC_PROT;
use crate::verbs::REMOTE_READ;
use crate::verbs::REMOTE_WRITE;
use crate::verbs::SUCCESS;

cases![
    receive_into_a_file_that_is_read_only,
    read_into_a_file_that_is_read_only,
    write_of_the_peer_needs_the_right_of_the_peer,
    receive_into_the_page_of_zeros,
    region_needs_the_rights_of_its_mapping,
    region_of_another_context_is_no_source,
    region_of_another_context_is_no_target,
    region_that_is_gone_is_not_read,
    region_of_more_than_there_is,
    region_of_the_own_ring,
    payload_that_changes_while_it_is_sent,
    memory_that_is_source_and_sink,
];

/// A right that this device gives to no peer of a process.
const REMOTE_ATOMIC: u32 = 8;

/// A file that root owns and everybody may read.
const FILE: &str = "/etc/passwd";

/// A mapping of that file, and what the file has.
pub struct ReadOnly {
    memory: Memory,
    before: Vec<u8>,
}

impl ReadOnly {
    /// Maps it.
    pub fn new() -> Result<Self, String> {
        let file = File::open(FILE).map_err(|error| error.to_string())?;
        let memory = Memory::of_file(&file, page_size(), READ)
            .map_err(|errno| format!("mmap: errno {errno}"))?;
        Ok(Self {
            memory,
            before: fs::read(FILE).map_err(|error| error.to_string())?,
        })
    }

    /// Registers the mapping, without the right that the device may write there.
    pub fn register(&self, context: &Context) -> Result<RawMr, String> {
        context
            .register(&self.memory, REMOTE_READ)
            .map_err(|errno| format!("REG_MR of a file: errno {errno}"))
    }

    /// Returns the list entry of its first octets.
    pub fn sge(&self, mr: RawMr) -> Sge {
        Sge {
            address: self.memory.address(),
            length: 32,
            lkey: mr.lkey,
        }
    }

    /// Expects that nobody wrote it.
    pub fn is_unchanged(&self) -> Outcome {
        let now = fs::read(FILE).map_err(|error| error.to_string())?;
        expect("the file is unchanged", now == self.before)?;
        let mapped = self.memory.octets(0, self.before.len().min(page_size()));
        expect("the mapping is unchanged", self.before.starts_with(&mapped))
    }
}

/// Waits for a completion that says that this end may not access the memory.
pub fn fails_locally(end: &mut End, id: u64) -> Outcome {
    let completion = end.qp.cq.wait()?;
    match completion.status {
        LOC_PROT if completion.id == id => Ok(()),
        _ => Err(format!("request {id} completes as {completion:?}")),
    }
}

/// The peer has sent something that was not accepted: its next request is flushed, sooner or later.
pub fn is_closed(end: &mut End) -> Outcome {
    for id in 1000..2000 {
        end.qp.post(entry::inline(id, b"")).ok();
        match end.qp.cq.wait_for(Duration::from_millis(500)) {
            Some(completion) if completion.status == SUCCESS => {}
            Some(_) => return Ok(()),
            None => return end.ended(),
        }
    }
    Err("the connection goes on".into())
}

// Shows T1.
fn receive_into_a_file_that_is_read_only(device: &Device) -> Outcome {
    let (mut client, mut server) = pair(device, 16)?;
    let file = ReadOnly::new()?;
    let mr = file.register(&server.qp.context)?;
    server.qp.post_receive(entry::receive(7, &[file.sge(mr)]));
    client.qp.post(entry::inline(1, &[b'!'; 32]))?;
    fails_locally(&mut server, 7)?;
    is_closed(&mut client)?;
    file.is_unchanged()
}

// Shows T1.
fn read_into_a_file_that_is_read_only(device: &Device) -> Outcome {
    let (mut client, server) = pair(device, 16)?;
    let source = server.qp.context.buffer(page_size(), REMOTE_READ)?;
    source.memory.fill(b'!');
    let file = ReadOnly::new()?;
    let mr = file.register(&client.qp.context)?;
    let read = entry::rdma(
        8,
        entry::READ,
        &[file.sge(mr)],
        source.mr.rkey,
        source.memory.address(),
    );
    client.qp.post(read)?;
    fails_locally(&mut client, 8)?;
    file.is_unchanged()
}

/// The peer reads the file by its key, so the key and the address are right. No process can have a
/// region that the peer may write and that it may not: ib_core refuses it, see
/// `region_needs_the_rights_of_its_mapping`. So what refuses this Write is that the right of the
/// peer is missing. That the other right is asked for as well, a test in the kernel shows, which
/// makes such a region (`rust/provider/selftest/user.rs`).
// Shows T1.
fn write_of_the_peer_needs_the_right_of_the_peer(device: &Device) -> Outcome {
    let (mut client, server) = pair(device, 16)?;
    let file = ReadOnly::new()?;
    let mr = file.register(&server.qp.context)?;
    let source = client.qp.context.buffer(page_size(), LOCAL_WRITE)?;
    source.memory.fill(b'!');
    let access = |id, opcode| {
        let list = [source.sge(0, 32)];
        entry::rdma(id, opcode, &list, mr.rkey, file.memory.address())
    };
    client.qp.post(access(8, entry::READ))?;
    let completion = client.qp.cq.wait()?;
    expect("the file is read", completion.status == SUCCESS)?;
    expect(
        "it is that file",
        file.before.starts_with(&source.memory.octets(0, 32)),
    )?;
    source.memory.fill(b'!');
    client.qp.post(access(9, entry::WRITE))?;
    is_closed(&mut client)?;
    file.is_unchanged()
}

// Shows T1.
fn receive_into_the_page_of_zeros(device: &Device) -> Outcome {
    let (mut client, mut server) = pair(device, 16)?;
    let zeros =
        Memory::anonymous(page_size(), READ).map_err(|errno| format!("mmap: errno {errno}"))?;
    expect(
        "a new page is zero",
        zeros.octets(0, page_size()) == vec![0; page_size()],
    )?;
    let mr = server
        .qp
        .context
        .register(&zeros, 0)
        .map_err(|errno| format!("REG_MR: errno {errno}"))?;
    let sge = Sge {
        address: zeros.address(),
        length: 32,
        lkey: mr.lkey,
    };
    server.qp.post_receive(entry::receive(7, &[sge]));
    client.qp.post(entry::inline(1, &[b'!'; 32]))?;
    fails_locally(&mut server, 7)?;
    let others =
        Memory::anonymous(page_size(), READ).map_err(|errno| format!("mmap: errno {errno}"))?;
    expect(
        "another new page is zero",
        others.octets(0, page_size()) == vec![0; page_size()],
    )?;
    expect(
        "this page is zero",
        zeros.octets(0, page_size()) == vec![0; page_size()],
    )
}

// Shows T1, T20.
fn region_needs_the_rights_of_its_mapping(device: &Device) -> Outcome {
    let context = Context::open(&device.name)?;
    let file = ReadOnly::new()?;
    let denied = [EFAULT, EACCES, EPERM];
    refused(
        "a region that may be written",
        context.register(&file.memory, LOCAL_WRITE),
        &denied,
    )?;
    // Verbs: who allows the peer to write has to allow itself.
    let remote = context.register(&file.memory, REMOTE_WRITE);
    refused("a region that only the peer may write", remote, &[EINVAL])?;
    // That is for the rights alone: the memory may be written, and is registered with both.
    let own = Memory::anonymous(page_size(), READ | WRITE)
        .map_err(|errno| format!("mmap: errno {errno}"))?;
    for access in [REMOTE_WRITE, REMOTE_WRITE | REMOTE_READ, REMOTE_ATOMIC] {
        let remote = context.register(&own, access);
        refused("a region that only the peer may write", remote, &[EINVAL])?;
    }
    let both = context.register(&own, LOCAL_WRITE | REMOTE_WRITE);
    expect("a region that both may write is one", both.is_ok())?;
    let all = context.register(&file.memory, LOCAL_WRITE | REMOTE_WRITE);
    refused("a region that both may write", all, &denied)?;
    let reg = |at, len| context.uverbs.reg_mr(context.pd, at, len, 0);
    refused(
        "a region of no memory",
        reg(page_size() as u64, page_size() as u64),
        &denied,
    )?;
    refused(
        "a region without octets",
        reg(file.memory.address(), 0),
        &[EINVAL],
    )?;
    let half = 1 << 63;
    for kernel in [half, u64::MAX - 4095] {
        let errnos = [EFAULT, EINVAL, ENOMEM];
        refused(
            "a region of the kernel",
            reg(kernel, page_size() as u64),
            &errnos,
        )?;
    }
    refused(
        "a region that wraps",
        reg(file.memory.address(), u64::MAX),
        &[EINVAL, ENOMEM, EFAULT],
    )
}

// Shows T8.
fn region_of_another_context_is_no_source(device: &Device) -> Outcome {
    let (mut client, mut server) = pair(device, 16)?;
    let secret = Context::open(&device.name)?.buffer(page_size(), LOCAL_WRITE)?;
    let room = Arc::new(server.qp.context.buffer(page_size(), LOCAL_WRITE)?);
    server.qp.receive_into(3, &room, 0, page_size() as u32);
    client
        .qp
        .post(entry::request(1, entry::SEND, &[secret.sge(0, 32)]))?;
    fails_locally(&mut client, 1)?;
    let completion = server.qp.cq.wait()?;
    expect("the peer receives nothing", completion.status == FLUSHED)
}

// Shows T8.
fn region_of_another_context_is_no_target(device: &Device) -> Outcome {
    let other = Context::open(&device.name)?
        .buffer(page_size(), LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ)?;
    for opcode in [entry::WRITE, entry::READ] {
        let (mut client, _server) = pair(device, 16)?;
        let own = client.qp.context.buffer(page_size(), LOCAL_WRITE)?;
        own.memory.fill(b'!');
        let key = other.mr.rkey;
        client.qp.post(entry::rdma(
            1,
            opcode,
            &[own.sge(0, 64)],
            key,
            other.memory.address(),
        ))?;
        is_closed(&mut client)?;
        expect(
            "nothing is read",
            own.memory.octets(0, page_size()) == vec![b'!'; page_size()],
        )?;
    }
    expect(
        "nothing is written",
        other.memory.octets(0, page_size()) == vec![0; page_size()],
    )
}

// Shows T26.
fn region_that_is_gone_is_not_read(device: &Device) -> Outcome {
    let (mut client, server) = pair(device, 16)?;
    let source = server.qp.context.buffer(page_size(), REMOTE_READ)?;
    source.memory.fill(b'!');
    let sink = client.qp.context.buffer(page_size(), LOCAL_WRITE)?;
    let read = |id| {
        entry::rdma(
            id,
            entry::READ,
            &[sink.sge(0, 64)],
            source.mr.rkey,
            source.memory.address(),
        )
    };
    client.qp.post(read(1))?;
    let completion = client.qp.cq.wait()?;
    expect("it is read while it is there", completion.status == SUCCESS)?;
    expect("it has octets", sink.memory.octets(0, 64) == [b'!'; 64])?;
    sink.memory.fill(0);
    server
        .qp
        .context
        .uverbs
        .dereg_mr(source.mr.handle)
        .map_err(|errno| format!("DEREG_MR: errno {errno}"))?;
    client.qp.post(read(2))?;
    let completion = client.qp.cq.wait()?;
    expect("it is not read afterwards", completion.status != SUCCESS)?;
    expect("no octet came", sink.memory.octets(0, 64) == [0; 64])
}

// Shows T28.
fn region_of_more_than_there_is(device: &Device) -> Outcome {
    let context = Context::open(&device.name)?;
    let reg = |at, len| context.uverbs.reg_mr(context.pd, at, len, LOCAL_WRITE);
    let errnos = [ENOMEM, EFAULT, EINVAL];
    for shift in [36, 40, 46, 47, 62] {
        refused(
            "a region of that size",
            reg(page_size() as u64, 1 << shift),
            &errnos,
        )?;
    }
    // More than the process may lock.
    let large = Memory::anonymous(64 << 20, READ | WRITE)
        .map_err(|errno| format!("mmap: errno {errno}"))?;
    refused(
        "a region of more than RLIMIT_MEMLOCK",
        reg(large.address(), 64 << 20),
        &[ENOMEM],
    )?;
    context.buffer(page_size(), LOCAL_WRITE).map(|_| ())
}

/// A ring is memory of the process, which it may register. What arrives there is what it has then.
// Shows T20.
fn region_of_the_own_ring(device: &Device) -> Outcome {
    for which in 0..3 {
        let (mut client, mut server) = pair(device, 16)?;
        let (qp, name) = (&server.qp, ["send", "completion", "receive"][which]);
        let ring = [&qp.send, &qp.cq.ring, &qp.receive][which].clone();
        let mr = qp.context.register(&ring, LOCAL_WRITE);
        let mr = mr.map_err(|errno| format!("REG_MR of the {name} ring: errno {errno}"))?;
        // The first slot of the Receive Queue has the Receive itself.
        let at = 256;
        let sge = Sge {
            address: ring.address() + at as u64,
            length: 64,
            lkey: mr.lkey,
        };
        server.qp.post_receive(entry::receive(5, &[sge]));
        client.qp.post(entry::inline(1, &[0xff; 64]))?;
        let completion = server.qp.cq.wait()?;
        expect(
            &format!("a message is received into the {name} ring"),
            (completion.id, completion.status) == (5, SUCCESS),
        )?;
        // The device takes and clears entries, and so sees these as its own.
        let arrived = ring.octets(at, 64);
        let of_message = arrived.iter().filter(|octet| **octet == 0xff).count();
        expect("it is there", of_message >= 32)?;
        // What comes of the entries is this process's own affair.
        for id in 2..40 {
            client.qp.post(entry::inline(id, &[0xff; 64])).ok();
            let _ = server.qp.doorbell();
        }
        server.qp.cq.wait_for(Duration::from_millis(200));
    }
    works(device)
}

// Shows T7.
fn payload_that_changes_while_it_is_sent(device: &Device) -> Outcome {
    beside_others(device, 2, |stop| {
        let (mut client, mut server) = pair(device, 16)?;
        let len = 64 * page_size();
        let source = client.qp.context.buffer(len, LOCAL_WRITE)?;
        let sink = server.qp.context.buffer(len, LOCAL_WRITE | REMOTE_WRITE)?;
        let mut id = 0;
        while !stop.load(Ordering::Relaxed) {
            let done = AtomicBool::new(false);
            let status = thread::scope(|scope| {
                scope.spawn(|| {
                    for octet in (0..=u8::MAX).cycle() {
                        if done.load(Ordering::Relaxed) {
                            break;
                        }
                        source.memory.fill(octet);
                    }
                });
                id += 1;
                server
                    .qp
                    .post_receive(entry::receive(id, &[sink.sge(0, len as u32)]));
                client.qp.put(entry::rdma(
                    id,
                    entry::WRITE,
                    &[source.sge(0, len as u32)],
                    sink.mr.rkey,
                    sink.memory.address(),
                ));
                client.qp.put(entry::request(
                    id,
                    entry::SEND,
                    &[source.sge(0, len as u32)],
                ));
                let status = client
                    .qp
                    .doorbell()
                    .map_err(|errno| format!("the doorbell: errno {errno}"))
                    .and_then(|()| {
                        client.qp.cq.wait()?;
                        client.qp.cq.wait()?;
                        server.qp.cq.wait()
                    });
                done.store(true, Ordering::Relaxed);
                status
            })?;
            // The check sum is that of what was sent.
            expect("a message of any octets arrives", status.status == SUCCESS)?;
        }
        Ok(())
    })
}

// Shows T19.
fn memory_that_is_source_and_sink(device: &Device) -> Outcome {
    let context = Context::open(&device.name)?;
    let both =
        Arc::new(context.buffer(16 * page_size(), LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ)?);
    let (mut client, mut server) = connect(device, Qp::new(&context, 16)?, Qp::new(&context, 16)?)?;
    let len = 8 * page_size() as u32;
    for (at, offset) in [(0, 0), (0, 64), (64, 0), (page_size(), 0), (0, page_size())] {
        let remote = both.memory.address() + offset as u64;
        server.qp.receive_into(1, &both, offset, len);
        for (id, opcode) in [(2, entry::WRITE), (3, entry::READ), (4, entry::SEND)] {
            // An entry behind the other, on the same memory.
            let half = [both.sge(at, len / 2), both.sge(at, len / 2)];
            let list = if opcode == entry::READ {
                &half[..1]
            } else {
                &half[..]
            };
            client
                .qp
                .post(entry::rdma(id, opcode, list, both.mr.rkey, remote))?;
            let completion = client.qp.cq.wait()?;
            expect(
                "it is done",
                (completion.id, completion.status) == (id, SUCCESS),
            )?;
        }
        let completion = server.qp.cq.wait()?;
        expect("it is received", completion.status == SUCCESS)?;
    }
    works(device)
}

/// Two new queue pairs can be connected, and what is sent arrives.
pub fn works(device: &Device) -> Outcome {
    let (mut client, mut server) = pair(device, 4)?;
    let room = Arc::new(server.qp.context.buffer(page_size(), LOCAL_WRITE)?);
    server.qp.receive_into(1, &room, 0, 64);
    client.send(2, b"hello")?;
    let completion = server.qp.cq.wait()?;
    expect(
        "what is sent arrives",
        (completion.id, completion.status, completion.length) == (1, SUCCESS, 5),
    )?;
    expect("as it was", room.memory.octets(0, 5) == b"hello")
}
