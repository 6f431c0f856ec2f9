// SPDX-License-Identifier: GPL-2.0

//! A call that the server is working on.

use crate::memory::Stable;

/// A connection, with the types that belong to each of its calls.
pub trait HasSvcCall: Sized + Send + Sync + 'static {
    /// The message that a call comes in.
    type Message: Stable;

    /// The connection's own state of a call.
    type CallContext: Send;
}

/// A call from its arrival to its reply: the connection's context of it, and the message that
/// sunrpc reads it from.
///
/// While sunrpc works on the call, the connection can access the context only. Safe code therefore
/// cannot take the message away while sunrpc reads it.
pub struct SvcCall<C: HasSvcCall> {
    /// The context.
    pub context: C::CallContext,
    message: Option<C::Message>,
}

impl<C: HasSvcCall> SvcCall<C> {
    /// A call without a message, as it is before and after sunrpc works on it.
    pub fn new(context: C::CallContext) -> Self {
        Self {
            context,
            message: None,
        }
    }

    /// The message, if there was no reply.
    pub fn take_message(&mut self) -> Option<C::Message> {
        self.message.take()
    }

    pub(crate) fn set_message(&mut self, message: C::Message) {
        self.message = Some(message);
    }
}
