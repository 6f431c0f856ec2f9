// SPDX-License-Identifier: GPL-2.0

//! Causes of the end of a connection of the client: the table of them, the text for each, and what
//! follows from it.
//!
//! `docs/troubleshooting.md` explains each text. A host test compares the two
//! (`rust/proto/tests/troubleshooting.rs`), so this file depends on nothing of the kernel.

use core::ffi::CStr;
use endpoint::causes;
use proto::conn::client::Event;

causes! {
    /// A cause of the end of a connection, or of a failed attempt to connect.
    #[derive(Clone, Copy)]
    pub(crate) enum Cause {
        /// The server, or the fabric, disconnected (`RDMA_CM_EVENT_DISCONNECTED`).
        Disconnected,
        /// The local address moved to another device (`RDMA_CM_EVENT_ADDR_CHANGE`).
        AddressChanged,
        /// The device is being removed (`RDMA_CM_EVENT_DEVICE_REMOVAL`).
        DeviceRemoved,
        /// The server did not answer the connection request (`RDMA_CM_EVENT_UNREACHABLE`).
        Unreachable,
        /// The connection could not be set up (`RDMA_CM_EVENT_CONNECT_ERROR`).
        SetupFailed,
        /// The server rejected the connection request (`RDMA_CM_EVENT_REJECTED`).
        Rejected,
        /// The server rejected it because it still has an older connection of this client.
        RejectedAsStale,

        /// A message was malformed. An open connection survives two of them.
        Malformed,
        /// The server invalidated a region of a Call that it did not answer (RFC 8797).
        InvalidatedOtherCall,
        /// The server sent more callbacks than it has credits for (RFC 8167).
        CallbackWithoutCredit,
        /// A callback is longer than the buffers for callbacks.
        CallbackTooLong,
        /// There was no memory for a callback, whose reply the server would wait for.
        NoMemoryForCallback,
        /// The reply to a callback is longer than the inline threshold of the server, which would
        /// wait for it.
        CallbackReplyTooLong,

        /// A Send, with the registrations before it, could not be posted.
        SendNotPosted,
        /// The device could not be notified of posted Sends.
        DoorbellNotRung,
        /// Local invalidations could not be posted.
        InvalidationNotPosted,

        /// A Call had no reply in time.
        ReplyTimedOut,
        /// sunrpc sends a Call again that has no reply. It needs a new connection, which gives it
        /// a credit (RFC 8166, section 3.3.1).
        Retransmission,
        /// A Call was sent that has no reply, and so brings no credit.
        NoReplyExpected,
        /// All credits are those of Calls whose tasks were killed.
        CreditsOfKilledCalls,

        /// A work request failed, with the kernel's text for its status.
        WorkRequestFailed(&'static CStr),
        /// A work request was flushed, with the kernel's text for that: another one may have
        /// failed before.
        WorkRequestFlushed(&'static CStr),
    }
}

impl Cause {
    /// Returns the text that is logged.
    pub(super) fn text(self) -> &'static CStr {
        match self {
            Self::Disconnected => c"closed by the server",
            Self::AddressChanged => c"local address moved",
            Self::DeviceRemoved => c"device removed",
            Self::Unreachable => c"server unreachable",
            Self::SetupFailed => c"connection setup failed",
            Self::Rejected | Self::RejectedAsStale => c"rejected by the server",
            Self::Malformed => c"malformed messages",
            Self::InvalidatedOtherCall => c"the server invalidated memory of another call",
            Self::CallbackWithoutCredit => {
                c"the server sent more callbacks than it has credits for"
            }
            Self::CallbackTooLong => c"the server sent a callback that is too long",
            Self::NoMemoryForCallback => c"no memory for a callback",
            Self::CallbackReplyTooLong => {
                c"the reply to a callback does not fit what the server takes"
            }
            Self::SendNotPosted => c"a message could not be posted",
            Self::DoorbellNotRung => c"the device took no more messages",
            Self::InvalidationNotPosted => c"an invalidation could not be posted",
            Self::ReplyTimedOut => c"no reply in time",
            Self::Retransmission => c"a call is to be sent once more",
            Self::NoReplyExpected => c"a call was sent that has no reply",
            Self::CreditsOfKilledCalls => c"all credits are of calls that were killed",
            Self::WorkRequestFailed(text) | Self::WorkRequestFlushed(text) => text,
        }
    }

    /// Returns the event for the state of the connection.
    pub(super) fn event(self) -> Event {
        match self {
            Self::Malformed => Event::Malformed,
            Self::DeviceRemoved => Event::DeviceRemoved,
            _ => Event::Disconnected,
        }
    }

    /// Returns the error with which an attempt to connect fails.
    pub(super) fn connect_error(self) -> ConnectError {
        match self {
            Self::Unreachable => ConnectError::Unreachable,
            Self::Rejected => ConnectError::Rejected,
            Self::RejectedAsStale => ConnectError::Stale,
            _ => ConnectError::Lost,
        }
    }

    /// Returns whether a message of the server breaks the protocol, which counts as a bad reply.
    pub(super) fn is_bad_reply(self) -> bool {
        matches!(
            self,
            Self::Malformed
                | Self::InvalidatedOtherCall
                | Self::CallbackWithoutCredit
                | Self::CallbackTooLong
        )
    }

    /// Returns whether the task that notices gets an error from `send` or `flush`, after which
    /// sunrpc calls `close` of its own accord. That task may hold `transport_lock`.
    pub(super) fn fails_transmission(self) -> bool {
        matches!(
            self,
            Self::SendNotPosted | Self::DoorbellNotRung | Self::CallbackReplyTooLong
        )
    }
}

/// The reason for a failed connect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectError {
    /// No RDMA device has a route to the server's address.
    Address,
    /// The device has no path to the server.
    Route,
    /// The server does not answer.
    Unreachable,
    /// The server rejected the connection request.
    Rejected,
    /// The server rejected it because it still has an older connection of this client.
    Stale,
    /// The connection was lost while it was being made.
    Lost,
}
