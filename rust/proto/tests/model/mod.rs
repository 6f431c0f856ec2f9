// SPDX-License-Identifier: GPL-2.0

//! A Requester and a Responder, back to back over a fabric that delays and breaks.
//!
//! The crate under test takes all decisions; the model moves bytes and checks. The fabric keeps the
//! order of Sends and nothing else: RDMA Reads and Writes run segment by segment in any order,
//! before the Send that follows them. It panics where a real one reports an error: at a Send
//! without a Receive, a Send that is too long, an access to memory that is not registered, or not
//! that far.
//!
//! A source of [choices](Choices) drives it, so that a random generator, a property test or a
//! fuzzer can look for a schedule that goes wrong.

mod choices;
mod client;
mod fabric;
mod server;
mod ulp;

use client::Client;
use fabric::Fabric;
use server::Server;

pub use choices::Choices;
pub use client::Summary;

/// Runs `rpcs` RPCs to their end.
pub fn run(choices: &mut impl Choices, rpcs: usize) -> Summary {
    let mut fabric = Fabric::default();
    let mut client = Client::new(choices, rpcs);
    let mut server = Server::new(choices);
    let mut summary = Summary::default();
    while !client.is_done() {
        if !fabric.connected {
            client.connect(choices, &mut fabric, &mut server);
        }
        match choices.below(15) {
            0..=3 => client.send_call(choices, &mut fabric, &mut summary),
            4..=7 => server.receive(&mut fabric),
            8..=10 => server.finish_one(choices, &mut fabric),
            11..=13 => client.receive(&mut fabric, &mut summary),
            _ if choices.one_in(3) => server.send_reverse_call(&mut fabric),
            _ if choices.one_in(40) => {
                summary.lost += 1;
                client.lose_connection(&mut fabric);
                server.lose_connection();
            }
            _ => {}
        }
    }
    summary
}
