#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Boots a machine, or a pair of them, with the kernel in /kernel and runs a command there.

Runs inside the build root (scripts/enter). The kernel says how it is run: one for User-Mode Linux is a process, all others are
booted by QEMU (scripts/machines). Each run has a directory build/vm/<run>/ with each machine's console, its kernel log, its exit
status and the times of its tests; build/vm/last is the newest run. The exit status is the command's, unless a kernel log has a
report of a fault, or the machine had to be killed.
"""

import argparse
import fcntl
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True

from machines import CACHE, DIED, KERNEL, PEER_KERNEL, SRC, added, complain, qemu, uml

RUNS = SRC / "build/vm"
RDMA = ("rxe", "strict", "siw", "iwarp-tcp", "iwarp-sctp")
RUNS_KEPT = 30
BOOTS = 3
MACHINES = uml if KERNEL.uml else qemu


def new_run():
    RUNS.mkdir(parents=True, exist_ok=True)
    old = sorted(p for p in RUNS.iterdir() if p.is_dir() and not p.is_symlink())
    for path in old[:-RUNS_KEPT]:
        shutil.rmtree(path, ignore_errors=True)
    run = Path(tempfile.mkdtemp(prefix=time.strftime("%m%d-%H%M%S-"), dir=RUNS))
    run.chmod(0o755)
    last = RUNS / "last"
    fresh = RUNS / f".last-{run.name}"
    fresh.symlink_to(run.name)
    fresh.rename(last)
    return run


def take_turn(options):
    """Waits until no other run is under way that must be alone on this machine."""
    CACHE.mkdir(parents=True, exist_ok=True)
    turn = open(CACHE / "lock", "w")
    if options.interactive or not MACHINES.ALONE:
        return turn
    # Who has just run waits behind who waits already: only one at a time waits for the turn itself.
    with open(CACHE / "next", "w") as following:
        for lock in following, turn:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print("vm: waiting for another run to end", file=sys.stderr)
                fcntl.flock(lock, fcntl.LOCK_EX)
    return turn


def came_up(vms, limit):
    """Says whether each guest began its role, which is before it loads the module under test."""
    deadline = time.monotonic() + limit
    while not all((vm.dir / "booted").exists() for vm in vms):
        if time.monotonic() >= deadline or any(vm.process.poll() is not None for vm in vms):
            return False
        time.sleep(0.1)
    return True


def boot(options):
    """Starts the VMs of a run and returns their directory and them.

    On a busy host an emulated CPU can lose its timer while the kernel starts; that guest never comes up, and another one is
    started.
    """
    for _ in range(BOOTS):
        run = new_run()
        if options.kind == "pair":
            (run / "pair").mkdir()
        vms = (MACHINES.single if options.kind == "single" else MACHINES.pair)(options, run)
        if options.cpu_time:
            vms[-1].timed = vms[::-1]
        for vm in vms:
            vm.start()
        if options.interactive or came_up(vms, options.boot_limit):
            return run, vms
        for vm in vms:
            vm.kill()
            vm.clean_up()
        complain(f"a guest did not come up within {options.boot_limit:.0f} s; consoles: {run}/*/console.log")
    sys.exit(DIED)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("single", "pair"))
    parser.add_argument("--module", choices=("rust", "c", "installed"), default="rust", help="of a single VM")
    parser.add_argument("--client", choices=("rust", "c"), default="rust")
    parser.add_argument("--server", choices=("rust", "c"), default="rust")
    parser.add_argument("--rdma", choices=RDMA, default="rxe", help="the RDMA device")
    parser.add_argument("--peer-rdma", choices=RDMA, help="the RDMA device of a pair's server, if it is another one")
    parser.add_argument("--dma", choices=tuple(qemu.DMA), default="", help="what of the machine maps memory for a strict device: QEMU only")
    parser.add_argument("--built", type=Path, default=SRC if KERNEL.stock else SRC / "build" / KERNEL.name, help="where our modules are")
    parser.add_argument("--peer-built", type=Path, help="where those of a pair's server are, if its kernel is another one")
    parser.add_argument("--root", type=Path, help="the root directory of the VMs, if it is another one; its kernel modules are those of the build root")
    parser.add_argument("--smp", type=int, default=2)
    parser.add_argument("--memory", default="3G" if KERNEL.checks and not KERNEL.uml else "2G")
    parser.add_argument("--peer-memory", help="of a pair's server, if it has another amount")
    parser.add_argument("--accel", choices=("auto", *qemu.ACCELERATION), default="auto")
    parser.add_argument("--append", default="", help="more for the kernel's command line")
    parser.add_argument("--cpu-time", action="store_true", help="add the machines' CPU time to lines that ask for it: User-Mode Linux only")
    parser.add_argument("--systemd", type=Path, metavar="DISK", help="start the systemd of the root, with an eth0; this file has what is written "
                        "to the root, also when the VM starts again: one VM of QEMU only")
    parser.add_argument("--disk", type=Path, help="a file with the file system that the VM has as its root, and writes to: one VM of QEMU only; "
                        "its kernel is that of the build root")
    parser.add_argument("--qemu", help="what is started with QEMU's arguments, instead of QEMU")
    parser.add_argument("--plugin", help="a plugin of QEMU and its arguments; that with the name out= is the file `plugin` of the machine's directory")
    parser.add_argument("--boot-limit", type=float, default=MACHINES.BOOT_SECONDS, help="seconds until a guest that did not come up is killed")
    parser.add_argument("--limit", type=float, default=600, help="seconds until the VMs are killed")
    parser.add_argument("command", nargs="?", default="", help="a shell command; none gives a shell")
    options = parser.parse_args()
    options.interactive = not options.command
    options.peer_rdma = options.peer_rdma or options.rdma
    options.peer_memory = options.peer_memory or options.memory
    options.peer_built = options.peer_built or (options.built if PEER_KERNEL is KERNEL else SRC / "build" / f"kernel-{PEER_KERNEL.release}")
    needed = [(KERNEL, options.built, options.module if options.kind == "single" else options.client, options.rdma)]
    if options.kind == "pair":
        needed += [(PEER_KERNEL, options.peer_built, options.server, options.peer_rdma)]
    for kernel, built, module, rdma in needed:
        if not kernel.uml and not options.qemu and not shutil.which(kernel.architecture.qemu):
            sys.exit(f"vm: the build root has no {kernel.architecture.qemu}; that of a kernel for {kernel.architecture.name} has the others, too")
        for file in added(kernel, built, module, rdma):
            if not file.exists():
                builder = {"siw.ko": "selftests/iwarp/siw.sh", "rdma_rxe.ko": "selftests/strict/strict.sh"}.get(file.name, "`make module`")
                sys.exit(f"vm: {file} is not there; {builder} builds it")

        if options.kind == "pair" and rdma == "rxe" and not kernel.has("RDMA_RXE"):
            sys.exit(f"vm: kernel {kernel.release} has no rxe; iwarp-tcp and iwarp-sctp are devices for each kernel")
    if PEER_KERNEL is not KERNEL and (KERNEL.uml or PEER_KERNEL.uml):
        sys.exit("vm: a pair of two kernels is one of QEMU")
    if options.systemd and (KERNEL.uml or options.kind == "pair" or options.interactive):
        sys.exit("vm: --systemd is for a command in one VM of QEMU")
    if options.disk and (KERNEL.uml or options.kind == "pair" or options.root or options.systemd or options.module != "installed"):
        sys.exit("vm: --disk is for one VM of QEMU, with what is installed there")
    if options.cpu_time and not KERNEL.uml:
        sys.exit("vm: --cpu-time is for KERNEL=uml")

    if options.plugin and KERNEL.uml:
        sys.exit("vm: --plugin is for VMs of QEMU")
    if options.dma and (KERNEL.uml or KERNEL.foreign or options.rdma != "strict"):
        sys.exit("vm: --dma is for --rdma strict, in VMs of QEMU for x86-64")

    turn = take_turn(options)
    run, vms = boot(options)
    deadline = time.monotonic() + (float("inf") if options.interactive else options.limit)
    status = vms[-1].wait(deadline, vms[0] if options.kind == "pair" else None)
    if options.kind == "pair":
        (run / "pair/stop").touch()
        server = vms[0].wait(time.monotonic() + 60)
        status = status or server
    if any([vm.faults() for vm in vms]):
        status = status or 1
    for vm in vms:
        vm.clean_up()
    turn.close()
    return status


sys.exit(main())
