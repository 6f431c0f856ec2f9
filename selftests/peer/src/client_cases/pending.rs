// SPDX-License-Identifier: GPL-2.0

//! The crafted server with one call of the client that it has not replied to.

use crate::kernel_client;
use crate::nfs3::procedure;
use crate::server::Call;
use crate::server::Server;

/// A client that reads, and its first READ, which offers a Write chunk.
pub fn pending_read() -> Result<(Server, Call), String> {
    pending_read_of(Server::new(kernel_client::read)?)
}

/// The first READ that comes to `server`, which offers a Write chunk.
pub fn pending_read_of(mut server: Server) -> Result<(Server, Call), String> {
    let call = server.serve_until(procedure::READ)?;
    call.write_segment()?;
    Ok((server, call))
}

/// A client that lists the directory, and its READDIR, which offers a Reply chunk.
pub fn pending_readdir() -> Result<(Server, Call), String> {
    let mut server = Server::new(kernel_client::list)?;
    let call = server.serve_until(procedure::READDIR)?;
    call.reply_chunk()?;
    Ok((server, call))
}
