// SPDX-License-Identifier: GPL-2.0

//! Tests of the memory of calls and replies.

use super::{
    echo::Echo,
    Test, //
};
use crate::prelude::*;
use crate::{
    clnt::slots::SlotTable,
    memory::{
        Page,
        Stable, //
    },
    svc::recv,
    SavedReplyPages,
    SvcArgs,
    SvcResult, //
};
use core::{
    ops::RangeInclusive,
    ptr::null_mut, //
};

/// The tests. The name of each is what it claims.
pub const TESTS: &[(&str, Test)] = &[
    (
        "a call gets both buffers or none",
        call_gets_both_buffers_or_none,
    ),
    (
        "saved pages go back to where they were",
        saved_pages_go_back_to_where_they_were,
    ),
    (
        "a page with data of a reply is not used again",
        page_with_data_is_not_used_again,
    ),
    (
        "pages of a file are freed, though nfsd thinks the reply has none",
        pages_of_a_file_beyond_the_reply_are_freed,
    ),
    (
        "a page under Send is given up, though nfsd thinks it unused",
        page_under_send_is_given_up,
    ),
    (
        "a first page that somebody else uses is given up",
        first_page_under_write_is_given_up,
    ),
    (
        "pages of a file behind one that has left the page cache are given up",
        pages_of_a_file_behind_a_lone_one_are_given_up,
    ),
    (
        "pages that a result was in are given up, though nfsd thinks them unused",
        pages_of_a_result_are_given_up,
    ),
    (
        "a page of a file beyond the saved pages is given up",
        page_of_a_file_beyond_the_saved_pages_is_given_up,
    ),
    (
        "a page that is not the thread's alone is not saved",
        shared_page_is_not_saved,
    ),
    (
        "saved pages of another thread are not put back",
        saved_pages_of_another_thread_are_not_put_back,
    ),
    (
        "saved pages of a deferred call are not put back",
        saved_pages_of_a_deferred_call_are_not_put_back,
    ),
    (
        "as many pages are saved as replies needed lately, and the first one without a reference",
        as_many_pages_are_saved_as_were_needed,
    ),
    (
        "a call whose message is taken for the reply has no bytes, and does not lead to the message",
        forgotten_call_has_no_bytes,
    ),
];

fn call_gets_both_buffers_or_none() -> Result<bool> {
    let slots = SlotTable::<Echo>::new(1)?;
    let Some(rqst) = slots.iter().next() else {
        return Ok(false);
    };
    // SAFETY: Nobody else has the slot.
    let raw = unsafe { &mut *rqst.as_raw() };
    raw.rq_callsize = 100;
    // No allocation of this size can succeed.
    raw.rq_rcvsize = 1 << 40;
    // SAFETY: Nobody else has the slot.
    let refused = unsafe { rqst.alloc_buffers(GFP_KERNEL | __GFP_NOWARN) }.is_err();
    let none = raw.rq_buffer.is_null() && raw.rq_rbuffer.is_null();
    raw.rq_rcvsize = 200;
    // SAFETY: Nobody else has the slot.
    unsafe { rqst.alloc_buffers(GFP_KERNEL) }?;
    Ok(refused && none && !raw.rq_buffer.is_null() && !raw.rq_rbuffer.is_null())
}

/// A message without bytes, as these calls have none.
pub(super) struct EmptyMessage;

// SAFETY: There are no bytes.
unsafe impl Stable for EmptyMessage {
    fn memory(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(NonNull::dangling(), 0)
    }
}

const PAGES: usize = 3;

/// The pages of a reply with a page of data.
const USED: usize = 2;

/// The pages of a service thread.
struct Thread {
    rqst: KBox<cbindings::svc_rqst>,
    pages: KBox<[*mut kernel::bindings::page; PAGES]>,
}

impl Thread {
    fn new() -> Result<Self> {
        let page = || Page::new(GFP_KERNEL);
        let pages = [page()?, page()?, page()?];
        let pages = pages.map(|page| page.into_raw().as_ptr());
        Ok(Self {
            rqst: KBox::new(cbindings::svc_rqst::default(), GFP_KERNEL)?,
            pages: KBox::new(pages, GFP_KERNEL)?,
        })
    }

    /// Returns a thread whose pages are saved.
    fn with_saved_pages() -> Result<(Self, SavedReplyPages)> {
        let mut thread = Self::new()?;
        let mut saved_pages = SavedReplyPages::default();
        thread.save(&mut saved_pages)?;
        Ok((thread, saved_pages))
    }

    /// Returns the `svc_rqst` of the thread, with a reply that uses `used` of its pages.
    fn rqst(&mut self, used: usize) -> *mut cbindings::svc_rqst {
        let first = self.pages.as_mut_ptr();
        self.rqst.rq_respages = first;
        self.rqst.rq_next_page = first.wrapping_add(used);
        // As where a call and its reply share an array.
        self.rqst.rq_page_end = first.wrapping_add(PAGES);
        self.rqst.rq_maxpages = 2 * PAGES;
        &raw mut *self.rqst
    }

    fn save(&mut self, saved_pages: &mut SavedReplyPages) -> Result {
        self.save_some(PAGES..=PAGES, saved_pages)
    }

    fn save_some(
        &mut self,
        counts: RangeInclusive<usize>,
        saved_pages: &mut SavedReplyPages,
    ) -> Result {
        // SAFETY: The thread has all of its pages, and nobody else uses them.
        let args = unsafe { SvcArgs::<EmptyMessage>::new(self.rqst(0)) };
        args.save_reply_pages(saved_pages, counts)
    }

    fn restore(&mut self, saved_pages: &mut SavedReplyPages) {
        self.restore_behind(USED, saved_pages);
    }

    fn restore_behind(&mut self, used: usize, saved_pages: &mut SavedReplyPages) {
        // SAFETY: The reply is empty, and nobody else uses the pages.
        unsafe { SvcResult::new(self.rqst(used)) }.restore(saved_pages);
    }

    /// Returns whether `used` pages are freed: sunrpc frees those before `rq_next_page`.
    fn gives_up(&mut self, used: usize) -> bool {
        self.rqst.rq_next_page == self.pages.as_mut_ptr().wrapping_add(used)
    }

    /// Replaces a page as a file system does.
    fn splice(&mut self) -> Result {
        self.put(Page::new(GFP_KERNEL)?);
        Ok(())
    }

    fn put(&mut self, page: Page) {
        let page = page.into_raw();
        let before = core::mem::replace(&mut self.pages[1], page.as_ptr());
        // SAFETY: The array owned the reference, and has the page no more.
        drop(NonNull::new(before).map(|page| unsafe { Page::from_raw(page) }));
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        for page in self.pages.iter().copied().filter_map(NonNull::new) {
            // SAFETY: The array owns the reference, and is freed with `self`.
            drop(unsafe { Page::from_raw(page) });
        }
    }
}

/// Returns whether a page that a file system put there is removed again, if the reply uses `used`
/// pages.
fn splice_is_undone(used: usize) -> Result<bool> {
    let (mut thread, mut saved_pages) = Thread::with_saved_pages()?;
    let before = *thread.pages;
    thread.splice()?;
    let replaced = before != *thread.pages;
    thread.restore_behind(used, &mut saved_pages);
    Ok(replaced && before == *thread.pages)
}

fn saved_pages_go_back_to_where_they_were() -> Result<bool> {
    splice_is_undone(USED)
}

fn pages_of_a_file_beyond_the_reply_are_freed() -> Result<bool> {
    splice_is_undone(1)
}

fn page_with_data_is_not_used_again() -> Result<bool> {
    let (mut thread, mut saved_pages) = Thread::with_saved_pages()?;
    thread.restore(&mut saved_pages);
    Ok(thread.gives_up(USED))
}

fn page_under_send_is_given_up() -> Result<bool> {
    let (mut thread, mut saved_pages) = Thread::with_saved_pages()?;
    // SAFETY: It is a page of the thread's own.
    let sent = unsafe { Page::share(NonNull::new(thread.pages[1]).ok_or(EINVAL)?) };
    thread.restore_behind(1, &mut saved_pages);
    drop(sent);
    Ok(thread.gives_up(USED))
}

fn page_of_a_file_beyond_the_saved_pages_is_given_up() -> Result<bool> {
    let mut thread = Thread::new()?;
    let file = Page::new(GFP_KERNEL)?;
    // SAFETY: It is a page of its own.
    thread.put(unsafe { Page::share(NonNull::new(file.as_ptr()).ok_or(EINVAL)?) });
    thread.restore_behind(1, &mut SavedReplyPages::default());
    Ok(thread.gives_up(USED))
}

fn first_page_under_write_is_given_up() -> Result<bool> {
    let (mut thread, mut saved_pages) = Thread::with_saved_pages()?;
    // SAFETY: It is a page of the thread's own.
    let _write = unsafe { Page::share(NonNull::new(thread.pages[0]).ok_or(EINVAL)?) };
    thread.restore_behind(1, &mut saved_pages);
    Ok(thread.gives_up(1))
}

fn pages_of_a_file_behind_a_lone_one_are_given_up() -> Result<bool> {
    let (mut thread, mut saved_pages) = (Thread::new()?, SavedReplyPages::default());
    thread.save_some(1..=PAGES, &mut saved_pages)?;
    thread.splice()?;
    // SAFETY: It stands for a page of a file, which the page cache has.
    let _file = unsafe { Page::share(NonNull::new(thread.pages[2]).ok_or(EINVAL)?) };
    thread.restore_behind(1, &mut saved_pages);
    Ok(thread.gives_up(PAGES))
}

fn pages_of_a_result_are_given_up() -> Result<bool> {
    let (mut thread, mut saved_pages) = (Thread::new()?, SavedReplyPages::default());
    thread.save_some(1..=PAGES, &mut saved_pages)?;
    thread.splice()?;
    saved_pages.note_in_use(USED);
    thread.restore_behind(1, &mut saved_pages);
    Ok(thread.gives_up(USED))
}

fn shared_page_is_not_saved() -> Result<bool> {
    let mut thread = Thread::new()?;
    let mut saved_pages = SavedReplyPages::default();
    let file = Page::new(GFP_KERNEL)?;
    // SAFETY: It is a page of its own.
    thread.put(unsafe { Page::share(NonNull::new(file.as_ptr()).ok_or(EINVAL)?) });
    thread.save(&mut saved_pages)?;
    thread.splice()?;
    thread.restore(&mut saved_pages);
    Ok(thread.pages[1] != file.as_ptr())
}

fn saved_pages_of_another_thread_are_not_put_back() -> Result<bool> {
    let mut other = Thread::new()?;
    let mut saved_pages = SavedReplyPages::default();
    other.save(&mut saved_pages)?;
    let mut thread = Thread::new()?;
    thread.splice()?;
    let before = *thread.pages;
    thread.restore(&mut saved_pages);
    Ok(before == *thread.pages)
}

fn saved_pages_of_a_deferred_call_are_not_put_back() -> Result<bool> {
    let (mut thread, mut saved_pages) = Thread::with_saved_pages()?;
    thread.splice()?;
    let before = *thread.pages;
    thread.rqst.rq_deferred = NonNull::dangling().as_ptr();
    thread.restore(&mut saved_pages);
    Ok(before == *thread.pages)
}

fn as_many_pages_are_saved_as_were_needed() -> Result<bool> {
    let (mut thread, mut saved_pages) = (Thread::new()?, SavedReplyPages::default());
    // The entries with a reference more, while a call is executed.
    let mut saves = |thread: &mut Thread, spliced: bool| -> Result<[bool; PAGES]> {
        thread.save_some(1..=PAGES, &mut saved_pages)?;
        // SAFETY: The array has a reference to each page.
        let references = |page| unsafe { cbindings::page_ref_count(page) };
        let saved = thread.pages.map(|page| references(page) == 2);
        // The page cache has a reference to it, too.
        let file = Page::new(GFP_KERNEL)?;
        if spliced {
            // SAFETY: It is a page of its own.
            thread.put(unsafe { Page::share(NonNull::new(file.as_ptr()).ok_or(EINVAL)?) });
        }
        let before = thread.pages[0];
        thread.restore_behind(if spliced { USED } else { 1 }, &mut saved_pages);
        saved_pages.clear();
        // The first page stays where it is, unless the reply needed more than was saved.
        let is_kept = thread.gives_up(0) && thread.pages[0] == before;
        Ok(match is_kept == (!spliced || saved[1]) {
            true => saved,
            false => [true; PAGES],
        })
    };
    let mut one = [false; PAGES];
    one[1] = true;
    let none = [false; PAGES];
    let mut passed = saves(&mut thread, false)? == none && saves(&mut thread, true)? == none;
    for _ in 0..16 {
        passed &= saves(&mut thread, false)? == one;
    }
    passed &= saves(&mut thread, false)? == none;
    Ok(passed)
}

/// A message of a few bytes.
struct Received(Arc<Buffer>);

// SAFETY: Nobody else has the buffer.
unsafe impl Stable for Received {
    fn memory(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.0.base(), self.0.len())
    }
}

/// Returns how many of the addresses that sunrpc reads the call of `rqst` at are those of `memory`,
/// or of its end.
fn pointers(rqst: &cbindings::svc_rqst, memory: NonNull<[u8]>) -> usize {
    let first = memory.cast::<u8>().as_ptr().addr();
    let range = first..=first.saturating_add(memory.len());
    let (arg, stream) = (&rqst.rq_arg, &rqst.rq_arg_stream);
    [
        arg.head[0].iov_base.addr(),
        arg.tail[0].iov_base.addr(),
        stream.p.addr(),
        stream.end.addr(),
    ]
    .iter()
    .filter(|address| range.contains(*address))
    .count()
}

fn forgotten_call_has_no_bytes() -> Result<bool> {
    let mut thread = Thread::new()?;
    let message = Received(Buffer::new(100, GFP_KERNEL)?);
    let memory = message.memory();
    let rqst = thread.rqst(0);
    // SAFETY: The thread has all of its pages, and nobody else uses them.
    let mut args = unsafe { SvcArgs::new(rqst) };
    let set = args.set_message(message, 0..100).is_ok();
    // SAFETY: The `svc_rqst` is that of `thread`, which nobody else uses.
    let (stream, arg) = unsafe { (&raw mut (*rqst).rq_arg_stream, &raw mut (*rqst).rq_arg) };
    // SAFETY: sunrpc does the same. What both point to lives until the end of this function.
    unsafe { cbindings::xdr_init_decode(stream, arg, null_mut(), null_mut()) };
    // SAFETY: The stream is initialised.
    let decoded = unsafe { !cbindings::xdr_inline_decode(stream, 8).is_null() };
    // SAFETY: Nobody changes it meanwhile.
    let before = pointers(unsafe { &*rqst }, memory);
    // SAFETY: The thread has decoded the call as far as it wants.
    unsafe { recv::clear(rqst) };
    // SAFETY: The stream is initialised.
    let ended = unsafe { cbindings::xdr_inline_decode(stream, 4).is_null() };
    // SAFETY: Nobody changes the `svc_rqst` meanwhile.
    let after = pointers(unsafe { &*rqst }, memory);
    Ok(set && decoded && before == 4 && ended && after == 0 && args.take_message().is_some())
}
