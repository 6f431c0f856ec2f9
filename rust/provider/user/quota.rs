// SPDX-License-Identifier: GPL-2.0

//! Quotas of the objects that processes have on a device.
//!
//! The core charges nobody for the memory that it allocates for an object, so processes may have a
//! limited number of each kind. One user may have an eighth of that, so that nobody takes the
//! objects that others need. Consumers in the kernel are not counted.

use kernel::{
    new_mutex,
    prelude::*,
    rbtree::{
        Entry,
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// The most contexts that processes may have on a device. A program needs few.
pub(crate) const MAX_CONTEXTS: u32 = 1 << 16;
/// The most protection domains that processes may have on a device. A program needs few.
pub(crate) const MAX_DOMAINS: u32 = 1 << 17;
/// The most objects of each other kind that processes may have on a device. Regions and queue pairs
/// have random numbers of 24 bits; this is so far below that there are always some for consumers in
/// the kernel.
pub(crate) const MAX_OBJECTS: u32 = 1 << 20;

/// The number of shares that a quota has. A user has at most one of them.
const SHARES: u32 = 8;

/// Returns how many objects one user may have, of as many as all processes may have together.
pub(crate) const fn of_a_user(most: u32) -> u32 {
    most / SHARES
}

/// The quotas of a device.
pub(crate) struct Quotas {
    pub(crate) contexts: Arc<Quota>,
    pub(crate) domains: Arc<Quota>,
    pub(crate) completion_queues: Arc<Quota>,
    pub(crate) shared_receives: Arc<Quota>,
    pub(crate) queue_pairs: Arc<Quota>,
    pub(crate) regions: Arc<Quota>,
}

impl Quotas {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            contexts: Quota::new(MAX_CONTEXTS)?,
            domains: Quota::new(MAX_DOMAINS)?,
            completion_queues: Quota::new(MAX_OBJECTS)?,
            shared_receives: Quota::new(MAX_OBJECTS)?,
            queue_pairs: Quota::new(MAX_OBJECTS)?,
            regions: Quota::new(MAX_OBJECTS)?,
        })
    }
}

/// A user, by number in the initial namespace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct User(pub(crate) u32);

impl User {
    /// Returns the user who is counted for the objects of the calling process. Inside a user
    /// namespace that a user made, that is who made it, whoever the process is there: a user may
    /// have many thousands of numbers in such a namespace.
    fn current() -> Self {
        // SAFETY: The current task is there.
        let mut user = unsafe { kernel::bindings::task_uid(current!().as_ptr()) }.val;
        // SAFETY: The function has no preconditions.
        let mut namespace = unsafe { kernel::bindings::current_user_ns() };
        let initial = &raw mut kernel::bindings::init_user_ns;
        while namespace != initial {
            // SAFETY: The credentials of the task, which no other one changes, keep its namespace,
            // and that keeps the one above it, up to the initial one.
            let (owner, above) = unsafe { ((*namespace).owner.val, (*namespace).parent) };
            // One that root made has users of its own.
            if owner != 0 {
                user = owner;
            }
            namespace = above;
        }
        Self(user)
    }
}

/// The numbers of objects of one kind.
struct Counts {
    all: u32,
    // Those of each user who has any.
    of_users: RBTree<User, u32>,
}

/// The quota of one kind of objects.
#[pin_data]
pub(crate) struct Quota {
    most: u32,
    #[pin]
    counts: Mutex<Counts>,
}

impl Quota {
    /// Creates the quota of a kind, of which processes may have `most`.
    pub(crate) fn new(most: u32) -> Result<Arc<Self>> {
        let counts = Counts {
            all: 0,
            of_users: RBTree::new(),
        };
        Arc::pin_init(
            pin_init!(Self {
                most,
                counts <- new_mutex!(counts, "iwarp_quota"),
            }),
            GFP_KERNEL,
        )
    }

    /// Counts one more of the process that calls, until the result is dropped. `ENOMEM` if its user
    /// has too many, or all together have. Sleeps.
    pub(crate) fn take(self: &Arc<Self>) -> Result<QuotaShare> {
        self.take_for(User::current())
    }

    /// Does the same for that user.
    pub(crate) fn take_for(self: &Arc<Self>, user: User) -> Result<QuotaShare> {
        // Nothing is allocated under the lock.
        let room = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let mut counts = self.counts.lock();
        if counts.all >= self.most {
            return Err(ENOMEM);
        }
        match counts.of_users.entry(user) {
            Entry::Vacant(entry) => *entry.insert(0, room) += 1,
            Entry::Occupied(mut entry) if *entry.get() < of_a_user(self.most) => {
                *entry.get_mut() += 1;
            }
            Entry::Occupied(_) => return Err(ENOMEM),
        }
        counts.all += 1;
        Ok(QuotaShare {
            quota: self.clone(),
            user,
        })
    }

    fn give_back(&self, user: User) {
        let mut counts = self.counts.lock();
        counts.all = counts.all.saturating_sub(1);
        let Some(mut entry) = counts.of_users.find_mut(&user) else {
            return;
        };
        let left = entry.get().saturating_sub(1);
        if left > 0 {
            *entry.get_mut() = left;
            return;
        }
        let node = entry.remove_node();
        // Freed outside the lock.
        drop(counts);
        drop(node);
    }
}

/// An object that is counted. Its drop sleeps.
pub(crate) struct QuotaShare {
    quota: Arc<Quota>,
    user: User,
}

impl Drop for QuotaShare {
    fn drop(&mut self) {
        self.quota.give_back(self.user);
    }
}
