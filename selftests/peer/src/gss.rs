// SPDX-License-Identifier: GPL-2.0

//! Calls that begin a context of RPCSEC_GSS (RFC 2203, section 5.2.2).
//!
//! `selftests/vm/gssproxy.py` on the server says what arrived: selftests/vm/netns-server.sh has both run.

use super::bench::Bench;
use super::bench::Lists;
use super::bench::Verdict;
use super::bench::PRIVATE;
use super::calls::cases;
use super::verbs::Options;
use super::wire::words;
use std::net::SocketAddrV4;

cases![gss_token_longer_than_a_page];

/// Who takes the pages of a token for one run copies it whole if they happen to be that, but they are
/// not each time.
const TRIES: usize = 8;

/// In a message that fills the server's Receive, almost.
fn gss_token_longer_than_a_page(server: SocketAddrV4) -> Verdict {
    let mut options = Options {
        private: PRIVATE.to_vec(),
        receive_len: 8192,
        ..Options::default()
    };
    // 8 KiB both ways.
    options.private[6..].fill(7);
    let token: Vec<u8> = (0..4000_u16).flat_map(u16::to_be_bytes).collect();
    for _ in 0..TRIES {
        let bench = Bench::with(server, &options)?;
        let xid = bench.xid();
        // NULL of NFSv4. In the credential: version 1, INIT, not counted, without protection, no context
        // yet. An empty verifier, and the token.
        let mut call = words([xid, 0, 2, 100_003, 4, 0, 6, 20, 1, 1, 0, 1, 0, 0, 0, 8000]);
        call.extend(&token);
        bench.send(&bench.message(xid, 0, &Lists::default(), &call))?;
        // No context comes of it, which sunrpc does not tell in words.
        bench.loses()?;
    }
    Ok(())
}
