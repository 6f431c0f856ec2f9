// SPDX-License-Identifier: GPL-2.0

//! Bugs that are planted between the engine and the model, which has to find them.

/// A wrong behaviour of the engine, as its environment sees it.
// The fuzz target that shares this file plants none.
#[allow(dead_code)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A segment counts as placed while its octets are still on their way to memory.
    PlacedEarly,
    /// Octets are placed one further on than they belong, the last one in front.
    PlacedAside,
    /// Rights are not checked.
    RightsIgnored,
    /// A Send with Invalidate is delivered, and its STag stays valid.
    StagStaysValid,
    /// A request completes while the LLP reads its memory.
    CompletedEarly,
    /// A completion is missing.
    CompletionLost,
    /// A completion comes twice.
    CompletionTwice,
    /// Two completions change places.
    CompletionsSwapped,
    /// A Read is complete when the first octets of its response are there.
    ReadDoneEarly,
    /// Fences are not kept.
    FenceIgnored,
    /// One Read more than ORD is outstanding.
    OrdExceeded,
    /// A segment is sent twice.
    SegmentTwice,
    /// Two responses are sent in the wrong order.
    AnswersSwapped,
    /// Segments are delivered in the order of their arrival, whatever their numbers say.
    OrderOfArrival,
    /// An atomic operation is carried out twice.
    AtomicTwice,
    /// Reads whose sinks overlap are outstanding together.
    SinksOverlap,
}
