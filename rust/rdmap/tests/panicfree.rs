// SPDX-License-Identifier: GPL-2.0

//! The generic code of the crate with the types that a module would use, so that panicfree.sh sees
//! it as well.

use core::ops::DerefMut;

use crate::atomic::Atomic;
use crate::fault::{Fault, Misuse};
use crate::order::{InOrder, Order, Seq};
use crate::rx::{self, Delivery, Placement, Refusal, RxHalf};
use crate::sctp::window::{Bits, RxWindow};
use crate::stag::{Access, Denied, Memory, Range, Stag};
use crate::terminate::Terminate;
use crate::tx::{self, Outgoing, TxHalf};

/// Slices of another owner.
pub struct Slices;

impl rx::Slots for Slices {
    type Receives = &'static mut [rx::Receive];
    type Inbound = &'static mut [rx::InboundSlot];
    type Outstanding = &'static mut [rx::Outstanding];
}

impl tx::Slots for Slices {
    type Requests = &'static mut [tx::Posted];
    type Responses = &'static mut [rx::InboundRequest];
}

/// Registered memory, as a function.
pub struct Lookup(pub fn(Range, Access) -> Result<(), Denied>);

impl Memory for Lookup {
    fn check(&self, range: Range, want: Access) -> Result<(), Denied> {
        (self.0)(range, want)
    }

    fn update(&self, target: Range, operation: Atomic) -> Result<u64, Denied> {
        (self.0)(target, Access::RemoteAtomic)?;
        Ok(operation.apply(target.offset))
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

macro_rules! rx {
    ($module:ident, $order:ty, $key:ty) => {
        /// The receive half with this order.
        pub mod $module {
            use super::*;

            type This = RxHalf<$order, Slices>;

            /// Forwards.
            pub fn new(
                order: $order,
                key: rx::HashKey,
                receives: &'static mut [rx::Receive],
                inbound: &'static mut [rx::InboundSlot],
                outstanding: &'static mut [rx::Outstanding],
            ) -> This {
                RxHalf::new(order, key, receives, inbound, outstanding)
            }

            /// Forwards.
            pub fn segment(
                this: &mut This,
                key: $key,
                head: &[u8],
                length: usize,
                memory: &Lookup,
            ) -> Result<Placement, Refusal> {
                this.segment(key, head, length, memory)
            }

            /// Forwards.
            pub fn wanted(this: &This, head: &[u8]) -> u64 {
                this.receives_wanted(head)
            }

            /// Forwards.
            pub fn deliver(this: &mut This, memory: &Lookup) -> Result1 {
                this.placed();
                this.deliver(memory)
            }

            /// Forwards.
            pub fn close(this: &mut This) -> Option<rx::Closed> {
                this.close()
            }

            /// Forwards.
            pub fn queues(this: &mut This, read: u64, range: Range) -> Result<u64, Misuse> {
                this.expect(read, range, false)?;
                this.expect_atomic(read)?;
                this.free_inbound(read)?;
                this.flush();
                this.post_receive(range.length)
            }
        }
    };
}

rx!(ordered, InOrder, ());
rx!(reordered, RxWindow<&'static mut Bits>, u16);

/// Forwards.
pub fn window(bits: &'static mut Bits, ssn: u16) -> Seq {
    let mut window = RxWindow::new(bits);
    let _ = window.pass(ssn);
    window.in_order_upto()
}

/// Forwards.
pub fn tx_new(
    requests: &'static mut [tx::Posted],
    responses: &'static mut [rx::InboundRequest],
    ord: u16,
    in_order: bool,
) -> TxHalf<Slices> {
    TxHalf::new(requests, responses, ord, in_order)
}

/// Forwards.
pub fn tx_peek(this: &mut TxHalf<Slices>, mulpdu: u32, memory: &Lookup) -> Option<Outgoing> {
    this.peek(mulpdu, memory)
}

/// Forwards.
pub fn tx_commit(this: &mut TxHalf<Slices>) -> Result<u64, Misuse> {
    this.commit()
}

/// Forwards.
pub fn tx_queues(
    this: &mut TxHalf<Slices>,
    request: tx::Request,
    read: rx::InboundRequest,
    fault: Fault,
    terminate: &Terminate,
    closed: rx::Closed,
) -> Result<Option<tx::Completion>, Misuse> {
    let number = this.post(request)?;
    this.respond(read)?;
    this.done(number)?;
    this.release(number);
    this.abandon();
    this.fail(fault);
    this.refused(terminate);
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
