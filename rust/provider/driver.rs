// SPDX-License-Identifier: GPL-2.0

//! What a driver does: the calls of the core and of iw_cm, as traits.

use crate::cm::Addresses;
use crate::cm::CmId;
use crate::cm::Parameters;
use crate::netdev::NetDevice;
use crate::queue::Queues;
use crate::region::Domain;
use crate::region::Region;
use crate::table::Table;
use core::net::SocketAddr;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::Arc;

/// States of a queue pair, as far as consumers see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Made.
    Reset,
    /// Receives may be posted.
    Init,
    /// It may be connected.
    ReadyToReceive,
    /// It is connected.
    ReadyToSend,
    /// The consumer wants the connection closed.
    Closing,
    /// Every request completes as flushed.
    Error,
}

impl State {
    /// The state that C calls this.
    pub(crate) fn of(state: iwraw::ib_qp_state) -> Result<Self> {
        Ok(match state {
            iwraw::ib_qp_state_IB_QPS_RESET => Self::Reset,
            iwraw::ib_qp_state_IB_QPS_INIT => Self::Init,
            iwraw::ib_qp_state_IB_QPS_RTR => Self::ReadyToReceive,
            iwraw::ib_qp_state_IB_QPS_RTS => Self::ReadyToSend,
            iwraw::ib_qp_state_IB_QPS_SQD => Self::Closing,
            iwraw::ib_qp_state_IB_QPS_ERR => Self::Error,
            _ => return Err(EINVAL),
        })
    }

    /// What C calls it.
    pub(crate) fn code(self) -> iwraw::ib_qp_state {
        match self {
            Self::Reset => iwraw::ib_qp_state_IB_QPS_RESET,
            Self::Init => iwraw::ib_qp_state_IB_QPS_INIT,
            Self::ReadyToReceive => iwraw::ib_qp_state_IB_QPS_RTR,
            Self::ReadyToSend => iwraw::ib_qp_state_IB_QPS_RTS,
            Self::Closing => iwraw::ib_qp_state_IB_QPS_SQD,
            Self::Error => iwraw::ib_qp_state_IB_QPS_ERR,
        }
    }
}

/// What a peer may do by way of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Read what regions let it read.
    pub remote_read: bool,
    /// Write what regions let it write.
    pub remote_write: bool,
}

/// What a consumer changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change {
    /// The state.
    pub state: Option<State>,
    /// What the peer may do.
    pub access: Option<Access>,
}

/// A driver's queue pair.
pub trait QueuePair: Send + Sync + Sized + 'static {
    /// Requests were posted. Called in any context.
    fn posted(this: &Arc<Self>);

    /// The consumer changes something. To `Error` from every state. May sleep.
    fn modify(this: &Arc<Self>, change: Change) -> Result;

    /// Its state.
    fn state(&self) -> State;

    /// It goes. When this returns, nothing is taken from its queues or completed. Sleeps.
    fn destroy(this: Arc<Self>);
}

/// What a device can do.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Pages of a region.
    pub max_pages: u32,
    /// SGEs of a request.
    pub max_entries: u32,
    /// Requests of a work queue.
    pub max_requests: u32,
    /// Reads in either direction.
    pub max_reads: u32,
    /// Completions of a queue.
    pub max_completions: u32,
}

/// The regions of a device.
pub type Regions = Table<Arc<Region>>;

/// A driver: what the devices of one link type do.
pub trait Driver: Send + Sync + Sized + 'static {
    /// The type, for `rdma link add`.
    const LINK_TYPE: &'static CStr;
    /// `driver_id`: none of those that user space knows.
    const ID: u32;
    /// What a device can do.
    const LIMITS: Limits;
    /// Names of its counters.
    const COUNTERS: &'static [&'static CStr];
    /// Its queue pairs.
    type QueuePair: QueuePair;
    /// What listens. Dropped, it does not: no event of its id comes afterwards.
    type Listener: Send + Sync + 'static;

    /// A new device. Sleeps.
    fn new(regions: Arc<Regions>) -> Result<Arc<Self>>;

    /// A new queue pair. Sleeps.
    fn create(
        this: &Arc<Self>,
        queues: Arc<Queues>,
        domain: Domain,
    ) -> Result<Arc<Self::QueuePair>>;

    /// A counter, by its place among [`Self::COUNTERS`].
    fn counter(&self, index: usize) -> u64;

    /// A consumer connects. The outcome is one event of `id`, after this has returned or before; none if it fails. Does not wait for
    /// the peer.
    fn connect(
        this: &Arc<Self>,
        netdev: &NetDevice,
        qp: &Arc<Self::QueuePair>,
        ends: Addresses,
        parameters: Parameters<'_>,
        id: CmId,
    ) -> Result;

    /// A consumer accepts the request that `handle` stands for. ESTABLISHED follows; if this fails, no event, and the
    /// connection is closed: there will be no `reject`.
    fn accept(
        this: &Arc<Self>,
        handle: u32,
        qp: &Arc<Self::QueuePair>,
        parameters: Parameters<'_>,
        id: CmId,
    ) -> Result;

    /// A consumer rejects the request that `handle` stands for.
    fn reject(this: &Arc<Self>, handle: u32, private_data: &[u8]) -> Result;

    /// A consumer listens. A wildcard is meant for `netdev` only.
    fn listen(
        this: &Arc<Self>,
        netdev: NetDevice,
        address: SocketAddr,
        backlog: u32,
        id: CmId,
    ) -> Result<Self::Listener>;

    /// The device is gone: nobody calls the other functions any more. Sleeps.
    fn remove(this: &Arc<Self>);
}
