// SPDX-License-Identifier: GPL-2.0

//! Connections, messages and registered memory, over librdmacm and libibverbs.
//!
//! Nothing here depends on what is sent. A connection has one completion queue and is used by one
//! thread; each wait has a timeout. A pair is a connection whose ends are both used by one thread, and
//! sleep until a request is complete: what is measured. All unsafe code is here and in `kernel_client.rs`, which mounts.

mod connection;
mod ffi;
mod memory;
mod pair;
mod resources;

pub use connection::own_address;
pub use connection::Connection;
pub use connection::Listener;
pub use connection::Message;
pub use connection::Options;
pub use connection::Verb;
pub use memory::Access;
pub use memory::Region;
pub use memory::Window;
pub use pair::LoneQp;
pub use pair::Pair;
pub use pair::Shared;

use std::fs;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// How often the devices of this machine were told that there is no Receive for what they sent.
pub fn rnr_naks() -> Result<u64, String> {
    let devices = fs::read_dir("/sys/class/infiniband").map_err(|error| error.to_string())?;
    let counters = devices.flatten().filter_map(|device| {
        let file = device.path().join("ports/1/hw_counters/rcvd_rnr_err");
        fs::read_to_string(file).ok()?.trim().parse::<u64>().ok()
    });
    let counters: Vec<_> = counters.collect();
    match counters.is_empty() {
        true => Err("no device counts RNR NAKs".into()),
        false => Ok(counters.iter().sum()),
    }
}

/// From now on the packets of `socket`, which is not connected, have no identification in their IP header.
pub fn without_identification(socket: &UdpSocket) -> std::io::Result<()> {
    // SAFETY: It sets an option of a socket that is open.
    ffi::check(unsafe { ffi::peer_without_identification(socket.as_raw_fd()) })
}

/// `IBV_WC_SUCCESS`.
pub const SUCCESS: u32 = 0;

/// The statuses of a request that the other device refused: `IBV_WC_REM_INV_REQ_ERR`, for an atomic
/// operation that it does not allow, and `IBV_WC_REM_ACCESS_ERR`.
pub const DENIED: [u32; 2] = [9, 10];
