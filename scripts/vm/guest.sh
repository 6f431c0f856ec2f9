#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Second stage of a VM's start, and its process 1: file systems, network and RDMA device by the VM's role; then the
# command, whose output goes to a port of its own and whose exit status goes to the shared directory /vm.
#
# Roles: single (alone), client and server (a pair on one wire; the server obeys on-server and exports /export).

export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=${TERM:-dumb} LANG=C.UTF-8

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t debugfs debug /sys/kernel/debug
mount -t tracefs trace /sys/kernel/tracing
mkdir -p /dev/pts /dev/shm
mount -t devpts -o ptmxmode=666 devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mkdir /run/lock
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr

# shellcheck source=/dev/null
. /vm/config
case $RDMA in
iwarp-*) RDMA_DEVICE=iw0 ;;
*) RDMA_DEVICE=${RDMA}0 ;;
esac
export MODULE KERNEL RDMA RDMA_DEVICE PEER_RDMA STRICT DMA
# Virtual CPUs that wait long for a real one are late to serve the tasks that starve, and the scheduler warns of that.
for file in /sys/kernel/debug/sched/fair_server/cpu*/runtime; do
	if [[ $KERNEL = *debug && -e $file ]]; then echo 0 >"$file"; fi
done
# Holes of files are read from the page of zeros, which the debugging of DMA takes for read-only data of the kernel; after that report it
# has no other. This lets it report on no device, as none has a driver of that name. The strict device itself finds what is wrong, but not
# where the machine maps memory (vm.py --dma): there the debugging of DMA reports all that it finds.
if [[ -n $STRICT && $ROLE != single && -e /sys/kernel/debug/dma-api/driver_filter ]]; then
	if [ -n "$DMA" ]; then echo 1 >/sys/kernel/debug/dma-api/all_errors; else echo none >/sys/kernel/debug/dma-api/driver_filter; fi
fi
hostname "$ROLE"
ip link set lo up
echo 1 >/proc/sys/kernel/printk_devkmsg 2>/dev/null

finish() {
	echo "$1" >/vm/status
	dmesg >/vm/dmesg
	sync
	echo o >/proc/sysrq-trigger
	# No program: the file systems may be gone before the power is, and this process must not end.
	while :; do :; done
}

# One end of the wire: an Ethernet device with rxe, siw, iwarp-tcp or iwarp-sctp on it, as RDMA device rxe0, siw0 or iw0.
wire() {
	if [[ $KERNEL = uml* ]]; then ip link set vec0 name eth0; else modprobe virtio_net; fi
	# If the network device drops a packet from its transmit queue, rxe puts the queue pair in error state. If that is the GSI queue
	# pair of the connection manager, nothing connects any more until the RDMA device is deleted and added again.
	ip link set eth0 mtu 4500 txqueuelen 20000 up
	ip address add "10.0.0.$1/24" dev eth0
	ip address add "fd00::$1/64" dev eth0 nodad
	rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0
}

# Where the output of the command goes, and where a shell has its terminal.
if [[ $KERNEL = uml* ]]; then
	port=ttyS0 terminal=ttyS0
	[ -z "$COMMAND" ] || stty -F /dev/ttyS0 raw -echo -opost
else
	port=$(cd /sys/class/virtio-ports && grep -lx command ./*/name 2>/dev/null | cut -d/ -f2)
	terminal=hvc0
fi

# vm.py waits for this file. What comes after it may load the module under test.
booted() { touch /vm/booted; }

case $ROLE in
single) booted ;;
client)
	wire 2
	booted
	export SERVER_ADDR=10.0.0.1 SERVER_ADDR6=fd00::1 CLIENT_ADDR=10.0.0.2 CLIENT_ADDR6=fd00::2
	until [ -e /vm/pair/ready ]; do
		[ ! -e /vm/pair/failed ] || { echo "the server does not start; its console says why" >"/dev/${port:-console}"; finish 1; }
		sleep 0.2
	done
	;;
server)
	wire 1
	booted
	if /src/scripts/vm/nfs-server start; then touch /vm/pair/ready; else touch /vm/pair/failed; fi
	exec 3>/vm/commands.log
	/src/scripts/vm/on-server --serve >&3 2>&1
	finish 0
	;;
esac

cd /src || finish 1
if [ -n "$COMMAND" ]; then
	bash -c "$COMMAND" </dev/null >"/dev/$port" 2>&1
	finish $?
fi
modprobe rpcrdma
stty sane rows "${ROWS:-24}" cols "${COLUMNS:-80}" <"/dev/$terminal"
setsid -c bash -l <"/dev/$terminal" >"/dev/$terminal" 2>&1
finish $?
