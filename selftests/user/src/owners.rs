// SPDX-License-Identifier: GPL-2.0

//! Queue pairs are connected by their owner only, and regions are reached by that and its peers.

use std::env;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

use crate::case::cases;
use crate::case::expect;
use crate::case::refused;
use crate::case::Outcome;
use crate::connection::connect;
use crate::connection::pair;
use crate::connection::routed;
use crate::connection::Device;
use crate::connection::Listener;
use crate::entry;
use crate::entry::Sge;
use crate::kernel::page_size;
use crate::kernel::EINVAL;
use crate::kernel::ENOENT;
use crate::kernel::EPERM;
use crate::regions::fails_locally;
use crate::regions::is_closed;
use crate::regions::works;
use crate::verbs::Context;
use crate::verbs::Qp;
use crate::verbs::LOCAL_WRITE;
use crate::verbs::REMOTE_READ;
use crate::verbs::REMOTE_WRITE;

cases![
    queue_pair_of_another_process_is_not_connected,
    queue_pair_of_another_process_does_not_accept,
    queue_pairs_of_nobody_are_not_connected,
    queue_pair_is_connected_once,
    region_of_another_process_is_not_accessed,
];

const ERRNOS: [i32; 3] = [EPERM, EINVAL, ENOENT];

/// The octets of the memory of the other process.
const SECRET: u8 = b'?';

/// Another process, which has a queue pair in state INIT, and a region with all rights, until it is
/// dropped.
struct Victim {
    process: Child,
    number: u32,
    address: u64,
    lkey: u32,
    rkey: u32,
}

impl Victim {
    fn new() -> Result<Self, String> {
        let program = env::current_exe().map_err(|error| error.to_string())?;
        let mut process = Command::new(program)
            .arg("victim")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output)
                .read_line(&mut line)
                .map_err(|error| error.to_string())?;
        }
        let numbers: Vec<u64> = line
            .split_whitespace()
            .map_while(|number| number.parse().ok())
            .collect();
        let [number, address, lkey, rkey] = numbers[..] else {
            return Err("the victim has no queue pair".into());
        };
        Ok(Self {
            process,
            number: number as u32,
            address,
            lkey: lkey as u32,
            rkey: rkey as u32,
        })
    }

    /// Expects that its memory is as it was.
    fn ends_unharmed(mut self) -> Outcome {
        // The end of its input ends it.
        drop(self.process.stdin.take());
        let status = self.process.wait().map_err(|error| error.to_string())?;
        expect(
            "the memory of the other process is as it was",
            status.success(),
        )
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Makes a queue pair and a region, in that process, says which, and waits. Then the region is as
/// it was.
pub fn victim(device: &Device) -> Outcome {
    let qp = Qp::new(&Context::open(&device.name)?, 4)?;
    let all = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ;
    let region = qp.context.buffer(page_size(), all)?;
    region.memory.fill(SECRET);
    let (address, mr) = (region.memory.address(), region.mr);
    println!("{} {address} {} {}", qp.raw.number, mr.lkey, mr.rkey);
    let _ = std::io::stdin().read(&mut [0]);
    expect(
        "nobody wrote the region",
        region.memory.octets(0, page_size()) == vec![SECRET; page_size()],
    )
}

// Shows T9.
fn queue_pair_of_another_process_is_not_connected(device: &Device) -> Outcome {
    let victim = Victim::new()?;
    let listener = Listener::new(device)?;
    let (cm, id) = routed(device, listener.port)?;
    refused(
        "to connect another's queue pair",
        cm.connect(id, victim.number),
        &ERRNOS,
    )?;
    drop((cm, victim));
    works(device)
}

// Shows T9.
fn queue_pair_of_another_process_does_not_accept(device: &Device) -> Outcome {
    let victim = Victim::new()?;
    let listener = Listener::new(device)?;
    let (cm, id) = routed(device, listener.port)?;
    let own = Qp::new(&Context::open(&device.name)?, 4)?;
    cm.connect(id, own.raw.number)
        .map_err(|errno| format!("CONNECT: errno {errno}"))?;
    let request = listener.request()?;
    let accepted = listener.cm.accept(request, victim.number);
    refused("to accept with another's queue pair", accepted, &ERRNOS)?;
    drop((cm, own, victim));
    works(device)
}

/// Expects that a queue pair can neither connect nor accept.
fn is_not_for_this_process(device: &Device, number: u32) -> Outcome {
    let listener = Listener::new(device)?;
    let (cm, id) = routed(device, listener.port)?;
    let connected = cm.connect(id, number);
    refused("to connect such a queue pair", connected, &ERRNOS)?;
    let own = Qp::new(&Context::open(&device.name)?, 4)?;
    let (cm, id) = routed(device, listener.port)?;
    cm.connect(id, own.raw.number)
        .map_err(|errno| format!("CONNECT: errno {errno}"))?;
    let request = listener.request()?;
    let accepted = listener.cm.accept(request, number);
    refused("to accept with such a queue pair", accepted, &ERRNOS)
}

// Shows T9.
fn queue_pairs_of_nobody_are_not_connected(device: &Device) -> Outcome {
    for number in (0..4).chain([u32::MAX, 1 << 31, 0x00ff_ffff]) {
        is_not_for_this_process(device, number)?;
    }
    works(device)
}

/// `KERNEL_QPS` has the numbers of queue pairs that consumers in the kernel have on the device now.
pub fn kernel(device: &Device) -> Outcome {
    let numbers = env::var("KERNEL_QPS").unwrap_or_default();
    let numbers: Result<Vec<u32>, _> = numbers.split_whitespace().map(str::parse).collect();
    let numbers = numbers.map_err(|error| error.to_string())?;
    expect("the kernel has queue pairs", !numbers.is_empty())?;
    for number in numbers {
        is_not_for_this_process(device, number)?;
    }
    works(device)
}

// Shows T9.
fn queue_pair_is_connected_once(device: &Device) -> Outcome {
    let context = Context::open(&device.name)?;
    let (client, _server) = connect(device, Qp::new(&context, 4)?, Qp::new(&context, 4)?)?;
    let listener = Listener::new(device)?;
    let (cm, id) = routed(device, listener.port)?;
    let again = cm.connect(id, client.qp.raw.number);
    refused(
        "to connect a queue pair that is connected",
        again,
        &[EINVAL, 103, 106, 16],
    )
}

/// The keys are right, as if they were guessed: it is the process that is another one.
// Shows T8.
fn region_of_another_process_is_not_accessed(device: &Device) -> Outcome {
    let victim = Victim::new()?;
    let secret = Sge {
        address: victim.address,
        length: 64,
        lkey: victim.lkey,
    };
    for opcode in [entry::WRITE, entry::READ] {
        let (mut client, _server) = pair(device, 16)?;
        let own = client.qp.context.buffer(page_size(), LOCAL_WRITE)?;
        own.memory.fill(b'!');
        let list = [own.sge(0, 64)];
        let request = entry::rdma(1, opcode, &list, victim.rkey, victim.address);
        client.qp.post(request)?;
        is_closed(&mut client)?;
        let unread = own.memory.octets(0, page_size()) == vec![b'!'; page_size()];
        expect("nothing is read", unread)?;
    }
    let (mut client, _server) = pair(device, 16)?;
    client.qp.post(entry::request(1, entry::SEND, &[secret]))?;
    fails_locally(&mut client, 1)?;
    let (mut client, mut server) = pair(device, 16)?;
    server.qp.post_receive(entry::receive(2, &[secret]));
    client.qp.post(entry::inline(1, &[b'!'; 64]))?;
    fails_locally(&mut server, 2)?;
    victim.ends_unharmed()
}
