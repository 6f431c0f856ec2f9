# SPDX-License-Identifier: GPL-2.0
"""A machine of User-Mode Linux: the kernel is a process of the host, and so is each address space of its user space.

It boots in seconds and runs at the host's speed, needs no privileges, and has the instructions of the host's processor.
scripts/testkernel/uml/README.md has what is particular about it.
"""

import os
import signal
import socket
import tempfile
from pathlib import Path

from . import SRC, Machine, initramfs

BOOT_SECONDS = 120  # On two idle CPUs 2, or 9 with KASAN.
# A machine that waits for a processor only becomes slower; nothing of it is emulated.
ALONE = False
WIRE_BYTES = 8 << 20


class Uml(Machine):
    """A machine of User-Mode Linux, on one end of a wire or without one."""

    power_off_seconds = 10

    def __init__(self, role, run, options, module, rdma, command="", wire=None):
        super().__init__(role, run, options, module, rdma, command)
        # Its memory is a file in a tmpfs from which it may execute: that of this root (scripts/enter), whatever the host's are.
        self.more = {"start_new_session": not self.interactive, "env": {**os.environ, "TMPDIR": "/tmp"}}
        self.console = os.open(self.dir / "console.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.inherited = [*self.inherited, self.console]
        shares = {"root": self.root, "layer": self.layer, "src": SRC, "kernel": self.kernel.directory, "run": self.dir, "pair": run / "pair"}
        self.command = [
            str(self.kernel.image), f"mem={self.memory}", f"ncpus={options.smp}", "seccomp=on",
            f"initrd={initramfs(self.kernel, 'overlay')}", "root=/dev/ram0", f"umid={role}", f"uml_dir={tempfile.mkdtemp()}/",
            "con=null", f"con0=null,fd:{self.console}", f"ssl0={'fd:0,fd:1' if self.interactive else f'null,fd:{self.sink}'}",
            "console=tty0", "loglevel=5", "panic=-1", "oops=panic", "random.trust_cpu=on",
            # A machine whose host is busy, or stops it for a while, is not faulty. Half a minute is what the kernel would give it.
            "rcupdate.rcu_cpu_stall_timeout=150", "workqueue.watchdog_thresh=150",
            # A page that is given out has no data of whom it was before, as with Debian's kernel, which clears it.
            "init_on_alloc=1",
            # Locks are counted for who asks for it (kernel.lock_stat).
            "lockdep.lock_stat=0",
            *(f"share.{tag}={path}" for tag, path in shares.items()), *options.append.split(),
        ]
        if wire:
            self.inherited += [wire]
            self.command += [f"vec0:transport=fd,fd={wire},mac=52:54:00:00:00:0{1 if role == 'server' else 2},depth=64,mtu=4500"]

    def cpu_seconds(self):
        """Returns how much CPU time the kernel and its user space have used, to a hundredth of a second."""
        ticks = 0
        for file in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = file.read_text().rpartition(")")[2].split()
            except OSError:  # It has ended meanwhile.
                continue
            # Its session, and the time in user mode and in the host's kernel, also of its children that have ended.
            if int(fields[3]) == self.process.pid:
                ticks += sum(map(int, fields[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def kill(self):
        """Kills the kernel and what its user space consists of, which are processes of their own."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL) if self.more["start_new_session"] else self.process.kill()
        except ProcessLookupError:
            pass
        self.process.wait()


def single(options, run):
    return [Uml("single", run, options, options.module, options.rdma, options.command)]


def pair(options, run):
    """Returns two machines on one wire: a pair of sockets, which neither needs privileges nor anything of the host's network."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for end in ends:
        # Frames for which there is no room are dropped, as on any wire.
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, WIRE_BYTES)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WIRE_BYTES)
    return [
        Uml("server", run, options, options.server, options.peer_rdma, wire=ends[0].detach()),
        Uml("client", run, options, options.client, options.rdma, options.command, ends[1].detach()),
    ]
