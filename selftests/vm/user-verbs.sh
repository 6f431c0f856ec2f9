#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Programs of Debian use the device of a pair, without privileges, by the library that it has for siw: connections, messages, RDMA
# Reads and Writes, with data that they verify; and perftest, which measures them.
#
# ROUNDS= messages of each program, instead of 20, or 1,000 with LONG_FORMS=yes.

. ./lib.sh
. ./programs.sh
need_user_verbs

rounds=20
! long_form || rounds=1000
rounds=${ROUNDS:-$rounds}
# shellcheck disable=SC2153 # the VM sets them
declare -A address=([server]=$SERVER_ADDR [client]=$CLIENT_ADDR)

# pings MACHINE SIZE: rping with a server there. A round is a Send, an RDMA Read, a Send, and an RDMA Write, and the data are compared.
pings() { between "$1" 7174 "rping -s -a ${address[$1]} -C $rounds -S $2 -V" "rping -c -a ${address[$1]} -C $rounds -S $2 -V"; }

# ping_when_taken NAME: rping, which begins again as long as it is refused. rping's server listens with a backlog of three, and the
# kernel refuses who comes while that many wait to be accepted.
ping_when_taken() {
	local left=20
	until bash -c "$as_nobody rping -c -a $SERVER_ADDR -C $rounds -S 4000 -V" >"/tmp/$1" 2>&1; do
		cat "/tmp/$1"
		grep -q 'RDMA_CM_EVENT_REJECTED, error -111' "/tmp/$1" && ((--left)) || return
		sleep 0.2
	done
	cat "/tmp/$1"
}

# Eight clients of one server at once.
many_ping() {
	local client clients=() status=0
	start server program "$as_nobody rping -s -P -a $SERVER_ADDR -V"
	listens server 7174 || return
	for client in {1..8}; do
		ping_when_taken "ping-$client" &
		clients+=($!)
	done
	for client in "${clients[@]}"; do wait "$client" || status=$?; done
	stop server program
	return "$status"
}

shown="transport|fw_ver|vendor|max_(sge|mr|cq|qp|srq|pd)|state:"
shows() { ibv_devinfo -v -d "$RDMA_DEVICE" | tee >(grep -E "$shown" >&2) | grep -qE "$1"; }

# The queue pair of a program has its name, as long as it is there.
has_owner() {
	start server program "$as_nobody rping -s -a $SERVER_ADDR"
	listens server 7174 || return
	start client program "$as_nobody rping -c -a $SERVER_ADDR"
	local tries=100 kind
	for kind in qp cq pd; do
		until rdma resource show "$kind" | grep -E 'comm \[?rping'; do
			((--tries)) || { rdma resource show "$kind"; return 1; }
			sleep 0.1
		done
	done
	pkill -KILL -x rping
	# The other end is told.
	on_server "until [ -s /tmp/program.status ]; do sleep 0.1; done"
}

# A process that is stopped makes its peer wait, and nobody else.
pinged() { wc -c </tmp/pinger.log; }
goes_on() {
	local before tries=200
	before=$(pinged)
	until [ "$(pinged)" -gt "$before" ]; do
		((--tries)) || { echo "nothing is sent"; return 1; }
		sleep 0.1
	done
}
waits_for_stopped() {
	local status=0 before
	start server stopped "$as_nobody rping -s -a $SERVER_ADDR -p 7180 -S 4000"
	listens server 7180 || return
	start client pinger "$as_nobody rping -c -v -a $SERVER_ADDR -p 7180 -S 4000"
	goes_on && on_server "pkill -STOP -x rping" && sleep 1 && before=$(pinged) && pings client 64 && [ "$(pinged)" -eq "$before" ] || status=$?
	on_server "pkill -CONT -x rping" && goes_on || status=$?
	stop client pinger
	on_server "until [ -s /tmp/stopped.status ]; do sleep 0.1; done"
	return "$status"
}

plan 34
check "ibv_devinfo: the transport is iWARP" shows 'transport:.*iWARP'
check "ibv_devinfo: the port is active" shows 'state:.*PORT_ACTIVE'
check "ibv_devinfo: it has a vendor, and a version" shows 'vendor_id:.*0x[0-9a-f]*[1-9a-f]'
check "ibv_devinfo: six entries in a list" shows 'max_sge:\s*6$'
# A user may have an eighth of the objects of a device.
for objects in mr cq qp srq; do check "ibv_devinfo: max_$objects is what a user may have" shows "max_$objects:\s*131072$"; done
check "ibv_devinfo: max_pd is what a user may have" shows 'max_pd:\s*16384$'
check "ibv_devinfo: no flags, as the library has no fast registrations" shows 'device_cap_flags:\s*0x0*$'
for size in 64 4096 65000; do
	check "rping to the server, $size octets" pings server "$size"
	check "rping from the server, $size octets" pings client "$size"
done
check "eight clients of rping at once" many_ping
check "rdma_client" between server 7471 "rdma_server -s $SERVER_ADDR" "rdma_client -s $SERVER_ADDR"
check "ucmatose" between server 7471 "ucmatose -b $SERVER_ADDR -c 10 -C 10 -S 4096" "ucmatose -s $SERVER_ADDR -c 10 -C 10 -S 4096"
# Not cmtime: in its second part it connects without queue pairs, which iWARP cannot do; and its programs also speak over TCP at the
# port of RDMA, which a listener on iwarp-tcp has for itself.
# Shows T21.
check "a process that is stopped makes only its peer wait" waits_for_stopped
check "rdma resource show has the owner's name, and a killed process is missed" has_owner
for program in ib_send_bw ib_write_bw ib_read_bw ib_send_lat ib_write_lat ib_read_lat; do
	check "$program" perftest "$program" -n "$rounds" -s 65536
done
check "ib_send_lat, data in the queue entry" perftest ib_send_lat -n "$rounds" -s 16 -I 64
# Not ib_send_bw: its ends number their queue pairs in the order of connections, which need not be the same at both. Then the credits
# of a queue pair go to another one, and what gets more than it has sent waits for ever.
check "ib_write_bw, four queue pairs" perftest ib_write_bw -n "$rounds" -s 4096 -q 4
# Not with several queue pairs: it lets each of them send as much as there are Receives for all, and iWARP does not send again what
# finds none.
check "ib_send_bw, a shared receive queue" perftest ib_send_bw -n "$rounds" -s 4096 --use-srq
check "ib_send_lat, a shared receive queue" perftest ib_send_lat -n "$rounds" -s 64 --use-srq
check "ib_write_bw, both ways" perftest ib_write_bw -n "$rounds" -s 65536 -b
check "NFS over the device meanwhile" serves meanwhile mount_nfs 3
check "nothing of a process is left when it has ended" nothing_left
finish
