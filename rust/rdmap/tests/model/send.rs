// SPDX-License-Identifier: GPL-2.0

//! Segments leave an end.

use rdmap::stag::Range;
use rdmap::tx::{Outgoing, Payload};

use super::end::End;
use super::terms::{Choices, Flying, Llp};

impl<L: Llp> End<L> {
    /// Cuts the next segment and passes it to the LLP.
    pub fn send(&mut self, choices: &mut impl Choices) -> Option<Flying> {
        if self.closed {
            return None;
        }
        self.hand_over();
        let mulpdu = 128 + u32::try_from(choices.below(500)).unwrap();
        let mut next = self.tx.peek(mulpdu, &self.memory)?;
        let mut limit = mulpdu;
        if choices.one_in(8) {
            // The LLP takes less by now: it is cut anew.
            limit = 128;
            next = self.tx.peek(limit, &self.memory)?;
        }
        let mut octets;
        match next {
            Outgoing::Local(number) => {
                self.tx.commit().unwrap();
                self.tx.done(number).unwrap();
                self.work[usize::try_from(number).unwrap()].done = true;
                return None;
            }
            Outgoing::Read {
                number,
                header,
                request,
            } => {
                let sink = Range {
                    stag: request.sink_stag,
                    offset: request.sink_offset,
                    length: request.length,
                };
                self.rx.expect(number, sink, false).unwrap();
                self.begin(number);
                self.reads_outstanding += 1;
                assert!(self.reads_outstanding <= self.ord);
                octets = header.as_slice().to_vec();
            }
            Outgoing::Atomic { number, header } => {
                self.rx.expect_atomic(number).unwrap();
                self.begin(number);
                self.reads_outstanding += 1;
                assert!(self.reads_outstanding <= self.ord);
                octets = header.as_slice().to_vec();
            }
            Outgoing::Segment {
                header,
                payload,
                last_of_response,
                ..
            } => {
                if let Some(number) = last_of_response {
                    self.rx.free_inbound(number).unwrap();
                }
                octets = header.as_slice().to_vec();
                match payload {
                    Payload::None => {}
                    Payload::Request {
                        number,
                        offset,
                        length,
                    } => {
                        if offset == 0 {
                            self.begin(number);
                        }
                        let first = usize::try_from(offset).unwrap();
                        let work = &self.work[usize::try_from(number).unwrap()];
                        let length = usize::try_from(length).unwrap();
                        octets.extend(&work.octets[first..first + length]);
                        self.work[usize::try_from(number).unwrap()].segment = self.handed + 1;
                    }
                    Payload::Response(range) => octets.extend(self.memory.read(range)),
                }
            }
        }
        assert!(octets.len() <= usize::try_from(limit).unwrap());
        assert!(!self.terminated, "nothing follows a Terminate");
        self.terminated = octets[1] == 0x47;
        // The peer may have the segment before the sender commits it.
        self.leaving = true;
        if choices.one_in(2) {
            self.hand_over();
        }
        let count = self.count;
        self.count += 1;
        Some(Flying { count, octets })
    }

    fn begin(&self, number: u64) {
        let work = &self.work[usize::try_from(number).unwrap()];
        assert!(
            !work.fence || self.reads_outstanding == 0,
            "a fence is kept"
        );
    }
}
