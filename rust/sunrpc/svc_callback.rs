// SPDX-License-Identifier: GPL-2.0

//! A call of the server to its client.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `rq_snd_buf` of
//! `struct rpc_rqst`; RFC 8167.

use crate::xdr_buf::XdrBuf;
use kernel::prelude::*;

/// A call to the client, while it is sent.
pub struct SvcCallback<'a> {
    pub(crate) buf: XdrBuf<'a>,
}

impl SvcCallback<'_> {
    /// Returns its length in bytes.
    pub fn len(&self) -> usize {
        self.buf.total_len()
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies it to `dst`. Returns the number of bytes copied.
    pub fn copy_out(&self, dst: &mut [u8]) -> Result<usize> {
        self.buf.copy_out(0, dst)
    }
}
