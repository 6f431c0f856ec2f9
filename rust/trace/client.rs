// SPDX-License-Identifier: GPL-2.0

//! Events of the client.

use crate::{
    small,
    word,
    CompletionId,
    Peer,
    RegionInfo,
    TaskId, //
};
use ext::{
    addr::SockAddr,
    events, //
};
use kernel::prelude::*;

/// The way in which the argument or result of a Call is transferred.
#[derive(Clone, Copy)]
pub enum ChunkType {
    /// In the message; there is no argument or result in pages.
    Inline = cbindings::rpcrdma_chunktype_rpcrdma_noch as isize,
    /// Copied into the Send buffer.
    Pullup = cbindings::rpcrdma_chunktype_rpcrdma_noch_pullup as isize,
    /// Gathered by the Send.
    Mapped = cbindings::rpcrdma_chunktype_rpcrdma_noch_mapped as isize,
    /// In a Read chunk.
    Read = cbindings::rpcrdma_chunktype_rpcrdma_readch as isize,
    /// With the rest of the message in the Position-Zero Read chunk.
    PositionZero = cbindings::rpcrdma_chunktype_rpcrdma_areadch as isize,
    /// In a Write chunk.
    Write = cbindings::rpcrdma_chunktype_rpcrdma_writech as isize,
    /// With the rest of the message in the Reply chunk.
    Reply = cbindings::rpcrdma_chunktype_rpcrdma_replych as isize,
}

/// `IB_SEND_SIGNALED`.
// CAST: A small number.
const SIGNALLED: c_int = cbindings::ib_send_flags_IB_SEND_SIGNALED as c_int;

/// Returns zero, or the number of an error.
fn errno(result: Result) -> c_int {
    result.map_or_else(Error::to_errno, |()| 0)
}

/// Returns a `re_connect_status`: one for a connection, or the number of an error.
fn connect_status(result: Result) -> c_int {
    result.map_or_else(Error::to_errno, |()| 1)
}

events! {
    /// The client tried to connect.
    xprtrdma_connect(peer: Peer<'_>, result: Result) =>
        (peer.addr.as_char_ptr(), peer.port.as_char_ptr(), errno(result), connect_status(result));

    /// The client closes a connection. The result is that of the RDMA CM's attempt to end it.
    xprtrdma_disconnect(peer: Peer<'_>, result: Result, was_connected: Result) =>
        (peer.addr.as_char_ptr(), peer.port.as_char_ptr(), errno(result), connect_status(was_connected));

    /// sunrpc's fault injection breaks the connection.
    xprtrdma_op_inject_dsc(peer: Peer<'_>) => (peer.addr.as_char_ptr(), peer.port.as_char_ptr());

    /// The client will connect in `delay` jiffies.
    xprtrdma_op_connect(peer: Peer<'_>, delay: usize) => (peer.addr.as_char_ptr(), peer.port.as_char_ptr(), delay);

    /// The inline thresholds: those in use for Sends and Receives, and those that this end
    /// requested.
    xprtrdma_inline_thresh(source: &SockAddr, destination: &SockAddr, in_use: [usize; 2], wished: [usize; 2]) => (
        source.as_raw(),
        destination.as_raw(),
        small(in_use[0]),
        small(in_use[1]),
        small(wished[0]),
        small(wished[1]),
    );

    /// A device of a connection is being removed.
    xprtrdma_device_removal(device: &CStr, peer: &SockAddr) => (device.as_char_ptr(), peer.as_raw());

    /// Memory regions were allocated.
    xprtrdma_createmrs(peer: Peer<'_>, count: usize) => (peer.addr.as_char_ptr(), peer.port.as_char_ptr(), small(count));

    /// A Call must wait because there are too few memory regions.
    xprtrdma_nomrs_err(rpc: TaskId, peer: Peer<'_>) =>
        (rpc.task, rpc.client, peer.addr.as_char_ptr(), peer.port.as_char_ptr());

    /// A Call was encoded: the length of its header, the lengths of its head, pages and tail, and
    /// the chunk types of its argument and its result.
    xprtrdma_marshal(rpc: TaskId, xid: u32, header: usize, call: [usize; 3], argument: ChunkType, result: ChunkType) => (
        rpc.task,
        rpc.client,
        xid,
        small(header),
        small(call[0]),
        small(call[1]),
        small(call[2]),
        argument as c_uint,
        result as c_uint,
    );

    /// A Call could not be encoded.
    xprtrdma_marshal_failed(rpc: TaskId, xid: u32, error: Error) => (rpc.task, rpc.client, xid, error.to_errno());

    /// A Send is posted.
    xprtrdma_post_send(id: CompletionId, rpc: TaskId, elements: usize, is_signalled: bool) => (
        id.queue,
        id.completion,
        rpc.task,
        rpc.client,
        small(elements),
        if is_signalled { SIGNALLED } else { 0 },
    );

    /// A Send could not be posted.
    xprtrdma_post_send_err(queue: u32, rpc: TaskId, error: Error) => (queue, rpc.task, rpc.client, error.to_errno());

    /// A Receive completed.
    xprtrdma_wc_receive(id: CompletionId, received: usize, status: u32, vendor_err: u32) =>
        (id.queue, id.completion, small(received), status, vendor_err);

    /// A memory region is registered for a Call.
    xprtrdma_mr_fastreg(rpc: TaskId, region: RegionInfo) => (
        rpc.task,
        rpc.client,
        region.id,
        small(region.entries),
        region.rkey,
        region.len,
        region.iova,
        region.direction,
    );

    /// The client invalidates a memory region.
    xprtrdma_mr_localinv(rpc: TaskId, region: RegionInfo) => (
        rpc.task,
        rpc.client,
        region.id,
        small(region.entries),
        region.rkey,
        region.len,
        region.iova,
        region.direction,
    );

    /// The server has invalidated a memory region.
    xprtrdma_mr_reminv(rpc: TaskId, region: RegionInfo) => (
        rpc.task,
        rpc.client,
        region.id,
        small(region.entries),
        region.rkey,
        region.len,
        region.iova,
        region.direction,
    );

    /// Invalidations could not be posted.
    xprtrdma_post_linv_err(rpc: TaskId, error: Error) => (rpc.task, rpc.client, error.to_errno());

    /// A reply was matched with its Call, and grants `credits`.
    xprtrdma_reply(rpc: TaskId, xid: u32, credits: u32) => (rpc.task, rpc.client, xid, credits);

    /// A message of another version was dropped.
    xprtrdma_reply_vers_err(peer: Peer<'_>, message: &[u8]) =>
        (peer.addr.as_char_ptr(), peer.port.as_char_ptr(), word(message, 0), word(message, 1), word(message, 3));

    /// A reply that no Call waits for was dropped.
    xprtrdma_reply_rqst_err(peer: Peer<'_>, message: &[u8]) =>
        (peer.addr.as_char_ptr(), peer.port.as_char_ptr(), word(message, 0), word(message, 1), word(message, 3));

    /// A message that is too short was dropped.
    xprtrdma_reply_short_err(peer: Peer<'_>, message: &[u8]) =>
        (peer.addr.as_char_ptr(), peer.port.as_char_ptr(), word(message, 0), word(message, 1), word(message, 3));

    /// A message whose header is malformed, or does not match its Call, was dropped.
    xprtrdma_reply_hdr_err(peer: Peer<'_>, message: &[u8]) =>
        (peer.addr.as_char_ptr(), peer.port.as_char_ptr(), word(message, 0), word(message, 1), word(message, 3));

    /// The server knows only other versions.
    xprtrdma_err_vers(rpc: TaskId, xid: u32, low: u32, high: u32) => (rpc.task, rpc.client, xid, low, high);

    /// The server refuses a Call.
    xprtrdma_err_chunk(rpc: TaskId, xid: u32) => (rpc.task, rpc.client, xid);

    /// A callback arrived.
    xprtrdma_cb_call(peer: Peer<'_>, xid: u32) => (peer.addr.as_char_ptr(), peer.port.as_char_ptr(), xid);

    /// A callback is answered.
    xprtrdma_cb_reply(peer: Peer<'_>, xid: u32) => (peer.addr.as_char_ptr(), peer.port.as_char_ptr(), xid);
}
