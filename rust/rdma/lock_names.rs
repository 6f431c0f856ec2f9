// SPDX-License-Identifier: GPL-2.0

//! Names of locks in types that are generic over the upper layer.
//!
//! lockdep expects that locks with the same key have the same name, and compares addresses. The key
//! in a generic type exists once, but a literal once in each crate that creates such values for a
//! handler of its own.

use kernel::str::CStr;

pub(crate) static DEFERRED_DEREG: &CStr = c"rdma::deferred_dereg";
pub(crate) static ENDED: &CStr = c"rdma::ended";
pub(crate) static RECEIVES: &CStr = c"rdma::receives";
pub(crate) static SENDS: &CStr = c"rdma::sends";
pub(crate) static READ_MRS: &CStr = c"rdma::read_mrs";
