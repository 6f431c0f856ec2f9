// SPDX-License-Identifier: GPL-2.0

//! Trace points, with the names and fields of the in-tree module's.
//!
//! C header: [`include/rpcrdma_trace.h`](srctree/include/rpcrdma_trace.h)
//!
//! Each event is a module of that name. [`event!`] checks whether the event is on, and only then
//! evaluates its arguments and records it:
//!
//! ```
//! use trace::CompletionId;
//!
//! fn received(id: CompletionId, message: &[u8]) {
//!     trace::event!(svcrdma_wc_recv(id, message.len()));
//! }
//! ```
//!
//! While the event is off, that is a NOP (a static key). It does not sleep, and may be called
//! anywhere.

// Kbuild passes these to rustc. rustdoc drops them when it extracts examples.
#![cfg_attr(doctest, no_std, feature(asm_goto))]
#![deny(unsafe_op_in_unsafe_fn)]

mod client;
mod server;

pub use client::*;
pub use ext::trace::{
    CompletionId,
    Peer,
    RegionInfo,
    TaskId, //
};
pub use server::*;

/// Records an event if it is on: `event!(NAME(ARGUMENT, ...))`, with the arguments of the event's
/// `emit`.
#[macro_export]
macro_rules! event {
    ($name:ident($($argument:expr),* $(,)?)) => {
        if $crate::$name::is_on() {
            $crate::$name::emit($($argument),*);
        }
    };
}

/// Converts a length to the `int` or `unsigned int` that C takes.
fn small<T: TryFrom<usize> + Default>(len: usize) -> T {
    T::try_from(len).unwrap_or_default()
}

/// Returns a word of the fixed header of a message (RFC 8166, section 4.2), or zero if that is cut
/// off.
fn word(message: &[u8], index: usize) -> u32 {
    let word = message.chunks_exact(4).nth(index);
    word.and_then(|word| word.first_chunk())
        .map_or(0, |word| u32::from_be_bytes(*word))
}
