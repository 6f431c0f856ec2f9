#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Measures in a VM how cost grows with the objects of a device, and prints a line for each figure: the curve, its point, what was
measured, and the value.

objects_guest.py DEVICE CURVE...  on a machine that is both ends of each connection, and counts a nanosecond for each instruction. Of the
    crafted peer, which is a process with that device: how many thousands of instructions an operation and one more object take, and the
    memory of an object, by the number of objects; an operation, by its octets; and how long the end of the process, and that of the
    device, take with all objects of that, and how often that waits for a grace period of RCU.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True

from bench_guest import ADDRESS, add_wire
from growth_guest import PEER, WATCH, tell
from rig import run

DEVICE = "device"

KINDS = {"qp": "queue pairs", "cq": "completion queues", "mr": "regions", "connection": "connections", "listener": "listeners"}
POINTS = (1, 10, 100, 1000, 10000)
# Of connections and listeners.
FEW = (1, 10, 100, 500)
OCTETS = (1, 64, 4096, 1 << 16, 1 << 20, 1 << 24, 1 << 28, 1 << 30)
# What is there when a process or the device goes: so many objects of each kind, and connections.
ALL = {1000: 50, 10000: 500}
# So many of an operation, and of objects one after the other.
OPERATIONS, OBJECTS = 50, 20
# From so many objects on their memory can be seen.
SEEN = 500
# The seconds that the end of a device may take. Some wait for its processes.
PATIENCE = 100
# What waits for grace periods, but for rcu_barrier(), which cannot be traced.
WAITS = ("synchronize_rcu", "synchronize_rcu_expedited", "synchronize_rcu_tasks", "synchronize_srcu", "synchronize_srcu_expedited",
         "srcu_barrier")


def idle():
    """Returns the seconds in which the processor did nothing."""
    lines = [line.split() for line in Path("/proc/timer_list").read_text().splitlines() if ".idle_sleeptime" in line]
    return sum(int(words[-2]) for words in lines) / 1e9


def memory():
    """What is left, in KiB, when caches and empty slabs are dropped."""
    return json.loads(subprocess.run([WATCH, "memory"], check=True, stdout=subprocess.PIPE).stdout)["available"]


def add(kind):
    """Returns the command that adds the device."""
    return "rdma", "link", "add", DEVICE, "type", kind, "netdev", "wire"


class Refused(Exception):
    """The device does not do it."""


class Peer:
    """The crafted peer with the device, which obeys."""

    def __enter__(self):
        self.process = subprocess.Popen([PEER, "cost"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "SERVER_ADDR": ADDRESS})
        self.answer()
        return self

    def answer(self):
        """Returns the thousands of instructions of each thing that it did."""
        figures = {}
        for line in self.process.stdout:
            if line == "\n":
                return figures
            what, *numbers = line.split()
            if len(numbers) != 2:
                raise Refused(line.strip())
            figures[what] = int(numbers[0]) / 1000
        raise Refused("the peer has ended")

    def obey(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.answer()

    def fill(self, objects):
        """Makes as many objects of each kind, and the connections that belong to them."""
        for kind in "qp", "cq", "mr":
            self.obey(f"keep {kind} {objects}")
        self.obey(f"keep connection {ALL[objects]}")

    def end(self):
        self.process.kill()
        self.process.wait()

    def __exit__(self, *_):
        self.end()


def objects(kind, points):
    curve = KINDS[kind]
    with Peer() as peer:
        # What is allocated once is there.
        peer.obey(f"one {kind} {OBJECTS}")
        before = memory()
        for point in points:
            tell(curve, point, "one made", peer.obey(f"keep {kind} {point}")["make"])
            # Of fewer nothing can be seen beside what else changes.
            if point >= SEEN:
                tell(curve, point, "memory, KiB for each", (before - memory()) / point)
            tell(curve, point, "Read of 64 octets", peer.obey(f"transfer read 64 {OPERATIONS}")["read"])
            tell(curve, point, "one more made and destroyed", peer.obey(f"one {kind} {OBJECTS}")["one"])
            tell(curve, point, "one destroyed", peer.obey(f"keep {kind} 0")["destroy"])


def octets():
    with Peer() as peer:
        for length in OCTETS:
            times = OPERATIONS if length <= 1 << 16 else 4 if length <= 1 << 20 else 1
            for verb in "read", "write", "send":
                tell("octets", length, verb.capitalize(), peer.obey(f"transfer {verb} {length} {times}")[verb])


class Waits:
    """Finds waits for grace periods, by bpftrace, and prints where they were."""

    def __enter__(self):
        known = set(Path("/sys/kernel/tracing/available_filter_functions").read_text().split())
        probes = ",".join(f"kprobe:{name}" for name in WAITS if name in known)
        self.found = Path("/tmp/waits")
        self.tracer = subprocess.Popen(["bpftrace", "-q", "-B", "line", "-e", 'BEGIN { printf("ready\\n"); } '
                                        f'{probes} /comm != "bpftrace"/ {{ printf("wait of %s: %s%s\\n", comm, probe, kstack(12)); }}'],
                                       stdout=self.found.open("w"))
        while "ready" not in self.found.read_text():
            time.sleep(1)
        return self

    def __exit__(self, *_):
        # What it traced is on its way, and what its own end waits for is no matter.
        time.sleep(2)
        said = self.found.read_text()
        self.tracer.terminate()
        self.tracer.wait()
        self.count = said.count("wait of")
        print(said, file=sys.stderr, flush=True)


class Removal:
    """The device goes. Some wait for their processes."""

    def __init__(self):
        self.command = subprocess.Popen(["rdma", "link", "del", DEVICE])
        try:
            self.done = self.command.wait(PATIENCE) == 0
        except subprocess.TimeoutExpired:
            self.done = False


def measure_end(curve, point, count, end):
    """Measures an end of so many objects. Returns what `end` does."""
    idle_before, start = idle(), time.monotonic()
    result = end()
    took = time.monotonic() - start
    busy = took - (idle() - idle_before)
    tell(curve, point, "milliseconds", 1e3 * took)
    tell(curve, point, "for each object", 1e6 * busy / count)
    return result


def end_of_process():
    for point, connections in ALL.items():
        with Peer() as peer:
            peer.fill(point)
            measure_end("objects of each kind of a process that ends", point, 3 * point + connections, peer.end)


def end_of_device(kind):
    for point, connections in ALL.items():
        with Peer() as peer:
            peer.fill(point)
            removal = measure_end("objects of each kind on a device that goes", point, 3 * point + connections, Removal)
        removal.command.wait()
        run(*add(kind))
        if not removal.done:
            print(f"growth: {kind} waits for its processes", file=sys.stderr, flush=True)
            return


def waits(kind):
    """What waits for grace periods: a process with so many connections ends, and the device goes; so many listeners go."""
    for listeners in 10, 100:
        with Peer() as peer:
            peer.obey(f"keep listener {listeners}")
            with Waits() as found:
                peer.obey("keep listener 0")
        tell("waits for grace periods, of listeners", listeners, "destroyed one by one", found.count)
    for connections in 50, 500:
        for what, end in ("destroyed one by one", lambda: peer.obey("keep connection 0")), ("end of their process", lambda: peer.end()):
            with Peer() as peer:
                peer.obey(f"keep connection {connections}")
                with Waits() as found:
                    end()
            tell("waits for grace periods, of queue pairs", 2 * connections, what, found.count)
        with Peer() as peer:
            peer.obey(f"keep connection {connections}")
            with Waits() as found:
                removal = Removal()
        removal.command.wait()
        run(*add(kind))
        if removal.done:
            tell("waits for grace periods, of queue pairs", 2 * connections, "removal of the device", found.count)


def main(kind, *curves):
    resource.setrlimit(resource.RLIMIT_NOFILE, (16384, 16384))
    if (pages := Path("/sys/kernel/mm/transparent_hugepage/enabled")).exists():
        pages.write_text("never")
    run("modprobe", "-a", "dummy", "rdma_ucm", "ib_uverbs")
    add_wire()
    run(*add(kind))
    known = {
        **{name: lambda name=name: objects(name, FEW if name in ("connection", "listener") else POINTS) for name in KINDS},
        "octets": octets,
        "process-ends": end_of_process,
        "device-goes": lambda: end_of_device(kind),
        "waits": lambda: waits(kind),
    }
    for curve in curves or known:
        try:
            known[curve]()
        except Refused as reason:
            print(f"growth: {curve} of {kind} ends: {reason}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
