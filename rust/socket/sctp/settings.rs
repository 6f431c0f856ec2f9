// SPDX-License-Identifier: GPL-2.0

//! Socket options, set before a socket connects or listens. Children of a listener inherit all of
//! them.

use crate::socket::Socket;
use kernel::error::Result;

/// Socket options of an association.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The adaptation layer indication (RFC 5061, section 4.2.6) that is announced to the peer.
    pub adaptation: u32,
    /// Streams in each direction.
    pub streams: u16,
    /// The least retransmission timeout, in milliseconds.
    pub min_rto_ms: u32,
    /// The greatest retransmission timeout, in milliseconds.
    pub max_rto_ms: u32,
    /// The size of the receive buffer in octets, of which half is the window.
    pub receive_buffer: u32,
    /// The size of the send buffer in octets, with the overhead of SCTP for each chunk.
    pub send_buffer: u32,
}

/// The initial retransmission timeout, without a measurement, in milliseconds.
const INITIAL_RTO_MS: u32 = 1_000;

impl Settings {
    /// Sets the options of `socket`, which has no association yet. Sleeps.
    pub(super) fn apply(&self, socket: &Socket) -> Result {
        let set = |name, value: u32| socket.set_option(iwraw::IPPROTO_SCTP, name, &value);
        socket.set_option(
            iwraw::IPPROTO_SCTP,
            iwraw::SCTP_EVENTS,
            // Without SCTP_SENDER_DRY_EVENT. A peer that acknowledges the same again and again
            // would cause one each time, and nothing limits their memory.
            &iwraw::sctp_event_subscribe {
                sctp_association_event: 1,
                sctp_shutdown_event: 1,
                sctp_adaptation_layer_event: 1,
                ..Default::default()
            },
        )?;
        socket.set_option(
            iwraw::IPPROTO_SCTP,
            iwraw::SCTP_INITMSG,
            &iwraw::sctp_initmsg {
                sinit_num_ostreams: self.streams,
                sinit_max_instreams: self.streams,
                ..Default::default()
            },
        )?;
        socket.set_option(
            iwraw::IPPROTO_SCTP,
            iwraw::SCTP_RTOINFO,
            &iwraw::sctp_rtoinfo {
                srto_initial: INITIAL_RTO_MS.clamp(self.min_rto_ms, self.max_rto_ms),
                srto_min: self.min_rto_ms,
                srto_max: self.max_rto_ms,
                ..Default::default()
            },
        )?;
        set(iwraw::SCTP_ADAPTATION_LAYER, self.adaptation)?;
        // No chunk waits for another one to share its packet, nor is a short one held back for the
        // next, as it might be (RFC 5043, section 11.2).
        set(iwraw::SCTP_NODELAY, 1)?;
        set(iwraw::SCTP_DISABLE_FRAGMENTS, 1)?;
        set(iwraw::SCTP_RECVRCVINFO, 1)?;
        // SAFETY: `socket` owns the socket. The function takes the socket's lock itself, and
        // doubles the number.
        unsafe { iwraw::sock_set_rcvbuf(socket.sk(), i32::try_from(self.receive_buffer / 2)?) };
        let send_buffer = i32::try_from(self.send_buffer)?;
        let locked = socket.lock();
        let sk = locked.sk();
        // SAFETY: `locked` holds the socket's lock, under which these fields change.
        unsafe {
            // A task that waits for memory may depend on octets that are sent here: no reclaim by
            // file systems or devices.
            (&raw mut (*sk).sk_allocation).write(iwraw::GFP_NOIO);
            (&raw mut (*sk).sk_use_task_frag).write(false);
            (&raw mut (*sk).sk_sndbuf).write_volatile(send_buffer);
            // Otherwise a moment of memory shortage makes it small for ever: SCTP never enlarges it
            // again.
            let user_locks = (&raw const (*sk).sk_userlocks).read() | iwraw::SOCK_SNDBUF_LOCK as u8;
            (&raw mut (*sk).sk_userlocks).write(user_locks);
        }
        Ok(())
    }
}
