#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Looks at the server of a VM pair, on that server, and prints a JSON object.

`watch.py threads STOP [WHERE]`: until the file STOP is there, samples the stack of each nfsd thread ten times in a second. After the first
sample it makes the file STOP.ready.

A thread is asleep there if it sleeps, its stack has a function of the module WHERE (rpcrdma), or the function WHERE, and it has not run while that was
read. Prints the number of samples, how many threads were asleep there at most in one of them, how many seconds the longest such sleep took,
and where they were. A thread that makes a connection takes locks and memory of the RDMA stack, which is no wait for a peer: there only a sleep of half a
second counts. An idle thread is asleep in svc_recv: with that as WHERE, this must find threads. test_watch.py shows the same of files
that it makes.

`watch.py memory`: drops caches and empty slabs, waits until memory does not change any more, and prints in KiB what is available, what is
in use of vmalloc areas and of slab caches, of each and of all that are unreclaimable, and how many objects the RDMA devices have. A slab
that is nowhere near full after a thousand connections at the same time is nothing that the server keeps, so objects in use count, not
slabs. Nor do the kernel's idle workers, which stay for five minutes: their caches are not in the sum.
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

INTERVAL = 0.1
# What a thread makes a connection in, and how many seconds it may sleep there.
MAKES_CONNECTION = re.compile("SvcConnection5start")
SHORT = 0.5
# Caches of which each thread has objects.
OF_THREADS = {"task_struct", "sighand_cache", "signal_cache", "cred", "pid", "files_cache", "fs_cache"}
SLAB = Path("/sys/kernel/slab")
PROC = Path("/proc")


def function_of(where):
    """What finds in a stack the innermost function of the module `where`, or the function `where`."""
    return re.compile(rf"\s(?:(\S+)\+0x\S+ \[{where}\]|({where})\+0x)")


def nfsd_threads():
    found = []
    for comm in PROC.glob("[0-9]*/comm"):
        try:
            if comm.read_text() == "nfsd\n":
                found.append(comm.parent)
        except OSError:
            continue
    return found


def switches(thread):
    """How often the thread has begun and ended to run, and whether it sleeps."""
    fields = dict(line.split(":\t", 1) for line in (thread / "status").read_text().splitlines() if ":\t" in line)
    return (fields["voluntary_ctxt_switches"], fields["nonvoluntary_ctxt_switches"]), fields["State"][0] in "SDI"


def asleep(thread, function):
    """Returns in which function the thread sleeps, and since which of its switches, or None."""
    try:
        before, sleeps = switches(thread)
        stack = (thread / "stack").read_text()
        after, still = switches(thread)
    except (OSError, KeyError):
        return None
    inside = function.search(" " + stack)
    if not (sleeps and still and before == after and inside):
        return None
    return inside[1] or inside[2], before


def threads(stop, where_to_look="rpcrdma"):
    function = function_of(where_to_look)
    samples, most, longest, where, since = 0, 0, 0.0, {}, {}
    nfsd = nfsd_threads()
    while not Path(stop).exists():
        now, found = time.monotonic(), {}
        for thread in nfsd:
            if inside := asleep(thread, function):
                found[thread] = inside
                where[inside[0]] = where.get(inside[0], 0) + 1
        # A sleep goes on as long as the thread has not run.
        since = {thread: since.get(thread) if since.get(thread, (None,))[0] == inside else (inside, now)
                 for thread, inside in found.items()}
        longest = max([longest] + [now - start for _, start in since.values()])
        count = sum(now - since[thread][1] >= SHORT or not MAKES_CONNECTION.search(inside[0]) for thread, inside in found.items())
        samples, most = samples + 1, max(most, count)
        if samples == 1:
            Path(f"{stop}.ready").touch()
        if samples % 50 == 0:
            nfsd = nfsd_threads()
        time.sleep(INTERVAL)
    return {"threads": len(nfsd), "samples": samples, "most": most, "longest": round(longest, 1), "where": where}


def meminfo():
    fields = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return {name.rstrip(":"): int(value) for name, value, *_ in fields}


def slabs(slabinfo):
    """Returns how many KiB of each slab cache are in use, from the text of /proc/slabinfo."""
    # name, and then objects in use, objects, octets of each
    rows = (line.split() for line in slabinfo.splitlines()[2:])
    return {name: int(numbers[0]) * int(numbers[2]) // 1024 for name, *numbers in rows}


def unreclaimable(caches):
    """Returns how many KiB these caches have together, without those of threads and those that the kernel empties when memory is short."""
    return sum(size for name, size in caches.items() if name not in OF_THREADS and not reclaimable(name))


def reclaimable(name):
    file = SLAB / name / "reclaim_account"
    return file.exists() and file.read_text().strip() == "1"


def memory():
    subprocess.run(["sync"], check=True)
    before, end = None, time.monotonic() + 30
    while time.monotonic() < end:
        Path("/proc/sys/vm/drop_caches").write_text("3")
        # What is freed may stay in slabs for the next who allocates.
        for shrink in SLAB.glob("*/shrink"):
            shrink.write_text("1")
        time.sleep(1)
        now = meminfo()
        if before and all(abs(now[name] - before[name]) < 128 for name in ("MemAvailable", "SUnreclaim", "VmallocUsed")):
            break
        before = now
    objects = {}
    for device in json.loads(subprocess.run(["rdma", "-j", "resource"], check=True, stdout=subprocess.PIPE, text=True).stdout):
        for name, count in device.items():
            if name in ("qp", "cq", "pd", "mr", "cm_id"):
                objects[name] = objects.get(name, 0) + count
    caches = slabs(Path("/proc/slabinfo").read_text())
    return {"available": now["MemAvailable"], "slab": unreclaimable(caches), "vmalloc": now["VmallocUsed"], "objects": objects, "slabs": caches}


if __name__ == "__main__":
    if sys.argv[1] == "threads" and not (PROC / "self/stack").exists():
        sys.exit("watch: this kernel shows no stacks, so it could find no thread asleep")
    print(json.dumps(threads(*sys.argv[2:]) if sys.argv[1] == "threads" else memory()))
