// SPDX-License-Identifier: GPL-2.0

//! Tests of what calls and results are put in.

use super::{
    calls::Echo,
    Test, //
};
use crate::{
    memory::{
        Page,
        Stable, //
    },
    slot::Slots,
    SavedReplyPages,
    SvcArgs,
    SvcResult, //
};
use core::ptr::NonNull;
use kernel::{
    alloc::flags::__GFP_NOWARN,
    prelude::*, //
};

/// Each with its name, which is what it claims.
pub const TESTS: &[(&str, Test)] = &[
    (
        "a call gets both buffers or none",
        call_gets_both_buffers_or_none,
    ),
    (
        "saved_pages go back to where they were",
        blanks_go_back_to_where_they_were,
    ),
    (
        "a page with data of a result is not used again",
        page_with_data_is_not_used_again,
    ),
    (
        "pages of a file go, though nfsd thinks the result has none",
        pages_beyond_the_result_go,
    ),
    (
        "a page on its way is given up, though nfsd thinks it unused",
        page_on_its_way_is_given_up,
    ),
    (
        "so is a page of a file, beyond what was noted",
        page_beyond_the_blanks_is_given_up,
    ),
    (
        "a page that is not the thread's alone is no blank",
        shared_page_is_no_blank,
    ),
    (
        "saved_pages of another thread do not",
        blanks_of_another_thread_do_not,
    ),
    (
        "saved_pages of a call that was put off do not",
        blanks_of_a_call_that_was_put_off_do_not,
    ),
];

fn call_gets_both_buffers_or_none() -> Result<bool> {
    let slots = Slots::<Echo>::new(1)?;
    let Some(rqst) = slots.iter().next() else {
        return Ok(false);
    };
    // SAFETY: Nobody else has the slot.
    let raw = unsafe { &mut *rqst.as_raw() };
    raw.rq_callsize = 100;
    // More than there ever is.
    raw.rq_rcvsize = 1 << 40;
    // SAFETY: As above.
    let refused = unsafe { rqst.provide(GFP_KERNEL | __GFP_NOWARN) }.is_err();
    let none = raw.rq_buffer.is_null() && raw.rq_rbuffer.is_null();
    raw.rq_rcvsize = 200;
    // SAFETY: As above.
    unsafe { rqst.provide(GFP_KERNEL) }?;
    Ok(refused && none && !raw.rq_buffer.is_null() && !raw.rq_rbuffer.is_null())
}

/// What calls come in here: nothing.
struct Nothing;

// SAFETY: There are no bytes.
unsafe impl Stable for Nothing {
    fn memory(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(NonNull::dangling(), 0)
    }
}

const PAGES: usize = 2;

/// A service thread, as far as its pages go.
struct Thread {
    rqst: KBox<raw::svc_rqst>,
    pages: KBox<[*mut kernel::bindings::page; PAGES]>,
}

impl Thread {
    fn new() -> Result<Self> {
        let pages = [Page::new(GFP_KERNEL)?, Page::new(GFP_KERNEL)?];
        let pages = pages.map(|page| page.into_raw().as_ptr());
        Ok(Self {
            rqst: KBox::new(raw::svc_rqst::default(), GFP_KERNEL)?,
            pages: KBox::new(pages, GFP_KERNEL)?,
        })
    }

    /// One whose pages are noted.
    fn noted() -> Result<(Self, SavedReplyPages)> {
        let mut thread = Self::new()?;
        let mut saved_pages = SavedReplyPages::default();
        thread.note(&mut saved_pages)?;
        Ok((thread, saved_pages))
    }

    /// The thread with a result that uses so many of its pages.
    fn rqst(&mut self, used: usize) -> *mut raw::svc_rqst {
        let first = self.pages.as_mut_ptr();
        self.rqst.rq_respages = first;
        self.rqst.rq_next_page = first.wrapping_add(used);
        self.rqst.rq_maxpages = PAGES;
        &raw mut *self.rqst
    }

    fn note(&mut self, saved_pages: &mut SavedReplyPages) -> Result {
        // SAFETY: The pages are there, and nobody else's.
        unsafe { SvcArgs::<Nothing>::new(self.rqst(0)) }.save_reply_pages(saved_pages, PAGES)
    }

    fn restore(&mut self, saved_pages: &mut SavedReplyPages) {
        self.restore_behind(PAGES, saved_pages);
    }

    fn restore_behind(&mut self, used: usize, saved_pages: &mut SavedReplyPages) {
        // SAFETY: The result is empty, and the pages nobody else's.
        unsafe { SvcResult::new(self.rqst(used)) }.restore(saved_pages);
    }

    /// Whether so many pages are to be given up: sunrpc frees what precedes this.
    fn gives_up(&mut self, used: usize) -> bool {
        self.rqst.rq_next_page == self.pages.as_mut_ptr().wrapping_add(used)
    }

    /// Puts a page there as a file system does.
    fn splice(&mut self) -> Result {
        self.put(Page::new(GFP_KERNEL)?);
        Ok(())
    }

    fn put(&mut self, page: Page) {
        let page = page.into_raw();
        let before = core::mem::replace(&mut self.pages[1], page.as_ptr());
        // SAFETY: The reference was the array's, which gave it up.
        drop(NonNull::new(before).map(|page| unsafe { Page::from_raw(page) }));
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        for page in self.pages.iter().copied().filter_map(NonNull::new) {
            // SAFETY: The reference is the array's, which goes.
            drop(unsafe { Page::from_raw(page) });
        }
    }
}

/// Whether a page that a file system put there goes again, if the result uses so many pages.
fn splice_is_undone(used: usize) -> Result<bool> {
    let (mut thread, mut saved_pages) = Thread::noted()?;
    let before = *thread.pages;
    thread.splice()?;
    let replaced = before != *thread.pages;
    thread.restore_behind(used, &mut saved_pages);
    Ok(replaced && before == *thread.pages)
}

fn blanks_go_back_to_where_they_were() -> Result<bool> {
    splice_is_undone(PAGES)
}

fn pages_beyond_the_result_go() -> Result<bool> {
    splice_is_undone(1)
}

fn page_with_data_is_not_used_again() -> Result<bool> {
    let (mut thread, mut saved_pages) = Thread::noted()?;
    thread.restore(&mut saved_pages);
    Ok(thread.gives_up(PAGES))
}

fn page_on_its_way_is_given_up() -> Result<bool> {
    let (mut thread, mut saved_pages) = Thread::noted()?;
    // SAFETY: It is a page of the thread's own.
    let sent = unsafe { Page::share(NonNull::new(thread.pages[1]).ok_or(EINVAL)?) };
    thread.restore_behind(1, &mut saved_pages);
    drop(sent);
    Ok(thread.gives_up(PAGES))
}

fn page_beyond_the_blanks_is_given_up() -> Result<bool> {
    let mut thread = Thread::new()?;
    let file = Page::new(GFP_KERNEL)?;
    // SAFETY: It is a page of its own.
    thread.put(unsafe { Page::share(NonNull::new(file.as_ptr()).ok_or(EINVAL)?) });
    thread.restore_behind(1, &mut SavedReplyPages::default());
    Ok(thread.gives_up(PAGES))
}

fn shared_page_is_no_blank() -> Result<bool> {
    let mut thread = Thread::new()?;
    let mut saved_pages = SavedReplyPages::default();
    let file = Page::new(GFP_KERNEL)?;
    // SAFETY: It is a page of its own.
    thread.put(unsafe { Page::share(NonNull::new(file.as_ptr()).ok_or(EINVAL)?) });
    thread.note(&mut saved_pages)?;
    thread.splice()?;
    thread.restore(&mut saved_pages);
    Ok(thread.pages[1] != file.as_ptr())
}

fn blanks_of_another_thread_do_not() -> Result<bool> {
    let mut other = Thread::new()?;
    let mut saved_pages = SavedReplyPages::default();
    other.note(&mut saved_pages)?;
    let mut thread = Thread::new()?;
    thread.splice()?;
    let before = *thread.pages;
    thread.restore(&mut saved_pages);
    Ok(before == *thread.pages)
}

fn blanks_of_a_call_that_was_put_off_do_not() -> Result<bool> {
    let (mut thread, mut saved_pages) = Thread::noted()?;
    thread.splice()?;
    let before = *thread.pages;
    thread.rqst.rq_deferred = NonNull::dangling().as_ptr();
    thread.restore(&mut saved_pages);
    Ok(before == *thread.pages)
}
