// SPDX-License-Identifier: GPL-2.0

//! Cells: each value comes out once, with all that was written to it, and none is lost.

use kernel::{
    cpu::CpuId,
    ffi::c_void,
    types::ForeignOwnable, //
};
use loom::{
    alloc::Track,
    cell::UnsafeCell,
    sync::Arc,
    thread, //
};
use models::atomic_cell::{
    AtomicCell,
    CellPool, //
};

/// A value. loom reports if it is never dropped, if two tasks write it at the same time, and if one
/// reads it that does not see what another wrote.
struct Value(Box<(Track<u32>, UnsafeCell<u32>)>);

impl Value {
    fn new(number: u32) -> Self {
        let value = Self(Box::new((Track::new(number), UnsafeCell::new(0))));
        value.write(number);
        value
    }

    fn write(&self, number: u32) {
        // SAFETY: The only task with the value is this one, or loom reports it.
        self.0 .1.with_mut(|place| unsafe { *place = number });
    }

    /// Reads the number, writes another one, and returns the first.
    fn number(self) -> u32 {
        // SAFETY: As above.
        let number = self.0 .1.with(|place| unsafe { *place });
        assert_eq!(number, *self.0 .0.get_ref());
        self.write(0);
        number
    }
}

// SAFETY: The pointer is that of a box.
unsafe impl ForeignOwnable for Value {
    fn into_foreign(self) -> *mut c_void {
        Box::into_raw(self.0).cast()
    }

    unsafe fn from_foreign(pointer: *mut c_void) -> Self {
        // SAFETY: The caller promises that it came from `into_foreign`.
        Self(unsafe { Box::from_raw(pointer.cast()) })
    }
}

/// Runs each of `tasks` in a thread of its own, and then, in the thread of the model, `end` with
/// the sorted numbers that all of them have returned.
fn run<T: Send + Sync + 'static>(
    shared: impl Fn() -> T + Send + Sync + 'static,
    tasks: &'static [fn(&T) -> Vec<u32>],
    end: impl Fn(&T, Vec<u32>) + Send + Sync + 'static,
) {
    loom::model(move || {
        CpuId::set(0);
        let shared = Arc::new(shared());
        let threads: Vec<_> = tasks
            .iter()
            .map(|task| {
                let shared = shared.clone();
                thread::spawn(move || task(&shared))
            })
            .collect();
        let mut numbers: Vec<u32> = Vec::new();
        for thread in threads {
            numbers.extend(thread.join().expect("no task panics"));
        }
        numbers.sort_unstable();
        end(&shared, numbers);
    });
}

type Cell = AtomicCell<Value>;

fn cell_with(number: u32) -> Cell {
    let cell = Cell::new();
    assert!(cell.try_put(Value::new(number)).is_ok());
    cell
}

fn numbers(value: Option<Value>) -> Vec<u32> {
    value.into_iter().map(Value::number).collect()
}

/// Adds what is left in `cell`.
fn with_rest(cell: &Cell, mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.extend(cell.take().map(Value::number));
    numbers.sort_unstable();
    numbers
}

#[test]
fn one_of_two_takes_a_value() {
    run(
        || cell_with(1),
        &[
            |cell: &Cell| numbers(cell.take()),
            |cell: &Cell| numbers(cell.take()),
        ],
        |cell, taken| {
            assert_eq!(taken, [1]);
            assert!(cell.take().is_none());
        },
    );
}

#[test]
fn each_value_comes_out_once() {
    run(
        || cell_with(1),
        &[
            |cell: &Cell| numbers(cell.put(Value::new(2))),
            |cell: &Cell| numbers(cell.put(Value::new(3))),
            |cell: &Cell| numbers(cell.take()),
        ],
        |cell, taken| assert_eq!(with_rest(cell, taken), [1, 2, 3]),
    );
}

#[test]
fn one_of_two_fills_an_empty_cell() {
    run(
        Cell::new,
        &[
            |cell: &Cell| numbers(cell.try_put(Value::new(1)).err()),
            |cell: &Cell| numbers(cell.try_put(Value::new(2)).err()),
        ],
        |cell, refused| {
            assert_eq!(refused.len(), 1);
            assert_eq!(with_rest(cell, refused), [1, 2]);
        },
    );
}

#[test]
fn a_value_is_put_in_while_others_take() {
    run(
        || cell_with(1),
        &[
            |cell: &Cell| numbers(cell.try_put(Value::new(2)).err()),
            |cell: &Cell| numbers(cell.take()),
            |cell: &Cell| numbers(cell.take()),
        ],
        |cell, taken| assert_eq!(with_rest(cell, taken), [1, 2]),
    );
}

#[test]
fn who_finds_a_value_sees_what_was_written_to_it() {
    run(
        Cell::new,
        &[
            |cell: &Cell| numbers(cell.try_put(Value::new(1)).err()),
            |cell: &Cell| numbers(cell.take()),
        ],
        |cell, taken| assert_eq!(with_rest(cell, taken), [1]),
    );
}

#[test]
fn a_single_task_puts_without_an_exchange_while_others_take() {
    run(
        || cell_with(1),
        &[
            |cell: &Cell| numbers(cell.put_alone(Value::new(2))),
            |cell: &Cell| numbers(cell.take()),
            |cell: &Cell| numbers(cell.take()),
        ],
        |cell, taken| assert_eq!(with_rest(cell, taken), [1, 2]),
    );
    run(
        Cell::new,
        &[
            |cell: &Cell| {
                let mut refused = numbers(cell.try_put_alone(Value::new(1)).err());
                refused.extend(cell.try_put_alone(Value::new(2)).err().map(Value::number));
                refused
            },
            |cell: &Cell| numbers(cell.take()),
        ],
        |cell, taken| assert_eq!(with_rest(cell, taken), [1, 2]),
    );
}

#[test]
fn a_value_that_is_left_is_dropped_with_its_cell() {
    run(
        Cell::new,
        &[|cell: &Cell| numbers(cell.try_put(Value::new(1)).err())],
        // loom reports it if it is not.
        |_, refused| assert!(refused.is_empty()),
    );
}

type Pool = CellPool<Value, 2>;

/// Adds what is left in `pool`.
fn with_rest_of(pool: &Pool, mut numbers: Vec<u32>) -> Vec<u32> {
    while let Some(value) = pool.take() {
        numbers.push(value.number());
    }
    numbers.sort_unstable();
    numbers
}

fn pool_with(values: &[u32]) -> Pool {
    let pool = Pool::new();
    for number in values {
        assert!(pool.put(Value::new(*number)).is_ok());
    }
    pool
}

#[test]
fn tasks_take_different_values_of_a_pool() {
    run(
        || pool_with(&[1, 2]),
        &[
            |pool: &Pool| numbers(pool.take()),
            |pool: &Pool| numbers(pool.take()),
        ],
        |pool, taken| {
            // Nobody puts meanwhile, so each of them finds one.
            assert_eq!(taken, [1, 2]);
            assert!(pool.take().is_none());
        },
    );
}

#[test]
fn a_pool_loses_nothing_that_several_put() {
    run(
        || pool_with(&[1]),
        &[
            |pool: &Pool| numbers(pool.put(Value::new(2)).err()),
            |pool: &Pool| numbers(pool.put(Value::new(3)).err()),
            |pool: &Pool| numbers(pool.take()),
        ],
        |pool, taken| assert_eq!(with_rest_of(pool, taken), [1, 2, 3]),
    );
}

#[test]
fn a_pool_is_filled_by_one_task_while_others_take() {
    run(
        || pool_with(&[1]),
        &[
            |pool: &Pool| {
                let mut values = vec![Value::new(3), Value::new(2)];
                pool.fill_alone(|| values.pop());
                values.into_iter().map(Value::number).collect()
            },
            |pool: &Pool| numbers(pool.take()),
            |pool: &Pool| numbers(pool.take()),
        ],
        |pool, taken| assert_eq!(with_rest_of(pool, taken), [1, 2, 3]),
    );
    run(
        || pool_with(&[1]),
        &[
            |pool: &Pool| numbers(pool.put_alone(Value::new(2)).err()),
            |pool: &Pool| numbers(pool.take()),
        ],
        |pool, taken| assert_eq!(with_rest_of(pool, taken), [1, 2]),
    );
}

#[test]
fn processors_begin_at_different_cells() {
    const CELLS: usize = 16;
    loom::model(|| {
        let pool = CellPool::<Value, CELLS>::new();
        CpuId::set(0);
        assert!(pool.put(Value::new(1)).is_ok());
        CpuId::set(1);
        assert!(pool.put(Value::new(2)).is_ok());
        assert_eq!(numbers(pool.take()), [2]);
        assert_eq!(numbers(pool.take()), [1]);
        assert!(pool.take().is_none());
        CpuId::set(0);
    });
}
