#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What a good mount notices of clients that attack its server: our server, and the in-tree one in the same run.

Boots a pair of VMs for each (guest.py runs on the client), and prints a table, which is in build/hostile/table.txt too. Times are
printed, not judged, and so is memory, which moves by some MiB for other reasons. It fails if a thread of our server was asleep in the
module, if the server keeps RDMA objects after an attack, or if the module does not unload. Runs inside the build root.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).resolve().parents[2]
OUT = SRC / "build/hostile"
SERVERS = {"ours": "rust", "in-tree": "c"}


def guest(server, options):
    """Returns what guest.py found in a pair of VMs with that module on the server."""
    command = f"selftests/hostile/guest.py --seconds={options.seconds} --only='{options.only}'"
    vm = subprocess.run(["scripts/vm.py", "pair", "--client", "rust", "--server", server, "--limit", str(options.limit), "--", command],
                        cwd=SRC, stdout=subprocess.PIPE, text=True)
    lines = vm.stdout.splitlines()
    (OUT / f"{server}.log").write_text(vm.stdout)
    try:
        return json.loads(lines[-1])
    except (IndexError, ValueError):
        sys.exit(f"hostile: the VMs with server {server} failed with {vm.returncode}: {vm.stdout[-2000:]}")


def kept(found):
    return found["before"]["available"] - found["after"]["available"]


def table(results):
    yield "microseconds, median / p99; nfsd threads asleep in the module, most at once in so many samples / longest sleep; memory of the server in KiB"
    yield f"{'':46}{'':9}{'GETATTR alone':>20}{'beside':>20}{'READ 4 KiB alone':>20}{'beside':>20}{'asleep':>22}{'kept':>8}"
    names = dict.fromkeys(name for found in results.values() for name in found["attacks"])
    for name in names:
        for server, found in results.items():
            if not (row := found["attacks"].get(name)):
                continue
            columns = [f"{row[when][kind]['median']} / {row[when][kind]['p99']}" for kind in ("GETATTR", "READ") for when in ("quiet", "beside")]
            asleep = row["threads"]
            yield f"{name:46}{server:9}" + "".join(f"{column:>20}" for column in columns) \
                + f"{asleep['most']:>4} in {asleep['samples']:>4} / {asleep['longest']:5.1f} s" + f"{kept(row):>8}"
    for server, found in results.items():
        for name, row in found["attacks"].items():
            if row["begun"] and (connections := row["begun"]["objects"]["qp"] - row["before"]["objects"]["qp"]) > 0:
                each = (row["before"]["available"] - row["begun"]["available"]) / connections
                yield f"{server}: {name}: {connections} queue pairs, {each:.0f} KiB for each"
    for server, found in results.items():
        yield f"{server}: rmmod {'works' if found['unloads'] else 'FAILS'}"


def complaints(found):
    for name, row in found["attacks"].items():
        if row["threads"]["most"] or not row["threads"]["samples"]:
            yield f"{name}: nfsd threads asleep in the module: {row['threads']}"
        if row["after"]["objects"] != row["before"]["objects"]:
            yield f"{name}: RDMA objects before {row['before']['objects']}, after {row['after']['objects']}"
    if not found["unloads"]:
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
