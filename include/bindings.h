/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Every C header that bindgen reads for the crate `cbindings`, sorted.
 *
 * Constants that are macros with casts, which bindgen cannot evaluate, stand at
 * the end as `RUST_CONST_HELPER_<name>`; the prefix is cut off again in the
 * generated file.
 */
#ifndef RPCRDMA_BINDINGS_H
#define RPCRDMA_BINDINGS_H

#include <linux/atomic.h>
#include <linux/crc32c.h>
#include <linux/dma-mapping.h>
#include <linux/ethtool.h>
#include <linux/if_vlan.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/inetdevice.h>
#include <linux/lwq.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/percpu_counter.h>
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <linux/sched/mm.h>
#include <linux/sctp.h>
#include <linux/shrinker.h>
#include <linux/skbuff.h>
#include <linux/sunrpc/addr.h>
#include <linux/sunrpc/bc_xprt.h>
#include <linux/sunrpc/clnt.h>
#include <linux/sunrpc/sched.h>
#include <linux/sunrpc/svc.h>
#include <linux/sunrpc/svc_xprt.h>
#include <linux/sunrpc/xdr.h>
#include <linux/sunrpc/xprt.h>
#include <linux/sysctl.h>
#include <linux/tcp.h>
#include <linux/uio.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <net/addrconf.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <net/l3mdev.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include <net/tcp.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>
#include <rdma/rdma_cm.h>
#include <rdma/rdma_netlink.h>
#include <rdma/uverbs_ioctl.h>

#include "iwarp_trace.h"
#include "rpcrdma_trace.h"

static const gfp_t RUST_CONST_HELPER_GFP_NOIO = GFP_NOIO;
static const size_t RUST_CONST_HELPER_IB_DEVICE_SIZE = sizeof(struct ib_device);

#endif /* RPCRDMA_BINDINGS_H */
