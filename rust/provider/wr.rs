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

mod operation;
mod sg_list;

use crate::user::rings::RequestRing;
use kernel::prelude::*;
use operation::operation;
pub use operation::{
    Atomic,
    Operation, //
};
pub(crate) use sg_list::ListOwner;
pub use sg_list::{
    LocalPieces,
    Run,
    SgList, //
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
    /// The peer did not allow access to its memory.
    RemoteAccess,
    /// The peer found the request not valid, or had no Receive for it.
    RemoteInvalidRequest,
    /// The peer could not carry it out.
    RemoteOperation,
}

impl Status {
    pub(crate) fn code(self) -> cbindings::ib_wc_status {
        match self {
            Self::Success => cbindings::ib_wc_status_IB_WC_SUCCESS,
            Self::Flushed => cbindings::ib_wc_status_IB_WC_WR_FLUSH_ERR,
            Self::Failed => cbindings::ib_wc_status_IB_WC_LOC_PROT_ERR,
            Self::TooLong => cbindings::ib_wc_status_IB_WC_LOC_LEN_ERR,
            Self::Invalid => cbindings::ib_wc_status_IB_WC_LOC_QP_OP_ERR,
            Self::RemoteAccess => cbindings::ib_wc_status_IB_WC_REM_ACCESS_ERR,
            Self::RemoteInvalidRequest => cbindings::ib_wc_status_IB_WC_REM_INV_REQ_ERR,
            Self::RemoteOperation => cbindings::ib_wc_status_IB_WC_REM_OP_ERR,
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
            Self::RemoteAccess => cqe::Status::RemoteAccess,
            Self::RemoteInvalidRequest => cqe::Status::RemoteInvalidRequest,
            // The library has no other number for it.
            Self::RemoteOperation => cqe::Status::General,
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

/// A request of a send queue.
pub struct SendRequest {
    pub(crate) id: u64,
    pub(crate) owner: usize,
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
    pub(crate) owner: usize,
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
    /// They are of a receive queue.
    const IS_RECEIVE: bool;

    /// Creates an empty request of a queue pair, or of a shared receive queue, with room for that
    /// many SGEs. Sleeps.
    fn new(owner: usize, entries: usize, list_owner: ListOwner) -> Result<Self>;

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

    /// Returns the id and the opcode, which is 0 for a Receive.
    ///
    /// # Safety
    ///
    /// `raw` is valid.
    unsafe fn id_and_opcode(raw: *const Self::Raw) -> (u64, u32);

    /// Returns the next one of the chain.
    ///
    /// # Safety
    ///
    /// `raw` is valid.
    unsafe fn next(raw: *const Self::Raw) -> *const Self::Raw;
}

impl Request for SendRequest {
    type Raw = cbindings::ib_send_wr;

    type Copy = [u64; Sqe::WORDS];

    const IS_RECEIVE: bool = false;

    fn new(owner: usize, entries: usize, list_owner: ListOwner) -> Result<Self> {
        let inline = match list_owner {
            ListOwner::Kernel => 0,
            ListOwner::Process => Inline::MAX_LEN,
        };
        Ok(Self {
            id: 0,
            owner,
            signalled: false,
            solicited: false,
            fence: false,
            operation: Operation::Invalidate(0),
            sg_list: SgList::new(entries, inline, list_owner)?,
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

    unsafe fn id_and_opcode(raw: *const Self::Raw) -> (u64, u32) {
        // SAFETY: The caller promises that `raw` is valid. Both members of the union have 64 bits.
        unsafe { ((*raw).__bindgen_anon_1.wr_id, (*raw).opcode) }
    }

    unsafe fn next(raw: *const Self::Raw) -> *const Self::Raw {
        // SAFETY: The caller promises that `raw` is valid.
        unsafe { (*raw).next }
    }
}

impl Request for ReceiveRequest {
    type Raw = cbindings::ib_recv_wr;

    type Copy = [u64; Rqe::WORDS];

    const IS_RECEIVE: bool = true;

    fn new(owner: usize, entries: usize, list_owner: ListOwner) -> Result<Self> {
        Ok(Self {
            id: 0,
            owner,
            sg_list: SgList::new(entries, 0, list_owner)?,
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

    unsafe fn id_and_opcode(raw: *const Self::Raw) -> (u64, u32) {
        // SAFETY: The caller promises that `raw` is valid. Both members of the union have 64 bits.
        unsafe { ((*raw).__bindgen_anon_1.wr_id, 0) }
    }

    unsafe fn next(raw: *const Self::Raw) -> *const Self::Raw {
        // SAFETY: The caller promises that `raw` is valid.
        unsafe { (*raw).next }
    }
}
