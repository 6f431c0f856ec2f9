// SPDX-License-Identifier: GPL-2.0

//! The side that connects.

/// Malformed messages that a connection survives.
///
/// RFC 8166, section 4.5, has them dropped in silence, and then nothing ends the RPC they were
/// meant for. A peer that goes on like this is left; closing is no message.
const MAX_MALFORMED: u8 = 2;

/// A connection as the client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    state: State,
    malformed: u8,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is none, and nothing of the last one is left.
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

/// What happened.
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
    /// The upper layer wants no connection any more, or waited too long for a reply.
    Close,
    /// The queues are empty: nothing is under DMA, and no completion will come.
    Drained,
}

/// What the caller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Have the address resolved.
    ResolveAddress,
    /// Have the route resolved.
    ResolveRoute,
    /// Create the queues, post the first Receives, then ask the server.
    Request,
    /// Take over the server's private data, reset the credit window, let Calls flow.
    Announce,
    /// Disconnect and drain the queues, and report [`Event::Drained`] when it is done.
    TearDown,
    /// Give all memory back, and tell the upper layer that the connection is gone.
    Release,
}

impl Connection {
    /// No connection.
    pub const fn new() -> Self {
        Self {
            state: State::Closed,
            malformed: 0,
        }
    }

    /// The present state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Takes an event, and returns what to do.
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

impl Default for Connection {
    fn default() -> Self {
        Self::new()
    }
}
