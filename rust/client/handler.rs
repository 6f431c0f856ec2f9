// SPDX-License-Identifier: GPL-2.0

//! Events of the RDMA CM and completions of work requests.

use super::{
    connection::ClientConnection,
    connection_state::ConnectError,
    reply,
    slot::InvalidateContext, //
};
use crate::endpoint;
use proto::conn::client::Event;
use rdma::{
    cm,
    mr,
    receive,
    Invalidated,
    QueuePair,
    WcStatus, //
};

impl rdma::Context for ClientConnection {
    type InvalidateContext = InvalidateContext;
    type SendTag = ();

    fn cm_event(&self, event: cm::Event<'_>, id: &cm::EventId<'_>) {
        let state = self.state();
        match event {
            cm::Event::AddrResolved => state.report(Event::AddressResolved),
            cm::Event::RouteResolved => state.report(Event::RouteResolved),
            cm::Event::Established { private_data } => self.established(private_data, id),
            cm::Event::AddrError => state.fail(ConnectError::Address),
            cm::Event::RouteError => state.fail(ConnectError::Route),
            cm::Event::Unreachable => {
                self.connect_failed(ConnectError::Unreachable, c"server unreachable")
            }
            cm::Event::ConnectError => {
                self.connect_failed(ConnectError::Lost, c"connection setup failed")
            }
            cm::Event::Rejected { stale } => {
                let connect_error = if stale {
                    ConnectError::Stale
                } else {
                    ConnectError::Rejected
                };
                self.connect_failed(connect_error, c"rejected by the server");
            }
            cm::Event::Disconnected => self.lost(c"closed by the server"),
            // The local address moved to another device, so the resolved path is no longer valid.
            cm::Event::AddrChange => self.lost(c"local address moved"),
            cm::Event::DeviceRemoval => self.on_device_removal(id),
            cm::Event::Other => (),
        }
    }
}

impl rdma::Handler for ClientConnection {
    type SendPolicy = endpoint::SendPolicy<Self>;

    fn received(
        &self,
        queue: &QueuePair<Self>,
        message: receive::Message<Self>,
        invalidated: Option<Invalidated<'_, Self>>,
    ) {
        trace::event!(xprtrdma_wc_receive(
            message.id(queue),
            message.bytes().len(),
            0,
            0
        ));
        reply::received(self, queue, message, invalidated);
    }

    fn receive_failed(
        &self,
        queue: &QueuePair<Self>,
        buffer: receive::Buffer<Self>,
        status: WcStatus,
    ) {
        trace::event!(xprtrdma_wc_receive(
            buffer.id(queue),
            0,
            status.number(),
            status.vendor_err()
        ));
        self.receives.keep(buffer.into());
        self.work_request_failed(status);
    }

    fn request_failed(&self, status: WcStatus) {
        self.work_request_failed(status);
    }

    fn send_space_freed(&self, _queue: &QueuePair<Self>) {
        self.xprt.with(|xprt| xprt.write_space());
    }

    fn invalidated(
        &self,
        queue: &QueuePair<Self>,
        regions: mr::Idle<Self>,
        context: InvalidateContext,
    ) {
        self.put_regions(regions);
        match context {
            InvalidateContext::Reply(reply) => reply.complete(self, queue),
            InvalidateContext::Release(slot) => slot.invalidated(),
        }
    }

    fn invalidate_failed(&self, regions: mr::Registered<Self>, context: InvalidateContext) {
        match context {
            // The Call is sent again on the next connection.
            InvalidateContext::Reply(reply) => reply.rqst.slot().take_back(regions),
            InvalidateContext::Release(slot) => {
                // They are deregistered when the queue pair is drained.
                self.counters.broken_regions.add(regions.len() as u64);
                drop(regions);
                slot.invalidate_failed();
            }
        }
    }
}
