#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What a good mount notices of clients that attack its server: our server, and the in-tree one in the same run.

Boots a pair of machines for each (guest.py runs on the client), and prints tables (table.py), which are in build/hostile/table.txt too.
With several runs every second one has the servers in the opposite order, and the last table has their medians. Runs inside the build
root; the kernel there says whether the machines are QEMU's, or User-Mode Linux's, whose times are those of real processors.

The mount is measured alone twice in each pair, before the first attack and after the last one. Both are printed: their difference is what
the machine itself changes meanwhile. The ratio of a row is the 99th percentile beside the attack to the larger one of these two.
To measure it alone before each attack as well would take as long again; nothing of an attack is left then, which is what is judged.

Times are printed, with whether the medians keep to their bounds, and do not make it fail: a machine with other work has other times. Nor
does the available memory, which moves by some MiB for other reasons. The in-tree server is not judged at all: if its VM dies, the table
has what was found until then, and says so. It fails if
  * the VM of our server dies, or its kernel reports a fault,
  * a thread of our server was asleep in the module,
  * the server keeps RDMA objects, or more than 1 MiB in use of unreclaimable slab caches and vmalloc areas together, for a minute and a half after an attack,
  * it had fewer queue pairs than connections were asked for, where all of them are to be there at once,
  * or the module does not unload.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True

from guest import KEPT
from table import medians, pairs, table

SRC = Path(__file__).resolve().parents[2]
OUT = SRC / "build/hostile"
SERVERS = {"ours": "rust", "in-tree": "c"}


def guest(server, number, options):
    """Returns what guest.py found in a pair of machines with that server, until the end or until one of them died."""
    module = SERVERS[server]
    command = f"selftests/hostile/guest.py --seconds={options.seconds} --only='{options.only}'"
    vm = subprocess.Popen(["scripts/vm.py", "pair", "--client", "rust", "--server", module, "--limit", str(options.limit), "--", command],
                          cwd=SRC, stdout=subprocess.PIPE, text=True)
    log = OUT / f"{module}-{number}.log"
    found = {"alone": {}, "attacks": {}, "unloads": None, "load": []}
    with open(log, "w") as file:
        for line in vm.stdout:
            file.write(line)
            file.flush()
            read(line, found)
    found["failed"] = f"with {vm.returncode}; {log}" if vm.wait() else None
    return found


def read(line, found):
    """Adds what a line of guest.py tells to what was found, with the load of this machine at that time."""
    try:
        told = json.loads(line)
    except ValueError:
        return
    found["load"].append(os.getloadavg()[0])
    if "alone" in told:
        found["alone"][told["alone"]] = told["latencies"]
    elif "attack" in told:
        found["attacks"][told.pop("attack")] = told
    else:
        found["unloads"] = told["unloads"]


def complaints(found):
    """Yields what our server did that it must not; nothing if it is not there."""
    if not found:
        return
    for name, row in found["attacks"].items():
        if row["threads"]["most"] or not row["threads"]["samples"]:
            yield f"{name}: nfsd threads asleep in the module: {row['threads']}"
        if row["after"]["objects"] != row["before"]["objects"]:
            yield f"{name}: RDMA objects before {row['before']['objects']}, after {row['after']['objects']}"
        if row["kept"] > KEPT:
            yield f"{name}: the server keeps {row['kept']} KiB{grown(row)}"
        if row["begun"] and pairs(row) < row["asked"]:
            yield f"{name}: {pairs(row)} queue pairs for {row['asked']} connections: {row['said']}"
    if found["failed"]:
        yield f"the VMs failed {found['failed']}"
    elif not found["unloads"]:
        yield "the module does not unload"


def grown(row):
    """Returns what has grown most, in KiB: the vmalloc areas, and slab caches."""
    before, after = ({"vmalloc areas": row[when]["vmalloc"], **row[when]["slabs"]} for when in ("before", "after"))
    more = sorted(((size - before.get(what, 0), what) for what, size in after.items()), reverse=True)
    return "".join(f"; {what} {by} more" for by, what in more[:8] if by > 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="how long the mount is measured beside each attack")
    parser.add_argument("--only", default="", help="attacks whose name matches this regular expression")
    parser.add_argument("--runs", type=int, default=1, help="how often")
    parser.add_argument("--limit", type=int, default=7200, help="seconds until a pair of VMs is killed")
    parser.add_argument("--servers", default=",".join(SERVERS), help="which servers")
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    servers, runs, found = options.servers.split(","), [], []
    text = OUT / "table.txt"
    text.write_text("")
    for number in range(1, options.runs + 1):
        results = {server: guest(server, number, options) for server in (servers if number % 2 else servers[::-1])}
        runs.append({server: results[server] for server in servers})
        tell(text, [f"run {number} of {options.runs}, {options.seconds} s for each row", *table(runs[-1]), ""])
        found += [f"run {number}: ours: {complaint}" for complaint in complaints(results.get("ours"))]
    tell(text, medians(runs))
    for complaint in found:
        print(f"hostile: {complaint}")
    sys.exit(bool(found))


def tell(file, lines):
    """Prints these lines, and adds them to the file."""
    lines = "".join(f"{line}\n" for line in lines)
    print(lines, end="", flush=True)
    with open(file, "a") as out:
        out.write(lines)


if __name__ == "__main__":
    main()
