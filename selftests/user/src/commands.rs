// SPDX-License-Identifier: GPL-2.0

//! Write commands that a library for this device never sends.

use std::sync::Arc;
use std::time::Duration;

use crate::case::cases;
use crate::case::expect;
use crate::case::refused;
use crate::case::Outcome;
use crate::connection::pair;
use crate::connection::Device;
use crate::entry;
use crate::entry::Sge;
use crate::kernel::page_size;
use crate::kernel::EINVAL;
use crate::kernel::EOPNOTSUPP;
use crate::verbs::Context;
use crate::verbs::Qp;
use crate::verbs::LOCAL_WRITE;
use crate::verbs::LOC_PROT;

cases![
    requests_are_not_posted_by_commands,
    completions_are_not_polled_by_commands,
    local_dma_key_names_nothing,
    rings_have_a_limit,
];

/// The local DMA key, which stands for all memory if a consumer in the kernel names it.
const LOCAL_DMA_LKEY: u32 = 0x5d;
/// Where the memory of the kernel may be, on this and other machines.
const KERNEL: [u64; 4] = [
    0xffff_8880_0000_0000,
    0xffff_ffff_8100_0000,
    0x6000_0000,
    0x1000,
];

// Shows T2.
fn requests_are_not_posted_by_commands(device: &Device) -> Outcome {
    let (client, mut server) = pair(device, 16)?;
    let room = Arc::new(server.qp.context.buffer(page_size(), LOCAL_WRITE)?);
    server.qp.receive_into(1, &room, 0, page_size() as u32);
    let own = client.qp.context.buffer(page_size(), LOCAL_WRITE)?;
    let uverbs = &client.qp.context.uverbs;
    let qp = client.qp.raw.handle;
    let not = [EINVAL, EOPNOTSUPP];
    for address in KERNEL.into_iter().chain([own.memory.address()]) {
        for key in [LOCAL_DMA_LKEY, 0, own.mr.lkey] {
            refused("POST_SEND", uverbs.post_send(qp, address, 64, key), &not)?;
            refused("POST_RECV", uverbs.post_recv(qp, address, 64, key), &not)?;
        }
    }
    expect(
        "the peer receives nothing",
        server.qp.cq.wait_for(Duration::from_millis(300)).is_none(),
    )
}

// Shows T2.
fn completions_are_not_polled_by_commands(device: &Device) -> Outcome {
    let qp = Qp::new(&Context::open(&device.name)?, 16)?;
    let (uverbs, cq) = (&qp.context.uverbs, qp.cq.raw.handle);
    let not = [EINVAL, EOPNOTSUPP];
    refused("POLL_CQ", uverbs.poll_cq(cq), &not)?;
    refused("REQ_NOTIFY_CQ", uverbs.req_notify_cq(cq), &not)
}

// Shows T2.
fn local_dma_key_names_nothing(device: &Device) -> Outcome {
    for address in KERNEL {
        let (mut client, _server) = pair(device, 16)?;
        let sge = Sge {
            address,
            length: 64,
            lkey: LOCAL_DMA_LKEY,
        };
        client.qp.post(entry::request(1, entry::SEND, &[sge]))?;
        let completion = client.qp.cq.wait()?;
        expect("a Send fails", completion.status == LOC_PROT)?;

        let (mut client, mut server) = pair(device, 16)?;
        server.qp.post_receive(entry::receive(2, &[sge]));
        client.qp.post(entry::inline(1, &[0; 64]))?;
        let completion = server.qp.cq.wait()?;
        expect("a Receive fails", completion.status == LOC_PROT)?;
    }
    Ok(())
}

fn rings_have_a_limit(device: &Device) -> Outcome {
    let context = Context::open(&device.name)?;
    for entries in [0, 1 << 30, u32::MAX - 1, u32::MAX] {
        refused(
            "a completion queue of that size",
            context.uverbs.create_cq(entries, None),
            &[EINVAL, 12],
        )?;
    }
    let cq = crate::verbs::Cq::new(&context, 16)?;
    for entries in [1 << 20, 1 << 30, u32::MAX] {
        let qp = context
            .uverbs
            .create_qp(context.pd, cq.raw.handle, entries, 1);
        refused("a Send Queue of that size", qp, &[EINVAL, 12])?;
        let qp = context
            .uverbs
            .create_qp(context.pd, cq.raw.handle, 1, entries);
        refused("a Receive Queue of that size", qp, &[EINVAL, 12])?;
    }
    // A queue of nothing has a ring nevertheless.
    let qp = context.uverbs.create_qp(context.pd, cq.raw.handle, 0, 0);
    let qp = qp.map_err(|errno| format!("CREATE_QP: errno {errno}"))?;
    expect(
        "there are slots",
        qp.send.slots == 1 && qp.receive.slots == 1,
    )
}
