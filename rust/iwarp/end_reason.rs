// SPDX-License-Identifier: GPL-2.0

//! Reasons for the end of a connection: the list of them, and the text for each.
//!
//! `docs/iwarp.md` explains each text that is logged. A host test compares the two
//! (`rust/rdmap/tests/end_reasons.rs`), so this file depends on nothing of the kernel.

use core::ffi::CStr;
use rdmap::fault::{
    Cause,
    Code, //
};

/// A reason for the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// The consumer wants it.
    Requested,
    /// The peer has closed it in order.
    PeerClosed,
    /// The peer has sent a Terminate.
    PeerTerminated(Code),
    /// The peer has sent a Terminate that is none.
    InvalidTerminate,
    /// The stream failed.
    Failed {
        /// The cause.
        cause: Cause,
        /// The peer was sent a Terminate.
        is_told: bool,
    },
    /// The lower layer reports an error, or this machine has one: an error number.
    Error(i32),
    /// SCTP has lost the association, or the peer has aborted it.
    AssociationLost,
    /// The peer does not use the association as RFC 5043 says.
    NotDdp,
    /// The peer sent a chunk that breaks a rule of sessions (RFC 5043, section 6.1).
    IllegalChunk,
    /// The peer took too long: for the rest of an FPDU, or to receive.
    Late,
    /// A completion queue has overrun.
    CqOverrun,
}

impl EndReason {
    /// Returns the text.
    pub(crate) const fn text(self) -> &'static CStr {
        match self {
            Self::Requested => c"closed by the consumer",
            Self::PeerClosed => c"closed by the peer",
            Self::PeerTerminated(_) => c"Terminate of the peer",
            Self::InvalidTerminate => c"invalid Terminate of the peer",
            Self::Failed { is_told: true, .. } => c"Terminate of this side",
            Self::Failed { is_told: false, .. } => c"failed, and no Terminate could be sent",
            Self::Error(_) => c"error of the socket or of this machine",
            Self::AssociationLost => c"SCTP has lost the association",
            Self::NotDdp => c"the peer does not use the association for DDP",
            Self::IllegalChunk => c"the peer sent a chunk that breaks a rule of sessions",
            Self::Late => c"the peer took too long",
            Self::CqOverrun => c"a completion queue has overrun",
        }
    }

    /// Returns the error number, or 0 if there is none.
    pub(crate) const fn error(self) -> i32 {
        match self {
            Self::Error(error) => error,
            _ => 0,
        }
    }

    /// Returns whether it is an end in order, of which consumers at both ends know.
    pub(crate) const fn is_orderly(self) -> bool {
        matches!(self, Self::Requested | Self::PeerClosed)
    }
}
