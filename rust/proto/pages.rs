// SPDX-License-Identifier: GPL-2.0

//! Pages, and memory regions, that a payload takes at most. Machines have pages of 4, 16 or 64 KiB,
//! and the peer's need not be as large as ours: a page is never a unit of the protocol.

/// Returns the most pages that `len` bytes touch, which may begin anywhere in the first one.
pub const fn touched(len: usize, page_size: usize) -> usize {
    let (Some(last), Some(before)) = (len.checked_sub(1), page_size.checked_sub(1)) else {
        return 0;
    };
    match last.saturating_add(before).checked_div(page_size) {
        Some(crossed) => crossed.saturating_add(1),
        None => 0,
    }
}

/// Returns the number of memory regions that cover `pages` pages, if one covers `each`, or one page
/// if that is 0.
pub const fn regions(pages: usize, each: usize) -> usize {
    match pages.checked_div(each) {
        Some(whole) => match pages.checked_rem(each) {
            Some(0) | None => whole,
            Some(_) => whole.saturating_add(1),
        },
        None => pages,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];

    #[test]
    fn touched_is_what_the_worst_offset_touches() {
        let by_offset = |len: usize, page: usize| {
            let last_page = |offset| (offset + len - 1) / page;
            (0..page).map(|offset| last_page(offset) + 1).max()
        };
        for page in [1, 2, 4, 8] {
            for len in 1..40 {
                assert_eq!(Some(touched(len, page)), by_offset(len, page));
            }
        }
        for page in SIZES {
            for len in [1, 2, 4097, page - 1, page, page + 1, 1 << 20] {
                assert_eq!(Some(touched(len, page)), by_offset(len, page));
            }
        }
        assert_eq!(touched(0, 4096), 0);
        assert_eq!(touched(1, 0), 0);
    }

    #[test]
    fn largest_payloads_take_fewer_pages_where_these_are_larger() {
        assert_eq!(SIZES.map(|page| touched(1 << 20, page)), [257, 65, 17]);
        assert_eq!(SIZES.map(|page| touched(4 << 20, page)), [1025, 257, 65]);
    }

    #[test]
    fn regions_cover_all_pages_and_no_region_is_left_over() {
        for pages in 0..300 {
            for each in 1..40 {
                let regions = regions(pages, each);
                assert!(regions * each >= pages);
                assert!(regions == 0 || (regions - 1) * each < pages);
            }
            assert_eq!(regions(pages, 0), pages);
        }
    }

    // A chunk of the client has room for eleven segments, of which two are for head and tail.
    #[test]
    fn devices_that_register_32_pages_suffice_with_each_size_of_page() {
        let chunks = SIZES.map(|page| regions(touched(1 << 20, page), 32));
        assert_eq!(chunks, [9, 3, 1]);
    }
}
