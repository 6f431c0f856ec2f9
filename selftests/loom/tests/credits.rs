// SPDX-License-Identifier: GPL-2.0

//! SQ credits: never more are reserved than there are, and all come back.

use loom::{
    cell::UnsafeCell,
    sync::{
        atomic::{
            fence,
            AtomicUsize,
            Ordering, //
        },
        Arc, //
    },
    thread, //
};
use models::sq_credits::SqCredits;

/// Credits, and the space in the queue that they stand for.
struct Queue {
    credits: SqCredits,
    /// For the task that has all credits.
    space: UnsafeCell<u32>,
}

impl Queue {
    fn new(total: usize) -> Self {
        let Ok(credits) = SqCredits::new(total);
        Self {
            credits,
            space: UnsafeCell::new(0),
        }
    }
}

/// Runs `task` in two threads, and checks that all `total` credits are free at the end.
fn in_two_tasks(total: usize, task: fn(&Queue)) {
    loom::model(move || {
        let queue = Arc::new(Queue::new(total));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || task(&queue))
            })
            .collect();
        for thread in threads {
            thread.join().expect("no task panics");
        }
        assert_eq!(queue.credits.free(), total);
        assert!(queue.credits.reserve(total).is_some());
    });
}

#[test]
fn who_has_all_credits_is_alone() {
    in_two_tasks(2, |queue| {
        if let Some(permit) = queue.credits.reserve(2) {
            assert_eq!(permit.credits(), 2);
            // loom reports it if the other task writes it too, or does not see this.
            // SAFETY: Nobody else has a credit, or loom reports it.
            queue.space.with_mut(|space| unsafe { *space = 1 });
        }
    });
}

#[test]
fn credits_that_are_resized_come_back() {
    in_two_tasks(3, |queue| {
        let permit = queue.credits.reserve(1);
        // Both may find too few, and then give back what they have.
        if let Some(permit) = permit.and_then(|permit| permit.resize(3)) {
            // SAFETY: As above.
            queue.space.with_mut(|space| unsafe { *space = 1 });
            assert!(permit.resize(2).is_some_and(|permit| permit.credits() == 2));
        }
    });
}

#[test]
fn a_task_that_is_alone_finds_what_is_free() {
    in_two_tasks(2, |queue| {
        // One credit for each task: no attempt fails because of the other one.
        assert!(queue.credits.reserve(1).is_some());
    });
}

#[test]
fn credits_that_come_back_are_found_or_the_waiter_is() {
    loom::model(|| {
        let queue = Arc::new((Queue::new(1), AtomicUsize::new(0)));
        let permit = queue.0.credits.reserve(1);
        let waiter = thread::spawn({
            let queue = queue.clone();
            move || {
                queue.1.store(1, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                queue.0.credits.reserve(1).is_some()
            }
        });
        drop(permit);
        let is_seen = queue.1.load(Ordering::Relaxed) == 1;
        let found = waiter.join().expect("no task panics");
        assert!(is_seen || found);
    });
}
