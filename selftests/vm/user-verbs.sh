#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Programs of Debian use the device of a pair, without privileges, by the library that it has for siw: connections, messages, RDMA
# Reads and Writes, with data that they verify; and perftest, which measures them.
#
# ROUNDS= messages of each program, instead of 100, or 10,000 with LONG_FORMS=yes.

. ./lib.sh
need_pair

rounds=100
! long_form || rounds=10000
rounds=${ROUNDS:-$rounds}
limit=60
[[ $KERNEL != *debug ]] || limit=240

# The device with user verbs, on both machines: the module has them if it is told so when it is loaded.
with_user_verbs="modprobe -a rdma_ucm ib_uverbs"
if [[ $RDMA = iwarp-* ]]; then
	with_user_verbs+=" && rdma link del $RDMA_DEVICE && rmmod iwarp && modprobe iwarp user=1 &&
		rdma link add $RDMA_DEVICE type $RDMA netdev eth0"
fi
if ! eval "$with_user_verbs" || ! on_server "$with_user_verbs"; then cannot_run "the device has user verbs"; fi

# What begins a program: as nobody in particular, who may lock as much memory as he likes.
as_nobody="ulimit -l unlimited; exec timeout $limit setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --no-new-privs"

# on MACHINE COMMAND: runs a shell command on `client`, which is this machine, or `server`.
on() { if [ "$1" = server ]; then on_server "$2"; else bash -c "$2"; fi; }

# What is a program's to do on a machine is in /tmp/NAME.log and, once it has ended, in /tmp/NAME.status.
start() {
	on "$1" "rm -f /tmp/$2.status
		{ (${*:3}) >/tmp/$2.log 2>&1 & echo \$! >/tmp/$2.pid; wait \$!; echo \$? >/tmp/$2.status; } >/dev/null 2>&1 </dev/null 3>&- 4>&- &"
}
stop() { on "$1" "kill \$(cat /tmp/$2.pid)"; }
ended() {
	on "$1" "until [ -e /tmp/$2.status ]; do sleep 0.1; done; read -r status </tmp/$2.status
		[ \$status -eq 0 ] || { echo 'on the $1:'; tail -n 20 /tmp/$2.log; exit \$status; }"
}
listens() {
	on "$1" "for _ in {1..200}; do rdma resource show cm_id | grep -q 'LISTEN.*:$2 ' && exit; sleep 0.1; done
		echo 'nobody listens on the $1:'; rdma resource show cm_id; exit 1"
}

# between MACHINE PORT SERVER CLIENT: runs one program on that machine and, once it listens on that port, the other program on the
# other machine. Either has to succeed. A client that fails may leave a server that waits for ever.
between() {
	local other=client status=0
	if [ "$1" = client ]; then other=server; fi
	start "$1" program "$as_nobody $3"
	listens "$1" "$2" && on "$other" "($as_nobody $4) 2>&1 | tail -n 20; exit \${PIPESTATUS[0]}" || status=$?
	[ "$status" -eq 0 ] || stop "$1" program
	ended "$1" program && return "$status"
}

# shellcheck disable=SC2153 # the VM sets them
declare -A address=([server]=$SERVER_ADDR [client]=$CLIENT_ADDR)

# pings MACHINE SIZE: rping with a server there. A round is a Send, an RDMA Read, a Send, and an RDMA Write, and the data are compared.
pings() { between "$1" 7174 "rping -s -a ${address[$1]} -C $rounds -S $2 -V" "rping -c -a ${address[$1]} -C $rounds -S $2 -V"; }

# Eight clients of one server at once.
many_ping() {
	local client clients=() status=0
	start server program "$as_nobody rping -s -P -a $SERVER_ADDR -V"
	listens server 7174 || return
	for client in {1..8}; do
		bash -c "$as_nobody rping -c -a $SERVER_ADDR -C $rounds -S 4000 -V" &
		clients+=($!)
	done
	for client in "${clients[@]}"; do wait "$client" || status=$?; done
	stop server program
	return "$status"
}

shows() { ibv_devinfo -v -d "$RDMA_DEVICE" | tee >(grep -E "transport|fw_ver|vendor|max_sge|state:" >&2) | grep -qE "$1"; }

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
	on_server "until [ -e /tmp/program.status ]; do sleep 0.1; done"
}

# Objects of a process, on either machine.
processes_have() { for kind in qp cq mr pd cm_id ctx; do rdma resource show "$kind"; done | grep ' pid '; }
nothing_left() {
	local tries=100
	while processes_have || on_server "$(declare -f processes_have); processes_have"; do
		((--tries)) || return 1
		sleep 0.1
	done >/vm/left || { cat /vm/left; return 1; }
}

# perftest PROGRAM [OPTION...]
perftest() { between server 18515 "$1 -R -F -n $rounds ${*:2}" "$1 -R -F -n $rounds ${*:2} $SERVER_ADDR"; }

plan 26
check "ibv_devinfo: the transport is iWARP" shows 'transport:.*iWARP'
check "ibv_devinfo: the port is active" shows 'state:.*PORT_ACTIVE'
check "ibv_devinfo: it has a vendor, and a version" shows 'vendor_id:.*0x[0-9a-f]*[1-9a-f]'
check "ibv_devinfo: six entries in a list" shows 'max_sge:\s*6$'
for size in 64 4096 65000; do
	check "rping to the server, $size octets" pings server "$size"
	check "rping from the server, $size octets" pings client "$size"
done
check "eight clients of rping at once" many_ping
check "rdma_client" between server 7471 "rdma_server -s $SERVER_ADDR" "rdma_client -s $SERVER_ADDR"
check "ucmatose" between server 7471 "ucmatose -b $SERVER_ADDR -c 10 -C 10 -S 4096" "ucmatose -s $SERVER_ADDR -c 10 -C 10 -S 4096"
check "cmtime, $rounds connections" between server 7471 "cmtime -b $SERVER_ADDR -c $rounds" "cmtime -s $SERVER_ADDR -c $rounds"
check "rdma resource show has the owner's name, and a killed process is missed" has_owner
for program in ib_send_bw ib_write_bw ib_read_bw ib_send_lat ib_write_lat ib_read_lat; do
	check "$program" perftest "$program" -s 65536
done
check "ib_send_lat, data in the queue entry" perftest ib_send_lat -s 16 -I 64
check "ib_send_bw, four queue pairs and events" perftest ib_send_bw -s 4096 -q 4 -e
check "ib_write_bw, both ways" perftest ib_write_bw -s 65536 -b
check "NFS over the device meanwhile" serves meanwhile mount_nfs 3
check "nothing of a process is left when it has ended" nothing_left
finish
