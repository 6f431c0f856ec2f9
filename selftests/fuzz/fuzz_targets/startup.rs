// SPDX-License-Identifier: GPL-2.0

//! Any octets of a peer that starts an MPA connection, to either end: what is waited for, what is agreed on, and when
//! FPDUs may be sent.

#![no_main]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "the fuzzer reports a target that panics"
)]

use libfuzzer_sys::fuzz_target;
use rdmap::enhanced::ReadLimits;
use rdmap::fault::{LlpError, Misuse};
use rdmap::mpa::startup::{
    Failed, Frame, Initiator, Kind, Offer, Outcome, Responder, StreamParams,
};

/// The frame with which the octets begin. However much of it has arrived, the outcome only ever becomes clearer.
fn parse(kind: Kind, octets: &[u8]) -> Option<(Frame<'_>, &[u8])> {
    let outcome = Frame::parse(kind, octets);
    let header = octets.len().min(Frame::HEADER_LEN);
    for length in (0..=header).chain([octets.len() / 2]) {
        match (Frame::parse(kind, &octets[..length]), outcome) {
            (Ok(None), _) => {}
            (Err(early), Err(late)) => assert_eq!(early, late),
            (Ok(Some(early)), Ok(Some(late))) => assert_eq!(early, late),
            (early, late) => panic!("{early:?} becomes {late:?}"),
        }
    }
    let (frame, length) = outcome.ok()??;
    assert!(length <= Frame::MAX_LEN);
    Some((frame, &octets[length..]))
}

/// Checks that both ends use the features that both have.
fn check(offer: Offer, peer: &Frame<'_>, stream: StreamParams) {
    assert_eq!(stream.crc, offer.crc || peer.crc);
    assert_eq!(stream.send_markers, peer.markers);
    assert_eq!(stream.receive_markers, offer.markers);
    assert!(stream.reads.ord <= offer.reads.ord);
    assert!(stream.reads.ird <= offer.max_ird.max(offer.reads.ird));
    if let Some(enhanced) = peer.enhanced {
        assert!(enhanced
            .ird
            .number()
            .is_none_or(|ird| stream.reads.ord <= ird));
        assert!(enhanced
            .ord
            .number()
            .is_none_or(|ord| ord <= stream.reads.ird));
    }
}

fn active(offer: Offer, octets: &[u8]) {
    let initiator = Initiator::new(offer);
    let mut out = [0; Frame::MAX_LEN];
    let length = initiator.request(b"hello").emit(&mut out).unwrap();
    let (request, _) = parse(Kind::Request, &out[..length]).expect("its own Request");
    let Some((reply, _)) = parse(Kind::Reply, octets) else {
        return;
    };
    match initiator.reply(&reply) {
        Ok(Outcome::Accepted(stream, private_data)) => {
            assert!(!reply.reject && reply.revision == request.revision);
            assert_eq!(reply.enhanced.is_some(), request.enhanced.is_some());
            assert_eq!(private_data, reply.private_data);
            assert!(offer.peer_to_peer || stream.rtr.is_none());
            check(offer, &reply, stream);
        }
        Ok(Outcome::Rejected(private_data)) => {
            assert!(reply.reject);
            assert_eq!(private_data, reply.private_data);
        }
        Err(LlpError::Startup | LlpError::InsufficientIrd) => {}
        Err(LlpError::NoMatchingRtr) => assert!(offer.peer_to_peer),
        Err(error) => panic!("{error:?}"),
    }
}

fn passive(offer: Offer, octets: &[u8], accepts: bool) {
    let mut responder = Responder::new(offer);
    let Some((request, rest)) = parse(Kind::Request, octets) else {
        return;
    };
    responder.request(&request).unwrap();
    let (reply, stream) = match accepts.then(|| responder.accept(b"welcome")) {
        Some(Ok((reply, stream))) => (reply, Some(stream)),
        Some(Err(Failed::Misuse(misuse))) => panic!("{misuse:?}"),
        Some(Err(Failed::Llp(error))) => {
            assert!(matches!(
                error,
                LlpError::InsufficientIrd | LlpError::NoMatchingRtr
            ));
            (responder.reject(b"no").unwrap(), None)
        }
        None => (responder.reject(b"no").unwrap(), None),
    };
    let mut out = [0; Frame::MAX_LEN];
    let length = reply.emit(&mut out).unwrap();
    assert_eq!(parse(Kind::Reply, &out[..length]), Some((reply, &[][..])));
    assert_eq!(reply.revision, request.revision);
    assert_eq!(reply.enhanced.is_some(), request.enhanced.is_some());
    assert!(!responder.may_send());
    responder.received();
    assert_eq!(responder.may_send(), stream.is_some());
    match stream {
        Some(stream) => check(offer, &request, stream),
        None => assert_eq!(responder.reject(b"no"), Err(Misuse::State)),
    }
    // There is one Request.
    if let Some((second, _)) = parse(Kind::Request, rest) {
        assert_eq!(responder.request(&second), Err(LlpError::Startup));
        assert!(!responder.may_send());
    }
}

fuzz_target!(|input: &[u8]| {
    let [what, reads, octets @ ..] = input else {
        return;
    };
    let reads = ReadLimits {
        ird: u16::from(reads >> 4),
        ord: u16::from(reads & 15),
    };
    let offer = Offer {
        crc: what & 4 != 0,
        markers: what & 8 != 0,
        reads,
        max_ird: reads.ird + u16::from(what >> 6),
        enhanced: what & 16 != 0,
        peer_to_peer: what & 32 != 0,
    };
    match what & 1 {
        0 => active(offer, octets),
        _ => passive(offer, octets, what & 2 == 0),
    }
});
