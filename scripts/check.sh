#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the gates: a line for each with its time and its limit, what a failing one printed, and a count at the end. A gate
# counts as one, and so does each single result of a host test or of a test in a VM. No gate judges its time, except that it
# fails when it reaches its limit.
#
# check.sh [fast|uml|adapters|soak|all|kernels|debug|packages]
#   fast     the gates that need no machine
#   uml      the tests in the kernel, and a pair with mounts and broken connections, under User-Mode Linux
#   adapters each adapter of selftests/strict/profiles.c, under User-Mode Linux: mounts, data, chunks, lost connections
#   soak     files and programs beside faults for SOAK_MINUTES= minutes (100), over a strict device and iwarp-tcp, under User-Mode Linux
#   (none)   the gates of `fast`; most tests under User-Mode Linux, on a kernel that looks for faults; and under QEMU those that
#            show that the stock kernel runs the modules
#   all      those, those of `adapters`, all tests under QEMU, and the tests that take long
#   kernels  on each kernel of scripts/buildroot/kernels, what scripts/check-kernels.sh says
#   debug    all tests on a kernel that looks for faults: under User-Mode Linux what can run there, and the rest under QEMU
#   packages the Debian packages: built, installed, upgraded and removed in chroots, and a mount in a VM; with KVER=7.3-arm64 those for
#            that kernel, installed, built and used in VMs
#
# Kernels for User-Mode Linux and debug kernels are built first, once (scripts/testkernel/build.sh).
# CLIENT=c, SERVER=c and MODULE=c (a single machine) run the tests in VMs on the in-tree module.

. "$(dirname "$0")/lib.sh"
cd "$top"

passed=0 failed=0 skipped=0 word=
logs=$top/build/check
# What failed, for the end.
failures=$top/build/check-failures
# Where results are kept from one run to the next, if they are.
kept=
. scripts/check-kernels.sh

# How many gates may run at the same time. `all_done` waits for those that still run.
at_once=1

# gate NAME LIMIT COMMAND...: the limit is in seconds. The command keeps to it itself; it finds it in `limit`. If one gate runs at a
# time, sets `word` to ok or FAILED.
gate() {
	if [ "$at_once" -eq 1 ]; then
		run_gate "$@"
		return
	fi
	while [ "$(jobs -rp | wc -l)" -ge "$at_once" ]; do wait -n; done
	# What it counts is in a file until all are done; a gate that did not come to that has failed.
	local counts=$logs/counts/${1//[!a-zA-Z0-9.]/-}
	mkdir -p "$logs/counts"
	echo 0 1 0 >"$counts"
	# shellcheck disable=SC2030 # it is this gate's share that is counted
	(passed=0 failed=0 skipped=0; run_gate "$@"; echo "$passed $failed $skipped" >"$counts") &
}

# shellcheck disable=SC2031
all_done() {
	local good bad skip
	wait
	at_once=1
	while read -r good bad skip; do
		passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + skip))
	done < <(cat "$logs"/counts/*)
	rm -r "$logs/counts"
}

run_gate() {
	local name=$1 limit=$2 log=$logs/${1//[!a-zA-Z0-9.]/-}.log start=$SECONDS seconds status=0
	shift 2
	if keeps "$1" && [ -e "$log.passed" ]; then
		word=kept passed=$((passed + 1)) seconds=$(cat "$log.passed")
	else
		"$@" >"$log" 2>&1 || status=$?
		seconds=$((SECONDS - start))
		case $1:$status in
		*:0) word=ok passed=$((passed + 1)) ;;
		build_root:77 | commits:77) word=skipped skipped=$((skipped + 1)) ;;
		*) word=FAILED failed=$((failed + 1)) ;;
		esac
		if keeps "$1" && [ "$word" = ok ]; then echo "$seconds" >"$log.passed"; fi
	fi
	count_results "$log"
	# In one piece, as gates may run side by side.
	printf '%s\n' "$(report "$name" "$seconds" "$limit" "$log")"
	if [ "$word" = FAILED ]; then failures "$name" "$log" >>"$failures"; fi
}

# Prints which results of a log failed, by their test, for the end of the output.
failures() {
	echo "FAILED  $1"
	awk '/^# selftests: / { test = $NF ": "; next }
		/^# (# )*not ok / { sub(/^[# ]*not ok [0-9]+ /, ""); print "        " test $0; found = 1 }
		/^test .* FAILED$/ { print "        " $2; found = 1 }
		/^not ok / && !found { print "        " $0; found = 1 }' "$2" | head -n 40
}

# Whether the result of such a command is kept: what others make has to be there when the next ones run.
keeps() { case $kept:$1 in :*) return 1 ;; *:one_vm | *:pair | *:iwarp) ;; *) return 1 ;; esac; }

# report NAME SECONDS LIMIT LOG
report() {
	printf '%-7s %-44s %4d s of %4d s\n' "$word" "$1" "$2" "$3"
	slowest "$4"
	skips "$4" | sed 's/^/        skipped: /'
	if [ "$word" = skipped ]; then grep -E '^(error: |skipped: |       )' "$4" | sed 's/^/    /'; fi
	if [ "$word" = FAILED ]; then
		relevant "$4" | tail -n 40 | sed 's/^/    /'
		printf '    the log is %s\n' "${4#"$top"/}"
	fi
}

# part NAME MINUTES: what comes from here on, and how long it may take on two busy CPUs, which nothing enforces.
parts=()
part() { parts+=("$SECONDS $2 $1"); }

# Prints how long each part took.
took() {
	local index start end minutes name
	for index in "${!parts[@]}"; do
		read -r start minutes name <<<"${parts[index]}"
		end=$SECONDS
		if [ $((index + 1)) -lt ${#parts[@]} ]; then read -r end _ <<<"${parts[index + 1]}"; fi
		printf '%-62s %4d min %2d s of %3d min\n' "$name" $(((end - start) / 60)) $(((end - start) % 60)) "$minutes"
	done
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

test_programs() { in_root nice scripts/programs.sh; }

# The lints of Cargo.toml. Those against panics are not for the unit tests, which are in the sources of their crates.
host_clippy() {
	in_root nice sh -ec 'cargo clippy --quiet --workspace --lib --bins --test "*" --bench "*" --locked -- -Dwarnings
		cargo clippy --quiet --workspace --lib --profile test --locked -- -Dwarnings -Aclippy::arithmetic_side_effects \
			-Aclippy::as_conversions -Aclippy::indexing_slicing -Aclippy::unwrap_used'
}

commits() { in_root scripts/commits.sh; }

compiles() { timeout -k 10 "$limit" scripts/build.sh module && ! grep -n warning build/module.log; }

# vm.py itself sees to the limit: it begins when the VMs start, after other runs of this machine have ended.
# one_vm LISTS
one_vm() { scripts/enter scripts/vm.py single --module "${MODULE:-rust}" --rdma "$rdma" --limit "$limit" -- "$settings scripts/vm/kselftest $1"; }

# pair LISTS [CLIENT SERVER]: two VMs, and which module each of them has.
pair() {
	scripts/enter scripts/vm.py pair --client "${2:-${CLIENT:-rust}}" --server "${3:-${SERVER:-rust}}" --rdma "$rdma" \
		--limit "$limit" -- "$settings scripts/vm/kselftest $1"
}

# The kernel's soft iWARP for the stock kernel, which lacks it.
siw() { timeout -k 10 "$limit" scripts/enter selftests/iwarp/siw.sh; }

# A device that is strict about DMA.
strict() { in_root selftests/strict/strict.sh "${KERNEL:+$KERNEL-}strict"; }

# adapter PROFILE LISTS [SETTING...]: a pair with strict devices that have the limits of that adapter, and further settings.
adapter() {
	scripts/enter scripts/vm.py pair --rdma strict --append "$(printf 'rdma_rxe.%s ' "profile=$1" "${@:3}")" --limit "$limit" \
		-- "$settings scripts/vm/kselftest $2"
}

# platform DMA: a pair whose strict devices get their memory by what the machine has for that.
platform() {
	scripts/enter scripts/vm.py pair --rdma strict --dma "$1" --limit "$limit" -- "$settings scripts/vm/kselftest platform"
}

# Consumers of kernel verbs for iwarp-rfc7306.sh and iwarp-rnbd.sh.
verbs_consumers() {
	local prefix=${KERNEL:+$KERNEL-}
	in_root selftests/iwarp/consumer.sh "${prefix}consumer" && in_root selftests/iwarp/rtrs.sh "${prefix}rtrs"
}

# iwarp LISTS [CLIENT SERVER [OPTION...]]: two VMs, and the RDMA device of each, which is iwarp-tcp if none is named. The options
# are those of vm.py.
iwarp() {
	scripts/enter scripts/vm.py pair --client "${CLIENT:-rust}" --server "${SERVER:-rust}" --rdma "${2:-iwarp-tcp}" \
		--peer-rdma "${3:-iwarp-tcp}" --limit "$limit" "${@:4}" -- "$settings scripts/vm/kselftest $1"
}

# Each adapter whose limits the strict device knows, those without reliable connections or registrations, and one whose addresses have no
# offset in the page, as bounce buffers have none.
adapters() {
	local profile profiles
	mapfile -t profiles < <(grep -o '\.name = "[^"]*' selftests/strict/profiles.c | cut -d'"' -f2)
	gate "$KERNEL: the modules build without a warning" 900 compiles
	gate "$KERNEL: the strict device builds" 600 strict
	at_once=2
	rdma=strict gate "$KERNEL: the strict device" 600 one_vm strict.sh
	for profile in "${profiles[@]}"; do
		case $profile in
		none) ;;
		efa | mthca) gate "$KERNEL: $profile" 600 adapter "$profile" 'adapter.sh leaks.sh' ;;
		*) settings='DISCONNECTS=1 RESTARTS=1 REMOVALS=1 LOSSES=1' gate "$KERNEL: $profile" 1800 adapter "$profile" 'adapter leaks.sh' ;;
		esac
	done
	gate "$KERNEL: no offset in the page" 1200 adapter narrowest 'adapter.sh fio.sh chunks.sh leaks.sh' keep_offset=N
	all_done
}

# What needs no VM.
fast() {
	at_once=2
	gate 'host tests, and which requirement they show' 2400 in_root nice scripts/conformance.py --tests
	gate 'models of code without locks' 600 in_root nice cargo test --quiet --locked --package models
	gate 'fuzz targets, 3 s each' 900 in_root nice selftests/fuzz/run.sh TIME=3
	builds
	gate 'clippy of what runs on the host' 600 host_clippy
	gate 'shellcheck' 300 in_root sh -c 'grep -rlE "^#!/bin/(ba)?sh|^#!/bin/busybox|^# shellcheck shell" Makefile scripts selftests .ci |
		xargs shellcheck'
	gate 'format of the Rust sources' 120 in_root scripts/fmt.sh --check
	gate 'comments within 100 columns' 60 in_root scripts/comments.sh
	gate 'unsafe code, and which part may use which' 60 scripts/unsafe.sh
	gate 'checkpatch' 120 checkpatch
	gate 'first lines of the commits' 60 commits
	gate 'which kernels the scripts choose and refuse' 300 in_root selftests/scripts/kernels.sh
	gate 'what make check-kernels runs and keeps' 300 in_root selftests/scripts/check-kernels.sh
	gate 'what rpcrdma-status says' 120 in_root selftests/scripts/status.sh
	gate 'units of systemd' 120 in_root selftests/scripts/units.sh
	gate 'what finds sleeping threads of the server' 60 in_root sh -ec 'cd selftests/hostile; python3 -B -m unittest -q'
	gate 'what judges the outcomes of suites' 60 in_root sh -ec 'cd selftests/suites; python3 -B -m unittest -q'
	gate 'what finds growth' 60 in_root sh -ec 'cd selftests/soak; python3 -B -m unittest -q'
	gate 'the bars of docs/performance.md are those of their figures' 60 in_root sh -c \
		'selftests/measure/chart.py docs/measurements/counted.tsv | cmp - docs/measurements/counted.svg'
	gate 'second codec of iWARP' 120 in_root sh -ec 'cd selftests/iwpeer; python3 -B -m unittest -q'
	all_done
	gate 'trace points cost one NOP' 60 in_root scripts/tracepoints.py rpcrdma.ko iwarp.ko
	gate 'no stack frame is too large' 60 in_root scripts/frames.py
	gate 'no panic in proto' 60 in_root scripts/panicfree.sh rust/proto/lib.o
	gate 'no panic in rdmap' 120 in_root scripts/panicfree-rdmap.sh
	gate 'no panic in uabi' 60 in_root scripts/panicfree.sh rust/uabi/lib.o
	gate 'examples of the wrapper crates' 120 in_root nice scripts/examples.sh
	gate 'documentation, and where its links lead' 600 in_root nice scripts/doc.sh
}

# builds [PREFIX]: what the tests in VMs need. The prefix is of the gates' names.
builds() {
	gate "${1:-}crafted peer and hostile process" 600 test_programs
	gate "${1:-}layout of the bindings" 600 in_root scripts/layout.sh
	gate "${1:-}clippy, and the tests in the kernel" 900 clippy
	gate "${1:-}the module builds without a warning" 900 compiles
}

# kernel NAME: makes sure of that kernel, which scripts/testkernel/build.sh builds.
kernel() { KERNEL=$1 gate "kernel: $1" 7200 timeout -k 10 7200 scripts/buildroot.sh; }

# The tests on a kernel of User-Mode Linux that looks for faults. Each list is one boot, and the longest come first. Two run at the same
# time: with three, rxe gives up connections now and then, as a machine that waits two seconds for a processor acknowledges nothing.
uml() {
	gate "$KERNEL: clippy, and the tests in the kernel" 900 clippy
	gate "$KERNEL: the modules build without a warning" 900 compiles
	gate "$KERNEL: consumers of iWARP build" 600 verbs_consumers
	gate "$KERNEL: the strict device builds" 600 strict
	at_once=2
	gate "$KERNEL: two, the crafted peer" 2400 pair 'crafted_peer leaks.sh'
	gate "$KERNEL: two, mounts and connections" 1800 pair 'mounts leaks.sh'
	gate "$KERNEL: two, data and messages" 1200 pair 'data leaks.sh'
	settings='SHORT_FORMS=yes' gate "$KERNEL: two, files and exports" 1200 pair 'files leaks.sh'
	settings='ROUNDS=3 SHORT_FORMS=yes' gate "$KERNEL: one machine" 1200 one_vm 'uml_single leaks.sh'
	gate "$KERNEL: two, faults during I/O" 1200 pair 'during_io leaks.sh'
	rdma=iwarp-sctp settings='SHORT_FORMS=yes' gate "$KERNEL: two, iwarp-sctp" 1200 pair 'iwarp_sctp iwarp-path.sh user leaks.sh'
	gate "$KERNEL: two, iwarp-tcp, siw on the server" 900 iwarp 'iwarp_siw leaks.sh' iwarp-tcp siw
	settings='SHORT_FORMS=yes' gate "$KERNEL: two, iwarp-tcp" 1200 iwarp 'uml_iwarp user leaks.sh'
	gate "$KERNEL: two, iwarp-tcp, siw on the client" 900 iwarp 'iwarp_siw leaks.sh' siw iwarp-tcp
	gate "$KERNEL: two, an adapter and its faults" 900 adapter narrowest 'adapter_faults leaks.sh'
	all_done
}

# Suites that nobody here wrote. An emulated processor would take far longer for them.
suites() {
	gate 'programs of suites are unpacked' 900 in_root selftests/suites/layer.sh
	settings='TIMEOUT=1800'
	gate "$KERNEL: two, iwarp-tcp, suites" 7200 iwarp 'user_suites leaks.sh'
	gate "$KERNEL: two, iwarp-sctp, suites" 7200 iwarp 'user_suites leaks.sh' iwarp-sctp iwarp-sctp
	# With programs siw takes a lock in two ways, of which lockdep speaks.
	kernel uml
	export KERNEL=uml
	gate "$KERNEL: the modules build without a warning" 900 compiles
	settings=
	gate "$KERNEL: two, programs, siw on the server" 900 iwarp user_siw iwarp-tcp siw
	gate "$KERNEL: two, programs, siw on the client" 900 iwarp user_siw siw iwarp-tcp
	gate "$KERNEL: two, iwarp-tcp, libfabric" 900 iwarp user_fabric iwarp-tcp iwarp-tcp --memory 4G
	gate "$KERNEL: two, iwarp-sctp, libfabric" 900 iwarp user_fabric iwarp-sctp iwarp-sctp --memory 4G
	gate "$KERNEL: this module and the in-tree one, all versions" 1200 in_root selftests/interop/interop.py
	settings='TIMEOUT=3000'
	gate "$KERNEL: two, iwarp-tcp, libfabric's own tests" 3600 iwarp user_fabtests iwarp-tcp iwarp-tcp --memory 4G
	gate "$KERNEL: two, iwarp-sctp, libfabric's own tests" 3600 iwarp user_fabtests iwarp-sctp iwarp-sctp --memory 4G
	settings=
}

# soak [MINUTES]: files and programs beside faults, over a strict device and over iwarp-tcp at the same time.
soak() {
	local minutes=${1:-100}
	gate "$KERNEL: the modules build without a warning" 900 compiles
	gate "$KERNEL: the strict device builds" 600 strict
	gate 'stress-ng and dbench are unpacked' 900 in_root selftests/suites/loads.sh
	at_once=2
	# The runner multiplies the limit of a test by four on such a kernel.
	settings="SOAK_MINUTES=$minutes TIMEOUT=$((900 + 30 * minutes))"
	gate "$KERNEL: soak, strict device, $minutes minutes" $((5400 + 150 * minutes)) adapter narrowest 'soak leaks.sh'
	gate "$KERNEL: soak, iwarp-tcp, $minutes minutes" $((5400 + 150 * minutes)) iwarp 'soak leaks.sh'
	all_done
	settings=
}

# A short list, for use while one works.
uml_short() {
	gate "$KERNEL: clippy, and the tests in the kernel" 900 clippy
	gate "$KERNEL: the modules build without a warning" 900 compiles
	gate "$KERNEL: one machine, the tests in the kernel" 600 one_vm inkernel.sh
	settings='DISCONNECTS=1 RESTARTS=1 REMOVALS=1' gate "$KERNEL: two, mounts and lost connections" 600 pair 'short leaks.sh'
}

# stock [NAME]: what shows that the stock kernel runs the modules.
stock() {
	local name=${1:-stock kernel}
	gate "$name: one VM" 900 one_vm stock_single
	gate "$name: the strict device builds" 600 strict
	rdma=strict gate "$name: one VM, the strict device" 600 one_vm strict.sh
	settings='DISCONNECTS=1 RESTARTS=1 REMOVALS=1' gate "$name: two VMs" 1200 pair stock
	gate "$name: against the in-tree server" 600 pair mount.sh rust c
	gate "$name: against the in-tree client" 600 pair mount.sh c rust
	gate "$name: two VMs, iwarp-tcp" 600 iwarp mount.sh
}

# The tests in VMs. Each list is one boot. The limits are at least four times what a list takes on two CPUs that do nothing else.
vms() {
	gate 'one VM' 900 one_vm single
	rdma=iwarp-tcp gate 'one VM: the tests in the kernel, iwarp-tcp' 900 one_vm inkernel.sh
	gate 'the strict device builds' 600 strict
	rdma=strict gate 'one VM, the strict device' 600 one_vm strict.sh
	settings='DISCONNECTS=1 RESTARTS=1 REMOVALS=1' gate 'two VMs: behind an IOMMU' 3600 platform iommu
	settings='DISCONNECTS=1 RESTARTS=1 REMOVALS=1' gate 'two VMs: bounce buffers' 3600 platform bounce
	gate 'two VMs: data and messages' 1800 pair data
	gate 'two VMs: mounts and connections' 1800 pair mounts
	gate 'two VMs: faults during I/O' 1800 pair during_io
	gate 'two VMs: the crafted peer' 1800 pair crafted_peer
	gate 'two VMs: files and exports' 1800 pair files
	gate 'two VMs: further tests' 3600 pair extended
	gate 'two VMs: against the in-tree server' 1200 pair in_tree rust c
	gate 'two VMs: against the in-tree client' 1200 pair in_tree c rust
	gate 'siw builds' 300 siw
	gate 'consumers of iWARP build' 600 verbs_consumers
	gate 'open-iscsi is there' 300 in_root selftests/iwarp/open-iscsi.sh
	settings='ROUNDS=3' gate 'iWARP: one VM' 900 one_vm iwarp_single
	gate 'iWARP: two VMs' 1800 iwarp 'iwarp extended_iwarp user'
	gate 'iWARP: two VMs, files and exports' 1800 iwarp files
	gate 'iWARP: two VMs, siw on the server' 600 iwarp iwarp_siw iwarp-tcp siw
	gate 'iWARP: two VMs, siw on the client' 600 iwarp iwarp_siw siw iwarp-tcp
	gate 'iWARP: two VMs of eight CPUs, many controllers' 3600 iwarp iwarp_many iwarp-tcp iwarp-tcp --smp 8
	gate 'iWARP: two VMs, SRP and iSER' 1800 iwarp iwarp_disks
	gate 'iWARP: two VMs, SRP and iSER, SCTP' 1800 iwarp iwarp_disks iwarp-sctp iwarp-sctp
	rdma=iwarp-sctp gate 'iWARP: two VMs, SCTP' 1800 pair 'iwarp_sctp extended_iwarp user'
}

# What takes long: the long forms of the tests, and each fault so often that a rare race has its chance.
long() {
	settings='LONG_FORMS=yes TIMEOUT=1800 PEER_CONNECTIONS=200 PEER_CONNECTS=400 PEER_ROUNDS=40 PEER_BITS=3 PEER_LIMIT=900'
	gate 'long: two VMs' 14400 pair long
	gate 'long: against the in-tree server' 3600 pair long_in_tree rust c
	gate 'long: against the in-tree client' 3600 pair long_in_tree c rust
	settings='LONG_FORMS=yes TIMEOUT=3600' gate 'long: iWARP, one VM' 7200 one_vm long_iwarp
	# An emulated processor would take hours for that.
	KERNEL=uml-debug settings='LONG_FORMS=yes USER_CASES=processes_are_killed_at_any_time' \
		gate 'long: iWARP, killed processes, uml-debug' 7200 one_vm 'user-hostile.sh leaks.sh'
	# Over TCP `uml` has them.
	KERNEL=uml-debug rdma=iwarp-sctp settings='ROUNDS=3' gate 'long: iWARP, processes, SCTP, uml-debug' 1800 one_vm 'user_single leaks.sh'
	settings='LONG_FORMS=yes TIMEOUT=3600' gate 'long: iWARP, two VMs' 14400 iwarp long_iwarp_pair
	settings='LONG_FORMS=yes TIMEOUT=6000' gate 'long: iWARP, two VMs, little memory' 7200 \
		iwarp long_iwarp_memory iwarp-tcp iwarp-tcp --memory 512M --peer-memory 2G
	settings='' gate 'long: iWARP, two VMs, SCTP, little memory' 2400 \
		iwarp long_iwarp_memory iwarp-sctp iwarp-sctp --memory 512M --peer-memory 2G
	settings='LONG_FORMS=yes DISCONNECTS=100 RESTARTS=10 REMOVALS=20 KILLS=20 LOSSES=2 TIMEOUT=7200'
	gate 'long: faults in loops' 14400 pair loops
}

# On kernels that check each access to memory and the order of locks, and make allocations fail.
debug() {
	part 'under User-Mode Linux' 40
	gate 'crafted peer and hostile process' 600 test_programs
	kernel uml-debug
	export KERNEL=uml-debug
	uml
	settings='TIMEOUT=3600 FAILURES=200 DISCONNECTS=10' gate 'uml-debug: failures on either side, rxe' 3600 pair 'failures.sh leaks.sh'
	rdma=siw gate 'uml-debug: two, siw' 1800 pair 'debug_siw leaks.sh'
	gate 'uml-debug: iWARP, as a decoder sees it' 900 iwarp 'iwarp.sh leaks.sh'
	settings='TIMEOUT=3600 DISCONNECTS=2' gate 'uml-debug: two, iwarp-sctp, lost connections' 1800 \
		iwarp 'disconnect.sh leaks.sh' iwarp-sctp iwarp-sctp
	part 'under QEMU' 20
	kernel debug
	export KERNEL=debug
	gate 'debug: the modules build without a warning' 900 compiles
	gate 'debug: make KDIR=' 900 self_made 'modprobe -a rpcrdma iwarp && cat /sys/module/rpcrdma/version && rmmod rpcrdma iwarp'
	settings='TIMEOUT=3600 DISCONNECTS=1 RESTARTS=1 REMOVALS=1 LOSSES=1 FAILURES=20' gate 'debug: two VMs, rxe' 7200 pair 'debug leaks.sh'
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

# Those for kernels of another architecture, which are the words of KVER.
foreign_packages() {
	local kver
	gate 'the packages build' 7200 timeout -k 10 7200 scripts/packaging/deb.sh
	if [ "$word" = FAILED ]; then return; fi
	gate 'lintian' 600 lintian
	for kver in $KVER; do gate "$kver: install, build, mount, in VMs" 36000 foreign_packages_work "$kver"; done
}
foreign_packages_work() { limit=14400 selftests/packages/foreign.sh "$1"; }

packages() {
	if [ "$(architecture_of "${KVER:-}")" != amd64 ]; then foreign_packages; return; fi
	gate 'the packages build' 7200 env KVER="$(listed '' amd64 "$(main_suite)" | awk '{ print $1 }' | xargs)" timeout -k 10 7200 scripts/packaging/deb.sh
	if [ "$word" = FAILED ]; then return; fi
	gate 'lintian' 600 lintian
	gate 'install, upgrade, refuse, remove, mount' 14400 packages_work
	gate 'make KDIR=' 900 self_made
	gate 'two releases of a commit are the same' 3600 reproducible
}

rdma=rxe settings=
rm -f "$failures"
if [ "${1:-}" = debug ]; then logs+=-debug; fi
part 'build root' 8
case ${1:-} in kernels | packages) ;; *) scripts/buildroot.sh ;; esac
# The kernels have logs of their own, which stay.
if [ "${1:-}" != kernels ]; then
	rm -rf "$logs"
	mkdir -p "$logs"
fi
case ${1:-} in
fast) part 'gates that need no machine' 12; fast ;;
uml)
	kernel uml-debug
	export KERNEL=uml-debug
	uml_short
	;;
all | '')
	part 'kernel for User-Mode Linux, beside gates that need no machine' 32
	at_once=2
	kernel uml-debug
	fast
	part 'tests under User-Mode Linux' 8
	export KERNEL=uml-debug
	uml
	if [ "${1:-}" = all ]; then
		part 'limits of adapters' 45
		adapters
		part 'files and programs beside faults' 25
		soak 10
		part 'suites that nobody here wrote' 60
		suites
	fi
	unset KERNEL
	part 'tests under QEMU' 12
	if [ "${1:-}" = all ]; then vms; long; else stock; fi
	;;
adapters)
	part 'limits of adapters' 45
	kernel uml-debug
	export KERNEL=uml-debug
	adapters
	;;
soak)
	part 'files and programs beside faults' $((15 + ${SOAK_MINUTES:-100}))
	kernel uml-debug
	export KERNEL=uml-debug
	soak "${SOAK_MINUTES:-}"
	;;
kernels) kernels ;;
debug) debug ;;
packages) packages ;;
*) die "there are no gates called $1" ;;
esac

if [ ${#parts[@]} -gt 2 ]; then took; fi
# Once more, as who reads the end of a long output may not have the rest.
if [ -e "$failures" ]; then cat "$failures"; fi
printf 'all gates took %d min %d s\n' $((SECONDS / 60)) $((SECONDS % 60))
echo "$passed passed, $failed failed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
[ "$failed" -eq 0 ]
