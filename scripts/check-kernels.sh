# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What `make check-kernels` runs, on each kernel of scripts/buildroot/kernels. Sourced by check.sh, which has the gates.
#
# ONLY=   words of the list: only these kernels
# KEEP=1  the build roots that this run makes stay
#
# Results are kept by commit and kernel, in build/kernels/COMMIT/KVER: the log of each gate; for a list of tests that passed in VMs
# its time, so it is not run again; and in `done` what became of the kernel, when all of it has passed. So a run goes on where the
# last one ended. What is not committed is part of the commit's name.
#
# A build root that a run makes goes when its kernel has passed, but for that of the first kernel, which other commands use. A file
# in the cache says which ones those are, also to the next run.

# shellcheck disable=SC2034,SC2154 # check.sh and lib.sh set, or read, the rest
: "${top:?}" "${cache:?}" "${passed:?}"

# Prints what stands for the sources that are tested, and for the modules that the machines have.
tested_commit() {
	local changes modules="${CLIENT:-rust}-${SERVER:-rust}-${MODULE:-rust}"
	if [ "$modules" = rust-rust-rust ]; then modules=; fi
	if [ -e .release ]; then
		echo "release-$(digest <.release)${modules:+-$modules}"
		return
	fi
	git() { command git -c safe.directory="$top" "$@"; }
	changes=$({ git diff HEAD; git ls-files -z --others --exclude-standard | xargs -0r cat; } | digest)
	echo "$(git rev-parse --short=12 HEAD)$([ "$changes" = "$(digest </dev/null)" ] || echo "+$changes")${modules:+-$modules}"
	unset -f git
}

# The words of ONLY, or all of the list.
wanted_kernels() {
	local all word
	mapfile -t all < <(listed | awk '{ print $1 }')
	for word in ${ONLY:-}; do
		[[ " ${all[*]} " = *" $word "* ]] || die "ONLY=$word is not in the list of kernels" "It has: ${all[*]}"
	done
	for word in "${all[@]}"; do
		if [ -z "${ONLY:-}" ] || [[ " $ONLY " = *" $word "* ]]; then echo "$word"; fi
	done
}

# Status 77: the mirror does not have that kernel any more.
build_root() { timeout -k 10 "$limit" scripts/buildroot.sh; }

made_here() { echo "$cache/made-by-check-kernels-$KVER"; }

# What another command has made stays, and so does what is for the first kernel.
remember_root() {
	if [ -z "$(root_dir)" ] && [ "$KVER" != "$(listed | awk 'NR == 1 { print $1 }')" ]; then
		mkdir -p "$cache"
		touch "$(made_here)"
	fi
}

remove_root() {
	local root
	[ -e "$(made_here)" ] || return 0
	root=$(root_dir)
	if [ -z "${KEEP:-}" ] && [ -n "$root" ]; then
		in_namespace rm -rf --one-file-system "$(kernel_dir "$root")" "$root"
	fi
	rm "$(made_here)"
}

# The tests of `make check`.
kernel_in_full() {
	at_once=2
	kernel uml-debug
	builds "$KVER: "
	all_done
	export KERNEL=uml-debug
	uml
	unset KERNEL
	stock "$KVER"
}

# Which of the RDMA devices that the tests use this kernel has: its own, or else those of this project.
devices() {
	if grep -q '^CONFIG_RDMA_RXE=[ym]' "$(kernel_dir "$(root_dir)")/build/.config"; then echo rxe; else echo iwarp-tcp iwarp-sctp; fi
}

# The modules build without a warning, load, pass their tests in the kernel, and mount, move data and survive lost connections.
kernel_in_short() {
	local device
	gate "$KVER: layout of the bindings" 1200 in_root scripts/layout.sh
	gate "$KVER: clippy, and the tests in the kernel" 2400 clippy
	gate "$KVER: the modules build without a warning" 2400 compiles
	for device in $(devices); do
		rdma=$device
		if [ "$device" != iwarp-sctp ]; then gate "$KVER: one VM, $device" 900 one_vm 'inkernel.sh load.sh'; fi
		settings='DISCONNECTS=1 RESTARTS=1 REMOVALS=1' gate "$KVER: two VMs, $device" 1800 pair stock
	done
	rdma=rxe
}

# one_kernel KVER FORM: runs the gates of a kernel, unless it has passed.
one_kernel() {
	local before=$failed start=$SECONDS release good skip
	export KVER=$1
	logs=$kept/$KVER
	if [ -e "$logs/done" ]; then
		read -r release _ good skip _ <"$logs/done"
		passed=$((passed + good)) skipped=$((skipped + skip))
		echo "kept    $KVER: kernel $release has passed"
		return
	fi
	mkdir -p "$logs"
	rm -rf "$logs/counts"
	remember_root
	good=$passed skip=$skipped
	gate "$KVER: the build root" 3600 build_root
	case $word in
	skipped) rm -f "$(made_here)"; gone+=("$KVER"); return ;;
	FAILED) return ;;
	esac
	release=$(cat "$(root_dir)/etc/rpcrdma/kver")
	"$2"
	if [ "$failed" -ne "$before" ]; then return; fi
	echo "$release $((SECONDS - start)) $((passed - good)) $((skipped - skip)) $(date -u +%F)" >"$logs/done"
	remove_root
}

# What became of each kernel, in this run or an earlier one.
kernels_summary() {
	local kver release seconds date
	for kver; do
		if [ -e "$kept/$kver/done" ]; then
			read -r release seconds _ _ date <"$kept/$kver/done"
			printf '%-12s %-28s passed on %s, in %d min %d s\n' "$kver" "$release" "$date" $((seconds / 60)) $((seconds % 60))
		elif [[ " ${gone[*]} " = *" $kver "* ]]; then
			printf '%-12s skipped: the mirror does not have it\n' "$kver"
		else
			printf '%-12s has not passed\n' "$kver"
		fi
	done
}

kernels() {
	local all kver form=kernel_in_full
	# A process substitution would hide that ONLY is wrong.
	all=$(wanted_kernels)
	kept=$top/build/kernels/$(tested_commit) gone=()
	for kver in $all; do
		form=kernel_in_short
		if [ "$kver" = "$(listed_series | head -n 1)" ]; then form=kernel_in_full; fi
		one_kernel "$kver" "$form"
	done
	# shellcheck disable=SC2086 # words are kernels
	kernels_summary $all
}
