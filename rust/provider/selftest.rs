// SPDX-License-Identifier: GPL-2.0

//! Tests of the queues between a consumer and the driver, without a device, and a consumer for
//! tests of the driver.

mod consumer;
mod user;

pub use consumer::{
    Consumer,
    Target,
    MAX_LEN,
    TARGET_LEN, //
};
pub use user::TESTS as USER_TESTS;

use crate::{
    cm::is_owned_by_consumer_of,
    cq::{
        CompletionQueue,
        Cqe, //
    },
    queue::{
        self,
        QueueSizes,
        Queues, //
    },
    region::{
        Access,
        ProtectionDomain,
        Region,
        Registration,
        LOCAL_DMA_LKEY, //
    },
    wr::{
        Run,
        Status, //
    }, //
};
use core::ptr::{
    null_mut,
    without_provenance_mut,
    NonNull, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A test, which returns true if it passed.
pub type Test = fn() -> Result<bool>;

/// The tests, each with its name, which is its claim.
pub const TESTS: &[(&str, Test)] = &[
    (
        "requests are carried out in the order in which they were posted",
        requests_are_taken_in_order,
    ),
    (
        "a request without a completion of its own completes if it is posted in the error state",
        request_in_error_state_completes,
    ),
    (
        "a queue has room for a drain when it is as full as its consumer may make it",
        drain_has_room,
    ),
    // Shows P8.1.1-10.
    (
        "a completion queue has room for all requests of the queue pairs on it",
        completion_queue_grows,
    ),
    (
        "what is left of a queue pair takes no room of a completion queue",
        forgotten_completions_take_no_room,
    ),
    // Shows P8.1.1-10.
    (
        "a completion that is lost is one of any queue pair that the completion queue has",
        lost_completion_is_noticed,
    ),
    (
        "a region that is registered again has the pages that were mapped last",
        region_keeps_its_pages,
    ),
    (
        "memory that is mapped before an earlier registration had its turn is not registered",
        mapping_before_its_turn_is_not_registered,
    ),
    (
        "a connection is of the queue pair that its consumer has made, whatever number is said",
        queue_pair_is_the_consumers,
    ),
    (
        "memory of a request may be of a region, from any octet on",
        memory_may_be_of_a_region,
    ),
];

/// A queue pair: any number but 0.
const QP: usize = 1;

/// Creates queues for a few requests, and their completion queue, which notifies nobody.
fn queues() -> Result<(Arc<Queues>, Arc<CompletionQueue>)> {
    let cq = CompletionQueue::new(NonNull::dangling(), 8)?;
    cq.detach();
    let queue_sizes = QueueSizes {
        sends: 4,
        receives: 4,
        send_sge: 1,
        receive_sge: 1,
    };
    let queues = Queues::new(QP, queue_sizes, cq.clone(), cq.clone(), false, None)?;
    Ok((queues, cq))
}

/// Posts an RDMA Write of no octets, as the core does to drain.
fn post(queues: &Queues, id: u64) -> Result {
    let mut write = cbindings::ib_rdma_wr::default();
    write.wr.opcode = cbindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
    write.wr.__bindgen_anon_1.wr_id = id;
    // SAFETY: It is a chain of one complete request, which has no memory.
    unsafe { queues.post_send((&raw const write).cast(), null_mut()) }
}

fn requests_are_taken_in_order() -> Result<bool> {
    let (queues, cq) = queues()?;
    for id in 1..=3 {
        post(&queues, id)?;
    }
    for id in 1..=3 {
        let request = queues.take_send().ok_or(EINVAL)?;
        let expected = request.id == id;
        queues.complete_send(request, Status::Success);
        if !expected {
            return Ok(false);
        }
    }
    Ok(queues.take_send().is_none() && cq.pop().is_none())
}

fn request_in_error_state_completes() -> Result<bool> {
    let (queues, cq) = queues()?;
    post(&queues, 1)?;
    let earlier = queues.take_send().ok_or(EINVAL)?;
    queues.stop_sends();
    post(&queues, 2)?;
    // The driver does not know of the state yet.
    let none = queues.take_send().is_none();
    queues.complete_send(earlier, Status::Success);
    let untold = cq.pop().is_none();
    while let Some(request) = queues.take_send_to_flush() {
        queues.complete_send(request, Status::Flushed);
    }
    let entry = cq.pop().ok_or(EINVAL)?;
    let flushed = entry.id == 2 && entry.status == Status::Flushed;
    Ok(none && untold && flushed && cq.pop().is_none())
}

fn drain_has_room() -> Result<bool> {
    for wanted in 1..70 {
        let room = queue::size_for(wanted, 1 << 10)?;
        let advertised = queue::advertised(room)?;
        if advertised != wanted || room < usize::try_from(advertised)? + 2 {
            return Ok(false);
        }
    }
    Ok(queue::size_for(11, 10).is_err())
}

/// Returns an entry of a queue pair.
fn entry(qp: usize, id: u64) -> Cqe {
    Cqe {
        id,
        qp,
        qp_number: 0,
        status: Status::Flushed,
        opcode: cbindings::ib_wc_opcode_IB_WC_SEND,
        length: 0,
        invalidated: None,
        immediate: None,
    }
}

fn completion_queue_grows() -> Result<bool> {
    let cq = CompletionQueue::new(NonNull::dangling(), 4)?;
    // Entries keep their order, also where they wrap around the end.
    for id in 0..3 {
        cq.push(entry(QP, id), false);
    }
    let mut next = 0;
    let mut follows = || {
        let found = cq.pop().map(|entry| entry.id);
        next += 1;
        found == Some(next - 1)
    };
    let before = follows() && follows();
    for id in 3..6 {
        cq.push(entry(QP, id), false);
    }
    cq.reserve(3)?;
    cq.reserve(7)?;
    for id in 6..12 {
        cq.push(entry(QP, id), false);
    }
    let all = (2..12).all(|_| follows());
    Ok(before && all && cq.pop().is_none())
}

fn forgotten_completions_take_no_room() -> Result<bool> {
    let cq = CompletionQueue::new(NonNull::dangling(), 4)?;
    for id in 0..4 {
        cq.push(entry(QP + usize::try_from(id % 2)?, id), false);
    }
    cq.purge(QP);
    cq.push(entry(QP, 4), false);
    cq.push(entry(QP, 5), false);
    let found = [1, 3, 4, 5].map(|id| cq.pop().is_some_and(|entry| entry.id == id));
    Ok(found == [true; 4] && cq.pop().is_none())
}

fn lost_completion_is_noticed() -> Result<bool> {
    let ((queues, cq), (other, _)) = (queues()?, queues()?);
    for id in 0..8 {
        cq.push(entry(QP + 1, id), false);
    }
    let full = !queues.has_overrun();
    cq.push(entry(QP + 1, 8), false);
    let later = Queues::new(QP, queues.queue_sizes(), cq.clone(), cq, false, None)?;
    Ok(full && queues.has_overrun() && !other.has_overrun() && !later.has_overrun())
}

/// Returns a registration of the page that was mapped last.
fn registration(region: &Region) -> Registration {
    Registration {
        key: 7,
        base: 0,
        length: 4096,
        mapping: region.mapping(),
        ..Default::default()
    }
}

/// Returns the address of the first registered octet. Nobody accesses that memory.
fn first_octet(region: &Region) -> Result<usize> {
    let mut found = 0;
    region.access(7, 0, 1, Access::Read, |piece| {
        found = piece.address().addr().get();
        Ok(())
    })?;
    Ok(found)
}

fn region_keeps_its_pages() -> Result<bool> {
    let region = Region::new(ProtectionDomain(1), 2)?;
    let register = || -> Result<usize> {
        region.invalidate();
        region.register(registration(&region))?;
        first_octet(&region)
    };
    let (first, second) = (0x10000, 0x20000);
    region.map_pages(&[first])?;
    let mut found = KVec::with_capacity(4, GFP_KERNEL)?;
    found.push(register()?, GFP_KERNEL)?;
    region.map_pages(&[second])?;
    for _ in 0..3 {
        found.push(register()?, GFP_KERNEL)?;
    }
    Ok(*found == [0x10000, 0x20000, 0x20000, 0x20000])
}

fn mapping_before_its_turn_is_not_registered() -> Result<bool> {
    let region = Region::new(ProtectionDomain(1), 2)?;
    region.map_pages(&[0x10000])?;
    let first = registration(&region);
    region.map_pages(&[0x20000])?;
    let refused = region.register(first) == Err(EINVAL);
    let nothing = first_octet(&region) == Err(ENOENT);
    region.register(registration(&region))?;
    Ok(refused && nothing && first_octet(&region)? == 0x20000)
}

fn queue_pair_is_the_consumers() -> Result<bool> {
    let qp = |address| NonNull::new(without_provenance_mut(address)).ok_or(EINVAL);
    let (own, other) = (qp(0x1000)?, qp(0x2000)?);
    let says = |has: *mut cbindings::ib_qp| -> Result<(bool, bool)> {
        let mut consumer = KBox::new(cbindings::rdma_cm_id::default(), GFP_KERNEL)?;
        consumer.qp = has;
        let mut id = KBox::new(cbindings::iw_cm_id::default(), GFP_KERNEL)?;
        id.context = (&raw mut *consumer).cast();
        // SAFETY: Both ids are live, and nobody else has them.
        Ok(unsafe {
            (
                is_owned_by_consumer_of(&*id, own),
                is_owned_by_consumer_of(&*id, other),
            )
        })
    };
    Ok(says(own.as_ptr())? == (true, false) && says(null_mut())? == (false, false))
}

fn memory_may_be_of_a_region() -> Result<bool> {
    let cq = CompletionQueue::new(NonNull::dangling(), 8)?;
    let queue_sizes = QueueSizes {
        sends: 4,
        receives: 4,
        send_sge: 2,
        receive_sge: 1,
    };
    let queues = Queues::new(QP, queue_sizes, cq.clone(), cq, false, None)?;
    let local = [0_u8; 10];
    let mut list = [
        cbindings::ib_sge {
            addr: u64::try_from(local.as_ptr().expose_provenance())?,
            length: 10,
            lkey: LOCAL_DMA_LKEY,
        },
        cbindings::ib_sge {
            addr: 0x1000,
            length: 100,
            lkey: 0x1207,
        },
    ];
    let send = cbindings::ib_send_wr {
        opcode: cbindings::ib_wr_opcode_IB_WR_SEND,
        sg_list: list.as_mut_ptr(),
        num_sge: 2,
        ..Default::default()
    };
    // SAFETY: It is a chain of one complete request, which completes before its memory goes.
    unsafe { queues.post_send(&send, null_mut()) }?;
    let request = queues.take_send().ok_or(EINVAL)?;
    // The last octets of the first entry, and some of the second; and some of the second alone.
    let mut runs = [(0, 0, 0); 3];
    let mut at = 0;
    let mut note = |run: Run<'_>| -> Result {
        let found = match run {
            Run::Local(piece) => (0, 0, piece.len()),
            Run::Inline(_) => return Err(EINVAL),
            Run::Registered {
                stag,
                offset,
                length,
            } => (stag, offset, length),
        };
        *runs.get_mut(at).ok_or(EINVAL)? = found;
        at += 1;
        Ok(())
    };
    request.sg_list.runs(6, 10, &mut note)?;
    request.sg_list.runs(30, 80, &mut note)?;
    let beyond = request.sg_list.runs(30, 81, |_| Ok(())).is_err();
    queues.complete_send(request, Status::Success);
    Ok(beyond && runs == [(0, 0, 4), (0x1207, 0x1000, 6), (0x1207, 0x1014, 80)])
}
