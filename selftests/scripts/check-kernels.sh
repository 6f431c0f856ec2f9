#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What `make check-kernels` runs, keeps, goes on with and removes: in a fake tree, where nothing is built and no machine boots. What the
# scripts would run is written down instead. Runs in the build root or outside of it; needs bash and git.

# shellcheck source=selftests/scripts/claims.sh
. "$(dirname "$0")/claims.sh"
tree=$work/tree
mkdir -p "$tree" "$work/cache" "$work/bin"
cp -r "$top/scripts" "$tree/"
export FAKES=$work XDG_CACHE_HOME=$work/cache
unset KVER KERNEL ROOT_DIR KERNEL_DIR ONLY KEEP CLIENT SERVER MODULE
printf '%s trixie-backports %s amd64\n' 7.3 generic 7.2 generic 7.3-cloud cloud >"$tree/scripts/buildroot/kernels"

fake() { { echo '#!/bin/bash'; cat; } >"$tree/scripts/$1"; chmod +x "$tree/scripts/$1"; }

# Makes what others look for, unless the mirror does not have the kernel. Without KVER that is the kernel of the other commands.
fake buildroot.sh <<'END_OF_FAKE'
. "$(dirname "$0")/lib.sh"
echo "root $KVER ${KERNEL:-}" >>"$FAKES/ran"
if grep -qsxF "$KVER" "$FAKES/gone"; then echo "error: no kernel $KVER"; exit 77; fi
if grep -qsxF "$KVER" "$FAKES/broken"; then echo 'error: no space'; exit 1; fi
root=$(root_dir)
[ -n "$root" ] || {
	flavour=$(flavour_of "$KVER") release=$(bare "$KVER").4+deb13$(release_suffix "$(flavour_of "$KVER")" amd64)
	root=$cache/root-$(root_key "$flavour")-$release
	mkdir -p "$root/etc/rpcrdma"
	echo "$release" >"$root/etc/rpcrdma/kver"
	: >"$root/etc/rpcrdma/toolchain"
}
dir=$(KERNEL='' kernel_dir "$root")
mkdir -p "$dir/build"
case $KVER in *-cloud) : ;; *) echo CONFIG_RDMA_RXE=m ;; esac >"$dir/build/.config"
END_OF_FAKE
fake build.sh <<'END'
mkdir -p build
echo "modules $KVER ${KERNEL:-}" | tee -a "$FAKES/ran" >build/module.log
END
# In a chroot there is no other namespace to be had.
fake ../../bin/unshare <<'END'
while [[ $1 = --* ]]; do shift; done
exec "$@"
END
# Writes down its process group, for who interrupts it.
fake check.test <<'END'
echo $$ >"$FAKES/group"
exec "$(dirname "$0")/check.sh" kernels
END
export PATH=$work/bin:$PATH
# A machine runs its list, unless that is to fail or to be interrupted.
fake enter <<'END_OF_FAKE'
[[ $* = *vm.py* ]] || { echo "step $KVER $*" >>"$FAKES/ran"; exit 0; }
rdma=$(sed 's/.* --rdma \([^ ]*\) .*/\1/' <<<"$*")
what="machine $KVER ${KERNEL:-stock} $2 $rdma ${*: -1}"
echo "$what" >>"$FAKES/ran"
if [ -e "$FAKES/interrupt" ] && grep -qFf "$FAKES/interrupt" <<<"$what"; then kill -INT -- "-$(cat "$FAKES/group")"; sleep 5; fi
if [ -e "$FAKES/fail" ] && grep -qFf "$FAKES/fail" <<<"$what"; then echo '# not ok 1 it works'; exit 1; fi
echo '# ok 1 it works'
END_OF_FAKE

git() { command git -c user.name=x -c user.email=x@example.org -c init.defaultBranch=main -C "$tree" "$@" >/dev/null; }
printf '/build/\n' >"$tree/.gitignore"
git init
git add -A
git commit -m tree

# run [SETTING=VALUE...]: its output to $said, its status to $status, what it ran to $ran.
run() {
	status=0
	: >"$work/ran"
	said=$(env "$@" setsid -w "$tree/scripts/check.test" 2>&1) || status=$?
	ran=$(cat "$work/ran")
}

passes() { [ "$status" -eq 0 ]; }
fails() { [ "$status" -ne 0 ]; }
ran() { [[ $ran = *"$1"* ]]; }
not() { ! "$@"; }
machines() { grep -c "^machine $1 " <<<"$ran"; }
roots() { find "$work/cache/rpcrdma" -maxdepth 1 -name 'root-*' -printf '%f\n' | sed 's/root-[^-]*-//' | sort | xargs; }

run
claim 'all kernels pass' passes
claim 'the first one has the lists of make check under User-Mode Linux' ran 'machine 7.3 uml-debug pair rxe  scripts/vm/kselftest mounts leaks.sh'
claim 'and on the stock kernel' ran 'machine 7.3 stock pair iwarp-tcp  scripts/vm/kselftest mount.sh'
claim 'others have none under User-Mode Linux' not ran 'machine 7.2 uml'
claim 'but the tests in the kernel' ran 'machine 7.2 stock single rxe  scripts/vm/kselftest inkernel.sh load.sh'
claim 'and a pair' ran 'machine 7.2 stock pair rxe DISCONNECTS=1 RESTARTS=1 REMOVALS=1 scripts/vm/kselftest stock'
claim 'which is all' [ "$(machines 7.2)" -eq 2 ]
claim 'a kernel without rxe has the tests in the kernel over iwarp-tcp' ran 'machine 7.3-cloud stock single iwarp-tcp '
claim 'and a pair over either device of this project' [ "$(grep -c 'machine 7.3-cloud stock pair iwarp-' <<<"$ran")" -eq 2 ]
claim 'and nothing over rxe' not ran '7.3-cloud stock pair rxe'
claim 'the root of the first kernel stays, and the others go' [ "$(roots)" = 7.3.4+deb13-amd64 ]
claim 'with their metadata' [ "$(find "$work/cache/rpcrdma" -name 'kernel-*' | wc -l)" -eq 1 ]
claim 'it says what became of each kernel, and how long that took' grep -qE '^7.3-cloud +7.3.4\+deb13-cloud-amd64 +passed on .*, in 0 min' <<<"$said"
total=$(grep ' passed, 0 failed' <<<"$said")

run
claim 'a second run runs nothing' [ -z "$ran" ]
claim 'passes as well' passes
claim 'and counts the same' says "$total"

echo change >"$tree/file"
run ONLY=7.2
claim 'what is not committed makes another tree' ran 'machine 7.2 '
claim 'ONLY= means one kernel' not ran 'machine 7.3'
rm "$tree/file"
run ONLY=7.2 CLIENT=c
claim 'so does another module' ran 'machine 7.2 '
run
claim 'without either, the results are there again' [ -z "$ran" ]
run ONLY=7.9
claim 'ONLY= refuses what is not in the list' fails
claim 'and says what is' says '7.3 7.2 7.3-cloud'

rm -r "$tree/build"
echo 'stock pair rxe DISCONNECTS' >"$work/fail"
run ONLY=7.2
claim 'a list that fails is a failure' fails
claim 'and has what it printed' says 'not ok 1 it works'
claim 'the root of a kernel that did not pass stays' [ "$(roots)" = '7.2.4+deb13-amd64 7.3.4+deb13-amd64' ]
rm "$work/fail"
run ONLY=7.2
claim 'the next run repeats it' ran 'machine 7.2 stock pair'
claim 'but not what has passed' [ "$(machines 7.2)" -eq 1 ]
claim 'and says so' grep -q '^kept  *7.2: one VM' <<<"$said"
claim 'it builds what that needs' ran 'modules 7.2'
claim 'and passes' passes
claim 'that root goes then' [ "$(roots)" = 7.3.4+deb13-amd64 ]

rm -r "$tree/build"
echo 'stock pair rxe DISCONNECTS' >"$work/interrupt"
run ONLY=7.2
claim 'a run that is interrupted does not pass' fails
rm "$work/interrupt"
run ONLY=7.2
claim 'the next one goes on there' [ "$(machines 7.2)" -eq 1 ]
claim 'and removes the root that the one before has made' [ "$(roots)" = 7.3.4+deb13-amd64 ]

rm -r "$tree/build"
run ONLY=7.2 KEEP=1
claim 'KEEP=1 keeps a root' [ "$(roots)" = '7.2.4+deb13-amd64 7.3.4+deb13-amd64' ]
rm -r "$tree/build"
run ONLY=7.2
claim 'a root that was there before stays' [ "$(roots)" = '7.2.4+deb13-amd64 7.3.4+deb13-amd64' ]

rm -r "$tree/build"
echo 7.3-cloud >"$work/gone"
run ONLY='7.2 7.3-cloud'
claim 'a kernel that is gone from the mirror is no failure' passes
claim 'it is skipped, with the reason' grep -q '^skipped 7.3-cloud: the build root' <<<"$said"
claim 'which stands below that' says 'error: no kernel 7.3-cloud'
claim 'and is counted' says ', 1 skipped'
claim 'the others run' ran 'machine 7.2 '
rm "$work/gone"
run ONLY='7.2 7.3-cloud'
claim 'when it is there again it runs' ran 'machine 7.3-cloud '
claim 'and nothing else does' not ran 'machine 7.2 '
rm -r "$tree/build"
echo 7.3-cloud >"$work/broken"
run ONLY=7.3-cloud
claim 'a root that cannot be made for another reason is a failure' fails

end_of_claims
