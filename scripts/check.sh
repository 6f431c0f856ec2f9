#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# All gates, in order of cost: a line for each with the time it took, what a failing one said, and a count at the end.
# A gate counts as one, and so does each single result of a host test or of a test in a VM.
#
# check.sh [fast|all|debug]: `fast` leaves out what needs a VM; `all` adds what takes long; `debug` is the tests in VMs on the
# debug kernel, and nothing else.
#
# CLIENT=c, SERVER=c and MODULE=c (a single VM) try the tests in VMs on the kernel's own module.

. "$(dirname "$0")/lib.sh"
cd "$top"

passed=0 failed=0 skipped=0
logs=$top/build/check

in_root() { scripts/enter "$@"; }

# gate NAME COMMAND...
gate() {
	local name=$1 log=$logs/${1// /-}.log start=$SECONDS word
	shift
	if "$@" >"$log" 2>&1; then
		word=ok passed=$((passed + 1))
	else
		word=FAILED failed=$((failed + 1))
	fi
	count_results "$log"
	printf '%-7s %-34s %4d s\n' "$word" "$name" $((SECONDS - start))
	if [ "$word" = FAILED ]; then
		said "$log" | tail -n 40 | sed 's/^/    /'
		printf '    the log is %s\n' "${log#"$top"/}"
	fi
}

# A log without what went well, and without what each test says of itself.
said() {
	grep -vE '^(# )*(ok |TAP version|1\.\.[0-9]+$|overriding timeout|selftests: |Totals: .* fail:0 .* error:0$)|^test .* ok$' "$1"
}

# Adds the results that a log has in it: cargo's totals, and KTAP's lines. A test that died counts with its own line.
count_results() {
	local good bad skip
	read -r good bad skip < <(awk '
		/^test result:/ { good += $4; bad += $6; skip += $8 }
		/^# ok .*# SKIP/ { skip++; next }
		/^# 1\.\.0 # SKIP/ { skip++; next }
		/^# ok / { good++ }
		/^# not ok / { bad++; inner++ }
		/^# selftests:/ { inner = 0 }
		/^not ok / && !inner { bad++ }
		END { print good + 0, bad + 0, skip + 0 }' "$1")
	passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + skip))
}

checkpatch() {
	in_root bash -o pipefail -c 'git -c safe.directory=/src ls-files "*.c" "*.h" |
		xargs perl /kernel/source/scripts/checkpatch.pl --no-tree --no-summary --terse --strict --ignore FILE_PATH_CHANGES --file'
}

# Warnings are errors here. What it builds is the module with its tests in it, for selftests/vm/inkernel.sh.
clippy() {
	in_root scripts/build-copy.sh "${KERNEL:+$KERNEL-}selftest" CLIPPY=1 RPCRDMA_SELFTEST=1 KRUSTFLAGS=-Dwarnings
}

host_tests() { in_root sh -c 'cd selftests/proto && nice cargo test --quiet'; }

crafted_peer() { in_root sh -ec 'cd selftests/peer; nice cargo clippy -q --release --locked -- -Dwarnings; nice cargo build -q --release --locked'; }

compiles() { scripts/build.sh module && ! grep -n warning build/module.log; }

# one_vm TEST...
one_vm() { in_root scripts/vm.py single --module "${MODULE:-rust}" --limit "$limit" -- "scripts/vm/kselftest $*"; }

# two_vms CLIENT SERVER TEST...
two_vms() {
	in_root scripts/vm.py pair --client "$1" --server "$2" --rdma "$rdma" --limit "$limit" -- "scripts/vm/kselftest ${*:3}"
}

fast() {
	gate rustfmt in_root scripts/fmt.sh --check
	gate shellcheck in_root sh -c 'grep -rlE "^#!/bin/(ba)?sh|^#!/bin/busybox|^# shellcheck shell" Makefile scripts selftests .ci |
		xargs shellcheck'
	gate 'unsafe code' scripts/unsafe.sh
	gate checkpatch checkpatch
	gate 'host tests of proto' host_tests
	gate 'crafted peer' crafted_peer
	gate conformance in_root scripts/conformance.py
	gate 'fuzz targets, a moment each' in_root nice selftests/fuzz/run.sh TIME=3
	gate clippy clippy
	gate 'module builds without a warning' compiles
	gate 'no panic in proto' in_root scripts/panicfree.sh rust/proto/lib.o
}

vms() {
	gate 'kselftests in one VM' one_vm single
	gate 'kselftests in two VMs' two_vms "${CLIENT:-rust}" "${SERVER:-rust}" pair
	gate "against the kernel's own server" two_vms rust c mount.sh callback.sh chunks.sh
	gate "against the kernel's own client" two_vms c rust mount.sh callback.sh chunks.sh
}

# Each fault so often that a rare race has its chance, and what takes its time by nature.
loops() {
	in_root scripts/vm.py pair --client "${CLIENT:-rust}" --server "${SERVER:-rust}" --limit 14400 -- \
		'DISCONNECTS=100 RESTARTS=10 REMOVALS=20 KILLS=20 TIMEOUT=7200 scripts/vm/kselftest long'
}

# Most of the thousand failures cost a connection.
failures() {
	in_root scripts/vm.py pair --client "${CLIENT:-rust}" --server "${SERVER:-rust}" --limit 18000 -- \
		'TIMEOUT=3600 scripts/vm/kselftest debug_failures'
}

# On a kernel that watches memory and locks, and makes things fail.
debug() {
	gate 'crafted peer' crafted_peer
	gate 'clippy, debug kernel' clippy
	gate 'module for the debug kernel' compiles
	gate 'kselftests in one VM, debug kernel' one_vm debug_single
	gate 'kselftests in two VMs, rxe' two_vms "${CLIENT:-rust}" "${SERVER:-rust}" debug_rxe
	gate 'failures on either side, rxe' failures
	rdma=siw
	gate 'kselftests in two VMs, siw' two_vms "${CLIENT:-rust}" "${SERVER:-rust}" debug_siw
}

limit=1800 rdma=rxe
if [ "${1:-}" = debug ]; then export KERNEL=debug; limit=7200 logs=$logs-debug; fi
scripts/buildroot.sh
rm -rf "$logs"
mkdir -p "$logs"
case ${1:-} in
fast) fast ;;
all)
	fast
	vms
	gate 'faults in loops' loops
	;;
debug) debug ;;
*) fast; vms ;;
esac

echo "$passed passed, $failed failed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
[ "$failed" -eq 0 ]
