// SPDX-License-Identifier: GPL-2.0

//! Memory of each kind as a region: it stays where it is whatever becomes of its mapping, or it
//! cannot be registered.

use std::fs;
use std::fs::File;
use std::io::Write;

use crate::case::cases;
use crate::case::expect;
use crate::case::refused;
use crate::case::Outcome;
use crate::connection::pair;
use crate::connection::Device;
use crate::connection::End;
use crate::entry;
use crate::entry::Sge;
use crate::kernel::page_size;
use crate::kernel::punch_hole;
use crate::kernel::secret_file;
use crate::kernel::Memory;
use crate::kernel::EFAULT;
use crate::kernel::EINVAL;
use crate::kernel::ENOMEM;
use crate::kernel::ENOSYS;
use crate::kernel::NOTHING;
use crate::kernel::READ;
use crate::kernel::WRITE;
use crate::regions::works;
use crate::verbs::Context;
use crate::verbs::LOCAL_WRITE;
use crate::verbs::SUCCESS;

cases![
    file_is_cut_off_behind_a_region,
    file_is_punched_behind_a_region,
    pages_are_discarded_behind_a_region,
    process_forks_behind_a_region,
    region_is_not_swapped_out,
    region_of_memory_that_is_not_pinned,
    region_of_a_huge_page,
];

/// A connection, and memory that its server has registered.
struct Target {
    client: End,
    server: End,
    address: u64,
    lkey: u32,
}

impl Target {
    fn new(device: &Device, memory: &Memory) -> Result<Self, String> {
        let (client, server) = pair(device, 16)?;
        let mr = server.qp.context.register(memory, LOCAL_WRITE);
        let mr = mr.map_err(|errno| format!("REG_MR: errno {errno}"))?;
        Ok(Self {
            client,
            server,
            address: memory.address(),
            lkey: mr.lkey,
        })
    }

    /// Receives 64 octets at this offset.
    fn receives(&mut self, offset: usize, what: &str) -> Outcome {
        let sge = Sge {
            address: self.address + offset as u64,
            length: 64,
            lkey: self.lkey,
        };
        self.server.qp.post_receive(entry::receive(1, &[sge]));
        self.client.send(2, &[b'!'; 64])?;
        let completion = self.server.qp.cq.wait()?;
        expect(&format!("{what} is received"), completion.status == SUCCESS)
    }
}

fn failed(what: &'static str) -> impl Fn(i32) -> String {
    move |errno| format!("{what}: errno {errno}")
}

/// Makes a file of nobody else in memory, and maps it.
fn file_of(pages: usize) -> Result<(File, Memory), String> {
    let path = format!("/dev/shm/user-{}", std::process::id());
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).open(&path);
    let mut file = file.map_err(|error| format!("{path}: {error}"))?;
    fs::remove_file(&path).ok();
    file.write_all(&vec![b'.'; pages * page_size()])
        .map_err(|error| error.to_string())?;
    let memory =
        Memory::of_file(&file, pages * page_size(), READ | WRITE).map_err(failed("mmap"))?;
    Ok((file, memory))
}

// Shows T6.
fn file_is_cut_off_behind_a_region(device: &Device) -> Outcome {
    let (file, memory) = file_of(4)?;
    let mut target = Target::new(device, &memory)?;
    let cut = |len: usize| file.set_len(len as u64).map_err(|error| error.to_string());
    target.receives(0, "a page")?;
    cut(page_size())?;
    target.receives(page_size(), "a page that the file lost")?;
    drop(memory);
    target.receives(2 * page_size(), "a page that is not mapped")?;
    cut(0)?;
    drop(file);
    target.receives(3 * page_size(), "a page of no file")
}

// Shows T6.
fn file_is_punched_behind_a_region(device: &Device) -> Outcome {
    let (file, memory) = file_of(2)?;
    let mut target = Target::new(device, &memory)?;
    punch_hole(&file, 0, 2 * page_size()).map_err(failed("fallocate"))?;
    // One page is there again when the device writes the old one, and the other is not.
    let is_zero =
        |page: usize| memory.octets(page * page_size(), page_size()) == vec![0; page_size()];
    expect("the first page is new", is_zero(0))?;
    target.receives(0, "a page that the file had")?;
    target.receives(page_size(), "another one")?;
    expect("the file has none of it", is_zero(0) && is_zero(1))
}

// Shows T6.
fn pages_are_discarded_behind_a_region(device: &Device) -> Outcome {
    let memory = Memory::anonymous(2 * page_size(), READ | WRITE).map_err(failed("mmap"))?;
    memory.fill(b'.');
    let mut target = Target::new(device, &memory)?;
    memory.discard().map_err(failed("madvise"))?;
    let is_zero =
        |page: usize| memory.octets(page * page_size(), page_size()) == vec![0; page_size()];
    expect("the first page is new", is_zero(0))?;
    target.receives(0, "a page that the process had")?;
    target.receives(page_size(), "another one")?;
    expect("the process has none of it", is_zero(0) && is_zero(1))
}

// Shows T6.
fn process_forks_behind_a_region(device: &Device) -> Outcome {
    let memory = Memory::anonymous(2 * page_size(), READ | WRITE).map_err(failed("mmap"))?;
    memory.fill(b'.');
    let mut target = Target::new(device, &memory)?;
    memory.written_by_a_child().map_err(failed("a child"))?;
    let dots = vec![b'.'; 2 * page_size()];
    expect(
        "the child has its own",
        memory.octets(0, 2 * page_size()) == dots,
    )?;
    // The process writes one of the pages before something arrives in it.
    memory.fill(b',');
    target.receives(page_size(), "a page that the child had, too")?;
    let mut arrived = vec![b','; 2 * page_size()];
    arrived[page_size()..page_size() + 64].fill(b'!');
    expect("it is there", memory.octets(0, 2 * page_size()) == arrived)
}

/// The number of KiB of this process that are swapped out.
fn swapped_kib() -> Result<u64, String> {
    let status = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmSwap:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or("the process has no VmSwap".into())
}

/// A machine without swap cannot show it.
// Shows T6.
fn region_is_not_swapped_out(device: &Device) -> Outcome {
    const PAGES: usize = 64;
    let new = || Memory::anonymous(PAGES * page_size(), READ | WRITE).map_err(failed("mmap"));
    let (memory, other) = (new()?, new()?);
    memory.fill(b'.');
    other.fill(b'.');
    let mut target = Target::new(device, &memory)?;
    other.page_out().map_err(failed("madvise"))?;
    let before = swapped_kib()?;
    println!("{before} KiB are swapped out");
    expect("other memory is swapped out", before > 100)?;
    memory.page_out().map_err(failed("madvise"))?;
    expect("the region is not", swapped_kib()? < before + 100)?;
    target.receives(0, "a page")?;
    let mut arrived = vec![b'.'; page_size()];
    arrived[..64].fill(b'!');
    expect("it is there", memory.octets(0, page_size()) == arrived)
}

/// Where the kernel maps pages of its own into this process, if it does.
fn pages_of_the_kernel() -> Result<Option<u64>, String> {
    let maps = fs::read_to_string("/proc/self/maps").map_err(|error| error.to_string())?;
    let line = maps.lines().find(|line| line.ends_with("[vvar]"));
    let start = line.and_then(|line| line.split('-').next());
    let start = start.map(|start| u64::from_str_radix(start, 16));
    start.transpose().map_err(|error| error.to_string())
}

// Shows T20.
fn region_of_memory_that_is_not_pinned(device: &Device) -> Outcome {
    let context = Context::open(&device.name)?;
    let guard = Memory::anonymous(page_size(), NOTHING).map_err(failed("mmap"))?;
    for access in [0, LOCAL_WRITE] {
        let region = context.register(&guard, access);
        refused("a region of a guard page", region, &[EFAULT])?;
    }
    match pages_of_the_kernel()? {
        Some(start) => {
            let region = |access| {
                let uverbs = &context.uverbs;
                uverbs.reg_mr(context.pd, start, page_size() as u64, access)
            };
            // Since it has pages of the usual kind, the kernel lets them be pinned: the process may read them anyway.
            match region(0) {
                Ok(mr) => context
                    .uverbs
                    .dereg_mr(mr.handle)
                    .map_err(failed("DEREG_MR"))?,
                Err(errno) => expect("pages of the kernel are not read", errno == EFAULT)?,
            }
            let writable = region(LOCAL_WRITE);
            refused("a region of pages of the kernel", writable, &[EFAULT])?;
        }
        None => println!("the kernel maps none of its pages"),
    }
    match secret_file() {
        Ok(file) => {
            let cut = file.set_len(page_size() as u64);
            cut.map_err(|error| error.to_string())?;
            let secret =
                Memory::of_file(&file, page_size(), READ | WRITE).map_err(failed("mmap"))?;
            secret.fill(b'.');
            for access in [0, LOCAL_WRITE] {
                let region = context.register(&secret, access);
                refused("a region of secret memory", region, &[EFAULT])?;
            }
        }
        Err(ENOSYS) => println!("the kernel has no secret memory"),
        Err(errno) => return Err(format!("memfd_secret: errno {errno}")),
    }
    works(device)
}

/// It is memory as any other.
// Shows T20.
fn region_of_a_huge_page(device: &Device) -> Outcome {
    const LEN: usize = 2 << 20;
    let memory = match Memory::huge(LEN) {
        Err(ENOMEM | EINVAL) => {
            println!("there is no huge page");
            return Ok(());
        }
        memory => memory.map_err(failed("mmap"))?,
    };
    memory.fill(b'.');
    let mut target = Target::new(device, &memory)?;
    let at = LEN / 2 - 32;
    target.receives(at, "what lies in two pages of a huge one")?;
    let arrived = memory.octets(at - 32, 128);
    let expected = [[b'.'; 32], [b'!'; 32], [b'!'; 32], [b'.'; 32]].concat();
    expect("it is there", arrived == expected)?;
    drop(memory);
    target.receives(LEN - 64, "a page that is not mapped")
}
