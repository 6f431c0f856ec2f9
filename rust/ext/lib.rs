// SPDX-License-Identifier: GPL-2.0

//! Additions to the `kernel` crate that several crates of a module need: memory and addresses
//! that pass between wrappers, locks, work items, allocation scopes, error codes.
//!
//! Both modules are built with this crate. The wrappers do not see each other, and the code above
//! them forbids `unsafe`; they re-export these types, so that a value has one type on either side
//! and owns the references that keep it valid.
//!
//! # Files
//!
//! | file | what |
//! | --- | --- |
//! | `addr.rs`, `net.rs` | socket addresses, network namespaces |
//! | `memory.rs` | memory with owners, which devices and C access |
//! | `borrowed.rs` | memory that others own |
//! | `zeroed.rs` | vectors of octets that are zero |
//! | `work.rs`, `lock.rs`, `alloc_scope.rs` | workqueues, a spin lock for any context, scopes of allocations |
//! | `atomic_cell.rs` | places for a value that any task may take, without a lock |
//! | `per_cpu.rs` | counters that processors do not share |
//! | `errno.rs`, `compat.rs` | what an older kernel of the list lacks |
//! | `rate_limit.rs` | a limit of lines in the log |
//! | `trace.rs` | trace events as functions, and how they identify things |
//! | `ktap.rs` | the harness of tests in the kernel |

// Kbuild passes this to rustc. rustdoc drops it when it extracts examples.
#![cfg_attr(doctest, no_std)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod addr;
pub mod alloc_scope;
pub mod atomic_cell;
pub mod borrowed;
pub mod compat;
pub mod errno;
#[cfg(RPCRDMA_SELFTEST)]
pub mod ktap;
pub mod lock;
pub mod memory;
pub mod net;
pub mod per_cpu;
pub mod rate_limit;
#[cfg(RPCRDMA_SELFTEST)]
pub mod selftest;
pub mod trace;
pub mod work;
pub mod zeroed;
