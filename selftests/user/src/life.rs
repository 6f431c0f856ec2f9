// SPDX-License-Identifier: GPL-2.0

//! Objects and processes that end at any time and in any order.

use std::env;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use crate::case::cases;
use crate::case::expect;
use crate::case::Outcome;
use crate::connection::pair;
use crate::connection::Device;
use crate::connection::End;
use crate::entry;
use crate::kernel::PAGE;
use crate::numbers::Numbers;
use crate::regions::works;
use crate::verbs::Buffer;
use crate::verbs::LOCAL_WRITE;
use crate::verbs::REMOTE_READ;
use crate::verbs::REMOTE_WRITE;
use crate::verbs::SUCCESS;

cases![objects_go_in_any_order, processes_are_killed_at_any_time];

/// How long something that ends may take to do so.
const END: Duration = Duration::from_secs(20);
const ALL: u32 = LOCAL_WRITE | REMOTE_READ | REMOTE_WRITE;
const LEN: usize = 16 * PAGE;

/// Two ends with traffic of each kind between them.
struct Traffic {
    client: End,
    server: End,
    own: Arc<Buffer>,
    other: Arc<Buffer>,
}

impl Traffic {
    fn new(device: &Device) -> Result<Self, String> {
        let (client, server) = pair(device, 32)?;
        let own = Arc::new(client.qp.context.buffer(LEN, ALL)?);
        let other = Arc::new(server.qp.context.buffer(LEN, ALL)?);
        Ok(Self {
            client,
            server,
            own,
            other,
        })
    }

    /// Posts a request of each kind, without looking at completions.
    fn post(&mut self) {
        let (key, offset) = (self.other.mr.rkey, self.other.memory.address());
        let all = [self.own.sge(0, LEN as u32)];
        let receive = entry::receive(1, &[self.other.sge(0, LEN as u32)]);
        self.server.qp.post_receive(receive);
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
    for _ in 0..30 {
        let mut traffic = Traffic::new(device)?;
        for _ in 0..numbers.below(8) {
            traffic.post();
        }
        thread::sleep(Duration::from_micros(numbers.below(3000)));
        let mut order: Vec<u32> = (0..10).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, numbers.below(last as u64 + 1) as usize);
        }
        let start = Instant::now();
        let ends = [&traffic.client, &traffic.server];
        let buffers = [&traffic.own, &traffic.other];
        // Some of these are refused, as what they name is used or gone.
        for what in order {
            let (end, buffer) = (ends[what as usize % 2], buffers[what as usize % 2]);
            let uverbs = &end.qp.context.uverbs;
            let _ = match what / 2 {
                0 => uverbs.dereg_mr(buffer.mr.handle),
                1 => uverbs.destroy_qp(end.qp.raw.handle),
                2 => uverbs.destroy_cq(end.qp.cq.raw.handle),
                3 => end.cm.disconnect(end.id),
                _ => end.cm.destroy(end.id),
            };
        }
        drop(traffic);
        expect("all is gone in time", start.elapsed() < END)?;
    }
    works(device)
}

/// Keeps requests under way, in a process that is killed or whose device goes. Prints a line as
/// soon as requests were carried out.
pub fn traffic(device: &Device) -> Outcome {
    for connection in 0.. {
        let mut traffic = Traffic::new(device)?;
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

/// `KILLS` says how many, instead of 20.
// Shows T12.
fn processes_are_killed_at_any_time(device: &Device) -> Outcome {
    let kills = env::var("KILLS").ok().and_then(|kills| kills.parse().ok());
    let seed = std::process::id().into();
    println!("the seed is {seed}");
    let mut numbers = Numbers::new(seed);
    let program = env::current_exe().map_err(|error| error.to_string())?;
    for _ in 0..kills.unwrap_or(20) {
        let mut process = Command::new(&program)
            .arg("traffic")
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        thread::sleep(Duration::from_millis(numbers.below(300)));
        let start = Instant::now();
        process
            .kill()
            .map_err(|error| format!("it has ended itself: {error}"))?;
        let status = process.wait().map_err(|error| error.to_string())?;
        expect("it did not end by itself", status.code().is_none())?;
        expect("it is gone in time", start.elapsed() < END)?;
    }
    works(device)
}
