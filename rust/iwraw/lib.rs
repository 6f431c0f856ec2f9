// SPDX-License-Identifier: GPL-2.0

//! Bindings for `iwarp.ko`: C as bindgen sees it.
//!
//! Only the crates `provider` and `socket` may name this crate. They wrap it in types whose use is
//! safe; no generated name appears in their public signatures. Memory and addresses pass between
//! the two in types of [`memory`] and [`addr`], which both re-export.

#![deny(unsafe_op_in_unsafe_fn)]

use kernel::ffi;
use kernel::str::CStr;
use kernel::str::CStrExt;

pub mod addr;
pub mod errno;
pub mod lock;
pub mod memory;
pub mod noio;
pub mod work;

// Generated code follows C's style, and a wrapper documents what it wraps.
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
        bio_vec, completion, device, list_head, module, page, scatterlist, sockaddr, task_struct,
        work_struct, workqueue_struct,
    };
    use kernel::ffi;

    type __kernel_size_t = usize;
    type __kernel_ssize_t = isize;
    type __kernel_ptrdiff_t = isize;

    mod helpers {
        use super::*;
        include!("helpers_generated.rs");
    }

    // Names that both define are taken from the header, not from the helper.
    pub use helpers::*;
    include!("bindings_generated.rs");
}

pub use bindings::*;

/// Returns a string as C has it.
pub fn chars(string: &'static CStr) -> *const ffi::c_char {
    string.as_char_ptr()
}
