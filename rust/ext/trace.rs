// SPDX-License-Identifier: GPL-2.0

//! Trace events as safe functions, and identifiers in them and in the log. The numbers are those
//! that `rdma resource` and the events of other subsystems show.

use kernel::prelude::*;

/// The identifier of a message or transfer of a connection.
#[derive(Clone, Copy)]
pub struct CompletionId {
    /// The number of the completion queue.
    pub queue: u32,
    /// The number of the buffer in its protection domain.
    pub completion: c_int,
}

/// The identifier of an RPC.
#[derive(Clone, Copy)]
pub struct TaskId {
    /// `tk_pid`.
    pub task: u32,
    /// `cl_clid`; all bits are set if the task has no client.
    pub client: u32,
}

/// The description of a memory region.
#[derive(Clone, Copy)]
pub struct RegionInfo {
    /// The number of the region at its device.
    pub id: u32,
    /// The number of mapped scatter elements.
    pub entries: usize,
    /// The remote key.
    pub rkey: u32,
    /// The length in bytes.
    pub len: u32,
    /// The address at which it starts for the peer.
    pub iova: u64,
    /// The direction, a `DMA_*`.
    pub direction: u32,
}

/// The far end of a connection as text.
#[derive(Clone, Copy)]
pub struct Peer<'a> {
    /// Its address.
    pub addr: &'a CStr,
    /// Its port.
    pub port: &'a CStr,
}

/// Defines events: each is a module of that name with the functions `is_on` and `emit`. The
/// arguments of the C function follow the arrow. The crate names `cbindings`.
#[macro_export]
macro_rules! events {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),* $(,)?) => ($($value:expr),* $(,)?);)*) => {$(
        $(#[$doc])*
        pub mod $name {
            #[allow(unused_imports)]
            use super::*;

            /// Returns whether the event is being recorded.
            #[inline(always)]
            pub fn is_on() -> bool {
                #[cfg(CONFIG_TRACEPOINTS)]
                ::kernel::macros::paste! {
                    // SAFETY: C defines the trace point of that name, a static with such a
                    // key.
                    unsafe {
                        ::kernel::jump_label::static_branch_unlikely!(
                            ::cbindings::[<__tracepoint_ $name>],
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
                    // SAFETY: C only copies from the pointers among the arguments during the call.
                    // They come from references: strings end with a NUL, and an address has the
                    // length of the longest one.
                    unsafe { ::cbindings::[<rust_do_trace_ $name>]($($value),*) };
                }
                #[cfg(not(CONFIG_TRACEPOINTS))]
                let _ = ($($argument,)*);
            }
        }
    )*};
}
