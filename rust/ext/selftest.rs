// SPDX-License-Identifier: GPL-2.0

//! Tests of the cells that need no lock.

use crate::atomic_cell::{
    AtomicCell,
    CellPool, //
};
use kernel::{
    prelude::*,
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// A test, which returns true if it passed.
pub type Test = fn() -> Result<bool>;

/// The tests, each with the claim that it shows.
pub const TESTS: &[(&str, Test)] = &[
    (
        "a cell gives back what was in it, and takes nothing more if it is not empty",
        cell_has_one_value,
    ),
    (
        "a pool has room for as many values as it has cells, wherever a processor begins",
        all_cells_are_used,
    ),
];

/// Several cache lines, so that processors begin at different cells.
const CELLS: usize = 32;

fn cell_has_one_value() -> Result<bool> {
    let cell = AtomicCell::<KBox<u32>>::new();
    let is = |value: Option<KBox<u32>>, number| value.map(|value| *value) == number;
    let new = |number| KBox::new(number, GFP_KERNEL);
    let mut passed = is(cell.put_alone(new(1)?), None);
    passed &= is(cell.put_alone(new(2)?), Some(1));
    passed &= is(cell.put(new(3)?), Some(2));
    passed &= is(cell.try_put(new(4)?).err(), Some(4));
    passed &= is(cell.take(), Some(3));
    passed &= is(cell.take(), None);
    passed &= is(cell.put_alone(new(5)?), None);
    passed &= is(cell.try_put_alone(new(6)?).err(), Some(6));
    passed &= is(cell.take(), Some(5));
    passed &= cell.try_put_alone(new(7)?).is_ok();
    // The drop of the cell frees the last one.
    Ok(passed)
}

fn all_cells_are_used() -> Result<bool> {
    let pool = CellPool::<KBox<usize>, CELLS>::new();
    // With pauses, after which it may run on another processor.
    for round in 0..64 {
        let put = |value| match round % 2 {
            0 => pool.put(value),
            _ => pool.put_alone(value),
        };
        for number in 0..CELLS {
            if put(KBox::new(number, GFP_KERNEL)?).is_err() {
                return Ok(false);
            }
        }
        if put(KBox::new(0, GFP_KERNEL)?).is_ok() {
            return Ok(false);
        }
        let mut sum = 0;
        for _ in 0..CELLS {
            let Some(value) = pool.take() else {
                return Ok(false);
            };
            sum += *value;
        }
        if sum != (0..CELLS).sum() || pool.take().is_some() {
            return Ok(false);
        }
        fsleep(Delta::from_micros(500));
    }
    Ok(true)
}
