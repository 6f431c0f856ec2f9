// SPDX-License-Identifier: GPL-2.0

//! Another process, which uses the device while a case does what it may not.

use std::env;
use std::hint;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::num::NonZero;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use crate::case::expect;
use crate::case::Outcome;
use crate::connection::pair;
use crate::connection::Device;
use crate::kernel::page_size;
use crate::regions::works;
use crate::verbs::LOCAL_WRITE;
use crate::verbs::SUCCESS;

/// How long a case that races does so, and how long a pace is measured at least.
pub const RACE: Duration = Duration::from_secs(3);
/// How long the pace of others is measured before, and afterwards.
const BEFORE: Duration = Duration::from_millis(500);
/// A pace is measured until so many rounds have ended, or for this long: a few rounds are chance.
const ENOUGH: u32 = 50;
const LONGEST: Duration = Duration::from_secs(20);
/// The part of their pace that others keep at least.
const PART: f64 = 0.05;
/// The part of the pace beside as many threads that do nothing, where those alone leave less than
/// `PART` to others.
const PART_BESIDE_THREADS: f64 = 0.5;

/// Returns whether so many threads leave less than [`PART`] of a processor to one more thread,
/// whatever they do: a fair share is no more.
fn leave_little(threads: usize) -> bool {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    (processors as f64) < PART * (threads + 1) as f64
}

/// Sends back and forth, in the other process, and prints a line after each round, until its input
/// ends.
pub fn ping_pong(device: &Device) -> Outcome {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = std::io::stdin().read(&mut [0]);
            stop.store(true, Ordering::Relaxed);
        });
        let result = rounds(device, &stop);
        if let Err(error) = &result {
            // The thread waits for the end of the input.
            println!("{error}");
        }
        result
    })
}

fn rounds(device: &Device, stop: &AtomicBool) -> Outcome {
    let (mut client, mut server) = pair(device, 4)?;
    let rooms = [
        Arc::new(client.qp.context.buffer(page_size(), LOCAL_WRITE)?),
        Arc::new(server.qp.context.buffer(page_size(), LOCAL_WRITE)?),
    ];
    while !stop.load(Ordering::Relaxed) {
        client.qp.receive_into(1, &rooms[0], 0, 64);
        server.qp.receive_into(2, &rooms[1], 0, 64);
        client.send(3, b"ping")?;
        let completion = server.qp.cq.wait()?;
        expect(
            "ping arrives",
            (completion.id, completion.status) == (2, SUCCESS),
        )?;
        server.send(4, b"pong")?;
        let completion = client.qp.cq.wait()?;
        expect(
            "pong arrives",
            (completion.id, completion.status) == (1, SUCCESS),
        )?;
        client.qp.keeps.clear();
        server.qp.keeps.clear();
        println!();
        std::io::stdout()
            .flush()
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// That process, with the times at which its rounds ended.
struct Others {
    process: Child,
    rounds: mpsc::Receiver<Result<Instant, String>>,
}

impl Others {
    fn new() -> Result<Self, String> {
        let program = env::current_exe().map_err(|error| error.to_string())?;
        let mut process = Command::new(program)
            .arg("others")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let (sender, rounds) = mpsc::channel();
        let output = process.stdout.take().ok_or("no output")?;
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let round = match line.is_empty() {
                    true => Ok(Instant::now()),
                    false => Err(line),
                };
                if sender.send(round).is_err() {
                    break;
                }
            }
        });
        Ok(Self { process, rounds })
    }

    /// Returns how many rounds ended since the last call.
    fn count(&self) -> Result<u32, String> {
        let mut count = 0;
        for round in self.rounds.try_iter() {
            round.map_err(|error| format!("others: {error}"))?;
            count += 1;
        }
        Ok(count)
    }

    /// Returns how many rounds end in a second.
    fn pace(&self, time: Duration) -> Result<f64, String> {
        self.count()?;
        let (start, mut rounds) = (Instant::now(), 0);
        loop {
            thread::sleep(time);
            rounds += self.count()?;
            // The sleep takes longer where dozens of threads want the processors.
            let took = start.elapsed();
            if rounds >= ENOUGH || took >= LONGEST {
                return Ok(f64::from(rounds) / took.as_secs_f64());
            }
        }
    }

    /// Returns the same beside threads that only use processors.
    fn pace_beside(&self, threads: usize) -> Result<f64, String> {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut number = 0_u64;
                    // Not `spin_loop`: a hypervisor takes that for a processor that waits.
                    while !stop.load(Ordering::Relaxed) {
                        number = hint::black_box(number.wrapping_add(1));
                    }
                });
            }
            thread::sleep(RACE / 10);
            let pace = self.pace(RACE);
            stop.store(true, Ordering::Relaxed);
            pace
        })
    }

    /// Waits for a round.
    fn round(&self) -> Result<Instant, String> {
        let round = self.rounds.recv_timeout(Duration::from_secs(60));
        round
            .map_err(|_| "others do nothing".to_owned())?
            .map_err(|error| format!("others: {error}"))
    }

    /// Ends the process, which must have succeeded.
    fn end(mut self) -> Outcome {
        drop(self.process.stdin.take());
        let status = self.process.wait().map_err(|error| error.to_string())?;
        self.count()?;
        expect("others have no fault", status.success())
    }
}

/// Runs `attack`, which has that many threads, beside the other process, which goes on meanwhile. It
/// ends when `stop` is set.
pub fn beside_others(
    device: &Device,
    threads: usize,
    attack: impl Fn(&AtomicBool) -> Outcome + Sync,
) -> Outcome {
    let others = Others::new()?;
    others.round()?;
    let alone = others.pace(BEFORE)?;
    expect("others have a pace", alone > 0.0)?;
    let mut paces = format!("others had {alone:.0} rounds in a second alone");
    // Measured before: what an attack leaves behind does not excuse it.
    let least = if leave_little(threads) {
        let beside = others.pace_beside(threads)?;
        paces += &format!(", {beside:.1} beside {threads} threads that only use processors");
        expect(&format!("{paces}: that is a pace"), beside > 0.0)?;
        beside * PART_BESIDE_THREADS
    } else {
        (alone * PART).max(1.0)
    };
    let stop = AtomicBool::new(false);
    let during = thread::scope(|scope| {
        let attacker = scope.spawn(|| attack(&stop));
        // It begins.
        thread::sleep(RACE / 10);
        let during = others.pace(RACE);
        let ended = attacker.is_finished();
        stop.store(true, Ordering::Relaxed);
        attacker.join().map_err(|_| "the attack panics")??;
        expect("the attack goes on all the time", !ended)?;
        during
    })?;
    let after = others.pace(BEFORE)?;
    paces += &format!(", {during:.1} during the attack, and {after:.0} after it");
    println!("{paces}");
    expect(&paces, during >= least && after >= alone * PART)?;
    others.end()?;
    works(device)
}
