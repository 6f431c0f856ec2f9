// SPDX-License-Identifier: GPL-2.0

//! Tests of the sizes of a connection's queues.

use super::config::{
    Config,
    QueueLimits,
    MAX_PAYLOAD_PAGES, //
};
use crate::prelude::*;
use rdma::{
    device::Limits,
    mr::Coverage, //
};

/// A test, which returns true if it passed.
type Test = fn() -> Result<bool>;

/// The tests, each with the claim that it shows.
pub const TESTS: &[(&str, Test)] = &[
    (
        "a Send queue of 433 work requests is enough for 128 credits",
        short_queue_is_enough,
    ),
    (
        "what a connection posts fits the queues of the device, however short they are",
        requests_fit_the_device,
    ),
    (
        "a device with too short a queue for one credit is refused",
        shortest_queue_is_refused,
    ),
    (
        "where addresses have no offset, the first and the last page have regions of their own",
        pages_at_the_ends_have_regions,
    ),
];

/// Returns the limits of a device. None of the others matters here.
fn device(queue_depth: u32, registration_pages: u32) -> Limits {
    Limits {
        queue_depth,
        registration_pages,
        responder_resources: 1,
        initiator_depth: 1,
        write_elements: 3,
        read_elements: 1,
        read_mr_pages: None,
        remote_invalidation: true,
        waits_for_receives: true,
    }
}

/// Returns the sizes for up to `credits` credits.
fn sizes(limits: &Limits, credits: usize) -> Result<QueueLimits> {
    sizes_for(Coverage::WithoutGaps, limits, credits)
}

/// Returns the sizes where one region has this coverage.
fn sizes_for(coverage: Coverage, limits: &Limits, credits: usize) -> Result<QueueLimits> {
    QueueLimits::new(limits, coverage, Config::current(credits)?, 16)
}

fn short_queue_is_enough() -> Result<bool> {
    // 128 pages are the fewest that an adapter in `selftests/strict/profiles.c` registers, and 895
    // the fewest work requests.
    let credits = |depth, pages| sizes(&device(depth, pages), 128).map(|sizes| sizes.credits);
    Ok(credits(895, 128)? == 128 && credits(433, 257)? == 128 && credits(432, 257)? == 127)
}

fn requests_fit_the_device() -> Result<bool> {
    for (pages, coverage) in [
        (32, Coverage::WithoutGaps),
        (128, Coverage::WithoutGaps),
        (257, Coverage::WithoutGaps),
        (257, Coverage::AnyPieces),
        (128, Coverage::WholePages),
        (257, Coverage::WholePages),
    ] {
        for depth in Iterator::chain(100..1_000, [1_024, 2_048, 4_351, 65_536]) {
            for wanted in [1, 4, 128, 16_384] {
                let QueueLimits {
                    parameters,
                    credits,
                    first_credits,
                    reserve,
                    ..
                } = sizes_for(coverage, &device(depth, pages), wanted)?;
                let queue = parameters.queue_pair();
                let fits = queue.send_queue_depth(1)? <= depth && queue.receives < depth;
                let regions = u32::try_from(reserve)?;
                let works = (1..=wanted).contains(&credits)
                    && (1..=credits).contains(&first_credits)
                    && queue.registrations >= regions
                    && queue.invalidations >= regions;
                if !fits || !works {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

fn shortest_queue_is_refused() -> Result<bool> {
    let enough = sizes(&device(62, 257), 128)?.credits == 1;
    let error = sizes(&device(61, 257), 128).err();
    Ok(enough && error == Some(errno::eopnotsupp()))
}

fn pages_at_the_ends_have_regions() -> Result<bool> {
    let segments = |pages| {
        let device = device(1_024, pages);
        sizes_for(Coverage::WholePages, &device, 128).map(|sizes| sizes.payload_segments)
    };
    let all = u32::try_from(MAX_PAYLOAD_PAGES)?;
    let error = segments(all / 8).err();
    Ok(segments(all)? == 3 && segments(all / 2)? == 5 && error == Some(errno::eopnotsupp()))
}
