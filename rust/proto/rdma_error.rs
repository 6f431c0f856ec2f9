// SPDX-License-Identifier: GPL-2.0

//! RDMA_ERROR: a Responder's answer to a Call it cannot serve (RFC 8166, section 4.5).

use crate::error::Misuse;
use crate::header::{self, procedure, Prefix};
use crate::xdr::{self, Reader};

const ERR_VERS: u32 = 1;
const ERR_CHUNK: u32 = 2;

/// The error of an RDMA_ERROR message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdmaError {
    /// ERR_VERS: the Responder supports these versions only. To us this is data, nothing to act on.
    Version {
        /// Lowest version.
        low: u32,
        /// Highest version.
        high: u32,
    },
    /// ERR_CHUNK: anything else. The Call may have been executed nevertheless.
    Chunk,
}

impl RdmaError {
    /// The answer to a version that this crate does not implement.
    pub const UNKNOWN_VERSION: Self = RdmaError::Version {
        low: header::VERSION,
        high: header::VERSION,
    };

    /// Parses the words behind the fixed ones. The error is an unknown code, if the message is long
    /// enough to have one. Bytes behind the last word are ignored.
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Option<u32>> {
        let mut word = || reader.u32().map_err(|_| None);
        match word()? {
            ERR_VERS => Ok(RdmaError::Version {
                low: word()?,
                high: word()?,
            }),
            ERR_CHUNK => Ok(RdmaError::Chunk),
            other => Err(Some(other)),
        }
    }
}

/// An RDMA_ERROR message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// The Call that is refused.
    pub xid: u32,
    /// The version that the Call had, whatever it was.
    pub version: u32,
    /// The error.
    pub error: RdmaError,
}

impl ErrorMessage {
    /// The longest such message.
    pub const MAX_LEN: usize = 28;

    /// Returns the number of bytes that [`emit`](Self::emit) writes.
    pub fn wire_len(&self) -> usize {
        match self.error {
            RdmaError::Version { .. } => Self::MAX_LEN,
            RdmaError::Chunk => 20,
        }
    }

    /// Writes the whole message, with the current grant, to the front of `out` and returns its
    /// length.
    pub fn emit(&self, credits: u32, out: &mut [u8]) -> Result<usize, Misuse> {
        header::check_credits(credits)?;
        let room = out.len();
        let length = xdr::write(out, |writer| {
            Prefix {
                xid: self.xid,
                version: self.version,
                credits,
                procedure: procedure::ERROR,
            }
            .emit(writer)?;
            match self.error {
                RdmaError::Version { low, high } => {
                    writer.u32(ERR_VERS)?;
                    writer.u32(low)?;
                    writer.u32(high)
                }
                RdmaError::Chunk => writer.u32(ERR_CHUNK),
            }
        });
        length.ok_or(Misuse::Buffer {
            needed: self.wire_len(),
            room,
        })
    }
}
