// SPDX-License-Identifier: GPL-2.0

//! Buffers that stay mapped for DMA for their whole life.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h), `ib_dma_map_single` and
//! similar functions. For software devices a mapping is the virtual address.

use crate::{
    context::Context,
    pd::ProtectionDomain, //
};
use core::ptr::NonNull;
use kernel::{
    alloc::Flags,
    dma::DataDirection,
    error::{
        code::{
            EINVAL,
            EIO, //
        },
        Result, //
    },
    sync::Arc, //
};
use shared::memory::Buffer;

/// A buffer mapped for one direction.
///
/// # Invariants
///
/// `address` maps all of `buffer`, and is unmapped only in `drop`. Nobody else has `buffer`, except
/// a [`MessageMemory`](crate::receive::MessageMemory): while that exists, nothing here accesses the
/// bytes.
pub(crate) struct Mapped<H: Context> {
    address: u64,
    direction: DataDirection,
    buffer: Arc<Buffer>,
    pd: Arc<ProtectionDomain<H>>,
}

impl<H: Context> Mapped<H> {
    /// Allocates and maps `len` bytes, in the memory nearest to the device.
    pub(crate) fn new(
        pd: &Arc<ProtectionDomain<H>>,
        len: usize,
        direction: DataDirection,
        flags: Flags,
    ) -> Result<Self> {
        let buffer = Buffer::on_node(len, flags, pd.node())?;
        // SAFETY: `pd` keeps its device; `buffer` is `kmalloc` memory of `len` bytes, which the
        // value made below keeps until it has unmapped it.
        let address = unsafe {
            raw::ib_dma_map_single(
                pd.device(),
                buffer.base().as_ptr().cast(),
                len,
                direction as raw::dma_data_direction,
            )
        };
        // SAFETY: `pd` keeps its device, and `address` is the result of the mapping.
        if unsafe { raw::ib_dma_mapping_error(pd.device(), address) } != 0 {
            return Err(EIO);
        }
        // INVARIANT: All of `buffer` was just mapped; the `Arc` was just made, and is cloned only
        // for a `MessageMemory`.
        Ok(Self {
            address,
            direction,
            buffer,
            pd: pd.clone(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the buffer, for [`crate::receive::MessageMemory`].
    pub(crate) fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }

    pub(crate) fn pd(&self) -> &Arc<ProtectionDomain<H>> {
        &self.pd
    }

    /// Returns a scatter element for the first `len` bytes. [`EINVAL`] if there are fewer.
    pub(crate) fn sge(&self, len: usize) -> Result<raw::ib_sge> {
        if len > self.len() {
            return Err(EINVAL);
        }
        Ok(raw::ib_sge {
            addr: self.address,
            length: u32::try_from(len)?,
            lkey: self.pd.local_key(),
        })
    }

    /// Returns the address of the first `len` bytes, or of all if there are fewer.
    pub(crate) fn memory(&self, len: usize) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.buffer.base(), len.min(self.len()))
    }

    /// Returns the first `len` bytes, or all if there are fewer.
    ///
    /// # Safety
    ///
    /// The device does not write to the buffer until the slice is gone.
    pub(crate) unsafe fn bytes(&self, len: usize) -> &[u8] {
        // SAFETY: `self` keeps `buffer` allocated, which was zeroed when it was allocated. The
        // caller promises that the device does not write; by the type invariants nobody else has
        // the buffer.
        unsafe { self.memory(len).as_ref() }
    }

    /// Returns all bytes of the buffer, for writing.
    ///
    /// # Safety
    ///
    /// The device has no access to the buffer until the slice is gone.
    pub(crate) unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `self` keeps `buffer` allocated, which was zeroed when it was allocated. The
        // caller promises that the device does not access it, by the type invariants nobody else
        // has it, and `&mut self` makes the slice unique.
        unsafe { core::slice::from_raw_parts_mut(self.buffer.base().as_ptr(), self.len()) }
    }

    /// Makes `len` bytes that the device wrote visible to the CPU.
    pub(crate) fn sync_for_cpu(&self, len: usize) {
        // SAFETY: The mapping is live by the type invariants, `pd` keeps the device, and `len` is
        // limited to the mapping.
        unsafe {
            raw::ib_dma_sync_single_for_cpu(
                self.pd.device(),
                self.address,
                len.min(self.len()),
                self.direction as raw::dma_data_direction,
            )
        };
    }

    /// Makes `len` bytes that the CPU wrote visible to the device, or passes them to it for
    /// writing.
    pub(crate) fn sync_for_device(&self, len: usize) {
        // SAFETY: The mapping is live by the type invariants, `pd` keeps the device, and `len` is
        // limited to the mapping.
        unsafe {
            raw::ib_dma_sync_single_for_device(
                self.pd.device(),
                self.address,
                len.min(self.len()),
                self.direction as raw::dma_data_direction,
            )
        };
    }
}

impl<H: Context> Drop for Mapped<H> {
    fn drop(&mut self) {
        // Not synchronised: a reader of the device's data has synchronised it before. Where a
        // bounce buffer is used, another copy would overwrite a message that somebody reads, and
        // perhaps has decrypted in place.
        // SAFETY: The mapping is live by the type invariants, was made with these arguments, and is
        // undone once. A posted work request owns its buffer, so the device is done with this one.
        unsafe {
            raw::ib_dma_unmap_unsynced(
                self.pd.device(),
                self.address,
                self.buffer.len(),
                self.direction as raw::dma_data_direction,
            )
        };
    }
}
