#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compares our module with the kernel's own, over each device, and with NFS over TCP: instructions for an operation, client and server
together.

Boots a VM for each (bench_guest.py runs there), prints a table, and writes it: build/bench/table.txt, and counted.tsv with a line for each
figure, of which chart.py draws bars.svg; with --profile who executes the instructions, build/bench/shares.txt. Runs inside the build root.

A string instruction that copies counts for each octet or word, so each figure is there twice: with these, and without (executed.py).
"""

import argparse
import json
import sys

sys.dont_write_bytecode = True

import chart
import executed
from candidates import KINDS, TCP, candidates, chosen
from rig import SRC, boot, fail, write

OUT = SRC / "build/bench"
CANDIDATES = candidates([("in-tree, 8192 inline, rxe", "c", "rxe", ("--inline=8192",))])
OWNERS = ["rdma_rxe", "siw", "iwarp", "sctp", "sunrpc", "rpcrdma", "nfs", "nfsd", "kernel", "user"]


def rates(found, steps):
    """Returns what each workload did in a second, and in one without the steps of string instructions."""
    return {name: (operations / seconds, operations / (seconds - (steps[phase] - steps[phase + 1]) / 1e9))
            for name, (operations, seconds, phase) in found.items()}


def guest(name, options):
    """Returns what bench_guest.py found in a VM of this candidate: rates, or with --profile shares."""
    module, device, append, more = CANDIDATES[name]
    command = ["selftests/measure/bench_guest.py", f"--seconds={options.seconds}", f"--only='{options.only}'", f"--rdma={device}", *more]
    command += ["--profile"] if options.profile else []
    command += ["--long-path"] if options.long_path else []
    append = f"{append} {options.append}".strip()
    succeeded, said = boot("single", command, "--module", module, "--rdma", device, "--accel", "count", "--smp", "1",
                           "--limit", str(options.limit), f"--append={append}", *([] if options.profile else executed.counting("strings")))
    lines = said.splitlines()
    if not succeeded or not lines:
        fail(f"the VM of {name} failed: {said[-2000:]}")
    print(f"bench: {name}", file=sys.stderr, flush=True)
    found = json.loads(lines[-1])
    return found if options.profile else rates(found, executed.by_phase(executed.newest("single")))


def table(results):
    """Each candidate has a line for each workload, with what it does of what the in-tree module and NFS over TCP do."""
    yield "operations per second of guest time, in which an instruction is a nanosecond; and without the steps of string instructions"
    for workload in next(iter(results.values())):
        yield ""
        yield f"{workload:34}" + f"{'':>12}{'of in-tree':>12}{'of NFS/TCP':>12}" * 2
        for name, found in results.items():
            against = name.replace("ours", "in-tree") if name.startswith("ours") else None, TCP if name != TCP else None
            line = f"  {name:32}"
            for at, rate in enumerate(found[workload]):
                ratios = (f"{rate / results[other][workload][at]:.2f}" if other in results else "" for other in against)
                line += f"{rate:12.1f}" + "".join(f"{ratio:>12}" for ratio in ratios)
            yield line.rstrip()


def shares(results):
    for side, workloads in results.items():
        yield f"{side + ': share of the instructions, %':44}" + "".join(f"{o:>10}" for o in OWNERS) + f"{'rest':>10}"
        for workload, owners in workloads.items():
            total = sum(owners.values()) or 1
            named = [100 * owners.get(o, 0) / total for o in OWNERS]
            yield f"{workload:44}" + "".join(f"{s:10.1f}" for s in named) + f"{100 - sum(named):10.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2, help="guest time for each workload")
    parser.add_argument("--only", default="", help="workloads with this in their name")
    parser.add_argument("--devices", nargs="+", choices=KINDS, default=[], help="candidates over these, and NFS over TCP")
    parser.add_argument("--candidates", nargs="+", choices=list(CANDIDATES), default=[], help="only these")
    parser.add_argument("--append", default="", help="more for the kernel's command line, as in 'iwarp.mulpdu=64768'")
    parser.add_argument("--long-path", action="store_true", help="also 64 operations at a time over a path of a millisecond; not over rxe")
    parser.add_argument("--limit", type=int, default=1800, help="seconds until a VM is killed")
    parser.add_argument("--profile", action="store_true", help="who executes the instructions, instead of how many")
    options = parser.parse_args()
    names = options.candidates or chosen(CANDIDATES, options.devices)
    results = {}
    executed.build()
    for name in names:
        results[name] = guest(name, options)
        if not options.profile:
            # What was measured so far is kept if a later VM fails.
            OUT.mkdir(parents=True, exist_ok=True)
            chart.save(OUT / "counted.tsv", results)
    write(OUT, "shares.txt" if options.profile else "table.txt", "\n".join((shares if options.profile else table)(results)) + "\n")
    if not options.profile:
        (OUT / "bars.svg").write_text(chart.draw(results))


if __name__ == "__main__":
    main()
