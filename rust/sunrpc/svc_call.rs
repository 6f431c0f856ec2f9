// SPDX-License-Identifier: GPL-2.0

//! A call in work.

use crate::SvcConnection;

/// What is kept of a call until it is answered: what the connection context of it, and the message
/// that sunrpc reads it from.
///
/// While sunrpc has it, the connection sees of it the context only; so nothing that safe code does
/// takes the message away from its readers.
pub struct SvcCall<C: SvcConnection> {
    /// The context.
    pub context: C::CallContext,
    message: Option<C::Message>,
}

impl<C: SvcConnection> SvcCall<C> {
    /// One without a message, as it is before and after it is in work.
    pub fn new(context: C::CallContext) -> Self {
        Self {
            context,
            message: None,
        }
    }

    /// The message, if it was not answered.
    pub fn take_message(&mut self) -> Option<C::Message> {
        self.message.take()
    }

    pub(crate) fn set_message(&mut self, message: C::Message) {
        self.message = Some(message);
    }
}
