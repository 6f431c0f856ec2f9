# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What tests of user verbs share: programs on both machines of a pair, one of which listens. To be sourced after lib.sh.
#
# PROGRAM_LIMIT= seconds for each program, instead of 60, or 240 over SCTP and on a kernel that looks for faults.

limit=60
# shellcheck disable=SC2153 # the VM sets it
if [[ $KERNEL = *debug || $RDMA = iwarp-sctp ]]; then limit=240; fi
limit=${PROGRAM_LIMIT:-$limit}

# has_user_verbs: whether the devices of a pair have user verbs, as all have by default. What they take is loaded, as libraries do.
has_user_verbs() {
	# Each machine has values of its own.
	# shellcheck disable=SC2016
	local load='modprobe -a rdma_ucm ib_uverbs && grep -hx "$RDMA_DEVICE" /sys/class/infiniband_verbs/uverbs*/ibdev'
	eval "$load" && on_server "$load"
}
need_user_verbs() {
	need_pair
	has_user_verbs >/dev/null || cannot_run "the devices have user verbs"
}

# What begins a program: as nobody in particular, who may lock as much memory as he likes.
as_nobody="ulimit -l unlimited; exec timeout $limit setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --no-new-privs"

# on MACHINE COMMAND: runs a shell command on `client`, which is this machine, or `server`.
on() { if [ "$1" = server ]; then on_server "$2"; else bash -c "$2"; fi; }

# start MACHINE NAME COMMAND: begins a program. What it says is in /tmp/NAME.log and, once it has ended, its exit status in
# /tmp/NAME.status. The log and the number of its process are there when this returns, and nothing of an earlier program is.
start() {
	on "$1" "rm -f /tmp/$2.{pid,status}; : >/tmp/$2.log
		{ (${*:3}) >/tmp/$2.log 2>&1 & echo \$! >/tmp/$2.pid; wait \$!; echo \$? >/tmp/$2.status; } >/dev/null 2>&1 </dev/null 3>&- 4>&- &
		until [ -s /tmp/$2.pid ]; do sleep 0.05; done"
}
stop() { on "$1" "kill \$(cat /tmp/$2.pid)"; }
ended() {
	on "$1" "until [ -s /tmp/$2.status ]; do sleep 0.1; done; read -r status </tmp/$2.status
		[ \$status -eq 0 ] || { echo 'on the $1:'; tail -n 20 /tmp/$2.log; exit \$status; }"
}
# listens MACHINE PORT: waits until a program there listens on that port, which a device for iWARP does by a socket. The connection
# manager says that it listens a little before it does.
listens() {
	on "$1" "for _ in {1..200}; do $(listening "$2") && exit; sleep 0.1; done
		echo 'nobody listens on the $1:'; rdma resource show cm_id; exit 1"
}
# is_free MACHINE PORT: waits until nobody does: the listener of a program that has ended goes a little later.
is_free() { on "$1" "for _ in {1..200}; do $(listening "$2") || exit 0; sleep 0.1; done; exit 1"; }
listening() {
	echo "{ ss -Hln --tcp --sctp 'sport = :$1' | grep . || { [ $RDMA = rxe ] && rdma resource show cm_id | grep 'LISTEN.*:$1 ' && sleep 1; }; }"
}

# between MACHINE PORT SERVER CLIENT: runs one program on that machine and, once it listens on that port, the other program on the
# other machine. Either has to succeed. A client that fails may leave a server that waits for ever.
between() {
	local other=client status=0
	if [ "$1" = client ]; then other=server; fi
	is_free "$1" "$2" || return
	start "$1" program "$as_nobody $3"
	listens "$1" "$2" && on "$other" "($as_nobody $4) 2>&1 | tail -n 20; exit \${PIPESTATUS[0]}" || status=$?
	[ "$status" -eq 0 ] || stop "$1" program
	ended "$1" program && return "$status"
}

# perftest_once PROGRAM OPTION...: one of these programs, with a server on the other machine.
perftest_once() {
	local status=0
	between server 18515 "$1 -R -F ${*:2}" "$1 -R -F ${*:2} $SERVER_ADDR" >/tmp/perftest 2>&1 || status=$?
	cat /tmp/perftest
	return "$status"
}

# perftest PROGRAM OPTION...: the same. It connects twice, and its server listens anew for the second time. If the client is there first, as
# on a busy machine, nobody listens, and it is refused: both begin again.
perftest() {
	local left=3
	until perftest_once "$@"; do
		grep -q 'Event: RDMA_CM_EVENT_REJECTED; error: -111' /tmp/perftest && ((--left)) || return
	done
}

# served PORT SERVER CLIENT: as `between server`, with a server that goes on until it is stopped.
served() {
	local status=0
	is_free server "$1" || return
	start server program "$as_nobody $2"
	listens server "$1" && on client "($as_nobody $3) 2>&1 | tail -n 30; exit \${PIPESTATUS[0]}" || status=$?
	stop server program
	[ "$status" -eq 0 ] || ended server program
	return "$status"
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
