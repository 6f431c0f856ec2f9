// SPDX-License-Identifier: GPL-2.0

//! Devices: the common part of all queue pairs on a network device.

use crate::closing::ClosingConns;
use crate::connect::Connecting;
use crate::listener::Listener;
use crate::llp::Llp;
use crate::llp::MAX_READS;
use crate::qp::Qp;
use crate::request::Request;
use crate::request::Requests;
use crate::shared::DeviceState;
use core::net::SocketAddr;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::Arc;
use provider::cm::CmId;
use provider::cm::ConnParams;
use provider::cm::Endpoints;
use provider::driver::Limits;
use provider::driver::Regions;
use provider::errno::econnreset;
use provider::netdev::NetDevice;
use provider::queue::Queues;
use provider::region::ProtectionDomain;
use provider::Driver;

/// A device.
pub(crate) struct Device<L: Llp> {
    shared: Arc<DeviceState>,
    // Connections that nobody has accepted or rejected.
    requests: Arc<Requests<L>>,
    // Connections that are closing, without their queue pair.
    closing_conns: Arc<ClosingConns<L>>,
}

impl<L: Llp> Driver for Device<L> {
    const LINK_TYPE: &'static CStr = L::LINK_TYPE;
    const ID: u32 = L::ID;
    const LIMITS: Limits = Limits {
        max_pages: 1024,
        max_sge: 32,
        max_wr: 1 << 15,
        max_read_depth: MAX_READS as u32,
        max_cqe: 1 << 20,
    };
    const COUNTERS: &'static [&'static CStr] = L::NAMES;
    type QueuePair = Qp<L>;
    type Listener = Listener<L>;

    fn new(regions: Arc<Regions>) -> Result<Arc<Self>> {
        let device = Self {
            shared: DeviceState::new(regions)?,
            requests: Arc::pin_init(Requests::new(), GFP_KERNEL)?,
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
        Qp::connect(qp, |events| {
            Connecting::new(&net, endpoints, parameters, id, events)
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
        Request::accept(&request, qp, parameters, id)
    }

    fn reject(this: &Arc<Self>, handle: u32, private_data: &[u8]) -> Result {
        let request = this.requests.remove(handle).ok_or(econnreset())?;
        Request::reject(&request, private_data)
    }

    fn listen(
        this: &Arc<Self>,
        netdev: NetDevice,
        address: SocketAddr,
        backlog: u32,
        id: CmId,
    ) -> Result<Listener<L>> {
        let (shared, requests) = (this.shared.clone(), this.requests.clone());
        Listener::new(shared, requests, netdev, address, backlog, id)
    }

    fn remove(this: &Arc<Self>) {
        while let Some(request) = this.requests.pop() {
            Request::stop(&request);
        }
        this.closing_conns.stop();
    }
}
