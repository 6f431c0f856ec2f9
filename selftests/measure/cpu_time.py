#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compares our module with the kernel's own, over each device, and with NFS over TCP: CPU time for an operation, of the client and of
the server, in a pair of machines of User-Mode Linux. Prints a table, which is in build/bench/time/table.txt, too; each single sample
is in samples.tsv. Runs inside the build root, for KERNEL=uml.

A round boots each candidate once, every second one in the opposite order, so that what changes slowly on this machine meets all of
them alike. Where the interquartile ranges of two candidates overlap, they are called equal.

With --programs it compares the devices instead, by what perftest takes over each.
"""

import argparse
import os
import statistics
import sys

sys.dont_write_bytecode = True

from candidates import DEVICES, KINDS, TCP, candidates, chosen
from rig import SRC, boot, fail, write

OUT = SRC / "build/bench/time"
CANDIDATES = candidates()
# Which module a machine has that runs no NFS does not matter.
PROGRAMS = {name: ("c", kind, append, ("--programs",)) for name, (kind, append) in DEVICES.items()}
# On a machine with much else to do a mount fails now and then, also that of the kernel's own module.
ATTEMPTS = 3


def samples_of(name, options):
    """Boots a pair for that candidate, and yields the workload and the CPU time for an operation of the client and of the server, in
    microseconds, of each sample, with the load of the host."""
    module, device, append, more = options.compared[name]
    command = ["selftests/measure/cpu_time_guest.py", f"--seconds={options.seconds}", f"--samples={options.samples}",
               f"--only='{options.only}'", *more]
    for attempt in range(1, ATTEMPTS + 1):
        succeeded, said = boot("pair", command, "--client", module, "--server", module, "--rdma", device, "--smp", options.smp, "--cpu-time",
                               "--limit", str(options.limit), f"--append={append}")
        if succeeded:
            break
        print(f"cpu_time: the pair of {name} failed, attempt {attempt}: {said[-2000:]}", file=sys.stderr, flush=True)
    else:
        fail(f"no pair of {name} worked")
    begun, start = None, (0.0, 0.0)
    for line in said.splitlines():
        match line.split("\t"):
            case ["cpu-time", word, workload, operations, client, server]:
                now = float(client), float(server)
                used = [after - before for after, before in zip(now, begun)] if begun else None
                if word == "begin":
                    begun = now
                elif word == "warm":
                    pass
                elif word == "start":
                    start = used
                else:
                    yield workload, *(1e6 * max(spent - own, 0) / int(operations) for spent, own in zip(used, start)), os.getloadavg()[0]
                    start = (0.0, 0.0)


def spread(values):
    """Returns the quartiles."""
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3


def shown(quartiles):
    low, middle, high = quartiles
    return f"{middle:10.1f} ({low:.1f} to {high:.1f})"


def verdict(mine, other):
    """Returns what `mine` takes of what `other` takes, or that the two are equal."""
    if mine[0] <= other[2] and other[0] <= mine[2]:
        return "equal"
    return f"{mine[1] / other[1]:.2f}"


def beside_mounts(name):
    """Returns what a candidate for a mount is compared with, by the heads of their columns."""
    return {"in-tree": name.replace("ours", "in-tree") if name.startswith("ours") else None, "NFS/TCP": TCP if name != TCP else None}


def beside_programs(name):
    """Returns what a device is compared with."""
    return {other: other if name != other else None for other in ("siw", "rxe")}


def table(samples, names, beside):
    heads = "".join(f"{f'of {head}':>12}" for head in beside(""))
    yield "CPU time for an operation, in microseconds: median (interquartile range)"
    for workload in dict.fromkeys(sample[1] for sample in samples):
        yield ""
        yield f"{workload:28}{'client':>30}{'server':>30}{'both':>30}{'n':>5}{'load':>12}{heads}"
        rows = {}
        for name in names:
            found = [sample for sample in samples if sample[:2] == (name, workload)]
            client, server, loads = zip(*(sample[2:] for sample in found))
            rows[name] = spread(client), spread(server), spread([c + s for c, s in zip(client, server)])
            both = rows[name][2]
            rows[name] += (len(found), f"{min(loads):.1f} to {max(loads):.1f}", beside(name).values())
        for name, (client, server, both, count, load, against) in rows.items():
            ends = "".join(f"{verdict(both, rows[other][2]) if other in rows else '':>12}" for other in against)
            yield f"  {name:26}{shown(client):>30}{shown(server):>30}{shown(both):>30}{count:5}{load:>12}{ends}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1, help="for each workload")
    parser.add_argument("--samples", type=int, default=2, help="of each workload, each time that a candidate is booted")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--only", default="", help="workloads with this in their name")
    parser.add_argument("--devices", nargs="+", choices=KINDS, default=[], help="candidates over these, and NFS over TCP")
    parser.add_argument("--candidates", nargs="+", choices=[*CANDIDATES, *PROGRAMS], default=[], help="only these")
    parser.add_argument("--programs", action="store_true", help="perftest over each device, instead of a mount")
    parser.add_argument("--smp", default="1", help="virtual CPUs of each machine")
    parser.add_argument("--limit", type=int, default=300, help="seconds until a pair is killed")
    options = parser.parse_args()
    options.compared, beside = (PROGRAMS, beside_programs) if options.programs else (CANDIDATES, beside_mounts)
    names = options.candidates or chosen(options.compared, options.devices)
    OUT.mkdir(parents=True, exist_ok=True)
    samples = []
    with open(OUT / "samples.tsv", "w") as file:
        for number in range(options.rounds):
            for name in names[::-1] if number % 2 else names:
                for sample in samples_of(name, options):
                    samples.append((name, *sample))
                    print(*samples[-1], sep="\t", file=file, flush=True)
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    write(OUT, "table.txt", "\n".join(table(samples, names, beside)) + "\n")


if __name__ == "__main__":
    main()
