#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""How cost grows, of our module and of the kernel's own: instructions for an operation, by calls in flight, payload and connections; with
--memory a server's memory, by its connections; with --open that of a device's connections; with --objects what operations and objects cost
on each software device, by the number of objects. Boots a VM, or a pair, for each module or device (growth_guest.py or objects_guest.py
runs there), prints a table, and writes it to build/bench/growth.txt, growth-memory.txt, growth-open.txt or growth-objects.txt. What a VM
that dies has measured is in the table. Runs inside the build root; --memory and --open are for KERNEL=uml.
"""

import argparse
import sys

sys.dont_write_bytecode = True

from candidates import KINDS
from rig import SRC, boot, write

OUT = SRC / "build/bench"
MODULES = {"ours": "rust", "in-tree": "c"}
GUEST = "selftests/measure/growth_guest.py"
CURVES = ("in-flight", "payload", "long-payload", "client", "server")
OBJECTS = "selftests/measure/objects_guest.py"
DEVICES = ("iwarp-tcp", "iwarp-sctp", "siw", "rxe")
CURVES_OF_OBJECTS = ("qp", "cq", "mr", "connection", "listener", "octets", "process-ends", "waits", "device-goes")
THOUSANDS = ", thousands of instructions for an operation"


def figures(name, options, curves):
    """Returns what a machine with this module or device measured: a value for each curve, measure and point."""
    module, device = ("rust", name) if options.objects else (MODULES[name], options.device)
    common = "--rdma", device, "--limit", str(options.limit)
    if options.memory:
        succeeded, said = boot("pair", [GUEST, "memory"], "--client", module, "--server", module, "--memory", "4G",
                               "--peer-memory", "6G", *common)
    elif options.open:
        succeeded, said = boot("single", [GUEST, "open", options.device], "--module", module, "--memory", "3G", *common)
    else:
        guest = [OBJECTS] if options.objects else [GUEST, "cost"]
        succeeded, said = boot("single", [*guest, device, *curves], "--module", module, "--accel", "count", "--smp", "1",
                               "--memory", options.size, *common)
    if not succeeded:
        print(f"growth: the VM of {name} has not come to its end: {said[-500:]}", file=sys.stderr, flush=True)
    lines = (line.split("\t")[1:] for line in said.splitlines() if line.startswith("growth\t"))
    return {(curve, what, int(point)): float(value) for curve, point, what, value in lines}


def table(results, unit):
    """A line for each point, with the value of each module, and how often it is that of the first point."""
    keys = dict.fromkeys(key for values in results.values() for key in values)
    for curve, what in dict.fromkeys(key[:2] for key in keys):
        points = [key[2] for key in keys if key[:2] == (curve, what)]
        yield f"{what}{unit}, by {curve}"
        yield f"{'':10}" + "".join(f"{name:>16}{'':8}" for name in results)
        for point in points:
            row = f"{point:10}"
            for values in results.values():
                value, first = values.get((curve, what, point)), values.get((curve, what, points[0]))
                row += f"{value:16.1f}{value / first if first else 0:8.2f}" if value is not None else f"{'-':>16}{'':8}"
            yield row
        yield ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=KINDS, default="rxe")
    parser.add_argument("--memory", action="store_true", help="a server's memory, in a pair, instead of instructions")
    parser.add_argument("--open", action="store_true", help="memory of an open connection of the device, without queue pairs")
    parser.add_argument("--objects", action="store_true", help="operations and objects of each software device, instead of NFS")
    parser.add_argument("--devices", nargs="+", choices=DEVICES, default=DEVICES, help="those of --objects")
    parser.add_argument("--only", default="", help=f"curves with this in their name: {', '.join(CURVES)}, and with --objects "
                        f"{', '.join(CURVES_OF_OBJECTS)}")
    parser.add_argument("--size", default="6G", help="the memory of the VM that counts instructions")
    parser.add_argument("--limit", type=int, default=3600, help="seconds until a VM is killed")
    options = parser.parse_args()
    curves = [curve for curve in (CURVES_OF_OBJECTS if options.objects else CURVES) if options.only in curve]
    if not curves and not options.memory and not options.open:
        return
    names = options.devices if options.objects else ["ours"] if options.open else MODULES
    results = {name: figures(name, options, curves) for name in names}
    if not any(results.values()):
        sys.exit("growth: nothing was measured")
    kind = "-objects" if options.objects else "-memory" if options.memory else "-open" if options.open else ""
    text = "\n".join(table(results, "" if kind else THOUSANDS))
    write(OUT, f"growth{kind}.txt", text + "\n")


if __name__ == "__main__":
    main()
