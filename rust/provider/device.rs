// SPDX-License-Identifier: GPL-2.0

//! Devices: registration with the core, the table of functions that it calls, and the link type,
//! for `rdma link add` and the removal of network devices.
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/rdma_netlink.h`](srctree/include/rdma/rdma_netlink.h)

use crate::{
    cm,
    cq,
    driver::{
        Driver,
        Regions, //
    },
    errno,
    netdev::net_of,
    port,
    qp,
    region,
    registry::{
        self,
        Place,
        Reservation, //
    },
    srq,
    table::Table,
    user::{
        self,
        quota::Quotas, //
    }, //
};
use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::{
        null_mut,
        NonNull, //
    },
    sync::atomic::{
        AtomicPtr,
        Ordering, //
    }, //
};
use ext::errno::eopnotsupp;
use kernel::{
    bindings::module,
    error::to_result,
    ffi,
    prelude::*,
    sync::Arc, //
};

/// A queue pair that iw_cm finds by number.
///
/// # Invariants
///
/// The queue pair has its data as long as this is in its table.
pub(crate) struct QpEntry(pub(crate) NonNull<cbindings::ib_qp>);

// SAFETY: It is an address. Any task may use what is there under the lock of the table, by the type
// invariants.
unsafe impl Send for QpEntry {}

/// The data of a device.
#[pin_data]
pub(crate) struct DeviceData<D> {
    pub(crate) driver: Arc<D>,
    pub(crate) regions: Arc<Regions>,
    #[pin]
    pub(crate) queue_pairs: Table<QpEntry>,
    // What processes have.
    pub(crate) quotas: Quotas,
    pub(crate) counters: KVec<cbindings::rdma_stat_desc>,
    // The address of the device, for its GUIDs. It is not zero.
    pub(crate) hw_addr: [u8; 6],
}

// SAFETY: The counters' names are static; all other fields may be sent.
unsafe impl<D: Driver> Send for DeviceData<D> {}
// SAFETY: The counters' names are static; all other fields may be shared.
unsafe impl<D: Driver> Sync for DeviceData<D> {}

impl<D> DeviceData<D> {
    pub(crate) fn driver(&self) -> &Arc<D> {
        &self.driver
    }
}

/// An `ib_device` with the data of this crate, as the core allocates it.
#[repr(C)]
pub(crate) struct IbDevice<D> {
    ib: cbindings::ib_device,
    pub(crate) data: MaybeUninit<Arc<DeviceData<D>>>,
}

/// Returns the data of a device.
///
/// # Safety
///
/// `device` is one of `D`, created by this crate, and allocated as long as `'a`.
pub(crate) unsafe fn data_of<'a, D: Driver>(
    device: *mut cbindings::ib_device,
) -> &'a DeviceData<D> {
    // SAFETY: The caller promises it; `add` writes the field before anybody else sees the device.
    unsafe { (*device.cast::<IbDevice<D>>()).data.assume_init_ref() }
}

/// Returns the hardware address of a network device, or a random one if it has none.
///
/// # Safety
///
/// The network device is live.
unsafe fn hw_addr_of(netdev: *mut cbindings::net_device) -> [u8; 6] {
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
        let [a, b, c, d] = unsafe { cbindings::get_random_u32() }.to_be_bytes();
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
unsafe extern "C" fn dealloc<D: Driver>(device: *mut cbindings::ib_device) {
    // SAFETY: The core frees the device when this returns, and nobody uses it any more.
    let data = unsafe { (*device.cast::<IbDevice<D>>()).data.assume_init_read() };
    D::remove(&data.driver);
}

/// The version of siw's interface with user space.
const SIW_ABI_VERSION: u32 = 1;

/// Returns the functions that the core calls.
fn operations<D: Driver>(owner: *mut module) -> cbindings::ib_device_ops {
    let [size_ib_qp, size_ib_cq, size_ib_srq] = qp::sizes::<D::QueuePair>();
    let mut operations = cbindings::ib_device_ops {
        owner,
        // Debian's library for siw drives the device.
        driver_id: cbindings::rdma_driver_id_RDMA_DRIVER_SIW,
        uverbs_abi_ver: SIW_ABI_VERSION,
        alloc_hw_port_stats: Some(port::Operations::<D>::alloc_stats),
        alloc_mr: Some(region::Operations::<D>::alloc),
        alloc_pd: Some(port::Operations::<D>::alloc_pd),
        create_cq: Some(cq::create::<D>),
        create_qp: Some(qp::Operations::<D>::create),
        create_srq: Some(srq::Operations::<D>::create),
        dealloc_driver: Some(dealloc::<D>),
        dealloc_pd: Some(port::Operations::<D>::dealloc_pd),
        dereg_mr: Some(region::Operations::<D>::dereg),
        destroy_cq: Some(cq::destroy),
        destroy_qp: Some(qp::Operations::<D>::destroy),
        destroy_srq: Some(srq::Operations::<D>::destroy),
        disassociate_ucontext: Some(user::disassociate),
        get_dma_mr: Some(region::Operations::<D>::dma),
        get_hw_stats: Some(port::Operations::<D>::stats),
        get_port_immutable: Some(port::Operations::<D>::immutable),
        iw_accept: Some(cm::Operations::<D>::accept),
        iw_add_ref: Some(qp::Operations::<D>::add_reference),
        iw_connect: Some(cm::Operations::<D>::connect),
        iw_create_listen: Some(cm::Operations::<D>::listen),
        iw_destroy_listen: Some(cm::Operations::<D>::stop_listening),
        iw_get_qp: Some(qp::Operations::<D>::get),
        iw_reject: Some(cm::Operations::<D>::reject),
        iw_rem_ref: Some(qp::Operations::<D>::remove_reference),
        map_mr_sg: Some(region::map),
        modify_qp: Some(qp::Operations::<D>::modify),
        modify_srq: Some(srq::Operations::<D>::modify),
        poll_cq: Some(cq::poll),
        post_recv: Some(qp::Operations::<D>::post_receive),
        post_send: Some(qp::Operations::<D>::post_send),
        post_srq_recv: Some(srq::Operations::<D>::post),
        query_device: Some(port::Operations::<D>::query_device),
        query_gid: Some(port::Operations::<D>::gid),
        query_pkey: Some(port::Operations::<D>::key),
        query_port: Some(port::Operations::<D>::query_port),
        query_qp: Some(qp::Operations::<D>::query),
        query_srq: Some(srq::Operations::<D>::query),
        reg_user_mr: Some(region::Operations::<D>::of_process),
        req_notify_cq: Some(cq::arm),
        size_ib_cq,
        size_ib_pd: size_of::<port::IbPd>(),
        size_ib_qp,
        size_ib_srq,
        ..Default::default()
    };
    if user::is_offered() {
        operations.alloc_ucontext = Some(user::alloc_context::<D>);
        operations.dealloc_ucontext = Some(user::dealloc_context);
        operations.mmap = Some(user::mapping::map);
        operations.mmap_free = Some(user::mapping::free);
        operations.size_ib_ucontext = size_of::<user::IbContext>();
    }
    operations
}

/// Returns whether there is a device of the kernel's own siw on a network device. Sleeps.
///
/// It would refuse ours, too.
///
/// # Safety
///
/// The network device is live.
unsafe fn has_foreign_device(netdev: *mut cbindings::net_device, place: Place) -> bool {
    let id = cbindings::rdma_driver_id_RDMA_DRIVER_SIW;
    // SAFETY: The caller promises that the network device is live.
    let device = unsafe { cbindings::ib_device_get_by_netdev(netdev, id) };
    let Some(device) = NonNull::new(device) else {
        return false;
    };
    let is_own = registry::is_own(device, place);
    // SAFETY: The reference was just taken, and is dropped once.
    unsafe { cbindings::ib_device_put(device.as_ptr()) };
    !is_own
}

/// Creates a device on a network device, and registers it. `EEXIST` if there is one of the same
/// link type, or one of siw. Sleeps.
///
/// # Safety
///
/// The name is a string, the network device is live, and the driver's link type is registered.
pub(crate) unsafe fn add<D: Driver>(
    name: *const ffi::c_char,
    netdev: *mut cbindings::net_device,
    owner: *mut module,
) -> Result {
    let place = Place::new(netdev, D::LINK_TYPE);
    let reservation = Reservation::new(place)?;
    // SAFETY: The caller promises a live network device.
    if unsafe { has_foreign_device(netdev, place) } {
        return Err(EEXIST);
    }
    // SAFETY: The caller promises a live network device.
    let (hw_addr, kind) = unsafe { (hw_addr_of(netdev), u32::from((*netdev).type_)) };
    if !matches!(
        kind,
        cbindings::ARPHRD_ETHER | cbindings::ARPHRD_LOOPBACK | cbindings::ARPHRD_NONE
    ) {
        return Err(eopnotsupp());
    }
    let mut counters = KVec::with_capacity(D::COUNTERS.len(), GFP_KERNEL)?;
    for name in D::COUNTERS {
        let counter = cbindings::rdma_stat_desc {
            name: name.as_char_ptr(),
            ..Default::default()
        };
        counters.push(counter, GFP_KERNEL)?;
    }
    // SAFETY: The function has no preconditions.
    let vectors = i32::try_from(unsafe { cbindings::num_possible_cpus() })?;
    let regions = Arc::pin_init(Regions::new(), GFP_KERNEL)?;
    let driver = D::new(regions.clone())?;
    let quotas = Quotas::new()?;
    let data = Arc::pin_init(
        pin_init!(DeviceData::<D> {
            driver,
            regions,
            queue_pairs <- Table::new(),
            quotas,
            counters,
            hw_addr,
        }),
        GFP_KERNEL,
    )?;
    if reservation.netdev_goes() {
        return Err(ENODEV);
    }
    // SAFETY: The caller promises a live network device.
    let net = unsafe { net_of(netdev) }?;
    // SAFETY: `net` keeps the namespace during the call. Once the device has its network device, it
    // is removed before that leaves the namespace.
    let device = unsafe { cbindings::_ib_alloc_device(size_of::<IbDevice<D>>(), net.as_raw()) };
    let found = NonNull::new(device).ok_or(ENOMEM)?;
    let device = found.as_ptr();
    // SAFETY: This task owns the device until it is registered, and then has a reference to its
    // structure, which it gives up once. From `ib_set_device_ops` on,
    // freeing it calls `dealloc`, which finds the data. The name of the network device is as long
    // as the field.
    unsafe {
        (*device.cast::<IbDevice<D>>()).data.write(data);
        cbindings::ib_set_device_ops(device, &operations::<D>(owner));
        let [a, b, c, d, e, f] = hw_addr;
        (*device).node_guid = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]).to_be();
        // CAST: Small numbers.
        (*device).node_type = cbindings::RDMA_NODE_RNIC as u8;
        (*device).phys_port_cnt = 1;
        // Consumers distribute their connections over as many completion vectors. All of them run
        // where the work of a connection does.
        (*device).num_comp_vectors = vectors;
        (*device).local_dma_lkey = region::LOCAL_DMA_LKEY;
        (*device).name_assign_type = cbindings::rdma_nl_name_assign_type_RDMA_NAME_ASSIGN_TYPE_USER;
        (*device).iw_driver_flags = cbindings::iw_flags_IW_F_NO_PORT_MAP;
        cbindings::copy_ifname(device, netdev);
        if user::is_offered() {
            // By this a process tells that it has posted. Others of this kind have requests of the
            // process in them, and stay off.
            (*device).uverbs_cmd_mask |=
                1 << cbindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_SEND;
        }
        // The reference of the registry. Somebody may remove the device as soon as it is there.
        let structure =
            kernel::bindings::get_device((&raw mut (*device).__bindgen_anon_1.dev).cast());
        let registered = to_result(cbindings::ib_device_set_netdev(device, netdev, 1))
            .and_then(|()| to_result(cbindings::ib_register_device(device, name, null_mut())));
        match registered {
            Ok(()) => reservation.fill(found),
            Err(_) => {
                cbindings::ib_dealloc_device(device);
                kernel::bindings::put_device(structure);
            }
        }
        registered
    }
}

/// The module, which stays loaded while a device is in use.
static MODULE: AtomicPtr<kernel::bindings::module> = AtomicPtr::new(null_mut());

/// The structures that C links into its lists.
struct LinkBlocks {
    ops: cbindings::rdma_link_ops,
    notifier: cbindings::notifier_block,
}

/// A registered link type. When it is dropped, its devices are removed, and then it is
/// unregistered.
///
/// # Invariants
///
/// `blocks` came from [`KBox::into_raw`], and is in C's lists.
pub struct RdmaLinkType<D: Driver> {
    blocks: NonNull<LinkBlocks>,
    _driver: PhantomData<D>,
}

// SAFETY: Only the module's `init` and `exit` use it, one after the other.
unsafe impl<D: Driver> Send for RdmaLinkType<D> {}
// SAFETY: `&RdmaLinkType` gives access to nothing.
unsafe impl<D: Driver> Sync for RdmaLinkType<D> {}

impl<D: Driver> RdmaLinkType<D> {
    /// Registers the type. There is one of a driver at a time. Sleeps.
    pub fn new(module: &'static ThisModule) -> Result<Self> {
        registry::start();
        MODULE.store(module.as_ptr(), Ordering::Relaxed);
        let blocks = KBox::new(
            LinkBlocks {
                ops: cbindings::rdma_link_ops {
                    type_: D::LINK_TYPE.as_char_ptr(),
                    newlink: Some(newlink::<D>),
                    ..Default::default()
                },
                notifier: cbindings::notifier_block {
                    notifier_call: Some(netdev_event::<D>),
                    ..Default::default()
                },
            },
            GFP_KERNEL,
        )?;
        let blocks = NonNull::new(KBox::into_raw(blocks)).ok_or(ENOMEM)?;
        // SAFETY: The notifier stays where it is until it is unregistered.
        let registered =
            unsafe { cbindings::register_netdevice_notifier(&raw mut (*blocks.as_ptr()).notifier) };
        if let Err(error) = to_result(registered) {
            // SAFETY: The pointer came from `into_raw`, and nobody else has it.
            drop(unsafe { KBox::from_raw(blocks.as_ptr()) });
            return Err(error);
        }
        // SAFETY: The ops stay where they are until they are unregistered. The name is this
        // project's own, so it is not registered twice.
        unsafe { cbindings::rdma_link_register(&raw mut (*blocks.as_ptr()).ops) };
        // INVARIANT: Both were just registered.
        Ok(Self {
            blocks,
            _driver: PhantomData,
        })
    }
}

impl<D: Driver> Drop for RdmaLinkType<D> {
    fn drop(&mut self) {
        let blocks = self.blocks.as_ptr();
        // SAFETY: By the type invariants both are registered.
        unsafe {
            cbindings::rdma_link_unregister(&raw mut (*blocks).ops);
            cbindings::unregister_netdevice_notifier(&raw mut (*blocks).notifier);
        }
        // Without the type no device is created, without the notifier nobody but the core and this
        // task removes one, and then all are removed, whoever else was about to do so.
        while let Some(found) = registry::pop(D::LINK_TYPE) {
            found.unregister();
        }
        registry::free();
        // SAFETY: The pointer came from `into_raw`, and C has it no more.
        drop(unsafe { KBox::from_raw(blocks) });
    }
}

/// `newlink` of `struct rdma_link_ops`.
///
/// # Safety
///
/// For the core only: while the ops of `D` are registered.
unsafe extern "C" fn newlink<D: Driver>(
    name: *const ffi::c_char,
    netdev: *mut cbindings::net_device,
) -> ffi::c_int {
    errno(|| {
        // SAFETY: The core passes a name and a network device that stay during the call.
        unsafe { add::<D>(name, netdev, MODULE.load(Ordering::Relaxed)) }
    })
}

/// Handles an event of a network device.
///
/// # Safety
///
/// For the core only, as a notifier of network devices, for a driver `D`.
unsafe extern "C" fn netdev_event<D: Driver>(
    _: *mut cbindings::notifier_block,
    event: ffi::c_ulong,
    info: *mut ffi::c_void,
) -> ffi::c_int {
    // CAST: A small number.
    if event == cbindings::netdev_cmd_NETDEV_UNREGISTER as ffi::c_ulong {
        // SAFETY: Such a notifier gets a `struct netdev_notifier_info`.
        let netdev = unsafe { (*info.cast::<cbindings::netdev_notifier_info>()).dev };
        registry::remove_later(Place::new(netdev, D::LINK_TYPE));
    }
    // CAST: A small number.
    cbindings::NOTIFY_OK as ffi::c_int
}
