// SPDX-License-Identifier: GPL-2.0

//! The operation of a send request, and how it is converted from the structures of C.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::Status;
use crate::region::{
    AccessFlags,
    IbMr,
    Kind,
    Region,
    Registration,
    LOCAL_DMA_LKEY, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

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

/// Converts what a send request is to do. `EINVAL` if this crate has no such operation.
///
/// # Safety
///
/// `raw` is valid, as large as its opcode says, and has as many SGEs as it says. A region that it
/// names is live.
pub(super) unsafe fn operation(raw: *const cbindings::ib_send_wr) -> Result<Operation> {
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
    pub(super) const LEN: u32 = u64::BITS / 8;
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
    let remote_atomic = flag(cbindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC);
    // An aligned offset would have any address.
    if remote_atomic && region.kind() == Kind::Elements {
        return Err(EINVAL);
    }
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
            remote_atomic,
            mapping,
        },
    })
}
