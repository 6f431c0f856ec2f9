// SPDX-License-Identifier: GPL-2.0

//! Causes of the end of a connection of the server: the table of them, the text for each, and what
//! follows from it.
//!
//! `docs/troubleshooting.md` explains each text. A host test compares the two
//! (`rust/proto/tests/troubleshooting.rs`), so this file depends on nothing of the kernel.

use core::ffi::CStr;
use endpoint::causes;
use proto::conn::server::Event;

causes! {
    /// A cause of the end of a connection.
    #[derive(Clone, Copy)]
    pub(crate) enum Cause {
        /// The client, or the fabric, disconnected (`RDMA_CM_EVENT_DISCONNECTED`). Nothing is lost.
        Disconnected,
        /// The local address moved to another device (`RDMA_CM_EVENT_ADDR_CHANGE`).
        AddressChanged,
        /// The device is being removed (`RDMA_CM_EVENT_DEVICE_REMOVAL`).
        DeviceRemoved,
        /// The connection could not be set up (`RDMA_CM_EVENT_REJECTED`,
        /// `RDMA_CM_EVENT_UNREACHABLE` or `RDMA_CM_EVENT_CONNECT_ERROR`).
        SetupFailed,
        /// The device reported that the queue pair, or the device itself, failed
        /// (`IB_EVENT_QP_FATAL` and others).
        QueuePairFailed,

        /// Too many messages in a row were malformed.
        Malformed,
        /// There can be neither a reply nor an RDMA_ERROR (RFC 8166, section 4.5.4).
        Unanswered,
        /// An RDMA_ERROR did not fit into a Send buffer.
        ErrorNotEncoded,
        /// A call to the client could not be written to a Send buffer.
        CallbackNotEncoded,

        /// A Send, with the RDMA Writes before it, could not be posted.
        SendNotPosted,
        /// A signalled no-op, whose completion would cover Sends, could not be posted.
        BarrierNotPosted,
        /// The first RDMA Reads of a call could not be posted.
        ReadsNotPosted,
        /// The next part of a chain of RDMA Reads or Writes could not be posted.
        NextBatchNotPosted,

        /// The client did not confirm in time that it was accepted.
        AcceptTimedOut,
        /// No message arrived in time after the client was accepted.
        FirstMessageTimedOut,
        /// A work request did not complete in time.
        WorkRequestTimedOut,

        /// A work request failed, with the kernel's text for its status.
        WorkRequestFailed(&'static CStr),
        /// A work request was flushed: another one may have failed before. That is the cause.
        WorkRequestFlushed,
    }
}

impl Cause {
    /// Returns the text that is logged. There is none if the connection does not count as lost for
    /// this cause.
    pub(super) fn text(self) -> Option<&'static CStr> {
        Some(match self {
            Self::Disconnected | Self::WorkRequestFlushed => return None,
            Self::AddressChanged => c"local address moved",
            Self::DeviceRemoved => c"device removed",
            Self::SetupFailed => c"connection setup failed",
            Self::QueuePairFailed => c"the device reported a failure of the queue pair",
            Self::Malformed => c"too many malformed messages in a row",
            Self::Unanswered => c"a call cannot be answered",
            Self::ErrorNotEncoded => c"an error could not be encoded",
            Self::CallbackNotEncoded => c"a callback could not be encoded",
            Self::SendNotPosted => c"a message could not be posted",
            Self::BarrierNotPosted => c"a work request could not be posted",
            Self::ReadsNotPosted => c"RDMA Reads could not be posted",
            Self::NextBatchNotPosted => c"the next RDMA Reads or Writes could not be posted",
            Self::AcceptTimedOut => c"the client did not confirm that it was accepted",
            Self::FirstMessageTimedOut => c"no message of the client arrived in time",
            Self::WorkRequestTimedOut => c"what was posted did not complete in time",
            Self::WorkRequestFailed(text) => text,
        })
    }

    /// Returns the event for the state of the connection.
    pub(super) fn event(self) -> Event {
        match self {
            Self::DeviceRemoved => Event::DeviceRemoved,
            Self::Malformed
            | Self::QueuePairFailed
            | Self::ReadsNotPosted
            | Self::NextBatchNotPosted => Event::Failed,
            Self::Unanswered
            | Self::ErrorNotEncoded
            | Self::CallbackNotEncoded
            | Self::SendNotPosted
            | Self::BarrierNotPosted => Event::Unanswered,
            Self::Disconnected
            | Self::AddressChanged
            | Self::SetupFailed
            | Self::AcceptTimedOut
            | Self::FirstMessageTimedOut
            | Self::WorkRequestTimedOut
            | Self::WorkRequestFailed(_)
            | Self::WorkRequestFlushed => Event::Disconnected,
        }
    }

    /// Returns whether the `progress_timeout` has passed, which `rdma_stat_stalled` counts.
    pub(super) fn is_timeout(self) -> bool {
        matches!(
            self,
            Self::AcceptTimedOut | Self::FirstMessageTimedOut | Self::WorkRequestTimedOut
        )
    }
}
