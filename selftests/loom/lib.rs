// SPDX-License-Identifier: GPL-2.0

//! The files of the modules that share data between tasks without a lock, compiled for loom, which
//! tries each order in which a few tasks may execute them, and which values they may read. It knows
//! the orderings of C11, not the kernel's own memory model, and does not try loads that are delayed
//! behind stores that follow them. [`kernel`] has what they use of the kernel.

// The lint is for what reads numbers of others; its crate explains each conversion instead.
#[allow(clippy::as_conversions)]
#[path = "../../rust/ext/atomic_cell.rs"]
pub mod atomic_cell;
#[path = "../../rust/rdma/sq_credits.rs"]
pub mod sq_credits;

mod prelude {
    //! A stand-in for the prelude that `sq_credits.rs` uses. Its `Arc` is that of the standard
    //! library, whose orderings are not under test.
    pub(crate) use kernel::sync::atomic::{Atomic, Relaxed};

    /// The flags of an allocation.
    pub(crate) struct Flags;

    /// An allocation that may sleep.
    pub(crate) const GFP_KERNEL: Flags = Flags;

    /// A result as the kernel has it. Nothing fails here.
    pub(crate) type Result<T> = core::result::Result<T, core::convert::Infallible>;

    /// A reference-counted value.
    pub(crate) struct Arc<T>(std::sync::Arc<T>);

    impl<T> Arc<T> {
        pub(crate) fn new(value: T, _: Flags) -> Result<Self> {
            Ok(Self(std::sync::Arc::new(value)))
        }
    }

    impl<T> Clone for Arc<T> {
        fn clone(&self) -> Self {
            Self(self.0.clone())
        }
    }

    impl<T> core::ops::Deref for Arc<T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.0
        }
    }
}
