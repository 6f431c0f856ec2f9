// SPDX-License-Identifier: GPL-2.0

//! The part of an RPC message (RFC 5531) that the transport reads.

use crate::xdr::{self, Reader};

/// Length of the shortest Call that is parsed: up to its procedure number.
pub(crate) const MIN_CALL: u64 = 24;

/// Length of the smallest Reply: denied, authentication error.
pub(crate) const MIN_REPLY: u64 = 20;

/// Values of the direction word, the second of every message.
pub(crate) mod direction {
    pub(crate) const CALL: u32 = 0;
    pub(crate) const REPLY: u32 = 1;
}

/// Credential flavour of RPCSEC_GSS (RFC 2203).
const RPCSEC_GSS: u32 = 6;

/// RPCSEC_GSS procedure: the arguments are those of the program.
const GSS_DATA: u32 = 0;

/// RPCSEC_GSS service: the arguments are neither signed nor encrypted.
const GSS_NONE: u32 = 1;

/// Returns the first two words.
#[inline]
pub(crate) fn xid_and_direction(message: &[u8]) -> Option<(u32, u32)> {
    let (xid, rest) = message.split_first_chunk()?;
    let direction = rest.first_chunk()?;
    Some((u32::from_be_bytes(*xid), u32::from_be_bytes(*direction)))
}

/// The information of a Call's header about its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHeader {
    /// The offset of the arguments: behind credential and verifier.
    pub length: usize,
    /// Set if arguments and results may be reduced. RPCSEC_GSS forbids it if it protects them, or
    /// if they are its own (RFC 8166, section 8.2.2).
    pub reduction: bool,
}

impl CallHeader {
    /// Reads the header of a Call, or as much as is there.
    pub fn parse(message: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(message);
        reader.array::<24>().ok()?;
        let (flavor, credential) = opaque_auth(&mut reader)?;
        opaque_auth(&mut reader)?;
        Some(Self {
            length: reader.at(),
            reduction: flavor != RPCSEC_GSS || gss_leaves_alone(credential)?,
        })
    }
}

fn opaque_auth<'a>(reader: &mut Reader<'a>) -> Option<(u32, &'a [u8])> {
    let flavor = reader.u32().ok()?;
    let length = usize::try_from(reader.u32().ok()?).ok()?;
    let body = reader.bytes(xdr::roundup(length))?;
    Some((flavor, body))
}

fn gss_leaves_alone(credential: &[u8]) -> Option<bool> {
    let mut reader = Reader::new(credential);
    let _version = reader.u32().ok()?;
    let procedure = reader.u32().ok()?;
    let _sequence = reader.u32().ok()?;
    let service = reader.u32().ok()?;
    Some(procedure == GSS_DATA && service == GSS_NONE)
}
