// SPDX-License-Identifier: GPL-2.0

//! Queue pairs are connected by their owner only.

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
use crate::connection::routed;
use crate::connection::Device;
use crate::connection::Listener;
use crate::kernel::EINVAL;
use crate::kernel::ENOENT;
use crate::kernel::EPERM;
use crate::regions::works;
use crate::verbs::Context;
use crate::verbs::Qp;

cases![
    queue_pair_of_another_process_is_not_connected,
    queue_pair_of_another_process_does_not_accept,
    queue_pairs_of_nobody_are_not_connected,
    queue_pair_is_connected_once,
];

const ERRNOS: [i32; 3] = [EPERM, EINVAL, ENOENT];

/// Another process, which has a queue pair in state INIT until it is dropped.
struct Victim {
    process: Child,
    number: u32,
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
        let number = line
            .trim()
            .parse()
            .map_err(|_| "the victim has no queue pair")?;
        Ok(Self { process, number })
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Makes a queue pair, in that process, prints its number, and waits.
pub fn victim(device: &Device) -> Outcome {
    let qp = Qp::new(&Context::open(&device.name)?, 4)?;
    println!("{}", qp.raw.number);
    let _ = std::io::stdin().read(&mut [0]);
    Ok(())
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
