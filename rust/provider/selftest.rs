// SPDX-License-Identifier: GPL-2.0

//! Tests of the queues between a consumer and the driver, without a device, and a consumer for
//! tests of the driver.

mod consumer;
mod qp;
mod region;
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
        Armed,
        CompletionQueue,
        Cqe,
        Polled, //
    },
    queue::{
        self,
        QueueSizes,
        Queues, //
    },
    region::{
        ProtectionDomain,
        LOCAL_DMA_LKEY, //
    },
    registry::{
        self,
        Place,
        Reservation, //
    },
    srq::{
        SharedReceives,
        SharedSizes, //
    },
    wr::{
        Atomic,
        Operation,
        Run,
        SendRequest,
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
        "a request keeps its place until its completion is polled, so that none is lost",
        unpolled_completions_keep_places,
    ),
    // Shows P8.1.1-10.
    (
        "a completion queue has room for all requests of the queue pairs on it",
        completion_queue_grows,
    ),
    // Shows P8.1.1-10.
    (
        "queue pairs that share their Receives have room for these in a completion queue once",
        shared_receives_have_their_room_once,
    ),
    (
        "a completion queue that thousands of queue pairs share grows a few times",
        completion_queue_grows_in_steps,
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
        region::region_keeps_its_pages,
    ),
    (
        "memory that is mapped before an earlier registration had its turn is not registered",
        region::mapping_before_its_turn_is_not_registered,
    ),
    // Shows T9.
    (
        "a connection is of the queue pair that its consumer has made, whatever number is said",
        queue_pair_is_the_consumers,
    ),
    (
        "memory of a request may be of a region, from any octet on",
        memory_may_be_of_a_region,
    ),
    (
        "a Write has the immediate data of its consumer, and a Send with such data is refused",
        immediate_data_belongs_to_a_write,
    ),
    // Shows X5-1.
    (
        "an atomic operation has eight octets for its result, and masks of its consumer or none",
        atomic_operations_are_those_of_verbs,
    ),
    (
        "a queue pair that was found is awaited until it has a reference",
        qp::found_queue_pair_is_awaited,
    ),
    (
        "a region of elements has each where it is, and nothing between them",
        region::elements_have_gaps_between_them,
    ),
    // Shows X5.1-3.
    (
        "a number is changed where it is registered and aligned, and nowhere else",
        region::only_aligned_numbers_change,
    ),
    (
        "octets of a region are lent, if they are not too many pieces",
        region::pieces_are_lent,
    ),
    (
        "an invalidation waits for what is lent, and nothing more is lent meanwhile",
        region::invalidation_waits_for_what_is_lent,
    ),
    // Shows X6.3-2, X6.4-1.
    (
        "immediate data completes a Receive, and one without memory says how long the Write was",
        immediate_data_completes_a_receive,
    ),
    (
        "the event of a shared receive queue's limit is not missed, whenever the limit is set",
        limit_event_is_not_missed,
    ),
    // Shows P8.1.2-8.
    (
        "a message that needs more Receives of a shared receive queue than there are takes none",
        receives_are_taken_all_or_none,
    ),
    (
        "a network device that goes while a device is being added to it is not missed",
        network_device_that_goes_is_noticed,
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
    let queues = Queues::new(QP, queue_sizes, cq.clone(), cq.clone(), false, None, None)?;
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

fn unpolled_completions_keep_places() -> Result<bool> {
    let (queues, cq) = queues()?;
    let places = queues.queue_sizes().sends;
    let fill = |places: usize| -> Result<bool> {
        for id in 0..places {
            post(&queues, u64::try_from(id)?)?;
        }
        Ok(post(&queues, 99) == Err(ENOMEM))
    };
    let complete = |status| {
        while let Some(request) = queues.take_send() {
            queues.complete_send(request, status);
        }
    };
    let mut good = fill(places)?;
    // Without a completion nobody polls.
    complete(Status::Success);
    good &= fill(places)?;
    complete(Status::Flushed);
    good &= post(&queues, 99) == Err(ENOMEM);
    good &= cq.pop().is_some() && cq.pop().is_some();
    good &= fill(2)?;
    complete(Status::Flushed);
    let mut receive = cbindings::ib_recv_wr::default();
    receive.__bindgen_anon_1.wr_id = 5;
    // SAFETY: It is a chain of one complete request, which has no memory.
    let post_receive = || unsafe { queues.post_receive(&receive, null_mut()) };
    for _ in 0..queues.queue_sizes().receives {
        post_receive()?;
    }
    while let Some(request) = queues.take_receive() {
        queues.complete_receive(request, Status::Flushed, 0, false, None);
    }
    good &= post_receive() == Err(ENOMEM);
    // All of both queues are there, and the places are free when nobody will poll them.
    good &= !queues.has_overrun();
    cq.purge(QP);
    good &= fill(places)?;
    Ok(good && post_receive() == Ok(()))
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
        source: None,
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
    cq.reserve(&Polled::new(GFP_KERNEL)?, 3, false)?;
    cq.reserve(&Polled::new(GFP_KERNEL)?, 7, false)?;
    for id in 6..12 {
        cq.push(entry(QP, id), false);
    }
    let all = (2..12).all(|_| follows());
    Ok(before && all && cq.pop().is_none())
}

fn completion_queue_grows_in_steps() -> Result<bool> {
    const QUEUES: usize = 1000;
    let cq = CompletionQueue::new(NonNull::dangling(), 1)?;
    let (mut steps, mut ids) = (0, KVVec::with_capacity(QUEUES, GFP_KERNEL)?);
    for _ in 0..QUEUES {
        let before = cq.room();
        let id = cq.reserve(&Polled::new(GFP_KERNEL)?, 4, false)?;
        ids.push(id.ok_or(EINVAL)?, GFP_KERNEL)?;
        steps += usize::from(cq.room() != before);
    }
    let room = cq.room();
    // Those that go leave their places to others.
    let gone = || ids.iter().step_by(2);
    gone().for_each(|id| cq.release(*id));
    for _ in gone() {
        let id = cq.reserve(&Polled::new(GFP_KERNEL)?, 4, false)?;
        if !gone().any(|gone| id == Some(*gone)) {
            return Ok(false);
        }
    }
    Ok(steps < 30 && room >= 4 * QUEUES && room == cq.room())
}

fn shared_receives_have_their_room_once() -> Result<bool> {
    let cq = CompletionQueue::new(NonNull::dangling(), 1)?;
    cq.detach();
    let (shared, other) = (Polled::new(GFP_KERNEL)?, Polled::new(GFP_KERNEL)?);
    let first = cq.reserve(&shared, 8, true)?;
    let second = cq.reserve(&shared, 8, true)?;
    let mut good = first.is_some() && first == second;
    // How many more there is room for.
    let fill = |source| -> Result<u64> {
        let (before, mut pushed) = (cq.overruns(), 0);
        while cq.overruns() == before && pushed < 100 {
            cq.push(
                Cqe {
                    source,
                    ..entry(QP, pushed)
                },
                false,
            );
            pushed += 1;
        }
        Ok(pushed - 1)
    };
    good &= fill(first)? == 8;
    // The one queue pair goes, and the other one keeps the room.
    cq.release(first.ok_or(EINVAL)?);
    let third = cq.reserve(&other, 4, true)?;
    good &= third.is_some() && third != first && fill(third)? == 4;
    while cq.pop().is_some() {}
    // Each has what is its own.
    good &= shared.count() == 8 && other.count() == 4;
    cq.release(second.ok_or(EINVAL)?);
    Ok(good && cq.reserve(&Polled::new(GFP_KERNEL)?, 8, false)? == first && fill(first)? == 12)
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
    let later = Queues::new(QP, queues.queue_sizes(), cq.clone(), cq, false, None, None)?;
    Ok(full && queues.has_overrun() && !other.has_overrun() && !later.has_overrun())
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
    let queues = Queues::new(QP, queue_sizes, cq.clone(), cq, false, None, None)?;
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
    // Memory that is there without the lock of a region: of the first entry, but no octet more.
    let list = &request.sg_list;
    let octets = |(offset, length)| {
        let pieces = list.local(offset, length)?;
        Some(pieces.map(|piece| (piece.address().as_ptr().addr(), piece.len())))
    };
    let address = local.as_ptr().addr();
    let mut some = octets((6, 4)).ok_or(EINVAL)?;
    let alone = some.next() == Some((address + 6, 4)) && some.next().is_none();
    let none = [(6, 5), (10, 1), (0, 200)]
        .map(octets)
        .iter()
        .all(Option::is_none);
    let empty = octets((10, 0)).is_some_and(|mut pieces| pieces.next().is_none());
    queues.complete_send(request, Status::Success);
    Ok(alone
        && none
        && empty
        && beyond
        && runs == [(0, 0, 4), (0x1207, 0x1000, 6), (0x1207, 0x1014, 80)])
}

/// Posts a request, and takes it. An error is one of posting.
///
/// # Safety
///
/// It is a complete request of its opcode, whose memory stays allocated.
unsafe fn posted(queues: &Queues, raw: *const cbindings::ib_send_wr) -> Result<KBox<SendRequest>> {
    // SAFETY: The caller promises a chain of one complete request.
    unsafe { queues.post_send(raw, null_mut()) }?;
    queues.take_send().ok_or(EINVAL)
}

fn immediate_data_belongs_to_a_write() -> Result<bool> {
    let (queues, cq) = queues()?;
    let mut write = cbindings::ib_rdma_wr::default();
    write.wr.opcode = cbindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM;
    write.wr.ex.imm_data = 0x0102_0304_u32.to_be();
    write.wr.send_flags = cbindings::ib_send_flags_IB_SEND_SIGNALED;
    (write.rkey, write.remote_addr) = (7, 0x1000);
    // SAFETY: It is an `ib_rdma_wr` without memory.
    let request = unsafe { posted(&queues, (&raw const write).cast())? };
    let found = match request.operation {
        Operation::Write {
            stag,
            offset,
            immediate,
        } => (stag, offset, immediate),
        _ => return Ok(false),
    };
    queues.complete_send(request, Status::Success);
    let entry = cq.pop().ok_or(EINVAL)?;
    let send = cbindings::ib_send_wr {
        opcode: cbindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM,
        ..Default::default()
    };
    // SAFETY: It is a chain of one complete request, which has no memory.
    let refused = unsafe { queues.post_send(&send, null_mut()) } == Err(EINVAL);
    Ok(found == (7, 0x1000, Some([1, 2, 3, 4]))
        && entry.opcode == cbindings::ib_wc_opcode_IB_WC_RDMA_WRITE
        && refused
        && queues.take_send().is_none())
}

fn atomic_operations_are_those_of_verbs() -> Result<bool> {
    let (queues, cq) = queues()?;
    let mut memory = cbindings::ib_sge {
        addr: 0x1000,
        length: 8,
        lkey: 0x1207,
    };
    let mut wr = cbindings::ib_atomic_wr::default();
    (wr.rkey, wr.remote_addr) = (7, 0x2008);
    (wr.compare_add, wr.swap) = (1, 2);
    (wr.compare_add_mask, wr.swap_mask) = (3, 4);
    wr.wr.num_sge = 1;
    wr.wr.send_flags = cbindings::ib_send_flags_IB_SEND_SIGNALED;
    let add = |mask| Atomic::FetchAdd { add: 1, mask };
    let swap = |compare_mask, swap_mask| Atomic::CmpSwap {
        swap: 2,
        swap_mask,
        compare: 1,
        compare_mask,
    };
    let all = u64::MAX;
    let mut good = true;
    for (opcode, completed, due) in [
        (
            cbindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD,
            cbindings::ib_wc_opcode_IB_WC_FETCH_ADD,
            add(0),
        ),
        (
            cbindings::ib_wr_opcode_IB_WR_MASKED_ATOMIC_FETCH_AND_ADD,
            cbindings::ib_wc_opcode_IB_WC_MASKED_FETCH_ADD,
            add(3),
        ),
        (
            cbindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP,
            cbindings::ib_wc_opcode_IB_WC_COMP_SWAP,
            swap(all, all),
        ),
        (
            cbindings::ib_wr_opcode_IB_WR_MASKED_ATOMIC_CMP_AND_SWP,
            cbindings::ib_wc_opcode_IB_WC_MASKED_COMP_SWAP,
            swap(3, 4),
        ),
    ] {
        wr.wr.opcode = opcode;
        memory.length = 8;
        wr.wr.sg_list = &raw mut memory;
        // SAFETY: It is an `ib_atomic_wr`, and its memory is of a region.
        let request = unsafe { posted(&queues, (&raw const wr).cast())? };
        good &= matches!(
            request.operation,
            Operation::Atomic { stag: 7, offset: 0x2008, operation, .. } if operation == due
        );
        queues.complete_send(request, Status::Success);
        let entry = cq.pop().ok_or(EINVAL)?;
        good &= (entry.opcode, entry.length) == (completed, 8);
        for length in [0, 4, 7, 9, 16] {
            memory.length = length;
            wr.wr.sg_list = &raw mut memory;
            // SAFETY: It is an `ib_atomic_wr`, and its memory is of a region.
            good &= unsafe { queues.post_send((&raw const wr).cast(), null_mut()) } == Err(EINVAL);
        }
    }
    Ok(good)
}

fn immediate_data_completes_a_receive() -> Result<bool> {
    let (queues, cq) = queues()?;
    let mut memory = cbindings::ib_sge {
        addr: 0x1000,
        length: 100,
        lkey: 0x1207,
    };
    let opcode = cbindings::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM;
    let mut good = true;
    for (sges, length, solicited) in [(0, 77, false), (1, 0, true)] {
        let mut receive = cbindings::ib_recv_wr::default();
        receive.__bindgen_anon_1.wr_id = 3;
        receive.sg_list = &raw mut memory;
        receive.num_sge = sges;
        // SAFETY: It is a chain of one complete request, whose memory is of a region.
        unsafe { queues.post_receive(&receive, null_mut()) }?;
        let request = queues.take_receive().ok_or(EINVAL)?;
        cq.arm(Armed::Solicited)?;
        queues.complete_immediate(request, [1, 2, 3, 4], 77, solicited);
        // The consumer was notified, if the peer asked for that.
        good &= cq.is_armed() != solicited;
        let entry = cq.pop().ok_or(EINVAL)?;
        good &= (entry.id, entry.length, entry.opcode) == (3, length, opcode);
        good &= entry.immediate == Some([1, 2, 3, 4]);
        good &= entry.status == Status::Success;
    }
    Ok(good)
}

/// Creates a shared receive queue for four Receives, with as many as `posted`.
fn shared_receives(posted: usize) -> Result<Arc<SharedReceives>> {
    let sizes = SharedSizes {
        receives: 4,
        max_sge: 1,
    };
    let shared = SharedReceives::new(QP, ProtectionDomain(1), sizes, None)?;
    let receive = cbindings::ib_recv_wr::default();
    for _ in 0..posted {
        // SAFETY: It is a chain of one complete request, which has no memory.
        unsafe { shared.post(&receive, null_mut()) }?;
    }
    Ok(shared)
}

fn limit_event_is_not_missed() -> Result<bool> {
    // Few are there already when it is set, or none.
    let mut good = true;
    for posted in [0, 2] {
        let shared = shared_receives(posted)?;
        shared.arm(3)?;
        good &= shared.limit() == 0;
    }
    // Enough are there: the event comes with the one that falls below the limit.
    let shared = shared_receives(2)?;
    shared.arm(1)?;
    for limit in [1, 0] {
        good &= shared.take(1).is_some() && shared.limit() == limit;
    }
    Ok(good)
}

fn receives_are_taken_all_or_none() -> Result<bool> {
    let shared = shared_receives(3)?;
    let taken = [4, 3, 2, 2, 1, 1].map(|wanted| shared.take(wanted).is_some());
    Ok(taken == [false, true, true, false, true, false])
}

fn network_device_that_goes_is_noticed() -> Result<bool> {
    registry::start();
    let [place, other] = [c"selftest", c"other"].map(|link_type| Place::new(null_mut(), link_type));
    let reservation = Reservation::new(place)?;
    registry::remove_later(other);
    let stays = !reservation.netdev_goes();
    registry::remove_later(place);
    let goes = reservation.netdev_goes();
    drop(reservation);
    // A device that is added later is on another one, though the address be the same.
    Ok(stays && goes && !Reservation::new(place)?.netdev_goes())
}
