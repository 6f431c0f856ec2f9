// SPDX-License-Identifier: GPL-2.0

//! Calls that begin a context of RPCSEC_GSS (RFC 2203, section 5.2.2).
//!
//! `selftests/vm/gssproxy.py` on the server records which tokens arrive; selftests/vm/netns-server.sh runs both.

use crate::case::cases;
use crate::case::Outcome;
use crate::client::options;
use crate::client::Client;
use crate::message::ChunkLists;
use crate::verbs::Options;
use crate::wire::words;
use std::net::SocketAddrV4;

cases![ServerCase: gss_token_longer_than_a_page];

/// A server that takes the pages of a token for contiguous memory copies it correctly if they happen to
/// be contiguous, but they are not each time.
const TRIES: usize = 8;

/// The message almost fills the server's Receive.
fn gss_token_longer_than_a_page(server: SocketAddrV4) -> Outcome {
    let mut options = Options {
        receive_len: 8192,
        ..options()
    };
    // 8 KiB both ways.
    options.private[6..].fill(7);
    let token: Vec<u8> = (0..4000_u16).flat_map(u16::to_be_bytes).collect();
    for _ in 0..TRIES {
        let client = Client::with(server, &options)?;
        let xid = client.xid();
        // NULL of NFSv4. The credential: version 1, INIT, sequence number 0, no protection, no context yet. Then
        // an empty verifier, and the token.
        let mut call = words([xid, 0, 2, 100_003, 4, 0, 6, 20, 1, 1, 0, 1, 0, 0, 0, 8000]);
        call.extend(&token);
        client.send(&client.inline_call(xid, &ChunkLists::default(), &call))?;
        // gssproxy refuses the token, and sunrpc ends the connection without a reply.
        client.loses_connection()?;
    }
    Ok(())
}
