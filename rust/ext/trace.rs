// SPDX-License-Identifier: GPL-2.0

//! Identifiers in trace events and the log. The numbers are those that `rdma resource` and the
//! events of other subsystems show.

use kernel::prelude::*;

/// The identifier of a message or transfer of a connection.
#[derive(Clone, Copy)]
pub struct CompletionId {
    /// The number of the completion queue.
    pub queue: u32,
    /// The number of the buffer in its protection domain.
    pub completion: c_int,
}

/// The identifier of an RPC.
#[derive(Clone, Copy)]
pub struct TaskId {
    /// `tk_pid`.
    pub task: u32,
    /// `cl_clid`; all bits are set if the task has no client.
    pub client: u32,
}

/// The description of a memory region.
#[derive(Clone, Copy)]
pub struct RegionInfo {
    /// The number of the region at its device.
    pub id: u32,
    /// The number of mapped scatter elements.
    pub entries: usize,
    /// The remote key.
    pub rkey: u32,
    /// The length in bytes.
    pub len: u32,
    /// The address at which it starts for the peer.
    pub iova: u64,
    /// The direction, a `DMA_*`.
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
