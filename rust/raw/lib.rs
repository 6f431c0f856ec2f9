// SPDX-License-Identifier: GPL-2.0

//! Bindings: C declarations as bindgen translates them.
//!
//! Only the crates `shared`, `rdma`, `sunrpc` and `trace` may name this crate. They wrap what they
//! need in types whose use is safe; no generated name appears in their public
//! signatures.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod compat;

// Generated code follows C's style, and each wrapper documents the item that it wraps.
#[allow(
    clippy::all,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ptr_cast_constness,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    improper_ctypes_definitions,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]
mod bindings {
    use kernel::bindings::{
        bio_vec, completion, device, list_head, lock_class_key, module, page, scatterlist,
        sockaddr, task_struct, tracepoint, work_struct, workqueue_struct,
    };
    use kernel::ffi;

    type __kernel_size_t = usize;
    type __kernel_ssize_t = isize;
    type __kernel_ptrdiff_t = isize;

    mod helpers {
        use super::*;
        include!("helpers_generated.rs");
    }

    // An item that both define is taken from the header, not from the helpers.
    pub use helpers::*;
    include!("bindings_generated.rs");
}

pub use bindings::*;
