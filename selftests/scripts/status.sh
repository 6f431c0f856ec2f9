#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What rpcrdma-status, and the line in the log when a module is loaded, say: in fake trees, with a fake modinfo, uname and mokutil.
# And whether the manual page knows the settings that docs/tuning.md describes.

# shellcheck source=selftests/scripts/claims.sh
. "$(dirname "$0")/claims.sh"
release=7.3.4+deb13-amd64
mkdir -p "$work/bin" "$work/usr/sbin" "$work/usr/lib/rpcrdma-rust"
export PATH=$work/bin:$PATH FAKES=$work

fine() { [ "$status" -eq 0 ] && says 'Nothing is wrong.'; }
# wrong WHAT REMEDY
wrong() { [ "$status" -eq 1 ] && [[ ${said#*What is wrong:} = *"$1"*"$2"* ]]; }

fake() { cat >"$work/bin/$1"; chmod +x "$work/bin/$1"; }

fake uname <<END
#!/bin/sh
echo $release
END

# Below \$FAKES/modules/NAME there is a file for each field that modinfo is asked for; \`file\` is what -n prints.
fake modinfo <<'END'
#!/bin/bash
field=file
while [ $# -gt 1 ]; do
	case $1 in
	-k | -b) shift ;;
	-F) field=$2; shift ;;
	esac
	shift
done
exec cat "$FAKES/modules/$1/$field"
END
fake mokutil <<'END'
#!/bin/sh
case $1 in
--sb-state) cat "$FAKES/secure-boot" ;;
--test-key) cat "$FAKES/key" ;;
esac
END
fake nfsconf <<'END'
#!/bin/sh
[ "$1" = --isset ] || echo y
END

fake rdma <<'END'
#!/bin/sh
[ "$*" = 'resource show ctx' ] && cat "$FAKES/contexts"
END

# What is installed and loaded: `ours`, `theirs`, or `none` for the second.
machine() {
	local file=kernel/net/sunrpc/xprtrdma/rpcrdma.ko.xz module
	rm -rf "$work/root" "$work/modules"
	export RPCRDMA_ROOT=$work/root
	mkdir -p "$work/root/sys/module" "$work/root/proc/self" "$work/root/proc/fs/nfsd" "$work/root/dev" "$work/modules/rpcrdma"
	echo 'SecureBoot disabled' >"$work/secure-boot"
	: >"$work/contexts"
	for module in ib_core rdma_cm iw_cm sunrpc; do
		mkdir "$work/modules/$module"
		echo "/lib/modules/$release/kernel/$module.ko.xz" >"$work/modules/$module/file"
	done
	if [ "$1" = ours ]; then
		file=updates/dkms/rpcrdma.ko.xz
		echo 0.9.0 >"$work/modules/rpcrdma/version"
		echo ABC >"$work/modules/rpcrdma/srcversion"
	fi
	echo "/lib/modules/$release/$file" >"$work/modules/rpcrdma/file"
	mkdir -p "$work/root/lib/modules/$release/kernel" "$work/root/lib/modules/$release/build"
	touch "$work/root/lib/modules/$release/build/Makefile"
	[ "$2" = none ] || mkdir "$work/root/sys/module/rpcrdma"
	if [ "$2" = ours ]; then
		echo 0.9.0 >"$work/root/sys/module/rpcrdma/version"
		echo ABC >"$work/root/sys/module/rpcrdma/srcversion"
	fi
	port=$work/root/sys/class/infiniband/rxe0/ports/1
	mkdir -p "$port/gid_attrs/ndevs"
	echo '4: ACTIVE' >"$port/state"
	echo Ethernet >"$port/link_layer"
	echo eth0 >"$port/gid_attrs/ndevs/0"
}

cp "$top/scripts/packaging/rpcrdma-status" "$work/usr/sbin/"
cp "$top/scripts/packaging/report" "$top/scripts/packaging/loaded" "$work/usr/lib/rpcrdma-rust/"
status() { run "$work/usr/sbin/rpcrdma-status"; }
loaded() { : >"$work/root/dev/kmsg"; run "$work/usr/lib/rpcrdma-rust/loaded"; said=$(cat "$work/root/dev/kmsg"); }

machine ours ours
printf '%s\n' '10.0.0.1:/ /mnt nfs4 rw,vers=4.2,proto=rdma,port=20049,addr=10.0.0.1 0 0' \
	'10.0.0.1:/ /tcp nfs4 rw,vers=4.2,proto=tcp,addr=10.0.0.1 0 0' >"$work/root/proc/self/mounts"
printf 'rdma 20049\nrdma 20049\ntcp 2049\n' >"$work/root/proc/fs/nfsd/portlist"
echo 4 >"$work/root/proc/fs/nfsd/threads"
status
claim 'this module runs: nothing is wrong' fine
claim 'it names the version that runs' says 'runs:             this module, version 0.9.0'
claim 'it names the file that modprobe takes' says "modprobe loads:   /lib/modules/$release/updates/dkms/rpcrdma.ko.xz, this module"
claim 'it says which module each kernel has' says "kernel $release has this module, version 0.9.0"
claim 'it lists the device with its port and network device' says 'rxe0 port 1: ACTIVE, Ethernet, eth0'
claim 'it lists the mount over RDMA' says '10.0.0.1:/ on /mnt, vers=4.2, port=20049'
claim 'but not the one over TCP' eval '! says /tcp'
claim 'no program uses a device' says 'Programs:
  none'
claim 'it lists the listener, once' [ "$(grep -c 'port 20049$' <<<"$said")" -eq 1 ]
loaded
claim 'the log has no line when this module is loaded' [ -z "$said" ]

echo XYZ >"$work/root/sys/module/rpcrdma/srcversion"
status
claim 'another build runs than is installed' wrong 'Another build of this module runs' 'rmmod rpcrdma'
machine ours none
status
claim 'no module is loaded yet: nothing is wrong' fine
claim 'and no iwarp.ko is installed: nothing is said of it' eval '! says iwarp'

machine ours ours
mkdir "$work/modules/iwarp"
echo "/lib/modules/$release/updates/dkms/iwarp.ko.xz" >"$work/modules/iwarp/file"
echo 0.9.0 >"$work/modules/iwarp/version"
echo DEF >"$work/modules/iwarp/srcversion"
status
claim 'iwarp.ko is installed and not loaded: nothing is wrong' fine
claim 'it says which iwarp.ko modprobe takes' says "modprobe loads:   /lib/modules/$release/updates/dkms/iwarp.ko.xz, version 0.9.0"
mkdir "$work/root/sys/module/iwarp"
echo 0.9.0 >"$work/root/sys/module/iwarp/version"
echo XYZ >"$work/root/sys/module/iwarp/srcversion"
status
claim 'another build of iwarp.ko runs than is installed' wrong 'Another build of iwarp.ko' 'rmmod iwarp'
echo DEF >"$work/root/sys/module/iwarp/srcversion"
status
claim 'the iwarp.ko that is installed runs: nothing is wrong' fine
printf '%s\n' 'dev iw0 ctxn 2 pid 4711 comm rping ' 'dev iw0 ctxn 3 pid 4711 comm rping ' >"$work/contexts"
status
claim 'it lists a program that uses a device, once' [ "$(grep -c '^  rping, process 4711, on iw0$' <<<"$said")" -eq 1 ]
claim 'which is no problem' fine

machine ours theirs
status
claim 'the in-tree module runs although this one is installed' wrong 'The in-tree module runs, although this one' 'rmmod rpcrdma && modprobe rpcrdma'
loaded
claim 'and the log says so' says "<4>rpcrdma-rust: the in-tree module runs, although kernel $release has this one"

machine theirs theirs
mkdir -p "$work/root/var/lib/rpcrdma-rust/skipped"
echo 'its Rust metadata is missing' >"$work/root/var/lib/rpcrdma-rust/skipped/$release"
status
claim 'this kernel has not got this module, and it says why' wrong 'is not installed for kernel' 'its Rust metadata is missing'
loaded
claim 'and so does the log, in one line' [ "$said" = "<4>rpcrdma-rust: kernel $release has the in-tree module, because its Rust metadata is missing" ]
rm "$work/root/lib/modules/$release/build/Makefile"
status
claim 'the headers are missing' wrong 'is not installed for kernel' "linux-headers-$release"
machine theirs ours
status
claim 'the module was removed while it runs' wrong 'modprobe will load another one' 'dkms autoinstall'

machine ours ours
mkdir -p "$work/root/var/lib/rpcrdma-rust/skipped"
echo 'what make modules_install left is in the way: FILE' >"$work/root/var/lib/rpcrdma-rust/skipped/$release"
status
claim 'this module was there before the package: it says that DKMS built nothing' says \
	"kernel $release has this module, version 0.9.0, but not from DKMS, because what make modules_install left is in the way: FILE"

machine ours ours
echo "/lib/modules/$release/updates/ib_core.ko" >"$work/modules/ib_core/file"
status
claim "a vendor's RDMA modules" wrong "ib_core is not the kernel's own" "vendor's RDMA stack"
machine ours ours
rm -r "$work/root/sys/class"
status
claim 'there is no device' wrong 'no RDMA device' 'rdma link add'
machine ours ours
echo '1: DOWN' >"$work/root/sys/class/infiniband/rxe0/ports/1/state"
status
claim 'a port is down' wrong 'Port 1 of rxe0 is DOWN' 'ip link show eth0'
machine ours ours
echo 4 >"$work/root/proc/fs/nfsd/threads"
status
claim 'nfsd does not listen for RDMA, as it should' wrong 'does not listen for RDMA' portlist

machine ours none
echo 'SecureBoot enabled' >"$work/secure-boot"
status
claim 'Secure Boot, and no signature' wrong 'the module is not signed' 'Secure Boot'
echo 'DKMS module signing key' >"$work/modules/rpcrdma/signer"
echo 'mok.pub is not enrolled' >"$work/key"
status
claim 'Secure Boot, and a key that is not enrolled' wrong 'is not enrolled' 'mokutil --import'
echo 'mok.pub is already enrolled' >"$work/key"
status
claim 'Secure Boot, and all as it should be' fine
run "$work/usr/sbin/rpcrdma-status" --what
claim 'an unknown argument is refused' [ "$status" -eq 2 ]

missing=
# shellcheck disable=SC2016 # those are not for the shell
said=$(sed -n 's/^| `\([a-z_]*\)` | \([0-9]*\) | \([0-9]*\) to \([0-9]*\) .*/\1 \2 \3 \4/p' "$top/docs/tuning.md")
while read -r name default least most; do
	grep -qE "^(\.BR|\.TP)?.*$name" "$top/scripts/packaging/rpcrdma-rust.7" || missing+=" $name"
	# Those without effect have no figures there.
	! grep -q "^\.BR $name \" (" "$top/scripts/packaging/rpcrdma-rust.7" ||
		grep -qF ".BR $name \" ($default; $least to $most)\"" "$top/scripts/packaging/rpcrdma-rust.7" || missing+=" $name:$default"
done <<<"$said"
claim 'docs/tuning.md has settings' [ "$(wc -l <<<"$said")" -ge 8 ]
claim "the manual page has the settings of docs/tuning.md, with default and range$missing" [ -z "$missing" ]

missing=
said=$(sed -n 's/^ *(Count::[A-Za-z]*, c_str!("\([a-z_]*\)")),$/\1/p' "$top"/rust/iwarp/{tcp,sctp}.rs | sort -u)
for name in $said; do grep -qE "^\.BR? .*\b$name\b" "$top/scripts/packaging/iwarp.7" || missing+=" $name"; done
claim 'the devices of iwarp.ko have counters' [ "$(wc -l <<<"$said")" -ge 12 ]
claim "and the manual page has them$missing" [ -z "$missing" ]

end_of_claims
