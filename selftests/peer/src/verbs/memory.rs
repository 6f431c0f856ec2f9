// SPDX-License-Identifier: GPL-2.0

//! Registered memory, and memory windows.

use super::ffi::*;
use super::resources::Pd;
use std::alloc::alloc_zeroed;
use std::alloc::dealloc;
use std::alloc::Layout;
use std::ffi::c_int;
use std::io::Result;
use std::ptr;
use std::ptr::NonNull;
use std::rc::Rc;

/// How registered memory may be accessed (`enum ibv_access_flags`).
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Access {
    Local = 1,
    Write = 1 | 2,
    Read = 4,
    Both = 1 | 2 | 4,
    Window = 1 | 16,
}

/// Registered memory.
pub struct Region {
    pub(super) mr: NonNull<RawMr>,
    /// Only accessed through its pointer: the device writes to it.
    pub(super) memory: NonNull<[u8]>,
    address: u64,
    pub(super) _pd: Rc<Pd>,
}

/// At the start of a page of any machine, as is its address for the other end.
fn layout(length: usize) -> Layout {
    Layout::from_size_align(length.max(1), 1 << 16).expect("a short length")
}

impl Region {
    pub(super) fn new(pd: &Rc<Pd>, length: usize, access: Access) -> Result<Self> {
        Self::at(pd, length, None, access)
    }

    /// At `address` for the other end, if it is given: the start of a page.
    pub(super) fn at(
        pd: &Rc<Pd>,
        length: usize,
        address: Option<u64>,
        access: Access,
    ) -> Result<Self> {
        // SAFETY: The size is not zero.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout(length)) }).expect("memory");
        let address = address.unwrap_or(memory.as_ptr() as u64);
        // SAFETY: The memory is registered until `drop`, which frees it afterwards.
        let mr = unsafe {
            peer_register(
                pd.0.as_ptr(),
                memory.as_ptr().cast(),
                length.max(1) as u64,
                address,
                access as c_int,
            )
        };
        Ok(Self {
            mr: made(mr)?,
            memory: NonNull::slice_from_raw_parts(memory, length),
            address,
            _pd: pd.clone(),
        })
    }

    /// The rkey.
    pub fn rkey(&self) -> u32 {
        // SAFETY: The region is registered as long as it lives.
        unsafe { peer_rkey(self.mr.as_ptr()) }
    }

    pub(super) fn lkey(&self) -> u32 {
        // SAFETY: As above.
        unsafe { peer_lkey(self.mr.as_ptr()) }
    }

    /// The address of its first byte, for the other end and the device.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Puts `bytes` at `offset`.
    pub fn put(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len());
        // SAFETY: The range is in bounds, and nobody has a reference to the memory.
        unsafe {
            let place = self.memory.cast::<u8>().as_ptr().add(offset);
            ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
        }
    }

    /// Copies `length` bytes at `offset` out.
    pub fn bytes(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(offset + length <= self.len());
        let mut out = vec![0; length];
        // SAFETY: As in `put`.
        unsafe {
            let place = self.memory.cast::<u8>().as_ptr().add(offset);
            ptr::copy_nonoverlapping(place, out.as_mut_ptr(), length);
        }
        out
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: It was registered by `at`, which allocated the memory in this layout.
        unsafe {
            ibv_dereg_mr(self.mr.as_ptr());
            dealloc(self.memory.cast().as_ptr(), layout(self.len()));
        }
    }
}

/// A memory window, which the other end may write through and may invalidate.
pub struct Window {
    pub(super) mw: NonNull<RawMw>,
    pub(super) region: Region,
    /// The rkey.
    pub rkey: u32,
}

impl Window {
    /// The memory that it is bound to.
    pub fn region(&self) -> &Region {
        &self.region
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: It was made by `Connection::window`; the memory is dropped after it.
        unsafe { peer_free_window(self.mw.as_ptr()) };
    }
}
