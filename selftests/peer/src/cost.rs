// SPDX-License-Identifier: GPL-2.0

//! The cost of operations and objects of a device: `peer cost` connects to itself by the device, and obeys the lines of its input:
//!
//! * `keep KIND NUMBER` makes or destroys objects until there are so many beside its own,
//! * `one KIND TIMES` makes one more and destroys it, so often,
//! * `transfer VERB BYTES TIMES` carries out so many `read`s, `write`s or `send`s, one at a time, after another one if those are more than one.
//!
//! KIND is `qp`, `cq`, `mr`, `connection` or `listener`. For each line it prints how many nanoseconds an object or an operation took, without the time
//! in which the machine did nothing, then with that, and an empty line. A Write ends with a Read of eight octets behind it, which shows that
//! all of it is there.

use crate::case::Outcome;
use crate::verbs::Listener;
use crate::verbs::LoneQp;
use crate::verbs::Pair;
use crate::verbs::Region;
use crate::verbs::Shared;
use crate::verbs::Verb;
use std::cell::Cell;
use std::fs;
use std::io;
use std::io::Error;
use std::io::Result;
use std::net::SocketAddrV4;
use std::time::Instant;

/// The port that it connects to.
const PORT: u16 = 20055;
/// The length of a region that is only there.
const PAGE: usize = 4096;

/// The nanoseconds in which the processors of this machine did nothing.
fn idle() -> Result<u64> {
    let text = fs::read_to_string("/proc/timer_list")?;
    let lines = text.lines().filter(|line| line.contains(".idle_sleeptime"));
    let numbers = lines.filter_map(|line| line.split_whitespace().nth_back(1)?.parse::<u64>().ok());
    Ok(numbers.sum())
}

/// Prints what each of so many took.
fn measure<T>(what: &str, times: usize, f: impl FnOnce() -> Result<T>) -> Result<T> {
    let (idle_before, start) = (idle()?, Instant::now());
    let result = f()?;
    let took = start.elapsed().as_nanos() as u64;
    let busy = took.saturating_sub(idle()? - idle_before);
    let each = |nanoseconds: u64| nanoseconds / times.max(1) as u64;
    println!("{what} {} {}", each(busy), each(took));
    Ok(result)
}

/// An object that is there for its cost: what it is is not looked at.
#[allow(dead_code)]
enum Object {
    Queues(LoneQp),
    Region(Region),
    Connection(Pair),
    Listener(Listener),
}

/// Makes one more.
type Make<'a> = Box<dyn Fn() -> Result<Object> + 'a>;

struct Costs {
    listener: Listener,
    address: SocketAddrV4,
    pair: Pair,
    shared: Shared,
    cq: LoneQp,
    /// The last port that one listened on: each has its own.
    last_port: Cell<u16>,
    kept: [(&'static str, Vec<Object>); 5],
}

impl Costs {
    fn new(address: SocketAddrV4) -> Result<Self> {
        let address = SocketAddrV4::new(*address.ip(), PORT);
        let listener = Listener::new(PORT)?;
        let pair = Pair::new(&listener, address, None)?;
        let shared = pair.shared().clone();
        let cq = LoneQp::cq_only(&shared)?;
        let kept = ["qp", "cq", "mr", "connection", "listener"].map(|kind| (kind, Vec::new()));
        Ok(Self {
            listener,
            address,
            pair,
            shared,
            cq,
            last_port: Cell::new(PORT),
            kept,
        })
    }

    fn maker(&self, kind: &str) -> Result<Make<'_>> {
        Ok(match kind {
            "qp" => Box::new(|| LoneQp::beside(&self.cq).map(Object::Queues)),
            "cq" => Box::new(|| LoneQp::cq_only(&self.shared).map(Object::Queues)),
            "mr" => Box::new(|| self.shared.region(PAGE).map(Object::Region)),
            "connection" => Box::new(|| {
                Pair::new(&self.listener, self.address, Some(&self.shared)).map(Object::Connection)
            }),
            "listener" => Box::new(|| {
                self.last_port.set(self.last_port.get() + 1);
                Listener::new(self.last_port.get()).map(Object::Listener)
            }),
            _ => return Err(Error::other(format!("there are no objects {kind}"))),
        })
    }

    fn keep(&mut self, kind: &str, number: usize) -> Result<()> {
        let at = self.kept.iter().position(|(known, _)| *known == kind);
        let at = at.ok_or_else(|| Error::other(format!("there are no objects {kind}")))?;
        let mut kept = std::mem::take(&mut self.kept[at].1);
        let (more, fewer) = (
            number.saturating_sub(kept.len()),
            kept.len().saturating_sub(number),
        );
        if more > 0 {
            let make = self.maker(kind)?;
            let made = measure("make", more, || {
                (0..more).map(|_| make()).collect::<Result<Vec<_>>>()
            });
            kept.extend(made?);
        }
        if fewer > 0 {
            // The oldest first.
            let gone: Vec<_> = kept.drain(..fewer).collect();
            measure("destroy", fewer, || {
                drop(gone);
                Ok(())
            })?;
        }
        self.kept[at].1 = kept;
        Ok(())
    }

    fn one(&self, kind: &str, times: usize) -> Result<()> {
        let make = self.maker(kind)?;
        let one = || make().map(drop);
        one()?;
        measure("one", times, || (0..times).try_for_each(|_| one()))
    }

    fn transfer(&self, verb: &str, bytes: usize, times: usize) -> Result<()> {
        let (here, there) = (self.shared.region(bytes)?, self.shared.region(bytes)?);
        let (few_here, few_there) = (self.shared.region(8)?, self.shared.region(8)?);
        let once = || match verb {
            "read" => self.pair.transfer(Verb::Read, &here, &there),
            "write" => {
                self.pair.transfer(Verb::Write, &here, &there)?;
                self.pair.transfer(Verb::Read, &few_here, &few_there)
            }
            "send" => self.pair.send(&here, &there),
            _ => Err(Error::other(format!("there is no verb {verb}"))),
        };
        if times > 1 {
            once()?;
        }
        measure(verb, times, || (0..times).try_for_each(|_| once()))
    }

    fn obey(&mut self, line: &str) -> Result<()> {
        let number = |text: &str| text.parse::<usize>().map_err(Error::other);
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["keep", kind, count] => self.keep(kind, number(count)?),
            ["one", kind, times] => self.one(kind, number(times)?),
            ["transfer", verb, bytes, times] => self.transfer(verb, number(bytes)?, number(times)?),
            _ => Err(Error::other(format!("what is {line:?}?"))),
        }
    }
}

/// Obeys until its input ends.
pub fn run(address: SocketAddrV4) -> Outcome {
    let mut costs = Costs::new(address).map_err(|error| error.to_string())?;
    println!();
    for line in io::stdin().lines() {
        let obeyed = line.and_then(|line| costs.obey(&line));
        obeyed.map_err(|error| error.to_string())?;
        println!();
    }
    Ok(())
}
