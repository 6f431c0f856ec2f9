// SPDX-License-Identifier: GPL-2.0

//! A consumer without a device: it posts Sends, Receives and atomic operations, and registers
//! memory that a peer may read, write or change by atomic operations.

use super::QP;
use crate::{
    cq::CompletionQueue,
    driver::Regions,
    queue::{
        QpEvent,
        QueueSizes,
        Queues, //
    },
    region::{
        AccessFlags,
        Kind,
        ProtectionDomain,
        Region,
        Registration,
        LOCAL_DMA_LKEY, //
    },
    srq::{
        SharedReceives,
        SharedSizes, //
    },
    wr::Status, //
};
use core::{
    cell::UnsafeCell,
    ptr::{
        null_mut,
        NonNull, //
    },
    sync::atomic::{
        AtomicU32,
        Ordering, //
    }, //
};
use ext::borrowed::Piece;
use iwtrace::QpId;
use kernel::{
    alloc::KVVec,
    ffi,
    prelude::*,
    sync::Arc, //
};

/// The greatest length of a Send in octets.
pub const MAX_LEN: u32 = 16_384;

/// The size of a page of a region in octets.
const PAGE: usize = 4_096;

/// The low eight bits of STags.
const KEY: u8 = 7;

// CAST: A small number.
/// The memory of all Sends, which is read only.
static OCTETS: [u8; MAX_LEN as usize] = [0x5a; MAX_LEN as usize];

/// A consumer.
pub struct Consumer {
    /// The queues that it posts to.
    pub queues: Arc<Queues>,
    cq: Arc<CompletionQueue>,
    shared: Option<Arc<SharedReceives>>,
    // A count of eight bits for each type of event.
    events: KBox<AtomicU32>,
    _ib_qp: KBox<cbindings::ib_qp>,
}

/// Counts an event of a queue pair.
///
/// # Safety
///
/// For [`Queues::report`] only, with the counts of a [`Consumer`] as context.
unsafe extern "C" fn count_event(event: *mut cbindings::ib_event, context: *mut ffi::c_void) {
    // SAFETY: The caller passes an event, and the context of the queue pair, whose counts stay
    // until `detach`.
    let (event, counts) = unsafe { ((*event).event, &*context.cast::<AtomicU32>()) };
    counts.fetch_add(1 << (8 * event.min(3)), Ordering::Relaxed);
}

impl Consumer {
    /// The protection domain of everything that it has.
    pub const PD: ProtectionDomain = ProtectionDomain(1);

    /// Creates a consumer. Sleeps.
    pub fn new() -> Result<Self> {
        Self::with(None)
    }

    /// Creates a consumer whose Receives are in a shared queue, which has room for eight. Sleeps.
    pub fn sharing() -> Result<Self> {
        let sizes = SharedSizes {
            receives: 8,
            max_sge: 1,
        };
        Self::with(Some(SharedReceives::new(QP + 1, Self::PD, sizes, None)?))
    }

    fn with(shared: Option<Arc<SharedReceives>>) -> Result<Self> {
        let cq = CompletionQueue::new(NonNull::dangling(), 16)?;
        cq.detach();
        let queue_sizes = QueueSizes {
            sends: 8,
            receives: match shared {
                None => 8,
                Some(_) => 0,
            },
            send_sge: 1,
            receive_sge: 1,
        };
        let all = shared.clone();
        let queues = Queues::new(QP, queue_sizes, cq.clone(), cq.clone(), true, None, all)?;
        let events = KBox::new(AtomicU32::new(0), GFP_KERNEL)?;
        let mut ib_qp = KBox::new(cbindings::ib_qp::default(), GFP_KERNEL)?;
        ib_qp.event_handler = Some(count_event);
        ib_qp.qp_context = core::ptr::from_ref(&*events).cast_mut().cast();
        // SAFETY: `drop` calls `detach`.
        unsafe { queues.attach(NonNull::from(&mut *ib_qp), QpId::default()) };
        Ok(Self {
            queues,
            cq,
            shared,
            events,
            _ib_qp: ib_qp,
        })
    }

    /// Returns the event that was reported. [`None`] if it was none or more than one.
    pub fn event(&self) -> Option<QpEvent> {
        let one = |event: cbindings::ib_event_type| 1 << (8 * event);
        match self.events.load(Ordering::Relaxed) {
            all if all == one(cbindings::ib_event_type_IB_EVENT_QP_FATAL) => Some(QpEvent::Fatal),
            all if all == one(cbindings::ib_event_type_IB_EVENT_QP_REQ_ERR) => {
                Some(QpEvent::RequestError)
            }
            all if all == one(cbindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR) => {
                Some(QpEvent::AccessError)
            }
            _ => None,
        }
    }

    /// Posts a Send of `length` octets.
    pub fn send(&self, id: u64, length: u32) -> Result {
        if length > MAX_LEN {
            return Err(EINVAL);
        }
        let mut memory = cbindings::ib_sge {
            addr: u64::try_from(OCTETS.as_ptr().expose_provenance())?,
            length,
            lkey: LOCAL_DMA_LKEY,
        };
        let mut send = cbindings::ib_send_wr {
            opcode: cbindings::ib_wr_opcode_IB_WR_SEND,
            sg_list: &mut memory,
            num_sge: 1,
            ..Default::default()
        };
        send.__bindgen_anon_1.wr_id = id;
        // SAFETY: It is a chain of one complete request. Its memory is static, and only read.
        unsafe { self.queues.post_send(&send, null_mut()) }
    }

    /// Posts a Write of no octets, with Immediate Data, to an STag that need not be there.
    pub fn write_immediate(&self, id: u64, data: [u8; 4]) -> Result {
        let mut write = cbindings::ib_rdma_wr::default();
        write.wr.opcode = cbindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM;
        write.wr.ex.imm_data = u32::from_ne_bytes(data);
        write.wr.__bindgen_anon_1.wr_id = id;
        // SAFETY: It is a chain of one complete request, which has no memory.
        unsafe { self.queues.post_send((&raw const write).cast(), null_mut()) }
    }

    /// Posts a Read of four octets, which go to offset 0 of the region `sink`.
    pub fn read(&self, id: u64, stag: u32, sink: u32) -> Result {
        let mut memory = cbindings::ib_sge {
            addr: 0,
            length: 4,
            lkey: sink,
        };
        let mut read = cbindings::ib_rdma_wr::default();
        read.wr.opcode = cbindings::ib_wr_opcode_IB_WR_RDMA_READ;
        read.wr.__bindgen_anon_1.wr_id = id;
        read.wr.sg_list = &raw mut memory;
        read.wr.num_sge = 1;
        read.rkey = stag;
        // SAFETY: It is a chain of one complete request. Its memory is of a region.
        unsafe { self.queues.post_send((&raw const read).cast(), null_mut()) }
    }

    /// Posts a FetchAdd whose result goes to offset 0 of the region `result`.
    pub fn fetch_add(&self, id: u64, stag: u32, offset: u64, add: u64, result: u32) -> Result {
        let mut memory = cbindings::ib_sge {
            addr: 0,
            length: 8,
            lkey: result,
        };
        let mut atomic = cbindings::ib_atomic_wr::default();
        atomic.wr.opcode = cbindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD;
        atomic.wr.__bindgen_anon_1.wr_id = id;
        atomic.wr.sg_list = &raw mut memory;
        atomic.wr.num_sge = 1;
        (atomic.rkey, atomic.remote_addr, atomic.compare_add) = (stag, offset, add);
        // SAFETY: It is a chain of one complete request. Its memory is of a region.
        unsafe {
            self.queues
                .post_send((&raw const atomic).cast(), null_mut())
        }
    }

    /// Posts a Receive without memory.
    pub fn receive(&self, id: u64) -> Result {
        let mut receive = cbindings::ib_recv_wr::default();
        receive.__bindgen_anon_1.wr_id = id;
        // SAFETY: It is a chain of one complete request, which has no memory.
        unsafe {
            match &self.shared {
                None => self.queues.post_receive(&receive, null_mut()),
                Some(shared) => shared.post(&receive, null_mut()),
            }
        }
    }

    /// Takes all Receives that are left in the shared queue, and returns their number.
    pub fn shared_left(&self) -> usize {
        let left = core::iter::from_fn(|| self.shared.as_ref()?.take(1));
        left.count()
    }

    /// Returns the next completion, if its request could not be carried out: the id of that.
    pub fn failed(&self) -> Option<u64> {
        let entry = self.cq.pop()?;
        (entry.status == Status::Failed).then_some(entry.id)
    }

    /// Returns the next completion, if it is one of Immediate Data: the id of its request, the data
    /// and the length of the Write before.
    pub fn immediate(&self) -> Option<(u64, [u8; 4], u32)> {
        let entry = self.cq.pop()?;
        Some((entry.id, entry.immediate?, entry.length))
    }

    /// Returns the next completion: the id of its request, and whether it succeeded.
    pub fn completion(&self) -> Option<(u64, bool)> {
        let entry = self.cq.pop()?;
        Some((entry.id, entry.status == Status::Success))
    }

    /// Registers so many pages, at offset 0, for the peer to read. Returns the STag. Sleeps.
    pub fn register(regions: &Regions, pages: usize) -> Result<u32> {
        let page = u64::try_from(OCTETS.as_ptr().expose_provenance())?;
        let pages = KVVec::from_elem(page, pages, GFP_KERNEL)?;
        let access = AccessFlags {
            remote_read: true,
            remote_write: false,
        };
        let length = pages.len().checked_mul(PAGE).ok_or(EINVAL)?;
        Ok(register(regions, &pages, length, access)?.1)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.queues.detach();
    }
}

/// Registers `length` octets of these pages, at offset 0. Returns the region and its STag. Sleeps.
fn register(
    regions: &Regions,
    pages: &[u64],
    length: usize,
    access: AccessFlags,
) -> Result<(Arc<Region>, u32)> {
    let region = Region::new(Consumer::PD, Kind::Pages, pages.len())?;
    let index = regions.insert(|index| {
        region.set_index(index);
        region.clone()
    })?;
    region.map_pages(pages)?;
    region.register(Registration {
        key: KEY,
        base: 0,
        length: u64::try_from(length)?,
        access,
        local_write: true,
        remote_invalidate: true,
        // Memory that a peer may only read is shared.
        remote_atomic: access.remote_write,
        mapping: region.mapping(),
    })?;
    Ok((region, index << 8 | u32::from(KEY)))
}

/// The length of a [`Target`] in octets.
pub const TARGET_LEN: usize = 64;

/// Memory that the peer may write and change, at offset 0, as long as this is there.
///
/// # Invariants
///
/// Nobody has a reference to the octets.
pub struct Target {
    region: Arc<Region>,
    stag: u32,
    octets: KBox<UnsafeCell<[u8; TARGET_LEN]>>,
}

impl Target {
    /// Registers octets that are 0. Sleeps.
    pub fn new(regions: &Regions) -> Result<Self> {
        let octets = KBox::new(UnsafeCell::new([0; TARGET_LEN]), GFP_KERNEL)?;
        let address = u64::try_from(octets.get().expose_provenance())?;
        let access = AccessFlags {
            remote_read: false,
            remote_write: true,
        };
        let (region, stag) = register(regions, &[address], TARGET_LEN, access)?;
        // INVARIANT: No reference was created.
        Ok(Self {
            region,
            stag,
            octets,
        })
    }

    /// Returns the STag.
    pub fn stag(&self) -> u32 {
        self.stag
    }

    /// Takes its number away, as the first half of a deregistration does.
    pub fn lose_number(&self, regions: &Regions) {
        regions.remove(self.region.retire());
    }

    /// Returns the octets as they are now.
    pub fn octets(&self) -> Result<[u8; TARGET_LEN]> {
        let mut octets = [0; TARGET_LEN];
        let address = NonNull::new(self.octets.get().cast()).ok_or(EINVAL)?;
        // SAFETY: The box has so many octets, to which nobody has a reference by the type
        // invariants, and stays as long as `self`.
        unsafe { Piece::new(address, u32::try_from(TARGET_LEN)?) }.copy_to(&mut octets)?;
        Ok(octets)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // The region is invalidated before the octets are freed.
        self.region.invalidate();
    }
}
