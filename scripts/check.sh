#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the gates: a line for each with its time and its limit, what a failing one printed, and a count at the end. A gate
# counts as one, and so does each single result of a host test or of a test in a VM. No gate judges its time, except that it
# fails when it reaches its limit.
#
# check.sh [fast|all|kernels|debug|packages]
#   fast     the gates that need no VM
#   (none)   those, and the tests in VMs
#   all      those, and the tests that take long
#   kernels  the tests in VMs on each kernel of scripts/buildroot/series
#   debug    the tests in VMs on the debug kernel
#   packages the Debian packages: built, installed, upgraded and removed in chroots, and a mount in a VM
#
# CLIENT=c, SERVER=c and MODULE=c (a single VM) run the tests in VMs on the in-tree module.

. "$(dirname "$0")/lib.sh"
cd "$top"

passed=0 failed=0 skipped=0 word=
logs=$top/build/check

# gate NAME LIMIT COMMAND...: the limit is in seconds. The command keeps to it itself; it finds it in `limit`. Sets `word` to ok or FAILED.
gate() {
	local name=$1 limit=$2 log=$logs/${1//[!a-zA-Z0-9.]/-}.log start=$SECONDS
	shift 2
	if "$@" >"$log" 2>&1; then
		word=ok passed=$((passed + 1))
	else
		word=FAILED failed=$((failed + 1))
	fi
	count_results "$log"
	printf '%-7s %-44s %4d s of %4d s\n' "$word" "$name" $((SECONDS - start)) "$limit"
	slowest "$log"
	skips "$log" | sed 's/^/        skipped: /'
	if [ "$word" = FAILED ]; then
		relevant "$log" | tail -n 40 | sed 's/^/    /'
		printf '    the log is %s\n' "${log#"$top"/}"
	fi
}

in_root() { timeout -k 10 "$limit" scripts/enter "$@"; }

# Prints a log without the results that passed and without what each test prints about itself.
relevant() {
	grep -vE '^(# )*(ok |TAP version|1\.\.[0-9]+$|overriding timeout|selftests: |Totals: .* fail:0 .* error:0$|[^ ]+ took )|^test .* ok$' "$1"
}

# Prints which test of a VM came nearest to its limit, from the lines that tests print at their end.
slowest() {
	awk '/^# # [^ ]+ took [0-9]+ s of [0-9]+ s$/ && $5 / $8 >= most { most = $5 / $8; test = $3; took = $5; limit = $8 }
		END { if (test) printf "        %-44s %4d s of %4d s\n", "its slowest test: " test, took, limit }' "$1"
}

# Prints the skipped results of a log, each with its reason.
skips() { sed -nE 's/^(# )+(ok [0-9]+ |1\.\.0 )(.*) *# SKIP */\3: /p; s/^test (.* \.\.\. ignored.*)/\1/p' "$1" | sed "s/^: //"; }

# Adds the results in a log: cargo's totals, and KTAP's lines. A test script that ended without a result counts as one failure.
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

# The headers of trace points have the form that all such headers of the kernel have, which checkpatch.pl does not know.
checkpatch() {
	in_root bash -o pipefail -ec 'git -c safe.directory=/src ls-files "*.c" "*.h" ":!*_trace.h" |
			xargs perl /kernel/source/scripts/checkpatch.pl --no-tree --no-summary --terse --strict --ignore FILE_PATH_CHANGES --file
		git -c safe.directory=/src ls-files "*_trace.h" |
			xargs perl /kernel/source/scripts/checkpatch.pl --no-tree --no-summary --terse --strict \
				--ignore FILE_PATH_CHANGES,OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT --file'
}

# Warnings are errors here. What it builds is the module with its tests in it, for selftests/vm/inkernel.sh.
clippy() {
	in_root scripts/build-copy.sh "${KERNEL:+$KERNEL-}selftest" CLIPPY=1 RPCRDMA_SELFTEST=1 KRUSTFLAGS=-Dwarnings
}

import_circles() { in_root sh -ec 'scripts/import-cycles-test.py; scripts/import-cycles.py'; }

host_tests() { in_root sh -ec "cd selftests/$1; nice cargo test --quiet"; }

rdmap_clippy() { in_root sh -ec 'cd selftests/rdmap; nice cargo clippy -q --all-targets --locked -- -Dwarnings'; }

crafted_peer() { in_root sh -ec 'cd selftests/peer; nice cargo clippy -q --release --locked -- -Dwarnings; nice cargo build -q --release --locked'; }

compiles() { timeout -k 10 "$limit" scripts/build.sh module && ! grep -n warning build/module.log; }

# vm.py itself sees to the limit: it begins when the VMs start, after other runs of this machine have ended.
# one_vm LIST
one_vm() { scripts/enter scripts/vm.py single --module "${MODULE:-rust}" --limit "$limit" -- "$settings scripts/vm/kselftest $1"; }

# pair LIST [CLIENT SERVER]: two VMs, and which module each of them has.
pair() {
	scripts/enter scripts/vm.py pair --client "${2:-${CLIENT:-rust}}" --server "${3:-${SERVER:-rust}}" --rdma "$rdma" \
		--limit "$limit" -- "$settings scripts/vm/kselftest $1"
}

# The kernel's soft iWARP for the stock kernel, which lacks it.
siw() { timeout -k 10 "$limit" scripts/enter selftests/iwarp/siw.sh; }

# iwarp LIST [CLIENT SERVER [OPTION...]]: two VMs, and the RDMA device of each, which is iwarp-tcp if none is named. The options
# are those of vm.py.
iwarp() {
	scripts/enter scripts/vm.py pair --client "${CLIENT:-rust}" --server "${SERVER:-rust}" --rdma "${2:-iwarp-tcp}" \
		--peer-rdma "${3:-iwarp-tcp}" --limit "$limit" "${@:4}" -- "$settings scripts/vm/kselftest $1"
}

# What needs no VM.
fast() {
	gate 'format of the Rust sources' 120 in_root scripts/fmt.sh --check
	gate 'shellcheck' 300 in_root sh -c 'grep -rlE "^#!/bin/(ba)?sh|^#!/bin/busybox|^# shellcheck shell" Makefile scripts selftests .ci |
		xargs shellcheck'
	gate 'unsafe code' 60 scripts/unsafe.sh
	gate 'circles of imports' 120 import_circles
	gate 'checkpatch' 120 checkpatch
	gate 'which kernels the scripts choose and refuse' 120 in_root selftests/scripts/kernels.sh
	gate 'what rpcrdma-status says' 120 in_root selftests/scripts/status.sh
	gate 'host tests of proto' 1200 host_tests proto
	gate 'reasons in troubleshooting.md' 60 in_root scripts/reasons.py
	gate 'what finds sleeping threads of the server' 60 in_root sh -ec 'cd selftests/hostile; python3 -B -m unittest -q'
	gate 'second codec of iWARP' 120 in_root sh -ec 'cd selftests/iwpeer; python3 -B -m unittest -q'
	gate 'host tests of rdmap' 600 host_tests rdmap
	gate 'clippy of rdmap' 300 rdmap_clippy
	gate 'conformance' 600 in_root scripts/conformance.py
	gate 'fuzz targets, 3 s each' 900 in_root nice selftests/fuzz/run.sh TIME=3
	builds
	gate 'trace points cost one NOP' 60 in_root scripts/tracepoints.py rpcrdma.ko
	gate 'no panic in proto' 60 in_root scripts/panicfree.sh rust/proto/lib.o
	gate 'no panic in rdmap' 120 in_root selftests/rdmap/panicfree.sh
}

# builds [PREFIX]: what the tests in VMs need. The prefix is of the gates' names.
builds() {
	gate "${1:-}crafted peer" 600 crafted_peer
	gate "${1:-}layout of the bindings" 600 in_root scripts/layout.sh
	gate "${1:-}clippy, and the tests in the kernel" 900 clippy
	gate "${1:-}the module builds without a warning" 900 compiles
}

# vms [PREFIX]: the tests in VMs. Each list is one boot. The limits are at least four times what a list takes on two CPUs that do nothing else.
vms() {
	gate "${1:-}one VM" 900 one_vm single
	gate "${1:-}two VMs: data and messages" 1800 pair data
	gate "${1:-}two VMs: mounts and connections" 1800 pair mounts
	gate "${1:-}two VMs: faults during I/O" 1800 pair faults
	gate "${1:-}two VMs: the crafted peer" 1800 pair crafted_peer
	gate "${1:-}two VMs: against the in-tree server" 1200 pair in_tree rust c
	gate "${1:-}two VMs: against the in-tree client" 1200 pair in_tree c rust
	gate "${1:-}siw builds" 300 siw
	settings='ROUNDS=3' gate "${1:-}iWARP: one VM" 900 one_vm iwarp_single
	gate "${1:-}iWARP: two VMs" 900 iwarp iwarp
	gate "${1:-}iWARP: two VMs, siw on the server" 600 iwarp iwarp_siw iwarp-tcp siw
	gate "${1:-}iWARP: two VMs, siw on the client" 600 iwarp iwarp_siw siw iwarp-tcp
	rdma=iwarp-sctp gate "${1:-}iWARP: two VMs, SCTP" 1200 pair iwarp_sctp
}

# What takes long: the long forms of the tests, and each fault so often that a rare race has its chance.
long() {
	settings='LONG_FORMS=yes TIMEOUT=1800 PEER_CONNECTIONS=200 PEER_CONNECTS=400 PEER_ROUNDS=40 PEER_BITS=3 PEER_LIMIT=900'
	gate 'long: two VMs' 7200 pair long
	gate 'long: against the in-tree server' 3600 pair long_in_tree rust c
	gate 'long: against the in-tree client' 3600 pair long_in_tree c rust
	settings='LONG_FORMS=yes TIMEOUT=3600' gate 'long: iWARP, one VM' 7200 one_vm long_iwarp
	settings='LONG_FORMS=yes TIMEOUT=6000' gate 'long: iWARP, two VMs, little memory' 7200 \
		iwarp long_iwarp_memory iwarp-tcp iwarp-tcp --memory 512M --peer-memory 2G
	settings='' gate 'long: iWARP, two VMs, SCTP, little memory' 2400 \
		iwarp long_iwarp_memory iwarp-sctp iwarp-sctp --memory 512M --peer-memory 2G
	settings='LONG_FORMS=yes DISCONNECTS=100 RESTARTS=10 REMOVALS=20 KILLS=20 LOSSES=2 TIMEOUT=7200'
	gate 'long: faults in loops' 14400 pair loops
}

# The tests in VMs on each kernel of the list, which names series; the newest release of each is taken.
kernels() {
	local list kernel
	mapfile -t list < <(tried_series)
	for kernel in "${list[@]}"; do
		export KVER=$kernel
		gate "$kernel: the build root" 3600 timeout 3600 scripts/buildroot.sh
		if [ "$word" = FAILED ]; then continue; fi
		builds "$kernel: "
		vms "$kernel: "
	done
}

# On a kernel that checks each access to memory and the order of locks, and makes allocations fail.
debug() {
	builds
	gate 'debug kernel: make KDIR=' 900 self_made 'modprobe -a rpcrdma iwarp && cat /sys/module/rpcrdma/version && rmmod rpcrdma iwarp'
	gate 'debug kernel: one VM' 3600 one_vm debug_single
	gate 'debug kernel: two VMs, rxe' 14400 pair debug_rxe
	settings='TIMEOUT=3600 FAILURES=200 DISCONNECTS=10'
	gate 'debug kernel: failures on either side, rxe' 7200 pair debug_failures
	settings='' rdma=siw
	gate 'debug kernel: two VMs, siw' 7200 pair debug_siw
	settings='ROUNDS=3'
	gate 'debug kernel: iWARP, one VM' 3600 one_vm debug_iwarp_single
	gate 'debug kernel: iWARP, two VMs' 3600 iwarp debug_iwarp
	settings='TIMEOUT=3600 DISCONNECTS=2'
	gate 'debug kernel: iWARP, two VMs, SCTP' 7200 iwarp debug_iwarp_sctp iwarp-sctp iwarp-sctp
}

lintian() {
	ROOT_DIR=$(scripts/packaging/roots.sh tools) KERNEL_DIR=$recipe timeout -k 10 "$limit" scripts/enter \
		sh -c 'lintian --allow-root --fail-on error --tag-display-limit 0 /src/build/deb/*.deb'
}

# self_made [COMMAND]: what docs/install.md says of a kernel that one has built; with a command, that runs with these modules in a VM.
self_made() {
	in_root selftests/scripts/self-made.sh || return
	[ $# -eq 0 ] || scripts/enter scripts/vm.py single --built /src/build/self-made --limit "$limit" -- "$1"
}

packages_work() { limit=3600 selftests/packages/packages.sh; }

# The packages of two builds have the same checksums.
reproducible() {
	timeout -k 10 "$limit" scripts/packaging/release.sh build/release/1 && timeout -k 10 "$limit" scripts/packaging/release.sh build/release/2 &&
		diff build/release/1/SHA256SUMS build/release/2/SHA256SUMS
}

packages() {
	gate 'the packages build' 7200 timeout -k 10 7200 scripts/packaging/deb.sh
	if [ "$word" = FAILED ]; then return; fi
	gate 'lintian' 600 lintian
	gate 'install, upgrade, refuse, remove, mount' 14400 packages_work
	gate 'make KDIR=' 900 self_made
	gate 'two releases of a commit are the same' 3600 reproducible
}

rdma=rxe settings=
if [ "${1:-}" = debug ]; then export KERNEL=debug; logs+=-debug; fi
case ${1:-} in kernels | packages) ;; *) scripts/buildroot.sh ;; esac
rm -rf "$logs"
mkdir -p "$logs"
case ${1:-} in
fast) fast ;;
all) fast; vms; long ;;
kernels) kernels ;;
debug) debug ;;
packages) packages ;;
'') fast; vms ;;
*) die "there are no gates called $1" ;;
esac

printf 'all gates took %d min %d s\n' $((SECONDS / 60)) $((SECONDS % 60))
echo "$passed passed, $failed failed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
[ "$failed" -eq 0 ]
