// SPDX-License-Identifier: GPL-2.0

//! Tests of the limits of a connection over devices with small queues.

use super::super::{
    config::{
        QueueLimits,
        MAX_PAYLOAD, //
    },
    connection::ServerConn, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};
use rdma::device::Limits;

/// Returns the limits of an iWARP device.
fn device(queue_depth: u32, read_mr_pages: u32) -> Limits {
    Limits {
        queue_depth,
        registration_pages: read_mr_pages,
        responder_resources: 16,
        initiator_depth: 16,
        write_elements: 4,
        read_elements: 1,
        read_mr_pages: Some(read_mr_pages),
        remote_invalidation: false,
        waits_for_receives: false,
    }
}

/// Returns the fewest regions of `read_mr_pages` pages that the longest WRITE needs.
fn regions(read_mr_pages: u32) -> Result<u32> {
    Ok(MAX_PAYLOAD
        .div_ceil(u32::try_from(PAGE_SIZE)?)
        .div_ceil(read_mr_pages))
}

pub(super) fn longest_call_can_be_registered() -> Result<bool> {
    for read_mr_pages in [8, 64, 256] {
        let mut limits = QueueLimits::new(&device(4096, read_mr_pages))?;
        // The device refuses one queue pair after another.
        while let Some(halved) = limits.halved() {
            limits = halved;
        }
        if limits.parameters()?.transfers < regions(read_mr_pages)? {
            return Ok(false);
        }
    }
    // These queues have room for 16 Reads, each with its registration.
    Ok(QueueLimits::new(&device(64, 8)).is_err() && QueueLimits::new(&device(64, 256)).is_ok())
}
