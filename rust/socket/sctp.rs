// SPDX-License-Identifier: GPL-2.0

//! SCTP sockets of the kernel, one association each: chunks out, chunks and notifications in.
//!
//! C headers: [`include/uapi/linux/sctp.h`](srctree/include/uapi/linux/sctp.h),
//! [`include/linux/socket.h`](srctree/include/linux/socket.h), `struct cmsghdr`
//!
//! Nothing of SCTP is linked to, so that its module is loaded only while it is used: a socket is
//! created by the protocol's number, and everything else goes through the functions of the socket.
//!
//! A chunk that has arrived is read where it lies, and then taken ([`queue`]).
//!
//! Every chunk is sent unordered and unfragmented; a longer one is refused, and
//! [`Association::fragmentation_point`] says how long it may be now.

pub(crate) mod addresses;
mod association;
mod queue;

use crate::listener;
use crate::prelude::*;
pub use addresses::{
    check as check_addresses,
    contains as has_address, //
};
pub use association::{
    Association,
    Received,
    Sent, //
};
use core::ptr;

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
    fn apply(&self, socket: &Socket) -> Result {
        let set = |name, value: u32| socket.set_option(cbindings::IPPROTO_SCTP, name, &value);
        socket.set_option(
            cbindings::IPPROTO_SCTP,
            cbindings::SCTP_EVENTS,
            // Without SCTP_SENDER_DRY_EVENT. A peer that acknowledges the same again and again
            // would cause one each time, and nothing limits their memory.
            &cbindings::sctp_event_subscribe {
                sctp_association_event: 1,
                sctp_shutdown_event: 1,
                sctp_adaptation_layer_event: 1,
                ..Default::default()
            },
        )?;
        socket.set_option(
            cbindings::IPPROTO_SCTP,
            cbindings::SCTP_INITMSG,
            &cbindings::sctp_initmsg {
                sinit_num_ostreams: self.streams,
                sinit_max_instreams: self.streams,
                ..Default::default()
            },
        )?;
        socket.set_option(
            cbindings::IPPROTO_SCTP,
            cbindings::SCTP_RTOINFO,
            &cbindings::sctp_rtoinfo {
                srto_initial: INITIAL_RTO_MS.clamp(self.min_rto_ms, self.max_rto_ms),
                srto_min: self.min_rto_ms,
                srto_max: self.max_rto_ms,
                ..Default::default()
            },
        )?;
        set(cbindings::SCTP_ADAPTATION_LAYER, self.adaptation)?;
        // No chunk waits for another one to share its packet, nor is a short one held back for the
        // next, as it might be (RFC 5043, section 11.2).
        // Argues for S11.2-1, S11.2-2.
        set(cbindings::SCTP_NODELAY, 1)?;
        set(cbindings::SCTP_DISABLE_FRAGMENTS, 1)?;
        // SAFETY: `socket` owns the socket. The function takes the socket's lock itself, and
        // doubles the number.
        unsafe { cbindings::sock_set_rcvbuf(socket.sk(), i32::try_from(self.receive_buffer / 2)?) };
        let send_buffer = i32::try_from(self.send_buffer)?;
        let locked = socket.lock();
        let sk = locked.sk();
        // SAFETY: `locked` holds the socket's lock, under which these fields change.
        unsafe {
            // A task that waits for memory may depend on octets that are sent here: no reclaim by
            // file systems or devices.
            (&raw mut (*sk).sk_allocation).write(cbindings::GFP_NOIO);
            (&raw mut (*sk).sk_use_task_frag).write(false);
            (&raw mut (*sk).sk_sndbuf).write_volatile(send_buffer);
            // Otherwise a moment of memory shortage makes it small for ever: SCTP never enlarges it
            // again.
            let user_locks =
                (&raw const (*sk).sk_userlocks).read() | cbindings::SOCK_SNDBUF_LOCK as u8;
            (&raw mut (*sk).sk_userlocks).write(user_locks);
        }
        Ok(())
    }
}

/// A notification of SCTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// The association is up, with these numbers of streams.
    Up {
        /// Streams from this end.
        outbound: u16,
        /// Streams to this end.
        inbound: u16,
    },
    /// It could not be set up.
    NotUp,
    /// It is lost: the peer aborted it, or does not answer any more.
    Lost,
    /// The peer has lost its state and set it up anew. Chunks that were under way are lost.
    Restarted,
    /// It has ended in order.
    Ended,
    /// The peer will send no more.
    PeerShutDown,
    /// The adaptation layer indication that the peer announced. It follows on [`Self::Up`], if at
    /// all.
    Adaptation(u32),
    /// Something else.
    Other,
}

/// Reads a structure of C from its octets. Returns [`None`] if they are fewer.
fn read<T>(octets: &[u8]) -> Option<T> {
    let octets = octets.get(..size_of::<T>())?;
    // SAFETY: There are as many octets. All callers are below: their structures consist of
    // integers.
    Some(unsafe { ptr::read_unaligned(octets.as_ptr().cast()) })
}

impl Notification {
    /// Reads a notification.
    fn parse(octets: &[u8]) -> Self {
        Self::try_parse(octets).unwrap_or(Self::Other)
    }

    fn try_parse(octets: &[u8]) -> Option<Self> {
        let kind = u16::from_ne_bytes(*octets.first_chunk()?);
        Some(match u32::from(kind) {
            cbindings::sctp_sn_type_SCTP_ASSOC_CHANGE => {
                let change: cbindings::sctp_assoc_change = read(octets)?;
                match u32::from(change.sac_state) {
                    cbindings::sctp_sac_state_SCTP_COMM_UP => Self::Up {
                        outbound: change.sac_outbound_streams,
                        inbound: change.sac_inbound_streams,
                    },
                    cbindings::sctp_sac_state_SCTP_COMM_LOST => Self::Lost,
                    cbindings::sctp_sac_state_SCTP_RESTART => Self::Restarted,
                    cbindings::sctp_sac_state_SCTP_SHUTDOWN_COMP => Self::Ended,
                    cbindings::sctp_sac_state_SCTP_CANT_STR_ASSOC => Self::NotUp,
                    _ => Self::Other,
                }
            }
            cbindings::sctp_sn_type_SCTP_SHUTDOWN_EVENT => Self::PeerShutDown,
            cbindings::sctp_sn_type_SCTP_ADAPTATION_INDICATION => {
                let event: cbindings::sctp_adaptation_event = read(octets)?;
                Self::Adaptation(event.sai_adaptation_ind)
            }
            _ => Self::Other,
        })
    }
}

/// The parameters of a chunk to be sent.
#[repr(C, align(8))]
struct SendInfo {
    header: cbindings::cmsghdr,
    info: cbindings::sctp_sndinfo,
}

impl SendInfo {
    /// Creates the parameters of an unordered chunk on stream 0, with this payload protocol
    /// identifier.
    fn new(ppid: u32) -> Self {
        Self {
            header: cbindings::cmsghdr {
                cmsg_len: size_of::<Self>(),
                // CAST: Small numbers.
                cmsg_level: cbindings::IPPROTO_SCTP as i32,
                cmsg_type: cbindings::sctp_cmsg_type_SCTP_SNDINFO as i32,
            },
            info: cbindings::sctp_sndinfo {
                // CAST: A small number.
                snd_flags: cbindings::sctp_sinfo_flags_SCTP_UNORDERED as u16,
                // SCTP sends it as it is.
                snd_ppid: ppid.to_be(),
                ..Default::default()
            },
        }
    }

    /// Attaches it to a message. It must stay where it is as long as that is used.
    fn attach(&mut self, message: &mut cbindings::msghdr) {
        message.__bindgen_anon_1.msg_control = (&raw mut *self).cast::<c_void>();
        message.msg_controllen = size_of_val(self);
    }
}

/// The protocol SCTP.
pub enum Sctp {}

/// A listening socket.
pub type Listener<E> = listener::ListeningSocket<E, Sctp>;

/// An association of a peer, without a receiver of its events.
pub type Accepted = listener::AcceptedSocket<Sctp>;

impl<E: Events> Listener<E> {
    /// Listens at `address`, which is not a wildcard: all addresses of the host would be offered to
    /// peers. It may still be tentative. Peers are offered [secondary addresses](check_addresses)
    /// with it. At most `backlog` associations wait to be accepted.
    ///
    /// [`Event::StateChanged`](crate::Event::StateChanged) reports an association to `events`,
    /// maybe before this returns. Associations inherit `settings`. Sleeps. `EADDRINUSE` if somebody
    /// listens there.
    pub fn new(
        net: &Net,
        address: SocketAddr,
        backlog: u32,
        settings: &Settings,
        events: Arc<E>,
    ) -> Result<Self> {
        let socket = Socket::new(net, &address, Protocol::Sctp)?;
        settings.apply(&socket)?;
        // SAFETY: `socket` owns the socket. The function takes the socket's lock itself.
        unsafe { cbindings::ip_sock_set_freebind(socket.sk()) };
        listener::bind(&socket, address)?;
        // Secondary addresses must exist.
        socket.set_option(cbindings::IPPROTO_IP, cbindings::IP_FREEBIND, &0_u32)?;
        let listener = Self::listen(socket, backlog, events)?;
        listener.update_addresses(address);
        Ok(listener)
    }

    /// Updates the [secondary addresses](check_addresses) that peers of this listener, which is at
    /// `address`, are offered. Sleeps for the socket's lock.
    pub fn update_addresses(&self, address: SocketAddr) {
        addresses::bind_secondary(&self.socket, address);
    }
}

impl Accepted {
    /// Reports events to `events` from now on, maybe before this returns; and once everything that
    /// can have happened before. Sleeps.
    pub fn attach<E: Events>(self, events: Arc<E>) -> Result<Association<E>> {
        Association::new(self.socket, events)
    }
}
