// SPDX-License-Identifier: GPL-2.0
/*
 * What only iwarp.ko calls, sorted; and the parameters of the module.
 */
#include "bindings.h"
#include <linux/memcontrol.h>
#include <linux/moduleparam.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <net/sctp/sctp.h>

/* It does not change once the module is loaded. */
static char sctp_addresses[256];
module_param_string(sctp_addresses, sctp_addresses, sizeof(sctp_addresses),
		    0444);
MODULE_PARM_DESC(sctp_addresses,
		 "Addresses that SCTP associations have besides the one they were made for, with commas between them");

/* Nor does this one. */
static bool user = true;
module_param(user, bool, 0444);
MODULE_PARM_DESC(user, "Whether programs may use the devices (default: yes)");

/* A connection has what these are when it begins. */
static bool crc = true;
module_param(crc, bool, 0644);
MODULE_PARM_DESC(crc,
		 "Whether connections over TCP have a CRC even if the peer wants none (default: yes)");

static int set_mulpdu(const char *value, const struct kernel_param *param)
{
	return param_set_uint_minmax(value, param, 0, 64768);
}

static const struct kernel_param_ops mulpdu_ops = {
	.set = set_mulpdu,
	.get = param_get_uint,
};

static unsigned int mulpdu;
module_param_cb(mulpdu, &mulpdu_ops, &mulpdu, 0644);
__MODULE_PARM_TYPE(mulpdu, "uint");
MODULE_PARM_DESC(mulpdu,
		 "Length of DDP segments over TCP in octets, if a TCP segment is shorter than that (default: 0, what the peer announces)");

struct in_device *rust_rdma_helper___in_dev_get_rcu(const struct net_device *dev)
{
	return __in_dev_get_rcu(dev);
}

struct inet6_dev *rust_rdma_helper___in6_dev_get(const struct net_device *dev)
{
	return __in6_dev_get(dev);
}

u64 rust_rdma_helper_cmpxchg64(u64 *ptr, u64 old, u64 new)
{
	return cmpxchg64(ptr, old, new);
}

void rust_rdma_helper_copy_ifname(struct ib_device *device,
				  const struct net_device *dev)
{
	strscpy(device->iw_ifname, dev->name);
}

bool rust_rdma_helper_crc(void)
{
	return READ_ONCE(crc);
}

void rust_rdma_helper_dev_hold(struct net_device *dev)
{
	dev_hold(dev);
}

struct net *rust_rdma_helper_dev_net(const struct net_device *dev)
{
	return dev_net(dev);
}

void rust_rdma_helper_dev_put(struct net_device *dev)
{
	dev_put(dev);
}

struct mem_cgroup *rust_rdma_helper_get_mem_cgroup_from_current(void)
{
	return get_mem_cgroup_from_mm(current->mm);
}

enum ib_port_state rust_rdma_helper_ib_get_curr_port_state(struct net_device *dev)
{
	return ib_get_curr_port_state(dev);
}

enum ib_mtu rust_rdma_helper_ib_mtu_int_to_enum(int mtu)
{
	return ib_mtu_int_to_enum(mtu);
}

struct ib_umem *rust_rdma_helper_ib_umem_get_va(struct ib_device *device,
						unsigned long address,
						size_t size, int access)
{
	return ib_umem_get_va(device, address, size, access);
}

void rust_rdma_helper_init_waitqueue_func_entry(struct wait_queue_entry *entry,
						wait_queue_func_t function)
{
	init_waitqueue_func_entry(entry, function);
}

int rust_rdma_helper_ip6_sock_set_v6only(struct sock *sk)
{
	return ip6_sock_set_v6only(sk);
}

bool rust_rdma_helper_is_vlan_dev(const struct net_device *dev)
{
	return is_vlan_dev(dev);
}

sockptr_t rust_rdma_helper_KERNEL_SOCKPTR(void *p)
{
	return KERNEL_SOCKPTR(p);
}

int rust_rdma_helper_l3mdev_master_ifindex(struct net_device *dev)
{
	return l3mdev_master_ifindex(dev);
}

void rust_rdma_helper_lock_sock(struct sock *sk)
{
	lock_sock(sk);
}

struct net *rust_rdma_helper_maybe_get_net(struct net *net)
{
	return maybe_get_net(net);
}

void rust_rdma_helper_mem_cgroup_put(struct mem_cgroup *memcg)
{
	mem_cgroup_put(memcg);
}

u32 rust_rdma_helper_mulpdu(void)
{
	return READ_ONCE(mulpdu);
}

unsigned int rust_rdma_helper_netdev_mtu(const struct net_device *dev)
{
	return READ_ONCE(dev->mtu);
}

unsigned int rust_rdma_helper_num_possible_cpus(void)
{
	return num_possible_cpus();
}

pgprot_t rust_rdma_helper_PAGE_KERNEL(void)
{
	return PAGE_KERNEL;
}

u64 rust_rdma_helper_rdma_user_mmap_get_offset(const struct rdma_user_mmap_entry *entry)
{
	return rdma_user_mmap_get_offset(entry);
}

struct ib_ucontext *rust_rdma_helper_rdma_udata_to_ucontext(struct ib_udata *udata)
{
	return rdma_udata_to_uverbs_attr_bundle(udata)->context;
}

void rust_rdma_helper_read_lock_bh(rwlock_t *lock)
{
	read_lock_bh(lock);
}

void rust_rdma_helper_read_unlock_bh(rwlock_t *lock)
{
	read_unlock_bh(lock);
}

bool rust_rdma_helper_same_thread_group(struct task_struct *a,
					struct task_struct *b)
{
	return same_thread_group(a, b);
}

const char *rust_rdma_helper_sctp_addresses(void)
{
	return sctp_addresses;
}

/* bindgen lays out SCTP's structures wrongly: what is in them is read here. */
u32 rust_rdma_helper_sctp_frag_point(struct sock *sk)
{
	struct sctp_association *asoc;

	asoc = list_first_entry_or_null(&sctp_sk(sk)->ep->asocs,
					struct sctp_association, asocs);
	return asoc ? asoc->frag_point : 0;
}

/* The same of a packet in the receive queue. Returns the flags of its message. */
u16 rust_rdma_helper_sctp_skb_info(struct sk_buff *skb,
				   struct sctp_rcvinfo *info)
{
	const struct sctp_ulpevent *event = sctp_skb2event(skb);

	info->rcv_sid = event->stream;
	info->rcv_flags = event->flags;
	info->rcv_ppid = event->ppid;
	return event->msg_flags;
}

struct mem_cgroup *rust_rdma_helper_set_active_memcg(struct mem_cgroup *memcg)
{
	return set_active_memcg(memcg);
}

struct scatterlist *rust_rdma_helper_sg_next(struct scatterlist *sg)
{
	return sg_next(sg);
}

void *rust_rdma_helper_sg_virt(struct scatterlist *sg)
{
	return sg_virt(sg);
}

bool rust_rdma_helper_sk_stream_is_writeable(const struct sock *sk)
{
	return sk_stream_is_writeable(sk);
}

struct sk_buff *rust_rdma_helper_skb_peek(const struct sk_buff_head *list)
{
	return skb_peek(list);
}

struct sk_buff *rust_rdma_helper_skb_peek_next(struct sk_buff *skb,
					       const struct sk_buff_head *list)
{
	return skb_peek_next(skb, list);
}

void rust_rdma_helper_sock_set_flag(struct sock *sk, enum sock_flags flag)
{
	sock_set_flag(sk, flag);
}

bool rust_rdma_helper_tcp_epollin_ready(const struct sock *sk, int target)
{
	return tcp_epollin_ready(sk, target);
}

int rust_rdma_helper_tcp_inq(struct sock *sk)
{
	return tcp_inq(sk);
}

struct tcp_sock *rust_rdma_helper_tcp_sk(struct sock *sk)
{
	return tcp_sk(sk);
}

struct tcp_skb_cb *rust_rdma_helper_TCP_SKB_CB(struct sk_buff *skb)
{
	return TCP_SKB_CB(skb);
}

bool rust_rdma_helper_user(void)
{
	return user;
}

struct ib_udata *rust_rdma_helper_uverbs_attr_bundle_to_udata(struct uverbs_attr_bundle *attrs)
{
	return &attrs->driver_udata;
}

struct net_device *rust_rdma_helper_vlan_dev_real_dev(const struct net_device *dev)
{
	return vlan_dev_real_dev(dev);
}

bool rust_rdma_helper_vma_is_executable(const struct vm_area_struct *vma)
{
	return vma->vm_flags & VM_EXEC;
}

/* It does not grow, is in no core dump, and cannot become executable. */
void rust_rdma_helper_vma_restrict(struct vm_area_struct *vma)
{
	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_MAYEXEC);
}

void rust_rdma_helper_write_lock_bh(rwlock_t *lock)
{
	write_lock_bh(lock);
}

void rust_rdma_helper_write_unlock_bh(rwlock_t *lock)
{
	write_unlock_bh(lock);
}
