// SPDX-License-Identifier: GPL-2.0

//! Trace points, with the names and fields of the in-tree module's.
//!
//! C header: [`include/rpcrdma_trace.h`](srctree/include/rpcrdma_trace.h)
//!
//! Each event is a module of that name. [`event!`] asks whether the event is on, and only then evaluates what the event
//! shows and records it:
//!
//! ```ignore
//! trace::event!(svcrdma_wc_recv(message.id(queue), message.bytes().len()));
//! ```
//!
//! While the event is off, that is a NOP (a static key). It does not sleep, and may be called anywhere.

#![deny(unsafe_op_in_unsafe_fn)]

mod client;
mod server;

pub use client::*;
pub use server::*;
pub use shared::trace::{
    CompletionId,
    Peer,
    RegionInfo,
    TaskId, //
};

/// Records the event, if it is on: `event!(NAME(ARGUMENT, ...))`, with the arguments of the `emit` of that event.
#[macro_export]
macro_rules! event {
    ($name:ident($($argument:expr),* $(,)?)) => {
        if $crate::$name::is_on() {
            $crate::$name::emit($($argument),*);
        }
    };
}

/// C wants an `int` or an `unsigned int` for a length.
fn small<T: TryFrom<usize> + Default>(len: usize) -> T {
    T::try_from(len).unwrap_or_default()
}

/// A word of the fixed header of a message (RFC 8166, section 4.2), or zero if that is cut off.
fn word(message: &[u8], index: usize) -> u32 {
    let word = message.chunks_exact(4).nth(index);
    word.and_then(|word| word.first_chunk())
        .map_or(0, |word| u32::from_be_bytes(*word))
}

/// Defines events. What follows the arrow is what the C function takes.
macro_rules! events {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),* $(,)?) => ($($value:expr),* $(,)?);)*) => {$(
        $(#[$doc])*
        pub mod $name {
            #[allow(unused_imports)]
            use super::*;

            /// Whether somebody records the event.
            #[inline(always)]
            pub fn is_on() -> bool {
                #[cfg(CONFIG_TRACEPOINTS)]
                ::kernel::macros::paste! {
                    // SAFETY: The trace point is defined in C, and has such a key.
                    unsafe {
                        ::kernel::jump_label::static_branch_unlikely!(
                            ::raw::[<__tracepoint_ $name>],
                            ::kernel::bindings::tracepoint,
                            key
                        )
                    }
                }
                #[cfg(not(CONFIG_TRACEPOINTS))]
                false
            }

            /// Records the event.
            #[cold]
            #[inline(never)]
            pub fn emit($($argument: $type),*) {
                #[cfg(CONFIG_TRACEPOINTS)]
                ::kernel::macros::paste! {
                    // SAFETY: C copies what the arguments point to, which is valid during the call: strings that end with a
                    // NUL, and addresses that are as long as any.
                    unsafe { ::raw::[<rust_do_trace_ $name>]($($value),*) };
                }
                #[cfg(not(CONFIG_TRACEPOINTS))]
                let _ = ($($argument,)*);
            }
        }
    )*};
}

pub(crate) use events;
