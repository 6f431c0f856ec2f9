// SPDX-License-Identifier: GPL-2.0

//! Memory that others own: addresses and lengths, never slices.
//!
//! A consumer of verbs owns the memory that it posts; it may read and write it while this module
//! copies octets. So nobody creates a reference to it: only C functions get its address.

use crate::memory::copy;
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::prelude::*;

/// A contiguous piece of memory in the kernel's linear map or in vmalloc space.
///
/// # Invariants
///
/// The `len` octets at `address` stay allocated, readable and writable as long as `'a`. Others may
/// read and write them meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    address: NonNull<u8>,
    len: u32,
    _memory: PhantomData<&'a [u8]>,
}

// SAFETY: It is an address of memory that every task may use by the type invariants.
unsafe impl Send for Piece<'_> {}
// SAFETY: It is an address of memory that every task may use; there is no reference to the octets.
unsafe impl Sync for Piece<'_> {}

impl<'a> Piece<'a> {
    /// Creates a piece of memory.
    ///
    /// # Safety
    ///
    /// The `len` octets at `address` stay allocated, readable and writable as long as `'a`, and
    /// nobody has a Rust reference to them.
    #[inline]
    pub const unsafe fn new(address: NonNull<u8>, len: u32) -> Self {
        // INVARIANT: The caller promises it.
        Self {
            address,
            len,
            _memory: PhantomData,
        }
    }

    /// Returns the address of the first octet.
    #[inline]
    pub const fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// Returns the length in octets.
    #[inline]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Returns whether it has no octets.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies all of it to `to`. [`EINVAL`] if that has another length. Others may write it
    /// meanwhile: then each octet is one that was there at some time.
    pub fn copy_to(&self, to: &mut [u8]) -> Result {
        if u32::try_from(to.len()) != Ok(self.len) {
            return Err(EINVAL);
        }
        // SAFETY: Both have `len` octets, by the type invariants and the test above, and a Rust
        // slice does not overlap memory of a piece.
        unsafe { copy(to.as_mut_ptr(), self.address.as_ptr(), to.len()) };
        Ok(())
    }

    /// Copies all of `from` to it. [`EINVAL`] if that has another length. Others may read and write
    /// it meanwhile.
    pub fn copy_from(&self, from: &[u8]) -> Result {
        if u32::try_from(from.len()) != Ok(self.len) {
            return Err(EINVAL);
        }
        // SAFETY: Both have `len` octets, by the type invariants and the test above, and a Rust
        // slice does not overlap memory of a piece.
        unsafe { copy(self.address.as_ptr(), from.as_ptr(), from.len()) };
        Ok(())
    }

    /// Returns `len` octets of it from `offset`. [`None`] if it has fewer.
    #[inline]
    pub fn slice(&self, offset: u32, len: u32) -> Option<Self> {
        let end = offset.checked_add(len)?;
        if end > self.len {
            return None;
        }
        // SAFETY: `offset` is within the piece, by the test above.
        let address = unsafe { self.address.add(usize::try_from(offset).ok()?) };
        // INVARIANT: A part of the piece is as valid as the whole.
        Some(Self {
            address,
            len,
            _memory: PhantomData,
        })
    }
}
