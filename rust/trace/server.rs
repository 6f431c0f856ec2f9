// SPDX-License-Identifier: GPL-2.0

//! Events of the server.

use crate::{
    small,
    word,
    CompletionId, //
};
use ext::{
    addr::SockAddr,
    events, //
};
use kernel::prelude::*;

events! {
    /// A connection has no protection domain.
    svcrdma_pd_err(peer: &CStr, error: Error) => (peer.as_char_ptr(), error.to_errno());

    /// A connection has no queue pair.
    svcrdma_qp_err(peer: &CStr, error: Error) => (peer.as_char_ptr(), error.to_errno());

    /// The client executes no RDMA Reads.
    svcrdma_initdepth_err(peer: &CStr, error: Error) => (peer.as_char_ptr(), error.to_errno());

    /// A connection could not be accepted.
    svcrdma_accept_err(peer: &CStr, error: Error) => (peer.as_char_ptr(), error.to_errno());

    /// The device reports an event of a queue pair.
    svcrdma_qp_error(event: u32, device: &CStr, peer: &CStr) => (event, device.as_char_ptr(), peer.as_char_ptr());

    /// A device of a connection is being removed.
    svcrdma_device_removal(device: &CStr, peer: &SockAddr) => (device.as_char_ptr(), peer.as_raw());

    /// A Receive completed.
    svcrdma_wc_recv(id: CompletionId, received: usize) => (id.queue, id.completion, small(received));

    /// A Receive was flushed.
    svcrdma_wc_recv_flush(id: CompletionId, status: u32, vendor_err: u32) =>
        (id.queue, id.completion, status, vendor_err);

    /// A Receive failed.
    svcrdma_wc_recv_err(id: CompletionId, status: u32, vendor_err: u32) =>
        (id.queue, id.completion, status, vendor_err);

    /// The header of a message was decoded; it has `len` bytes.
    svcrdma_decode_rqst(id: CompletionId, message: &[u8], len: usize) =>
        (id.queue, id.completion, word(message, 0), word(message, 1), word(message, 2), word(message, 3), small(len));

    /// A message of `len` bytes is too short.
    svcrdma_decode_short_err(id: CompletionId, len: usize) => (id.queue, id.completion, small(len));

    /// A message has another version.
    svcrdma_decode_badvers_err(id: CompletionId, message: &[u8]) =>
        (id.queue, id.completion, word(message, 0), word(message, 1), word(message, 2), word(message, 3));

    /// A message is dropped.
    svcrdma_decode_drop_err(id: CompletionId, message: &[u8]) =>
        (id.queue, id.completion, word(message, 0), word(message, 1), word(message, 2), word(message, 3));

    /// A message has a procedure that does not exist.
    svcrdma_decode_badproc_err(id: CompletionId, message: &[u8]) =>
        (id.queue, id.completion, word(message, 0), word(message, 1), word(message, 2), word(message, 3));

    /// A message has chunks that are malformed, or that do not fit together.
    svcrdma_decode_parse_err(id: CompletionId, message: &[u8]) =>
        (id.queue, id.completion, word(message, 0), word(message, 1), word(message, 2), word(message, 3));

    /// RDMA Reads in `requests` work requests are posted.
    svcrdma_post_read_chunk(id: CompletionId, requests: usize) =>
        (id.queue, id.completion, small(requests));

    /// The RDMA Reads of a call completed, `latency_us` microseconds after they were posted.
    svcrdma_wc_read(id: CompletionId, bytes: u64, latency_us: i64) =>
        (id.queue, id.completion, u32::try_from(bytes).unwrap_or(u32::MAX), latency_us);

    /// RDMA Reads were flushed.
    svcrdma_wc_read_flush(id: CompletionId, status: u32, vendor_err: u32) =>
        (id.queue, id.completion, status, vendor_err);

    /// An RDMA Read failed.
    svcrdma_wc_read_err(id: CompletionId, status: u32, vendor_err: u32) =>
        (id.queue, id.completion, status, vendor_err);

    /// A thread takes a call whose RDMA Reads have completed.
    svcrdma_read_finished(id: CompletionId) => (id.queue, id.completion);

    /// RDMA Writes to the Write chunks of a call are posted.
    svcrdma_post_write_chunk(id: CompletionId, requests: usize) =>
        (id.queue, id.completion, small(requests));

    /// RDMA Writes to the Reply chunk of a call, and to its Write chunks if there are any, are
    /// posted.
    svcrdma_post_reply_chunk(id: CompletionId, requests: usize) =>
        (id.queue, id.completion, small(requests));

    /// A Send is posted. It invalidates `rkey`, unless that is zero.
    svcrdma_post_send(id: CompletionId, elements: usize, rkey: u32) =>
        (id.queue, id.completion, small(elements), rkey);

    /// A reply was not sent.
    svcrdma_send_err(peer: &CStr, xid: u32, error: Error) => (peer.as_char_ptr(), xid, error.to_errno());

    /// A call of another version is refused.
    svcrdma_err_vers(xid: u32) => (xid);

    /// A call is refused.
    svcrdma_err_chunk(xid: u32) => (xid);

    /// A thread must wait for the Send queue, of whose SQ credits `free` are free.
    svcrdma_sq_full(id: CompletionId, free: usize, all: usize) =>
        (id.queue, id.completion, small(free), small(all));
}
