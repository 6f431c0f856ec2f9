#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compares our module with the kernel's own and with NFS over TCP: instructions for an operation, client and server together.

Boots a VM for each (bench_guest.py runs there), prints a table and draws it: build/bench/rxe/table.txt and ratios.svg, or what the RDMA
device is called that they have; with --profile who executes the instructions, build/bench/rxe/shares.txt. Runs inside the build root.
"""

import argparse
import json
import sys

sys.dont_write_bytecode = True

from rig import SRC, boot, fail, write

OUT = SRC / "build/bench"
# Name, module, more for bench_guest.py.
SIDES = [("ours", "rust", ()), ("C", "c", ()), ("C, 8192 inline", "c", ("--inline=8192",)), ("NFS/TCP", "c", ("--tcp",))]
# Of the bars of those but the first, in the chart.
COLOURS = ("#2a6f97", "#89a7b8", "#c9a227")
OWNERS = ["rdma_rxe", "siw", "iwarp", "sctp", "sunrpc", "rpcrdma", "nfs", "nfsd", "kernel", "user"]


def guest(module, more, options):
    """Returns what bench_guest.py found in a VM with `module`."""
    command = ["selftests/measure/bench_guest.py", f"--seconds={options.seconds}", f"--only='{options.only}'", f"--rdma={options.rdma}",
               f"--parameters='{options.parameters}'", *more]
    command += ["--profile"] if options.profile else []
    succeeded, said = boot("single", command, "--module", module, "--rdma", options.rdma, "--accel", "count", "--smp", "1",
                           "--limit", str(options.limit))
    lines = said.splitlines()
    if not succeeded or not lines:
        fail(f"the VM with module {module} failed: {said[-2000:]}")
    return json.loads(lines[-1])


def table(results):
    first, *others = results.values()
    names = list(results)
    yield f"{'operations per second of guest time':32}" + "".join(f"{name:>16}" for name in names) \
        + "".join(f"{names[0] + ' / ' + name:>24}" for name in names[1:])
    for workload, rate in first.items():
        yield f"{workload:32}" + "".join(f"{r[workload]:16.1f}" for r in results.values()) \
            + "".join(f"{rate / r[workload]:24.2f}" for r in others)


def shares(results):
    for side, workloads in results.items():
        yield f"{side + ': share of the instructions, %':44}" + "".join(f"{o:>10}" for o in OWNERS) + f"{'rest':>10}"
        for workload, owners in workloads.items():
            total = sum(owners.values()) or 1
            named = [100 * owners.get(o, 0) / total for o in OWNERS]
            yield f"{workload:44}" + "".join(f"{s:10.1f}" for s in named) + f"{100 - sum(named):10.1f}"


def chart(results):
    """Bars of the rate of the first side over that of each other one; the line is 1."""
    first, *others = results.values()
    bar, left, scale = 16, 250, 300
    row, names = bar * len(others) + 12, list(results)
    parts = [f'<text x="{left + 130 * j}" y="40" fill="{colour}">{name}</text>' for j, (name, colour) in enumerate(zip(names[1:], COLOURS))]
    for i, (workload, rate) in enumerate(first.items()):
        y = 50 + i * row
        parts.append(f'<text x="{left - 10}" y="{y + 20}" text-anchor="end">{workload}</text>')
        for j, (side, colour) in enumerate(zip(others, COLOURS)):
            ratio = rate / side[workload]
            parts.append(f'<rect x="{left}" y="{y + j * bar}" width="{ratio * scale:.0f}" height="{bar - 2}" fill="{colour}"/>'
                         f'<text x="{left + ratio * scale + 6:.0f}" y="{y + j * bar + 12}">{ratio:.2f}</text>')
    height = 60 + len(first) * row
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{height}" font-family="sans-serif" font-size="13">',
        f'<text x="10" y="20">Operations per instruction, {names[0]} over each of the others</text>',
        *parts,
        f'<line x1="{left + scale}" x2="{left + scale}" y1="45" y2="{height - 10}" stroke="black"/>',
        "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2, help="guest time for each workload")
    parser.add_argument("--only", default="", help="workloads with this in their name")
    parser.add_argument("--rdma", choices=("rxe", "siw", "iwarp-tcp", "iwarp-sctp"), default="rxe", help="the RDMA device")
    parser.add_argument("--parameters", default="", help="of iwarp.ko, as in 'crc=N mulpdu=64768'")
    names = [name for name, _, _ in SIDES]
    parser.add_argument("--sides", nargs="+", choices=names, default=names, help="only these; the first is compared with the others")
    parser.add_argument("--limit", type=int, default=1800, help="seconds until a VM is killed")
    parser.add_argument("--profile", action="store_true", help="who executes the instructions, instead of how many")
    options = parser.parse_args()
    out = OUT / options.rdma
    results = {name: guest(module, more, options) for name, module, more in SIDES if name in options.sides}
    text = "\n".join((shares if options.profile else table)(results)) + "\n"
    write(out, "shares.txt" if options.profile else "table.txt", text)
    if not options.profile and len(results) > 1:
        (out / "ratios.svg").write_text(chart(results))


if __name__ == "__main__":
    main()
