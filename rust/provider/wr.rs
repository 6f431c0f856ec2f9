// SPDX-License-Identifier: GPL-2.0

//! Work requests of a consumer or a process, as values, until they complete.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! A consumer keeps the memory of a request allocated until it has the request's completion. So the
//! memory can be accessed through the request only ([`SgList`]), and completing takes the request.
//!
//! A process names memory by regions only, and a request of it that is not valid completes in its
//! turn ([`Operation::Refused`]).

use crate::{
    region::{
        AccessFlags,
        IbMr,
        Region,
        Registration,
        LOCAL_DMA_LKEY, //
    },
    user::rings::RequestRing, //
};
use core::ptr::NonNull;
use ext::borrowed::Piece;
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::Arc, //
};
use uabi::{
    cqe,
    rqe::Rqe,
    sg_list::Inline,
    sqe::{
        self,
        Payload,
        Sqe, //
    }, //
};

/// A part of the memory of a request.
pub enum Run<'a> {
    /// Memory of this machine.
    Local(Piece<'a>),
    /// Octets of the request itself, which are sent.
    Inline(&'a [u8]),
    /// Octets of a region, which the consumer has registered for this.
    Registered {
        /// The STag.
        stag: u32,
        /// The offset, as the registration has it.
        offset: u64,
        /// The length in octets.
        length: u32,
    },
}

/// The memory of a request: the memory of its list of SGEs.
pub struct SgList {
    // INVARIANT: Each entry of `LOCAL_DMA_LKEY` names memory that the consumer keeps until the
    // request completes.
    // Those of a process name regions, whatever their keys are.
    list: KVec<cbindings::ib_sge>,
    // Octets of a process, instead of a list.
    inline: KVec<u8>,
    length: u32,
    owner: ListOwner,
}

/// The one whose list it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListOwner {
    /// A consumer in the kernel, which may name all memory.
    Kernel,
    /// A process.
    Process,
}

impl ListOwner {
    /// Returns how memory for its requests is allocated.
    pub(crate) fn flags(self) -> Flags {
        match self {
            Self::Kernel => GFP_KERNEL,
            Self::Process => GFP_KERNEL_ACCOUNT,
        }
    }
}

impl SgList {
    /// Allocates a list for that many SGEs, and octets of a process. Sleeps.
    pub(crate) fn new(entries: usize, inline: usize, owner: ListOwner) -> Result<Self> {
        Ok(Self {
            list: KVec::with_capacity(entries, owner.flags())?,
            inline: KVec::with_capacity(inline, owner.flags())?,
            length: 0,
            owner,
        })
    }

    fn clear(&mut self) {
        self.list.clear();
        self.inline.clear();
        self.length = 0;
    }

    /// Takes over a list of a process. There is room for each list that was decoded.
    fn fill_from(&mut self, list: &uabi::sg_list::SgList) {
        self.clear();
        for sge in list.as_slice() {
            let entry = cbindings::ib_sge {
                addr: sge.address,
                length: sge.length,
                lkey: sge.lkey,
            };
            // INVARIANT: The key of an entry of a process has no meaning but that of a region.
            if self.list.push_within_capacity(entry).is_err() {
                return;
            }
            self.length = self.length.saturating_add(sge.length);
        }
    }

    /// Takes over octets of a process. There is room for all that were decoded.
    fn fill_inline(&mut self, octets: &Inline) {
        self.clear();
        for octet in octets.as_slice() {
            if self.inline.push_within_capacity(*octet).is_err() {
                return;
            }
            self.length = self.length.saturating_add(1);
        }
    }

    /// Takes over a list. `EINVAL` if it has too many entries. Those of a region are looked up when
    /// they are used: its registration may be ahead in the queue.
    ///
    /// # Safety
    ///
    /// The list has that many entries, and their memory stays allocated until the request is
    /// completed.
    unsafe fn fill(&mut self, list: *const cbindings::ib_sge, entries: i32) -> Result {
        self.clear();
        for at in 0..usize::try_from(entries).map_err(|_| EINVAL)? {
            // SAFETY: The caller promises that many entries.
            let entry = unsafe { *list.add(at) };
            self.length = self.length.checked_add(entry.length).ok_or(EINVAL)?;
            // INVARIANT: The caller promises it.
            self.list.push_within_capacity(entry).map_err(|_| EINVAL)?;
        }
        Ok(())
    }

    /// Returns the length in octets.
    #[inline]
    pub fn len(&self) -> u32 {
        self.length
    }

    /// Returns the number of SGEs.
    #[inline]
    pub(crate) fn entries(&self) -> usize {
        self.list.len()
    }

    /// Says whether there are no octets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Calls `f` with each part of `length` octets from `offset`. `EINVAL` if there are fewer.
    pub fn runs(&self, offset: u32, length: u32, mut f: impl FnMut(Run<'_>) -> Result) -> Result {
        if !self.inline.is_empty() {
            let from = usize::try_from(offset)?;
            let to = from.checked_add(usize::try_from(length)?).ok_or(EINVAL)?;
            return f(Run::Inline(self.inline.get(from..to).ok_or(EINVAL)?));
        }
        let (mut skip, mut left) = (offset, length);
        for entry in &self.list {
            if left == 0 {
                break;
            }
            if skip >= entry.length {
                skip -= entry.length;
                continue;
            }
            let here = left.min(entry.length - skip);
            let address = entry.addr.checked_add(skip.into()).ok_or(EINVAL)?;
            if entry.lkey == LOCAL_DMA_LKEY && self.owner == ListOwner::Kernel {
                let address = core::ptr::with_exposed_provenance_mut(usize::try_from(address)?);
                let address = NonNull::new(address).ok_or(EINVAL)?;
                // SAFETY: By the invariant of `list` the consumer keeps the memory until the
                // request is completed, which takes `self`. On a device without DMA of its own, DMA
                // addresses are memory addresses.
                f(Run::Local(unsafe { Piece::new(address, here) }))?;
            } else {
                f(Run::Registered {
                    stag: entry.lkey,
                    offset: address,
                    length: here,
                })?;
            }
            skip = 0;
            left -= here;
        }
        match left {
            0 => Ok(()),
            _ => Err(EINVAL),
        }
    }
}

/// The status of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The request was carried out.
    Success,
    /// The queue pair ended before.
    Flushed,
    /// This end could not access the memory of the request, or carry it out.
    Failed,
    /// The message was longer than the Receive.
    TooLong,
    /// The request is not valid.
    Invalid,
}

impl Status {
    pub(crate) fn code(self) -> cbindings::ib_wc_status {
        match self {
            Self::Success => cbindings::ib_wc_status_IB_WC_SUCCESS,
            Self::Flushed => cbindings::ib_wc_status_IB_WC_WR_FLUSH_ERR,
            Self::Failed => cbindings::ib_wc_status_IB_WC_LOC_PROT_ERR,
            Self::TooLong => cbindings::ib_wc_status_IB_WC_LOC_LEN_ERR,
            Self::Invalid => cbindings::ib_wc_status_IB_WC_LOC_QP_OP_ERR,
        }
    }

    /// Returns the status as a process sees it.
    pub(crate) fn of_process(self) -> cqe::Status {
        match self {
            Self::Success => cqe::Status::Success,
            Self::Flushed => cqe::Status::Flushed,
            Self::Failed => cqe::Status::LocalProtection,
            Self::TooLong => cqe::Status::LocalLength,
            Self::Invalid => cqe::Status::LocalQpOperation,
        }
    }

    /// Returns the status of a request that was refused.
    fn of_refusal(refusal: uabi::sg_list::Refusal) -> Self {
        match refusal.status() {
            cqe::Status::LocalProtection => Self::Failed,
            _ => Self::Invalid,
        }
    }
}

/// The operation of a send request.
pub enum Operation {
    /// Sends the memory.
    Send {
        /// The STag of the peer to invalidate.
        invalidate: Option<u32>,
    },
    /// Writes the memory to the peer's.
    Write {
        /// The STag of the peer.
        stag: u32,
        /// The remote address (a Tagged Offset).
        offset: u64,
        /// Data that go to a Receive of the peer afterwards.
        immediate: Option<[u8; 4]>,
    },
    /// An atomic operation on memory of the peer. The original value goes to the memory of the
    /// request, which has eight octets, as a number of this machine.
    Atomic {
        /// The STag of the peer.
        stag: u32,
        /// The remote address (a Tagged Offset).
        offset: u64,
        /// The operation.
        operation: Atomic,
        /// The consumer has said what the masks are.
        masked: bool,
    },
    /// Reads from the peer.
    Read {
        /// The STag of the peer.
        stag: u32,
        /// The remote address (a Tagged Offset).
        offset: u64,
        /// The STag of this end's memory.
        sink_stag: u32,
        /// The local address (a Tagged Offset).
        sink_offset: u64,
        /// The length in octets.
        length: u32,
        /// `sink_stag` is invalidated afterwards.
        invalidate: bool,
    },
    /// Registers memory.
    Register {
        /// The region.
        region: Arc<Region>,
        /// The registration.
        registration: Registration,
    },
    /// Invalidates this STag.
    Invalidate(u32),
    /// Nothing: it fails in its turn, with this status.
    Refused(Status),
}

/// An atomic operation, as RFC 7306 has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// Adds.
    FetchAdd {
        /// The summand.
        add: u64,
        /// The highest bits of fields.
        mask: u64,
    },
    /// Compares and swaps.
    CmpSwap {
        /// The new bits.
        swap: u64,
        /// The bits that are replaced.
        swap_mask: u64,
        /// The expected bits.
        compare: u64,
        /// The bits that are compared.
        compare_mask: u64,
    },
}

/// A request of a send queue.
pub struct SendRequest {
    pub(crate) id: u64,
    pub(crate) owner_qp: usize,
    pub(crate) signalled: bool,
    /// With Solicited Event.
    pub solicited: bool,
    /// It waits until all earlier Reads and atomic operations are done.
    pub fence: bool,
    /// The operation.
    pub operation: Operation,
    /// The memory of a Send, a Write or an atomic operation.
    pub sg_list: SgList,
}

/// A request of a receive queue.
pub struct ReceiveRequest {
    pub(crate) id: u64,
    pub(crate) owner_qp: usize,
    /// The memory for the message.
    pub sg_list: SgList,
    refused: Option<Status>,
}

impl ReceiveRequest {
    /// Returns the number of octets that a message may have. One that was refused takes any
    /// message, which then finds out.
    pub fn capacity(&self) -> u32 {
        match self.refused {
            None => self.sg_list.len(),
            Some(_) => u32::MAX,
        }
    }

    /// Returns the status that it completes with if it was refused: it takes no message.
    #[inline]
    pub fn refused(&self) -> Option<Status> {
        self.refused
    }
}

/// The common part of both kinds of requests.
pub(crate) trait Request: Sized + Send {
    /// The structure of C.
    type Raw;
    /// A copy of a ring's entry.
    type Copy;

    /// Creates an empty request of a queue pair, with room for that many SGEs. Sleeps.
    fn new(owner_qp: usize, entries: usize, owner: ListOwner) -> Result<Self>;

    /// Takes a copy of the next entry of a ring, if there is one. May be called in any context.
    fn copy(ring: &mut RequestRing) -> Option<Self::Copy>;

    /// Takes over a request that a process posted. May be called in any context.
    fn decode(&mut self, copy: &Self::Copy);

    /// Takes over a request that a consumer posts.
    ///
    /// # Safety
    ///
    /// `raw` is valid, as large as its opcode says, and has as many SGEs as it says. Their memory
    /// stays allocated until the request is completed. A region that it registers is live.
    unsafe fn fill(&mut self, raw: *const Self::Raw, signal_all: bool) -> Result;

    /// Returns the next one of the chain.
    ///
    /// # Safety
    ///
    /// `raw` is valid.
    unsafe fn next(raw: *const Self::Raw) -> *const Self::Raw;
}

// SAFETY: The list has addresses of memory that any task may use.
unsafe impl Send for SgList {}

impl Request for SendRequest {
    type Raw = cbindings::ib_send_wr;

    type Copy = [u64; Sqe::WORDS];

    fn new(owner_qp: usize, entries: usize, owner: ListOwner) -> Result<Self> {
        let inline = match owner {
            ListOwner::Kernel => 0,
            ListOwner::Process => Inline::MAX_LEN,
        };
        Ok(Self {
            id: 0,
            owner_qp,
            signalled: false,
            solicited: false,
            fence: false,
            operation: Operation::Invalidate(0),
            sg_list: SgList::new(entries, inline, owner)?,
        })
    }

    fn copy(ring: &mut RequestRing) -> Option<Self::Copy> {
        ring.take()
    }

    fn decode(&mut self, copy: &Self::Copy) {
        let entry = Sqe::decode(copy);
        self.id = entry.id;
        self.signalled = entry.signalled;
        self.solicited = entry.solicited;
        self.fence = entry.fence;
        self.sg_list.clear();
        let mut fill = |payload: &Payload| match payload {
            Payload::List(list) => self.sg_list.fill_from(list),
            Payload::Inline(inline) => self.sg_list.fill_inline(inline),
        };
        self.operation = match &entry.operation {
            Err(refusal) => Operation::Refused(Status::of_refusal(*refusal)),
            Ok(sqe::Operation::Send {
                invalidate,
                payload,
            }) => {
                fill(payload);
                Operation::Send {
                    invalidate: *invalidate,
                }
            }
            Ok(sqe::Operation::Write {
                stag,
                offset,
                payload,
            }) => {
                fill(payload);
                Operation::Write {
                    stag: *stag,
                    offset: *offset,
                    // The library has no requests with Immediate Data.
                    immediate: None,
                }
            }
            Ok(sqe::Operation::Read {
                stag,
                offset,
                sink,
                invalidate,
            }) => Operation::Read {
                stag: *stag,
                offset: *offset,
                sink_stag: sink.lkey,
                sink_offset: sink.address,
                length: sink.length,
                invalidate: *invalidate,
            },
        };
    }

    unsafe fn fill(&mut self, raw: *const Self::Raw, signal_all: bool) -> Result {
        // SAFETY: The caller promises that `raw` is valid.
        let wr = unsafe { &*raw };
        // CAST: A set of flags.
        let flag = |flag| wr.send_flags & flag != 0;
        if flag(cbindings::ib_send_flags_IB_SEND_INLINE) {
            return Err(EINVAL);
        }
        // SAFETY: The caller promises a structure of the opcode, with its SGEs and its region.
        self.operation = unsafe { operation(raw)? };
        let entries = match self.operation {
            Operation::Send { .. } | Operation::Write { .. } | Operation::Atomic { .. } => {
                wr.num_sge
            }
            // The list of a Read names the sink.
            Operation::Read { .. }
            | Operation::Register { .. }
            | Operation::Invalidate(_)
            | Operation::Refused(_) => 0,
        };
        // SAFETY: The caller promises a valid list, whose memory stays allocated.
        unsafe { self.sg_list.fill(wr.sg_list, entries)? };
        if matches!(self.operation, Operation::Atomic { .. }) && self.sg_list.len() != Atomic::LEN {
            return Err(EINVAL);
        }
        // SAFETY: Both members of the union have 64 bits.
        self.id = unsafe { wr.__bindgen_anon_1.wr_id };
        self.signalled = signal_all || flag(cbindings::ib_send_flags_IB_SEND_SIGNALED);
        self.solicited = flag(cbindings::ib_send_flags_IB_SEND_SOLICITED);
        self.fence = flag(cbindings::ib_send_flags_IB_SEND_FENCE);
        Ok(())
    }

    unsafe fn next(raw: *const Self::Raw) -> *const Self::Raw {
        // SAFETY: The caller promises that `raw` is valid.
        unsafe { (*raw).next }
    }
}

/// Converts what a send request is to do. `EINVAL` if this crate has no such operation.
///
/// # Safety
///
/// `raw` is valid, as large as its opcode says, and has as many SGEs as it says. A region that it
/// names is live.
unsafe fn operation(raw: *const cbindings::ib_send_wr) -> Result<Operation> {
    // SAFETY: The caller promises that `raw` is valid.
    let wr = unsafe { &*raw };
    // SAFETY: All members of the union are 32-bit numbers.
    let invalidate = unsafe { wr.ex.invalidate_rkey };
    Ok(match wr.opcode {
        cbindings::ib_wr_opcode_IB_WR_SEND => Operation::Send { invalidate: None },
        cbindings::ib_wr_opcode_IB_WR_SEND_WITH_INV => Operation::Send {
            invalidate: Some(invalidate),
        },
        cbindings::ib_wr_opcode_IB_WR_RDMA_WRITE => {
            // SAFETY: The caller promises a structure of the opcode: an `ib_rdma_wr`.
            let rdma = unsafe { &*raw.cast::<cbindings::ib_rdma_wr>() };
            Operation::Write {
                stag: rdma.rkey,
                offset: rdma.remote_addr,
                immediate: None,
            }
        }
        cbindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM => {
            // SAFETY: The caller promises a structure of the opcode: an `ib_rdma_wr`. All members
            // of the union are 32-bit numbers.
            let (rdma, data) = unsafe { (&*raw.cast::<cbindings::ib_rdma_wr>(), wr.ex.imm_data) };
            Operation::Write {
                stag: rdma.rkey,
                offset: rdma.remote_addr,
                // The consumer has it in the order of the wire.
                immediate: Some(data.to_ne_bytes()),
            }
        }
        // A Send with Immediate Data is none of these: for RFC 7306 they are two messages, with a
        // Receive each.
        cbindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP
        | cbindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD
        | cbindings::ib_wr_opcode_IB_WR_MASKED_ATOMIC_CMP_AND_SWP
        | cbindings::ib_wr_opcode_IB_WR_MASKED_ATOMIC_FETCH_AND_ADD => {
            // SAFETY: The caller promises a structure of the opcode: an `ib_atomic_wr`.
            atomic(unsafe { &*raw.cast() })
        }
        cbindings::ib_wr_opcode_IB_WR_RDMA_READ => {
            // SAFETY: The caller promises a structure of the opcode: an `ib_rdma_wr` with its SGEs.
            unsafe { read(&*raw.cast(), false)? }
        }
        cbindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV => {
            // SAFETY: The caller promises a structure of the opcode: an `ib_rdma_wr` with its SGEs.
            unsafe { read(&*raw.cast(), true)? }
        }
        cbindings::ib_wr_opcode_IB_WR_REG_MR => {
            // SAFETY: The caller promises a structure of the opcode: an `ib_reg_wr`, whose region
            // is live.
            unsafe { registration(&*raw.cast())? }
        }
        cbindings::ib_wr_opcode_IB_WR_LOCAL_INV => Operation::Invalidate(invalidate),
        _ => return Err(EINVAL),
    })
}

impl Atomic {
    /// The length of its result in octets.
    const LEN: u32 = u64::BITS / 8;
}

/// Converts an atomic operation.
fn atomic(wr: &cbindings::ib_atomic_wr) -> Operation {
    let masked = matches!(
        wr.wr.opcode,
        cbindings::ib_wr_opcode_IB_WR_MASKED_ATOMIC_CMP_AND_SWP
            | cbindings::ib_wr_opcode_IB_WR_MASKED_ATOMIC_FETCH_AND_ADD
    );
    let adds = matches!(
        wr.wr.opcode,
        cbindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD
            | cbindings::ib_wr_opcode_IB_WR_MASKED_ATOMIC_FETCH_AND_ADD
    );
    let operation = match adds {
        true => Atomic::FetchAdd {
            add: wr.compare_add,
            mask: if masked { wr.compare_add_mask } else { 0 },
        },
        false => Atomic::CmpSwap {
            swap: wr.swap,
            swap_mask: if masked { wr.swap_mask } else { u64::MAX },
            compare: wr.compare_add,
            compare_mask: if masked {
                wr.compare_add_mask
            } else {
                u64::MAX
            },
        },
    };
    Operation::Atomic {
        stag: wr.rkey,
        offset: wr.remote_addr,
        operation,
        masked,
    }
}

/// Converts a Read.
///
/// # Safety
///
/// It has as many SGEs as it says.
unsafe fn read(rdma: &cbindings::ib_rdma_wr, invalidate: bool) -> Result<Operation> {
    let sink = match rdma.wr.num_sge {
        0 => cbindings::ib_sge::default(),
        // SAFETY: The caller promises `num_sge` entries, which is one.
        1 => unsafe { *rdma.wr.sg_list },
        _ => return Err(EINVAL),
    };
    // A peer may place octets only in memory that has an STag.
    if sink.length > 0 && sink.lkey == LOCAL_DMA_LKEY {
        return Err(EINVAL);
    }
    Ok(Operation::Read {
        stag: rdma.rkey,
        offset: rdma.remote_addr,
        sink_stag: sink.lkey,
        sink_offset: sink.addr,
        length: sink.length,
        invalidate,
    })
}

/// Converts a REG_MR.
///
/// # Safety
///
/// The region is of a device of this crate, and live.
unsafe fn registration(wr: &cbindings::ib_reg_wr) -> Result<Operation> {
    // SAFETY: The caller promises that the region is live.
    let region = unsafe { IbMr::region_of(wr.mr) }.ok_or(EINVAL)?;
    // SAFETY: The caller promises that the region is live.
    let (base, length) = unsafe { ((*wr.mr).iova, (*wr.mr).length) };
    // CAST: A set of flags.
    let flag = |flag: u32| wr.access as u32 & flag != 0;
    if wr.key >> 8 != region.index() {
        return Err(EINVAL);
    }
    let [.., key] = wr.key.to_be_bytes();
    let mapping = region.mapping();
    Ok(Operation::Register {
        region,
        registration: Registration {
            key,
            base,
            length,
            access: AccessFlags {
                remote_read: flag(cbindings::ib_access_flags_IB_ACCESS_REMOTE_READ),
                remote_write: flag(cbindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE),
            },
            // Consumers register without it what is written for a Read.
            local_write: true,
            // It is a fast registration, and the consumer decides which queue pair uses it.
            remote_invalidate: true,
            remote_atomic: flag(cbindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC),
            mapping,
        },
    })
}

impl Request for ReceiveRequest {
    type Raw = cbindings::ib_recv_wr;

    type Copy = [u64; Rqe::WORDS];

    fn new(owner_qp: usize, entries: usize, owner: ListOwner) -> Result<Self> {
        Ok(Self {
            id: 0,
            owner_qp,
            sg_list: SgList::new(entries, 0, owner)?,
            refused: None,
        })
    }

    fn copy(ring: &mut RequestRing) -> Option<Self::Copy> {
        ring.take()
    }

    fn decode(&mut self, copy: &Self::Copy) {
        let entry = Rqe::decode(copy);
        self.id = entry.id;
        self.refused = None;
        match &entry.list {
            Ok(list) => self.sg_list.fill_from(list),
            Err(refusal) => {
                self.sg_list.clear();
                self.refused = Some(Status::of_refusal(*refusal));
            }
        }
    }

    unsafe fn fill(&mut self, raw: *const Self::Raw, _: bool) -> Result {
        // SAFETY: The caller promises that `raw` is valid.
        let wr = unsafe { &*raw };
        // SAFETY: The caller promises a valid list, whose memory stays allocated.
        unsafe { self.sg_list.fill(wr.sg_list, wr.num_sge)? };
        // SAFETY: Both members of the union have 64 bits.
        self.id = unsafe { wr.__bindgen_anon_1.wr_id };
        Ok(())
    }

    unsafe fn next(raw: *const Self::Raw) -> *const Self::Raw {
        // SAFETY: The caller promises that `raw` is valid.
        unsafe { (*raw).next }
    }
}
