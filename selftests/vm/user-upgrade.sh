#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# An upgrade while programs have a device, in one VM: another build of iwarp.ko is installed, as DKMS does it, and replaces the one that
# is loaded when that is removed. docs/iwarp.md has what comes of it.

. ./lib.sh
clear_logs

user=$test_programs/user
[ -x "$user" ] || cannot_run "the hostile process is built (\`scripts/enter scripts/programs.sh\` does)"
type=iwarp-tcp
[ "${RDMA:-}" != iwarp-sctp ] || type=iwarp-sctp
if ! modprobe -a iwarp rdma_ucm ib_uverbs || ! modprobe dummy numdummies=0; then cannot_run "there are user verbs"; fi
device=iw9 limit=300
[[ $KERNEL != *debug ]] || limit=600
add() { rdma link add $device type $type netdev u0; }
if ! ip link add u0 type dummy || ! ip address add 10.10.0.1/24 dev u0 || ! ip link set u0 up || ! add; then cannot_run "there is a device"; fi

# run_user COMMAND...: of the hostile process, as nobody in particular.
run_user() {
	DEVICE=$device ADDRESS=10.10.0.1 timeout "$limit" setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --no-new-privs \
		"$user" "$@"
}
works() { run_user run accepting_end_sends_first; }
# begins NAME COMMAND: a process that says something when it has begun. How it ended is in a file then.
begins() {
	local tries=600
	: >"/tmp/$1.log" # of this boot there may be one of another test
	{ (
		run_user "$2" </tmp/input >"/tmp/$1.log" 2>&1
		echo $? >"/tmp/$1.ended"
	) & }
	until grep -q . "/tmp/$1.log"; do ((--tries)) || return 1; sleep 0.1; done
}
# One that uses the device all the time, one that waits for what becomes of it, and one that has objects and waits for input.
mkfifo /tmp/input
# shellcheck disable=SC2034 # whoever reads finds no end as long as this is open
begin() { exec {input}<>/tmp/input && begins traffic traffic && begins waits device-goes && begins holds victim; }
go_on() {
	local name
	for name in ${1:-traffic waits holds}; do
		if [ ! -s "/tmp/$name.log" ] || [ -e "/tmp/$name.ended" ]; then
			cat "/tmp/$name.log"
			return 1
		fi
	done
}
# ends NAME STATUS: it ends by itself, in that way.
ends() {
	local tries=600
	until [ -e "/tmp/$1.ended" ]; do ((--tries)) || return; sleep 0.1; done
	cat "/tmp/$1.log" "/tmp/$1.ended"
	[ "$(cat "/tmp/$1.ended")" -eq "$2" ]
}

file=$(modinfo -n iwarp)
srcversion() { cat /sys/module/iwarp/srcversion; }
installed() { modinfo -F srcversion iwarp; }
loaded=$(srcversion)
other=$(tr 0-9A-F 1-9A-F0 <<<"$loaded")
# Another build has another number. The file is a new one, as what is loaded may have been read from the other.
installs() {
	LC_ALL=C sed "s/srcversion=$loaded/srcversion=$other/" "$file" >/tmp/iwarp.ko && mv /tmp/iwarp.ko "$file" && [ "$(installed)" = "$other" ] &&
		[ "$(srcversion)" = "$loaded" ] && sleep 1 && go_on
}
status() { "$scripts/packaging/rpcrdma-status" >/tmp/status; cat /tmp/status; }
# The one with traffic has no context between two connections.
both_are_named() {
	local tries=100
	until status && [ "$(grep -c "process [0-9]*, on $device\$" /tmp/status)" -ge 3 ]; do ((--tries)) || return; sleep 0.1; done
	grep -q 'Another build of iwarp.ko runs than is installed' /tmp/status
}
old_build_serves() { works && [ "$(srcversion)" = "$loaded" ] && go_on; }
# Nobody is asked, and nobody keeps it: not those who wait for events, and not those who do nothing.
goes() { timeout 20 modprobe -r iwarp && ! rdma link show | grep $device && [ ! -e /sys/module/iwarp ]; }
comes_back() { add && [ "$(srcversion)" = "$(installed)" ] && works && go_on holds; }
last_ends() { echo >/tmp/input && ends holds 0 && works; }
one_is_named() { status; ! grep -e 'Another build of iwarp.ko' -e "on $device\$" /tmp/status; }
nothing_left() {
	local tries=100 kind
	while for kind in qp cq mr pd cm_id ctx srq; do rdma resource show $kind; done | grep ' pid '; do ((--tries)) || return 1; sleep 0.1; done
}

begin
plan 11
check "three processes have the device" go_on
check "another build is installed, and they go on" installs
check "rpcrdma-status says that, and names them" both_are_named
check "a program that begins then uses the build that is loaded" old_build_serves
check "the module is removed: they do not keep it" goes
check "what was under way ends with an error" ends traffic 1
check "who waits for events is told" ends waits 0
check "the new build is loaded when a device is added, beside a process of the old one" comes_back
check "that ends, and leaves nothing" eval "last_ends && nothing_left"
check "rpcrdma-status finds nothing of that any more" one_is_named
check "the device goes with its network device" eval "ip link del u0 && ! rdma link show | grep $device"
finish
