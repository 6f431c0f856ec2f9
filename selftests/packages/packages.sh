#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What becomes of a Debian machine that installs the packages of build/deb, upgrades and removes them: in chroots from a clean root, with
# real kernels, headers and compilers. Runs on the host, like scripts/check.sh; takes minutes, because kernels' Rust metadata is built.
#
# packages.sh [TEST...]: only these tests, on the states that an earlier run left.

. "$(dirname "$0")/../../scripts/lib.sh"
cd "$top"
work=$top/build/packages packages=$top/build/deb count=0 failed=0
clean=$(scripts/packaging/roots.sh clean)
. selftests/packages/chroot.sh
. selftests/packages/document.sh

# release_of KVER: the newest kernel of these that there is metadata for.
release_of() {
	local release
	basename -a "$packages"/linux-rust-metadata-*.deb | sed 's/^linux-rust-metadata-//; s/_.*//' | sort -V |
		while read -r release; do if names "$1" "$release"; then echo "$release"; fi; done | tail -n 1
}
mapfile -t series < <(listed_series)
new=$(release_of "${series[0]}") old=$(release_of "${series[1]}")
version=$(dpkg-deb -f "$packages"/rpcrdma-rust-dkms_*.deb Version)
module_version=$(sed -n 's/^MODULE_VERSION("\(.*\)");$/\1/p' rust/cbindings/helpers/common.c)
our_file() { echo "/lib/modules/$1/updates/dkms/${2:-rpcrdma}.ko.xz"; }
their_file() { echo "/lib/modules/$1/kernel/net/sunrpc/xprtrdma/rpcrdma.ko.xz"; }

# run COMMAND: in the chroot; its output to $said, its status to $status.
run() {
	status=0
	said=$(in_chroot "$*" 2>&1) || status=$?
	printf '# %s\n%s\n# status %d\n' "$*" "$said" "$status" >>"$state/log"
}

# typed HEADING NUMBER [SED-SCRIPT]: types a block of commands of docs/install.md in the chroot, changed by the sed script, in $directory.
typed() { run "set -e; cd ${directory:-/root}; $(block "$1" "$2" | sed "${3:-}")"; }

# claim NAME CONDITION...
claim() {
	local name=$1 word=ok
	shift
	count=$((count + 1))
	if ! "$@"; then word='not ok' failed=$((failed + 1)); fi
	echo "# $word $count - $name"
	[ "$word" = ok ] || printf 'status %s\n%s\n' "$status" "$said" | tail -n 40 | sed 's/^/#    /'
}

says() { [[ $said = *"$1"* ]]; }
worked() { [ "$status" -eq 0 ]; }
worked_and_says() { worked && says "$1"; }
refused() { [ "$status" -ne 0 ] && says "$1"; }
holds() { in_chroot "$*" >/dev/null 2>&1; }

# dpkg has nothing left to do, and nothing is half installed.
whole() { [ -z "$(in_chroot 'dpkg --audit; apt-get check >/dev/null || echo broken' 2>&1)" ]; }

# has_ours RELEASE: modprobe would take these modules, and they were built for this kernel.
has_ours() {
	local module
	for module in rpcrdma iwarp; do
		[ "$(in_chroot "modinfo -k $1 -n $module")" = "$(our_file "$1" "$module")" ] &&
			[ "$(in_chroot "modinfo -k $1 -F version $module")" = "$module_version" ] &&
			[ "$(in_chroot "modinfo -k $1 -F vermagic $module" | cut -d' ' -f1)" = "$1" ] || return
	done
}
has_theirs() { [ "$(in_chroot "modinfo -k $1 -n rpcrdma")" = "$(their_file "$1")" ] && ! holds "modinfo -k $1 -n iwarp"; }
# signed RELEASE [NAME]: both modules are, with the key of that name, or the one that DKMS made.
signed() { [ "$(in_chroot "modinfo -k $1 -F signer rpcrdma iwarp" | uniq -c | sed 's/^ *//')" = "2 ${2:-DKMS module signing key}" ]; }

# skipped RELEASE REASON: the last command worked, said why it built nothing, and left the package manager whole.
skipped() { worked && says "kernel $1 has the in-tree module, because" && says "$2" && has_theirs "$1" && whole; }

kernel() { run "apt-get -q install -t trixie-backports linux-image-$1 linux-headers-$1"; }
every_module() { in_chroot 'find /usr/lib/modules -name "*.ko*" | sort'; }

# The tests. Each begins with the state that it makes, and from what.

test_old_kernel() {
	state old_kernel
	in_chroot 'ln -s /bin/true /usr/local/sbin/reboot'
	typed 'Install' 1 "s/-amd64/-$old/g"
	claim "kernel $old and its headers are installed" worked
	runs_kernel "$old"
	every_module >"$state/modules"
}

test_install() {
	state install old_kernel
	directory=/packages typed 'Install' 2 '/^rpcrdma-status$/d'
	claim 'the packages are installed as the document says, with the metadata of the running kernel' worked
	claim 'and say that the kernel has this module' says "kernel $old has this module, version $module_version"
	claim 'the package manager is whole' whole
	claim 'modprobe would take this module' has_ours "$old"
	claim 'both modules are signed with the key of DKMS' signed "$old"
	claim 'no metadata was built on this machine' holds '[ ! -e /var/cache/rpcrdma-rust ]'
	claim 'the source of the next kernel was recommended' holds "dpkg -s linux-source-${series[0]}"
	run 'rpcrdma-status'
	claim 'rpcrdma-status says which module each kernel has' says "kernel $old has this module"
	run 'apt-get -q install man-db && man -P cat rpcrdma-rust && man -P cat rpcrdma-status && man -P cat iwarp'
	claim 'there are manual pages' worked_and_says rdma_slot_table_entries
}

# What someone does who has only read the document.
test_new_user() {
	state new_user
	in_chroot 'ln -s /bin/true /usr/local/sbin/reboot'
	typed 'Install' 1
	claim 'a kernel of backports is installed as the document says' worked
	claim 'it is the newest that the packages are for' holds "[ -e /usr/lib/modules/$new/build/Makefile ]"
	runs_kernel "$new"
	directory=/packages typed 'Install' 2
	claim 'the packages are installed after that, and rpcrdma-status says which module the kernel has' says "  kernel $new has this module, version $module_version"
	claim 'nothing is wrong but what a chroot lacks' [ "$(sed '1,/^What is wrong:/d' <<<"$said" | grep '^  \*')" = '  * There is no RDMA device.' ]
	claim 'the package manager is whole' whole
	claim 'modprobe would take this module' has_ours "$new"
}

test_autopkgtest() {
	state autopkgtest install
	run 'apt-get -q install --no-install-recommends autopkgtest && autopkgtest -B /packages/src/rpcrdma-rust-*/ -- null'
	claim 'autopkgtest passes' worked_and_says 'installed            PASS'
}

test_upgrade() {
	state upgrade install
	kernel "$new"
	claim "kernel $new is installed over that" worked
	claim 'and says that it has this module' says "kernel $new has this module, version $module_version"
	claim 'the package manager is whole' whole
	claim 'modprobe would take this module with the new kernel' has_ours "$new"
	claim 'and with the old one, to go back to' has_ours "$old"
	claim 'both modules are signed' signed "$new"
	claim 'the metadata was built from the source' holds "[ -e /var/cache/rpcrdma-rust/$new/rust/libkernel.rmeta ]"
}

test_remove_kernel() {
	state remove_kernel upgrade
	run "DEB_MAINT_PARAMS='upgrade 1' run-parts --exit-on-error --arg=$new --arg=/boot/vmlinuz-$new /usr/share/kernel/postrm.d"
	claim 'when another version of the kernel is unpacked over this one, its metadata stays' holds "[ -e /var/cache/rpcrdma-rust/$new ]"
	run "apt-get -q purge \$(dpkg-query -W -f '\${Package}\n' | grep -Fe '-$new')"
	claim 'the new kernel is removed again' worked
	claim 'with all that was made for it' holds "[ ! -e /usr/lib/modules/$new ] && [ ! -e /var/cache/rpcrdma-rust/$new ]"
	claim 'the package manager is whole' whole
	claim 'the old one keeps this module' has_ours "$old"
}

test_remove() {
	state remove upgrade
	run 'apt-get -q purge rpcrdma-rust-dkms rpcrdma-rust'
	claim 'the packages are removed' worked
	claim 'the package manager is whole' whole
	claim 'the new kernel has its in-tree module again' has_theirs "$new"
	claim 'and so has the old one' has_theirs "$old"
	every_module >"$state/modules"
	claim 'all modules of the old kernel are where they were' diff "$work/old_kernel/modules" <(grep -F "/$old/" "$state/modules")
	run 'find / -xdev -path /packages -prune -o \( -name "*rpcrdma-rust*" -o -name "*rpcrdma_rust*" \) -print |
		grep -v -e ^/var/cache/apt/archives/ -e ^/var/lib/apt/ -e ^/var/cache/man/'
	claim 'no file of this project is left' [ -z "$said" ]
}

test_downgrade() {
	state downgrade install
	run "mkdir /tmp/p && dpkg-deb -R /packages/rpcrdma-rust-dkms_*.deb /tmp/p &&
		sed -i 's/^Version: .*/Version: 0.1-1/' /tmp/p/DEBIAN/control &&
		sed -i 's|${version%-*}|0.1|g' /tmp/p/DEBIAN/p* /tmp/p/usr/src/*/dkms.conf &&
		mv /tmp/p/usr/src/rpcrdma-rust-* /tmp/p/usr/src/rpcrdma-rust-0.1 && rm -f /tmp/p/DEBIAN/md5sums &&
		dpkg-deb -b /tmp/p /root/"
	claim 'a package of an older version is made' worked
	typed 'Go back' 1 's/<version>/0.1-1/'
	claim 'it is installed over the newer one as the document says' worked
	claim 'and is what DKMS has built' holds "[ \"\$(dkms status rpcrdma-rust -k $old | cut -d, -f1)\" = rpcrdma-rust/0.1 ]"
	claim 'modprobe would take it' has_ours "$old"
	claim 'the package manager is whole' whole
}

test_breaks() {
	state breaks install
	run "echo 'not Rust' >>/usr/src/rpcrdma-rust-${version%-*}/rust/main.rs &&
		dkms unbuild rpcrdma-rust/${version%-*} -k $old && apt-get -q install --reinstall linux-headers-$old"
	claim 'a build that fails is skipped' skipped "$old" 'it does not compile for this kernel'
	claim 'its log is kept' holds "grep -q 'not Rust' /var/lib/rpcrdma-rust/skipped/$old.log"
}

test_no_rust() {
	state no_rust
	run 'apt-get -q install linux-image-amd64 linux-headers-amd64'
	stock=$(in_chroot 'ls /usr/lib/modules')
	runs_kernel "$stock"
	run 'cd /packages && apt install --no-install-recommends ./rpcrdma-rust-dkms_*.deb'
	claim "kernel $stock without Rust is skipped" skipped "$stock" 'built without CONFIG_RUST'
}

test_no_headers() {
	state no_headers
	run "apt-get -q install -t trixie-backports linux-image-$new"
	runs_kernel "$new"
	run 'cd /packages && apt install --no-install-recommends ./rpcrdma-rust-dkms_*.deb'
	claim 'a kernel without headers is skipped' skipped "$new" "linux-headers-$new"
}

test_no_source() {
	state no_source no_headers
	run "apt-get -q install -t trixie-backports linux-headers-$new"
	claim 'a kernel without metadata and source is skipped' skipped "$new" "linux-source-${series[0]} is not installed"
	run "apt-get -q install --no-install-recommends linux-source-${series[0]} && apt-get -q install --reinstall linux-headers-$new"
	claim 'one with the source, but without what makes metadata from it, is skipped' skipped "$new" 'and so are packages to make it: apt install'
	run "apt-get -q --simulate $(sed -n 's/.*packages to make it: apt //p' <<<"$said" | head -n 1 | tr -d '\r')"
	claim 'what it says to install, apt would install' worked_and_says 'Inst libelf-dev'
	run "cd /packages && apt install ./linux-rust-metadata-${new}_*.deb"
	claim 'it is built when the metadata comes' worked_and_says "kernel $new has this module"
	claim 'modprobe would take it' has_ours "$new"
	claim 'without openssl, which was only recommended, it is not signed' [ -z "$(in_chroot "modinfo -k $new -F signer rpcrdma")" ]
}

test_own_key() {
	state own_key no_source
	run "apt-get -q install --no-install-recommends openssl && dkms unbuild rpcrdma-rust/${version%-*} -k $new && cd /var/lib/dkms &&
		openssl req -new -x509 -newkey rsa:2048 -nodes -days 30 -subj '/CN=a key of the own/' -keyout mok.key -outform DER -out mok.pub &&
		dkms autoinstall -k $new"
	claim 'with another key where the key of DKMS is, it is built again' worked
	claim 'both modules are signed with that key' signed "$new" 'a key of the own'
}

test_other_compiler() {
	state other_compiler no_source
	run "dkms unbuild rpcrdma-rust/${version%-*} -k $new
		dpkg-divert --rename /usr/bin/rustc && printf '#!/bin/sh\necho rustc 1.99.0\n' >/usr/bin/rustc && chmod +x /usr/bin/rustc &&
		apt-get -q install --reinstall linux-headers-$new"
	claim 'another rustc than the one of the kernel: skipped' skipped "$new" 'and this is rustc 1.99.0'
}

test_vendor() {
	state vendor no_source
	run "dkms unbuild rpcrdma-rust/${version%-*} -k $new
		mkdir -p /lib/modules/$new/updates && cp \$(modinfo -k $new -n ib_core) /lib/modules/$new/updates/ && depmod $new &&
		apt-get -q install --reinstall linux-headers-$new"
	claim "a vendor's ib_core: skipped" skipped "$new" "ib_core of kernel $new is not the kernel's own"
}

test_leftover() {
	local file=/lib/modules/$old/updates/rpcrdma.ko.xz
	state leftover old_kernel
	run "mkdir -p /lib/modules/$old/updates && cp $(their_file "$old") $file && depmod $old &&
		cd /packages && apt install --no-install-recommends ./rpcrdma-rust-dkms_*.deb"
	claim 'beside what make modules_install left, the package is installed' worked
	claim 'and says what is in the way' says "kernel $old has the in-tree module, because what \`make modules_install\` left is in the way: $file"
	claim 'and what to do' says "rm $file && depmod $old && dkms autoinstall -k $old"
	claim 'the package manager is whole' whole
	claim 'DKMS has built nothing and moved nothing' holds \
		"[ -e $file ] && [ -e $(their_file "$old") ] && [ ! -e /var/lib/dkms/rpcrdma-rust/original_module ] && [ ! -e $(our_file "$old") ]"
	run "rm $file && depmod $old && dkms autoinstall -k $old"
	claim 'afterwards nothing is in the way' eval '! says "in the way"'
	run 'apt-get -q purge rpcrdma-rust-dkms'
	claim 'the package is removed' worked
	every_module >"$state/modules"
	claim 'all modules are where they were' diff "$work/old_kernel/modules" "$state/modules"
}

# in_vm COMMAND: runs it in a VM whose root is the state, with the kernel of the build root for $vm_kernel, which is the one that is
# installed here.
in_vm() {
	status=0
	said=$(KVER=$vm_kernel in_mounted scripts/enter env "${vm_environment[@]}" nice scripts/vm.py single --module installed \
		--root "/src/${state#"$top"/}/root" "${vm_options[@]}" --limit "${limit:-3600}" -- "selftests/packages/$1" 2>&1) || status=$?
	printf '# in a VM: %s\n%s\n# status %d\n' "$*" "$said" "$status" >>"$state/log"
	printf '%s\n' "$said" | grep '^# ' || true
}
vm_environment=() vm_options=() vm_kernel=$new

test_vm() {
	state vm upgrade
	run 'apt-get -q install nfs-kernel-server nfs-common rdma-core iproute2 procps'
	claim 'the tools for a mount are installed' worked
	in_chroot 'rm /usr/local/bin/uname' # of the kernel before the upgrade; a VM has its own
	in_vm "guest-dkms.sh $module_version"
	claim 'all of that held in a VM' worked
}

# A checkout that is built for a kernel without the packages for DKMS.
test_checkout() {
	state checkout
	kernel "$new"
	runs_kernel "$new"
	mkdir -p "$state/upper/root/rpcrdma"
	git -c safe.directory="$PWD" ls-files -z | xargs -0 cp --parents -t "$state/upper/root/rpcrdma"
	directory=/packages typed 'A kernel that you built yourself' 2 '/^make/d'
	claim 'metadata and compilers are installed as the document says' worked
	directory=/root/rpcrdma typed 'A kernel that you built yourself' 2 '/^apt/d'
	claim 'a checkout is built as the document says' worked
	claim 'for that kernel' [ "$(in_chroot 'modinfo -F vermagic /root/rpcrdma/iwarp.ko' | cut -d' ' -f1)" = "$new" ]
	claim 'nobody is warned' [ "${said#*warning}" = "$said" ]
	run 'apt-get -q install openssl'
	in_vm "guest-checkout.sh /root/rpcrdma $module_version"
	claim 'all of that held in a VM' worked
}

# A machine whose firmware trusts the keys of Microsoft and whose shim trusts those of Debian, as most PCs.
test_secure_boot() {
	local stage vm_environment vm_options
	state secure_boot new_user
	# shellcheck disable=SC2016 # the shell in the chroot expands it
	run 'apt-get -q install mokutil && mkdir /root/firmware /tmp/p && cd /tmp &&
		apt-get -q download ovmf shim-signed shim-helpers-amd64-signed grub-efi-amd64-signed &&
		for package in *.deb; do dpkg-deb -x $package p; done && cd p/usr/ &&
		cp -L share/OVMF/OVMF_CODE_4M.ms.fd /root/firmware/code.fd && cp share/OVMF/OVMF_VARS_4M.ms.fd /root/firmware/vars.fd &&
		cp lib/shim/shimx64.efi.signed /root/firmware/shim.efi && cp lib/shim/mmx64.efi.signed /root/firmware/mm.efi &&
		cp lib/grub/x86_64-efi-signed/grubx64.efi.signed /root/firmware/grub.efi'
	claim 'mokutil is installed, and there is a firmware with Secure Boot' worked
	cp -r "$state/upper/root/firmware" "$state/"
	vm_environment=(FIRMWARE="/src/${state#"$top"/}/firmware" PASSWORD=a-password)
	vm_options=(--qemu /src/selftests/packages/secure-boot.py --boot-limit 900)
	for stage in before after; do
		in_vm "guest-secure-boot.sh $stage $module_version a-password"
		claim "with Secure Boot, $stage the key is enrolled, all of that held" worked
	done
}

# flavour KVER: a kernel of another flavour.
flavour() {
	local flavour release
	flavour=$(flavour_of "$1") release=$(release_of "$1")
	state "$flavour"
	in_chroot 'ln -s /bin/true /usr/local/sbin/reboot'
	typed 'Install' 1 "s/-amd64/-$flavour-amd64/g"
	claim "a kernel of flavour $flavour is installed as the document says" worked
	claim "it is the newest that the packages are for, $release" holds "[ -e /usr/lib/modules/$release/build/Makefile ]"
	runs_kernel "$release"
	directory=/packages typed 'Install' 2
	claim 'the packages are installed as the document says, and rpcrdma-status says which module the kernel has' \
		says "  kernel $release has this module, version $module_version"
	claim 'the package manager is whole' whole
	claim 'modprobe would take this module' has_ours "$release"
	claim 'no metadata was built on this machine' holds '[ ! -e /var/cache/rpcrdma-rust ]'

	run "apt-get -q purge linux-rust-metadata-$release && dkms unbuild rpcrdma-rust/${version%-*} -k $release &&
		apt-get -q install linux-source-$(series_of "$release") && dkms autoinstall -k $release"
	claim 'without the package of metadata it is built again' worked
	claim 'with metadata that was built from the source' holds "[ -e /var/cache/rpcrdma-rust/$release/rust/libkernel.rmeta ]"
	claim 'modprobe would take it' has_ours "$release"
	run 'rpcrdma-status'
	claim 'rpcrdma-status says so' says "  kernel $release has this module, version $module_version"
}

# boots KVER TYPE: a machine that starts with that kernel, and has an RDMA device of that type.
boots() {
	local flavour release boot vm_options vm_kernel
	flavour=$(flavour_of "$1") release=$(release_of "$1")
	state "${flavour}_boots" "$flavour"
	run 'apt-get -q install systemd udev nfs-kernel-server nfs-common rdma-core iproute2 procps && mkdir -p /export /var/log/journal &&
		systemctl enable systemd-networkd.service && rm /usr/local/bin/uname /usr/local/sbin/reboot &&
		printf "[Match]\nName=eth0\n[Network]\nAddress=10.0.0.1/24\n" >/etc/systemd/network/eth0.network &&
		echo "tmpfs /export tmpfs defaults 0 0" >/etc/fstab &&
		echo "/export *(rw,no_root_squash,no_subtree_check,insecure,fsid=0)" >/etc/exports'
	claim 'systemd and the tools for a mount are installed' worked
	vm_kernel=$release vm_options=(--systemd "/src/${state#"$top"/}/disk")
	for boot in first second third; do
		in_vm "guest-boot.sh $boot $module_version $2"
		claim "when it booted for the $boot time, all of that held" worked
	done
}

test_cloud() { flavour 7.3-cloud; }
test_cloud_boots() { boots 7.3-cloud iwarp-tcp; }
test_rt() { flavour 7.3-rt; }
test_rt_boots() { boots 7.3-rt iwarp-sctp; }

# What of the document no test types, and why.
not_typed="typed 'Build in a checkout, for a kernel from trixie-backports' 1: each run of make check does
typed 'A kernel that you built yourself' 1: selftests/scripts/self-made.sh, in the build root
typed 'Kernel upgrades' 1: what the log says; guest-dkms.sh looks for it
typed 'Start at boot' 1: for a file; it is in the examples
typed 'Start at boot' 2: for a file; it is in the examples
typed 'Start at boot' 3: for a file; it is in the examples
typed 'Update this module' 1: git and systemd; the rest is typed elsewhere"

test_document() {
	local number
	status=0 said=$(diff <(blocks) <({ grep -oh "typed '[^']*' [0-9]" selftests/packages/{packages,guest-*}.sh
		cut -d: -f1 <<<"$not_typed"; } | sort -u) || true)
	claim 'each command of the document is typed, or nobody can type it' [ -z "$said" ]
	for number in 1 2 3; do
		said=$(block 'Start at boot' "$number" | grep -vxFf <(cat scripts/packaging/examples/*) || true)
		claim "the lines for a file, $number, are in the examples" [ -z "$said" ]
	done
}

mkdir -p "$work"
exec 8>"$cache/packaging/tests.lock" # apt waits for no other that uses the same downloads.
flock 8
tests=(document old_kernel install autopkgtest upgrade remove_kernel remove downgrade breaks new_user no_rust no_headers no_source own_key
	other_compiler vendor leftover vm checkout secure_boot cloud cloud_boots rt rt_boots)
. selftests/packages/tests.sh
