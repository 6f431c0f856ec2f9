// SPDX-License-Identifier: GPL-2.0

//! Tests of what a process and this module share, without a process: the tests write the rings.

use super::{
    Test,
    QP, //
};
use crate::{
    cq::CompletionQueue,
    queue::{
        QueueSizes,
        Queues,
        UserRings, //
    },
    region::{
        Access,
        AccessFlags,
        ProtectionDomain,
        Region,
        Registration,
        LOCAL_DMA_LKEY, //
    },
    srq::{
        SharedReceives,
        SharedSizes, //
    },
    user::{
        quota::{
            Quota,
            User, //
        },
        rings::{
            self,
            CompletionRing,
            RequestRing, //
        },
        shared::Shared,
        Owner, //
    },
    wr::{
        Operation,
        Run,
        Status, //
    }, //
};
use core::{
    ptr::NonNull,
    sync::atomic::Ordering, //
};
use iwtrace::QpId;
use kernel::{
    alloc::KVVec,
    prelude::*,
    sync::Arc, //
};
use uabi::{
    cqe::Cqe,
    ring::{
        Queue,
        Ring,
        Slots, //
    }, //
};

/// The tests, each with its claim.
pub const TESTS: &[(&str, Test)] = &[
    // Shows T1.
    (
        "a region of a process that may not write it is not written",
        read_only_region_is_not_written,
    ),
    // Shows T2.
    (
        "a process that names all memory of the machine names no memory",
        all_memory_is_not_for_processes,
    ),
    (
        "requests in a ring are taken in order, and slots are given back one by one",
        ring_is_taken_in_order,
    ),
    // Shows T4.
    (
        "a process that posts for ever has as many requests in progress as its ring has slots",
        requests_in_progress_are_bounded,
    ),
    // Shows T17.
    (
        "what was posted too early is dropped, and not carried out later",
        early_requests_are_dropped,
    ),
    // Shows T18.
    (
        "a request that is not valid, or wraps, completes in its turn with its reason",
        invalid_request_completes,
    ),
    // Shows T14, T25.
    (
        "a completion names its queue pair by number, and a full ring loses it",
        completions_are_written,
    ),
    (
        "a process is told of a completion once, and of which it asked for",
        process_is_told_once,
    ),
    (
        "memory of a process is accessed by aligned words inside it",
        shared_memory_is_bounded,
    ),
    (
        "a shared receive queue gives its Receives in order, and takes them back",
        shared_receives_are_taken_in_order,
    ),
    // Shows T4.
    (
        "as many shared Receives are in progress as its ring has slots",
        shared_receives_in_progress_are_bounded,
    ),
    (
        "the limit of a shared receive queue is reached once",
        limit_is_reached_once,
    ),
    (
        "a Receive completes in the queue of who took it, and goes back to the shared one",
        shared_receive_completes,
    ),
    // Shows T9.
    (
        "the process that made an object is its owner, and no other one is",
        owner_is_the_caller,
    ),
    // Shows T10.
    (
        "processes have a limited number of objects, and one that goes makes room for another",
        objects_are_limited,
    ),
    // Shows T11.
    (
        "a user has an eighth of the objects, and others have the rest",
        users_have_a_part,
    ),
];

/// The number of slots of a ring.
const SLOTS: u32 = 4;

/// A queue pair of a process, with the process's side of its rings.
struct Process {
    queues: Arc<Queues>,
    sends: Arc<Shared>,
    completions: Arc<Shared>,
    // Where the process writes, and where it reads.
    next: [Ring; 2],
}

/// A flag of an entry: it is valid.
const VALID: u16 = 1;
/// A flag of a send request: it completes visibly.
const SIGNALLED: u16 = 4;
/// The opcode of a Send.
const SEND: u8 = 3;

impl Process {
    fn new() -> Result<Self> {
        let slots = Slots::for_entries(SLOTS, SLOTS).ok_or(EINVAL)?;
        let sends = rings::memory(Queue::Send, slots)?;
        let receives = rings::memory(Queue::Receive, slots)?;
        let completions = rings::memory(Queue::Completion, slots)?;
        let ring = CompletionRing::new(completions.clone(), slots);
        let cq = CompletionQueue::of_process(NonNull::dangling(), ring)?;
        cq.detach();
        let count = usize::try_from(SLOTS)?;
        let queue_sizes = QueueSizes {
            sends: count,
            receives: count,
            send_sge: 6,
            receive_sge: 6,
        };
        let rings = UserRings {
            send: RequestRing::new(sends.clone(), Queue::Send, slots),
            receive: Some(RequestRing::new(receives, Queue::Receive, slots)),
        };
        let queues = Queues::new(QP, queue_sizes, cq.clone(), cq, false, Some(rings), None)?;
        Ok(Self::of(queues, sends, completions, slots))
    }

    /// Creates one whose Receives are those of a shared queue.
    fn sharing(shared: Arc<SharedReceives>) -> Result<Self> {
        let slots = Slots::for_entries(SLOTS, SLOTS).ok_or(EINVAL)?;
        let sends = rings::memory(Queue::Send, slots)?;
        let completions = rings::memory(Queue::Completion, slots)?;
        let ring = CompletionRing::new(completions.clone(), slots);
        let cq = CompletionQueue::of_process(NonNull::dangling(), ring)?;
        cq.detach();
        let queue_sizes = QueueSizes {
            sends: usize::try_from(SLOTS)?,
            receives: 0,
            send_sge: 6,
            receive_sge: 6,
        };
        let rings = UserRings {
            send: RequestRing::new(sends.clone(), Queue::Send, slots),
            receive: None,
        };
        let all = Some(shared);
        let queues = Queues::new(QP, queue_sizes, cq.clone(), cq, false, Some(rings), all)?;
        Ok(Self::of(queues, sends, completions, slots))
    }

    fn of(queues: Arc<Queues>, sends: Arc<Shared>, completions: Arc<Shared>, slots: Slots) -> Self {
        Self {
            queues,
            sends,
            completions,
            next: [
                Ring::new(Queue::Send, slots),
                Ring::new(Queue::Completion, slots),
            ],
        }
    }

    /// Returns whether the next slot is free.
    fn has_slot(&self) -> bool {
        self.sends
            .load_16(self.next[0].flags_offset(), Ordering::Acquire)
            == 0
    }

    /// Posts a request with a list of one entry.
    fn post(&mut self, id: u64, opcode: u8, count: u8, sge: (u64, u32, u32)) {
        let at = self.next[0].offset();
        let (address, length, key) = sge;
        let store = |offset, word| self.sends.store_64(at + offset, word, Ordering::Relaxed);
        store(0, id);
        store(8, u64::from_ne_bytes([0, 0, count, opcode, 0, 0, 0, 0]));
        store(24, address);
        store(32, u64::from(key) << 32 | u64::from(length));
        let flags = self.next[0].flags_offset();
        self.sends
            .store_16(flags, VALID | SIGNALLED, Ordering::SeqCst);
        self.next[0].advance();
    }

    /// Returns the next completion: its id, its status, and the word with the queue pair.
    fn completion(&mut self) -> Option<(u64, u16, u64)> {
        let at = self.next[1].offset();
        let load = |offset| self.completions.load_64(at + offset, Ordering::Acquire);
        let [flags, _, status @ .., _, _, _, _] = load(Cqe::FLAGS_WORD).to_ne_bytes();
        if flags == 0 {
            return None;
        }
        let found = (load(0), u16::from_ne_bytes(status), load(24));
        self.completions
            .store_64(at + Cqe::FLAGS_WORD, 0, Ordering::SeqCst);
        self.next[1].advance();
        Some(found)
    }
}

fn read_only_region_is_not_written() -> Result<bool> {
    let registered = |local_write| -> Result<(bool, bool)> {
        let mut pages = KVVec::new();
        pages.push(0x10000, GFP_KERNEL)?;
        let registration = Registration {
            key: 7,
            base: 0x5000,
            length: 4096,
            access: AccessFlags {
                remote_read: true,
                remote_write: true,
            },
            local_write,
            ..Default::default()
        };
        // SAFETY: Nobody accesses the memory: `may` only says what is offered.
        let region = unsafe { Region::of_process(ProtectionDomain(1), pages, registration)? };
        let may = |access| {
            let mut offered = false;
            let result = region.access(7, 0x5010, 16, access, |_| {
                offered = true;
                Ok(())
            });
            result.is_ok() && offered
        };
        Ok((may(Access::Read), may(Access::Write)))
    };
    Ok(registered(false)? == (true, false) && registered(true)? == (true, true))
}

fn all_memory_is_not_for_processes() -> Result<bool> {
    let mut process = Process::new()?;
    process.post(1, SEND, 1, (0x1000, 8, LOCAL_DMA_LKEY));
    let request = process.queues.take_send().ok_or(EINVAL)?;
    let mut as_region = false;
    request.sg_list.runs(0, 8, |run| {
        as_region = matches!(
            run,
            Run::Registered {
                stag: LOCAL_DMA_LKEY,
                ..
            }
        );
        Ok(())
    })?;
    process.queues.complete_send(request, Status::Flushed);
    // No region has that index.
    Ok(as_region && LOCAL_DMA_LKEY >> 8 == 0)
}

fn ring_is_taken_in_order() -> Result<bool> {
    let mut process = Process::new()?;
    let mut in_order = process.queues.take_send().is_none();
    for round in 0..3 {
        for slot in 0..u64::from(SLOTS) {
            in_order &= process.has_slot();
            process.post(round * 10 + slot, SEND, 0, (0, 0, 0));
        }
        in_order &= !process.has_slot();
        for slot in 0..u64::from(SLOTS) {
            let request = process.queues.take_send().ok_or(EINVAL)?;
            in_order &= request.id == round * 10 + slot && process.has_slot();
            process.queues.complete_send(request, Status::Success);
            in_order &= process.completion() == Some((round * 10 + slot, 0, 0));
        }
    }
    Ok(in_order && process.queues.take_send().is_none())
}

fn requests_in_progress_are_bounded() -> Result<bool> {
    let mut process = Process::new()?;
    let mut taken = KVec::new();
    // Each slot is valid again at once.
    for id in 0..20 {
        process.post(id, SEND, 0, (0, 0, 0));
        if let Some(request) = process.queues.take_send() {
            taken.push(request, GFP_KERNEL)?;
        }
    }
    let bounded = taken.len() == usize::try_from(SLOTS)? && !process.queues.has_send();
    let first = taken.pop().ok_or(EINVAL)?;
    process.queues.complete_send(first, Status::Success);
    // What waits is taken when a request is free again; nobody tells of it.
    let goes_on = process.queues.has_send() && process.queues.take_send().is_some();
    Ok(bounded && goes_on)
}

fn early_requests_are_dropped() -> Result<bool> {
    let mut process = Process::new()?;
    for id in 0..3 {
        process.post(id, SEND, 0, (0, 0, 0));
    }
    process.queues.drop_sends();
    let none = process.queues.take_send().is_none() && process.completion().is_none();
    process.post(7, SEND, 0, (0, 0, 0));
    let next = process
        .queues
        .take_send()
        .is_some_and(|request| request.id == 7);
    Ok(none && next)
}

fn invalid_request_completes() -> Result<bool> {
    let mut process = Process::new()?;
    // An opcode of the kernel's only, too long a list, and an entry that wraps.
    process.post(1, 11, 0, (0, 0, 0));
    process.post(2, SEND, 7, (0, 0, 0));
    process.post(3, SEND, 1, (u64::MAX, 2, 0x100));
    for (id, status) in [(1, 3), (2, 3), (3, 2)] {
        let request = process.queues.take_send().ok_or(EINVAL)?;
        let refused = matches!(request.operation, Operation::Refused(_));
        process.queues.complete_send(request, Status::Failed);
        if !refused || process.completion() != Some((id, status, 0)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn completions_are_written() -> Result<bool> {
    let mut process = Process::new()?;
    let queues = process.queues.clone();
    let id = QpId {
        device: 0,
        number: 0x1234,
    };
    // SAFETY: It is detached right behind this, and nobody uses it before.
    unsafe { queues.attach(NonNull::dangling(), id) };
    queues.detach();
    let complete = |process: &mut Process, id| -> Result {
        process.post(id, SEND, 0, (0, 0, 0));
        let request = queues.take_send().ok_or(EINVAL)?;
        queues.complete_send(request, Status::Success);
        Ok(())
    };
    for id in 0..u64::from(SLOTS) {
        complete(&mut process, id)?;
    }
    let fits = !process.queues.has_overrun();
    complete(&mut process, 9)?;
    let lost = process.queues.has_overrun();
    let found = (0..u64::from(SLOTS)).all(|id| process.completion() == Some((id, 0, 0x1234)));
    Ok(fits && lost && found && process.completion().is_none())
}

fn process_is_told_once() -> Result<bool> {
    let slots = Slots::for_entries(SLOTS, SLOTS).ok_or(EINVAL)?;
    let memory = rings::memory(Queue::Completion, slots)?;
    let mut ring = CompletionRing::new(memory.clone(), slots);
    let control = Ring::new(Queue::Completion, slots).control_offset();
    let completion = Cqe {
        id: 1,
        opcode: uabi::cqe::Opcode::Send,
        status: uabi::cqe::Status::Success,
        length: 0,
        invalidated: None,
        qp: 1,
    };
    let mut told = |asked, solicited| {
        memory.swap_32(control, asked, Ordering::SeqCst);
        memory.store_64(Cqe::FLAGS_WORD, 0, Ordering::SeqCst);
        let pushed = ring.push(&completion);
        let due = ring.is_due(&completion, solicited);
        (pushed && due, ring.is_due(&completion, true))
    };
    let nothing = told(0, true) == (false, false);
    Ok(nothing && told(3, false) == (true, false) && told(1, true) == (true, false))
}

fn shared_memory_is_bounded() -> Result<bool> {
    let memory = Shared::new(40)?;
    memory.store_64(32, 5, Ordering::Relaxed);
    for outside in [36, 40, 48, usize::MAX - 7] {
        memory.store_64(outside, 9, Ordering::Relaxed);
        if memory.load_64(outside, Ordering::Relaxed) != 0 {
            return Ok(false);
        }
    }
    let load = |at| memory.load_64(at, Ordering::Relaxed);
    Ok(load(32) == 5 && (0..4).all(|word| load(word * 8) == 0))
}

/// A shared receive queue of a process, with the process's side of its ring.
struct SharedProcess {
    receives: Arc<SharedReceives>,
    memory: Arc<Shared>,
    next: Ring,
}

impl SharedProcess {
    fn new() -> Result<Self> {
        let slots = Slots::for_entries(SLOTS, SLOTS).ok_or(EINVAL)?;
        let memory = rings::memory(Queue::Receive, slots)?;
        let ring = RequestRing::new(memory.clone(), Queue::Receive, slots);
        let sizes = SharedSizes {
            receives: SLOTS,
            max_sge: 6,
        };
        Ok(Self {
            receives: SharedReceives::new(QP + 1, ProtectionDomain(1), sizes, Some(ring))?,
            memory,
            next: Ring::new(Queue::Receive, slots),
        })
    }

    /// Posts a Receive without memory.
    fn post(&mut self, id: u64) {
        self.memory
            .store_64(self.next.offset(), id, Ordering::Relaxed);
        self.memory
            .store_16(self.next.flags_offset(), VALID, Ordering::SeqCst);
        self.next.advance();
    }
}

fn shared_receives_are_taken_in_order() -> Result<bool> {
    let mut process = SharedProcess::new()?;
    for round in 0..3 {
        for slot in 0..u64::from(SLOTS) {
            process.post(round * 10 + slot);
        }
        for slot in 0..u64::from(SLOTS) {
            let request = process.receives.take(1).ok_or(EINVAL)?;
            if request.id != round * 10 + slot {
                return Ok(false);
            }
            process.receives.give_back(request);
        }
        if process.receives.take(1).is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn shared_receives_in_progress_are_bounded() -> Result<bool> {
    let mut process = SharedProcess::new()?;
    let mut taken = KVec::new();
    // Each slot is valid again at once.
    for id in 0..20 {
        process.post(id);
        if let Some(request) = process.receives.take(1) {
            taken.push(request, GFP_KERNEL)?;
        }
    }
    let bounded = taken.len() == usize::try_from(SLOTS)?;
    process.receives.give_back(taken.pop().ok_or(EINVAL)?);
    let one = process.receives.take(1);
    Ok(bounded && one.is_some() && process.receives.take(1).is_none())
}

fn limit_is_reached_once() -> Result<bool> {
    let mut process = SharedProcess::new()?;
    let receives = process.receives.clone();
    let refused = receives.arm(SLOTS + 1).is_err() && receives.limit() == 0;
    for id in 0..u64::from(SLOTS) {
        process.post(id);
    }
    receives.arm(2)?;
    let mut limits = KVec::new();
    for _ in 0..SLOTS {
        let request = receives.take(1).ok_or(EINVAL)?;
        receives.give_back(request);
        limits.push(receives.limit(), GFP_KERNEL)?;
    }
    // The third one leaves one, which is fewer than two.
    let once = limits.as_slice() == [2, 2, 0, 0];
    // None is left, which the owner is told at once.
    receives.arm(1)?;
    let none = receives.limit() == 0 && receives.take(1).is_none();
    process.post(9);
    receives.arm(1)?;
    let one = receives.limit() == 1;
    let last = receives.take(1).is_some() && receives.limit() == 0;
    Ok(refused && once && none && one && last)
}

fn shared_receive_completes() -> Result<bool> {
    let mut shared = SharedProcess::new()?;
    let mut process = Process::sharing(shared.receives.clone())?;
    let queues = process.queues.clone();
    let own = queues.take_receive().is_none() && queues.take_shared_receive(1).is_none();
    let pd = queues.receive_pd(ProtectionDomain(7)) == ProtectionDomain(1);
    // More often than there are requests.
    for id in 0..u64::from(3 * SLOTS) {
        shared.post(id);
        let request = queues.take_shared_receive(1).ok_or(EINVAL)?;
        queues.complete_receive(request, Status::Success, 0, false, None);
        if process.completion() != Some((id, 0, 0)) {
            return Ok(false);
        }
    }
    Ok(own && pd && queues.shared_receives() == Some(SLOTS))
}

fn owner_is_the_caller() -> Result<bool> {
    Ok(Owner::current().is_current() && !Owner::first().is_current())
}

/// Returns whether a user may have no more. One that is refused takes nothing, and gives nothing
/// back.
fn is_full(quota: &Arc<Quota>, user: u32) -> bool {
    let refused = || {
        let taken = quota.take_for(User(user));
        taken.is_err_and(|error| error == ENOMEM)
    };
    refused() && refused()
}

fn objects_are_limited() -> Result<bool> {
    let quota = Quota::new(16)?;
    let mut all = KVec::new();
    for object in 0..16 {
        all.push(quota.take_for(User(object / 2))?, GFP_KERNEL)?;
    }
    let full = is_full(&quota, 100);
    drop(all.pop());
    let last = quota.take_for(User(100))?;
    let again = is_full(&quota, 101);
    drop((all, last));
    Ok(full && again && quota.take_for(User(0)).is_ok())
}

fn users_have_a_part() -> Result<bool> {
    let quota = Quota::new(16)?;
    let (first, second) = (quota.take_for(User(1))?, quota.take_for(User(1))?);
    let full = is_full(&quota, 1);
    let other = quota.take_for(User(2))?;
    drop(first);
    let third = quota.take_for(User(1))?;
    let again = is_full(&quota, 1);
    drop((second, third, other));
    // All that a user had has gone, and the user is as any other one.
    let new = [quota.take_for(User(1))?, quota.take_for(User(1))?];
    let refused = is_full(&quota, 1);
    drop(new);
    Ok(full && again && refused)
}
