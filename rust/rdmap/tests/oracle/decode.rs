// SPDX-License-Identifier: GPL-2.0

//! Decodes the octets of a vector to fields, and encodes the result again.

use rdmap::atomic::{Atomic, AtomicRequest, AtomicResponse};
use rdmap::enhanced::Enhanced;
use rdmap::fault::{Cause, LlpError, Violation};
use rdmap::header::{Header, Model, ReadRequest, Untagged};
use rdmap::mpa::frame::Layout;
use rdmap::mpa::marker::Position;
use rdmap::mpa::startup::{Frame, Kind};
use rdmap::order::InOrder;
use rdmap::rx::{HashKey, InboundSlot, Outstanding, Receive, Refusal, RxHalf, HEAD_LEN};
use rdmap::sctp::chunk::{Body, Chunk, Function, Illegal};
use rdmap::stag::{Access, Denied, Memory, Range, Stag};
use rdmap::terminate::Terminate;

use super::vector::{hex, tell, Fields, Found, Vector};
use crate::Queues;

/// Returns the fields that this crate finds in the octets, and their encoding. There is no encoding
/// if it refuses them.
pub(super) fn vector(vector: &Vector) -> (Found, Option<Vec<u8>>) {
    let found = match vector.kind.as_str() {
        "startup" => startup(vector),
        "fpdu" => fpdu(vector),
        "segment" => segment(&vector.octets),
        "sctp" => sctp(vector),
        kind => panic!("{kind} is no kind of vector"),
    };
    match found {
        Ok((fields, again)) => (Ok(fields), Some(again)),
        Err(error) => (Err(error), None),
    }
}

type Decoded = Result<(Fields, Vec<u8>), String>;

pub(super) fn tell_limits(fields: &mut Fields, enhanced: &Enhanced) {
    // A number that is not negotiated is none in this crate, and this one on the wire.
    let number = |reads: rdmap::enhanced::ReadDepth| reads.number().unwrap_or(0x3fff);
    tell(fields, "a", u8::from(enhanced.peer_to_peer));
    tell(fields, "b", u8::from(enhanced.rtr.send));
    tell(fields, "c", u8::from(enhanced.rtr.write));
    tell(fields, "d", u8::from(enhanced.rtr.read));
    tell(fields, "ird", number(enhanced.ird));
    tell(fields, "ord", number(enhanced.ord));
}

pub(super) fn tell_read(fields: &mut Fields, read: &ReadRequest) {
    tell(fields, "sinkstag", read.sink_stag.0);
    tell(fields, "sinkto", read.sink_offset);
    tell(fields, "size", read.length);
    tell(fields, "srcstag", read.source_stag.0);
    tell(fields, "srcto", read.source_offset);
}

pub(super) fn tell_atomic(fields: &mut Fields, request: &AtomicRequest) {
    tell(fields, "identifier", request.identifier);
    tell(fields, "stag", request.stag.0);
    tell(fields, "to", request.offset);
    let (operation, data, mask) = match request.operation {
        Atomic::FetchAdd { add, mask } => (0, add, mask),
        Atomic::CmpSwap {
            swap,
            swap_mask,
            compare,
            compare_mask,
        } => {
            tell(fields, "compare", compare);
            tell(fields, "comparemask", compare_mask);
            (2, swap, swap_mask)
        }
    };
    tell(fields, "operation", operation);
    tell(fields, "data", data);
    tell(fields, "mask", mask);
}

pub(super) fn tell_original(fields: &mut Fields, response: &AtomicResponse) {
    tell(fields, "identifier", response.identifier);
    tell(fields, "original", response.original);
}

fn startup(vector: &Vector) -> Decoded {
    let kind = match vector.text("frame") {
        "request" => Kind::Request,
        _ => Kind::Reply,
    };
    let (frame, length) = match Frame::parse(kind, &vector.octets) {
        Ok(Some(found)) => found,
        Ok(None) => return Err("short".to_owned()),
        // One error of this crate stands for three of the format's: there is no error on the wire.
        Err(LlpError::Startup) => {
            let expected = vector.expected().err();
            let same =
                expected.filter(|error| ["key", "revision", "private"].contains(&error.as_str()));
            return Err(same.unwrap_or_else(|| "startup".to_owned()));
        }
        Err(other) => return Err(format!("{other:?}")),
    };
    assert_eq!(length, vector.octets.len(), "{}", vector.name);
    let mut fields = Fields::new();
    tell(&mut fields, "frame", vector.text("frame"));
    tell(&mut fields, "revision", frame.revision);
    tell(&mut fields, "markers", u8::from(frame.markers));
    tell(&mut fields, "crc", u8::from(frame.crc));
    tell(&mut fields, "reject", u8::from(frame.reject));
    tell(&mut fields, "enhanced", u8::from(frame.enhanced.is_some()));
    tell(&mut fields, "private", hex(frame.private_data));
    if let Some(enhanced) = &frame.enhanced {
        tell_limits(&mut fields, enhanced);
    }
    let mut again = vec![0; Frame::MAX_LEN];
    let length = frame
        .emit(&mut again)
        .expect("what was read can be written");
    again.truncate(length);
    Ok((fields, again))
}

fn fpdu(vector: &Vector) -> Decoded {
    let short = || "short".to_owned();
    let stream = vector.octets.as_slice();
    let position = usize::try_from(vector.number("position")).unwrap();
    let at = match vector.flag("markers") {
        true => Position::behind_start(position),
        false => Position::NO_MARKERS,
    };
    let layout = Layout::of(stream, at).ok_or_else(short)?;
    let verified = layout.verify(stream, vector.flag("crc"));
    verified.ok_or_else(short)?.map_err(|error| match error {
        LlpError::Crc => "crc".to_owned(),
        LlpError::Marker => "marker".to_owned(),
        other => format!("{other:?}"),
    })?;
    assert_eq!(layout.wire_len(), stream.len(), "{}", vector.name);
    let ulpdu: Vec<u8> = layout.ulpdu(stream).flatten().copied().collect();
    let mut fields = Fields::new();
    for context in ["position", "markers", "crc"] {
        tell(&mut fields, context, vector.text(context));
    }
    tell(&mut fields, "ulpdu", hex(&ulpdu));
    let mut again = vec![0xaa; layout.wire_len()];
    let emitted = layout.emit(&[&ulpdu], vector.flag("crc"), &mut again);
    assert_eq!(emitted, Some(again.len()));
    Ok((fields, again))
}

/// Memory that grants every access: a refusal is one of the form.
struct Open;

impl Memory for Open {
    fn check(&self, _: Range, _: Access) -> Result<(), Denied> {
        Ok(())
    }

    fn update(&self, _: Range, _: Atomic) -> Result<u64, Denied> {
        Ok(0)
    }

    fn invalidate(&self, _: Stag) -> Result<(), Denied> {
        Ok(())
    }
}

/// Returns the Terminate that a stream owes for its first segment, as `layer/type/code`.
fn refusal(octets: &[u8]) -> Option<String> {
    let mut rx: RxHalf<InOrder, Queues> = RxHalf::new(
        InOrder::new(),
        HashKey(3, 4),
        vec![Receive::default(); 1],
        vec![InboundSlot::default(); 1],
        vec![Outstanding::default(); 1],
    );
    rx.post_receive(u32::MAX).expect("there is room for one");
    let head = octets.get(..HEAD_LEN).unwrap_or(octets);
    let violation = match rx.segment((), head, octets.len(), &Open) {
        Ok(_) => return None,
        Err(Refusal::Fault(fault)) => match fault.cause {
            Cause::Peer(violation) => violation,
            other => return Some(format!("{other:?}")),
        },
        Err(Refusal::Terminate(violation)) => violation,
        Err(other) => return Some(format!("{other:?}")),
    };
    let code = violation.code();
    Some(format!(
        "{:x}/{:x}/{:02x}",
        code.layer, code.etype, code.code
    ))
}

fn segment(octets: &[u8]) -> Decoded {
    let owed = || refusal(octets).unwrap_or_else(|| "nothing is owed".to_owned());
    let (header, payload) = Header::parse(octets).map_err(|violation| match violation {
        Violation::Truncated => "short".to_owned(),
        _ => owed(),
    })?;
    let mut fields = Fields::new();
    tell(&mut fields, "opcode", header.opcode().code());
    tell(&mut fields, "last", u8::from(header.last));
    let mut again = header.emit().as_slice().to_vec();
    match header.model {
        Model::Tagged { stag, offset, .. } => {
            tell(&mut fields, "stag", stag.0);
            tell(&mut fields, "to", offset);
            tell(&mut fields, "payload", hex(payload));
            again.extend(payload);
        }
        Model::Untagged {
            message,
            msn,
            offset,
        } => {
            tell(&mut fields, "msn", msn);
            tell(&mut fields, "mo", offset);
            match message {
                Untagged::Send { invalidate, .. } => {
                    if let Some(stag) = invalidate {
                        tell(&mut fields, "invalidate", stag.0);
                    }
                    tell(&mut fields, "payload", hex(payload));
                    again.extend(payload);
                }
                Untagged::ReadRequest => {
                    let read =
                        ReadRequest::parse(payload).filter(|_| payload.len() == ReadRequest::LEN);
                    let read = read.ok_or_else(owed)?;
                    tell_read(&mut fields, &read);
                    again.extend(read.emit().as_slice());
                }
                Untagged::Immediate { .. } => {
                    if payload.len() != 8 {
                        return Err(owed());
                    }
                    tell(&mut fields, "payload", hex(payload));
                    again.extend(payload);
                }
                Untagged::AtomicRequest => {
                    let length = u32::try_from(payload.len()).unwrap();
                    let request = AtomicRequest::parse(payload, length).map_err(|_| owed())?;
                    tell_atomic(&mut fields, &request);
                    again.extend(request.emit().as_slice());
                }
                Untagged::AtomicResponse => {
                    let length = u32::try_from(payload.len()).unwrap();
                    let response = AtomicResponse::parse(payload, length).map_err(|_| owed())?;
                    tell_original(&mut fields, &response);
                    again.extend(response.emit().as_slice());
                }
                Untagged::Terminate => {
                    let terminate = Terminate::parse(payload).ok_or_else(owed)?;
                    let word = payload.get(2).copied().unwrap_or_default();
                    tell_terminate(&mut fields, &terminate, word >> 5);
                    again.extend(terminate.emit().as_slice());
                }
            }
        }
    }
    Ok((fields, again))
}

/// Adds the fields of a Terminate. `bits` are M, D and R, which this crate does not keep: the
/// parsed fields have the same information.
pub(super) fn tell_terminate(fields: &mut Fields, terminate: &Terminate, bits: u8) {
    tell(fields, "layer", terminate.code.layer);
    tell(fields, "type", terminate.code.etype);
    tell(fields, "code", terminate.code.code);
    tell(fields, "m", bits >> 2);
    tell(fields, "d", (bits >> 1) & 1);
    tell(fields, "r", bits & 1);
    if let Some(length) = terminate.segment_length {
        tell(fields, "length", length);
    }
    if let Some(header) = &terminate.header {
        tell(fields, "header", hex(header.as_slice()));
    }
    if let Some(read) = &terminate.read {
        tell(fields, "read", hex(read.emit().as_slice()));
    }
}

fn sctp(vector: &Vector) -> Decoded {
    let ppid = u32::try_from(vector.number("ppid")).unwrap();
    let chunk = Chunk::parse(ppid, true, &vector.octets).map_err(|illegal| match illegal {
        Illegal::Ppid(_) => "ppid".to_owned(),
        Illegal::Truncated => "short".to_owned(),
        Illegal::Function(_) => "function".to_owned(),
        Illegal::PrivateData(_) => "private".to_owned(),
        Illegal::Ordered => "ordered".to_owned(),
    })?;
    let mut fields = Fields::new();
    tell(&mut fields, "ppid", ppid);
    tell(&mut fields, "ssn", chunk.ssn);
    let again = match chunk.body {
        Body::Segment(segment) => {
            tell(&mut fields, "segment", hex(segment));
            [&chunk.ssn.to_be_bytes(), segment].concat()
        }
        Body::Control(control) => {
            let plain = match control.function {
                Function::Initiate => 1,
                Function::Accept => 2,
                Function::Reject => 3,
                Function::Terminate => 4,
            };
            let function = if control.is_enhanced {
                plain + 4
            } else {
                plain
            };
            tell(&mut fields, "function", function);
            if let Some(enhanced) = &control.enhanced {
                tell_limits(&mut fields, enhanced);
            }
            if control.function != Function::Terminate {
                tell(&mut fields, "private", hex(control.private_data));
            }
            let mut again = vec![0; 600];
            let length = control.emit(chunk.ssn, &mut again);
            again.truncate(length.expect("what was read can be written"));
            again
        }
    };
    Ok((fields, again))
}
