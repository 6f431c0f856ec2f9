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
    },
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
    /// The state of a connection that the client has requested.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            open: Atomic::new(false),
            inner <- new_spinlock!(Connection::new(), "rpcrdma::connection_state"),
        })
    }

    /// Changes the state by `event`. Returns the action that follows.
    pub(super) fn on(&self, event: Event) -> Action {
        let mut inner = self.inner.lock();
        let action = inner.on(event);
        self.open.store(inner.state() == State::Open, Release);
        action
    }

    /// Whether the client waits to be accepted.
    pub(super) fn is_requested(&self) -> bool {
        self.inner.lock().state() == State::Requested
    }

    /// Whether the client has not confirmed yet that it is accepted.
    pub(super) fn is_accepting(&self) -> bool {
        self.inner.lock().state() == State::Accepting
    }

    /// Whether replies can be sent.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Acquire)
    }
}
