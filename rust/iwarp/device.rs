// SPDX-License-Identifier: GPL-2.0

//! Devices: the common part of all queue pairs on a network device.

use crate::connecting::Connecting;
use crate::ending::Endings;
use crate::listener::Listener;
use crate::lower::Lower;
use crate::lower::MAX_READS;
use crate::qp::Qp;
use crate::request::Request;
use crate::request::Requests;
use crate::shared::Shared;
use core::net::SocketAddr;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::Arc;
use provider::cm::Addresses;
use provider::cm::CmId;
use provider::cm::Parameters;
use provider::driver::Limits;
use provider::driver::Regions;
use provider::errno::econnreset;
use provider::netdev::NetDevice;
use provider::queue::Queues;
use provider::region::Domain;
use provider::Driver;

/// A device.
pub(crate) struct Device<L: Lower> {
    shared: Arc<Shared>,
    // Connections that nobody has accepted or rejected.
    requests: Arc<Requests<L>>,
    // Connections that are closing, without their queue pair.
    endings: Arc<Endings<L>>,
}

impl<L: Lower> Driver for Device<L> {
    const LINK_TYPE: &'static CStr = L::LINK_TYPE;
    const ID: u32 = L::ID;
    const LIMITS: Limits = Limits {
        max_pages: 1024,
        max_entries: 32,
        max_requests: 1 << 15,
        max_reads: MAX_READS as u32,
        max_completions: 1 << 20,
    };
    const COUNTERS: &'static [&'static CStr] = L::NAMES;
    type QueuePair = Qp<L>;
    type Listener = Listener<L>;

    fn new(regions: Arc<Regions>) -> Result<Arc<Self>> {
        let device = Self {
            shared: Shared::new(regions)?,
            requests: Arc::pin_init(Requests::new(), GFP_KERNEL)?,
            endings: Endings::new()?,
        };
        Ok(Arc::new(device, GFP_KERNEL)?)
    }

    fn create(this: &Arc<Self>, queues: Arc<Queues>, domain: Domain) -> Result<Arc<Qp<L>>> {
        Qp::new(this.shared.clone(), queues, this.endings.clone(), domain)
    }

    fn counter(&self, index: usize) -> u64 {
        let counter = L::COUNTERS.get(index);
        counter.map_or(0, |(count, _)| self.shared.counters.get(*count))
    }

    fn connect(
        _: &Arc<Self>,
        netdev: &NetDevice,
        qp: &Arc<Qp<L>>,
        ends: Addresses,
        parameters: Parameters<'_>,
        id: CmId,
    ) -> Result {
        let net = netdev.net()?;
        Qp::connect(qp, |waker| {
            Connecting::new(&net, ends, parameters, id, waker)
        })
    }

    fn accept(
        this: &Arc<Self>,
        handle: u32,
        qp: &Arc<Qp<L>>,
        parameters: Parameters<'_>,
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
        this.endings.stop();
    }
}
