// SPDX-License-Identifier: GPL-2.0

//! The callbacks of a socket, which TCP and SCTP call for events, and why they are sound.
//!
//! C header: [`include/net/sock.h`](srctree/include/net/sock.h), `struct sock`
//!
//! Four functions of a socket are replaced by those at the foot of this file, and `sk_user_data`
//! becomes the address of a [`Callbacks`]. Comments refer to these rules by number:
//!
//! 1. User data and the four functions are written with the socket's lock **and** its callback lock
//!    held, and only here. The previous functions are saved, and restored at the end.
//! 2. A callback of this crate takes the callback lock for reading, checks whether the user data
//!    are of this crate, calls the previous function if somebody depends on it, reports the event,
//!    and unlocks. It takes no other lock and allocates nothing. As restoring waits for that lock,
//!    no [`Callbacks`] is used after [`CallbackGuard::restore`], and none is freed by a callback.
//! 3. User data are marked as not to be copied, so a child has none; it begins with the functions
//!    of its listener, which then return at once. Whoever accepts it
//!    [restores](SavedCallbacks::restore) the listener's previous functions at once: SCTP calls
//!    functions of a socket that was released, too, and by then this module may be unloaded.
//! 4. Callbacks of a connection run with its lock held, or on behalf of the lock's owner. So the
//!    owner of that lock knows that none of them has begun and not yet taken the callback lock. A
//!    **listener's** `data_ready` runs under RCU alone, maybe after the callbacks were restored
//!    (TCP only; SCTP has the lock there, too); it finds no user data. [`wait_for_callbacks`]
//!    guarantees that this code is still there.
//! 5. Nobody else writes user data of such a socket: no file descriptor leads to it, and BPF
//!    refuses a socket that has user data. If BPF was faster, the callbacks are not replaced; its
//!    mark also differs from ours, so a callback of this crate that BPF calls does nothing.
//!
//! [`wait_for_callbacks`]: crate::wait_for_callbacks

use crate::prelude::*;
use crate::socket::Locked;
use core::ptr::null_mut;

/// An event of a socket. More may have happened by the time that somebody looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Octets arrived, or the peer's end of the stream; for a listener, a child waits.
    Readable,
    /// There is space for octets again, after a [`send`](crate::TcpConn::send) that did not take
    /// all.
    Writable,
    /// The connection is open, or an end of it is closed.
    StateChanged,
    /// The connection failed.
    Failed,
}

/// A receiver of a socket's events.
///
/// # Examples
///
/// ```
/// use kernel::sync::atomic::{
///     AtomicFlag,
///     Relaxed, //
/// };
/// use socket::{
///     Event,
///     Events, //
/// };
///
/// struct Readable(AtomicFlag);
///
/// impl Events for Readable {
///     fn event(&self, event: Event) {
///         if event == Event::Readable {
///             self.0.store(true, Relaxed);
///         }
///     }
/// }
/// ```
pub trait Events: Send + Sync + 'static {
    /// Handles an event, which may be reported more than once, and without a reason.
    ///
    /// Any context, mostly a softirq, with locks of the socket held: an implementation sets bits
    /// and queues work. It calls nothing of this crate, does not sleep, and drops no last reference
    /// to anything.
    fn event(&self, event: Event);
}

type Callback = Option<unsafe extern "C" fn(*mut cbindings::sock)>;

/// The previous callbacks of a socket.
#[derive(Clone, Copy)]
pub(crate) struct SavedCallbacks {
    data_ready: Callback,
    state_change: Callback,
    write_space: Callback,
    error_report: Callback,
}

impl SavedCallbacks {
    /// Reads the current ones of the socket.
    fn of(locked: &Locked<'_>) -> Self {
        let sk = locked.sk();
        // SAFETY: `locked` is a live socket, and by rule 1 its lock is enough to read these.
        unsafe {
            Self {
                data_ready: (&raw const (*sk).sk_data_ready).read(),
                state_change: (&raw const (*sk).sk_state_change).read(),
                write_space: (&raw const (*sk).sk_write_space).read(),
                error_report: (&raw const (*sk).sk_error_report).read(),
            }
        }
    }

    /// Returns whether `a` and `b` have the same callbacks.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn are_same(a: &Socket, b: &Socket) -> bool {
        let addresses = |socket: &Socket| {
            let Self {
                data_ready,
                state_change,
                write_space,
                error_report,
            } = Self::of(&socket.lock());
            let functions = [data_ready, state_change, write_space, error_report];
            functions.map(|function| function.map(|function| function as usize))
        };
        addresses(a) == addresses(b)
    }

    /// Returns the callbacks of this crate for `E`.
    fn new<E: Events>() -> Self {
        Self {
            data_ready: Some(data_ready::<E>),
            state_change: Some(state_change::<E>),
            write_space: Some(write_space::<E>),
            error_report: Some(error_report::<E>),
        }
    }

    /// Writes them to `child`, as rule 3 says. Sleeps for the socket's lock.
    pub(crate) fn restore(self, child: &Socket) {
        self.write(&child.lock(), null_mut());
    }

    /// Writes callbacks and user data, by rule 1. C may read the callbacks at any time, without a
    /// lock.
    fn write(self, locked: &Locked<'_>, user_data: *mut c_void) {
        let sk = locked.sk();
        // SAFETY: `locked` is a live socket whose lock is held, and the callback lock is taken
        // here; nobody else writes these fields by rule 5, and each is written in one piece.
        unsafe {
            cbindings::write_lock_bh(&raw mut (*sk).sk_callback_lock);
            (&raw mut (*sk).sk_user_data).write_volatile(user_data);
            (&raw mut (*sk).sk_data_ready).write_volatile(self.data_ready);
            (&raw mut (*sk).sk_state_change).write_volatile(self.state_change);
            (&raw mut (*sk).sk_write_space).write_volatile(self.write_space);
            (&raw mut (*sk).sk_error_report).write_volatile(self.error_report);
            cbindings::write_unlock_bh(&raw mut (*sk).sk_callback_lock);
        }
    }
}

/// The target of a socket's user data.
struct Callbacks<E: Events> {
    saved: SavedCallbacks,
    events: Arc<E>,
}

/// The mark of user data of this crate: not to be copied to a child. An `Arc`'s address leaves the
/// bits free.
const USER_DATA_MARK: usize = cbindings::SK_USER_DATA_NOCOPY as usize;

/// The bits that distinguish the owners of user data.
const USER_DATA_MARKS: usize = (cbindings::SK_USER_DATA_NOCOPY
    | cbindings::SK_USER_DATA_BPF
    | cbindings::SK_USER_DATA_PSOCK) as usize;

/// Replaced callbacks of a socket, until [`Self::restore`].
///
/// # Invariants
///
/// The socket that it was made for has the user data and callbacks of `callbacks`.
#[must_use]
pub(crate) struct CallbackGuard<E: Events> {
    callbacks: Arc<Callbacks<E>>,
}

impl<E: Events> CallbackGuard<E> {
    /// Replaces the callbacks of `socket`, which has functions of C. Then reports to `events`
    /// everything that can have happened before. [`EBUSY`] if the socket has user data. Sleeps.
    pub(crate) fn new(socket: &Socket, events: Arc<E>) -> Result<Self> {
        let saved = SavedCallbacks::of(&socket.lock());
        // Without the lock held: freeing memory may involve sending over this socket.
        let callbacks = Arc::new(Callbacks { saved, events }, GFP_KERNEL)?;
        let locked = socket.lock();
        // SAFETY: `locked` is a live socket; by rule 1 its lock is enough to read this.
        if !unsafe { (&raw const (*locked.sk()).sk_user_data).read_volatile() }.is_null() {
            return Err(EBUSY);
        }
        let user_data = Arc::as_ptr(&callbacks).cast_mut().cast::<c_void>();
        SavedCallbacks::new::<E>().write(
            &locked,
            user_data.map_addr(|address| address | USER_DATA_MARK),
        );
        drop(locked);
        for event in [Event::StateChanged, Event::Writable, Event::Readable] {
            callbacks.events.event(event);
        }
        // INVARIANT: They were just written.
        Ok(Self { callbacks })
    }

    /// Returns the previous callbacks.
    #[inline]
    pub(crate) fn saved(&self) -> SavedCallbacks {
        self.callbacks.saved
    }

    /// Restores the callbacks of the socket that it was made for. No event is reported when this
    /// returns. Sleeps.
    pub(crate) fn restore(self, socket: &Socket) -> Arc<E> {
        let locked = socket.lock();
        self.callbacks.saved.write(&locked, null_mut());
        drop(locked);
        // By rules 2 and 4 only this reference to the callbacks is used any more.
        self.callbacks.events.clone()
    }
}

/// Calls the function `original` and, if `wanted`, reports the event, by rule 2.
///
/// # Safety
///
/// Only C calls the callers of this, for a socket that it keeps alive meanwhile.
unsafe fn report<E: Events>(
    sk: *mut cbindings::sock,
    event: Event,
    original: fn(&SavedCallbacks) -> Callback,
    wanted: unsafe fn(*mut cbindings::sock) -> bool,
) {
    // SAFETY: The caller promises that the socket is live.
    unsafe { cbindings::read_lock_bh(&raw mut (*sk).sk_callback_lock) };
    // SAFETY: The caller promises that the socket is live; with the callback lock held nobody
    // writes this.
    let user_data = unsafe { (&raw const (*sk).sk_user_data).read_volatile() };
    if user_data.addr() & USER_DATA_MARKS == USER_DATA_MARK {
        let callbacks = user_data
            .map_addr(|address| address & !USER_DATA_MARKS)
            .cast::<Callbacks<E>>();
        // SAFETY: User data with our mark are of `CallbackGuard::new` by rule 5, which wrote them
        // together with callbacks for the same `E`. By rule 2 `callbacks` is there until the
        // callback lock is released.
        let callbacks = unsafe { &*callbacks };
        if let Some(original) = original(&callbacks.saved) {
            // SAFETY: C would have called it now, in this context, had it not been replaced.
            unsafe { original(sk) };
        }
        // SAFETY: The caller promises that the socket is live.
        if unsafe { wanted(sk) } {
            callbacks.events.event(event);
        }
    }
    // SAFETY: The lock was taken above by this function.
    unsafe { cbindings::read_unlock_bh(&raw mut (*sk).sk_callback_lock) };
}

/// # Safety
///
/// There are no requirements.
unsafe fn always(_sk: *mut cbindings::sock) -> bool {
    true
}

/// # Safety
///
/// As for [`report`].
unsafe extern "C" fn data_ready<E: Events>(sk: *mut cbindings::sock) {
    // Nobody sleeps on such a socket, so the original function has nothing to wake.
    // SAFETY: The caller promises what `report` requires.
    unsafe { report::<E>(sk, Event::Readable, |_| None, always) };
}

/// # Safety
///
/// As for [`report`].
unsafe extern "C" fn state_change<E: Events>(sk: *mut cbindings::sock) {
    // SAFETY: The caller promises what `report` requires.
    unsafe { report::<E>(sk, Event::StateChanged, |was| was.state_change, always) };
}

/// # Safety
///
/// As for [`report`].
unsafe extern "C" fn write_space<E: Events>(sk: *mut cbindings::sock) {
    // TCP calls this with each acknowledgement until the original finds enough space. SAFETY: The
    // caller promises what `report` requires, and a live socket of a stream protocol.
    unsafe {
        report::<E>(
            sk,
            Event::Writable,
            |was| was.write_space,
            |sk| cbindings::sk_stream_is_writeable(sk),
        )
    };
}

/// # Safety
///
/// As for [`report`].
unsafe extern "C" fn error_report<E: Events>(sk: *mut cbindings::sock) {
    // SAFETY: The caller promises what `report` requires.
    unsafe { report::<E>(sk, Event::Failed, |was| was.error_report, always) };
}
