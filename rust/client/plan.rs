// SPDX-License-Identifier: GPL-2.0

//! The choice of the chunks that a Call needs on its connection.
//!
//! RFC 8166, sections 3.5 and 4.3. `proto::plan` decides from the sizes of the Call and its reply;
//! here those come from the `rpc_rqst`, and the limits from the connection.

use proto::{
    plan::{
        Argument,
        CallForm,
        Plan,
        PlanError,
        ReplyForm,
        Sizes,
        Thresholds, //
    },
    reverse, //
};
use sunrpc::{
    Rqst,
    Transport, //
};

/// The limits that marshalling keeps to on one connection.
#[derive(Clone, Copy)]
pub(crate) struct MarshalLimits {
    /// The inline thresholds in both directions.
    pub(super) thresholds: Thresholds,
    /// Memory regions that cover the largest payload.
    pub(super) payload_segments: usize,
    /// The credits that each Call requests.
    pub(super) requested_credits: u32,
}

impl MarshalLimits {
    /// The limits before the connection is established.
    pub(super) const DEFAULT: Self = Self {
        thresholds: Thresholds::DEFAULT,
        payload_segments: 1,
        requested_credits: 1,
    };

    /// Returns the number of memory regions that cover the largest message: head, payload and tail.
    fn message_segments(&self) -> usize {
        self.payload_segments.saturating_add(2)
    }

    /// Decides how the Call in `rqst` and its reply travel.
    pub(super) fn plan<T: Transport>(&self, rqst: &Rqst<T>) -> Result<Plan, PlanError> {
        let sizes = Sizes {
            call: rqst.call_len(),
            argument: rqst.call_payload().and_then(|payload| {
                Some(Argument {
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
            reply: ReplyForm::WriteAndReplyChunk { .. },
            ..
        }) = plan
        {
            // Two chunks for one `xdr_buf` cost more than the copy that one of them saves.
            let unreduced = Sizes {
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
            CallForm::Inline => 0,
            CallForm::ReadChunk(_) => self.payload_segments,
            CallForm::PositionZero => self.message_segments(),
        };
        let reply = match plan.reply {
            ReplyForm::Inline => 0,
            ReplyForm::WriteChunk { .. } => self.payload_segments,
            ReplyForm::ReplyChunk { .. } | ReplyForm::WriteAndReplyChunk { .. } => {
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
