# SPDX-License-Identifier: GPL-2.0
"""What vm.py boots: a machine of QEMU (qemu.py), or of User-Mode Linux (uml.py).

Either has the build root as its root, or what that has for its VMs if their architecture is another one, read-only, under a layer with the modules under test and a tmpfs that takes what the guest
writes; each knows its role from the file `config` in a directory that it shares with the host.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

SRC = Path("/src")
CACHE = Path("/cache/vm")
PEER = Path("/tmp/peer")
TIMED_OUT = 124  # As timeout(1) says it.
DIED = 125


class Architecture(NamedTuple):
    """A line of the table of architectures."""

    name: str
    machine: str
    arch: str
    qemu: str
    board: str
    cpu: str
    console: str


def architecture(config):
    """Returns the architecture of the kernel with these lines in its configuration."""
    table = (SRC / "scripts/buildroot/architectures").read_text().splitlines()
    rows = (Architecture(*line.split()) for line in table if line and not line.startswith("#"))
    return next(row for row in rows if f"CONFIG_{row.arch.upper()}=y" in config)


class Kernel:
    """The kernel in `directory`, of the build root `root`: the stock one, or one that scripts/testkernel/build.sh made."""

    def __init__(self, directory, root):
        # One that was built for the tests brings its image and its modules; those of the stock kernel are installed in the root.
        built = (directory / "install").is_dir()
        self.directory = directory
        self.release = (directory / "build/include/config/kernel.release").read_text().strip()
        self.config = set((directory / "build/.config").read_text().splitlines())
        self.architecture = architecture(self.config)
        self.name = self.release.partition("-")[2] if built else ""  # As KERNEL= has it; the stock kernel has none.
        self.stock = not built
        self.checks = self.name.endswith("debug")  # It looks for faults, and is slow.
        self.uml = self.name.startswith("uml")
        # Programs of another architecture have a root of their own.
        self.foreign = self.architecture.machine != platform.machine()
        self.root = root / "guest" if self.foreign else root
        self.prefix = directory / "install" if built else self.root
        self.modules = self.prefix / "lib/modules" / self.release
        self.in_guest = Path("usr/lib/modules") / self.release
        self.image = self.modules / ("linux" if self.uml else "vmlinuz")

    def has(self, option):
        """Says whether the kernel has what this option is for, built in or as a module."""
        return bool({f"CONFIG_{option}=y", f"CONFIG_{option}=m"} & self.config)


# /mnt is the build root without what scripts/enter mounts in it.
KERNEL = Kernel(Path("/kernel"), Path("/mnt"))
# That of a pair's server, if it is another one (PEER_KVER of scripts/enter).
PEER_KERNEL = Kernel(PEER / "kernel", PEER / "root") if PEER.exists() else KERNEL


def die_with_parent():
    """Makes the process that is about to be started end when this one does."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def digest(*parts):
    """Returns a short name for content: the same parts give the same name."""
    h = hashlib.sha256()
    for part in parts:
        h.update(part if isinstance(part, bytes) else str(part).encode())
        h.update(b"\0")
    return h.hexdigest()[:12]


def output(*command, **kwargs):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, **kwargs).stdout


def cached(name, make):
    """Returns the directory `name` of the cache, made by `make(directory)` if it is not there yet."""
    path = CACHE / name
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as tmp:
            work = Path(tmp) / "new"
            work.mkdir()
            make(work)
            try:
                work.rename(path)
            except OSError:  # Another run was first; its directory is as good.
                assert path.exists()
    return path


def initramfs(kernel, *wanted):
    """Makes the initramfs: busybox, init, and the modules that it takes to mount the root."""
    init = (SRC / "scripts/vm/initramfs.sh").read_bytes()
    lines = output("modprobe", "-d", kernel.prefix, "-S", kernel.release, "-a", "--show-depends", *wanted, text=True)
    files = list(dict.fromkeys(line.split()[1] for line in lines.splitlines() if line.startswith("insmod")))

    def make(out):
        with tempfile.TemporaryDirectory() as tmp:
            tree = Path(tmp)
            for name in ("bin", "proc", "sys", "dev", "modules", "rw", "root", "lower", "layer"):
                (tree / name).mkdir()
            shutil.copy(kernel.root / "usr/bin/busybox", tree / "bin/busybox")
            (tree / "init").write_bytes(init)
            (tree / "init").chmod(0o755)
            order = []
            for file in map(Path, files):
                name = file.name.removesuffix(".xz")
                content = output("xz", "-dc", file) if file.suffix == ".xz" else file.read_bytes()
                (tree / "modules" / name).write_bytes(content)
                order.append(name)
            (tree / "modules/order").write_text("".join(f"{name}\n" for name in order))
            with open(out / "initramfs.cpio", "wb") as archive:
                find = output("find", ".", cwd=tree)
                subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], input=find, stdout=archive, cwd=tree, check=True)

    return cached(f"initramfs-{digest(init, kernel.release, files)}", make) / "initramfs.cpio"


def module_layer(kernel, modules):
    """Makes the layer over the root that installs `modules` in updates/, with depmod's index of all modules.

    The index depends on a module's name, aliases and undefined symbols only, and on the modules that there are, so an
    edit that changes none of them finds it in the cache.
    """
    order = (kernel.modules / "modules.order").read_text()
    facts = digest(kernel.release, order, *(output(*command, module) for module in modules
                                            for command in (("modinfo",), ("nm", "-u", "--format=posix"))))

    def index(out):
        with tempfile.TemporaryDirectory() as tmp:
            tree = Path(tmp) / kernel.in_guest
            (tree / "updates").mkdir(parents=True)
            (Path(tmp) / "lib").symlink_to("usr/lib")
            for module in modules:
                shutil.copy(module, tree / "updates")
            for file in kernel.modules.glob("modules.builtin*"):
                shutil.copy(file, tree)
            shutil.copy(kernel.modules / "modules.order", tree)
            (tree / "kernel").mkdir()
            subprocess.run(["mount", "--bind", kernel.modules / "kernel", tree / "kernel"], check=True)
            try:
                (out / kernel.in_guest).mkdir(parents=True)
                # Where depmod writes; a real directory in the layer would hide the root's /lib.
                (out / "lib").symlink_to("usr/lib")
                subprocess.run(["depmod", "-b", tmp, "-o", out, kernel.release], check=True)
            finally:
                subprocess.run(["umount", tree / "kernel"], check=True)

    return cached(f"depmod-{facts}", index)


def added(kernel, built, module, rdma):
    """Returns the modules that a machine has besides the kernel's. Where the in-tree module is under test, our second one is there if
    it was built; siw is there for the stock kernel, which lacks it, if a machine of the run needs it or it was built. The strict device
    is an rxe, and takes its place."""
    if module == "installed":
        return []
    iwarp = built / "iwarp.ko"
    wanted = [built / "rpcrdma.ko"] if module == "rust" else []
    wanted += [iwarp] if module == "rust" or rdma.startswith("iwarp-") or iwarp.exists() else []
    siw = SRC / "build/siw/siw.ko"
    wanted += [siw] if kernel.stock and (rdma == "siw" or siw.exists()) else []
    wanted += [SRC / "build" / "-".join(filter(None, (kernel.name, "strict"))) / "rdma_rxe.ko"] if rdma == "strict" else []
    return wanted


def quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


def complain(*lines):
    for line in lines:
        print(f"vm: {line}".replace("/src/", ""), file=sys.stderr, flush=True)


class Machine:
    """One machine of a run. A subclass says how it is started: `command`, the files that its process inherits: `inherited`, and `more`
    for subprocess.Popen."""

    more = {}
    # How long it may take to turn itself off, if that is not what a test is about.
    power_off_seconds = float("inf")

    def __init__(self, role, run, options, module, rdma, command=""):
        self.role = role
        self.kernel, built = (PEER_KERNEL, options.peer_built) if role == "server" else (KERNEL, options.built)
        self.root = options.root or self.kernel.root
        self.dir = run / role
        self.dir.mkdir(parents=True)
        self.interactive = options.interactive and role != "server"
        self.memory = options.peer_memory if role == "server" else options.memory
        size = shutil.get_terminal_size()
        # What the strict device says on the wire is what rxe says.
        link = {"strict": "rxe"}
        config = {"ROLE": role, "COMMAND": command, "ROWS": size.lines, "COLUMNS": size.columns,
                  "TERM": os.environ.get("TERM", "dumb"), "MODULE": module, "RDMA": link.get(rdma, rdma),
                  "PEER_RDMA": link.get(options.peer_rdma, options.peer_rdma), "STRICT": "yes" if rdma == "strict" else "",
                  "DMA": options.dma, "KERNEL": self.kernel.name}
        (self.dir / "config").write_text("".join(f"{k}={quote(str(v))}\n" for k, v in config.items()))
        if role != "single":
            (self.dir / "pair").mkdir()
        self.layer = self.dir / "layer"
        self.layer.mkdir()
        if not self.kernel.stock:
            shutil.copytree(self.kernel.modules, self.layer / self.kernel.in_guest,
                            ignore=shutil.ignore_patterns("build", self.kernel.image.name))
        if modules := added(self.kernel, built, module, rdma):
            shutil.copytree(module_layer(self.kernel, modules), self.layer, symlinks=True, dirs_exist_ok=True)
            updates = self.layer / self.kernel.in_guest / "updates"
            updates.mkdir()
            for file in modules:
                shutil.copy(file, updates)
        # What is written here is the output of the command; a shell has the terminal.
        self.output, self.sink = (None, None) if self.interactive else os.pipe()
        self.inherited = [] if self.interactive else [self.sink]
        # Those whose CPU time is added to a line of the output that begins with `cpu-time`.
        self.timed = []

    def start(self):
        streams = {} if self.interactive else {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        with open(self.dir / "machine.log", "wb") as log:
            self.process = subprocess.Popen(self.command, stderr=log, preexec_fn=die_with_parent, pass_fds=self.inherited, **streams, **self.more)
        for file in self.inherited:
            os.close(file)
        if not self.interactive:
            self.copier = threading.Thread(target=self.copy_output, daemon=True)
            self.copier.start()

    def copy_output(self):
        """Passes on what the command says, and keeps it."""
        with open(self.dir / "output", "wb") as log, open(self.output, "rb", buffering=0) as source:
            rest = b""
            while chunk := source.read(65536):
                if self.timed:
                    *lines, rest = (rest + chunk).split(b"\n")
                    chunk = b"".join(self.with_cpu_time(line) + b"\n" for line in lines)
                log.write(chunk)
                sys.stdout.buffer.write(chunk)
                sys.stdout.buffer.flush()

    def with_cpu_time(self, line):
        if not line.startswith(b"cpu-time\t"):
            return line
        return line + b"".join(b"\t%.2f" % machine.cpu_seconds() for machine in self.timed)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def wait(self, deadline, other=None):
        """Waits for power-off until `deadline` and while `other` lives, then kills. Returns the status that the guest left."""
        status = self.dir / "status"
        written = None
        while self.process.poll() is None:
            if written is None and status.exists():
                written = time.monotonic()
            if written is not None and time.monotonic() >= written + self.power_off_seconds:
                self.kill()
                complain(f"{self.role}: did not turn itself off; console: {self.dir}/console.log")
                break
            late = time.monotonic() >= deadline
            if late or (other and other.process.poll() is not None):
                self.kill()
                why = "its time was up" if late else f"the {other.role} is gone"
                why += ", when it had ended its work" if written is not None else ""
                complain(f"{self.role}: killed, {why}; console: {self.dir}/console.log")
                return TIMED_OUT if late else DIED
            time.sleep(0.1)
        if not self.interactive:
            self.copier.join(5)
        if not status.exists():
            complain(f"{self.role}: died without a word; console: {self.dir}/console.log, its process: {self.dir}/machine.log")
            return DIED
        return int(status.read_text())

    def faults(self):
        """Returns the kernel's reports of faults, and says where they stand."""
        # Tests clear the kernel's log. The console has the whole run, but only messages of level 4 or less.
        logs = [log for log in (self.dir / "console.log", self.dir / "dmesg") if log.exists()]
        reports = subprocess.run([SRC / "scripts/dmesg.sh", *logs], check=False, stdout=subprocess.PIPE).stdout
        # Messages of processes on the console have no time at their beginning.
        lines = reports.decode(errors="replace").splitlines()
        found = list(dict.fromkeys(line for line in lines if line.startswith("[")))
        if found:
            complain(f"{self.role}: the kernel reports faults, see {self.dir}:", *found)
        return found

    def clean_up(self):
        shutil.rmtree(self.layer)
