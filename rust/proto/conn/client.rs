// SPDX-License-Identifier: GPL-2.0

//! The side that connects.
//!
//! ```text
//! Closed
//!   | Connect: ResolveAddress
//!   v
//! ResolvingAddress ----------------------------+
//!   | AddressResolved: ResolveRoute            |
//!   v                                          |
//! ResolvingRoute ------------------------------+
//!   | RouteResolved: Request                   | Failed, Disconnected, DeviceRemoved,
//!   v                                          | Close: TearDown
//! Connecting ----------------------------------+
//!   | Established: Announce                    |
//!   v                                          |
//! Open ----------------------------------------+
//!   | the third Malformed: TearDown            |
//!   v                                          |
//! Closing <------------------------------------+
//!   | Drained: Release
//!   v
//! Closed
//! ```
//!
//! An arrow has the event, and behind the colon the action. Any other event leaves the state as it
//! is and asks for nothing; so do the first two Malformed.

/// Malformed messages that a connection survives.
///
/// RFC 8166, section 4.5, makes a Requester drop them in silence, and then nothing ends the RPC
/// they were meant for. The connection of a peer that sends more of them is closed, which is no
/// message.
const MAX_MALFORMED: u8 = 2;

/// A connection as the client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnMachine {
    state: State,
    malformed: u8,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No connection, and no resources of the last one.
    Closed,
    /// Resolving the server's address to a device.
    ResolvingAddress,
    /// Resolving the route to the server.
    ResolvingRoute,
    /// Waiting for the server.
    Connecting,
    /// Calls and Replies flow.
    Open,
    /// The connection has ended; the queues are being drained.
    Closing,
}

/// An event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The upper layer wants a connection.
    Connect,
    /// The connection manager resolved the address to a device.
    AddressResolved,
    /// The connection manager resolved the route.
    RouteResolved,
    /// The server accepted.
    Established,
    /// A step failed: not resolved, unreachable, rejected, timed out, or out of resources.
    Failed,
    /// The server or the fabric ended the connection, or gave us a reason to.
    Disconnected,
    /// The device goes away.
    DeviceRemoved,
    /// A message was dropped because it was malformed.
    Malformed,
    /// The upper layer needs no connection any more, or waited too long for a reply.
    Close,
    /// The queues are empty: nothing is under DMA, and no completion will come.
    Drained,
}

/// The action that the caller has to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Resolve the address.
    ResolveAddress,
    /// Resolve the route.
    ResolveRoute,
    /// Create the queues, post the first Receives, then send the connection request.
    Request,
    /// Apply the server's private data, reset the credit window, let Calls flow.
    Announce,
    /// Disconnect and drain the queues, and report [`Event::Drained`] when it is done.
    TearDown,
    /// Free all memory, and tell the upper layer that the connection is gone.
    Release,
}

impl ConnMachine {
    /// Creates the state without a connection.
    pub const fn new() -> Self {
        Self {
            state: State::Closed,
            malformed: 0,
        }
    }

    /// Returns the present state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Changes the state by an event, and returns the action that follows.
    pub fn on(&mut self, event: Event) -> Action {
        let (state, action) = match (self.state, event) {
            (State::Closed, Event::Connect) => (State::ResolvingAddress, Action::ResolveAddress),
            (State::ResolvingAddress, Event::AddressResolved) => {
                (State::ResolvingRoute, Action::ResolveRoute)
            }
            (State::ResolvingRoute, Event::RouteResolved) => (State::Connecting, Action::Request),
            (State::Connecting, Event::Established) => (State::Open, Action::Announce),

            (State::Open, Event::Malformed) if self.malformed < MAX_MALFORMED => {
                self.malformed = self.malformed.saturating_add(1);
                (State::Open, Action::Nothing)
            }
            (State::Open, Event::Malformed) => (State::Closing, Action::TearDown),

            (State::Closing, Event::Drained) => (State::Closed, Action::Release),
            (state @ (State::Closed | State::Closing), _) => (state, Action::Nothing),
            (_, Event::Failed | Event::Disconnected | Event::DeviceRemoved | Event::Close) => {
                (State::Closing, Action::TearDown)
            }

            // Too late to matter, or news that another event told already.
            (state, _) => (state, Action::Nothing),
        };
        self.state = state;
        action
    }
}

impl Default for ConnMachine {
    fn default() -> Self {
        Self::new()
    }
}
