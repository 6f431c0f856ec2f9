// SPDX-License-Identifier: GPL-2.0

//! A connection of an attack, and what its client asks the server for.

use crate::case::Outcome;
use crate::client::options;
use crate::client::Client;
use crate::verbs::Options;

/// One connection of an attack.
pub trait Attacker {
    /// Does what there is to do now; an error ends the connection. Called many times in a second.
    fn step(&mut self) -> Outcome;

    /// The client, which may have lost its connection.
    fn client(&self) -> &Client;
}

/// Options of a client that asks the server to wait 34 seconds for each acknowledgement, and that needs little memory itself.
///
/// For as long the server's ib_cm keeps 512 octets of each connection that is over. With the longest time that a client can ask for, 2.4
/// hours, those of thousands of connections would hide what the server itself keeps.
pub fn patient() -> Options {
    Options {
        ack_timeout: Some(23),
        send_len: 1024,
        ..options()
    }
}
