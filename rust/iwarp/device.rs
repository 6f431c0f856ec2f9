// SPDX-License-Identifier: GPL-2.0

//! Devices: what is common to all queue pairs on a network device.

use crate::connecting::Connecting;
use crate::counters;
use crate::listener::Listener;
use crate::qp::Qp;
use crate::request::Request;
use crate::request::Requests;
use crate::shared::Shared;
use core::net::SocketAddr;
use kernel::c_str;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::Arc;
use provider::cm::Addresses;
use provider::cm::CmId;
use provider::cm::Parameters;
use provider::driver::Limits;
use provider::driver::Regions;
use provider::netdev::NetDevice;
use provider::queue::Queues;
use provider::region::Domain;
use provider::Driver;

/// A device.
pub(crate) struct Device {
    shared: Arc<Shared>,
    // Connections that nobody has accepted or rejected.
    requests: Arc<Requests>,
}

impl Driver for Device {
    const LINK_TYPE: &'static CStr = c_str!("iwarp-tcp");
    // "IWAR". No driver that user space knows: it must not take this for a device that it can drive.
    const ID: u32 = 0x4957_4152;
    const LIMITS: Limits = Limits {
        max_pages: 1024,
        max_entries: 32,
        max_requests: 1 << 15,
        max_reads: 128,
        max_completions: 1 << 20,
    };
    const COUNTERS: &'static [&'static CStr] = counters::NAMES;
    type QueuePair = Qp;
    type Listener = Listener;

    fn new(regions: Arc<Regions>) -> Result<Arc<Self>> {
        let device = Self {
            shared: Shared::new(regions)?,
            requests: Arc::pin_init(Requests::new(), GFP_KERNEL)?,
        };
        Ok(Arc::new(device, GFP_KERNEL)?)
    }

    fn create(this: &Arc<Self>, queues: Arc<Queues>, domain: Domain) -> Result<Arc<Qp>> {
        Qp::new(this.shared.clone(), queues, domain)
    }

    fn counter(&self, index: usize) -> u64 {
        self.shared.counters.get(index)
    }

    fn connect(
        _: &Arc<Self>,
        netdev: &NetDevice,
        qp: &Arc<Qp>,
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
        qp: &Arc<Qp>,
        parameters: Parameters<'_>,
        id: CmId,
    ) -> Result {
        let request = this.requests.remove(handle).ok_or(ECONNRESET)?;
        Request::accept(&request, qp, parameters, id)
    }

    fn reject(this: &Arc<Self>, handle: u32, private_data: &[u8]) -> Result {
        let request = this.requests.remove(handle).ok_or(ECONNRESET)?;
        Request::reject(&request, private_data)
    }

    fn listen(
        this: &Arc<Self>,
        netdev: &NetDevice,
        address: SocketAddr,
        backlog: u32,
        id: CmId,
    ) -> Result<Listener> {
        let (shared, requests) = (this.shared.clone(), this.requests.clone());
        Listener::new(shared, requests, netdev, address, backlog, id)
    }

    fn remove(this: &Arc<Self>) {
        while let Some(request) = this.requests.pop() {
            Request::stop(&request);
        }
    }
}
