// SPDX-License-Identifier: GPL-2.0

//! Devices: registration with the core, and the table of functions that it calls.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::connection;
use crate::cq;
use crate::driver::Driver;
use crate::driver::Regions;
use crate::mr;
use crate::netdev::net_of;
use crate::objects::Objects;
use crate::objects::Shell;
use crate::port;
use crate::qp;
use crate::region;
use crate::table::Table;
use core::ptr::null_mut;
use core::ptr::NonNull;
use iwraw::errno::eopnotsupp;
use kernel::bindings::module;
use kernel::error::to_result;
use kernel::ffi;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Returns the hardware address of a network device, or a random one if it has none.
///
/// # Safety
///
/// The network device is live.
unsafe fn hardware_address(netdev: *mut iwraw::net_device) -> [u8; 6] {
    let mut address = [0; 6];
    // SAFETY: The caller promises that the device is live; its address has `addr_len` octets.
    unsafe {
        let length = usize::from((*netdev).addr_len).min(address.len());
        let from = (*netdev).dev_addr;
        for (at, octet) in address.iter_mut().enumerate().take(length) {
            *octet = *from.add(at);
        }
    }
    if address == [0; 6] {
        // SAFETY: The function has no preconditions.
        let [a, b, c, d] = unsafe { iwraw::get_random_u32() }.to_be_bytes();
        // A local unicast address.
        address = [2, 0, a, b, c, d];
    }
    address
}

/// `dealloc_driver`: the device is freed.
///
/// # Safety
///
/// For the core only: `device` was made by [`add`].
unsafe extern "C" fn dealloc<D: Driver>(device: *mut iwraw::ib_device) {
    // SAFETY: The core frees the device when this returns, and nobody uses it any more.
    let objects = unsafe { (*device.cast::<Shell<D>>()).objects.assume_init_read() };
    D::remove(&objects.driver);
}

/// Returns the functions that the core calls.
fn operations<D: Driver>(owner: *mut module) -> iwraw::ib_device_ops {
    let (size_ib_qp, size_ib_cq) = qp::sizes::<D::QueuePair>();
    iwraw::ib_device_ops {
        owner,
        driver_id: D::ID,
        alloc_hw_port_stats: Some(port::Operations::<D>::alloc_stats),
        alloc_mr: Some(mr::Operations::<D>::alloc),
        alloc_pd: Some(port::Operations::<D>::alloc_pd),
        create_cq: Some(cq::create),
        create_qp: Some(qp::Operations::<D>::create),
        dealloc_driver: Some(dealloc::<D>),
        dealloc_pd: Some(port::Operations::<D>::alloc_pd),
        dereg_mr: Some(mr::Operations::<D>::dereg),
        destroy_cq: Some(cq::destroy),
        destroy_qp: Some(qp::Operations::<D>::destroy),
        get_dma_mr: Some(mr::Operations::<D>::dma),
        get_hw_stats: Some(port::Operations::<D>::stats),
        get_port_immutable: Some(port::Operations::<D>::immutable),
        iw_accept: Some(connection::Operations::<D>::accept),
        iw_add_ref: Some(qp::Operations::<D>::add_reference),
        iw_connect: Some(connection::Operations::<D>::connect),
        iw_create_listen: Some(connection::Operations::<D>::listen),
        iw_destroy_listen: Some(connection::Operations::<D>::stop_listening),
        iw_get_qp: Some(qp::Operations::<D>::get),
        iw_reject: Some(connection::Operations::<D>::reject),
        iw_rem_ref: Some(qp::Operations::<D>::remove_reference),
        map_mr_sg: Some(region::map),
        modify_qp: Some(qp::Operations::<D>::modify),
        poll_cq: Some(cq::poll),
        post_recv: Some(qp::Operations::<D>::post_receive),
        post_send: Some(qp::Operations::<D>::post_send),
        query_device: Some(port::Operations::<D>::query_device),
        query_gid: Some(port::Operations::<D>::gid),
        query_pkey: Some(port::Operations::<D>::key),
        query_port: Some(port::Operations::<D>::query_port),
        query_qp: Some(qp::Operations::<D>::query),
        reg_user_mr: Some(port::Operations::<D>::no_user_region),
        req_notify_cq: Some(cq::arm),
        size_ib_cq,
        size_ib_pd: size_of::<iwraw::ib_pd>(),
        size_ib_qp,
        ..Default::default()
    }
}

/// Creates a device on a network device, and registers it. Sleeps.
///
/// # Safety
///
/// The name is a string, the network device is live, and the driver's link type is registered.
pub(crate) unsafe fn add<D: Driver>(
    name: *const ffi::c_char,
    netdev: *mut iwraw::net_device,
    owner: *mut module,
) -> Result {
    // SAFETY: The caller promises a live network device.
    let (hardware, kind) = unsafe { (hardware_address(netdev), u32::from((*netdev).type_)) };
    if !matches!(
        kind,
        iwraw::ARPHRD_ETHER | iwraw::ARPHRD_LOOPBACK | iwraw::ARPHRD_NONE
    ) {
        return Err(eopnotsupp());
    }
    let mut counters = KVec::with_capacity(D::COUNTERS.len(), GFP_KERNEL)?;
    for name in D::COUNTERS {
        let counter = iwraw::rdma_stat_desc {
            name: iwraw::chars(name),
            ..Default::default()
        };
        counters.push(counter, GFP_KERNEL)?;
    }
    // SAFETY: The function has no preconditions.
    let vectors = i32::try_from(unsafe { iwraw::num_possible_cpus() })?;
    let regions = Arc::pin_init(Regions::new(), GFP_KERNEL)?;
    let driver = D::new(regions.clone())?;
    let objects = Arc::pin_init(
        pin_init!(Objects::<D> {
            driver,
            regions,
            queue_pairs <- Table::new(),
            counters,
            hardware,
        }),
        GFP_KERNEL,
    )?;
    // SAFETY: The caller promises a live network device.
    let net = unsafe { net_of(netdev) }?;
    // SAFETY: `net` keeps the namespace during the call. Once the device has its network device, it
    // is removed before that leaves the namespace.
    let device = unsafe { iwraw::_ib_alloc_device(size_of::<Shell<D>>(), net.as_raw()) };
    let device = NonNull::new(device).ok_or(ENOMEM)?.as_ptr();
    // SAFETY: This task owns the device until it is registered. From `ib_set_device_ops` on,
    // freeing it calls `dealloc`, which finds the objects. The name of the network device is as
    // long as the field.
    unsafe {
        (*device.cast::<Shell<D>>()).objects.write(objects);
        iwraw::ib_set_device_ops(device, &operations::<D>(owner));
        let [a, b, c, d, e, f] = hardware;
        (*device).node_guid = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]).to_be();
        // CAST: Small numbers.
        (*device).node_type = iwraw::RDMA_NODE_RNIC as u8;
        (*device).phys_port_cnt = 1;
        // Consumers distribute their connections over as many completion vectors. All of them run
        // where the work of a connection does.
        (*device).num_comp_vectors = vectors;
        (*device).local_dma_lkey = region::LOCAL_DMA_KEY;
        (*device).name_assign_type = iwraw::rdma_nl_name_assign_type_RDMA_NAME_ASSIGN_TYPE_USER;
        (*device).iw_driver_flags = iwraw::iw_flags_IW_F_NO_PORT_MAP;
        iwraw::copy_ifname(device, netdev);
        let registered = to_result(iwraw::ib_device_set_netdev(device, netdev, 1))
            .and_then(|()| to_result(iwraw::ib_register_device(device, name, null_mut())));
        if registered.is_err() {
            iwraw::ib_dealloc_device(device);
        }
        registered
    }
}
