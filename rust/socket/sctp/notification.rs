// SPDX-License-Identifier: GPL-2.0

//! Notifications of an association (RFC 6458, section 6.1), which come between received chunks.

use core::mem::size_of;
use core::ptr;

/// A notification of SCTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// The association is up, with so many streams.
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
    pub(super) fn parse(octets: &[u8]) -> Self {
        Self::try_parse(octets).unwrap_or(Self::Other)
    }

    fn try_parse(octets: &[u8]) -> Option<Self> {
        let kind = u16::from_ne_bytes(*octets.first_chunk()?);
        Some(match u32::from(kind) {
            iwraw::sctp_sn_type_SCTP_ASSOC_CHANGE => {
                let change: iwraw::sctp_assoc_change = read(octets)?;
                match u32::from(change.sac_state) {
                    iwraw::sctp_sac_state_SCTP_COMM_UP => Self::Up {
                        outbound: change.sac_outbound_streams,
                        inbound: change.sac_inbound_streams,
                    },
                    iwraw::sctp_sac_state_SCTP_COMM_LOST => Self::Lost,
                    iwraw::sctp_sac_state_SCTP_RESTART => Self::Restarted,
                    iwraw::sctp_sac_state_SCTP_SHUTDOWN_COMP => Self::Ended,
                    iwraw::sctp_sac_state_SCTP_CANT_STR_ASSOC => Self::NotUp,
                    _ => Self::Other,
                }
            }
            iwraw::sctp_sn_type_SCTP_SHUTDOWN_EVENT => Self::PeerShutDown,
            iwraw::sctp_sn_type_SCTP_ADAPTATION_INDICATION => {
                let event: iwraw::sctp_adaptation_event = read(octets)?;
                Self::Adaptation(event.sai_adaptation_ind)
            }
            _ => Self::Other,
        })
    }
}
