#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Measures in a VM how cost grows, and prints a line for each figure: the curve, its point, what was measured, and the value.

growth_guest.py cost CURVE...  on a machine that is client and server at once, and counts a nanosecond for each instruction: how many
    instructions an operation takes, by calls in flight, payload, connections of the client, and connections of the server.
growth_guest.py open DEVICE    the memory of a connection of a device that is open and idle, without its queue pair. Both ends are here.
growth_guest.py memory         on the client of a pair: the server's memory, by its connections, and how long the device takes to go.

The server's other connections are those of the crafted peer, which has read once over each. While an operation is measured its process is
stopped, so that what the other connections cost is what they cost the kernel. At last, a hundred more have a call a second, whose
instructions, with those of the peer, count with the operation's.
"""

import json
import os
import platform
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True

from bench_guest import ADDRESS, set_up
from rig import SRC, fail, make_file, mount, on_server, run
from workloads import MOUNT, WORKLOADS, fio, loop

PROGRAMS = SRC / f"build/cargo/{platform.machine()}-unknown-linux-gnu/release"
PEER, USER = PROGRAMS / "peer", PROGRAMS / "user"
WATCH = SRC / "selftests/hostile/watch.py"
OF_SERVER = (0, 1, 128, 512, 1024, 2000)
OF_DEVICE = (256, 1024)
OF_CLIENT = (1, 2, 4, 8, 16, 32, 64)
IN_FLIGHT = (1, 4, 16, 64, 128, 256, 1024)
PAYLOADS = (4, 16, 64, 256, 1024)
# Of the crafted peer, as no mount has more than 1 MiB.
LONG_PAYLOADS = (1024, 2048, 4096)
LONG_CALLS = 20
BESIDE = ("GETATTR", "4 KiB random read, depth 1")
OTHERS = "other connections of the server"
CALLERS = 100
SECONDS = 0.5


def tell(curve, point, what, value):
    print("growth", curve, point, what, f"{value:.1f}", sep="\t", flush=True)


def instructions(measure, seconds=SECONDS):
    """Returns the thousands of instructions that an operation takes."""
    measure(0.1)
    operations, took = measure(seconds)
    return 1e6 * took / operations


class Crowd:
    """Connections of the crafted peer, which stay until the end of the block."""

    def __init__(self, server):
        self.programs = []
        self.connections = 0
        self.environment = {**os.environ, "SERVER_ADDR": server}

    def begin(self, what, connections):
        """Makes so many more of them, which do that. Returns their program."""
        program = subprocess.Popen([PEER, "attack", what, str(connections), "1000000"], stdout=subprocess.PIPE, text=True,
                                   env=self.environment)
        self.programs.append(program)
        if program.stdout.readline() != "ready\n":
            fail(f"the peer made no {connections} connections: {program.communicate()[0]}")
        self.connections += connections
        return program

    def grow(self, connections):
        """Makes so many more of them, which do nothing."""
        if connections:
            self.begin("idle", connections).send_signal(signal.SIGSTOP)

    def __enter__(self):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_NOFILE, (16384, 16384))
        run("modprobe", "-a", "rdma_ucm", "ib_uverbs")
        return self

    def __exit__(self, *_):
        for program in self.programs:
            program.kill()
            program.wait()


def calls_in_flight():
    for depth in IN_FLIGHT:
        tell("calls in flight", depth, "4 KiB random read", instructions(fio("randread", "4k", depth)))


def payload():
    for kib in PAYLOADS:
        for what, rw in ("read", "randread"), ("write", "randwrite"):
            tell("payload, KiB", kib, what, instructions(fio(rw, f"{kib}k", 1)))


def restart_server(most):
    """Starts it anew, for calls of up to so many octets."""
    server = str(SRC / "scripts/vm/nfs-server")
    run(server, "stop")
    Path("/proc/fs/nfsd/max_block_size").write_text(str(most))
    run(server, "start")


def long_payload():
    run("umount", str(MOUNT))
    restart_server(LONG_PAYLOADS[-1] << 10)
    with Crowd(ADDRESS) as crowd:
        make_peer_file()
        for kib in LONG_PAYLOADS:
            said = subprocess.run([PEER, "payload", str(kib << 10), str(LONG_CALLS)], stdout=subprocess.PIPE, text=True, env=crowd.environment)
            if said.returncode:
                print(f"growth: {kib} KiB: {said.stdout}", file=sys.stderr)
                continue
            for line in said.stdout.splitlines():
                what, nanoseconds = line.split()
                tell("payload of the crafted peer, KiB", kib, what, int(nanoseconds) / 1000)
    restart_server(LONG_PAYLOADS[0] << 10)
    mount(MOUNT, ADDRESS, "noac")
    # As in set_up.
    time.sleep(15)


def make_peer_file():
    run("dd", "if=/dev/zero", "of=/export/peer.dat", "bs=65536", "count=1", "status=none")
    Path("/export/peer.dat").chmod(0o666)


def connections_of_the_client():
    """Mounts of up to four addresses of the server, with up to 16 connections each. Of NFSv3, as a client of a later version finds out
    that they are one server."""
    addresses = [ADDRESS] + [f"10.0.0.{number}" for number in (11, 12, 13)]
    for address in addresses[1:]:
        run("ip", "address", "add", f"{address}/24", "dev", "wire")
    # The device takes a moment to have them.
    time.sleep(5)
    for total in OF_CLIENT:
        mounts = [Path(f"/mnt/growth{index}") for index in range(max(1, total // 16))]
        for directory, address in zip(mounts, addresses):
            directory.mkdir(exist_ok=True)
            run("mount", "-t", "nfs", "-o", f"vers=3,nolock,noac,proto=rdma,port=20049,nconnect={min(total, 16)}", f"{address}:/export",
                str(directory))

        def stat(mounts=mounts):
            for directory in mounts:
                for _ in range(64 // len(mounts)):
                    os.stat(directory / "file")
            return 64
        tell("connections of the client", total, "GETATTR", instructions(loop(stat)))
        tell("connections of the client", total, "4 KiB random read, 64 at a time",
             instructions(fio("randread", "4k", 64, ":".join(f"{directory}/file" for directory in mounts))))
        for directory in mounts:
            run("umount", str(directory))


def connections_of_the_server():
    make_peer_file()
    with Crowd(ADDRESS) as crowd:
        for total in OF_SERVER:
            crowd.grow(total - crowd.connections)
            for name in BESIDE:
                tell(OTHERS, total, name, instructions(WORKLOADS[name]))
        crowd.begin("calls-a-second", CALLERS)
        for name in BESIDE:
            tell(OTHERS, crowd.connections, f"{name}, with {CALLERS} calls a second", instructions(WORKLOADS[name], 2))


COSTS = {
    "in-flight": calls_in_flight,
    "payload": payload,
    "long-payload": long_payload,
    "client": connections_of_the_client,
    # Last, as a server that has no memory left has measured the others.
    "server": connections_of_the_server,
}


def cost(device, curves):
    set_up(None, device, False)
    for name in curves:
        COSTS[name]()
    run("umount", str(MOUNT))


def memory():
    """What the server has left, in KiB, when caches and empty slabs are dropped."""
    return json.loads(on_server(f"{WATCH} memory"))["available"]


def growth_of_memory():
    run("modprobe", "-a", "rpcrdma", "nfs")
    on_server(" ".join(make_file("/export")))
    on_server("head -c 65536 /dev/urandom >/export/peer.dat; chmod 666 /export/peer.dat")
    with Crowd(os.environ["SERVER_ADDR"]) as crowd:
        # What is allocated once is there.
        crowd.grow(1)
        before = memory()
        for total in OF_SERVER[2:]:
            added, start = total + 1 - crowd.connections, time.monotonic()
            crowd.grow(added)
            took = time.monotonic() - start
            tell(OTHERS, total, "memory, KiB for each", (before - memory()) / total)
            tell(OTHERS, total, "rate of new connections, for each second", added / took)
        start = time.monotonic()
        on_server("rdma link del $(ls /sys/class/infiniband)")
        tell(OTHERS, total, "removal of the device, seconds", time.monotonic() - start)


def available():
    """What this machine has left, in KiB."""
    return json.loads(subprocess.run([WATCH, "memory"], check=True, stdout=subprocess.PIPE, text=True).stdout)["available"]


def open_connections(device):
    run("modprobe", "dummy")
    run("ip", "link", "add", "wire", "up", "type", "dummy")
    run("ip", "address", "add", f"{ADDRESS}/24", "dev", "wire")
    run("rdma", "link", "add", "device", "type", device, "netdev", "wire")
    environment = {**os.environ, "DEVICE": "device", "ADDRESS": ADDRESS}
    with Crowd(ADDRESS):
        # What is allocated once is there after the first time.
        for ends in (OF_DEVICE[0], *OF_DEVICE):
            program = subprocess.Popen([USER, "idle", str(ends // 2)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
            left = []
            for _ in "made", "open":
                if program.stdout.readline() != "\n":
                    fail("there are no connections")
                # Until what busy connections had is given back.
                time.sleep(5)
                left.append(available())
                print(file=program.stdin, flush=True)
            program.wait()
            tell("open connections of the device", ends, "memory, KiB for each", (left[0] - left[1]) / ends)


def main(what, *words):
    if what == "memory":
        growth_of_memory()
    elif what == "open":
        open_connections(*words)
    else:
        cost(words[0], words[1:] or COSTS)


if __name__ == "__main__":
    main(*sys.argv[1:])
