#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What a good mount notices of clients that attack its server: our server, and the in-tree one in the same run.

Boots a pair of VMs for each (guest.py runs on the client), and prints a table, which is in build/hostile/table.txt too. Runs inside the
build root.

The mount is measured alone twice in each pair of VMs, before the first attack and after the last one. Both are printed: their difference
is what the machine itself changes meanwhile. The ratio of a row is the 99th percentile beside the attack to that of both together.
To measure it alone before each attack as well would take as long again; nothing of an attack is left then, which is what is judged.

Times are printed, not judged, and so is the available memory, which moves by some MiB for other reasons. The in-tree server is not judged
at all: if its VM dies, the table has what was found until then, and says so. It fails if
  * the VM of our server dies, or its kernel reports a fault,
  * a thread of our server was asleep in the module,
  * the server keeps RDMA objects, or more than 1 MiB of unreclaimable slab and vmalloc areas together, for a minute and a half after an attack,
  * it had fewer queue pairs than connections were asked for, where all of them are to be there at once,
  * or the module does not unload.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from guest import KEPT

SRC = Path(__file__).resolve().parents[2]
OUT = SRC / "build/hostile"
SERVERS = {"ours": "rust", "in-tree": "c"}
KINDS = ("GETATTR", "READ")


def guest(server, options):
    """Returns what guest.py found in a pair of VMs with that module on the server, until the end or until one of them died."""
    command = f"selftests/hostile/guest.py --seconds={options.seconds} --only='{options.only}'"
    vm = subprocess.run(["scripts/vm.py", "pair", "--client", "rust", "--server", server, "--limit", str(options.limit), "--", command],
                        cwd=SRC, stdout=subprocess.PIPE, text=True)
    log = OUT / f"{server}.log"
    log.write_text(vm.stdout)
    found = {"alone": {}, "attacks": {}, "unloads": None, "failed": f"with {vm.returncode}; {log}" if vm.returncode else None}
    for line in vm.stdout.splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if "alone" in told:
            found["alone"][told["alone"]] = told["latencies"]
        elif "attack" in told:
            found["attacks"][told.pop("attack")] = told
        else:
            found["unloads"] = told["unloads"]
    # Without an end there is one measurement.
    found["alone"].setdefault("both", found["alone"].get("before"))
    return found


def pairs(row):
    """How many queue pairs the server had more when all connections of the attack were made."""
    return row["begun"]["objects"]["qp"] - row["before"]["objects"]["qp"]


def times(measured):
    return f"{measured['median']} / {measured['p99']}"


def table(results):
    yield "microseconds, median / p99, and p99 beside the attack / p99 alone; nfsd threads asleep in the module, most at once in so many samples / longest sleep"
    yield "memory of the server in KiB: what it allocates more after the attack (slab and vmalloc areas), and what is available less"
    yield f"{'':46}{'':9}" + f"{'GETATTR':>20}{'ratio':>8}{'READ 4 KiB':>20}{'ratio':>8}{'asleep':>22}{'kept':>8}{'less':>8}"
    for server, found in results.items():
        for when in "before", "after":
            if measured := found["alone"].get(when):
                columns = "".join(f"{times(measured[kind]):>20}{'':8}" for kind in KINDS)
                yield f"{f'alone, {when} all attacks':46}{server:9}{columns}"
    names = dict.fromkeys(name for found in results.values() for name in found["attacks"])
    for name in names:
        for server, found in results.items():
            if not (row := found["attacks"].get(name)):
                continue
            alone, beside, asleep = found["alone"]["both"], row["beside"], row["threads"]
            columns = [f"{times(beside[kind]):>20}{beside[kind]['p99'] / max(1, alone[kind]['p99']):>8.1f}" for kind in KINDS]
            less = row["before"]["available"] - row["after"]["available"]
            yield f"{name:46}{server:9}" + "".join(columns) \
                + f"{asleep['most']:>4} in {asleep['samples']:>4} / {asleep['longest']:5.1f} s" + f"{row['kept']:>8}{less:>8}"
    for server, found in results.items():
        for name, row in found["attacks"].items():
            if row["begun"] and (connections := pairs(row)) > 0:
                each = (row["before"]["available"] - row["begun"]["available"]) / connections
                yield f"{server}: {name}: {connections} queue pairs for {row['asked']} connections, {each:.0f} KiB for each"
    yield "what the server's device counted of missing Receives; calls in a second"
    for name in names:
        for server, found in results.items():
            if row := found["attacks"].get(name):
                calls = row["calls"]
                share = 100 * calls["mount"] / max(1, sum(calls.values()))
                yield f"{name:46}{server:9}" + ", ".join(f"{what} {count}" for what, count in row["rnr"].items()) \
                    + f"; mount {calls['mount']}, attackers {calls['attackers']}: the mount has {share:.0f} %"
    for server, found in results.items():
        if found["failed"]:
            yield f"{server}: the VMs failed {found['failed']}"
        else:
            yield f"{server}: rmmod {'works' if found['unloads'] else 'FAILS'}"


def complaints(found):
    for name, row in found["attacks"].items():
        if row["threads"]["most"] or not row["threads"]["samples"]:
            yield f"{name}: nfsd threads asleep in the module: {row['threads']}"
        if row["after"]["objects"] != row["before"]["objects"]:
            yield f"{name}: RDMA objects before {row['before']['objects']}, after {row['after']['objects']}"
        if row["kept"] > KEPT:
            yield f"{name}: the server keeps {row['kept']} KiB: before {row['before']}, after {row['after']}"
        if row["begun"] and pairs(row) < row["asked"]:
            yield f"{name}: {pairs(row)} queue pairs for {row['asked']} connections: {row['said']}"
    if found["failed"]:
        yield f"the VMs failed {found['failed']}"
    elif not found["unloads"]:
        yield "the module does not unload"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="how long the mount is measured beside each attack")
    parser.add_argument("--only", default="", help="attacks with this in their name")
    parser.add_argument("--limit", type=int, default=7200, help="seconds until a pair of VMs is killed")
    parser.add_argument("--servers", default=",".join(SERVERS), help="which servers")
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    results = {server: guest(SERVERS[server], options) for server in options.servers.split(",")}
    text = "\n".join(table(results)) + "\n"
    print(text, end="")
    (OUT / "table.txt").write_text(text)
    found = list(complaints(results["ours"])) if "ours" in results else []
    for complaint in found:
        print(f"hostile: ours: {complaint}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
