// SPDX-License-Identifier: GPL-2.0

//! The interface of a driver: the calls of the core and of iw_cm, as traits.

use crate::{
    cm::{
        CmId,
        ConnParams,
        Endpoints, //
    },
    netdev::NetDevice,
    queue::Queues,
    region::{
        AccessFlags,
        ProtectionDomain,
        Region, //
    },
    table::Table, //
};
use core::net::SocketAddr;
use kernel::{
    prelude::*,
    str::CStr,
    sync::Arc, //
};

/// The state of a queue pair, as far as consumers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpState {
    /// The state after creation.
    Reset,
    /// Receives may be posted.
    Init,
    /// It may be connected.
    Rtr,
    /// It is connected.
    Rts,
    /// The consumer wants the connection closed.
    Closing,
    /// Every request completes as flushed.
    Error,
}

impl QpState {
    /// Converts the state of C.
    pub(crate) fn of(state: cbindings::ib_qp_state) -> Result<Self> {
        Ok(match state {
            cbindings::ib_qp_state_IB_QPS_RESET => Self::Reset,
            cbindings::ib_qp_state_IB_QPS_INIT => Self::Init,
            cbindings::ib_qp_state_IB_QPS_RTR => Self::Rtr,
            cbindings::ib_qp_state_IB_QPS_RTS => Self::Rts,
            cbindings::ib_qp_state_IB_QPS_SQD => Self::Closing,
            cbindings::ib_qp_state_IB_QPS_ERR => Self::Error,
            _ => return Err(EINVAL),
        })
    }

    /// Returns the state of C.
    pub(crate) fn code(self) -> cbindings::ib_qp_state {
        match self {
            Self::Reset => cbindings::ib_qp_state_IB_QPS_RESET,
            Self::Init => cbindings::ib_qp_state_IB_QPS_INIT,
            Self::Rtr => cbindings::ib_qp_state_IB_QPS_RTR,
            Self::Rts => cbindings::ib_qp_state_IB_QPS_RTS,
            Self::Closing => cbindings::ib_qp_state_IB_QPS_SQD,
            Self::Error => cbindings::ib_qp_state_IB_QPS_ERR,
        }
    }
}

/// The attributes that `modify_qp` changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct QpAttr {
    /// The state.
    pub state: Option<QpState>,
    /// The access granted to the peer.
    pub access: Option<AccessFlags>,
}

/// A driver's queue pair.
pub trait QueuePair: Send + Sync + Sized + 'static {
    /// Takes note that requests were posted. Called in any context.
    fn posted(this: &Arc<Self>);

    /// Takes note that the process that calls has posted requests. May sleep, and carry them out
    /// at once: the time that takes is the process's own. No allocation starts I/O.
    fn doorbell(this: &Arc<Self>);

    /// Changes attributes. To `Error` from every state. May sleep.
    fn modify(this: &Arc<Self>, attr: QpAttr) -> Result;

    /// Returns the state.
    fn state(&self) -> QpState;

    /// Destroys the queue pair. When this returns, nothing is taken from its queues or completed.
    /// Sleeps.
    fn destroy(this: Arc<Self>);
}

/// The limits of a device.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Pages of a region.
    pub max_pages: u32,
    /// SGEs of a send request.
    pub max_send_sge: u32,
    /// SGEs of a receive request.
    pub max_receive_sge: u32,
    /// Work requests of a work queue.
    pub max_wr: u32,
    /// Reads in either direction.
    pub max_read_depth: u32,
    /// Entries of a completion queue.
    pub max_cqe: u32,
}

/// The number of parts of the table of regions. Each message looks into it, on any processor.
const REGION_PARTS: usize = 64;

/// The regions of a device.
pub type Regions = Table<Arc<Region>, REGION_PARTS>;

/// A driver of the devices of one link type.
pub trait Driver: Send + Sync + Sized + 'static {
    /// The link type, for `rdma link add`.
    const LINK_TYPE: &'static CStr;
    /// The limits of a device.
    const LIMITS: Limits;
    /// The names of its counters.
    const COUNTERS: &'static [&'static CStr];
    /// Its queue pairs.
    type QueuePair: QueuePair;
    /// A listener, which stops when it is dropped: no event of its id follows.
    type Listener: Send + Sync + 'static;

    /// Creates a device. Sleeps.
    fn new(regions: Arc<Regions>) -> Result<Arc<Self>>;

    /// Creates a queue pair. Sleeps.
    fn create(
        this: &Arc<Self>,
        queues: Arc<Queues>,
        pd: ProtectionDomain,
    ) -> Result<Arc<Self::QueuePair>>;

    /// Returns a counter, by its position in [`Self::COUNTERS`].
    fn counter(&self, index: usize) -> u64;

    /// Connects for a consumer. The outcome is one event of `id`, after this has returned or
    /// before; none if it fails. Does not wait for the peer.
    fn connect(
        this: &Arc<Self>,
        netdev: &NetDevice,
        qp: &Arc<Self::QueuePair>,
        endpoints: Endpoints,
        parameters: ConnParams<'_>,
        id: CmId,
    ) -> Result;

    /// Accepts the request of this handle for a consumer. ESTABLISHED follows; if this fails, no
    /// event, and the connection is closed: there will be no `reject`.
    fn accept(
        this: &Arc<Self>,
        handle: u32,
        qp: &Arc<Self::QueuePair>,
        parameters: ConnParams<'_>,
        id: CmId,
    ) -> Result;

    /// Rejects the request of this handle for a consumer.
    fn reject(this: &Arc<Self>, handle: u32, private_data: &[u8]) -> Result;

    /// Listens for a consumer. A wildcard is meant for `netdev` only.
    fn listen(
        this: &Arc<Self>,
        netdev: NetDevice,
        address: SocketAddr,
        backlog: u32,
        id: CmId,
    ) -> Result<Self::Listener>;

    /// Removes the device: nobody calls the other functions any more. Sleeps.
    fn remove(this: &Arc<Self>);
}
