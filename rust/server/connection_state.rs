// SPDX-License-Identifier: GPL-2.0

//! The state of a connection, from the client's connection request to the drained queue pair.
//!
//! The states and their transitions are in [`proto::conn::server`]. The RDMA CM, the completion
//! handlers and nfsd threads report events; the reporter carries out the action that follows.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        SpinLock, //
    }, //
};
use proto::conn::server::{
    Action,
    Connection,
    Event,
    State, //
};

/// The state of a connection, shared by nfsd threads and the handlers.
#[pin_data]
pub(super) struct ConnectionState {
    /// Whether `inner` is in [`State::Open`]. Each call asks more than once, so this needs no lock.
    open: Atomic<bool>,
    #[pin]
    inner: SpinLock<Connection>,
}

impl ConnectionState {
    /// Creates the state of a connection that a client has requested.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            open: Atomic::new(false),
            inner <- new_spinlock!(Connection::new(), "rpcrdma::connection_state"),
        })
    }

    /// Applies `event` to the state, and returns the action that follows.
    pub(super) fn on(&self, event: Event) -> Action {
        let mut inner = self.inner.lock();
        let action = inner.on(event);
        self.open.store(inner.state() == State::Open, Release);
        action
    }

    /// Returns whether the client waits to be accepted.
    pub(super) fn is_requested(&self) -> bool {
        self.inner.lock().state() == State::Requested
    }

    /// Returns whether the client has yet to confirm that it was accepted.
    pub(super) fn is_accepting(&self) -> bool {
        self.inner.lock().state() == State::Accepting
    }

    /// Returns whether replies can be sent.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Acquire)
    }
}
