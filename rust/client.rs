// SPDX-License-Identifier: GPL-2.0

//! The client: an `rpc_xprt` whose connection is RPC-over-RDMA.
//!
//! RFC 8166 (the protocol), RFC 8797 (private data), RFC 8167 (callbacks).
//!
//! # The way of an RPC
//!
//! 1. In the RPC's own task [`marshal`] plans it (`proto::plan`), covers with memory
//!    regions what does not travel inline, and writes the message.
//! 2. When it is its turn, and it has a credit, the registrations and the Send are
//!    posted as one chain. The doorbell rings for the last of a burst.
//! 3. [`reply`] parses what arrives, compares it with what was offered, and has
//!    every region of the RPC made invalid: by the server's Send With
//!    Invalidate, else by a chain of local invalidations.
//! 4. Only then is the RPC completed. Nothing of it is reachable for the server
//!    any more.
//!
//! # Who may be where at the same time
//!
//! `send`, `connect` and `close` are serialised by sunrpc (`XPRT_LOCKED`). The
//! completion handlers of a connection run one at a time, beside them. `prepare` and
//! `release` run in the RPC's own task, beside all. What they share is the [`slot::Slot`] of
//! the RPC and the [`connection::Connection`].

#![forbid(unsafe_code)]

pub(crate) mod config;
mod connect;
mod connection;
mod marshal;
mod region_pool;
mod reply;
mod slot;
mod stats;

use crate::client::{
    connect::ReusableResources,
    connection::Connection,
    slot::Slot,
    stats::Counters, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};
use proto::cm_private_data::PrivateData;
use rdma::{
    send::Doorbell,
    QueuePair, //
};
use sunrpc::{
    Rqst,
    SendError,
    Xprt,
    XprtLink, //
};

/// What one connection is made with.
#[derive(Clone, Copy)]
pub(crate) struct Config {
    /// Calls in parallel, as far as this end goes.
    credits: usize,
    /// The longest Send, and the longest Receive.
    inline: PrivateData,
}

/// Callbacks that may be in work at the same time.
const CALLBACKS: usize = 32;

/// Pages of the longest data item: what NFS asks for at most, wherever in a page it starts.
const MAX_PAYLOAD_PAGES: usize = 257;

/// A connection in use.
#[derive(Clone)]
pub(crate) struct Active {
    queue: Arc<QueuePair<Connection>>,
    connection: Arc<Connection>,
}

/// The private state of an `rpc_xprt`.
#[pin_data]
pub(crate) struct Client {
    slots: usize,
    #[pin]
    active: SpinLock<Option<Active>>,
    #[pin]
    reusable: SpinLock<Option<ReusableResources>>,
    counters: Arc<Counters>,
}

impl Client {
    fn active(&self) -> Option<Active> {
        self.active.lock().clone()
    }

    /// Ends `active`. Returns what the next connection may use, when nothing else of it is left. Sleeps.
    fn tear_down(xprt: &Xprt<Self>, active: &Active) -> ReusableResources {
        let Active { queue, connection } = active;
        connection.closing();
        queue.id().disconnect();
        queue.drain();
        xprt.for_each_slot(|slot| connection.counters.broken_regions.add(slot.reset()));
        let regions = connection.closed();
        ReusableResources::new(queue, regions)
    }
}

impl sunrpc::HasSlot for Client {
    type Slot = Slot;

    fn new_slot() -> impl PinInit<Slot, Error> {
        Slot::new()
    }
}

impl sunrpc::Transport for Client {
    const NAME: &'static CStr = c"rdma";
    const IDENT: i32 = 256;
    const NETIDS: [&'static CStr; 2] = [c"rdma", c"rdma6"];
    const CALLBACK_SLOTS: u32 = CALLBACKS as u32;

    fn class() -> &'static sunrpc::Class<Self> {
        &CLASS
    }

    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            slots: config::slots(),
            active <- new_spinlock!(None, "rpcrdma::active"),
            reusable <- new_spinlock!(None, "rpcrdma::reusable"),
            counters: Arc::new(Counters::new(), GFP_KERNEL)?,
        })
    }

    fn slots() -> usize {
        config::slots()
    }

    fn max_payload() -> usize {
        MAX_PAYLOAD_PAGES * kernel::page::PAGE_SIZE
    }

    fn connect(&self, xprt: &Xprt<Self>) -> Result {
        let config = Config {
            credits: self.slots,
            inline: config::inline()?,
        };
        let mut reusable = self.reusable.lock().take();
        let connected = connect::connect(xprt, config, &self.counters, &mut reusable);
        *self.reusable.lock() = reusable;
        *self.active.lock() = Some(connected?);
        Ok(())
    }

    fn prepare(&self, _xprt: &Xprt<Self>, rqst: &Rqst<Self>) -> Result<(), SendError> {
        self.active()
            .map_or(Ok(()), |active| marshal::prepare(active, rqst))
    }

    fn send(&self, _xprt: &Xprt<Self>, rqst: &Rqst<Self>, more: bool) -> Result<(), SendError> {
        let active = self.active().ok_or(SendError::Disconnected)?;
        marshal::send(&active, rqst, &self.counters, doorbell(more))
    }

    fn flush(&self) -> Result {
        // The owner of `XPRT_LOCKED` keeps the connection from being closed, so this clone is not
        // the last.
        self.active().map_or(Ok(()), |active| active.queue.ring())
    }

    fn close(&self, xprt: &Xprt<Self>) {
        // It stays to be found until the server can reach nothing through it: whoever gives up an RPC
        // meanwhile must wait for that.
        if let Some(active) = self.active() {
            let reusable = Self::tear_down(xprt, &active);
            let older = self.reusable.lock().replace(reusable);
            drop(older);
            let closed = self.active.lock().take();
            drop(closed);
        }
        // The removal of a device is told before this is called for it.
        let unwanted = self
            .reusable
            .lock()
            .take_if(|reusable| reusable.is_unwanted());
        drop(unwanted);
    }

    fn release(&self, _xprt: &Xprt<Self>, rqst: &Rqst<Self>) {
        rqst.slot().fence(|| self.active());
    }

    fn timer(&self, _xprt: &Xprt<Self>) {
        let connection = self
            .active
            .lock()
            .as_ref()
            .map(|active| active.connection.clone());
        if let Some(connection) = connection {
            connection.lost(c"no reply in time");
        }
    }

    fn inject_disconnect(&self, _xprt: &Xprt<Self>) {
        if let Some(active) = self.active() {
            active.queue.id().disconnect();
        }
    }

    fn source(&self) -> Option<sunrpc::SockAddr> {
        self.active()?.queue.id().local_address().ok()
    }

    fn stats(&self, _xprt: &Xprt<Self>) -> sunrpc::Stats {
        self.counters.snapshot()
    }

    fn callback_max_payload(&self) -> usize {
        // The caller must not sleep, so it must not be left with the last reference.
        connection::callback_max_payload(self.active.lock().as_ref())
    }

    fn send_callback_reply(
        &self,
        _xprt: &Xprt<Self>,
        rqst: &sunrpc::CallbackRqst,
        more: bool,
    ) -> Result<(), SendError> {
        let active = self.active().ok_or(SendError::Disconnected)?;
        marshal::send_callback_reply(&active, rqst, doorbell(more))
    }
}

/// When a Send is to be known to the device if there is `more` to follow.
fn doorbell(more: bool) -> Doorbell {
    if more {
        Doorbell::Defer
    } else {
        Doorbell::Ring
    }
}

/// What `mount -o proto=rdma` finds.
pub(crate) static CLASS: sunrpc::Class<Client> = sunrpc::Class::new();

/// For handlers, which must not keep a transport alive.
type Link = XprtLink<Client>;
