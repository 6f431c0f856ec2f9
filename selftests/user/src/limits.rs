// SPDX-License-Identifier: GPL-2.0

//! Limits of what a process allocates: it ends with `ENOMEM`, and others have what they need.

use std::fs::File;
use std::io;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use std::time::Instant;

use crate::case::cases;
use crate::case::expect;
use crate::case::Outcome;
use crate::connection::connect;
use crate::connection::pair;
use crate::connection::Device;
use crate::entry;
use crate::kernel::page_size;
use crate::kernel::Errno;
use crate::kernel::Memory;
use crate::kernel::RawRing;
use crate::kernel::Uverbs;
use crate::kernel::ENOMEM;
use crate::kernel::READ;
use crate::kernel::WRITE;
use crate::regions::works;
use crate::verbs::open_file;
use crate::verbs::Context;
use crate::verbs::Cq;
use crate::verbs::Qp;
use crate::verbs::LOCAL_WRITE;

cases![calls_end_with_enomem, regions_are_registered];

/// Which allocation of this thread fails, counted from now.
const FAIL_NTH: &str = "/proc/thread-self/fail-nth";
/// More regions than a user may have.
const MANY: usize = 1 << 18;

/// Registers a page again and again until that fails, and returns the handles with the reason.
fn fill(context: &Context, page: &Memory) -> (Vec<u32>, Errno) {
    let mut handles = Vec::new();
    while handles.len() < MANY {
        match context.register(page, LOCAL_WRITE) {
            Ok(mr) => handles.push(mr.handle),
            Err(errno) => return (handles, errno),
        }
    }
    (handles, 0)
}

/// Has as many regions as it may, says so, and keeps them until there is input. What it gives back
/// it can have again.
pub fn fills(device: &Device) -> Outcome {
    let context = Context::open(&device.name)?;
    let page = Memory::anonymous(page_size(), READ | WRITE);
    let page = page.map_err(|errno| format!("mmap: errno {errno}"))?;
    let (handles, errno) = fill(&context, &page);
    let ends = format!("{} regions end with errno {errno}", handles.len());
    expect(&ends, errno == ENOMEM && handles.len() > 100)?;
    println!("{ends}");
    let _ = std::io::stdin().read(&mut [0]);
    let dereg = |handle| {
        let done = context.uverbs.dereg_mr(handle);
        done.map_err(|errno| format!("DEREG_MR: errno {errno}"))
    };
    handles.iter().try_for_each(|handle| dereg(*handle))?;
    let (again, errno) = fill(&context, &page);
    expect(
        &format!("{} regions the second time, {errno}", again.len()),
        again.len() == handles.len() && errno == ENOMEM,
    )
}

/// Makes queues of a kind until the kernel refuses more, or ends the process, and says after each
/// how many octets the rings of all of them have. Nobody maps them.
pub fn rings(device: &Device, kind: &str) -> Outcome {
    const ENTRIES: u32 = 1 << 13;
    let context = Context::open(&device.name)?;
    let uverbs = &context.uverbs;
    let cq = uverbs
        .create_cq(1, None)
        .map_err(|errno| format!("CREATE_CQ: errno {errno}"))?;
    let octets = |ring: RawRing, slot| u64::from(ring.slots) * slot as u64;
    let make = || match kind {
        "cq" => uverbs
            .create_cq(ENTRIES, None)
            .map(|cq| octets(cq.ring, Cq::LEN)),
        "srq" => uverbs
            .create_srq(context.pd, ENTRIES, 1, 0, 0)
            .map(|srq| octets(srq.ring, entry::RQE_LEN)),
        _ => uverbs
            .create_qp(context.pd, cq.handle, ENTRIES, ENTRIES)
            .map(|qp| octets(qp.send, entry::SQE_LEN) + octets(qp.receive, entry::RQE_LEN)),
    };
    let mut all = 0;
    let errno = loop {
        match make() {
            Ok(octets) => all += octets,
            Err(errno) => break errno,
        }
        println!("{all}");
    };
    expect(&format!("errno {errno} is ENOMEM"), errno == ENOMEM)
}

/// Opens connections until the kernel refuses more, or ends the process, and says after each two
/// how many octets all of them have at least, with their rings: while nothing is sent, they have no
/// buffers.
pub fn connections(device: &Device) -> Outcome {
    const OCTETS: usize = 16 << 10;
    let mut pairs = Vec::new();
    let reason = loop {
        match pair(device, 1) {
            Ok(ends) => pairs.push(ends),
            Err(reason) => break reason,
        }
        println!("{}", pairs.len() * 2 * OCTETS);
    };
    eprintln!("{reason}");
    Ok(())
}

/// Makes so many pairs of queue pairs, and connects them at the next line of input. Says when either
/// is done, and keeps them until there is more.
pub fn idle(device: &Device, count: usize) -> Outcome {
    let next = || {
        println!();
        std::io::stdin()
            .read_line(&mut String::new())
            .map_err(|error| format!("no input: {error}"))
    };
    let context = Context::open(&device.name)?;
    let made: Result<Vec<_>, String> = (0..count)
        .map(|_| Ok((Qp::new(&context, 1)?, Qp::new(&context, 1)?)))
        .collect();
    let made = made?;
    next()?;
    let ends: Result<Vec<_>, String> = made
        .into_iter()
        .map(|(active, passive)| connect(device, active, passive))
        .collect();
    let _ends = ends?;
    next()?;
    Ok(())
}

/// Makes contexts and protection domains until the kernel refuses more with that error, says how
/// many, and keeps them until there is input.
pub fn objects(device: &Device, refusal: Errno) -> Outcome {
    let mut contexts = Vec::new();
    let errno = loop {
        match open_file(&device.name).map(Uverbs::new)? {
            Ok(context) => contexts.push(context),
            Err(errno) => break errno,
        }
    };
    expect(&format!("a context: {errno}"), errno == refusal)?;
    let first = contexts.first().ok_or("there is no context")?;
    let (mut domains, mut errno) = (0, 0);
    while errno == 0 {
        match first.alloc_pd() {
            Ok(_) => domains += 1,
            Err(refused) => errno = refused,
        }
    }
    expect(&format!("a protection domain: {errno}"), errno == refusal)?;
    println!("{} contexts, {domains} domains", contexts.len());
    let _ = std::io::stdin().read(&mut [0]);
    Ok(())
}

/// Makes a call while the kernel fails the allocation of this number that this thread asks for.
/// `None` if it asked for fewer.
fn with_failure<T>(number: u32, call: impl FnOnce() -> T) -> io::Result<Option<T>> {
    let mut options = File::options();
    let file = options.read(true).write(true).open(FAIL_NTH)?;
    let number = number.to_string();
    let mut left = [0; 16];
    // Nothing else between these two asks the kernel for memory.
    file.write_at(number.as_bytes(), 0)?;
    let result = call();
    let len = file.read_at(&mut left, 0)?;
    file.write_at(b"0", 0)?;
    Ok((left[..len].trim_ascii() == b"0").then_some(result))
}

/// Fails each allocation of a call in turn, until there are no more. `undo` has what was made.
fn each_fails<T>(
    what: &str,
    call: impl Fn() -> Result<T, Errno>,
    undo: impl Fn(T) -> Result<(), Errno>,
) -> Outcome {
    let mut failed = 0;
    for number in 1..500 {
        let result = with_failure(number, &call);
        let result = result.map_err(|error| format!("{FAIL_NTH}: {error}"))?;
        match result {
            None => {
                println!("{what}: {failed} of {number} allocations failed it");
                return expect(&format!("{what} needs memory"), failed > 0);
            }
            Some(Err(ENOMEM)) => failed += 1,
            Some(Err(errno)) => return Err(format!("{what}, {number}: errno {errno}")),
            // There was another way.
            Some(Ok(made)) => undo(made).map_err(|errno| format!("no {what}: errno {errno}"))?,
        }
    }
    Err(format!("{what} asks for memory for ever"))
}

/// Kernels without fault injection cannot show it.
// Shows T10.
fn calls_end_with_enomem(device: &Device) -> Outcome {
    let context = Context::open(&device.name)?;
    let page = Memory::anonymous(page_size(), READ | WRITE);
    let page = page.map_err(|errno| format!("mmap: errno {errno}"))?;
    page.fill(0);
    let uverbs = &context.uverbs;
    each_fails(
        "REG_MR",
        || context.register(&page, LOCAL_WRITE),
        |mr| uverbs.dereg_mr(mr.handle),
    )?;
    each_fails(
        "CREATE_CQ",
        || uverbs.create_cq(16, None),
        |cq| uverbs.destroy_cq(cq.handle),
    )?;
    let cq = uverbs
        .create_cq(16, None)
        .map_err(|errno| format!("CREATE_CQ: errno {errno}"))?;
    each_fails(
        "CREATE_QP",
        || uverbs.create_qp(context.pd, cq.handle, 8, 8),
        |qp| uverbs.destroy_qp(qp.handle),
    )?;
    works(device)
}

/// As many as a program may want, in a time that it can bear: while another process has all that it
/// may, too.
fn regions_are_registered(device: &Device) -> Outcome {
    // The time that counts has what the registration waits for, too, so a machine that is busy for a
    // moment may try again.
    let mut took = time_of_regions(device)?;
    for _ in 0..2 {
        if took >= BEARABLE {
            took = time_of_regions(device)?;
        }
    }
    expect("registration is not slow", took < BEARABLE)?;
    works(device)
}

const BEARABLE: Duration = Duration::from_secs(5);

/// Returns how long a new context takes for as many regions as a program may want.
fn time_of_regions(device: &Device) -> Result<Duration, String> {
    const WANTED: usize = 500;
    let context = Context::open(&device.name)?;
    let page = Memory::anonymous(page_size(), READ | WRITE);
    let page = page.map_err(|errno| format!("mmap: errno {errno}"))?;
    let start = Instant::now();
    for _ in 0..WANTED {
        let mr = context.register(&page, LOCAL_WRITE);
        mr.map_err(|errno| format!("REG_MR: errno {errno}"))?;
    }
    let took = start.elapsed();
    println!("{WANTED} regions took {took:?}");
    Ok(took)
}
