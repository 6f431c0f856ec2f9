// SPDX-License-Identifier: GPL-2.0

//! What a socket is told before it connects or listens. Children of a listener inherit all of it.

use crate::owned::Socket;
use kernel::error::Result;

/// Settings of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Milliseconds that octets may lie unacknowledged before the connection ends with `ETIMEDOUT`. 0: as the system has it.
    pub user_timeout_ms: u32,
    /// Octets of the receive buffer, which TCP then does not change. [`None`]: TCP finds out.
    pub receive_buffer: Option<u32>,
}

impl Settings {
    /// Tells `socket`, whose connection nobody uses yet. Sleeps.
    pub(crate) fn apply(&self, socket: &Socket) -> Result {
        let sk = socket.sk();
        // SAFETY: The socket is there as long as `socket`, and TCP. Each of these takes the socket's lock itself.
        unsafe {
            iwraw::tcp_sock_set_nodelay(sk);
            iwraw::tcp_sock_set_user_timeout(sk, i32::try_from(self.user_timeout_ms)?);
            if let Some(bytes) = self.receive_buffer {
                iwraw::sock_set_rcvbuf(sk, i32::try_from(bytes)?);
            }
        }
        let locked = socket.lock();
        let sk = locked.sk();
        // SAFETY: The socket's lock is held, under which these fields change.
        unsafe {
            // Somebody who waits for memory may wait for what is sent here: no reclaim by file systems or devices.
            (&raw mut (*sk).sk_allocation).write(iwraw::GFP_NOIO);
            // The page fragment of the task may be in use by whoever was interrupted to write back.
            (&raw mut (*sk).sk_use_task_frag).write(false);
            // What a peer calls urgent stays where it is in the stream. TCP would skip an octet otherwise, and the frames
            // would no longer be found.
            iwraw::sock_set_flag(sk, iwraw::sock_flags_SOCK_URGINLINE);
        }
        Ok(())
    }
}
