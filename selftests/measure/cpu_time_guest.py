#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs the workloads of the benchmark on the client of a pair, and says before and after each that it begins and ends: vm.py adds to
such a line how much CPU time each machine has used (--cpu-time). cpu_time.py makes a table of it."""

import argparse
import os
import sys
import time

sys.dont_write_bytecode = True

from programs import PROGRAMS
from rig import make_file, mount, on_server, run
from workloads import MOUNT, WORKLOADS

ATTEMPTS = 10


def mark(word, name, operations=0):
    """Says that a measurement begins or ends. What the machine does while the line is on its way is not part of it."""
    time.sleep(0.05)
    print(f"cpu-time\t{word}\t{name}\t{operations}", flush=True)
    time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tcp", action="store_true", help="NFS over TCP")
    parser.add_argument("--seconds", type=float, default=1, help="for each workload")
    parser.add_argument("--samples", type=int, default=2, help="of each workload")
    parser.add_argument("--only", default="", help="workloads with this in their name")
    parser.add_argument("--programs", action="store_true", help="programs instead of a mount")
    options = parser.parse_args()
    if options.programs:
        load = "modprobe -a rdma_ucm ib_uverbs"
        run(*load.split())
        on_server(load)
        measure_all(PROGRAMS, options)
        return
    run("modprobe", "-a", "rpcrdma", "nfs")
    on_server(" ".join(make_file("/export")))
    mount(MOUNT, os.environ["SERVER_ADDR"], "noac", tcp=options.tcp)
    # No delegation is given before lockd's grace period is over.
    on_server('until [ "$(cut -d. -f1 /proc/uptime)" -ge "$(</run/lockd-grace-ends)" ]; do sleep 0.2; done')
    measure_all(WORKLOADS, options)
    run("umount", str(MOUNT))


def measure_all(workloads, options):
    """Runs those workloads that were asked for, once without a measurement."""
    chosen = {name: measure for name, measure in workloads.items() if options.only in name}
    for name, measure in chosen.items():
        one_sample("warm", name, measure, 0.2)
    for _ in range(options.samples):
        for name, measure in chosen.items():
            if measure.starts:
                one_sample("start", name, measure, 0)
            one_sample("end", name, measure, options.seconds)


def one_sample(word, name, measure, seconds):
    """Marks the begin of a workload, and its end with that word. One that did nothing begins again."""
    for _ in range(ATTEMPTS):
        mark("begin", name)
        operations, _ = measure(seconds)
        if operations:
            mark(word, name, operations)
            return
    sys.exit(f"{name} did nothing, {ATTEMPTS} times")


if __name__ == "__main__":
    main()
