// SPDX-License-Identifier: GPL-2.0

//! The choice of the chunks that a Call needs on its connection, and their segments, in the memory
//! that its slot has for them.
//!
//! RFC 8166, sections 3.4.3, 3.4.4, 3.5 and 4.3. `proto::plan` decides from the sizes of the Call
//! and its reply; here those come from the `rpc_rqst`, and the limits from the connection. `proto`
//! encodes and compares chunks; here their segments are kept without an allocation for each RPC.

use crate::prelude::*;
use proto::{
    chunk::Segment,
    plan::{
        self,
        Plan, //
    },
    reply::Offer,
    reverse, //
};
use rdma::mr;

/// The limits that marshalling keeps to on one connection.
#[derive(Clone, Copy)]
pub(crate) struct MarshalLimits {
    /// The inline thresholds in both directions.
    pub(super) thresholds: plan::Thresholds,
    /// Memory regions that cover the largest payload.
    pub(super) payload_segments: usize,
    /// The credits that each Call requests.
    pub(super) requested_credits: u32,
}

impl MarshalLimits {
    /// The limits before the connection is established.
    pub(super) const DEFAULT: Self = Self {
        thresholds: plan::Thresholds::DEFAULT,
        payload_segments: 1,
        requested_credits: 1,
    };

    /// Returns the number of memory regions that cover the largest message: head, payload and tail.
    fn message_segments(&self) -> usize {
        self.payload_segments.saturating_add(2)
    }

    /// Decides how the Call in `rqst` and its reply travel.
    pub(super) fn plan(&self, rqst: &Rqst<ClientTransport>) -> Result<Plan, plan::PlanError> {
        let sizes = plan::Sizes {
            call: rqst.call_len(),
            argument: rqst.call_payload().and_then(|payload| {
                Some(plan::Argument {
                    position: u32::try_from(payload.start).ok()?,
                    length: payload.len(),
                })
            }),
            reply: rqst.reply_max(),
            result: rqst.reply_payload(),
            reduction: rqst.reduction_allowed(),
            segments: self.message_segments(),
        };
        let mut plan = Plan::new(&sizes, &self.thresholds);
        if let Ok(Plan {
            reply: plan::ReplyForm::WriteAndReplyChunk { .. },
            ..
        }) = plan
        {
            // Two chunks for one `xdr_buf` cost more than the copy that one of them saves.
            let unreduced = plan::Sizes {
                result: None,
                ..sizes
            };
            plan = Plan::new(&unreduced, &self.thresholds);
        }
        plan
    }

    /// Returns the most memory regions that a Call with this plan needs.
    pub(super) fn regions(&self, plan: &Plan) -> usize {
        let call = match plan.call {
            plan::CallForm::Inline => 0,
            plan::CallForm::ReadChunk(_) => self.payload_segments,
            plan::CallForm::PositionZero => self.message_segments(),
        };
        let reply = match plan.reply {
            plan::ReplyForm::Inline => 0,
            plan::ReplyForm::WriteChunk { .. } => self.payload_segments,
            plan::ReplyForm::ReplyChunk { .. } | plan::ReplyForm::WriteAndReplyChunk { .. } => {
                self.message_segments()
            }
        };
        call.saturating_add(reply)
    }

    /// Returns the length of the longest callback, and of the longest reply to one. Both travel
    /// inline, behind a header without chunks.
    pub(super) fn callback_max_payload(&self) -> usize {
        self.thresholds
            .call
            .min(self.thresholds.reply)
            .min(kernel::page::PAGE_SIZE)
            .saturating_sub(reverse::Header::WIRE_LEN)
    }
}

/// A chunk: the segments of one Read, Write or Reply chunk.
///
/// # Invariants
///
/// `len` is at most [`Chunk::MAX`].
#[derive(Clone, Copy)]
pub(crate) struct Chunk {
    segments: [Segment; Self::MAX],
    len: usize,
}

impl Chunk {
    /// The most segments. The head, pages and tail of an `xdr_buf` are three. A device that
    /// registers less than 1 MiB at once needs more for the pages: nine, if it registers 32 pages
    /// of 4 KiB.
    pub(super) const MAX: usize = 11;

    /// A chunk without segments.
    pub(super) const EMPTY: Self = Self {
        segments: [Segment {
            handle: 0,
            length: 0,
            offset: 0,
        }; Self::MAX],
        len: 0,
    };

    /// Adds a registered memory region. Returns [`EINVAL`] if the chunk has [`Self::MAX`] segments
    /// already.
    pub(super) fn push(&mut self, region: mr::Segment) -> Result {
        let place = self.segments.get_mut(self.len).ok_or(EINVAL)?;
        *place = Segment {
            handle: region.rkey,
            length: region.len,
            offset: region.iova,
        };
        // INVARIANT: `segments` has an element at `len`, so `len` was less than `MAX`.
        self.len += 1;
        Ok(())
    }

    /// Returns the segments.
    pub(super) fn as_slice(&self) -> &[Segment] {
        self.segments.get(..self.len).unwrap_or(&[])
    }

    /// Returns the number of bytes that the segments cover together.
    pub(super) fn covered(&self) -> u64 {
        self.as_slice()
            .iter()
            .map(|segment| u64::from(segment.length))
            .sum()
    }
}

/// The chunk that a Call offers to the Responder for the reply.
pub(crate) enum Offered {
    /// None.
    Nothing,
    /// A Write chunk for the DDP-eligible result.
    Write(Chunk),
    /// A Reply chunk for the whole reply.
    Reply(Chunk),
}

impl Offered {
    /// Calls `f` with the offer in the form that `proto` encodes and compares.
    pub(super) fn with<R>(&self, f: impl FnOnce(&Offer<'_>) -> R) -> R {
        let (write, reply) = match self {
            Self::Nothing => (None, None),
            Self::Write(chunk) => (Some([chunk.as_slice()]), None),
            Self::Reply(chunk) => (None, Some(chunk.as_slice())),
        };
        f(&Offer {
            write: write.as_ref().map_or(&[], |one| one),
            reply,
        })
    }
}
