#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Attacks the server of a VM pair from its client, beside a good mount on the same machine, and prints a JSON object on a line of its own
for each thing that it finds, when it does: `alone`, the latencies of the mount in microseconds, before the first attack and after the last
one; `attack`, its name, with the latencies beside it, the calls of mount and attackers in a second, what the server's device counted of
missing Receives, the nfsd threads asleep in the module, and the server's memory; `unloads`.

The attackers have an address of their own on this machine: what the server limits for each address is not the mount's. The attacks are
those of selftests/peer/src/attacks.rs; watch.py looks at the server.
"""

import argparse
import json
import mmap
import os
import platform
import re
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

SRC = Path(__file__).resolve().parents[2]
PEER = SRC / f"build/cargo/{platform.machine()}-unknown-linux-gnu/release/peer"
WATCH = SRC / "selftests/hostile/watch.py"
MOUNT = Path("/mnt/hostile")
BLOCK = 4096
BLOCKS = 16
# So many KiB more may be allocated after an attack than before.
KEPT = 1024
SERVER = SRC / "scripts/vm/nfs-server"

# What the table calls it, and the attacks that are made at once: name, and connections, threads or requests per second.
ATTACKS = {
    "ten WRITEs, Reads unanswered, 4 connections": [("unanswered-reads", 4)],
    "no Receives, 8": [("no-receives", 8)],
    "a Receive in the last moment, 8": [("slow-receives", 8)],
    "more calls than credits, 8": [("overrun", 8)],
    "large grants, abandoned, 32": [("abandoned-grant", 32)],
    "connects, 4 threads": [("storm", 4)],
    "raw requests, 100 per second": [("raw-requests", 100)],
    "all of the first five, 200": [("mixed", 200)],
    "idle connections, 1000": [("idle", 1000)],
    "idle connections, 1000, and busy ones, 200": [("idle", 1000), ("busy", 200)],
}

# So many seconds it takes at most until the measurement beside an attack begins; an emulated machine is slow.
BEGINS = 8 if os.environ.get("KERNEL", "").startswith("uml") else 20

# Attacks whose connections are all there at the same time.
HELD = ("idle", "busy")


# What the server's device counts when it has no Receive for a message: refusals, and what the other device sends again after those.
MISSING = ("send_rnr_err", "out_of_seq_request", "duplicate_request")


def tell(**found):
    print(json.dumps(found), flush=True)


def on_server(command):
    return subprocess.run([SRC / "scripts/vm/on-server", command], check=True, stdout=subprocess.PIPE, text=True).stdout


class Threads:
    """watch.py looks at the server's threads meanwhile."""

    def __enter__(self):
        on_server(f"rm -f /tmp/stop /tmp/stop.ready; setsid {WATCH} threads /tmp/stop >/tmp/threads 2>&1 & "
                  "for _ in {1..600}; do [ -e /tmp/stop.ready ] && break; sleep 0.1; done; [ -e /tmp/stop.ready ]")
        return self

    def __exit__(self, *_):
        self.found = json.loads(on_server("touch /tmp/stop; until [ -s /tmp/threads ]; do sleep 0.2; done; cat /tmp/threads"))


def own_address():
    """Gives the attackers an address, of the network of this machine."""
    octets = [*map(int, os.environ["CLIENT_ADDR"].split(".")[:3]), 77]
    address = os.environ["PEER_ADDR"] = ".".join(map(str, octets))
    gid = "ffff:{:02x}{:02x}:{:02x}{:02x}".format(*octets)
    subprocess.run(["ip", "address", "add", f"{address}/24", "dev", "eth0"], check=True)
    # The device takes a moment to have it.
    for _ in range(40):
        for file in Path("/sys/class/infiniband").glob("*/ports/1/gids/*"):
            try:
                if file.read_text().strip().endswith(gid):
                    return
            except OSError:
                # It has none with this number.
                continue
        time.sleep(0.25)
    sys.exit(f"hostile: no device has the address {address}")


def missing_receives():
    """What the server's devices have counted of them; an in-tree iWARP device counts nothing."""
    counted = dict.fromkeys(MISSING, 0)
    for port in json.loads(on_server("rdma -j statistic show link")):
        for name in MISSING:
            counted[name] += port.get(name, 0)
    return counted


def memory():
    return json.loads(on_server(f"{WATCH} memory"))


class Attack:
    """One program for each attack, until the end of the block."""

    def __init__(self, attacks, seconds):
        self.commands = [[str(PEER), "attack", name, str(connections), str(seconds)] for name, connections in attacks]
        self.said = []

    def __enter__(self):
        self.programs = []
        for command in self.commands:
            program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            self.programs.append(program)
            if program.stdout.readline() != "ready\n":
                sys.exit(f"hostile: {command} did not begin: {program.communicate()[0]}")
        return self

    def __exit__(self, *_):
        for program in self.programs:
            # It ends by itself; the kernel ends its connections if it does not.
            try:
                said = program.communicate(timeout=90)[0]
            except subprocess.TimeoutExpired:
                program.kill()
                said = program.communicate()[0] + "killed"
            self.said.append(said.strip())

    def answered(self):
        """How many messages the attackers got."""
        return sum(int(count) for said in self.said for count in re.findall(r"answered (\d+)", said))


class Getattr:
    """Of an open file, so that no directory is looked at."""

    def __init__(self, file):
        self.file = file

    def __call__(self):
        os.fstat(self.file)


class Read:
    def __init__(self, file):
        self.file = file
        # O_DIRECT wants aligned memory, and that is what mmap gives.
        self.memory = mmap.mmap(-1, BLOCK)
        self.turn = 0

    def __call__(self):
        self.turn += 1
        os.preadv(self.file, [self.memory], self.turn % BLOCKS * BLOCK)


def latencies(seconds):
    """Does one operation after the other, of both kinds in turn. Returns the microseconds of each, by kind; one that is not over half a
    minute after the end counts with what it took until then."""
    file = os.open(MOUNT / "file", os.O_RDONLY | os.O_DIRECT)
    operations = {"GETATTR": Getattr(file), "READ": Read(file)}
    took = {name: [] for name in operations}
    under_way, end = [], time.monotonic() + seconds

    def work():
        while time.monotonic() < end:
            for name, operation in operations.items():
                start = time.monotonic()
                under_way[:] = [(name, start)]
                operation()
                under_way.clear()
                took[name].append(1e6 * (time.monotonic() - start))
        os.close(file)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(seconds + 30)
    for name, start in list(under_way) if worker.is_alive() else []:
        took[name].append(1e6 * (time.monotonic() - start))
    return {name: sorted(values) for name, values in took.items()}, worker


def figures(values):
    if not values:
        return {"count": 0, "median": 0, "p99": 0, "most": 0}
    return {"count": len(values), "median": round(values[len(values) // 2]), "p99": round(values[99 * len(values) // 100]),
            "most": round(values[-1])}


def all_figures(latencies):
    return {name: figures(values) for name, values in latencies.items()}


def kept(before, after):
    """How many KiB more the server has allocated, in slab and vmalloc areas."""
    return after["slab"] + after["vmalloc"] - before["slab"] - before["vmalloc"]


def settled(before):
    """The server's memory, when it has as many RDMA objects as before and keeps no more than `KEPT`, or after a while. What is freed
    after a grace period, or when a time is over, is still there at first."""
    end = time.monotonic() + 90
    while (after := memory())["objects"] != before["objects"] or kept(before, after) > KEPT:
        if time.monotonic() >= end:
            break
        time.sleep(2)
    return after


def attack(attacks, seconds):
    asked = sum(connections for name, connections in attacks if name in HELD)
    before = memory()
    if asked:
        # A thousand connections at the same time leave slabs that are nowhere near full.
        with Attack(attacks, 3):
            pass
        # What is not freed of these counts all the same.
        before = {**settled(before), "objects": before["objects"]}
    # It goes on longer than what is measured beside it, and what is counted before that.
    long = seconds + BEGINS + (40 if asked else 0)
    counted = missing_receives()
    with Attack(attacks, long) as program:
        begun = memory() if asked else None
        with Threads() as server:
            beside, worker = latencies(seconds)
    goes_on(worker)
    rnr = {name: count - counted[name] for name, count in missing_receives().items()}
    after = settled(before)
    calls = {"mount": round(sum(map(len, beside.values())) / seconds), "attackers": round(program.answered() / long)}
    return {"beside": all_figures(beside), "calls": calls, "rnr": rnr, "threads": server.found, "said": program.said,
            "asked": asked, "before": before, "begun": begun, "after": after, "kept": kept(before, after)}


def goes_on(worker):
    worker.join(300)
    if worker.is_alive():
        sys.exit("hostile: the good mount hangs")


def alone(seconds):
    values, worker = latencies(seconds)
    goes_on(worker)
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="how long the mount is measured beside each attack")
    parser.add_argument("--only", default="", help="attacks whose name matches this regular expression")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (16384, 16384))
    subprocess.run(["modprobe", "-a", "rdma_ucm", "ib_uverbs"], check=True)
    # On a machine with little memory nfsd takes no WRITEs of 1 MiB, unless it is told to.
    on_server(f"{SERVER} stop; echo 1048576 >/proc/fs/nfsd/max_block_size; {SERVER} start")
    # With a delegation nothing asks the server for attributes.
    on_server("echo 0 >/proc/sys/fs/leases-enable")
    own_address()
    MOUNT.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "nfs", "-o", "vers=4.2,proto=rdma,port=20049,noac", f"{os.environ['SERVER_ADDR']}:/", MOUNT], check=True)
    # What the crafted peer reads and writes, and what the mount does. Made on the server, so that nobody has a delegation.
    on_server("for file in peer.dat file; do head -c 65536 /dev/urandom >/export/$file; chmod 666 /export/$file; done")
    wanted = {name: attacks for name, attacks in ATTACKS.items() if re.search(options.only, name)}
    at_rest = memory()
    # What is allocated once and kept, as pages for long WRITEs, is no leak.
    for attacks in wanted.values():
        with Attack([(name, min(connections, 20)) for name, connections in attacks], 3):
            pass
    settled(at_rest)
    tell(alone="before", latencies=all_figures(alone(options.seconds)))
    for name, attacks in wanted.items():
        tell(attack=name, **attack(attacks, options.seconds))
    tell(alone="after", latencies=all_figures(alone(options.seconds)))
    subprocess.run(["umount", MOUNT], check=True)
    unloads = subprocess.run([SRC / "scripts/vm/on-server", f"timeout 120 {SERVER} stop && timeout 60 rmmod rpcrdma"],
                             check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    tell(unloads=unloads.returncode == 0, said=unloads.stdout)


if __name__ == "__main__":
    main()
