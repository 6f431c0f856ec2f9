// SPDX-License-Identifier: GPL-2.0

//! The state of a connection, from the resolution of its address to the drained queue pair.
//!
//! The states and their transitions are in [`proto::conn::client`]. The RDMA CM and the completion
//! handlers report events; the connect worker waits here for the actions that follow, and carries
//! them out.

use super::cause::ConnectError;
use crate::prelude::*;
use core::sync::atomic::AtomicBool;
use kernel::{
    new_condvar,
    sync::{
        CondVar,
        CondVarTimeoutResult, //
    },
    time::{
        msecs_to_jiffies,
        Msecs, //
    }, //
};
use proto::conn::client as conn;

/// The state of a connection, shared by the connect worker and the handlers.
#[pin_data]
pub(crate) struct ConnectionState {
    /// Set while `inner` is in [`conn::State::Open`]. Each Call reads it more than once, so it
    /// needs no lock.
    open: AtomicBool,
    #[pin]
    inner: SpinLock<LockedState>,
    #[pin]
    changed: CondVar,
}

struct LockedState {
    connection: conn::ConnMachine,
    /// The next action of the connect worker, until it takes it.
    action: Option<conn::Action>,
    connect_error: Option<ConnectError>,
}

impl ConnectionState {
    /// Returns the state of a connection that is not begun.
    pub(super) fn new() -> impl PinInit<Self> {
        let inner = LockedState {
            connection: conn::ConnMachine::new(),
            action: None,
            connect_error: None,
        };
        pin_init!(Self {
            open: AtomicBool::new(false),
            inner <- new_spinlock!(inner, "rpcrdma::connection_state"),
            changed <- new_condvar!("rpcrdma::connection_state_changed"),
        })
    }

    /// Changes the state by `event`, and passes the action that follows to the connect worker.
    pub(super) fn report(&self, event: conn::Event) {
        let _ = self.on_locked(&mut self.inner.lock(), event);
    }

    fn on_locked(&self, inner: &mut LockedState, event: conn::Event) -> conn::Action {
        let action = inner.connection.on(event);
        let open = inner.connection.state() == conn::State::Open;
        self.open.store(open, Ordering::Release);
        if action != conn::Action::Nothing {
            inner.action = Some(action);
            self.changed.notify_all();
        }
        action
    }

    /// Changes the state by `event`, which may end the connection, and returns whether it ended an
    /// open one. If the connect worker has not taken note that it is open, the connect fails with
    /// `connect_error`.
    pub(super) fn end(&self, event: conn::Event, connect_error: ConnectError) -> bool {
        let mut inner = self.inner.lock();
        let was_open = inner.connection.state() == conn::State::Open;
        let ends = self.on_locked(&mut inner, event) == conn::Action::TearDown;
        if ends {
            inner.connect_error = Some(connect_error);
        }
        ends && was_open
    }

    /// Reports [`conn::Event::Failed`], with the reason.
    pub(super) fn fail(&self, connect_error: ConnectError) {
        let _ = self.end(conn::Event::Failed, connect_error);
    }

    /// Returns the reason why the connect failed, if it is known.
    pub(super) fn connect_error(&self) -> Option<ConnectError> {
        self.inner.lock().connect_error
    }

    /// Returns whether Calls may be sent.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Waits for the next action of the connect worker. Returns [`None`] if there is none for
    /// `timeout_ms`. Sleeps.
    pub(super) fn next_action(&self, timeout_ms: Msecs) -> Option<conn::Action> {
        let mut left = msecs_to_jiffies(timeout_ms);
        let mut inner = self.inner.lock();
        loop {
            if let Some(action) = inner.action.take() {
                return Some(action);
            }
            left = match self.changed.wait_interruptible_timeout(&mut inner, left) {
                CondVarTimeoutResult::Timeout => return inner.action.take(),
                CondVarTimeoutResult::Woken { jiffies }
                | CondVarTimeoutResult::Signal { jiffies } => jiffies,
            };
        }
    }

    /// Waits until [`conn::Event::Drained`] is reported. Sleeps.
    pub(super) fn wait_until_closed(&self) {
        let mut inner = self.inner.lock();
        while inner.connection.state() != conn::State::Closed {
            self.changed.wait(&mut inner);
        }
    }
}
