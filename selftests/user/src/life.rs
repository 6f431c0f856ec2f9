// SPDX-License-Identifier: GPL-2.0

//! Objects and processes that end at any time and in any order.

use std::env;
use std::io::BufRead;
use std::io::BufReader;
use std::process::Command;
use std::process::Stdio;
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
use crate::connection::End;
use crate::entry;
use crate::numbers::Numbers;
use crate::regions::works;
use crate::verbs::Buffer;
use crate::verbs::Context;
use crate::verbs::Qp;
use crate::verbs::Srq;
use crate::verbs::LOCAL_WRITE;
use crate::verbs::REMOTE_READ;
use crate::verbs::REMOTE_WRITE;
use crate::verbs::SUCCESS;

cases![objects_go_in_any_order, processes_are_killed_at_any_time];

/// How long something that ends may take to do so.
const END: Duration = Duration::from_secs(20);
const ALL: u32 = LOCAL_WRITE | REMOTE_READ | REMOTE_WRITE;
const LEN: usize = 64 << 10;

/// Two ends with traffic of each kind between them.
struct Traffic {
    client: End,
    server: End,
    // Where Receives of the server are, if not in a queue of its own.
    srq: Option<Srq>,
    own: Arc<Buffer>,
    other: Arc<Buffer>,
}

impl Traffic {
    fn new(device: &Device) -> Result<Self, String> {
        let (client, server) = pair(device, 32)?;
        Self::over(client, server, None)
    }

    /// Makes one whose server takes Receives from a shared queue.
    fn sharing(device: &Device) -> Result<Self, String> {
        let context = Context::open(&device.name)?;
        let srq = Srq::new(&context, 32, 1)?;
        let server = Qp::sharing(&context, 32, &srq)?;
        let client = Qp::new(&Context::open(&device.name)?, 32)?;
        let (client, server) = connect(device, client, server)?;
        Self::over(client, server, Some(srq))
    }

    fn over(client: End, server: End, srq: Option<Srq>) -> Result<Self, String> {
        let own = Arc::new(client.qp.context.buffer(LEN, ALL)?);
        let other = Arc::new(server.qp.context.buffer(LEN, ALL)?);
        Ok(Self {
            client,
            server,
            srq,
            own,
            other,
        })
    }

    /// Posts a request of each kind, without looking at completions.
    fn post(&mut self) {
        let (key, offset) = (self.other.mr.rkey, self.other.memory.address());
        let all = [self.own.sge(0, LEN as u32)];
        let receive = entry::receive(1, &[self.other.sge(0, LEN as u32)]);
        match &mut self.srq {
            Some(srq) => srq.post(receive),
            None => self.server.qp.post_receive(receive),
        }
        self.client
            .qp
            .put(entry::rdma(2, entry::WRITE, &all, key, offset));
        self.client
            .qp
            .put(entry::rdma(3, entry::READ, &all, key, offset));
        self.client.qp.put(entry::request(4, entry::SEND, &all));
        let _ = self.client.qp.doorbell();
    }
}

// Shows T12.
fn objects_go_in_any_order(device: &Device) -> Outcome {
    let mut numbers = Numbers::new(12);
    for round in 0..30 {
        let mut traffic = if round % 2 == 0 {
            Traffic::new(device)?
        } else {
            Traffic::sharing(device)?
        };
        for _ in 0..numbers.below(8) {
            traffic.post();
        }
        thread::sleep(Duration::from_micros(numbers.below(3000)));
        let mut order: Vec<u32> = (0..13).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, numbers.below(last as u64 + 1) as usize);
        }
        let start = Instant::now();
        let ends = [&traffic.client, &traffic.server];
        let buffers = [&traffic.own, &traffic.other];
        // Some of these are refused, as what they name is used or gone.
        let destroy = |what: &u32| {
            let which = *what as usize % 2;
            let (end, buffer) = (ends[which], buffers[which]);
            let uverbs = &end.qp.context.uverbs;
            let _ = match what / 2 {
                // The second one is no object.
                5 if which == 1 => Ok(()),
                5 => match &traffic.srq {
                    Some(srq) => srq.context.uverbs.destroy_srq(srq.raw.handle),
                    None => Ok(()),
                },
                6 => uverbs.dealloc_pd(end.qp.context.pd),
                0 => uverbs.dereg_mr(buffer.mr.handle),
                1 => uverbs.destroy_qp(end.qp.raw.handle),
                2 => uverbs.destroy_cq(end.qp.cq.raw.handle),
                3 => end.cm.disconnect(end.id),
                _ => end.cm.destroy(end.id),
            };
        };
        // One thread does it, and every other time four, each with a part of them.
        let part = if round / 2 % 2 == 0 { order.len() } else { 4 };
        thread::scope(|scope| {
            for part in order.chunks(part) {
                scope.spawn(|| part.iter().for_each(destroy));
            }
        });
        drop(traffic);
        expect("all is gone in time", start.elapsed() < END)?;
    }
    works(device)
}

/// Keeps requests under way, in a process that is killed or whose device goes. Prints a line as
/// soon as requests were carried out.
pub fn traffic(device: &Device) -> Outcome {
    for connection in 0.. {
        let mut traffic = if connection % 2 == 0 {
            Traffic::new(device)?
        } else {
            Traffic::sharing(device)?
        };
        for round in 0..20 {
            traffic.post();
            for _ in 0..3 {
                let completion = traffic.client.qp.cq.wait()?;
                expect("a request succeeds", completion.status == SUCCESS)?;
            }
            traffic.server.qp.cq.wait()?;
            if (connection, round) == (0, 0) {
                println!("runs");
            }
        }
    }
    Ok(())
}

/// Processes that are killed at the same time.
const VICTIMS: u64 = 4;

/// Counts of what the killers have seen.
#[derive(Default)]
struct Seen {
    /// Processes that had requests carried out.
    at_work: AtomicU64,
    /// The longest time that one took to go, in ms.
    longest_ms: AtomicU64,
}

/// Kills processes, one after the other.
fn kill_some(kills: u64, mut numbers: Numbers, seen: &Seen) -> Outcome {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    for kill in 0..kills {
        let mut process = Command::new(&program)
            .arg("traffic")
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        // Half of them are still making their objects, whatever the pace of the machine is.
        let mut line = String::new();
        if numbers.below(2) == 0 {
            let output = process.stdout.take().ok_or("no output")?;
            let read = BufReader::new(output).read_line(&mut line);
            read.map_err(|error| error.to_string())?;
            expect(&format!("{line:?} says that it runs"), line == "runs\n")?;
            seen.at_work.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(Duration::from_micros(numbers.below(60_000)));
        let start = Instant::now();
        process
            .kill()
            .map_err(|error| format!("it has ended itself: {error}"))?;
        let status = process.wait().map_err(|error| error.to_string())?;
        let took = start.elapsed();
        seen.longest_ms
            .fetch_max(took.as_millis() as u64, Ordering::Relaxed);
        expect("it did not end by itself", status.code().is_none())?;
        expect(
            &format!("process {kill} of {kills} is gone in time, and not after {took:?}"),
            took < END,
        )?;
    }
    Ok(())
}

/// `KILLS` says how many, instead of 20, and `SEED` when.
// Shows T12.
fn processes_are_killed_at_any_time(device: &Device) -> Outcome {
    let number = |name| env::var(name).ok().and_then(|number| number.parse().ok());
    let kills: u64 = number("KILLS").unwrap_or(20);
    let seed = number("SEED").unwrap_or(std::process::id().into());
    println!("the seed is {seed}");
    let seen = Seen::default();
    let start = Instant::now();
    thread::scope(|scope| {
        let killers: Vec<_> = (0..VICTIMS)
            .map(|killer| {
                let share = (kills + killer) / VICTIMS;
                let numbers = Numbers::new(seed.wrapping_mul(VICTIMS).wrapping_add(killer + 1));
                let seen = &seen;
                scope.spawn(move || kill_some(share, numbers, seen))
            })
            .collect();
        let ends = killers.into_iter().map(|killer| killer.join());
        let ends = ends.map(|end| end.map_err(|_| "a killer panics".to_owned())?);
        // All of them are waited for.
        ends.fold(Ok(()), Outcome::and)
    })?;
    println!(
        "{kills} were killed in {} s, {} of them at work; the slowest took {} ms to go",
        start.elapsed().as_secs(),
        seen.at_work.load(Ordering::Relaxed),
        seen.longest_ms.load(Ordering::Relaxed),
    );
    works(device)
}
