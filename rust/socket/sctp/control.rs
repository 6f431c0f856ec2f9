// SPDX-License-Identifier: GPL-2.0

//! Control messages of a call, which accompany a chunk (RFC 6458, section 5.3).
//!
//! C header: [`include/linux/socket.h`](srctree/include/linux/socket.h), `struct cmsghdr`

use core::ffi::c_void;
use core::mem::size_of;
use core::mem::size_of_val;

/// The parameters of a chunk to be sent.
#[repr(C, align(8))]
pub(super) struct SendInfo {
    header: iwraw::cmsghdr,
    info: iwraw::sctp_sndinfo,
}

impl SendInfo {
    /// Creates the parameters of an unordered chunk on stream 0, with this payload protocol
    /// identifier.
    pub(super) fn new(ppid: u32) -> Self {
        Self {
            header: iwraw::cmsghdr {
                cmsg_len: size_of::<Self>(),
                // CAST: Small numbers.
                cmsg_level: iwraw::IPPROTO_SCTP as i32,
                cmsg_type: iwraw::sctp_cmsg_type_SCTP_SNDINFO as i32,
            },
            info: iwraw::sctp_sndinfo {
                // CAST: A small number.
                snd_flags: iwraw::sctp_sinfo_flags_SCTP_UNORDERED as u16,
                // SCTP sends it as it is.
                snd_ppid: ppid.to_be(),
                ..Default::default()
            },
        }
    }

    /// Attaches it to a message. It must stay where it is as long as that is used.
    pub(super) fn attach(&mut self, message: &mut iwraw::msghdr) {
        message.__bindgen_anon_1.msg_control = (&raw mut *self).cast::<c_void>();
        message.msg_controllen = size_of_val(self);
    }
}

/// The parameters of a received chunk.
#[repr(C, align(8))]
#[derive(Default)]
pub(super) struct ReceiveInfo {
    header: iwraw::cmsghdr,
    info: iwraw::sctp_rcvinfo,
    padding: u32,
}

impl ReceiveInfo {
    /// Attaches it to a message. It must stay where it is as long as that is used.
    pub(super) fn attach(&mut self, message: &mut iwraw::msghdr) {
        message.__bindgen_anon_1.msg_control = (&raw mut *self).cast::<c_void>();
        message.msg_controllen = size_of_val(self);
    }

    /// Returns the parameters that C wrote: stream, payload protocol identifier, and whether the
    /// chunk was unordered. [`None`] if C wrote nothing.
    pub(super) fn get(&self) -> Option<(u16, u32, bool)> {
        // CAST: Small numbers.
        let expected = (
            iwraw::IPPROTO_SCTP as i32,
            iwraw::sctp_cmsg_type_SCTP_RCVINFO as i32,
        );
        let unordered = u32::from(self.info.rcv_flags) & iwraw::sctp_sinfo_flags_SCTP_UNORDERED;
        let found = (self.header.cmsg_level, self.header.cmsg_type);
        let ppid = u32::from_be(self.info.rcv_ppid);
        (found == expected).then_some((self.info.rcv_sid, ppid, unordered != 0))
    }
}
