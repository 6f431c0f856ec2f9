// SPDX-License-Identifier: GPL-2.0

//! The order in which the Sends and RDMA Reads of a Responder wait for space.
//!
//! A [`WaitQueue`] counts the elements that wait for one resource; a [`SqCreditQueue`] has one of
//! Sends and one of Reads, which share the space of a Send queue. The caller keeps the elements
//! themselves, in a FIFO for each, and adds and takes them as told here.
//!
//! A failed attempt to get the resource arranges for a wakeup: [`space_freed`] is called when there
//! is more of it. An element that was queued untried gets no wakeup of its own: if it is first,
//! there may be space for it.
//!
//! [`space_freed`]: WaitQueue::space_freed

/// The reason why an element is queued. `T` is the event counter read before the failed attempt, or
/// whether it has changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt<T> {
    /// It was not tried, because others wait.
    NotTried,
    /// It was tried for the first time, and goes to the end.
    New(T),
    /// It was the first waiter, was tried, and goes to the front again.
    Requeued(T),
}

impl<T> Attempt<T> {
    /// Applies `f` to the counter.
    #[inline]
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Attempt<U> {
        match self {
            Self::NotTried => Attempt::NotTried,
            Self::New(number) => Attempt::New(f(number)),
            Self::Requeued(number) => Attempt::Requeued(f(number)),
        }
    }

    /// Returns whether the element goes to the front.
    #[inline]
    pub fn is_requeued(&self) -> bool {
        matches!(self, Self::Requeued(_))
    }
}

/// A queue of elements that wait for the same resource, with one wakeup bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitQueue {
    len: usize,
    /// Whether there may be space for the first element.
    may_fit: bool,
}

impl WaitQueue {
    /// An empty queue.
    pub const EMPTY: Self = Self {
        len: 0,
        may_fit: false,
    };

    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the queue is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an element that found no space or was not tried.
    pub fn push(&mut self, attempt: Attempt<bool>) {
        self.len = self.len.saturating_add(1);
        let is_only = self.len == 1;
        self.may_fit = match attempt {
            Attempt::NotTried => self.may_fit || is_only,
            // The space may suffice for the others, too.
            Attempt::New(true) => true,
            Attempt::New(false) => self.may_fit && !is_only,
            Attempt::Requeued(may_fit) => may_fit,
        };
    }

    /// Notes that space was freed.
    pub fn space_freed(&mut self) {
        self.may_fit = true;
    }

    /// Returns whether there is an element, and may be space for the first.
    #[inline]
    pub fn may_pop(&self) -> bool {
        self.may_fit && !self.is_empty()
    }

    /// Takes the first element, if there is one, and may be space for it.
    pub fn pop(&mut self) -> bool {
        let pops = self.may_pop();
        if pops {
            self.len = self.len.saturating_sub(1);
        }
        pops
    }
}

/// A kind of element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// RDMA Reads.
    Reads,
    /// A Send, perhaps with RDMA Writes.
    Send,
}

/// The queues of Sends and RDMA Reads that wait for SQ credits.
///
/// A Send that is taken is posted at once. Reads that are taken get their credits, and become ready
/// for a thread, which posts them later. Until then only Sends are taken; otherwise Reads and Sends
/// alternate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqCreditQueue {
    sends: WaitQueue,
    reads: WaitQueue,
    /// Whether Reads were taken that are neither posted nor waiting again.
    reads_are_taken: bool,
    /// Whether those Reads have their credits.
    reads_are_ready: bool,
    /// Whether it is the turn of Reads, if both wait.
    reads_turn: bool,
}

impl SqCreditQueue {
    /// Empty queues.
    pub const EMPTY: Self = Self {
        sends: WaitQueue::EMPTY,
        reads: WaitQueue::EMPTY,
        reads_are_taken: false,
        reads_are_ready: false,
        reads_turn: true,
    };

    /// Returns the number of Sends that wait.
    #[inline]
    pub fn sends(&self) -> usize {
        self.sends.len()
    }

    /// Returns the number of Sends and Reads that wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.sends.len().saturating_add(self.reads.len())
    }

    /// Returns whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds Reads that found too few credits or were not tried.
    pub fn push_reads(&mut self, attempt: Attempt<bool>) {
        self.reads.push(attempt);
    }

    /// Adds a Send that found too few credits or was not tried.
    pub fn push_send(&mut self, attempt: Attempt<bool>) {
        if attempt.is_requeued() {
            // It keeps its turn.
            self.reads_turn = false;
        }
        self.sends.push(attempt);
    }

    /// Notes that the Reads that were taken have their credits.
    pub fn note_ready_reads(&mut self) {
        self.reads_are_ready = true;
        self.reads_turn = false;
    }

    /// Notes that the Reads that were taken are posted, or wait again. The caller takes the next
    /// element then.
    pub fn end_reads(&mut self) {
        self.reads_are_taken = false;
        self.reads_are_ready = false;
    }

    /// Notes that the Send queue has space again.
    pub fn space_freed(&mut self) {
        self.sends.space_freed();
        self.reads.space_freed();
    }

    /// Takes the next element for which there may be credits. RDMA Reads require a call of
    /// [`Self::end_reads`] later.
    pub fn pop(&mut self) -> Option<Kind> {
        let sends_turn = !self.reads_turn && !self.sends.is_empty();
        if !self.reads_are_taken && !sends_turn && self.reads.pop() {
            self.reads_are_taken = true;
            return Some(Kind::Reads);
        }
        // If Reads have the turn but too few credits, credits that come back are saved for them.
        let no_reads = self.reads.is_empty() && !self.reads_are_taken;
        let may_send = self.reads_are_ready || sends_turn || no_reads;
        if !may_send || !self.sends.pop() {
            return None;
        }
        self.reads_turn = true;
        Some(Kind::Send)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attempt that found no space.
    const FULL: Attempt<bool> = Attempt::New(false);

    #[test]
    fn what_found_no_space_waits_until_some_is_freed() {
        let mut queue = WaitQueue::EMPTY;
        queue.push(FULL);
        assert!(!queue.may_pop() && !queue.pop());
        queue.space_freed();
        assert!(queue.pop());
    }

    #[test]
    fn space_before_the_attempt_does_not_count() {
        let mut queue = WaitQueue::EMPTY;
        queue.space_freed();
        queue.push(FULL);
        assert!(!queue.pop());
    }

    #[test]
    fn what_was_not_tried_does_not_wait_alone() {
        let mut queue = WaitQueue::EMPTY;
        queue.push(Attempt::NotTried);
        assert!(queue.pop());
    }

    #[test]
    fn what_was_not_tried_waits_for_what_is_before_it() {
        let mut queue = WaitQueue::EMPTY;
        queue.push(FULL);
        queue.push(Attempt::NotTried);
        assert!(!queue.may_pop());
        queue.space_freed();
        assert!(queue.pop() && queue.pop());
    }

    #[test]
    fn failure_of_another_leaves_space_for_the_first() {
        let mut queue = WaitQueue::EMPTY;
        queue.push(Attempt::NotTried);
        queue.push(FULL);
        assert!(queue.pop());
    }

    #[test]
    fn space_since_another_attempt_counts() {
        let mut queue = WaitQueue::EMPTY;
        queue.push(Attempt::NotTried);
        assert!(queue.pop());
        queue.push(Attempt::Requeued(true));
        assert!(queue.pop());
    }

    #[test]
    fn late_space_is_for_all() {
        let mut queue = WaitQueue::EMPTY;
        queue.push(FULL);
        queue.push(Attempt::New(true));
        assert!(queue.pop() && queue.pop());
    }

    #[test]
    fn what_is_tried_again_waits_with_those_behind_it() {
        let mut queue = WaitQueue::EMPTY;
        queue.push(Attempt::NotTried);
        queue.push(Attempt::NotTried);
        assert!(queue.pop());
        queue.push(Attempt::Requeued(false));
        assert!(!queue.may_pop());
        assert_eq!(queue.len(), 2);
        queue.space_freed();
        assert!(queue.pop() && queue.pop() && !queue.pop());
    }

    /// Returns a queue of two Sends and RDMA Reads of two calls, none of which was tried.
    fn four() -> SqCreditQueue {
        let mut queue = SqCreditQueue::EMPTY;
        for _ in 0..2 {
            queue.push_send(Attempt::NotTried);
            queue.push_reads(Attempt::NotTried);
        }
        queue
    }

    /// Gives the RDMA Reads that were taken their credits, and posts them.
    fn post_reads(queue: &mut SqCreditQueue) {
        queue.note_ready_reads();
        queue.end_reads();
    }

    #[test]
    fn sends_and_reads_take_turns() {
        let mut queue = four();
        for _ in 0..2 {
            assert_eq!(queue.pop(), Some(Kind::Reads));
            post_reads(&mut queue);
            assert_eq!(queue.pop(), Some(Kind::Send));
        }
        assert!(queue.is_empty());
    }

    #[test]
    fn ready_reads_let_sends_pass_and_no_other_reads() {
        let mut queue = four();
        // Two contexts serve the queue. The other one comes before the Reads have their credits,
        // which it must not take, and again after that.
        assert_eq!(queue.pop(), Some(Kind::Reads));
        assert_eq!(queue.pop(), None);
        queue.note_ready_reads();
        assert_eq!(queue.pop(), Some(Kind::Send));
        assert_eq!(queue.pop(), Some(Kind::Send));
        assert_eq!(queue.pop(), None);
        queue.end_reads();
        assert_eq!(queue.pop(), Some(Kind::Reads));
    }

    #[test]
    fn reads_that_find_too_few_credits_keep_their_turn() {
        let mut queue = four();
        assert_eq!(queue.pop(), Some(Kind::Reads));
        queue.push_reads(Attempt::Requeued(false));
        queue.end_reads();
        assert_eq!(queue.pop(), None);
        queue.space_freed();
        assert_eq!(queue.pop(), Some(Kind::Reads));
    }

    #[test]
    fn send_that_finds_too_few_credits_keeps_its_turn() {
        let mut queue = four();
        assert_eq!(queue.pop(), Some(Kind::Reads));
        post_reads(&mut queue);
        assert_eq!(queue.pop(), Some(Kind::Send));
        queue.push_send(Attempt::Requeued(false));
        assert_eq!(queue.pop(), None);
        queue.space_freed();
        assert_eq!(queue.pop(), Some(Kind::Send));
        assert_eq!(queue.pop(), Some(Kind::Reads));
    }
}
