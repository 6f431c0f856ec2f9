// SPDX-License-Identifier: GPL-2.0

//! An association, and its session (RFC 5043, sections 6 and 11.1).

use crate::lower::Failure;
use crate::sctp::heard::Data;
use crate::sctp::heard::Heard;
use crate::waker::Waker;
use kernel::alloc::KVVec;
use kernel::error::code::ETIMEDOUT;
use kernel::prelude::*;
use provider::errno::econnrefused;
use rdmap::sctp::chunk;
use rdmap::sctp::chunk::Control;
use rdmap::sctp::chunk::Function;
use rdmap::sctp::session::Action;
use rdmap::sctp::session::Event;
use rdmap::sctp::session::Session;
use rdmap::sctp::session::Tell;
use rdmap::sctp::window::Bits;
use rdmap::sctp::window::Numbers;
use rdmap::sctp::window::Window;
use rdmap::sctp::window::WORDS;
use socket::sctp::Arrived;
use socket::sctp::Association;
use socket::sctp::Notification;
use socket::sctp::Sent;
use socket::sctp::Settings;

/// The greatest length in octets of a chunk's user data, and of a notification.
pub(super) const LONGEST: usize = 65_536;

/// Octets of the send buffer that a chunk takes at least.
const CHUNK_COST: u32 = 512;

/// Socket options of every association, set before it is established; there is no other mode, for
/// no consumer. The send buffer keeps the number of unacknowledged chunks well below
/// [`MAX_OUTSTANDING`](rdmap::sctp::window::MAX_OUTSTANDING).
pub(super) const SETTINGS: Settings = Settings {
    adaptation: chunk::ADAPTATION,
    // As many as are used (RFC 5043, section 8): there is one session. SCTP itself refuses chunks
    // of others then.
    streams: 1,
    least_rto_ms: 500,
    most_rto_ms: 10_000,
    receive_buffer: 4 << 20,
    send_buffer: 4 << 20,
};

/// The order of the peer's chunks.
pub(super) type Order = Window<KBox<Bits>>;

/// Creates the order of a new session. Sleeps.
pub(super) fn order() -> Result<Order> {
    Ok(Window::new(KBox::new([0; WORDS], GFP_KERNEL)?))
}

/// The state of the association.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begun {
    /// SCTP sets it up.
    Down,
    /// It is up.
    Up,
    /// The peer has announced DDP.
    Ready,
}

/// An association and its session.
pub(super) struct Peer {
    association: Association<Waker>,
    pub(super) session: Session,
    numbers: Numbers,
    begun: Begun,
    // The first control message, until SCTP has it; then the Terminate.
    first: Option<KVec<u8>>,
    terminate: bool,
    pub(super) terminated: bool,
    buffer: KVVec<u8>,
}

impl Peer {
    /// Creates a new session. Sleeps.
    pub(super) fn new(association: Association<Waker>) -> Result<Self> {
        Ok(Self {
            buffer: KVVec::from_elem(0, LONGEST, GFP_KERNEL)?,
            association,
            session: Session::new(),
            numbers: Numbers::new(),
            begun: Begun::Down,
            first: None,
            terminate: false,
            terminated: false,
        })
    }

    /// Says whether both ends have announced DDP.
    pub(super) fn is_ready(&self) -> bool {
        self.begun == Begun::Ready
    }

    /// Returns the reason why there is no association.
    pub(super) fn failure(&self) -> Failure {
        match self.association.error() {
            Some(error) if error == econnrefused() => Failure::Refused,
            Some(error) if error == ETIMEDOUT => Failure::Timeout,
            _ => Failure::Reset,
        }
    }

    /// Receives the next chunk or end. Data are to be [returned](Self::give_back) before the next
    /// call.
    pub(super) fn hear(&mut self) -> Heard {
        loop {
            let Ok(arrived) = self.association.receive(&mut self.buffer) else {
                return Heard::Lost;
            };
            match arrived {
                // The indication follows on the notification that the association is up, or there
                // is none (RFC 5043, section 11.1).
                Arrived::Nothing if self.begun == Begun::Up => return Heard::Wrong,
                Arrived::Nothing => return Heard::Nothing,
                Arrived::End => return Heard::End,
                Arrived::Chunk { .. } if !self.is_ready() => return Heard::Wrong,
                // It is of no session of this association: its numbers mean nothing here.
                Arrived::Chunk { stream: 1.., .. } => return Heard::Wrong,
                Arrived::Chunk {
                    stream: 0,
                    len,
                    ppid,
                    unordered,
                    whole,
                } => {
                    return Heard::Data(Data {
                        buffer: core::mem::replace(&mut self.buffer, KVVec::new()),
                        len,
                        ppid,
                        unordered,
                        whole,
                    })
                }
                Arrived::Told(told) => match told {
                    // As many streams in each direction (section 8).
                    Notification::Up { outbound, inbound }
                        if self.begun == Begun::Down && outbound == inbound =>
                    {
                        self.begun = Begun::Up;
                    }
                    Notification::Adaptation(chunk::ADAPTATION) if self.begun == Begun::Up => {
                        self.begun = Begun::Ready;
                    }
                    Notification::Up { .. } | Notification::Adaptation(_) => return Heard::Wrong,
                    Notification::NotUp | Notification::Lost | Notification::Restarted => {
                        return Heard::Lost;
                    }
                    Notification::Ended => return Heard::End,
                    Notification::PeerShutDown | Notification::Other => {}
                },
            }
        }
    }

    /// Takes the buffer back.
    pub(super) fn give_back(&mut self, data: Data) {
        self.buffer = data.buffer;
    }

    /// Takes note of the chunks that the peer has acknowledged.
    pub(super) fn settle(&mut self) -> Option<Tell> {
        let queued = self.association.unacknowledged();
        if queued > 0 {
            let chunks = u16::try_from(queued.div_ceil(CHUNK_COST));
            self.numbers.at_most(chunks.unwrap_or(u16::MAX));
            return None;
        }
        if self.numbers.is_dry() {
            return None;
        }
        // Nobody else sends, so nothing has been sent since.
        self.numbers.dry();
        self.on(Event::Dry).tell
    }

    /// Does the same as [`Self::settle`], and requests an event for the next acknowledgement.
    pub(super) fn settle_soon(&mut self) {
        self.settle();
        // If that was not requested before, the peer may have acknowledged everything since.
        if !self.numbers.is_dry() && self.association.wants_room() {
            self.settle();
        }
    }

    /// Says whether a control message is due that SCTP does not have yet.
    pub(super) fn is_due(&self) -> bool {
        self.first.is_some() || self.terminate
    }

    /// Passes an event to the session. A message that it sends goes with the next
    /// [flush](Self::flush).
    pub(super) fn on(&mut self, event: Event) -> Action {
        let action = self.session.on(event);
        if action.send == Some(Function::Terminate) {
            self.terminate = true;
        }
        action
    }

    /// Queues the first control message of this end: an Initiate, or its answer.
    pub(super) fn begin(&mut self, control: &Control<'_>) -> Result {
        let len = chunk::CONTROL_LEN + chunk::MAX_PRIVATE_DATA;
        let mut octets = KVec::from_elem(0, len, GFP_KERNEL)?;
        let ssn = self.numbers.peek().ok_or(EINVAL)?;
        let len = control.emit(ssn, &mut octets).map_err(|_| EINVAL)?;
        octets.truncate(len);
        self.first = Some(octets);
        Ok(())
    }

    /// Sends the control messages that are due. Returns false if there was no space. An error is
    /// the association's.
    pub(super) fn flush(&mut self) -> Result<bool> {
        if let Some(first) = self.first.take() {
            if self.hand_over(chunk::PPID_CONTROL, &first)? != Sent::Done {
                self.first = Some(first);
                return Ok(false);
            }
        }
        if self.terminate {
            let Some(ssn) = self.numbers.peek() else {
                return Ok(false);
            };
            let mut octets = [0; chunk::CONTROL_LEN];
            let terminate = Control::bare(Function::Terminate);
            let len = terminate.emit(ssn, &mut octets).map_err(|_| EINVAL)?;
            let octets = octets.get(..len).unwrap_or_default();
            if self.hand_over(chunk::PPID_CONTROL, octets)? != Sent::Done {
                return Ok(false);
            }
            self.terminate = false;
            self.terminated = true;
        }
        Ok(true)
    }

    /// Returns the number of the next chunk, or [`None`] while the window is full.
    pub(super) fn ssn(&self) -> Option<u16> {
        self.numbers.peek()
    }

    /// Sends a chunk, which begins with [`Self::ssn`].
    pub(super) fn hand_over(&mut self, ppid: u32, octets: &[u8]) -> Result<Sent> {
        let sent = self.association.send(ppid, octets)?;
        if sent == Sent::Done {
            self.numbers.sent();
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

    /// Aborts the association, whatever is under way.
    pub(super) fn abort(self) {
        self.association.abort();
    }
}
