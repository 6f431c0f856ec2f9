// SPDX-License-Identifier: GPL-2.0

//! Event channels, ids, protection domains and completion queues. Each is destroyed when it is dropped.

use super::ffi::*;
use crate::timeout::scaled;
use std::ffi::c_int;
use std::io::Error;
use std::io::ErrorKind;
use std::io::Result;
use std::ptr;
use std::ptr::NonNull;
use std::time::Duration;

/// How long the connection manager may take. Emulated machines are slow.
pub(super) fn cm_timeout() -> Duration {
    scaled(Duration::from_secs(10))
}

pub(super) struct Channel(pub(super) NonNull<RawChannel>);

impl Channel {
    pub(super) fn new() -> Result<Self> {
        // SAFETY: It has no arguments.
        made(unsafe { rdma_create_event_channel() }).map(Self)
    }

    /// The next event, if it comes in time.
    pub(super) fn next(&self, timeout: Duration) -> Result<Option<Event>> {
        let mut event = Event {
            kind: 0,
            status: 0,
            id: ptr::null_mut(),
            private_len: 0,
            private_data: [0; 256],
        };
        let timeout = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: The channel lives as long as `self`, and `event` is what C fills in.
        match check(unsafe { peer_event(self.0.as_ptr(), timeout, &mut event) }) {
            Ok(()) => Ok(Some(event)),
            Err(error) if error.kind() == ErrorKind::TimedOut => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for an event of `kind`.
    pub(super) fn expect(&self, kind: u32) -> Result<Event> {
        match self.next(cm_timeout())? {
            Some(event) if event.kind == kind => Ok(event),
            Some(event) if event.kind == event::REJECTED => {
                Err(ErrorKind::ConnectionRefused.into())
            }
            Some(event) => Err(Error::other(format!(
                "event {} with status {} instead of {kind}",
                event.kind, event.status
            ))),
            None => Err(ErrorKind::TimedOut.into()),
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: Each id of the channel is gone: those that own it have it as a later field.
        unsafe { rdma_destroy_event_channel(self.0.as_ptr()) };
    }
}

pub(super) struct Id(pub(super) NonNull<RawId>);

impl Id {
    pub(super) fn new(channel: &Channel) -> Result<Self> {
        let mut id = ptr::null_mut();
        // SAFETY: The channel is live, and the id is written to `id`.
        check(unsafe { rdma_create_id(channel.0.as_ptr(), &mut id, ptr::null_mut(), PORT_SPACE) })?;
        made(id).map(Self)
    }

    pub(super) fn raw(&self) -> *mut RawId {
        self.0.as_ptr()
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: Nobody uses the id any more, and its events are all acknowledged.
        unsafe { rdma_destroy_id(self.raw()) };
    }
}

pub(super) struct Pd(pub(super) NonNull<RawPd>);

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: Regions and connections each hold a reference, so there are none left.
        unsafe { ibv_dealloc_pd(self.0.as_ptr()) };
    }
}

pub(super) struct Cq(pub(super) NonNull<RawCq>);

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: The queue pair is gone, see `Connection::drop`.
        unsafe { ibv_destroy_cq(self.0.as_ptr()) };
    }
}

/// Where events of a completion queue arrive.
pub(super) struct CqEvents(pub(super) NonNull<RawCqEvents>);

impl Drop for CqEvents {
    fn drop(&mut self) {
        // SAFETY: Its completion queue is gone: those that own it have it as a later field.
        unsafe { ibv_destroy_comp_channel(self.0.as_ptr()) };
    }
}
