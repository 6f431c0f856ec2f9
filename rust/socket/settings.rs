// SPDX-License-Identifier: GPL-2.0

//! Socket options, set before a socket connects or listens. Children of a listener inherit all of
//! them.

use crate::socket::Socket;
use kernel::error::Result;

/// Socket options of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// The time that octets may stay unacknowledged before the connection ends with `ETIMEDOUT`, in
    /// milliseconds. 0 leaves the setting of the system.
    pub user_timeout_ms: u32,
    /// The size of the receive buffer in octets, which TCP then does not change. [`None`] leaves it
    /// to TCP.
    pub receive_buffer: Option<u32>,
}

impl Settings {
    /// Sets the options of `socket`, whose connection nobody uses yet. Sleeps.
    pub(crate) fn apply(&self, socket: &Socket) -> Result {
        let sk = socket.sk();
        // SAFETY: `socket` owns the socket, which is one of TCP. Each of these functions takes the
        // socket's lock itself.
        unsafe {
            iwraw::tcp_sock_set_nodelay(sk);
            iwraw::tcp_sock_set_user_timeout(sk, i32::try_from(self.user_timeout_ms)?);
            if let Some(bytes) = self.receive_buffer {
                iwraw::sock_set_rcvbuf(sk, i32::try_from(bytes)?);
            }
        }
        let locked = socket.lock();
        let sk = locked.sk();
        // SAFETY: `locked` holds the socket's lock, under which these fields change.
        unsafe {
            // A task that waits for memory may depend on octets that are sent here: no reclaim by
            // file systems or devices.
            (&raw mut (*sk).sk_allocation).write(iwraw::GFP_NOIO);
            // The page fragment of the task may be in use by code that was interrupted to write
            // back.
            (&raw mut (*sk).sk_use_task_frag).write(false);
            // Octets that a peer calls urgent stay where they are in the stream. TCP would skip an
            // octet otherwise, and frames would no longer be found.
            iwraw::sock_set_flag(sk, iwraw::sock_flags_SOCK_URGINLINE);
        }
        Ok(())
    }
}
