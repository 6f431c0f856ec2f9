// SPDX-License-Identifier: GPL-2.0

//! Bindings: C declarations as bindgen translates them, and C helpers for inline functions and
//! macros.
//!
//! Both modules are built with this crate. Only `ext` and the crates that wrap a subsystem may name
//! it: `rdma`, `sunrpc`, `trace`, `iwtrace`, `provider` and `socket`. They wrap what they need in
//! types whose use is safe; no generated name appears in their public signatures.
//!
//! The helpers are in three files: what both modules call is in `helpers/common.c`, which `ext` may
//! use; a module that named a helper of the other one could not be linked.

#![deny(unsafe_op_in_unsafe_fn)]

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
// bindgen transmutes numbers in bit fields. rustc speaks of that from 1.88 on; before, it knows no
// such lint.
#[cfg_attr(CONFIG_RUSTC_HAS_UNNECESSARY_TRANSMUTES, allow(unnecessary_transmutes))]
mod generated {
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

pub use generated::*;
