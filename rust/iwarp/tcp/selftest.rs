// SPDX-License-Identifier: GPL-2.0

//! Tests of streams over TCP, whose peer is a socket that sends and receives octets.

mod outbox;

use crate::prelude::*;
use crate::{
    llp::HalfClosed as _,
    stream::StreamProgress,
    tcp::{
        established::TcpEstablished,
        startup::SETTINGS, //
    }, //
};
use core::net::Ipv4Addr;
use kernel::time::{
    delay::fsleep,
    Delta, //
};
use provider::{
    driver::Regions,
    queue::QpEvent,
    region::AccessFlags,
    selftest::{
        Consumer,
        Target,
        Test,
        MAX_LEN,
        TARGET_LEN, //
    }, //
};
use rdmap::{
    atomic::{
        Atomic,
        AtomicRequest,
        AtomicResponse, //
    },
    header::{
        Header,
        Model,
        Untagged, //
    },
    mpa::{
        frame::{
            Layout,
            LENGTH_LEN, //
        },
        marker::Position,
        startup, //
    },
    terminate::Terminate, //
};
use socket::{
    ConnState,
    Frame,
    Frames,
    Listener,
    Next,
    SendBuf,
    Settings,
    TcpConn,
    Then, //
};

/// The tests, each with its name, which is its claim.
pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "FPDUs of all lengths arrive as they were made, also where TCP takes them in parts",
        outbox::fpdus_arrive,
    ),
    (
        "a connection that is idle gives back the pages that it sent from",
        outbox::pages_are_given_back,
    ),
    // Shows M-9.
    (
        "a passive side sends nothing but its Reply before an FPDU has arrived",
        passive_side_waits,
    ),
    // Shows P5.5-12.
    (
        "a Send that is complete arrives, although what waits here is lost",
        complete_sends_arrive,
    ),
    (
        "a stream that waits for room is looked at again, even without an event",
        wait_for_room_has_an_end,
    ),
    (
        "a Read is answered to its end, although its peer sends nothing more",
        reads_are_answered_behind_the_end,
    ),
    // Shows M-2, M-7, M-12.
    (
        "neither an FPDU with a wrong CRC is placed nor one behind it, and the peer is told",
        wrong_crc_places_nothing,
    ),
    // Shows M-14.
    (
        "without a CRC an FPDU is placed whatever its last field has, and what is sent has zeros there",
        crc_is_not_looked_at,
    ),
    (
        "a consumer learns by an event that its stream failed, and which kind of error that is",
        failures_are_events,
    ),
    // Shows X6.3-2, X6.4-1, X7-2.
    (
        "immediate data behind a Write completes a Receive without memory, and four octets of it count",
        immediate_data_is_received,
    ),
    (
        "a Write with immediate data is two FPDUs and one completion",
        immediate_data_is_sent,
    ),
    // Shows X5.1-2, X5.1-4, X5.2-3.
    (
        "an atomic operation changes registered memory, is answered, and its consumer hears nothing",
        atomic_operation_is_answered,
    ),
    // Shows X5.1-3.
    (
        "an atomic operation at an address that is not aligned changes nothing, and the peer is told",
        misaligned_operation_is_refused,
    ),
    // Shows X5.2.2-3.
    (
        "an atomic operation completes with the value that the peer answers with",
        atomic_operation_completes,
    ),
    (
        "a message takes one shared Receive, and a peer that skips messages takes none",
        shared_receives_are_taken_when_needed,
    ),
    // Shows X8.1-1.
    (
        "an atomic operation without memory for its result is not sent, and fails",
        result_has_memory,
    ),
    (
        "a Read that no Read may be outstanding for fails in its turn, behind what was posted before",
        read_without_ord_fails_in_its_turn,
    ),
];

/// The time until an event counts as missing, in milliseconds.
const TIMEOUT_MS: usize = 10_000;

/// An RDMA Write of no octets, and a Read Request that lacks the STag of its source and the octets
/// behind it.
const WRITE: [u8; 20] = *b"\x00\x0e\xc1\x40\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
const READ: [u8; 36] =
    *b"\x00\x2e\x41\x41\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\x04\0\0";

/// The length of the longest segment that a test of the messages of RFC 7306 sends or receives.
const SEGMENT_LEN: usize = 70;

/// The length of the Read in octets, and in pages.
const READ_LEN: usize = 0x40000;
const READ_PAGES: usize = 64;

/// Returns the next FPDU that arrived, if it is there whole.
fn next_fpdu<'f, 's>(frames: &'f mut Frames<'s>) -> Result<Option<Frame<'f, 's>>> {
    let length = |head: &[u8]| -> Result<usize> {
        let layout = Layout::of(head, Position::NO_MARKERS).ok_or(EINVAL)?;
        Ok(layout.wire_len())
    };
    match frames.next(LENGTH_LEN, length)? {
        Next::Whole(frame) => Ok(Some(frame)),
        Next::End { .. } => Err(EPIPE),
        _ => Ok(None),
    }
}

const ONE_READ: ReadLimits = ReadLimits { ird: 1, ord: 1 };

/// A stream, its consumer, and its peer.
struct Bench {
    shared: Arc<DeviceState>,
    consumer: Consumer,
    stream: Stream<TcpEstablished>,
    peer: TcpConn<EventTarget>,
    // Octets that the peer has received.
    received: usize,
}

/// Waits for a millisecond.
fn pause() {
    fsleep(Delta::from_millis(1));
}

/// Returns both ends of a connection, the second of which has these settings.
fn connected(settings: &Settings) -> Result<(TcpConn<EventTarget>, TcpConn<EventTarget>)> {
    let here = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let (net, events) = (Net::init(), EventTarget::new()?);
    let listener = Listener::new(&net, here, None, 1, settings, events.clone())?;
    let there = listener.local_address()?;
    let connection = TcpConn::connect(&net, here, there, &SETTINGS, events.clone())?;
    let mut accepted = None;
    for _ in 0..TIMEOUT_MS {
        accepted = listener.accept()?;
        if accepted.is_some() && connection.state() == ConnState::Open {
            break;
        }
        pause();
    }
    let peer = accepted.ok_or(EAGAIN)?.attach(events)?;
    Ok((connection, peer))
}

impl Bench {
    /// Creates a stream whose FPDUs have no CRC. `reply` is the frame that the passive side sends
    /// first. Sleeps.
    fn new(settings: &Settings, reply: Option<&[u8]>) -> Result<Self> {
        Self::with_crc(settings, reply, false)
    }

    /// Creates a stream whose FPDUs may have a CRC. Sleeps.
    fn with_crc(settings: &Settings, reply: Option<&[u8]>, crc: bool) -> Result<Self> {
        Self::of(settings, reply, crc, ONE_READ, Consumer::new()?)
    }

    /// Creates a stream of this consumer. Sleeps.
    fn of(
        settings: &Settings,
        reply: Option<&[u8]>,
        crc: bool,
        reads: ReadLimits,
        consumer: Consumer,
    ) -> Result<Self> {
        let (connection, peer) = connected(settings)?;
        let agreed = startup::StreamParams {
            crc,
            send_markers: false,
            receive_markers: false,
            reads,
            rtr: None,
        };
        let open = TcpEstablished::new(connection, &agreed, reply)?;
        Ok(Self {
            shared: DeviceState::new(Arc::pin_init(Regions::new(), GFP_KERNEL)?)?,
            stream: Stream::new(open, &consumer.queues, reads)?,
            consumer,
            peer,
            received: 0,
        })
    }

    fn round(&mut self) -> StreamProgress {
        let memory = RegisteredMemory {
            regions: &RoundRegions::new(&self.shared.regions),
            pd: Consumer::PD,
            access: AccessFlags {
                remote_read: true,
                remote_write: true,
            },
        };
        self.stream
            .round(&self.shared, &self.consumer.queues, &memory)
    }

    fn peer_sends(&mut self, octets: &[u8]) -> Result {
        let sent = self.peer.send([SendBuf::from(octets)], Then::Push)?;
        (sent == octets.len()).then_some(()).ok_or(EAGAIN)
    }

    /// Returns the error of the Terminate, if that is the next FPDU that the peer receives.
    fn received_terminate(&mut self) -> Result<Option<Code>> {
        self.peer.receive(|frames| {
            let Some(frame) = next_fpdu(frames)? else {
                return Ok(None);
            };
            let mut word = [0; 4];
            frame.copy_to_slice(LENGTH_LEN + Header::UNTAGGED_LEN, &mut word)?;
            let terminate = Terminate::parse(&word).ok_or(EINVAL)?;
            Ok(Some(terminate.code))
        })
    }

    /// Returns the next segment that the peer receives, with zeros behind it, and its length.
    fn received_segment(&mut self) -> Result<Option<([u8; SEGMENT_LEN], usize)>> {
        self.peer.receive(|frames| {
            let Some(frame) = next_fpdu(frames)? else {
                return Ok(None);
            };
            let mut head = [0; LENGTH_LEN];
            frame.copy_to_slice(0, &mut head)?;
            let length = usize::from(u16::from_be_bytes(head));
            let mut segment = [0; SEGMENT_LEN];
            let octets = segment.get_mut(..length).ok_or(EINVAL)?;
            frame.copy_to_slice(LENGTH_LEN, octets)?;
            frame.take()?;
            Ok(Some((segment, length)))
        })
    }

    /// Runs the stream until the peer has a segment.
    fn next_segment(&mut self) -> Result<([u8; SEGMENT_LEN], usize)> {
        for _ in 0..TIMEOUT_MS {
            // It may be over as soon as it has sent a Terminate.
            self.round();
            if let Some(found) = self.received_segment()? {
                return Ok(found);
            }
            pause();
        }
        Err(EAGAIN)
    }

    /// Has the peer send an untagged segment, without a CRC.
    fn peer_sends_untagged(&mut self, message: Untagged, msn: u32, payload: &[u8]) -> Result {
        let header = Header {
            last: true,
            model: Model::Untagged {
                message,
                msn,
                offset: 0,
            },
        }
        .emit();
        let ulpdu_len = u16::try_from(header.len() + payload.len())?;
        let layout = Layout::new(ulpdu_len, Position::NO_MARKERS);
        let mut fpdu = [0; SEGMENT_LEN + 10];
        let length = layout
            .emit(&[header.as_slice(), payload], false, &mut fpdu)
            .ok_or(EINVAL)?;
        self.peer_sends(fpdu.get(..length).ok_or(EINVAL)?)
    }

    fn peer_receives(&mut self) -> Result {
        self.received += self.peer.receive(|frames| frames.discard())?;
        Ok(())
    }

    /// Runs the stream for at least that many milliseconds, or until `done`. Returns whether it
    /// was.
    fn run_for(&mut self, milliseconds: usize, done: impl Fn(&Self) -> bool) -> Result<bool> {
        for _ in 0..milliseconds {
            if matches!(self.round(), StreamProgress::Over { .. }) {
                return Err(EPIPE);
            }
            self.peer_receives()?;
            if done(self) {
                return Ok(true);
            }
            pause();
        }
        Ok(false)
    }
}

fn passive_side_waits() -> Result<bool> {
    let mut bench = Bench::new(&SETTINGS, Some(b"Reply"))?;
    bench.consumer.send(1, 5)?;
    // Two octets of length, a header, the payload, padding and a CRC.
    let (reply, fpdu) = (5, 2 + 18 + 5 + 3 + 4);
    let early = bench.run_for(100, |bench| bench.received > reply)?;
    let replied = bench.received == reply && bench.consumer.completion().is_none();
    bench.peer_sends(&WRITE)?;
    let late = bench.run_for(TIMEOUT_MS, |bench| bench.received >= reply + fpdu)?;
    Ok(!early && replied && late && bench.consumer.completion() == Some((1, true)))
}

/// Creates a stream that was given Sends until there was no space: the peer does not receive.
/// Returns the number of complete ones, too.
fn full() -> Result<(Bench, u64)> {
    let narrow = Settings {
        receive_buffer: Some(16_384),
        ..SETTINGS
    };
    let mut bench = Bench::new(&narrow, None)?;
    let (mut complete, mut waits) = (0, 0);
    bench.consumer.send(0, MAX_LEN)?;
    while waits < 200 {
        bench.round();
        match bench.consumer.completion() {
            Some((id, true)) if id == complete => {
                complete += 1;
                waits = 0;
                bench.consumer.send(complete, MAX_LEN)?;
            }
            None => {
                waits += 1;
                pause();
            }
            Some(_) => return Err(EINVAL),
        }
    }
    Ok((bench, complete))
}

fn wait_for_room_has_an_end() -> Result<bool> {
    let mut idle = Bench::new(&SETTINGS, None)?;
    let nothing_waits =
        idle.round() == StreamProgress::Idle && idle.stream.poll_after_ms().is_none();
    let (mut bench, _) = full()?;
    let waits = bench.round() == StreamProgress::Idle;
    Ok(nothing_waits && waits && bench.stream.poll_after_ms().is_some())
}

fn complete_sends_arrive() -> Result<bool> {
    let (bench, complete) = full()?;
    let Bench {
        stream,
        consumer,
        mut peer,
        ..
    } = bench;
    let open = stream.end(&consumer.queues);
    let flushed = consumer.completion() == Some((complete, false));
    let waited = !open.is_empty();
    // TCP delivers the octets that it has.
    drop(open);
    let mut received = 0;
    for _ in 0..TIMEOUT_MS {
        received += peer.receive(|frames| frames.discard())?;
        if peer.state() != ConnState::Open {
            break;
        }
        pause();
    }
    received += peer.receive(|frames| frames.discard())?;
    // Each with a header, its length and a CRC, at least.
    let expected = usize::try_from(complete * u64::from(MAX_LEN + 2 + 18 + 4))?;
    Ok(waited && flushed && complete > 0 && received >= expected)
}

fn reads_are_answered_behind_the_end() -> Result<bool> {
    let mut bench = Bench::new(&SETTINGS, None)?;
    let stag = Consumer::register(&bench.shared.regions, READ_PAGES)?;
    bench.peer_sends(&READ)?;
    // The STag, the offset 0, no padding, and the CRC.
    let mut rest = [0; 16];
    let (to, _) = rest.split_first_chunk_mut().ok_or(EINVAL)?;
    *to = stag.to_be_bytes();
    bench.peer_sends(&rest)?;
    bench.peer.shutdown();
    let mut over = false;
    for _ in 0..TIMEOUT_MS {
        over = matches!(bench.round(), StreamProgress::Over { graceful: true, .. });
        if over {
            break;
        }
        bench.peer_receives()?;
        pause();
    }
    let Bench {
        stream,
        consumer,
        mut peer,
        mut received,
        ..
    } = bench;
    let mut last = stream.end(&consumer.queues).half_close();
    for _ in 0..TIMEOUT_MS {
        last.step();
        received += peer.receive(|frames| frames.discard())?;
        if peer.state() == ConnState::Closed {
            break;
        }
        pause();
    }
    Ok(over && received > READ_LEN)
}

/// Returns an FPDU with a CRC, of an RDMA Write of four octets.
fn write_of(stag: u32, offset: u64, octets: &[u8; 4]) -> Result<[u8; 24]> {
    let header = Header {
        last: true,
        model: Model::Tagged {
            response: false,
            stag: Stag(stag),
            offset,
        },
    }
    .emit();
    let mut fpdu = [0; 24];
    Layout::new(18, Position::NO_MARKERS)
        .emit(&[header.as_slice(), octets], true, &mut fpdu)
        .ok_or(EINVAL)?;
    Ok(fpdu)
}

fn wrong_crc_places_nothing() -> Result<bool> {
    let mut bench = Bench::with_crc(&SETTINGS, None, true)?;
    let target = Target::new(&bench.shared.regions)?;
    let mut expected = [0; TARGET_LEN];
    expected[..4].copy_from_slice(b"good");
    bench.peer_sends(&write_of(target.stag(), 0, b"good")?)?;
    let placed = bench.run_for(TIMEOUT_MS, |_| target.octets() == Ok(expected))?;
    // One packet with an FPDU of which an octet has changed, and one that is correct.
    let mut both = [0; 48];
    both[..24].copy_from_slice(&write_of(target.stag(), 4, b"bad.")?);
    both[24..].copy_from_slice(&write_of(target.stag(), 8, b"late")?);
    both[19] ^= 1;
    bench.peer_sends(&both)?;
    let (mut over, mut code) = (false, None);
    for _ in 0..TIMEOUT_MS {
        over = over || matches!(bench.round(), StreamProgress::Over { graceful: true, .. });
        // An end before the Terminate is an error.
        code = bench.received_terminate()?;
        if code.is_some() {
            break;
        }
        pause();
    }
    let terminated = code == Some(Code::new(2, 0, 2));
    let counted = bench.shared.counters.get(Count::BadCrc) == 1;
    Ok(placed && over && terminated && counted && target.octets() == Ok(expected))
}

fn crc_is_not_looked_at() -> Result<bool> {
    let mut bench = Bench::new(&SETTINGS, None)?;
    let target = Target::new(&bench.shared.regions)?;
    let mut expected = [0; TARGET_LEN];
    expected[..4].copy_from_slice(b"good");
    let mut write = write_of(target.stag(), 0, b"good")?;
    write[23] ^= 1;
    bench.peer_sends(&write)?;
    let placed = bench.run_for(TIMEOUT_MS, |_| target.octets() == Ok(expected))?;
    // The answer to a segment of another version, which is a Terminate.
    bench.peer_sends(&[0, 4, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0])?;
    let mut field = None;
    for _ in 0..TIMEOUT_MS {
        bench.round();
        field = bench.peer.receive(|frames| -> Result<Option<[u8; 4]>> {
            let Some(frame) = next_fpdu(frames)? else {
                return Ok(None);
            };
            let mut field = [0xff; 4];
            frame.copy_to_slice(frame.len() - 4, &mut field)?;
            Ok(Some(field))
        })?;
        if field.is_some() {
            break;
        }
        pause();
    }
    let counted = bench.shared.counters.get(Count::BadCrc) == 0;
    Ok(placed && counted && field == Some([0; 4]))
}

/// Returns the event of a stream that ends after its peer has done that.
fn event_after(
    with_crc: bool,
    peer_does: impl FnOnce(&mut Bench) -> Result,
) -> Result<Option<QpEvent>> {
    let mut bench = Bench::with_crc(&SETTINGS, None, with_crc)?;
    peer_does(&mut bench)?;
    for _ in 0..TIMEOUT_MS {
        if matches!(bench.round(), StreamProgress::Over { .. }) {
            let Bench {
                stream, consumer, ..
            } = bench;
            drop(stream.end(&consumer.queues));
            return Ok(consumer.event());
        }
        pause();
    }
    Err(EAGAIN)
}

fn failures_are_events() -> Result<bool> {
    let mut wrong_crc = write_of(1, 0, b"bad.")?;
    wrong_crc[19] ^= 1;
    let unknown_stag = write_of(0x1234_5678, 0, b"none")?;
    let (early_read, terminate) = ([0; 28], [0; 4]);
    let events = [
        event_after(true, |bench| bench.peer_sends(&wrong_crc))?,
        event_after(false, |bench| bench.peer_sends(&unknown_stag))?,
        event_after(false, |bench| {
            bench.peer_sends_untagged(Untagged::ReadRequest, 7, &early_read)
        })?,
        event_after(false, |bench| {
            bench.peer_sends_untagged(Untagged::Terminate, 1, &terminate)
        })?,
        event_after(false, |bench| {
            bench.peer.shutdown();
            Ok(())
        })?,
    ];
    let due = [
        Some(QpEvent::Fatal),
        Some(QpEvent::AccessError),
        Some(QpEvent::RequestError),
        Some(QpEvent::Fatal),
        None,
    ];
    Ok(events == due)
}

fn immediate_data_is_received() -> Result<bool> {
    let mut bench = Bench::new(&SETTINGS, None)?;
    let target = Target::new(&bench.shared.regions)?;
    for id in 1..=2 {
        bench.consumer.receive(id)?;
    }
    let message = Untagged::Immediate { solicited: true };
    bench.peer_sends(&write_of(target.stag(), 8, b"data")?)?;
    bench.peer_sends_untagged(message, 1, b"\x01\x02\x03\x04....")?;
    bench.peer_sends_untagged(message, 2, &[5; 8])?;
    let mut found = [None; 2];
    for found in &mut found {
        for _ in 0..TIMEOUT_MS {
            bench.round();
            *found = bench.consumer.immediate();
            if found.is_some() {
                break;
            }
            pause();
        }
    }
    let placed = target.octets()?.get(8..12) == Some(b"data");
    let due = [Some((1, [1, 2, 3, 4], 4)), Some((2, [5; 4], 0))];
    Ok(placed && found == due)
}

fn immediate_data_is_sent() -> Result<bool> {
    let mut bench = Bench::new(&SETTINGS, None)?;
    bench
        .consumer
        .write_immediate(1, [0xde, 0xad, 0xbe, 0xef])?;
    let (write, write_len) = bench.next_segment()?;
    let (immediate, immediate_len) = bench.next_segment()?;
    let lengths = (write_len, immediate_len) == (14, 26);
    let opcodes = (write[0], write[1], immediate[0], immediate[1]) == (0xc1, 0x40, 0x41, 0x48);
    let data = immediate[18..26] == [0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0];
    let once = bench.consumer.completion() == Some((1, true));
    Ok(lengths && opcodes && data && once && bench.consumer.completion().is_none())
}

/// Returns an Atomic Request that adds five.
fn add_five(stag: u32, offset: u64) -> AtomicRequest {
    AtomicRequest {
        identifier: 77,
        stag: Stag(stag),
        offset,
        operation: Atomic::FetchAdd { add: 5, mask: 0 },
    }
}

fn atomic_operation_is_answered() -> Result<bool> {
    let mut bench = Bench::new(&SETTINGS, None)?;
    let target = Target::new(&bench.shared.regions)?;
    bench.consumer.receive(1)?;
    let add = add_five(target.stag(), 16);
    let swap = |compare| AtomicRequest {
        operation: Atomic::CmpSwap {
            swap: 15,
            swap_mask: u64::MAX,
            compare,
            compare_mask: u64::MAX,
        },
        ..add
    };
    let mut answered = true;
    let requests = [(add, 0), (add, 5), (swap(11), 10), (swap(10), 10)];
    for (msn, (request, original)) in (1..).zip(requests) {
        let request = request.emit();
        bench.peer_sends_untagged(Untagged::AtomicRequest, msn, request.as_slice())?;
        let (segment, length) = bench.next_segment()?;
        let (header, payload) = Header::parse(&segment[..length]).map_err(|_| EINVAL)?;
        let model = Model::Untagged {
            message: Untagged::AtomicResponse,
            msn,
            offset: 0,
        };
        let due = AtomicResponse {
            identifier: 77,
            original,
        };
        answered &= header == Header { last: true, model };
        answered &= AtomicResponse::parse(payload, 12) == Ok(due);
    }
    let mut due = [0; TARGET_LEN];
    due[16..24].copy_from_slice(&15_u64.to_ne_bytes());
    let unheard = bench.consumer.completion().is_none();
    // The Receive is that of the first message that has one.
    let message = Untagged::Immediate { solicited: false };
    bench.peer_sends_untagged(message, 1, &[7; 8])?;
    let mut heard = None;
    for _ in 0..TIMEOUT_MS {
        bench.round();
        heard = bench.consumer.immediate();
        if heard.is_some() {
            break;
        }
        pause();
    }
    let heard = heard == Some((1, [7; 4], 0));
    Ok(answered && target.octets()? == due && unheard && heard)
}

fn misaligned_operation_is_refused() -> Result<bool> {
    let mut refused = true;
    for offset in [1, 4, 7] {
        let mut bench = Bench::new(&SETTINGS, None)?;
        let target = Target::new(&bench.shared.regions)?;
        let request = add_five(target.stag(), offset).emit();
        bench.peer_sends_untagged(Untagged::AtomicRequest, 1, request.as_slice())?;
        let (segment, _) = bench.next_segment()?;
        let terminate = Terminate::parse(&segment[18..]).ok_or(EINVAL)?;
        refused &= segment[1] == 0x47 && terminate.code == Code::new(0, 2, 7);
        refused &= target.octets()? == [0; TARGET_LEN];
    }
    Ok(refused)
}

fn atomic_operation_completes() -> Result<bool> {
    let mut bench = Bench::new(&SETTINGS, None)?;
    let result = Target::new(&bench.shared.regions)?;
    bench
        .consumer
        .fetch_add(9, 0x1234_5678, 0x1000, 5, result.stag())?;
    let (segment, length) = bench.next_segment()?;
    let request = AtomicRequest::parse(&segment[18..], 52).map_err(|_| EINVAL)?;
    let due = AtomicRequest {
        identifier: request.identifier,
        offset: 0x1000,
        ..add_five(0x1234_5678, 0)
    };
    let asked = length == 70 && segment[1] == 0x4a && request == due;
    let early = bench.consumer.completion().is_none();
    let response = AtomicResponse {
        identifier: request.identifier,
        original: 0x0102_0304_0506_0708,
    };
    let response = response.emit();
    bench.peer_sends_untagged(Untagged::AtomicResponse, 1, response.as_slice())?;
    let mut completion = None;
    for _ in 0..TIMEOUT_MS {
        bench.round();
        completion = bench.consumer.completion();
        if completion.is_some() {
            break;
        }
        pause();
    }
    let stored = result.octets()?[..8] == 0x0102_0304_0506_0708_u64.to_ne_bytes();
    Ok(asked && early && completion == Some((9, true)) && stored)
}

fn shared_receives_are_taken_when_needed() -> Result<bool> {
    let mut bench = Bench::of(&SETTINGS, None, false, ONE_READ, Consumer::sharing()?)?;
    for id in 1..=4 {
        bench.consumer.receive(id)?;
    }
    const SEND: Untagged = Untagged::Send {
        solicited: false,
        invalidate: None,
    };
    bench.peer_sends_untagged(SEND, 1, &[])?;
    let mut taken = None;
    for _ in 0..TIMEOUT_MS {
        bench.round();
        taken = bench.consumer.completion();
        if taken.is_some() {
            break;
        }
        pause();
    }
    // Nobody takes the second message for the third one.
    bench.peer_sends_untagged(SEND, 3, &[])?;
    let (segment, _) = bench.next_segment()?;
    let told = Terminate::parse(segment.get(Header::UNTAGGED_LEN..).ok_or(EINVAL)?);
    let refused = told.is_some_and(|told| told.code == Code::new(1, 2, 2));
    let Bench {
        stream, consumer, ..
    } = bench;
    drop(stream.end(&consumer.queues));
    let flushed = consumer.completion();
    Ok(taken == Some((1, true)) && refused && flushed.is_none() && consumer.shared_left() == 3)
}

fn result_has_memory() -> Result<bool> {
    let mut bench = Bench::new(&SETTINGS, None)?;
    let result = Target::new(&bench.shared.regions)?;
    let stag = result.stag();
    drop(result);
    bench.consumer.fetch_add(9, 0x1234_5678, 0x1000, 5, stag)?;
    let (segment, length) = bench.next_segment()?;
    let terminate = Terminate::parse(&segment[18..length]).ok_or(EINVAL)?;
    let code = terminate.code;
    let told = segment[1] == 0x47 && (code.layer, code.etype) == (0, 0);
    Ok(told && bench.consumer.failed() == Some(9))
}

fn read_without_ord_fails_in_its_turn() -> Result<bool> {
    let reads = ReadLimits { ird: 1, ord: 0 };
    let mut bench = Bench::of(&SETTINGS, None, false, reads, Consumer::new()?)?;
    let sink = Target::new(&bench.shared.regions)?;
    bench.consumer.send(1, 4)?;
    bench.consumer.read(2, 0x1234_5678, sink.stag())?;
    // The Send, and then why the stream ends.
    let (sent, _) = bench.next_segment()?;
    let (told, _) = bench.next_segment()?;
    let in_turn = (sent[1], told[1]) == (0x43, 0x47);
    let completed = bench.consumer.completion() == Some((1, true));
    Ok(in_turn && completed && bench.consumer.failed() == Some(2))
}
