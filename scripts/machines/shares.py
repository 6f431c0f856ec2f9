# SPDX-License-Identifier: GPL-2.0
"""Directories that a guest of QEMU gets from the host: by 9p, which QEMU serves itself, or by virtiofs where the guest's kernel lacks 9p.

virtiofs has a process for each directory, Debian's virtiofsd, and wants the guest's memory in a file that these map. Nothing is
kept between them and the guest of what either side may write: the machines of a pair talk by such files.
"""

import os
import resource
import socket
import subprocess
import tempfile
from pathlib import Path

from . import die_with_parent

DAEMON = Path("/usr/libexec/virtiofsd")


class Plan9:
    """Shares by 9p."""

    modules = ("9pnet_virtio", "9p")

    def __init__(self, _memory):
        self.arguments = []

    def add(self, tag, path, writable=False):
        mode = "" if writable else ",readonly=on"
        self.arguments += ["-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap{mode}",
                           "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]

    def start(self, log):
        pass

    def stop(self):
        pass


class VirtioFs:
    """Shares by virtiofs."""

    modules = ("virtiofs",)

    def __init__(self, memory):
        self.sockets = Path(tempfile.mkdtemp())
        self.daemons = []
        self.served = []
        self.arguments = ["-object", f"memory-backend-memfd,id=memory,size={memory},share=on", "-machine", "memory-backend=memory"]

    def add(self, tag, path, writable=False):
        # It listens already when QEMU looks for it.
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.sockets / tag))
        listener.listen(1)
        command = [str(DAEMON), f"--fd={listener.fileno()}", f"--shared-dir={path}", f"--cache={'never' if writable else 'always'}",
                   "--sandbox=none", "--rlimit-nofile=0", "--log-level=error"]
        self.served.append((listener, command if writable else [*command, "--readonly"]))
        self.arguments += ["-chardev", f"socket,id={tag},path={self.sockets / tag}",
                           "-device", f"vhost-user-fs-pci,chardev={tag},tag={tag}"]

    def start(self, log):
        def prepare():
            die_with_parent()
            # It has a file open for each that the guest knows.
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

        for listener, command in self.served:
            self.daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=prepare,
                                                 pass_fds=[listener.fileno()]))
            listener.close()

    def stop(self):
        """Ends what did not end with QEMU, as it does when that is gone."""
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()


def shares(kernel, memory):
    """Returns how a guest with this kernel and this much memory is given directories, which may be neither: then it says so and ends."""
    if kernel.has("NET_9P_VIRTIO"):
        return Plan9(memory)
    if not kernel.has("VIRTIO_FS"):
        raise SystemExit(f"vm: kernel {kernel.release} has neither 9p nor virtiofs, by which a VM gets its files")
    if not os.access(DAEMON, os.X_OK):
        raise SystemExit(f"vm: kernel {kernel.release} has no 9p, and the build root no virtiofsd (scripts/buildroot/packages-cloud)")
    return VirtioFs(memory)
