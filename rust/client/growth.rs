// SPDX-License-Identifier: GPL-2.0

//! The growth of a connection: Receives, Send buffers and memory regions for more credits.
//!
//! A connection is made with what a few RPCs need. When the server grants more than that and the
//! RPCs use it, as a reply or a call that finds no credit shows ([`proto::backing`]), a work item
//! allocates more, and then opens the credit window that far. It does not wait for a reply to do
//! so: those that are awaited may be slow to come. Nothing waits for the work item but the end of
//! the transport: when memory is short, the RPCs go on with what the connection has. A transport
//! that carries swap has everything from the start.

use super::{
    connection::{
        ActiveConnection,
        ClientConnection,
        ClientTransport, //
    },
    resources, //
};
use crate::endpoint::SendBufferExt;
use kernel::{
    alloc::Flags,
    prelude::*, //
};
use rdma::{
    mr::Idle,
    receive, //
};
use sunrpc::Xprt;

/// The pause, in milliseconds, after an attempt that failed.
const PAUSE_MS: u64 = 1_000;

/// Allocates what [`ClientConnection::on_grant`] or [`ClientConnection::on_credit_shortage`] found
/// to be missing. Returns whether it succeeded. Sleeps if `flags` allow it.
pub(super) fn grow(active: &ActiveConnection, flags: Flags) -> bool {
    let connection = &active.connection;
    let _growing = connection.growth.lock();
    let Some(target) = connection.credits.lock().backing.target() else {
        return false;
    };
    let result = grow_to(active, target, flags);
    let mut credits = connection.credits.lock();
    match result {
        Ok(()) => {
            credits.backing.grown(target);
            true
        }
        Err(error) => {
            credits
                .backing
                .failed(connection.age_ms().saturating_add(PAUSE_MS));
            drop(credits);
            connection.log_growth_failed(target, error);
            false
        }
    }
}

/// Allocates what the connection needs for all credits that it requests. Returns whether that is
/// there now. Sleeps if `flags` allow it.
pub(super) fn grow_fully(active: &ActiveConnection, flags: Flags) -> bool {
    let connection = &active.connection;
    let _growing = connection.growth.lock();
    let all = connection.credits.lock().window.requested();
    match grow_to(active, all, flags) {
        Ok(()) => {
            connection.credits.lock().backing.grown(all);
            true
        }
        Err(error) => {
            connection.log_growth_failed(all, error);
            false
        }
    }
}

/// Adds what is missing for `credits`. If it fails, what was allocated stays for the next attempt.
fn grow_to(active: &ActiveConnection, credits: u32, flags: Flags) -> Result {
    let ActiveConnection { queue, connection } = active;
    let credits = usize::try_from(credits)?;
    add_regions(active, credits, flags)?;
    queue.grow_send_buffers(resources::sends_for(credits), flags)?;
    connection.receives.grow(
        queue,
        resources::receives_for(credits),
        connection.receive_size(),
        flags,
        &mut receive::Buffers::new(),
    )
}

fn add_regions(active: &ActiveConnection, credits: usize, flags: Flags) -> Result {
    let ActiveConnection { queue, connection } = active;
    let (missing, pages) = connection.regions.missing(credits);
    let mut regions = Idle::new();
    let result = (0..missing).try_for_each(|_| regions.allocate(queue.pd(), pages, flags));
    connection.add_regions(regions);
    result
}

impl ClientConnection {
    /// Handles a call of `xprt` that finds no credit. If resources limit the window, schedules
    /// their growth.
    pub(super) fn on_credit_shortage(&self, xprt: &Xprt<ClientTransport>) {
        let mut credits = self.credits.lock();
        let granted = credits.window.window();
        let grows = credits.backing.is_short(granted)
            && credits
                .backing
                .begin(granted, xprt.credits_in_use(), || self.age_ms());
        drop(credits);
        if grows {
            xprt.schedule_growth();
        }
    }

    /// Returns the number of calls that the server granted credits for and there are resources for.
    pub(super) fn current_window(&self) -> u32 {
        let credits = self.credits.lock();
        credits.backing.limit(credits.window.window())
    }

    /// Opens the window of `xprt` to the calls that the server granted credits for and there are
    /// resources for, if this is still its connection: the one with this `connect_cookie`.
    pub(super) fn open_window(&self, xprt: &Xprt<ClientTransport>, connect_cookie: u32) {
        xprt.open_window(connect_cookie, |set| {
            // A reply may bring another grant at the same time. If it is taken after this, whoever
            // takes it finds the window that is set here, and looks once more; so the lock is
            // released when the window is set.
            let credits = self.credits.lock();
            set(credits.backing.limit(credits.window.window()));
        });
    }

    /// Logs the failure to allocate resources for `credits`, unless the connection ends.
    fn log_growth_failed(&self, credits: u32, error: Error) {
        if self.is_open() {
            self.log_few_resources(credits, error);
        }
    }

    /// Logs that there were no resources for so many `credits`.
    pub(super) fn log_few_resources(&self, credits: u32, error: Error) {
        self.log_message(|server| {
            pr_info!("no resources for {credits} calls to {server} at a time: {error:?}\n");
        });
    }

    /// Puts new regions into the pool.
    fn add_regions(&self, regions: Idle<Self>) {
        let new = regions.len();
        if new == 0 {
            return;
        }
        self.counters.regions.add(new as u64);
        self.with_peer(|peer| trace::event!(xprtrdma_createmrs(peer, new)));
        if self.regions.add(regions) {
            self.xprt.with(|xprt| xprt.write_space());
        }
    }
}
