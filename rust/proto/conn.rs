// SPDX-License-Identifier: GPL-2.0

//! The state machine of a connection: an event goes in, an action comes out.
//!
//! The caller locks, steps, unlocks, and then carries out the [`Action`](client::Action). Events
//! that come late, twice or in the wrong state are part of the table: the connection manager
//! reports from its own threads, and a flushed queue tells of the end before the manager does.

pub mod client;
pub mod server;
