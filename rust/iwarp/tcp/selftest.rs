// SPDX-License-Identifier: GPL-2.0

//! Tests of streams over TCP, whose peer is a socket that sends and receives octets.

mod announcement;
mod failures;
mod outbox;
mod rfc7306;
mod waiting;

use crate::prelude::*;
use crate::{
    stream::StreamProgress,
    tcp::{
        established::{
            Mulpdu,
            TcpEstablished, //
        },
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
    region::AccessFlags,
    selftest::{
        Consumer,
        Target,
        Test, //
    }, //
};
use rdmap::{
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
    (
        "an active side announces that it takes long FPDUs, and makes them for a peer that does",
        announcement::active_side_announces,
    ),
    (
        "a passive side answers an announcement, once, and nothing else",
        announcement::passive_side_answers,
    ),
    // Shows M-6.
    (
        "a peer that announces nothing gets FPDUs that fit, unless an administrator has decided",
        announcement::others_get_what_fits,
    ),
    (
        "short messages to a peer that takes long FPDUs are handed to TCP together",
        announcement::short_messages_go_together,
    ),
    // Shows M-9.
    (
        "a passive side sends nothing but its Reply before an FPDU has arrived",
        waiting::passive_side_waits,
    ),
    // Shows P5.5-12.
    (
        "a Send that is complete arrives, although what waits here is lost",
        waiting::complete_sends_arrive,
    ),
    (
        "a stream that waits for room is looked at again, even without an event",
        waiting::wait_for_room_has_an_end,
    ),
    (
        "a Read is answered to its end, although its peer sends nothing more",
        waiting::reads_are_answered_behind_the_end,
    ),
    // Shows M-2, M-7, M-12.
    (
        "neither an FPDU with a wrong CRC is placed nor one behind it, and the peer is told",
        failures::wrong_crc_places_nothing,
    ),
    // Shows M-14.
    (
        "without a CRC an FPDU is placed whatever its last field has, and what is sent has zeros there",
        failures::crc_is_not_looked_at,
    ),
    (
        "a consumer learns by an event that its stream failed, and which kind of error that is",
        failures::failures_are_events,
    ),
    // Shows X6.3-2, X6.4-1, X7-2.
    (
        "immediate data behind a Write completes a Receive without memory, and four octets of it count",
        rfc7306::immediate_data_is_received,
    ),
    (
        "a Write with immediate data is two FPDUs and one completion",
        rfc7306::immediate_data_is_sent,
    ),
    // Shows X5.1-2, X5.1-4, X5.2-3.
    (
        "an atomic operation changes registered memory, is answered, and its consumer hears nothing",
        rfc7306::atomic_operation_is_answered,
    ),
    // Shows X5.1-3.
    (
        "an atomic operation at an address that is not aligned changes nothing, and the peer is told",
        rfc7306::misaligned_operation_is_refused,
    ),
    // Shows X5.2.2-3.
    (
        "an atomic operation completes with the value that the peer answers with",
        rfc7306::atomic_operation_completes,
    ),
    (
        "a message takes one shared Receive, and a peer that skips messages takes none",
        shared_receives_are_taken_when_needed,
    ),
    // Shows X8.1-1.
    (
        "an atomic operation without memory for its result is not sent, and fails",
        rfc7306::result_has_memory,
    ),
    (
        "a Read that no Read may be outstanding for fails in its turn, behind what was posted before",
        read_without_ord_fails_in_its_turn,
    ),
];

/// The time until an event counts as missing, in milliseconds.
const TIMEOUT_MS: usize = 10_000;

/// The length of the longest segment that a test of the messages of RFC 7306 sends or receives.
const SEGMENT_LEN: usize = 70;

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
    // Large, and the stack is also that of what arrives.
    stream: KBox<Stream<TcpEstablished>>,
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

/// Creates an established connection without markers.
fn established(
    connection: TcpConn<EventTarget>,
    reply: Option<&[u8]>,
    crc: bool,
    reads: ReadLimits,
    mulpdu: Mulpdu,
) -> Result<TcpEstablished> {
    let agreed = startup::StreamParams {
        crc,
        send_markers: false,
        receive_markers: false,
        reads,
        rtr: None,
    };
    TcpEstablished::new(connection, &agreed, reply, mulpdu)
}

/// Creates a stream, whose space on the stack is given back when this returns.
#[inline(never)]
fn stream_of(
    open: TcpEstablished,
    consumer: &Consumer,
    reads: ReadLimits,
) -> Result<KBox<Stream<TcpEstablished>>> {
    let stream = Stream::new(open, &consumer.queues, reads)?;
    Ok(KBox::new(stream, GFP_KERNEL)?)
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

    /// Creates a stream of this consumer, which announces nothing. Sleeps.
    fn of(
        settings: &Settings,
        reply: Option<&[u8]>,
        crc: bool,
        reads: ReadLimits,
        consumer: Consumer,
    ) -> Result<Self> {
        Self::with_mulpdu(settings, reply, crc, reads, consumer, Mulpdu::Fixed(0))
    }

    /// Creates a stream of this consumer. Sleeps.
    fn with_mulpdu(
        settings: &Settings,
        reply: Option<&[u8]>,
        crc: bool,
        reads: ReadLimits,
        consumer: Consumer,
        mulpdu: Mulpdu,
    ) -> Result<Self> {
        let (connection, peer) = connected(settings)?;
        let open = established(connection, reply, crc, reads, mulpdu)?;
        Ok(Self {
            shared: DeviceState::new(Arc::pin_init(Regions::new(), GFP_KERNEL)?)?,
            stream: stream_of(open, &consumer, reads)?,
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
    drop(KBox::into_inner(stream).end(&consumer.queues));
    let flushed = consumer.completion();
    Ok(taken == Some((1, true)) && refused && flushed.is_none() && consumer.shared_left() == 3)
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
