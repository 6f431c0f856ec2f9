// SPDX-License-Identifier: GPL-2.0

//! Events of the RDMA CM and completions of work requests.
//!
//! The handlers run in workers of the CM and of the completion queue. They queue work, change the
//! connection state, drop messages, and post replies that had to wait. nfsd threads do the rest,
//! except to close a connection, which a work item does.

use super::work_queue::MessageContext;
use crate::prelude::*;
use proto::conn::server as conn;
use rdma::{
    cm,
    mr,
    receive,
    send::PostedSend,
    Completing,
    Invalidated,
    QueueEvent,
    ReadHandler,
    WcStatus, //
};

impl From<WcStatus> for Cause {
    fn from(status: WcStatus) -> Self {
        if status.is_flush() {
            Self::WorkRequestFlushed
        } else {
            Self::WorkRequestFailed(status.reason())
        }
    }
}

impl rdma::Context for ServerConn {
    type InvalidateContext = ();
    type MessageContext = MessageContext;
    /// The XID of the message.
    type SendTag = u32;

    fn cm_event(&self, event: cm::Event<'_>, id: &cm::EventId<'_>) {
        match event {
            cm::Event::Established { .. } => {
                self.established.populate(Instant::now());
                let _ = self.state.on(conn::Event::Established);
            }
            cm::Event::DeviceRemoval => {
                if let (Some(device), Ok(client)) = (id.device_name(), id.remote_address()) {
                    trace::event!(svcrdma_device_removal(device, &client));
                }
                self.end(Cause::DeviceRemoved);
                // The removal waits for the close, whatever has ended the connection.
                self.close();
            }
            cm::Event::Disconnected => self.end(Cause::Disconnected),
            cm::Event::AddrChange => self.end(Cause::AddressChanged),
            cm::Event::Rejected { .. } | cm::Event::Unreachable | cm::Event::ConnectError => {
                self.end(Cause::SetupFailed);
            }
            cm::Event::AddrResolved
            | cm::Event::AddrError
            | cm::Event::RouteResolved
            | cm::Event::RouteError
            | cm::Event::Other => (),
        }
    }

    fn queue_event(&self, event: &QueueEvent<'_>) {
        trace::event!(svcrdma_qp_error(
            event.number(),
            event.device_name(),
            self.client_text().as_c_str()
        ));
        if event.is_fatal() {
            self.end_in_interrupt(Cause::QueuePairFailed);
        }
    }
}

impl rdma::Handler for ServerConn {
    type SendPolicy = endpoint::SendPolicy<Self>;

    fn received(
        &self,
        queue: &mut Completing<'_, Self>,
        mut message: receive::Message<Self>,
        _invalidated: Option<Invalidated<'_, Self>>,
    ) {
        trace::event!(svcrdma_wc_recv(message.id(queue), message.bytes().len()));
        // A message does not change the state of an open connection.
        if self.state.is_open() || self.state.on(conn::Event::Received) == conn::Action::Serve {
            self.begin_message(&mut message);
            match call::dropped(message.bytes()) {
                // Dropping a message needs no thread.
                Some(reason) => {
                    config::RECEIVED.add(1);
                    self.note_dropped(queue, &message, reason);
                    self.repost(queue, message);
                }
                None => self.queue_message(message),
            }
        }
    }

    fn receive_failed(
        &self,
        queue: &mut Completing<'_, Self>,
        buffer: receive::Buffer<Self>,
        status: WcStatus,
    ) {
        let (number, vendor_err) = (status.number(), status.vendor_err());
        if status.is_flush() {
            trace::event!(svcrdma_wc_recv_flush(buffer.id(queue), number, vendor_err));
        } else {
            trace::event!(svcrdma_wc_recv_err(buffer.id(queue), number, vendor_err));
        }
        drop(buffer);
        self.end(status.into());
    }

    fn request_failed(&self, status: WcStatus) {
        self.end(status.into());
    }

    fn write_failed(&self, xid: u32, status: WcStatus) {
        self.note_denied(Some(xid), status);
        self.end(status.into());
    }

    fn reply_posted(&self, send: PostedSend<'_, Self>) {
        trace::event!(svcrdma_post_send(
            send.id(),
            send.elements(),
            send.invalidates()
        ));
    }

    fn send_space_freed(&self, queue: &QueuePair<Self>) {
        self.on_space_freed(queue);
    }

    // The server registers memory only for RDMA Reads on iWARP, and each Read invalidates its
    // region itself.

    fn invalidated(
        &self,
        _queue: &mut Completing<'_, Self>,
        _regions: mr::Idle<Self>,
        _context: (),
    ) {
    }

    fn invalidate_failed(&self, _regions: mr::Registered<Self>, _context: ()) {}
}

impl ReadHandler for ServerConn {
    type ReadDone = WithMessage<ChunkedCall>;

    fn read_done(
        &self,
        queue: &QueuePair<Self>,
        mut call: WithMessage<ChunkedCall>,
        pages: KVec<Page>,
    ) {
        call.state.pages = pages;
        if let Some(posted) = call.state.reads_posted {
            trace::event!(svcrdma_wc_read(
                call.message.id(queue),
                call.read_bytes(),
                posted.elapsed().as_micros_ceil()
            ));
        }
        self.queue_read_done(call);
    }

    fn read_failed(
        &self,
        queue: &QueuePair<Self>,
        call: WithMessage<ChunkedCall>,
        status: WcStatus,
    ) {
        let (number, vendor_err) = (status.number(), status.vendor_err());
        let id = || call.message.id(queue);
        if status.is_flush() {
            trace::event!(svcrdma_wc_read_flush(id(), number, vendor_err));
        } else {
            trace::event!(svcrdma_wc_read_err(id(), number, vendor_err));
        }
        let xid = call.message.bytes().first_chunk().copied();
        self.note_denied(xid.map(u32::from_be_bytes), status);
        self.end(status.into());
        // Only now, so that its permit wakes no thread for another call.
        drop(call);
    }

    fn batch_not_posted(&self) {
        self.end(Cause::NextBatchNotPosted);
    }
}
