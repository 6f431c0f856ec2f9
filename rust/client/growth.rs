// SPDX-License-Identifier: GPL-2.0

//! The growth of a connection: Receives, Send buffers and memory regions for more credits.
//!
//! A connection is made with what a few RPCs need. When a reply shows that the server grants more than that and the RPCs use it
//! ([`proto::backing`]), a work item allocates more, and only then the credit window is opened that far. Nothing waits for the
//! work item but the end of the transport: when memory is short, the RPCs go on with what the connection has. A transport that carries swap
//! has everything from the start.

use super::{
    connection::{
        ActiveConnection,
        Connection, //
    },
    resources, //
};
use crate::endpoint::SendBuffering;
use kernel::{
    alloc::Flags,
    prelude::*, //
};
use rdma::{
    mr::Idle,
    receive, //
};

/// How many milliseconds after an attempt that failed the next one may begin.
const PAUSE_MS: u64 = 1_000;

/// Allocates what [`Connection::on_grant`] found to be missing. Sleeps if `flags` allow it.
pub(super) fn grow(active: &ActiveConnection, flags: Flags) {
    let connection = &active.connection;
    let _growing = connection.growing.lock();
    let Some(target) = connection.credits.lock().backing.target() else {
        return;
    };
    let result = grow_to(active, target, flags);
    let mut credits = connection.credits.lock();
    match result {
        // The next reply opens the window.
        Ok(()) => credits.backing.grown(target),
        Err(error) => {
            credits
                .backing
                .failed(connection.age_ms().saturating_add(PAUSE_MS));
            drop(credits);
            connection.log_growth_failed(target, error);
        }
    }
}

/// Allocates what the connection needs for all credits that it asks for. Sleeps if `flags` allow it.
pub(super) fn grow_fully(active: &ActiveConnection, flags: Flags) {
    let connection = &active.connection;
    let _growing = connection.growing.lock();
    let all = connection.credits.lock().window.requested();
    match grow_to(active, all, flags) {
        Ok(()) => connection.credits.lock().backing.grown(all),
        Err(error) => connection.log_growth_failed(all, error),
    }
}

/// Adds what is missing for `credits`. If it fails, what could be had stays for the next attempt.
fn grow_to(active: &ActiveConnection, credits: u32, flags: Flags) -> Result {
    let ActiveConnection { queue, connection } = active;
    let credits = usize::try_from(credits)?;
    add_regions(active, credits, flags)?;
    queue.grow_send_buffers(resources::sends(credits), flags)?;
    connection.receives.grow(
        queue,
        resources::messages(credits),
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

impl Connection {
    /// Says why no more calls go to the server at a time, unless that is because the connection ends.
    fn log_growth_failed(&self, credits: u32, error: Error) {
        if self.is_open() {
            self.log_few_resources(credits, error);
        }
    }

    /// Says that there were no resources for so many `credits`.
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
            self.link.with(|xprt| xprt.write_space());
        }
    }
}
