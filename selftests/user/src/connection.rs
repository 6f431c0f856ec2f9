// SPDX-License-Identifier: GPL-2.0

//! Connections between two queue pairs of this process, by the address of the device.

use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering;

use crate::kernel::Cm;
use crate::kernel::RawEvent;
use crate::verbs::Context;
use crate::verbs::Qp;
use crate::verbs::PATIENCE;

/// Kinds of events.
pub const ADDRESS_RESOLVED: u32 = 0;
pub const ROUTE_RESOLVED: u32 = 2;
pub const CONNECT_REQUEST: u32 = 4;
pub const ESTABLISHED: u32 = 9;
pub const DISCONNECTED: u32 = 10;

/// The device of this run: its name, and its address.
#[derive(Clone, Debug)]
pub struct Device {
    pub name: String,
    pub ip: String,
}

/// Waits for an event of that kind.
pub fn event(cm: &Cm, kind: u32) -> Result<RawEvent, String> {
    let event = cm
        .event(PATIENCE.as_millis() as i32)
        .map_err(|errno| format!("no event {kind}: errno {errno}"))?;
    if event.kind != kind {
        return Err(format!("an event {event:?} instead of kind {kind}"));
    }
    Ok(event)
}

fn no(what: &'static str) -> impl Fn(i32) -> String {
    move |errno| format!("{what}: errno {errno}")
}

/// A listener, with a port of its own.
pub struct Listener {
    pub cm: Cm,
    id: u32,
    pub port: u16,
}

impl Listener {
    /// Listens at the address of the device.
    pub fn new(device: &Device) -> Result<Self, String> {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let cm = Cm::open().map_err(|error| format!("rdma_cm: {error}"))?;
        // What others of this machine listen on is left out. Ports from 32,768 on are those of connections, which keep them for a
        // minute after their end.
        let first = 10_000 + (std::process::id() % 12_000) as u16;
        let mut last = 0;
        for _ in 0..100 {
            let port = first + NEXT.fetch_add(1, Ordering::Relaxed) % 10_000;
            // One that has a port already gets no other.
            let id = cm.create().map_err(no("CREATE_ID"))?;
            match cm.listen(id, &device.ip, port) {
                Ok(()) => return Ok(Self { cm, id, port }),
                Err(errno) => last = errno,
            }
            cm.destroy(id).map_err(no("DESTROY_ID"))?;
        }
        Err(format!("no port can be listened on: errno {last}"))
    }

    /// Waits for a request, and returns its id.
    pub fn request(&self) -> Result<u32, String> {
        Ok(event(&self.cm, CONNECT_REQUEST)?.id)
    }

    /// Stops listening. What was accepted stays with the file.
    fn close(self) -> Cm {
        let _ = self.cm.destroy(self.id);
        self.cm
    }
}

/// An id whose route to a port of the device is resolved.
pub fn routed(device: &Device, port: u16) -> Result<(Cm, u32), String> {
    let cm = Cm::open().map_err(|error| format!("rdma_cm: {error}"))?;
    let id = cm.create().map_err(no("CREATE_ID"))?;
    cm.resolve_address(id, &device.ip, port)
        .map_err(no("RESOLVE_ADDR"))?;
    event(&cm, ADDRESS_RESOLVED)?;
    cm.resolve_route(id).map_err(no("RESOLVE_ROUTE"))?;
    event(&cm, ROUTE_RESOLVED)?;
    Ok((cm, id))
}

/// One end of a connection.
pub struct End {
    pub cm: Cm,
    pub id: u32,
    pub qp: Qp,
}

impl End {
    /// Waits until the connection manager says that the connection has ended.
    pub fn ended(&self) -> Result<(), String> {
        event(&self.cm, DISCONNECTED).map(|_| ())
    }

    /// Sends octets, and waits for the completion.
    pub fn send(&mut self, id: u64, octets: &[u8]) -> Result<(), String> {
        self.qp.post(crate::entry::inline(id, octets))?;
        let completion = self.qp.cq.wait()?;
        match completion.status {
            0 if completion.id == id => Ok(()),
            _ => Err(format!("a Send completes as {completion:?}")),
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.cm.disconnect(self.id);
        let _ = self.cm.destroy(self.id);
    }
}

/// Connects two queue pairs. The first one asks.
pub fn connect(device: &Device, active: Qp, passive: Qp) -> Result<(End, End), String> {
    let listener = Listener::new(device)?;
    let (cm, id) = routed(device, listener.port)?;
    cm.connect(id, active.raw.number).map_err(no("CONNECT"))?;
    let request = listener.request()?;
    listener
        .cm
        .accept(request, passive.raw.number)
        .map_err(no("ACCEPT"))?;
    event(&cm, ESTABLISHED)?;
    event(&listener.cm, ESTABLISHED)?;
    let server = listener.close();
    let ends = (
        End { cm, id, qp: active },
        End {
            cm: server,
            id: request,
            qp: passive,
        },
    );
    Ok(ends)
}

/// Makes two connected queue pairs with that many entries, each in a context of its own.
pub fn pair(device: &Device, entries: u32) -> Result<(End, End), String> {
    let active = Qp::new(&Context::open(&device.name)?, entries)?;
    let passive = Qp::new(&Context::open(&device.name)?, entries)?;
    connect(device, active, passive)
}
