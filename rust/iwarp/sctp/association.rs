// SPDX-License-Identifier: GPL-2.0

//! An association, and its session (RFC 5043, sections 6 and 11.1).

use crate::prelude::*;
use provider::{
    borrowed::Piece,
    errno::econnrefused,
    zeroed, //
};
use rdmap::{
    rx::HEAD_LEN,
    sctp::{
        chunk,
        session,
        window, //
    }, //
};
use socket::{
    sctp::{
        Association,
        Notification,
        Received,
        Sent,
        Settings, //
    },
    SendBuf, //
};

/// The greatest length in octets of a chunk's user data.
const MAX_CHUNK: usize = 65_536;

/// The greatest length in octets of a control message.
const MAX_CONTROL: usize = chunk::CONTROL_LEN + chunk::MAX_PRIVATE_DATA;

/// Octets of the send buffer that a chunk takes at least.
const MIN_CHUNK_MEMORY: u32 = 512;

/// Socket options of every association, set before it is established; there is no other mode, for
/// no consumer. The send buffer keeps the number of unacknowledged chunks well below
/// [`MAX_OUTSTANDING`](rdmap::sctp::window::MAX_OUTSTANDING).
// Argues for S7.1-1, S7.1-3, S11.1-3.
pub(super) const SETTINGS: Settings = Settings {
    adaptation: chunk::ADAPTATION,
    // As many as are used (RFC 5043, section 8): there is one session. SCTP itself refuses chunks
    // of others then.
    streams: 1,
    min_rto_ms: 500,
    max_rto_ms: 10_000,
    receive_buffer: 4 << 20,
    send_buffer: 4 << 20,
};

/// How often SCTP sends again what the peer does not acknowledge when nobody waits for the
/// association any more. Each timeout is twice the one before, up to `max_rto_ms`, so that takes 15
/// seconds on a quick path, 39 if SCTP does not know the path's round-trip time yet, and 50 at
/// most.
const RETRANSMISSIONS_ALONE: u16 = 4;

/// The order of the peer's chunks.
pub(super) type Order = window::RxWindow<KBox<window::Bits>>;

/// Creates the order of a new session. Sleeps.
pub(super) fn order() -> Result<Order> {
    Ok(window::RxWindow::new(KBox::new(
        [0; window::WORDS],
        GFP_KERNEL,
    )?))
}

/// The state of the association.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AssocState {
    /// SCTP sets it up.
    SettingUp,
    /// It is up.
    Up,
    /// The peer has announced DDP.
    Ready,
}

/// An association and its session.
pub(super) struct DdpAssociation {
    association: Association<EventTarget>,
    pub(super) session: session::Session,
    tx_window: window::TxWindow,
    state: AssocState,
    // The first control message, until SCTP has it; then the Terminate.
    first_control: Option<KVec<u8>>,
    terminate_pending: bool,
    pub(super) terminate_sent: bool,
    // Room for the octets of [`ChunkData::head`].
    head: KVec<u8>,
}

impl DdpAssociation {
    /// Creates a new session. Sleeps.
    pub(super) fn new(association: Association<EventTarget>) -> Result<Self> {
        Ok(Self {
            head: zeroed::vec(MAX_CONTROL, GFP_KERNEL_ACCOUNT)?,
            association,
            session: session::Session::new(),
            tx_window: window::TxWindow::new(),
            state: AssocState::SettingUp,
            first_control: None,
            terminate_pending: false,
            terminate_sent: false,
        })
    }

    /// Returns whether both ends have announced DDP.
    pub(super) fn is_ready(&self) -> bool {
        self.state == AssocState::Ready
    }

    /// Returns the reason why there is no association.
    pub(super) fn connect_error(&self) -> ConnectError {
        match self.association.error() {
            Some(error) if error == econnrefused() => ConnectError::Refused,
            Some(error) if error == ETIMEDOUT => ConnectError::TimedOut,
            _ => ConnectError::Reset,
        }
    }

    /// Receives the next chunk or end. A chunk is to be [taken](Self::take) before the next call.
    pub(super) fn recv(&mut self) -> RecvOutcome {
        loop {
            let Ok(arrived) = self.association.receive() else {
                return RecvOutcome::Lost;
            };
            match arrived {
                // The indication follows on the notification that the association is up, or there
                // is none (RFC 5043, section 11.1).
                Received::Nothing if self.state == AssocState::Up => return RecvOutcome::Violation,
                Received::Nothing => return RecvOutcome::Nothing,
                Received::End => return RecvOutcome::End,
                Received::Chunk {
                    stream: 0,
                    len,
                    ppid,
                    unordered,
                    whole,
                } if self.is_ready() => {
                    let wanted = match ppid {
                        chunk::PPID_SEGMENT => chunk::SSN_LEN.saturating_add(HEAD_LEN),
                        _ => MAX_CONTROL,
                    };
                    let mut head = core::mem::replace(&mut self.head, KVec::new());
                    let head_len = len.min(wanted).min(head.len());
                    let to = head.get_mut(..head_len).unwrap_or_default();
                    let read = self.association.copy_to_slice(0, to);
                    let data = ChunkData {
                        head,
                        head_len,
                        len,
                        ppid,
                        unordered,
                        whole,
                    };
                    return match read {
                        Ok(()) => RecvOutcome::Data(data),
                        Err(_) => RecvOutcome::Lost,
                    };
                }
                // It is of no session of this association: its numbers mean nothing here. Unread,
                // it would make SCTP abort the association.
                Received::Chunk { .. } => {
                    return match self.association.take() {
                        Ok(()) => RecvOutcome::Violation,
                        Err(_) => RecvOutcome::Lost,
                    }
                }
                Received::Notification(notification) => match notification {
                    // As many streams in each direction (section 8).
                    Notification::Up { outbound, inbound }
                        if self.state == AssocState::SettingUp && outbound == inbound =>
                    {
                        self.state = AssocState::Up;
                    }
                    Notification::Adaptation(chunk::ADAPTATION) if self.state == AssocState::Up => {
                        self.state = AssocState::Ready;
                    }
                    Notification::Up { .. } | Notification::Adaptation(_) => {
                        return RecvOutcome::Violation
                    }
                    Notification::NotUp | Notification::Lost | Notification::Restarted => {
                        return RecvOutcome::Lost;
                    }
                    Notification::Ended => return RecvOutcome::End,
                    Notification::PeerShutDown | Notification::Other => {}
                },
            }
        }
    }

    /// Takes a chunk, of which nothing is needed any more. An error is the association's.
    pub(super) fn take(&mut self, data: ChunkData) -> Result {
        self.head = data.head;
        self.association.take()
    }

    /// Copies octets of the chunk that was received, from `offset` on, to the whole of `to`. An
    /// error if it has fewer.
    pub(super) fn copy_to(&self, offset: usize, to: Piece<'_>) -> Result {
        self.association.copy_to(offset, to)
    }

    /// Does the same with a slice.
    pub(super) fn copy_to_slice(&self, offset: usize, to: &mut [u8]) -> Result {
        self.association.copy_to_slice(offset, to)
    }

    /// Takes note of the chunks that the peer has acknowledged.
    pub(super) fn note_acked(&mut self) -> Option<session::Indication> {
        let queued = self.association.unacknowledged();
        if queued > 0 {
            let chunks = u16::try_from(queued.div_ceil(MIN_CHUNK_MEMORY));
            self.tx_window.limit_to(chunks.unwrap_or(u16::MAX));
            return None;
        }
        if self.tx_window.is_dry() {
            return None;
        }
        // Nobody else sends, so nothing has been sent since.
        self.tx_window.sender_dry();
        self.on(session::Event::SenderDry).indication
    }

    /// Does the same as [`Self::note_acked`], and requests an event for the next acknowledgement.
    pub(super) fn note_acked_and_watch(&mut self) {
        self.note_acked();
        // If that was not requested before, the peer may have acknowledged everything since.
        if !self.tx_window.is_dry() && self.association.request_write_space() {
            self.note_acked();
        }
    }

    /// Returns whether a control message is due that SCTP does not have yet.
    pub(super) fn has_control_pending(&self) -> bool {
        self.first_control.is_some() || self.terminate_pending
    }

    /// Passes an event to the session. A message that it sends goes with the next
    /// [flush](Self::flush).
    pub(super) fn on(&mut self, event: session::Event) -> session::Action {
        let action = self.session.on(event);
        if action.send == Some(chunk::Function::Terminate) {
            self.terminate_pending = true;
        }
        action
    }

    /// Queues the first control message of this end: an Initiate, or its answer.
    pub(super) fn queue_control(&mut self, control: &chunk::Control<'_>) -> Result {
        let len = chunk::CONTROL_LEN + chunk::MAX_PRIVATE_DATA;
        let mut octets: KVec<u8> = zeroed::vec(len, GFP_KERNEL)?;
        let ssn = self.tx_window.peek().ok_or(EINVAL)?;
        let len = control.emit(ssn, &mut octets).map_err(|_| EINVAL)?;
        octets.truncate(len);
        self.first_control = Some(octets);
        Ok(())
    }

    /// Sends the control messages that are due. Returns false if there was no space. An error is
    /// the association's.
    pub(super) fn flush(&mut self) -> Result<bool> {
        if let Some(first) = self.first_control.take() {
            if self.send_chunk(chunk::PPID_CONTROL, &first)? != Sent::Done {
                self.first_control = Some(first);
                return Ok(false);
            }
        }
        if self.terminate_pending {
            let Some(ssn) = self.tx_window.peek() else {
                return Ok(false);
            };
            let mut octets = [0; chunk::CONTROL_LEN];
            let terminate = chunk::Control::bare(chunk::Function::Terminate);
            let len = terminate.emit(ssn, &mut octets).map_err(|_| EINVAL)?;
            let octets = octets.get(..len).unwrap_or_default();
            if self.send_chunk(chunk::PPID_CONTROL, octets)? != Sent::Done {
                return Ok(false);
            }
            self.terminate_pending = false;
            self.terminate_sent = true;
        }
        Ok(true)
    }

    /// Returns the number of the next chunk, or [`None`] while the window is full.
    pub(super) fn ssn(&self) -> Option<u16> {
        self.tx_window.peek()
    }

    /// Sends a chunk, which begins with [`Self::ssn`].
    pub(super) fn send_chunk(&mut self, ppid: u32, octets: &[u8]) -> Result<Sent> {
        self.send_pieces(ppid, [SendBuf::from(octets)])
    }

    /// Sends a chunk in pieces, which begins with [`Self::ssn`].
    pub(super) fn send_pieces<'a>(
        &mut self,
        ppid: u32,
        pieces: impl IntoIterator<Item = SendBuf<'a>> + Clone,
    ) -> Result<Sent> {
        let sent = self.association.send_pieces(ppid, pieces)?;
        if sent == Sent::Done {
            self.tx_window.sent();
        }
        Ok(sent)
    }

    /// Returns the greatest length of a segment in octets, for the path MTU that is known now.
    pub(super) fn mulpdu(&self) -> u32 {
        chunk::mulpdu(self.association.fragmentation_point())
    }

    /// Shuts the association down behind everything that was sent.
    pub(super) fn shutdown(&self) {
        self.association.shutdown();
    }

    /// Aborts the association, whatever is under way. Sleeps.
    pub(super) fn abort(self) {
        self.association.abort_when_dropped();
    }
}

impl Drop for DdpAssociation {
    fn drop(&mut self) {
        // SCTP continues alone with what is under way, and the network namespace of the socket
        // stays as long.
        self.association.limit_delivery(RETRANSMISSIONS_ALONE);
    }
}

/// The outcome of receiving.
pub(super) enum RecvOutcome {
    /// There is nothing more for now.
    Nothing,
    /// User data of a chunk.
    Data(ChunkData),
    /// The peer sends nothing more, and the association ends in order.
    End,
    /// The association is lost, or was never up.
    Lost,
    /// The peer does not speak DDP.
    Violation,
}

/// The user data of a chunk, which is to be
/// [taken](super::association::DdpAssociation::take).
pub(super) struct ChunkData {
    head: KVec<u8>,
    head_len: usize,
    /// The length of all of it, in octets.
    pub(super) len: usize,
    /// Payload protocol identifier.
    pub(super) ppid: u32,
    /// It was sent for unordered delivery.
    unordered: bool,
    /// The chunk ends with it.
    whole: bool,
}

impl ChunkData {
    /// Parses the chunk. Of a segment only the first [`HEAD_LEN`] octets are there. Returns
    /// [`None`] if it is not one of RFC 5043, all of which are whole.
    pub(super) fn chunk(&self) -> Option<chunk::Chunk<'_>> {
        let is_whole = self.whole && self.len <= MAX_CHUNK;
        // A longer control message is none.
        let is_read = self.ppid == chunk::PPID_SEGMENT || self.head_len == self.len;
        let head = self.head.get(..self.head_len)?;
        match is_whole && is_read {
            true => chunk::Chunk::parse(self.ppid, self.unordered, head).ok(),
            false => None,
        }
    }
}
