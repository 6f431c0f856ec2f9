// SPDX-License-Identifier: GPL-2.0

//! The generic code of the crate with the types that a module would use, so that panicfree.sh sees
//! it as well.

use core::ops::DerefMut;

use crate::fault::Fault;
use crate::fault::Misuse;
use crate::order::Arrival;
use crate::order::Order;
use crate::order::Turn;
use crate::sctp::window::Bits;
use crate::sctp::window::Window;
use crate::sink;
use crate::sink::Delivery;
use crate::sink::Place;
use crate::sink::Refusal;
use crate::sink::Sink;
use crate::source;
use crate::source::Outgoing;
use crate::source::Source;
use crate::stag::Access;
use crate::stag::Denied;
use crate::stag::Memory;
use crate::stag::Range;
use crate::stag::Stag;

/// Slices of another owner.
pub struct Slices;

impl sink::Slots for Slices {
    type Receives = &'static mut [sink::Receive];
    type Inbound = &'static mut [sink::Inbound];
    type Outstanding = &'static mut [sink::Outstanding];
}

impl source::Slots for Slices {
    type Requests = &'static mut [source::Posted];
    type Answers = &'static mut [sink::Answer];
}

/// Registered memory, as a function.
pub struct Lookup(pub fn(Range, Access) -> Result<(), Denied>);

impl Memory for Lookup {
    fn check(&self, range: Range, want: Access) -> Result<(), Denied> {
        (self.0)(range, want)
    }

    fn invalidate(&self, stag: Stag) -> Result<(), Denied> {
        let range = Range {
            stag,
            ..Range::default()
        };
        (self.0)(range, Access::RemoteWrite)
    }
}

type Result1 = Result<Option<Delivery>, Fault>;

macro_rules! sink {
    ($module:ident, $order:ty, $key:ty) => {
        /// The receive half with this order.
        pub mod $module {
            use super::*;

            type This = Sink<$order, Slices>;

            /// Forwards.
            pub fn new(
                order: $order,
                key: sink::Key,
                receives: &'static mut [sink::Receive],
                inbound: &'static mut [sink::Inbound],
                outstanding: &'static mut [sink::Outstanding],
            ) -> This {
                Sink::new(order, key, receives, inbound, outstanding)
            }

            /// Forwards.
            pub fn segment(
                this: &mut This,
                key: $key,
                head: &[u8],
                length: usize,
                memory: &Lookup,
            ) -> Result<Place, Refusal> {
                this.segment(key, head, length, memory)
            }

            /// Forwards.
            pub fn deliver(this: &mut This, memory: &Lookup) -> Result1 {
                this.placed();
                this.deliver(memory)
            }

            /// Forwards.
            pub fn close(this: &mut This) -> Option<sink::Closed> {
                this.close()
            }

            /// Forwards.
            pub fn queues(this: &mut This, read: u64, range: Range) -> Result<u64, Misuse> {
                this.expect(read, range, false)?;
                this.answered(read)?;
                this.flush();
                this.post_receive(range.length)
            }
        }
    };
}

sink!(ordered, Arrival, ());
sink!(reordered, Window<&'static mut Bits>, u16);

/// Forwards.
pub fn window(bits: &'static mut Bits, ssn: u16) -> Turn {
    let mut window = Window::new(bits);
    let _ = window.pass(ssn);
    window.reached()
}

/// Forwards.
pub fn source_new(
    requests: &'static mut [source::Posted],
    answers: &'static mut [sink::Answer],
    ord: u16,
    in_order: bool,
) -> Source<Slices> {
    Source::new(requests, answers, ord, in_order)
}

/// Forwards.
pub fn source_next(this: &mut Source<Slices>, mulpdu: u32, memory: &Lookup) -> Option<Outgoing> {
    this.next(mulpdu, memory)
}

/// Forwards.
pub fn source_handed(this: &mut Source<Slices>) -> Result<u64, Misuse> {
    this.handed()
}

/// Forwards.
pub fn source_queues(
    this: &mut Source<Slices>,
    request: source::Request,
    answer: sink::Answer,
    fault: Fault,
    closed: sink::Closed,
) -> Result<Option<source::Completion>, Misuse> {
    let number = this.post(request)?;
    this.answer(answer)?;
    this.done(number)?;
    this.taken(number);
    this.abandon();
    this.fail(fault);
    this.close(closed);
    Ok(this.complete())
}

/// Forwards.
pub fn ring(slots: &'static mut [u64], entry: u64) -> Option<u64> {
    fn last<B: DerefMut<Target = [u64]>>(slots: B, entry: u64) -> Option<u64> {
        let mut ring = crate::ring::Ring::new(slots);
        ring.push(entry)?;
        ring.push(entry)?;
        ring.pop()?;
        ring.get_mut(entry).copied().or_else(|| ring.pop())
    }
    last(slots, entry)
}
