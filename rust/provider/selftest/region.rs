// SPDX-License-Identifier: GPL-2.0

//! Tests of memory regions, without a device.

use crate::region::{
    Access,
    Kind,
    ProtectionDomain,
    Region,
    Registration, //
};
use core::{
    cell::UnsafeCell,
    sync::atomic::{
        AtomicBool,
        Ordering, //
    }, //
};
use ext::{
    new_worker,
    work::{
        Work,
        Worker,
        Workqueue, //
    }, //
};
use kernel::{
    c_str,
    prelude::*,
    sync::Arc,
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// Returns a registration of the page that was mapped last.
fn registration(region: &Region) -> Registration {
    Registration {
        key: 7,
        base: 0,
        length: 4096,
        mapping: region.mapping(),
        ..Default::default()
    }
}

/// Returns the address of the first registered octet. Nobody accesses that memory.
fn first_octet(region: &Region) -> Result<usize> {
    let mut found = 0;
    region.access(7, 0, 1, Access::Read, |piece| {
        found = piece.address().addr().get();
        Ok(())
    })?;
    Ok(found)
}

pub(super) fn region_keeps_its_pages() -> Result<bool> {
    let region = Region::new(ProtectionDomain(1), Kind::Pages, 2)?;
    let register = || -> Result<usize> {
        region.invalidate();
        region.register(registration(&region))?;
        first_octet(&region)
    };
    let (first, second) = (0x10000, 0x20000);
    region.map_pages(&[first])?;
    let mut found = KVec::with_capacity(4, GFP_KERNEL)?;
    found.push(register()?, GFP_KERNEL)?;
    region.map_pages(&[second])?;
    for _ in 0..3 {
        found.push(register()?, GFP_KERNEL)?;
    }
    Ok(*found == [0x10000, 0x20000, 0x20000, 0x20000])
}

pub(super) fn mapping_before_its_turn_is_not_registered() -> Result<bool> {
    let region = Region::new(ProtectionDomain(1), Kind::Pages, 2)?;
    region.map_pages(&[0x10000])?;
    let first = registration(&region);
    region.map_pages(&[0x20000])?;
    let refused = region.register(first) == Err(EINVAL);
    let nothing = first_octet(&region) == Err(ENOENT);
    region.register(registration(&region))?;
    Ok(refused && nothing && first_octet(&region)? == 0x20000)
}

pub(super) fn elements_have_gaps_between_them() -> Result<bool> {
    const BASE: u64 = 0x7000_0064;
    let region = Region::new(ProtectionDomain(1), Kind::Elements, 3)?;
    let elements = [(0x10064, 200), (0x20000, 4096), (0x40010, 50)];
    let too_many = [elements[0], elements[1], elements[2], elements[0]];
    let full = region.map_elements(&too_many, 10)? == (3, 0x1006e, 190 + 4096 + 50);
    let too_long = region.map_elements(&[(0x10000, u32::MAX), (0x20000, 1)], 0)?;
    let too_long = too_long == (1, 0x10000, u32::MAX.into());
    let behind_the_first = region.map_elements(&elements, 201)?.0 == EINVAL.to_errno();
    let none = region.map_elements(&[], 0)?.0 == EINVAL.to_errno();
    let no_page = region.map_pages(&[0x10000]) == Err(EINVAL);
    region.map_elements(&elements, 0)?;
    region.register(Registration {
        base: BASE,
        length: 200 + 4096 + 50,
        ..registration(&region)
    })?;
    let pieces = |from, length| -> Result<KVec<(usize, u32)>> {
        let mut found = KVec::new();
        region.access(7, BASE + from, length, Access::Read, |piece| {
            let piece = (piece.address().addr().get(), piece.len());
            Ok(found.push(piece, GFP_KERNEL)?)
        })?;
        Ok(found)
    };
    let all = pieces(0, 4346)?;
    let across = pieces(150, 100)?;
    let last = pieces(4345, 1)?;
    let behind = [pieces(4345, 2), pieces(4346, 1), pieces(u64::MAX - BASE, 1)];
    Ok(full
        && too_long
        && behind_the_first
        && none
        && no_page
        && *all == [(0x10064, 200), (0x20000, 4096), (0x40010, 50)]
        && *across == [(0x10064 + 150, 50), (0x20000, 50)]
        && *last == [(0x40010 + 49, 1)]
        && behind.iter().all(Result::is_err))
}

pub(super) fn only_aligned_numbers_change() -> Result<bool> {
    const NUMBERS: usize = 8;
    let numbers = KBox::new(UnsafeCell::new([0_u64; NUMBERS]), GFP_KERNEL)?;
    let region = Region::new(ProtectionDomain(1), Kind::Pages, 1)?;
    region.map_pages(&[u64::try_from(numbers.get().expose_provenance())?])?;
    let length = u64::try_from(8 * NUMBERS)?;
    region.register(Registration {
        length,
        ..registration(&region)
    })?;
    let without_right = region.update(7, 0, |original| original + 1) == Err(ENOENT);
    region.invalidate();
    let granted = Registration {
        length,
        remote_atomic: true,
        ..registration(&region)
    };
    region.register(granted)?;
    let read_only = region.update(7, 0, |original| original + 1) == Err(ENOENT);
    region.invalidate();
    region.register(Registration {
        local_write: true,
        ..granted
    })?;
    let add = |offset, by: u64| region.update(7, offset, |original| original.wrapping_add(by));
    let last = length - 8;
    let values = [add(8, 5), add(8, u64::MAX), add(last, 7), add(last, 1)];
    let changed = values == [Ok(0), Ok(5), Ok(0), Ok(7)];
    let misaligned = (1..8).all(|offset| add(offset, 1) == Err(EINVAL));
    let beyond = [last + 1, last + 8, u64::MAX - 7].map(|offset| add(offset, 1));
    let other_key = region.update(6, 0, |original| original + 1);
    let outside = beyond.iter().all(Result::is_err) && other_key == Err(ENOENT);
    // The region is invalid before its memory goes.
    region.invalidate();
    let gone = add(0, 1) == Err(ENOENT);
    let found = KBox::into_inner(numbers).into_inner();
    Ok(without_right
        && read_only
        && changed
        && misaligned
        && outside
        && gone
        && found == [0, 4, 0, 0, 0, 0, 0, 8])
}

/// Returns a region of as many pages as there are addresses, which is registered.
fn registered(addresses: &[u64]) -> Result<Arc<Region>> {
    let region = Region::new(ProtectionDomain(1), Kind::Pages, addresses.len())?;
    region.map_pages(addresses)?;
    region.register(Registration {
        length: 4096 * u64::try_from(addresses.len())?,
        ..registration(&region)
    })?;
    Ok(region)
}

pub(super) fn pieces_are_lent() -> Result<bool> {
    let mut addresses = KVec::new();
    for page in 1..=18 {
        addresses.push(0x10000 * page, GFP_KERNEL)?;
    }
    let region = registered(&addresses)?;
    let lend = |key, offset, length, access| -> Result<KVec<(usize, u32)>> {
        let lent = region.lend(key, offset, length, access)?;
        let mut found = KVec::new();
        for piece in lent.pieces() {
            found.push((piece.address().addr().get(), piece.len()), GFP_KERNEL)?;
        }
        Ok(found)
    };
    let read = |offset, length| lend(7, offset, length, Access::Read);
    let across = read(4000, 4192)?;
    let none = read(5, 0)?;
    let most = read(1, 65536)?;
    let too_many = read(4095, 65538) == Err(E2BIG);
    let beyond = read(18 * 4096 - 1, 2) == Err(ENOENT);
    let other_key = lend(6, 0, 1, Access::Read) == Err(ENOENT);
    let read_only = lend(7, 0, 1, Access::Write) == Err(ENOENT);
    region.invalidate();
    let gone = read(0, 1) == Err(ENOENT);
    Ok(*across == [(0x10000 + 4000, 96), (0x20000, 4096)]
        && none.is_empty()
        && most.len() == 17
        && too_many
        && beyond
        && other_key
        && read_only
        && gone)
}

/// Invalidates a region on a workqueue.
#[pin_data]
struct Invalidation {
    region: Arc<Region>,
    is_over: AtomicBool,
    #[pin]
    worker: Worker,
}

impl Work for Invalidation {
    fn worker(&self) -> &Worker {
        &self.worker
    }

    fn run(this: Arc<Self>) {
        this.region.invalidate_key(7);
        this.is_over.store(true, Ordering::Relaxed);
    }
}

pub(super) fn invalidation_waits_for_what_is_lent() -> Result<bool> {
    let region = registered(&[0x10000])?;
    let lent = region.lend(7, 0, 10, Access::Read)?;
    let other = region.lend(7, 10, 20, Access::Read)?;
    let queue = Arc::new(Workqueue::per_cpu(c_str!("iwarp_selftest"))?, GFP_KERNEL)?;
    let (to_invalidate, of_worker) = (region.clone(), queue.clone());
    let invalidation = Arc::pin_init(
        pin_init!(Invalidation {
            region: to_invalidate,
            is_over: AtomicBool::new(false),
            worker <- new_worker!(Invalidation, of_worker),
        }),
        GFP_KERNEL,
    )?;
    Worker::queue_work(&invalidation);
    let pause = || fsleep(Delta::from_millis(1));
    // It has begun when nothing more is lent.
    let mut has_begun = false;
    for _ in 0..10_000 {
        has_begun = region.lend(7, 0, 1, Access::Read).is_err();
        if has_begun {
            break;
        }
        pause();
    }
    drop(lent);
    (0..50).for_each(|_| pause());
    let is_over = || invalidation.is_over.load(Ordering::Relaxed);
    let waited = !is_over();
    drop(other);
    queue.flush();
    Ok(has_begun && waited && is_over())
}
