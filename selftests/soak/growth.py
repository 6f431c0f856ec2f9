#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What a machine has in use, and whether that grows.

growth.py sample           waits until the machine is quiet, and prints what is in use, as a line of JSON
growth.py judge EVENTS     reads such lines, the oldest first, and prints what grows; exits with 1 if anything does. So many events that
                           could leave something behind came from one sample to the next

The samples of the second quarter are compared with those of the last one, and the first quarter is for what is allocated once. Something
grows if each sample of the last quarter has more than each of the second, so that what goes up and down does not, and if the medians of
the two differ by more than its bound:

  * threads of the kernel but for the workers that all share, and objects of RDMA devices: 0. Each sample finds the same mount, hardly
    used, and the same server. Only regions may differ: a connection has as many as its credits need.
  * objects of a slab cache, but for a few that are named below: half of the events between the two quarters. What is left behind at each
    event would make it twice that.
  * memory: 1 MiB. Between the quarters of 100 minutes there are some hundreds of events, so that is less than a page for each.
"""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

SLAB = Path("/sys/kernel/slab")
LEAKS = Path("/sys/kernel/debug/kmemleak")
SUSPECTS = Path(__file__).resolve().parents[1] / "vm/suspects.awk"
PF_KTHREAD = 0x200000
OBJECTS = ("qp", "cq", "pd", "mr", "cm_id", "ctx", "srq")
# Regions that a connection may have, for 128 credits, and those of one more RPC.
REGIONS = 128 + 44
# What the kernel's own checks fill up in time. The tracker of references to network namespaces keeps the last 128 that were freed, of each
# of two kinds; sockets have one each. The debugging of DMA has up to a node for each of the 512 Receives of ib_mad, whose buffers get
# around in memory.
OF_CHECKS = {"kmalloc-32": 2 * 128, "radix_tree_node": 512}
# KiB.
MEMORY = 1024
# What is there for others that are counted: objects of kmemleak and of debugobjects, one for each object that these watch; areas of
# vmalloc, which are freed some thousand at a time, so that VmallocUsed says what is in use.
FOR_OTHERS = ("kmemleak_object", "kmemleak_scan_area", "debug_objects_cache", "vmap_area")
# What kernel workers have comes and goes with them: they stay for five minutes after they were needed.
OF_WORKERS = ("task_struct", "task_group", "signal_cache", "sighand_cache", "pid", "cred_jar")
NOT_JUDGED = FOR_OTHERS + OF_WORKERS


def meminfo():
    fields = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return {name.rstrip(":"): int(value) for name, value, *_ in fields}


def slabs(slabinfo):
    """Returns how many objects of each cache are in use, and how many octets each has, from the text of /proc/slabinfo."""
    rows = (line.split() for line in slabinfo.splitlines()[2:])
    return {name: (int(numbers[0]), int(numbers[2])) for name, *numbers in rows}


def unreclaimable(name):
    file = SLAB / name / "reclaim_account"
    return not file.exists() or file.read_text().strip() != "1"


def threads():
    """Returns how many threads of the kernel there are, by name, and how many workers."""
    names, workers = {}, 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = stat.read_text().split("(", 1)[1].rsplit(") ", 1)
        except OSError:  # It has ended meanwhile.
            continue
        if not int(rest.split()[6]) & PF_KTHREAD:
            continue
        # A queue that must make progress has a thread of its own, which it keeps: R.
        if name.startswith("kworker/") and not name.startswith("kworker/R"):
            workers += 1
        else:
            names[name] = names.get(name, 0) + 1
    return names, workers


def objects(resources):
    """Returns how many objects all devices have together, from what `rdma -j resource` says."""
    return {kind: sum(device.get(kind, 0) for device in resources) for kind in OBJECTS}


def quiet():
    """Empties caches and slabs, and what KASAN keeps of freed memory, until nothing changes any more."""
    before, end = None, time.monotonic() + 30
    while True:
        Path("/proc/sys/vm/drop_caches").write_text("3")
        # KASAN gives back what was freed in a cache when that is to shrink.
        for shrink in SLAB.glob("*/shrink"):
            shrink.write_text("1")
        now = meminfo()
        if before and (time.monotonic() >= end or all(abs(now[name] - before[name]) < 256 for name in ("SUnreclaim", "VmallocUsed", "Percpu"))):
            return now
        before = now
        time.sleep(1)


def leaks():
    """Returns what kmemleak says of objects that it suspects, without those that the kernel itself leaks, or None without kmemleak."""
    if not LEAKS.exists():
        return None
    LEAKS.write_text("scan")
    return subprocess.run([SUSPECTS, LEAKS], check=True, stdout=subprocess.PIPE, text=True).stdout


def sample():
    started = time.monotonic()
    suspects = leaks()
    now = quiet()
    caches = slabs(Path("/proc/slabinfo").read_text())
    resources = json.loads(subprocess.run(["rdma", "-j", "resource"], check=True, stdout=subprocess.PIPE, text=True).stdout)
    names, workers = threads()
    in_slabs = sum(count * size for name, (count, size) in caches.items() if unreclaimable(name) and name not in NOT_JUDGED)
    return {
        "at": round(time.clock_gettime(time.CLOCK_BOOTTIME)),
        "took": round(time.monotonic() - started, 1),
        "kernel threads": names,
        "kernel workers": workers,
        "rdma": objects(resources),
        "slab objects": {name: count for name, (count, _) in caches.items()},
        "memory": {"slab": in_slabs // 1024, "vmalloc": now["VmallocUsed"], "percpu": now["Percpu"], "page tables": now["PageTables"]},
        "suspected leaks": suspects and suspects.count("unreferenced object"),
        "suspects": suspects,
    }


def series(samples):
    """Yields what was sampled: its kind, its name, and a value for each sample."""
    for kind in ("kernel threads", "rdma", "slab objects", "memory"):
        for name in sorted({name for each in samples for name in each[kind]}):
            yield kind, name, [each[kind].get(name, 0) for each in samples]


def quarters(values):
    """Returns the values of the second quarter and of the last."""
    count = len(values)
    return values[count // 4 : count // 2], values[count - count // 4 :]


def bound(kind, name, events):
    """Returns by how much such a number may grow while so many events happened."""
    if kind == "slab objects":
        return events // 2 + OF_CHECKS.get(name, 0)
    if kind == "memory":
        return MEMORY
    return REGIONS if name == "mr" else 0


def grown(samples, events):
    """Returns a line for each number that grows, with `events` from one sample to the next."""
    if len(samples) < 8:
        return [f"{len(samples)} samples are too few to tell"]
    # From the middle of the second quarter to that of the last one.
    between = events * len(samples) // 2
    lines = []
    for kind, name, values in series(samples):
        second, last = quarters(values)
        by = statistics.median(last) - statistics.median(second)
        most = bound(kind, name, between)
        if min(last) > max(second) and by > most and not (kind == "slab objects" and name in NOT_JUDGED):
            lines.append(f"{kind}: {name}: by {by:g}, of {most} at most: {' '.join(map(str, values))}")
    suspects = [each["suspected leaks"] or 0 for each in samples]
    if any(suspects):
        lines.append(f"suspected leaks: {' '.join(map(str, suspects))}")
        lines += dict.fromkeys(each["suspects"] for each in samples if each.get("suspects"))
    return lines


def changes(samples):
    """Yields a line for each number that differs much between the two quarters, whether or not it grows."""
    for kind, name, values in series(samples):
        second, last = quarters(values)
        by = statistics.median(last) - statistics.median(second) if second and last else 0
        if abs(by) >= (8 if kind == "slab objects" else 1):
            yield f"{kind}: {name}: {by:+g}: {' '.join(map(str, values))}"


def main(what, *words):
    if what == "sample":
        print(json.dumps(sample()))
        return 0
    samples = [json.loads(line) for line in sys.stdin]
    found = grown(samples, int(words[0]))
    print(f"{len(samples)} samples", *(f"changed: {line}" for line in changes(samples)), *(f"GROWS: {line}" for line in found), sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
