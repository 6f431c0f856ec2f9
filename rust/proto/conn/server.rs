// SPDX-License-Identifier: GPL-2.0

//! The side that accepts.
//!
//! ```text
//! Requested ------ an end: Nothing -------------------+
//!   | Prepared: Accept                                |
//!   v                                                 |
//! Accepting ------ an end: TearDown ----+             |
//!   | Established: Nothing,             |             |
//!   | or Received: Serve                |             |
//!   v                                   |             |
//! Open ----------- an end: TearDown ----+             |
//!   | ^                                 v             |
//!   +-+ Received: Serve              Closing          |
//!                                       | Drained:    |
//!                                       v Nothing     |
//!                                    Closed <---------+
//! ```
//!
//! An arrow has the event, and behind the colon the action. An end is one of Failed, Disconnected,
//! DeviceRemoved, Unanswered and Close. Any other event leaves the state as it is and asks for
//! nothing.

/// A connection as the server sees it, from the client's request on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnMachine {
    state: State,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The client asked; the queues are being made.
    Requested,
    /// Accepted; waiting for the client to notice.
    Accepting,
    /// Calls and Replies flow.
    Open,
    /// The connection has ended; the queues are being drained.
    Closing,
    /// The connection is over.
    Closed,
}

/// An event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The queues exist, and a Receive is posted for each credit of the first grant.
    Prepared,
    /// The connection manager says that the client noticed.
    Established,
    /// A message came.
    Received,
    /// A step failed, or resources ran out.
    Failed,
    /// The client, or the fabric, ended the connection.
    Disconnected,
    /// The device goes away.
    DeviceRemoved,
    /// The Responder could send neither a reply nor an RDMA_ERROR (RFC 8166, section 4.5.4).
    Unanswered,
    /// The upper layer needs no connection any more.
    Close,
    /// The queues are empty: nothing is under DMA, and no completion will come.
    Drained,
}

/// The action that the caller has to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Nothing. A message that arrived is freed: no reply is possible.
    Nothing,
    /// Accept the connection, with our private data.
    Accept,
    /// Serve the message.
    Serve,
    /// Disconnect and drain the queues, and report [`Event::Drained`] when it is done.
    TearDown,
}

impl ConnMachine {
    /// Creates the state after the client's connection request.
    pub const fn new() -> Self {
        Self {
            state: State::Requested,
        }
    }

    /// Returns the present state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Changes the state by an event, and returns the action that follows.
    pub fn on(&mut self, event: Event) -> Action {
        let (state, action) = match (self.state, event) {
            (State::Requested, Event::Prepared) => (State::Accepting, Action::Accept),
            (State::Accepting, Event::Established) => (State::Open, Action::Nothing),
            // The first Call can overtake the event that the connection is established.
            (State::Accepting | State::Open, Event::Received) => (State::Open, Action::Serve),
            (State::Closing, Event::Drained) => (State::Closed, Action::Nothing),
            (state @ (State::Closed | State::Closing), _) => (state, Action::Nothing),
            (state, Event::Prepared | Event::Established | Event::Received | Event::Drained) => {
                // Too early or too late to matter, or news that another event told already.
                (state, Action::Nothing)
            }
            (
                state,
                Event::Failed
                | Event::Disconnected
                | Event::DeviceRemoved
                | Event::Unanswered
                | Event::Close,
            ) => match state {
                // Not accepted yet: there is nothing to disconnect.
                State::Requested => (State::Closed, Action::Nothing),
                _ => (State::Closing, Action::TearDown),
            },
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
