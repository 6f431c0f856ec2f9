// SPDX-License-Identifier: GPL-2.0

//! Memory that passes between provider and socket: addresses and lengths, never slices.
//!
//! What a consumer of verbs posts is its own; it may read and write it while this module moves octets. So nobody makes
//! a reference to it: only functions of C get its address.

use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::prelude::*;

/// A run of memory in the kernel's linear map or in vmalloc space.
///
/// # Invariants
///
/// The `len` octets at `address` stay allocated, readable and writable as long as `'a`. Others may read and write them meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    address: NonNull<u8>,
    len: u32,
    _memory: PhantomData<&'a [u8]>,
}

// SAFETY: It is an address of memory that every task may use.
unsafe impl Send for Piece<'_> {}
// SAFETY: As above; there is no reference to the octets.
unsafe impl Sync for Piece<'_> {}

impl<'a> Piece<'a> {
    /// A run of memory.
    ///
    /// # Safety
    ///
    /// The `len` octets at `address` stay allocated, readable and writable as long as `'a`, and nobody has a Rust reference to them.
    #[inline]
    pub const unsafe fn new(address: NonNull<u8>, len: u32) -> Self {
        // INVARIANT: The caller promises it.
        Self {
            address,
            len,
            _memory: PhantomData,
        }
    }

    /// Where it begins.
    #[inline]
    pub const fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// Its length in octets.
    #[inline]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether it has no octets.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies all of it to `to`. [`EINVAL`] if that has another length. Others may write it meanwhile: then no more is said of
    /// an octet than that it was there at some time.
    pub fn copy_to(&self, to: &mut [u8]) -> Result {
        if u32::try_from(to.len()) != Ok(self.len) {
            return Err(EINVAL);
        }
        // SAFETY: Both have `len` octets, by the type invariants and the test above, and Rust's own memory is apart from
        // that. The helper is compiled apart, so the compiler of this crate does not know what it does, and assumes nothing of octets that
        // change meanwhile.
        unsafe {
            crate::memcpy(
                to.as_mut_ptr().cast(),
                self.address.as_ptr().cast(),
                to.len(),
            )
        };
        Ok(())
    }

    /// Copies all of `from` to it. [`EINVAL`] if that has another length. Others may read and write it meanwhile.
    pub fn copy_from(&self, from: &[u8]) -> Result {
        if u32::try_from(from.len()) != Ok(self.len) {
            return Err(EINVAL);
        }
        // SAFETY: As in `copy_to`.
        unsafe {
            crate::memcpy(
                self.address.as_ptr().cast(),
                from.as_ptr().cast(),
                from.len(),
            )
        };
        Ok(())
    }

    /// `len` octets of it from `offset`. [`None`] if it has fewer.
    #[inline]
    pub fn slice(&self, offset: u32, len: u32) -> Option<Self> {
        let end = offset.checked_add(len)?;
        if end > self.len {
            return None;
        }
        // SAFETY: `offset` is within the run, by the test above.
        let address = unsafe { self.address.add(usize::try_from(offset).ok()?) };
        // INVARIANT: A part of the run.
        Some(Self {
            address,
            len,
            _memory: PhantomData,
        })
    }
}
