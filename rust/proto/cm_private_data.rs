// SPDX-License-Identifier: GPL-2.0

//! The private data that both ends exchange while they connect (RFC 8797).
//!
//! Eight bytes of connection manager private data: how long a Send each end posts and receives,
//! and whether it may invalidate the other's memory when it sends. Absent, short or unknown data
//! counts as absent; it never fails a connection.

use crate::error::Misuse;

const FORMAT: u32 = 0xF6AB_0E18;
const VERSION: u8 = 1;
const REMOTE_INVALIDATION: u8 = 1;

/// The private data of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrivateData {
    send: SizeCode,
    receive: SizeCode,
    remote_invalidation: bool,
}

/// A buffer size as it is on the wire: multiples of 1024 bytes, less one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SizeCode(u8);

impl SizeCode {
    fn new(size: usize) -> Result<Self, Misuse> {
        let code = size
            .checked_div(PrivateData::MIN_SIZE)
            .and_then(|units| units.checked_sub(1))
            .ok_or(Misuse::SmallBuffer(size))?;
        Ok(Self(u8::try_from(code).unwrap_or(u8::MAX)))
    }

    fn size(self) -> usize {
        usize::from(self.0)
            .saturating_add(1)
            .saturating_mul(PrivateData::MIN_SIZE)
    }
}

impl PrivateData {
    /// Bytes on the wire.
    pub const WIRE_LEN: usize = 8;

    /// The smallest size, which needs no private data to be relied on.
    pub const MIN_SIZE: usize = 1024;

    /// Announces buffers of these sizes in bytes.
    ///
    /// They are rounded down to a multiple of 1024, and to 256 KiB at most.
    pub fn new(send: usize, receive: usize, remote_invalidation: bool) -> Result<Self, Misuse> {
        Ok(Self {
            send: SizeCode::new(send)?,
            receive: SizeCode::new(receive)?,
            remote_invalidation,
        })
    }

    /// Parses the private data of the peer. Bytes after the first eight are ignored: some
    /// connection managers always deliver a fixed, zero-padded area.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let [f0, f1, f2, f3, VERSION, flags, send, receive] = *bytes.first_chunk()? else {
            return None;
        };
        if u32::from_be_bytes([f0, f1, f2, f3]) != FORMAT {
            return None;
        }
        Some(Self {
            send: SizeCode(send),
            receive: SizeCode(receive),
            remote_invalidation: flags & REMOTE_INVALIDATION != 0,
        })
    }

    /// Returns the bytes for the connection manager.
    pub fn emit(&self) -> [u8; Self::WIRE_LEN] {
        let [f0, f1, f2, f3] = FORMAT.to_be_bytes();
        let flags = if self.remote_invalidation {
            REMOTE_INVALIDATION
        } else {
            0
        };
        [f0, f1, f2, f3, VERSION, flags, self.send.0, self.receive.0]
    }

    /// Returns the same without remote invalidation: the peer must not invalidate memory of this
    /// end.
    pub fn without_remote_invalidation(self) -> Self {
        Self {
            remote_invalidation: false,
            ..self
        }
    }

    /// Returns the length of the longest Send.
    pub fn send_size(&self) -> usize {
        self.send.size()
    }

    /// Returns the length of the longest Receive.
    pub fn receive_size(&self) -> usize {
        self.receive.size()
    }

    /// Returns whether this end announces remote invalidation.
    pub fn remote_invalidation(&self) -> bool {
        self.remote_invalidation
    }
}

/// Returns whether a Responder may invalidate the Requester's memory with its reply: both announced
/// it.
///
/// A Requester does not ask this. It looks at each completion, since a peer may invalidate
/// unannounced and need not invalidate at all.
pub fn may_invalidate(ours: PrivateData, theirs: Option<PrivateData>) -> bool {
    ours.remote_invalidation && theirs.is_some_and(|theirs| theirs.remote_invalidation)
}

/// Returns whether a Requester with this private data takes a short reply to a Call that offered a
/// Reply chunk.
///
/// RFC 8166, section 4.3.3 allows it, but Linux before 4.14 takes a Reply chunk in the header of a
/// short reply, whose lengths are zero, for an error, and fails the call. All versions of Linux
/// announce Receives of 4096 bytes at most, so whoever announces longer ones is another Requester.
pub fn takes_unused_reply_chunk(theirs: Option<PrivateData>) -> bool {
    theirs.is_some_and(|theirs| theirs.receive_size() > 4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_receives_say_that_a_reply_chunk_may_be_unused() {
        let takes = |size| {
            let data = PrivateData::new(4096, size, true).ok();
            takes_unused_reply_chunk(data)
        };
        assert!(!takes_unused_reply_chunk(None));
        assert!(!takes(1024));
        assert!(!takes(4096));
        assert!(takes(5120));
        assert!(takes(8192));
    }

    #[test]
    fn client_of_four_kib_looks_like_this() {
        let data = PrivateData::new(4096, 4096, true).unwrap();
        assert_eq!(data.emit(), [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3]);
        assert_eq!(PrivateData::parse(&data.emit()), Some(data));
    }

    // Shows S3.3.3-06, P-06.
    #[test]
    fn sizes_are_rounded_down_and_capped() {
        let sizes = |size| PrivateData::new(size, size, false).map(|data| data.send_size());
        assert_eq!(sizes(1023), Err(Misuse::SmallBuffer(1023)));
        assert_eq!(sizes(2047), Ok(1024));
        assert_eq!(sizes(262_144), Ok(262_144));
        assert_eq!(sizes(300_000), Ok(262_144));
    }
}
