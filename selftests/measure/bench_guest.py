#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs the workloads of the benchmark in a VM that is client and server at once, and prints a JSON object: what each
workload did, in how many seconds of the VM's time, and the phase in which that was, for who counts instructions of a kind (executed.py).
What it costs to start the workload is the phase behind that.

The VM counts a nanosecond for each instruction that it executes, so this says how many instructions an operation takes
from the system call to the reply and back, whatever else the host does.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True

from executed import mark
from rig import SRC, make_file, mount, run
from workloads import MOUNT, WORKLOADS, fio

ADDRESS = "10.0.0.1"
SYSCTL = Path("/proc/sys/sunrpc")


def add_wire():
    """Makes the network device that this machine reaches itself by."""
    run("ip", "link", "add", "wire", "mtu", "4500", "up", "type", "dummy")
    run("ip", "address", "add", f"{ADDRESS}/24", "dev", "wire")
    # What goes to an own address over TCP or SCTP passes through the loopback interface.
    run("ip", "link", "set", "lo", "mtu", "4500")


def set_up(inline, rdma, tcp):
    # Where and when it collapses pages has nothing to do with what is measured.
    Path("/sys/kernel/mm/transparent_hugepage/enabled").write_text("never")
    run("modprobe", "-a", "dummy", "rpcrdma", "nfs")
    if inline:
        for name in "rdma_max_inline_read", "rdma_max_inline_write", "svc_rdma/max_req_size":
            (SYSCTL / name).write_text(str(inline))
    add_wire()
    if not tcp:
        run("rdma", "link", "add", "device", "type", rdma, "netdev", "wire")
    run(str(SRC / "scripts/vm/nfs-server"), "start")
    run(*make_file("/export"))
    mount(MOUNT, ADDRESS, "noac", tcp=tcp)
    # No delegation is given before the grace periods are over. Nobody waits: idle time passes at once.
    time.sleep(15)


def over_long_path(measure):
    """The same over a path of a millisecond there and back. Not for soft RoCE, which hands packets to itself without a network device."""
    def delayed(seconds):
        run("modprobe", "sch_netem")
        run("tc", "qdisc", "add", "dev", "lo", "root", "netem", "limit", "10000", "delay", "500us")
        try:
            return measure(seconds)
        finally:
            run("tc", "qdisc", "del", "dev", "lo", "root")
    delayed.starts = measure.starts
    return delayed


LONG_PATH = {
    "4 KiB random read, depth 64, 1 ms": over_long_path(fio("randread", "4k", 64)),
    "4 KiB random write, depth 64, 1 ms": over_long_path(fio("randwrite", "4k", 64)),
}


def loaded_modules():
    """Returns name, start and end of each."""
    fields = [line.split() for line in Path("/proc/modules").read_text().splitlines()]
    return [(f[0], int(f[5], 16), int(f[5], 16) + int(f[1])) for f in fields]


def profiled(measure, seconds):
    """Returns how many samples of `measure` fell to each owner: the module that is nearest to the top of the stack."""
    # The idle loop is nobody's work. Stacks are many, as each frame has its offset.
    tracer = subprocess.Popen(["bpftrace", "-q", "-f", "json", "-e",
                               'profile:hz:4999 /tid != 0/ { @[kstack(perf, 32)] = count(); } '
                               'BEGIN { printf("ready"); }'],
                              stdout=subprocess.PIPE, text=True, env={**os.environ, "BPFTRACE_MAX_MAP_KEYS": "200000"})
    tracer.stdout.readline()
    measure(seconds)
    tracer.terminate()
    owners, modules = {}, loaded_modules()
    for line in tracer.communicate()[0].splitlines():
        entry = json.loads(line) if line.startswith("{") else {}
        if entry.get("type") != "map":
            continue
        for stack, count in entry["data"].get("@", {}).items():
            # bpftrace may write the ends of lines as two characters.
            frames = stack.replace("\\n", "\n").replace("\\t", "\t").splitlines()
            addresses = [int(frame.split()[0], 16) for frame in frames if frame.strip()]
            owner = next((name for address in addresses for name, start, end in modules if start <= address < end),
                         "kernel" if addresses else "user")
            owners[owner] = owners.get(owner, 0) + count
    return owners


def counted(measure, seconds, phase):
    """Returns what the workload did, in how many seconds, and the phase."""
    mark(phase)
    operations, took = measure(seconds)
    mark(0)
    if measure.starts:
        mark(phase + 1)
        measure(0)
        mark(0)
    return operations, took, phase


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rdma", default="rxe", help="the type of the RDMA device")
    parser.add_argument("--tcp", action="store_true", help="NFS over TCP, without an RDMA device")
    parser.add_argument("--inline", type=int, help="inline sizes of client and server; without, the module's own")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--only", default="", help="workloads with this in their name")
    parser.add_argument("--long-path", action="store_true", help="also over a path of a millisecond; not over rxe")
    parser.add_argument("--profile", action="store_true", help="who executes the instructions, instead of how many")
    options = parser.parse_args()
    set_up(options.inline, options.rdma, options.tcp)
    results = {}
    for index, (name, measure) in enumerate((WORKLOADS | (LONG_PATH if options.long_path else {})).items()):
        if options.only not in name:
            continue
        measure(0.1)
        if options.profile:
            results[name] = profiled(measure, options.seconds)
        else:
            results[name] = counted(measure, options.seconds, 1 + 2 * index)
        print(name, results[name], file=sys.stderr, flush=True)
    run("umount", str(MOUNT))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
