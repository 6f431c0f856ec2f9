// SPDX-License-Identifier: GPL-2.0

//! Encodings of this crate, with their fields.

use rdmap::atomic::{Atomic, AtomicRequest, AtomicResponse};
use rdmap::enhanced::{Enhanced, ReadDepth, RtrMessages};
use rdmap::fault::{Fault, LlpError, OffendingSegment, Violation};
use rdmap::header::{Header, Model, ReadRequest, Untagged};
use rdmap::mpa::frame::Layout;
use rdmap::mpa::marker::Position;
use rdmap::mpa::startup::{Frame, Kind};
use rdmap::sctp::chunk::{Control, Function};
use rdmap::stag::{Denied, Stag};
use rdmap::terminate::Terminate;

use super::decode::{tell_atomic, tell_limits, tell_original, tell_read, tell_terminate};
use super::vector::{hex, tell, Fields, Vector};

const ROUNDS: usize = 60;

/// A generator of numbers that are the same in each run: SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }

    /// Returns a number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit).unwrap()).unwrap()
    }

    fn flag(&mut self) -> bool {
        self.next() & 1 != 0
    }

    /// Returns one of the ends of the range as often as a number between.
    fn u64(&mut self) -> u64 {
        match self.below(4) {
            0 => 0,
            1 => u64::MAX,
            _ => self.next(),
        }
    }

    fn u32(&mut self) -> u32 {
        u32::try_from(self.u64() >> 32).unwrap()
    }

    fn u16(&mut self) -> u16 {
        u16::try_from(self.u64() >> 48).unwrap()
    }

    fn octets(&mut self, limit: usize) -> Vec<u8> {
        let length = self.below(limit + 1);
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }

    fn enhanced(&mut self) -> Enhanced {
        let mut reads = || match self.u16() {
            u16::MAX => ReadDepth::NOT_NEGOTIATED,
            reads => ReadDepth::new(reads),
        };
        let (ird, ord) = (reads(), reads());
        Enhanced {
            peer_to_peer: self.flag(),
            rtr: RtrMessages {
                send: self.flag(),
                write: self.flag(),
                read: self.flag(),
            },
            ird,
            ord,
        }
    }

    fn atomic(&mut self) -> AtomicRequest {
        let operation = match self.flag() {
            false => Atomic::FetchAdd {
                add: self.u64(),
                mask: self.u64(),
            },
            true => Atomic::CmpSwap {
                swap: self.u64(),
                swap_mask: self.u64(),
                compare: self.u64(),
                compare_mask: self.u64(),
            },
        };
        AtomicRequest {
            identifier: self.u32(),
            stag: Stag(self.u32()),
            offset: self.u64(),
            operation,
        }
    }

    fn read(&mut self) -> ReadRequest {
        ReadRequest {
            sink_stag: Stag(self.u32()),
            sink_offset: self.u64(),
            length: self.u32(),
            source_stag: Stag(self.u32()),
            source_offset: self.u64(),
        }
    }
}

pub(super) fn vectors() -> Vec<Vector> {
    let mut numbers = Numbers(5040);
    let mut all = Vec::new();
    let mut add = |kind: &str, fields, octets| {
        all.push(Vector {
            kind: kind.to_owned(),
            name: format!("rdmap-{}", all.len()),
            fields,
            octets,
        });
    };
    for _ in 0..ROUNDS {
        for (fields, octets) in [
            startup(&mut numbers, Kind::Request),
            startup(&mut numbers, Kind::Reply),
        ] {
            add("startup", fields, octets);
        }
        let (fields, octets) = fpdu(&mut numbers);
        add("fpdu", fields, octets);
        for opcode in (0..7).chain(8..12) {
            let (fields, octets) = segment(&mut numbers, opcode);
            add("segment", fields, octets);
        }
        let (_, inner) = segment(&mut numbers, 0);
        let (fields, octets) = chunk(&mut numbers, &inner);
        add("sctp", fields, octets);
        for (function, is_enhanced) in FUNCTIONS {
            let (fields, octets) = control(&mut numbers, function, is_enhanced);
            add("sctp", fields, octets);
        }
    }
    for (fields, octets) in terminates(&mut numbers) {
        add("segment", fields, octets);
    }
    all
}

type Told = (Fields, Vec<u8>);

fn startup(numbers: &mut Numbers, kind: Kind) -> Told {
    let revision = 1 + u8::from(numbers.flag());
    let enhanced = Some(numbers.enhanced()).filter(|_| revision == 2);
    let enhanced = enhanced.filter(|_| numbers.below(4) > 0);
    let private_data = numbers.octets(512 - 4 * usize::from(enhanced.is_some()));
    let frame = Frame {
        kind,
        markers: numbers.flag(),
        crc: numbers.flag(),
        reject: kind == Kind::Reply && numbers.flag(),
        revision,
        enhanced,
        private_data: &private_data,
    };
    let mut fields = Fields::new();
    tell(
        &mut fields,
        "frame",
        if kind == Kind::Request {
            "request"
        } else {
            "reply"
        },
    );
    tell(&mut fields, "revision", revision);
    tell(&mut fields, "markers", u8::from(frame.markers));
    tell(&mut fields, "crc", u8::from(frame.crc));
    tell(&mut fields, "reject", u8::from(frame.reject));
    tell(&mut fields, "enhanced", u8::from(enhanced.is_some()));
    tell(&mut fields, "private", hex(&private_data));
    if let Some(enhanced) = &enhanced {
        tell_limits(&mut fields, enhanced);
    }
    let mut octets = vec![0; Frame::MAX_LEN];
    let length = frame.emit(&mut octets).expect("a frame that is right");
    octets.truncate(length);
    (fields, octets)
}

fn fpdu(numbers: &mut Numbers) -> Told {
    let ulpdu = [vec![0x41], numbers.octets(2000)].concat();
    let (markers, crc) = (numbers.below(4) > 0, numbers.flag());
    // FPDUs begin at multiples of four octets.
    let position = 4 * numbers.below(512);
    let at = match markers {
        true => Position::behind_start(position),
        false => Position::NO_MARKERS,
    };
    let layout = Layout::new(u16::try_from(ulpdu.len()).unwrap(), at);
    let mut octets = vec![0xaa; layout.wire_len()];
    let (front, back) = ulpdu.split_at(numbers.below(ulpdu.len()));
    let emitted = layout.emit(&[front, back], crc, &mut octets);
    assert_eq!(emitted, Some(octets.len()));
    let mut fields = Fields::new();
    tell(&mut fields, "position", position);
    tell(&mut fields, "markers", u8::from(markers));
    tell(&mut fields, "crc", u8::from(crc));
    tell(&mut fields, "ulpdu", hex(&ulpdu));
    (fields, octets)
}

/// Returns a segment that is no Terminate.
fn segment(numbers: &mut Numbers, opcode: u8) -> Told {
    // Messages of one segment, which this crate makes itself.
    let is_whole = opcode == 1 || opcode > 7;
    let (stag, last) = (Stag(numbers.u32()), numbers.flag() || is_whole);
    let mut fields = Fields::new();
    tell(&mut fields, "opcode", opcode);
    tell(&mut fields, "last", u8::from(last));
    let model = match opcode {
        0 | 2 => {
            let offset = numbers.u64();
            tell(&mut fields, "stag", stag.0);
            tell(&mut fields, "to", offset);
            Model::Tagged {
                response: opcode == 2,
                stag,
                offset,
            }
        }
        _ => {
            let msn = numbers.u32();
            let offset = if is_whole { 0 } else { numbers.u32() };
            tell(&mut fields, "msn", msn);
            tell(&mut fields, "mo", offset);
            let message = match opcode {
                1 => Untagged::ReadRequest,
                8 | 9 => Untagged::Immediate {
                    solicited: opcode == 9,
                },
                10 => Untagged::AtomicRequest,
                11 => Untagged::AtomicResponse,
                _ => Untagged::Send {
                    solicited: opcode > 4,
                    invalidate: Some(stag).filter(|_| opcode % 2 == 0),
                },
            };
            if (3..7).contains(&opcode) && opcode % 2 == 0 {
                tell(&mut fields, "invalidate", stag.0);
            }
            Model::Untagged {
                message,
                msn,
                offset,
            }
        }
    };
    let mut octets = Header { last, model }.emit().as_slice().to_vec();
    match opcode {
        1 => {
            let read = numbers.read();
            tell_read(&mut fields, &read);
            octets.extend(read.emit().as_slice());
        }
        10 => {
            let request = numbers.atomic();
            tell_atomic(&mut fields, &request);
            octets.extend(request.emit().as_slice());
        }
        11 => {
            let response = AtomicResponse {
                identifier: numbers.u32(),
                original: numbers.u64(),
            };
            tell_original(&mut fields, &response);
            octets.extend(response.emit().as_slice());
        }
        _ => {
            let payload = match opcode {
                8 | 9 => numbers.u64().to_be_bytes().to_vec(),
                _ => numbers.octets(1400),
            };
            tell(&mut fields, "payload", hex(&payload));
            octets.extend(payload);
        }
    }
    (fields, octets)
}

/// Returns the Terminate of each violation, for a tagged and an untagged segment, and for a Read
/// Request.
fn terminates(numbers: &mut Numbers) -> Vec<Told> {
    let violations = [
        Violation::RdmapVersion,
        Violation::Opcode,
        Violation::Queue,
        Violation::NoBuffer,
        Violation::MessageNumber,
        Violation::MessageOffset,
        Violation::TooLong,
        Violation::Alignment,
        Violation::Identifier,
        Violation::Tagged(Denied::Invalid),
        Violation::Tagged(Denied::Bounds),
        Violation::Tagged(Denied::Stream),
        Violation::Tagged(Denied::Wrap),
        Violation::DdpVersion { tagged: true },
        Violation::DdpVersion { tagged: false },
        Violation::Invalidate(Denied::Invalid),
        Violation::Invalidate(Denied::Shared),
    ];
    let mut faults = vec![Fault::LOCAL];
    for lower in [
        LlpError::Lost,
        LlpError::Crc,
        LlpError::Marker,
        LlpError::Startup,
        LlpError::Local,
        LlpError::InsufficientIrd,
        LlpError::NoMatchingRtr,
    ] {
        faults.push(Fault::llp(lower));
    }
    for violation in violations {
        for opcode in [0, 2, 3, 6, 8, 10, 11] {
            let (_, offending) = segment(numbers, opcode);
            faults.push(Fault::peer(
                violation,
                OffendingSegment::of(&offending, offending.len()),
            ));
        }
    }
    for denied in [
        Denied::Invalid,
        Denied::Bounds,
        Denied::Rights,
        Denied::Stream,
        Denied::Wrap,
    ] {
        let (_, offending) = segment(numbers, 1);
        let read = ReadRequest::parse(offending.get(18..).unwrap()).unwrap();
        let fault = Fault::peer(
            Violation::Source(denied),
            OffendingSegment::of(&offending, offending.len()),
        );
        faults.push(fault.with_read(read.advanced(5)));
    }
    let told = faults.iter().map(|fault| {
        let terminate = Terminate::new(fault);
        let header = Header {
            last: true,
            model: Model::Untagged {
                message: Untagged::Terminate,
                msn: 1,
                offset: 0,
            },
        };
        let payload = terminate.emit();
        let octets = [header.emit().as_slice(), payload.as_slice()].concat();
        let mut fields = Fields::new();
        for (key, value) in [("opcode", 7), ("last", 1), ("msn", 1), ("mo", 0)] {
            tell(&mut fields, key, value);
        }
        // RFC 5040, figure 10, as a table of its own.
        let bits = match (terminate.code.layer, fault.read.is_some()) {
            (_, true) => 0b111,
            (0 | 1, _) if fault.offending.is_some() => 0b110,
            _ => 0,
        };
        tell_terminate(&mut fields, &terminate, bits);
        (fields, octets)
    });
    told.collect()
}

fn chunk(numbers: &mut Numbers, segment: &[u8]) -> Told {
    let ssn = numbers.u16();
    let mut fields = Fields::new();
    tell(&mut fields, "ppid", 16);
    tell(&mut fields, "ssn", ssn);
    tell(&mut fields, "segment", hex(segment));
    (fields, [&ssn.to_be_bytes(), segment].concat())
}

const FUNCTIONS: [(Function, bool); 7] = [
    (Function::Initiate, false),
    (Function::Accept, false),
    (Function::Reject, false),
    (Function::Terminate, false),
    (Function::Initiate, true),
    (Function::Accept, true),
    (Function::Reject, true),
];

fn control(numbers: &mut Numbers, function: Function, is_enhanced: bool) -> Told {
    let enhanced = Some(numbers.enhanced());
    let enhanced = enhanced.filter(|_| is_enhanced && function != Function::Reject);
    let private_data = match function {
        Function::Terminate => Vec::new(),
        _ => numbers.octets(512 - 4 * usize::from(enhanced.is_some())),
    };
    let control = Control {
        function,
        enhanced,
        is_enhanced,
        private_data: &private_data,
    };
    let ssn = numbers.u16();
    let number = FUNCTIONS
        .iter()
        .position(|listed| *listed == (function, is_enhanced));
    let mut fields = Fields::new();
    tell(&mut fields, "ppid", 17);
    tell(&mut fields, "ssn", ssn);
    tell(&mut fields, "function", number.unwrap() + 1);
    if let Some(enhanced) = &enhanced {
        tell_limits(&mut fields, enhanced);
    }
    if function != Function::Terminate {
        tell(&mut fields, "private", hex(&private_data));
    }
    let mut octets = vec![0; 600];
    let length = control
        .emit(ssn, &mut octets)
        .expect("a message that is right");
    octets.truncate(length);
    (fields, octets)
}
