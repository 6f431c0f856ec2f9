// SPDX-License-Identifier: GPL-2.0

//! Devices: the common part of all queue pairs on a network device, and its counters (`rdma
//! statistic show`).

use crate::prelude::*;
use crate::{
    addr_changes::AddrChanges,
    closing::ClosingConns,
    connect::Connecting,
    listener,
    llp::MAX_READS,
    qp::Qp, //
};
use provider::{
    cm::CmId,
    driver::{
        Limits,
        Regions, //
    },
    errno::econnreset,
    per_cpu::Counter,
    region::ProtectionDomain,
    Driver, //
};

/// A device.
pub(crate) struct Device<L: Llp> {
    shared: Arc<DeviceState>,
    // Connections that nobody has accepted or rejected.
    requests: Arc<listener::Requests<L>>,
    addr_changes: AddrChanges,
    // Connections that are closing, without their queue pair.
    closing_conns: Arc<ClosingConns<L>>,
}

impl<L: Llp> Driver for Device<L> {
    const LINK_TYPE: &'static CStr = L::LINK_TYPE;
    const LIMITS: Limits = Limits {
        max_pages: 1024,
        max_send_sge: 32,
        max_receive_sge: 6,
        max_wr: 1 << 15,
        max_read_depth: MAX_READS as u32,
        max_cqe: 1 << 20,
    };
    const COUNTERS: &'static [&'static CStr] = L::NAMES;
    type QueuePair = Qp<L>;
    type Listener = listener::Listener<L>;

    fn new(regions: Arc<Regions>) -> Result<Arc<Self>> {
        let device = Self {
            shared: DeviceState::new(regions)?,
            requests: Arc::pin_init(listener::Requests::new(), GFP_KERNEL)?,
            addr_changes: AddrChanges::new()?,
            closing_conns: ClosingConns::new()?,
        };
        Ok(Arc::new(device, GFP_KERNEL)?)
    }

    fn create(this: &Arc<Self>, queues: Arc<Queues>, pd: ProtectionDomain) -> Result<Arc<Qp<L>>> {
        Qp::new(this.shared.clone(), queues, this.closing_conns.clone(), pd)
    }

    fn counter(&self, index: usize) -> u64 {
        let counter = L::COUNTERS.get(index);
        counter.map_or(0, |(count, _)| self.shared.counters.get(*count))
    }

    fn connect(
        _: &Arc<Self>,
        netdev: &NetDevice,
        qp: &Arc<Qp<L>>,
        endpoints: Endpoints,
        parameters: ConnParams<'_>,
        id: CmId,
    ) -> Result {
        let net = netdev.net()?;
        let Endpoints { local, peer } = endpoints;
        iwtrace::event!(iwarp_connect(qp.id(), local, peer));
        Qp::connect(qp, |events| {
            // Programs of either side send first. No consumer in the kernel accepts and sends
            // first.
            let peer_to_peer = qp.is_of_process();
            Connecting::new(&net, endpoints, parameters, peer_to_peer, id, events)
        })
    }

    fn accept(
        this: &Arc<Self>,
        handle: u32,
        qp: &Arc<Qp<L>>,
        parameters: ConnParams<'_>,
        id: CmId,
    ) -> Result {
        let request = this.requests.remove(handle).ok_or(econnreset())?;
        listener::Request::accept(&request, qp, parameters, id)
    }

    fn reject(this: &Arc<Self>, handle: u32, private_data: &[u8]) -> Result {
        let request = this.requests.remove(handle).ok_or(econnreset())?;
        listener::Request::reject(&request, private_data)
    }

    fn listen(
        this: &Arc<Self>,
        netdev: NetDevice,
        address: SocketAddr,
        backlog: u32,
        id: CmId,
    ) -> Result<listener::Listener<L>> {
        let (shared, requests) = (this.shared.clone(), this.requests.clone());
        let changes = &this.addr_changes;
        listener::Listener::new(shared, requests, changes, netdev, address, backlog, id)
    }

    fn remove(this: &Arc<Self>) {
        while let Some(request) = this.requests.pop() {
            listener::Request::stop(&request);
        }
        this.closing_conns.stop();
    }
}

/// State that the connections of a device share.
pub(crate) struct DeviceState {
    /// The regions of the device.
    pub(crate) regions: Arc<Regions>,
    /// The counters of the device.
    pub(crate) counters: Counters,
}

impl DeviceState {
    /// Creates the state of a new device. Sleeps.
    pub(crate) fn new(regions: Arc<Regions>) -> Result<Arc<Self>> {
        let counters = Counters::new()?;
        Ok(Arc::new(Self { regions, counters }, GFP_KERNEL)?)
    }
}

/// An event that is counted.
#[derive(Clone, Copy)]
pub(crate) enum Count {
    /// Connections that this side began and that were established.
    Connected,
    /// Connections that this side began and that failed.
    ConnectFailed,
    /// Connections that a consumer accepted.
    Accepted,
    /// Requests that a consumer rejected.
    Rejected,
    /// Connections to a listener that ended before a request was indicated, or that the consumer
    /// did not answer in time.
    RequestLost,
    /// Segments that were sent.
    Sent,
    /// Segments that were received.
    Received,
    /// FPDUs whose CRC was wrong.
    BadCrc,
    /// Terminates that were sent.
    TerminateSent,
    /// Terminates that were received.
    TerminateReceived,
    /// FPDUs that did not become complete in time.
    TimedOut,
    /// Segments that arrived before others that the peer had sent earlier.
    OutOfOrder,
    /// Chunks that broke a rule of sessions.
    IllegalChunk,
    /// Connections that ended for want of memory.
    NoMemory,
    /// Connections that ended as a completion queue had overrun.
    CqOverruns,
}

/// The number of counters.
const KINDS: usize = Count::CqOverruns as usize + 1;

/// Returns the names of `N` counters.
pub(crate) const fn counter_names<const N: usize>(
    counters: &[(Count, &'static CStr)],
) -> [&'static CStr; N] {
    let mut names = [c_str!(""); N];
    let mut at = 0;
    while at < N {
        names[at] = counters[at].1;
        at += 1;
    }
    names
}

/// The counters of a device. Each segment is counted, so CPUs share no cache line for it.
pub(crate) struct Counters(KVec<Counter>);

impl Counters {
    /// Creates counters that are all 0. Sleeps.
    pub(crate) fn new() -> Result<Self> {
        let mut counters = KVec::with_capacity(KINDS, GFP_KERNEL)?;
        for _ in 0..KINDS {
            counters.push(Counter::new()?, GFP_KERNEL)?;
        }
        Ok(Self(counters))
    }

    /// Increments a counter.
    #[inline]
    pub(crate) fn add(&self, count: Count) {
        if let Some(counter) = self.0.get(count as usize) {
            counter.add(1);
        }
    }

    /// Returns the value of a counter.
    pub(crate) fn get(&self, count: Count) -> u64 {
        self.0.get(count as usize).map_or(0, Counter::sum)
    }
}
