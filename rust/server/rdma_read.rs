// SPDX-License-Identifier: GPL-2.0

//! Pulling what a call left in the client's memory (RFC 8166, sections 3.4.5 and 3.5.3).
//!
//! The usual call, one Read chunk in an inline message, keeps its chunk apart: the argument starts
//! at the start of a page. Any other is rebuilt in one run of pages, with each part read or copied
//! to where it belongs, and so is one with nothing to pull whose head would be too long.

use super::{
    config::READS,
    connection::Connection,
    endpoint::Endpoint,
    receive::{
        policy,
        Args, //
    }, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};
use proto::{
    call::{
        self,
        Incoming,
        Part, //
    },
    chunk::{
        self,
        Segment, //
    },
    header::Body,
    rpc::CallHeader,
    xdr, //
};
use rdma::{
    mr,
    qp::UnpostedReads,
    receive::Message,
    transfer::{
        Prepared,
        Transfer, //
    }, //
};
use sunrpc::{
    memory::Page,
    SvcCall, //
};

/// What a rebuilt call looks like.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// The inline message, with `len` bytes (fill included) of the pages inserted at `position`.
    Reduced { position: usize, len: usize },
    /// The first `len` bytes of the pages.
    Whole { len: usize },
}

/// Whether sunrpc takes a call whose first `len` bytes are in one piece.
///
/// Sockets give it a page of them at most. The accept token of RPCSEC_GSS is copied to a page of its own,
/// as far as that piece goes. Where `reduction` is allowed the flavour does not touch the arguments.
pub(super) fn fits_head(len: usize, reduction: bool) -> bool {
    len <= PAGE_SIZE || reduction
}

/// A call that is being pulled, or was.
pub(crate) struct ReadDone {
    pub(super) message: Message<Endpoint>,
    pub(super) form: Form,
    /// Where it goes.
    pub(super) pages: KVec<Page>,
}

impl Form {
    /// The form for `call`. [`None`] if it is too large for `max_pages`.
    pub(super) fn of(call: &call::Call<'_>, max_pages: usize) -> Option<Self> {
        let mut chunks = call.chunks().filter(|(_, length)| *length > 0);
        let head_fits = |position| {
            let position = usize::try_from(position).unwrap_or(usize::MAX);
            let header = CallHeader::parse(call.payload);
            fits_head(position, header.is_some_and(|header| header.reduction))
        };
        let form = match (call.body, chunks.next(), chunks.next()) {
            (Body::Msg, Some((position, length)), None) if head_fits(position) => Self::Reduced {
                position: usize::try_from(position).ok()?,
                len: usize::try_from(xdr::roundup_u64(length)).ok()?,
            },
            _ => Self::Whole {
                len: usize::try_from(call.message_len()).ok()?,
            },
        };
        // sunrpc has some more than the longest call needs.
        (form.pages() < max_pages).then_some(form)
    }

    fn pages(self) -> usize {
        match self {
            Self::Reduced { len, .. } | Self::Whole { len } => len.div_ceil(PAGE_SIZE),
        }
    }
}

impl Connection {
    /// Starts to pull the call in `message`. If nothing of it has to be read, it is served at once.
    pub(super) fn pull(
        &self,
        message: Message<Endpoint>,
        form: Form,
        args: &mut Args<'_>,
    ) -> Option<KBox<SvcCall<Self>>> {
        let reads = self.pages.take(form.pages()).and_then(|pages| {
            let reads = self.reads(message.bytes(), form, &pages)?;
            Ok((reads, pages))
        });
        let (reads, pages) = match reads {
            Ok(made) => made,
            Err(_) => {
                self.fail(message);
                return None;
            }
        };
        let pulled = ReadDone {
            message,
            form,
            pages,
        };
        if reads.is_empty() {
            return self.take_pulled(pulled, args);
        }
        READS.add(reads.len());
        self.send_path
            .endpoint
            .with_room((reads, pulled), |(reads, pulled)| {
                match self.send_path.queue.post_reads(reads, pulled) {
                    Ok(()) => Ok(()),
                    Err(UnpostedReads::Full(reads, pulled)) => Err((reads, pulled)),
                    Err(UnpostedReads::Lost(_)) => {
                        self.send_path
                            .endpoint
                            .lost(proto::conn::server::Event::Failed);
                        Ok(())
                    }
                }
            });
        None
    }

    /// The RDMA Reads that put the call in `bytes` into `pages`. What is there already is copied.
    fn reads(&self, bytes: &[u8], form: Form, pages: &KVec<Page>) -> Result<Prepared<Endpoint>> {
        let Ok(Incoming::Call(call)) = call::parse(bytes, &policy(usize::MAX)) else {
            return Err(EINVAL);
        };
        let mut reads = Transfer::reads(&self.send_path.queue, GFP_KERNEL)?;
        if let Form::Reduced { position, len } = form {
            let position = u32::try_from(position)?;
            let segments = call.lists.read.chunk(position);
            let length = usize::try_from(chunk::total(segments.clone()))?;
            read(&mut reads, segments, pages, 0, length)?;
            zero(pages, length, len)?;
            return reads.prepare();
        }
        let mut at = 0_usize;
        for part in call.parts() {
            let end = match part {
                Part::Payload { from, length } => {
                    let end = at.checked_add(usize::try_from(length)?).ok_or(EINVAL)?;
                    match call.body {
                        Body::Msg => {
                            let inline = usize::try_from(from)?
                                ..usize::try_from(from.saturating_add(length))?;
                            copy(pages, at, call.payload.get(inline).ok_or(EINVAL)?)?;
                        }
                        Body::NoMsg => {
                            let part = chunk::slice(call.lists.read.chunk(0), from, length);
                            read(&mut reads, part, pages, at, end)?;
                        }
                    }
                    end
                }
                Part::Chunk { position, length } => {
                    let end = at.checked_add(usize::try_from(length)?).ok_or(EINVAL)?;
                    read(&mut reads, call.lists.read.chunk(position), pages, at, end)?;
                    end
                }
                Part::Padding(length) => {
                    let end = at.checked_add(usize::try_from(length)?).ok_or(EINVAL)?;
                    zero(pages, at, end)?;
                    end
                }
            };
            at = end;
        }
        reads.prepare()
    }
}

/// Adds Reads of `segments` into the bytes from `at` to `end` of `pages`.
fn read(
    reads: &mut Transfer<Endpoint>,
    segments: impl Iterator<Item = Segment>,
    pages: &KVec<Page>,
    at: usize,
    end: usize,
) -> Result {
    for segment in segments {
        reads.add_remote(mr::Segment {
            rkey: segment.handle,
            len: segment.length,
            iova: segment.offset,
        })?;
    }
    runs(pages, at, end, |page, offset, len| {
        reads.add_local(page.piece(offset, len)?)
    })
}

/// Copies the bytes from `at` on to `out`.
pub(super) fn copy_out(pages: &KVec<Page>, at: usize, out: &mut [u8]) -> Result {
    let end = at.checked_add(out.len()).ok_or(EINVAL)?;
    let mut done = 0_usize;
    runs(pages, at, end, |page, offset, len| {
        let to = done.saturating_add(len);
        page.copy_out(offset, out.get_mut(done..to).ok_or(EINVAL)?)?;
        done = to;
        Ok(())
    })
}

fn copy(pages: &KVec<Page>, at: usize, mut bytes: &[u8]) -> Result {
    let end = at.checked_add(bytes.len()).ok_or(EINVAL)?;
    runs(pages, at, end, |page, offset, len| {
        let (part, rest) = bytes.split_at_checked(len).ok_or(EINVAL)?;
        bytes = rest;
        page.copy_in(offset, part)
    })
}

/// Clears fill octets, of which there are at most three.
fn zero(pages: &KVec<Page>, at: usize, end: usize) -> Result {
    runs(pages, at, end, |page, offset, len| {
        page.copy_in(offset, [0; 4].get(..len).ok_or(EINVAL)?)
    })
}

/// Calls `f` with each page that has some of the bytes from `at` to `end`, and says which.
fn runs(
    pages: &KVec<Page>,
    mut at: usize,
    end: usize,
    mut f: impl FnMut(&Page, usize, usize) -> Result,
) -> Result {
    while at < end {
        let page = pages.get(at / PAGE_SIZE).ok_or(EINVAL)?;
        let offset = at % PAGE_SIZE;
        let len = (PAGE_SIZE - offset).min(end - at);
        f(page, offset, len)?;
        at = at.saturating_add(len);
    }
    Ok(())
}
