// SPDX-License-Identifier: GPL-2.0

//! The transport of `mount -o proto=rdma`: its state, its class, and its `rpc_xprt_ops`.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h).

use super::{
    chunk::MarshalLimits,
    config::Config,
    connect,
    send,
    slot::Slot, //
};
use crate::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use proto::cm_private_data::PrivateData;
use rdma::{
    cm::Id,
    receive,
    send::Doorbell,
    ProtectionDomain, //
};
use sunrpc::{
    Class,
    DisconnectReason,
    SendError,
    Xprt, //
};

/// The private state of an `rpc_xprt`.
#[pin_data]
pub(crate) struct ClientTransport {
    /// Request slots that the transport was created with.
    pub(super) slots: usize,
    /// The connection in use, until nothing of it is reachable for the server.
    #[pin]
    pub(super) active: SpinLock<Option<Arc<ActiveConnection>>>,
    #[pin]
    pub(super) reusable: SpinLock<Option<ReusableResources>>,
    pub(super) counters: Arc<Counters>,
    /// The number of the error of the last attempt to connect; zero if that did not fail.
    pub(super) last_connect: Atomic<i32>,
}

impl From<DisconnectReason> for Cause {
    fn from(reason: DisconnectReason) -> Self {
        match reason {
            DisconnectReason::ReplyTimedOut => Self::ReplyTimedOut,
            DisconnectReason::Retransmission => Self::Retransmission,
            DisconnectReason::NoReplyExpected => Self::NoReplyExpected,
            DisconnectReason::CreditsOfKilledCalls => Self::CreditsOfKilledCalls,
        }
    }
}

impl ClientTransport {
    /// Returns the connection in use, if there is one. For the path of an RPC it has a shared lock
    /// and a shared counter, so a [`Slot`] keeps a reference from one Call to the next.
    pub(super) fn active(&self) -> Option<Arc<ActiveConnection>> {
        self.active.lock().clone()
    }
}

/// A connection with its queue pair.
pub(crate) struct ActiveConnection {
    pub(super) queue: Arc<QueuePair<ClientConn>>,
    pub(super) connection: Arc<ClientConn>,
}

/// Resources that a closed connection leaves to the next one on the same device, which then need
/// not allocate them: there may be no memory before it is there, if the transport carries swap.
///
/// They hold up the removal of the device, so they are released when it is being removed.
pub(crate) struct ReusableResources {
    pub(super) pd: Arc<ProtectionDomain<ClientConn>>,
    pub(super) regions: Idle<ClientConn>,
    pub(super) receives: receive::Buffers<ClientConn>,
    pub(super) sends: rdma::send::Buffers<ClientConn>,
    /// The lengths of the buffers.
    pub(super) inline: PrivateData,
    /// The credits that they are enough for.
    pub(super) credits: usize,
}

impl ReusableResources {
    /// Creates a domain on the device of `id`, with nothing in it. Sleeps.
    pub(super) fn new(id: &Arc<Id<ClientConn>>, config: &Config) -> Result<Self> {
        Ok(Self {
            pd: ProtectionDomain::new(id.clone())?,
            regions: Idle::new(),
            receives: receive::Buffers::new(),
            sends: rdma::send::Buffers::new(),
            inline: config.inline,
            credits: 0,
        })
    }

    /// Returns the part of the resources that a connection of `id` with this `config` can use.
    /// [`None`] if the protection domain is of another device.
    pub(super) fn compatible_with(self, id: &Id<ClientConn>, config: &Config) -> Option<Self> {
        if !self.pd.serves(id) {
            return None;
        }
        if self.inline == config.inline {
            return Some(self);
        }
        // The sysctls changed.
        Some(Self {
            receives: receive::Buffers::new(),
            sends: rdma::send::Buffers::new(),
            inline: config.inline,
            credits: 0,
            ..self
        })
    }

    /// Returns whether a later connection may use the resources. A protection domain that was
    /// created for `id` itself keeps `id` alive.
    pub(super) fn usable_after(&self, id: &Id<ClientConn>) -> bool {
        !self.pd.is_of(id)
    }

    /// Returns whether the removal of the device waits for the resources to be released.
    pub(super) fn is_device_removed(&self) -> bool {
        self.pd.context().device_removed.load(Ordering::Acquire)
    }
}

/// The transport class of `mount -o proto=rdma`.
pub(crate) static CLASS: Class<ClientTransport> = Class::new();

impl sunrpc::HasSlot for ClientTransport {
    type Slot = Slot;

    fn new_slot() -> impl PinInit<Slot, Error> {
        Slot::new()
    }
}

impl sunrpc::Transport for ClientTransport {
    const NAME: &'static CStr = c"rdma";
    const IDENT: i32 = 256;
    const NETIDS: [&'static CStr; 2] = [c"rdma", c"rdma6"];
    const CALLBACK_SLOTS: u32 = config::CALLBACK_CREDITS;

    fn class() -> &'static Class<Self> {
        &CLASS
    }

    fn new(slots: usize) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            slots,
            active <- new_spinlock!(None, "rpcrdma::active"),
            reusable <- new_spinlock!(None, "rpcrdma::reusable"),
            counters: Arc::new(Counters::new(), GFP_KERNEL)?,
            last_connect: Atomic::new(0),
        })
    }

    fn slots() -> usize {
        config::slots()
    }

    fn max_payload() -> usize {
        config::MAX_PAYLOAD_PAGES * kernel::page::PAGE_SIZE
    }

    fn connect(&self, xprt: &Xprt<Self>) -> Result {
        let config = Config::current(self.slots)?;
        let mut reusable = self.reusable.lock().take();
        let connected = connect::connect(xprt, config, &self.counters, &mut reusable);
        *self.reusable.lock() = reusable;
        let result = connected
            .as_ref()
            .map_or_else(|error| Err(*error), |_| Ok(()));
        xprt.with_peer(|server| {
            trace::event!(xprtrdma_connect(server, result));
            // sunrpc tries for ever; what is new is the first attempt of those that fail in one
            // way.
            let number = result.map_or_else(|error| error.to_errno(), |()| 0);
            if let (true, Err(error)) = (self.last_connect.xchg(number, Relaxed) != number, result)
            {
                let reason = connect::reason(error);
                endpoint::log(|| {
                    pr_info!(
                        "cannot connect to {} port {}: {reason} ({error:?})\n",
                        server.addr,
                        server.port
                    );
                });
            }
        });
        let active = connected?;
        let connection = active.connection.clone();
        *self.active.lock() = Some(active);
        // Swap that came since the resources were made found no connection to grow.
        if xprt.carries_swap() && connection.needs_full_growth() {
            xprt.schedule_growth();
        }
        Ok(())
    }

    fn connect_scheduled(&self, xprt: &Xprt<Self>, delay: usize) {
        xprt.with_peer(|server| trace::event!(xprtrdma_op_connect(server, delay)));
    }

    fn prepare(
        &self,
        _xprt: &Xprt<Self>,
        rqst: &Rqst<Self>,
        flags: Flags,
    ) -> Result<(), SendError> {
        send::prepare(self, rqst, flags)
    }

    fn send(&self, xprt: &Xprt<Self>, rqst: &Rqst<Self>, more: bool) -> Result<(), SendError> {
        let sent = send::send(self, rqst, doorbell(more));
        if sent == Err(SendError::Again) {
            // The caller owns `XPRT_LOCKED`, so this clone is not the last reference.
            let active = self.active();
            if let Some(active) = active.filter(|active| active.connection.regions.is_short()) {
                active.connection.on_region_shortage(xprt);
            }
        }
        sent
    }

    fn flush(&self) -> Result {
        // The connection cannot be closed meanwhile, because the caller owns `XPRT_LOCKED`. So this
        // clone is not the last reference.
        self.active().map_or(Ok(()), |active| {
            active.queue.ring().inspect_err(|_| {
                active.connection.end(Cause::DoorbellNotRung);
            })
        })
    }

    fn close(&self, xprt: &Xprt<Self>) {
        // The connection stays the active one until the server can reach nothing through it: an RPC
        // that is released meanwhile must wait for that.
        if let Some(active) = self.active() {
            let reusable = connect::close(xprt, &active);
            let older = self.reusable.lock().replace(reusable);
            drop(older);
            let closed = self.active.lock().take();
            drop(closed);
        }
        // When a device is removed, the removal is reported before this is called.
        let unwanted = self
            .reusable
            .lock()
            .take_if(|reusable| reusable.is_device_removed());
        drop(unwanted);
    }

    fn expire(&self) {
        let unwanted = self.reusable.lock().take();
        drop(unwanted);
    }

    fn grow(&self, xprt: &Xprt<Self>, flags: Flags) {
        // Taken before the connection: if there is another one afterwards, its window is not
        // touched.
        let connect_cookie = xprt.connect_cookie();
        if let Some(active) = self.active() {
            if connect::grow(&active, xprt, flags) {
                active.connection.open_window(xprt, connect_cookie);
            }
        }
    }

    fn prepare_for_swap(&self, xprt: &Xprt<Self>, flags: Flags) {
        let connect_cookie = xprt.connect_cookie();
        if let Some(active) = self.active() {
            if connect::grow_fully(&active, flags) {
                active.connection.open_window(xprt, connect_cookie);
            }
        }
    }

    fn on_credit_shortage(&self, xprt: &Xprt<Self>) {
        // The caller owns `XPRT_LOCKED`, so this clone is not the last reference.
        if let Some(active) = self.active() {
            active.connection.on_credit_shortage(xprt);
        }
    }

    fn release(&self, _xprt: &Xprt<Self>, rqst: &Rqst<Self>) {
        rqst.slot().release(rqst, || self.active());
    }

    fn conditional_disconnect(
        &self,
        xprt: &Xprt<Self>,
        connect_cookie: u32,
        reason: DisconnectReason,
    ) {
        let connection = self
            .active
            .lock()
            .as_ref()
            .map(|active| active.connection.clone());
        // Read after that: a later connection became the active one when the cookie had changed.
        if let Some(connection) = connection.filter(|_| xprt.connect_cookie() == connect_cookie) {
            connection.end(reason.into());
        }
    }

    fn inject_disconnect(&self, xprt: &Xprt<Self>) {
        xprt.with_peer(|server| trace::event!(xprtrdma_op_inject_dsc(server)));
        if let Some(active) = self.active() {
            // There is nothing to break if that fails.
            let _ = active.queue.disconnect();
        }
    }

    fn source(&self) -> Option<sunrpc::SockAddr> {
        self.active()?.queue.id().local_address().ok()
    }

    fn stats(&self, _xprt: &Xprt<Self>) -> sunrpc::Stats {
        self.counters.snapshot()
    }

    fn callback_max_payload(&self) -> usize {
        // The caller must not sleep, so it must not drop the last reference to a connection: none
        // is taken.
        let active = self.active.lock();
        let limits = active.as_ref().map(|active| active.connection.limits());
        limits
            .unwrap_or(&MarshalLimits::DEFAULT)
            .callback_max_payload()
    }

    fn send_callback_reply(
        &self,
        _xprt: &Xprt<Self>,
        rqst: &sunrpc::CallbackRqst,
        more: bool,
    ) -> Result<(), SendError> {
        let active = self.active().ok_or(SendError::Disconnected)?;
        send::send_callback_reply(&active, rqst, doorbell(more))
    }
}

/// Returns how to notify the device of a Send: at once, unless there is `more` to follow.
fn doorbell(more: bool) -> Doorbell {
    if more {
        Doorbell::Defer
    } else {
        Doorbell::Ring
    }
}
