// SPDX-License-Identifier: GPL-2.0

//! What trace events and the log name things by. The numbers are those that `rdma resource` and the events of other
//! subsystems show.

use core::ffi::CStr;
use kernel::ffi::c_int;

/// A message or transfer of a connection.
#[derive(Clone, Copy)]
pub struct CompletionId {
    /// The completion queue.
    pub queue: u32,
    /// Counts the buffers of a protection domain.
    pub completion: c_int,
}

/// An RPC.
#[derive(Clone, Copy)]
pub struct TaskId {
    /// `tk_pid`.
    pub task: u32,
    /// `cl_clid`; all bits are set if the task has no client.
    pub client: u32,
}

/// A memory region.
#[derive(Clone, Copy)]
pub struct RegionInfo {
    /// Which region of its device.
    pub id: u32,
    /// How many scatter elements are mapped.
    pub entries: usize,
    /// Its key.
    pub rkey: u32,
    /// Bytes.
    pub len: u32,
    /// Where it starts for the peer.
    pub iova: u64,
    /// A `DMA_*`.
    pub direction: u32,
}

/// The far end of a connection as text.
#[derive(Clone, Copy)]
pub struct Peer<'a> {
    /// Its address.
    pub addr: &'a CStr,
    /// Its port.
    pub port: &'a CStr,
}
