// SPDX-License-Identifier: GPL-2.0

//! Rings are mapped as they were offered, or not at all, and what becomes of the mapping is the
//! process's affair.

use std::sync::Arc;
use std::time::Duration;

use crate::case::cases;
use crate::case::expect;
use crate::case::refused;
use crate::case::Outcome;
use crate::connection::pair;
use crate::connection::Device;
use crate::entry::RQE_LEN;
use crate::entry::SQE_LEN;
use crate::kernel::page_size;
use crate::kernel::Memory;
use crate::kernel::RawRing;
use crate::kernel::Uverbs;
use crate::kernel::EACCES;
use crate::kernel::EAGAIN;
use crate::kernel::EFAULT;
use crate::kernel::EINVAL;
use crate::kernel::ENOMEM;
use crate::kernel::EPERM;
use crate::kernel::EXEC;
use crate::kernel::PRIVATE;
use crate::kernel::READ;
use crate::kernel::SHARED;
use crate::kernel::WRITE;
use crate::regions::works;
use crate::verbs::pages;
use crate::verbs::Context;
use crate::verbs::Cq;
use crate::verbs::Qp;
use crate::verbs::LOCAL_WRITE;

cases![
    rings_are_mapped_as_offered_only,
    rings_are_mapped_by_their_context_only,
    rings_are_not_mapped_once_they_are_gone,
    rings_do_not_become_code_or_grow,
    new_rings_are_zero,
    rings_disappear_during_traffic,
];

const ERRNOS: [i32; 6] = [EINVAL, EPERM, EACCES, ENOMEM, EAGAIN, EFAULT];

/// The rings of a queue pair and its completion queue, with their lengths in pages.
fn rings(qp: &Qp) -> [(RawRing, usize); 3] {
    let (send, receive, cq) = (qp.raw.send, qp.raw.receive, qp.cq.raw.ring);
    [
        (send, pages(send, SQE_LEN, 0)),
        (receive, pages(receive, RQE_LEN, 0)),
        (cq, pages(cq, Cq::LEN, 8)),
    ]
}

fn map(uverbs: &Uverbs, pages: usize, prot: i32, flags: i32, offset: u64) -> Result<Memory, i32> {
    Memory::of_device(uverbs, pages * page_size(), prot, flags, offset)
}

// Shows T5.
fn rings_are_mapped_as_offered_only(device: &Device) -> Outcome {
    let qp = Qp::new(&Context::open(&device.name)?, 200)?;
    let uverbs = &qp.context.uverbs;
    let both = READ | WRITE;
    for (ring, pages) in rings(&qp) {
        let offset = ring.offset;
        map(uverbs, pages, both, SHARED, offset)
            .map_err(|errno| format!("a second mapping: errno {errno}"))?;
        refused(
            "a longer mapping",
            map(uverbs, pages + 1, both, SHARED, offset),
            &ERRNOS,
        )?;
        refused(
            "a shorter mapping",
            map(uverbs, pages - 1, both, SHARED, offset),
            &ERRNOS,
        )?;
        refused(
            "a private mapping",
            map(uverbs, pages, both, PRIVATE, offset),
            &ERRNOS,
        )?;
        refused(
            "a mapping of code",
            map(uverbs, pages, both | EXEC, SHARED, offset),
            &ERRNOS,
        )?;
        for other in [
            0,
            page_size() as u64,
            offset + page_size() as u64,
            offset ^ 1 << 40,
            1 << 62,
        ] {
            // The next ring may begin there, and have this length.
            let is_ring = rings(&qp)
                .iter()
                .any(|ring| ring.0.offset == other && ring.1 == pages);
            if !is_ring {
                refused(
                    "a mapping of nothing",
                    map(uverbs, pages, both, SHARED, other),
                    &ERRNOS,
                )?;
            }
        }
    }
    Ok(())
}

// Shows T5.
fn rings_are_mapped_by_their_context_only(device: &Device) -> Outcome {
    let qp = Qp::new(&Context::open(&device.name)?, 16)?;
    let other = Context::open(&device.name)?;
    for (ring, pages) in rings(&qp) {
        let mapped = map(&other.uverbs, pages, READ | WRITE, SHARED, ring.offset);
        refused("a mapping of another's ring", mapped, &ERRNOS)?;
    }
    Ok(())
}

// Shows T5.
fn rings_are_not_mapped_once_they_are_gone(device: &Device) -> Outcome {
    let qp = Qp::new(&Context::open(&device.name)?, 16)?;
    let (uverbs, rings) = (qp.context.uverbs.clone(), rings(&qp));
    let kept = [qp.send.clone(), qp.receive.clone(), qp.cq.ring.clone()];
    drop(qp);
    for (ring, pages) in rings {
        let mapped = map(&uverbs, pages, READ | WRITE, SHARED, ring.offset);
        refused("a mapping of a ring that is gone", mapped, &ERRNOS)?;
    }
    // A mapping that there was stays, until it is unmapped.
    for ring in kept {
        ring.fill(0xff);
    }
    works(device)
}

// Shows T5.
fn rings_do_not_become_code_or_grow(device: &Device) -> Outcome {
    let qp = Qp::new(&Context::open(&device.name)?, 16)?;
    for (ring, pages) in rings(&qp) {
        let mapped = map(&qp.context.uverbs, pages, READ | WRITE, SHARED, ring.offset);
        let mapped = mapped.map_err(|errno| format!("mmap: errno {errno}"))?;
        refused("code", mapped.protect(READ | EXEC), &ERRNOS)?;
        mapped
            .protect(READ)
            .map_err(|errno| format!("read-only: errno {errno}"))?;
        match mapped.resize((pages + 1) * page_size()) {
            Err((_, errno)) => refused::<()>("a mapping that grows", Err(errno), &ERRNOS)?,
            Ok(_) => return Err("a mapping grows".into()),
        }
    }
    Ok(())
}

// Shows T24.
fn new_rings_are_zero(device: &Device) -> Outcome {
    let context = Context::open(&device.name)?;
    for entries in [1, 3, 64, 500] {
        let qp = Qp::new(&context, entries)?;
        for ring in [&qp.send, &qp.receive, &qp.cq.ring] {
            // What is behind the ring in its last page is mapped as well.
            let len = ring.len().next_multiple_of(page_size());
            expect(
                "a new ring is zero",
                ring.octets(0, len).iter().all(|octet| *octet == 0),
            )?;
        }
        for ring in [&qp.send, &qp.receive, &qp.cq.ring] {
            ring.fill(0xff);
        }
    }
    Ok(())
}

/// Takes a ring, and leaves other memory.
fn take(ring: &mut Arc<Memory>) -> Result<Arc<Memory>, String> {
    let other = Memory::anonymous(ring.len(), READ | WRITE);
    let other = other.map_err(|errno| format!("mmap: errno {errno}"))?;
    Ok(std::mem::replace(ring, Arc::new(other)))
}

// Shows T5.
fn rings_disappear_during_traffic(device: &Device) -> Outcome {
    for which in 0..4 {
        let (mut client, mut server) = pair(device, 200)?;
        let room = Arc::new(server.qp.context.buffer(page_size(), LOCAL_WRITE)?);
        for id in 0..32 {
            server.qp.receive_into(id, &room, 0, 64);
        }
        client.send(1, &[1; 64])?;
        server.qp.cq.wait()?;
        let qp = &mut server.qp;
        let ring = match which {
            0 => Some(take(&mut qp.receive)?),
            1 => Some(take(&mut qp.send)?),
            2 => Some(take(&mut qp.cq.ring)?),
            _ => None,
        };
        match ring.and_then(Arc::into_inner) {
            // A part of it stays.
            Some(ring) if ring.len() > page_size() => drop(ring.without_first_page()),
            Some(ring) => drop(ring),
            None => qp
                .receive
                .protect(READ)
                .map_err(|errno| format!("mprotect: errno {errno}"))?,
        }
        for id in 2..20 {
            client.send(id, &[1; 64])?;
        }
        server.qp.cq.wait_for(Duration::from_millis(100));
    }
    works(device)
}
