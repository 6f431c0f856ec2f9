// SPDX-License-Identifier: GPL-2.0

//! Messages that the client drops whatever it has called.

use super::pending::pending_read;
use crate::case::cases;
use crate::case::Outcome;
use crate::hostile_replies;
use crate::kernel_client;
use crate::nfs3;
use crate::server::Call;
use crate::server::Server;
use crate::server::FIRST_PROCEDURE;
use crate::wire;

cases![ClientCase: amb02_too_many_malformed_messages];

/// How many malformed messages a connection survives.
const TOLERATED: usize = 2;

/// The client takes none of these messages for the reply to its first call, but takes the correct one.
pub fn are_dropped(messages: Vec<Vec<u8>>) -> Outcome {
    for messages in messages.chunks(TOLERATED) {
        let mut server = Server::new(kernel_client::idle)?;
        let call = server.serve_until(FIRST_PROCEDURE)?;
        for message in messages {
            server.send(&with_xid_of(&call, message))?;
        }
        server.client_waits()?;
        server.reply(&call)?;
        server.client_succeeds(&[])?;
        server.has_connected(1)?;
    }
    Ok(())
}

/// `message` with the XID of `call`.
fn with_xid_of(call: &Call, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    let words = message.chunks_exact_mut(4);
    for word in words.filter(|word| *word == wire::XID.to_be_bytes()) {
        word.copy_from_slice(&call.xid.to_be_bytes());
    }
    message
}

// Shows S3.3.1-17.
fn amb02_too_many_malformed_messages() -> Outcome {
    let (mut server, call) = pending_read()?;
    for message in hostile_replies::replies(80).iter().take(TOLERATED + 1) {
        server.send(&with_xid_of(&call, message))?;
    }
    // The client ends the connection, and sends the READ again over the next one.
    server.client_succeeds(&nfs3::content())?;
    server.has_connected(2)
}
