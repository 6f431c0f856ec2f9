// SPDX-License-Identifier: GPL-2.0

//! A stand-in for the `kernel` crate: the few names of it that the files under test use, over the
//! atomics of loom. So those files are compiled as they are.
//!
//! loom knows the orderings of C11. [`Full`](sync::atomic::Full) of the kernel is stronger than any
//! of them: here it is `AcqRel`, and an operation that cannot fail has a fence before it and behind
//! it, too. One that fails is relaxed in both, so one that may fail has no fences.

pub mod ffi {
    //! Types of C.
    pub use core::ffi::c_void;
}

pub mod cpu {
    //! Processors.
    use std::cell::Cell;

    thread_local! {
        /// The processor on which the current thread claims to run. loom runs its threads as
        /// coroutines of one thread, so it is set anew by each.
        static CURRENT: Cell<u32> = const { Cell::new(0) };
    }

    /// The number of a processor.
    pub struct CpuId(u32);

    impl CpuId {
        /// Returns the number of the processor of this thread.
        pub fn current() -> Self {
            Self(CURRENT.get())
        }

        /// Returns the number.
        pub fn as_u32(&self) -> u32 {
            self.0
        }

        /// Makes threads run on processor `cpu` from now on.
        pub fn set(cpu: u32) {
            CURRENT.set(cpu);
        }
    }
}

pub mod types {
    //! Ownership.
    use super::ffi::c_void;

    /// A value that a pointer stands for.
    ///
    /// # Safety
    ///
    /// The pointer of `into_foreign` is not null, and `from_foreign` makes the value of it again.
    pub unsafe trait ForeignOwnable: Sized {
        /// Makes a pointer of the value.
        fn into_foreign(self) -> *mut c_void;

        /// Makes the value again.
        ///
        /// # Safety
        ///
        /// `pointer` came from [`Self::into_foreign`], and this is the only use of it.
        unsafe fn from_foreign(pointer: *mut c_void) -> Self;
    }
}

pub mod sync {
    //! Atomics.
    pub mod atomic {
        //! Atomic numbers and pointers.
        use loom::sync::atomic::{fence, AtomicPtr, AtomicUsize, Ordering};

        /// An ordering.
        pub trait AnyOrdering {
            /// The one of C11.
            const ORDERING: Ordering;

            /// Whether it is a full barrier.
            const IS_FULL: bool = false;
        }

        /// Calls `operation`, between two fences if its ordering is that of a full barrier.
        fn fenced<O: AnyOrdering, R>(operation: impl FnOnce(Ordering) -> R) -> R {
            let barrier = || O::IS_FULL.then(|| fence(Ordering::SeqCst));
            barrier();
            let result = operation(O::ORDERING);
            barrier();
            result
        }

        /// Defines orderings.
        macro_rules! orderings {
            ($($name:ident $ordering:ident)*) => {$(
                #[doc = concat!("`", stringify!($ordering), "` of C11.")]
                pub struct $name;

                impl AnyOrdering for $name {
                    const ORDERING: Ordering = Ordering::$ordering;
                }
            )*};
        }

        orderings! { Relaxed Relaxed  Acquire Acquire  Release Release }

        /// A full barrier.
        pub struct Full;

        impl AnyOrdering for Full {
            const ORDERING: Ordering = Ordering::AcqRel;
            const IS_FULL: bool = true;
        }

        /// A type that an atomic may have.
        pub trait AtomicType: Sized {
            /// The atomic of loom.
            type Model;

            /// Creates the atomic.
            fn model(value: Self) -> Self::Model;
        }

        impl<T> AtomicType for *mut T {
            type Model = AtomicPtr<T>;

            fn model(value: Self) -> AtomicPtr<T> {
                AtomicPtr::new(value)
            }
        }

        impl AtomicType for usize {
            type Model = AtomicUsize;

            fn model(value: Self) -> AtomicUsize {
                AtomicUsize::new(value)
            }
        }

        /// An atomic number or pointer.
        pub struct Atomic<T: AtomicType>(T::Model);

        impl<T: AtomicType> Atomic<T> {
            /// Creates it.
            pub fn new(value: T) -> Self {
                Self(T::model(value))
            }
        }

        /// The operations, for one type.
        macro_rules! operations {
            ([$($generics:tt)*] $type:ty) => {
                impl $($generics)* Atomic<$type> {
                    /// Reads it.
                    pub fn load<O: AnyOrdering>(&self, _: O) -> $type {
                        self.0.load(O::ORDERING)
                    }

                    /// Writes it.
                    pub fn store<O: AnyOrdering>(&self, value: $type, _: O) {
                        self.0.store(value, O::ORDERING);
                    }

                    /// Writes it and returns what was there.
                    pub fn xchg<O: AnyOrdering>(&self, value: $type, _: O) -> $type {
                        fenced::<O, _>(|ordering| self.0.swap(value, ordering))
                    }

                    /// Writes `new` if it is `old`. Otherwise returns what is there.
                    pub fn cmpxchg<O: AnyOrdering>(
                        &self,
                        old: $type,
                        new: $type,
                        _: O,
                    ) -> Result<$type, $type> {
                        self.0.compare_exchange(old, new, O::ORDERING, Ordering::Relaxed)
                    }
                }
            };
        }

        operations! { [<T>] *mut T }
        operations! { [] usize }

        impl Atomic<usize> {
            /// Adds to it, and returns what was there.
            pub fn fetch_add<O: AnyOrdering>(&self, value: usize, _: O) -> usize {
                fenced::<O, _>(|ordering| self.0.fetch_add(value, ordering))
            }
        }
    }
}
