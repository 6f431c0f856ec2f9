#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Boots a VM, or a pair of them, with the stock kernel or the debug kernel and runs a command there.

Runs inside the build root (scripts/enter). Each run has a directory build/vm/<run>/ with each VM's console, its kernel log, its
exit status and the times of its tests; build/vm/last is the newest run. The exit status is the command's, unless a kernel log
has a report of a fault, or the VM had to be killed.
"""

import argparse
import ctypes
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

# The debug kernel brings its image and modules along; those of the stock kernel are installed in the root.
DEBUG = Path("/kernel/install").is_dir()
PREFIX = Path("/kernel/install" if DEBUG else "/")
KVER = Path("/kernel/build/include/config/kernel.release").read_text().strip()
MODULES = PREFIX / "lib/modules" / KVER
GUEST_MODULES = Path("usr/lib/modules") / KVER
SRC = Path("/src")
CACHE = Path("/cache/vm")
RUNS = SRC / "build/vm"
RDMA = ("rxe", "siw", "iwarp-tcp", "iwarp-sctp")
TIMED_OUT = 124  # As timeout(1) says it.
DIED = 125
RUNS_KEPT = 30
BOOTS = 3
BOOT_SECONDS = 240 * (3 if DEBUG else 1)  # On two idle CPUs a pair takes under 20, or under a minute with the debug kernel.
ACCELERATION = {
    "kvm": ["-accel", "kvm", "-cpu", "host"],
    "tcg": ["-accel", "tcg,thread=multi", "-cpu", "max"],
    # A nanosecond of the guest's time for each of its instructions; one virtual CPU only.
    "count": ["-accel", "tcg,thread=single", "-cpu", "max", "-icount", "shift=0,sleep=off"],
}


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


def initramfs():
    """Makes the initramfs: busybox, init, and the modules that it takes to mount the root."""
    init = (SRC / "scripts/vm/initramfs.sh").read_bytes()
    lines = output("modprobe", "-d", PREFIX, "-S", KVER, "-a", "--show-depends", "9pnet_virtio", "9p", "overlay", text=True)
    files = list(dict.fromkeys(line.split()[1] for line in lines.splitlines() if line.startswith("insmod")))

    def make(out):
        with tempfile.TemporaryDirectory() as tmp:
            tree = Path(tmp)
            for name in ("bin", "proc", "sys", "dev", "modules", "rw", "root", "lower", "layer"):
                (tree / name).mkdir()
            shutil.copy("/usr/bin/busybox", tree / "bin/busybox")
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

    return cached(f"initramfs-{digest(init, KVER, files)}", make) / "initramfs.cpio"


def module_layer(modules):
    """Makes the layer over the root that installs `modules` in updates/, with depmod's index of all modules.

    The index depends on a module's name, aliases and undefined symbols only, and on the modules that there are, so an
    edit that changes none of them finds it in the cache.
    """
    order = (MODULES / "modules.order").read_text()
    facts = digest(KVER, order, *(output(*command, module) for module in modules
                                  for command in (("modinfo",), ("nm", "-u", "--format=posix"))))

    def index(out):
        with tempfile.TemporaryDirectory() as tmp:
            tree = Path(tmp) / GUEST_MODULES
            (tree / "updates").mkdir(parents=True)
            (Path(tmp) / "lib").symlink_to("usr/lib")
            for module in modules:
                shutil.copy(module, tree / "updates")
            for file in MODULES.glob("modules.builtin*"):
                shutil.copy(file, tree)
            shutil.copy(MODULES / "modules.order", tree)
            (tree / "kernel").mkdir()
            subprocess.run(["mount", "--bind", MODULES / "kernel", tree / "kernel"], check=True)
            try:
                (out / GUEST_MODULES).mkdir(parents=True)
                # Where depmod writes; a real directory in the layer would hide the root's /lib.
                (out / "lib").symlink_to("usr/lib")
                subprocess.run(["depmod", "-b", tmp, "-o", out, KVER], check=True)
            finally:
                subprocess.run(["umount", tree / "kernel"], check=True)

    return cached(f"depmod-{facts}", index)


def kvm_works(kernel):
    """Says whether a guest really boots under KVM: the device alone is no proof on nested machines."""
    flags = Path("/proc/cpuinfo").read_text()
    if not (" vmx" in flags or " svm" in flags) or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    verdict = CACHE / f"kvm-{digest(Path('/proc/sys/kernel/random/boot_id').read_text())}"
    if not verdict.exists():
        # Without a root the kernel panics, and -no-reboot makes that an orderly exit.
        command = ["qemu-system-x86_64", "-M", "q35", "-accel", "kvm", "-cpu", "host", "-m", "512M", "-display", "none",
                   "-no-reboot", "-serial", "stdio", "-kernel", kernel, "-append", "console=ttyS0 panic=-1"]
        try:
            text = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30).stdout
        except subprocess.TimeoutExpired:
            text = b""
        CACHE.mkdir(parents=True, exist_ok=True)
        verdict.write_text("yes" if b"Kernel panic" in text else "no")
    return verdict.read_text() == "yes"


def added(options, module, rdma):
    """Returns the modules that a VM has besides the kernel's. Where the in-tree module is under test, our second one is there if
    it was built; siw is there for the stock kernel, which lacks it, if a VM of the run needs it."""
    if module == "installed":
        return []
    iwarp = options.built / "iwarp.ko"
    wanted = [options.built / "rpcrdma.ko"] if module == "rust" else []
    wanted += [iwarp] if module == "rust" or rdma.startswith("iwarp-") or iwarp.exists() else []
    wanted += [SRC / "build/siw/siw.ko"] if rdma == "siw" and not DEBUG else []
    return wanted


class Vm:
    """One virtual machine of a run."""

    def __init__(self, role, run, options, module, rdma, command="", net=(), pair=None):
        self.role = role
        self.dir = run / role
        self.dir.mkdir(parents=True)
        if pair:
            (self.dir / "pair").mkdir()
        self.interactive = options.interactive and role != "server"
        size = shutil.get_terminal_size()
        config = {"ROLE": role, "COMMAND": command, "ROWS": size.lines, "COLUMNS": size.columns,
                  "TERM": os.environ.get("TERM", "dumb"), "MODULE": module, "RDMA": rdma, "PEER_RDMA": options.peer_rdma,
                  "KERNEL": "debug" if DEBUG else ""}
        (self.dir / "config").write_text("".join(f"{k}={quote(str(v))}\n" for k, v in config.items()))

        kernel = MODULES / "vmlinuz"
        accel = options.accel
        if accel == "auto":
            accel = "kvm" if kvm_works(kernel) else "tcg"
        layer = self.dir / "layer"
        layer.mkdir()
        if DEBUG:
            shutil.copytree(MODULES, layer / GUEST_MODULES, ignore=shutil.ignore_patterns("build", "vmlinuz"))
        if modules := added(options, module, rdma):
            shutil.copytree(module_layer(modules), layer, symlinks=True, dirs_exist_ok=True)
            updates = layer / GUEST_MODULES / "updates"
            updates.mkdir()
            for file in modules:
                shutil.copy(file, updates)
        append = "console=ttyS0 loglevel=5 panic=-1 oops=panic watchdog_thresh=60 mitigations=off random.trust_cpu=on"
        # On a busy host an emulated timer tick can be late; the kernel must not give up on it.
        append += " no_timer_check tsc=nowatchdog"
        if DEBUG:
            # An interrupt in the moment when the kernel reads what its CPU can do finds five levels of page tables gone,
            # and with them the place of KASAN's shadow.
            append += " page_poison=1 no5lvl"
        self.command = [
            options.qemu, "-M", "q35", "-nodefaults", "-display", "none", "-no-reboot",
            *ACCELERATION[accel],
            "-smp", str(options.smp), "-m", options.peer_memory if role == "server" else options.memory,
            "-kernel", str(kernel), "-initrd", str(initramfs()), "-append", f"{append} {options.append}".strip(),
            "-chardev", f"file,id=console,path={self.dir}/console.log", "-serial", "chardev:console",
            "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
            *share("root", options.root), *share("layer", layer), *share("src", SRC), *share("kernel", "/kernel"),
            *share("run", self.dir, writable=True), *net,
        ]
        if pair:
            self.command += share("pair", pair, writable=True)
        if self.interactive:
            self.command += ["-chardev", "stdio,id=command,signal=off", "-device", "virtconsole,chardev=command"]
        else:
            # A file, not stdio: QEMU takes the end of stdin for a closed port, and the guest would wait for ever.
            self.output, self.sink = os.pipe()
            self.command += ["-chardev", f"file,id=command,path=/proc/self/fd/{self.sink}",
                             "-device", "virtserialport,chardev=command,name=command"]

    def start(self):
        def die_with_parent():
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)

        if self.interactive:
            streams = {}
        else:
            streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "pass_fds": [self.sink]}
        with open(self.dir / "qemu.log", "wb") as log:
            self.process = subprocess.Popen(self.command, stderr=log, preexec_fn=die_with_parent, **streams)
        if not self.interactive:
            os.close(self.sink)
            self.copier = threading.Thread(target=self.copy_output, daemon=True)
            self.copier.start()

    def copy_output(self):
        """Passes on what the command says, and keeps it."""
        with open(self.dir / "output", "wb") as log:
            while chunk := os.read(self.output, 65536):
                log.write(chunk)
                sys.stdout.buffer.write(chunk)
                sys.stdout.buffer.flush()

    def wait(self, deadline, other=None):
        """Waits for power-off until `deadline` and while `other` lives, then kills. Returns the status that the guest left."""
        while self.process.poll() is None:
            late = time.monotonic() >= deadline
            if late or (other and other.process.poll() is not None):
                self.process.kill()
                self.process.wait()
                why = "its time was up" if late else f"the {other.role} is gone"
                complain(f"{self.role}: killed, {why}; console: {self.dir}/console.log")
                return TIMED_OUT if late else DIED
            time.sleep(0.1)
        if not self.interactive:
            self.copier.join(5)
        status = self.dir / "status"
        if not status.exists():
            complain(f"{self.role}: died without a word; console: {self.dir}/console.log, QEMU: {self.dir}/qemu.log")
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


def quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


def share(tag, path, writable=False):
    mode = "" if writable else ",readonly=on"
    return ["-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap{mode}",
            "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def complain(*lines):
    for line in lines:
        print(f"vm: {line}".replace("/src/", ""), file=sys.stderr, flush=True)


def new_run():
    RUNS.mkdir(parents=True, exist_ok=True)
    old = sorted(p for p in RUNS.iterdir() if p.is_dir() and not p.is_symlink())
    for path in old[:-RUNS_KEPT]:
        shutil.rmtree(path, ignore_errors=True)
    run = Path(tempfile.mkdtemp(prefix=time.strftime("%m%d-%H%M%S-"), dir=RUNS))
    run.chmod(0o755)
    last = RUNS / "last"
    fresh = RUNS / f".last-{run.name}"
    fresh.symlink_to(run.name)
    fresh.rename(last)
    return run


def single(options, run):
    return [Vm("single", run, options, options.module, options.rdma, options.command)]


def pair(options, run):
    """Two VMs on one wire: QEMU's stream netdev over a unix socket."""
    shared = run / "pair"
    shared.mkdir()
    wire = tempfile.mkdtemp() + "/wire"

    # When a connection breaks, rxe frees packets under the lock of its queue pair. With merged buffers virtio_net then receives more
    # packets, which need the same lock: the guest hangs.
    def net(number, end):
        return ["-netdev", f"stream,id=net0,addr.type=unix,addr.path={wire},{end}",
                "-device", f"virtio-net-pci,netdev=net0,mac=52:54:00:00:00:0{number},host_mtu=4500,mrg_rxbuf=off"]

    return [
        Vm("server", run, options, options.server, options.peer_rdma, net=net(1, "server=on"), pair=shared),
        Vm("client", run, options, options.client, options.rdma, options.command, net(2, "server=off,reconnect-ms=200"), shared),
    ]


def take_turn(options):
    """Waits until no other run is under way: emulated guests that share the processors run into their time limits."""
    CACHE.mkdir(parents=True, exist_ok=True)
    turn = open(CACHE / "lock", "w")
    if options.interactive:
        return turn
    # Who has just run waits behind who waits already: only one at a time waits for the turn itself.
    with open(CACHE / "next", "w") as following:
        for lock in following, turn:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print("vm: waiting for another run to end", file=sys.stderr)
                fcntl.flock(lock, fcntl.LOCK_EX)
    return turn


def came_up(vms, limit):
    """Says whether each guest began its role, which is before it loads the module under test."""
    deadline = time.monotonic() + limit
    while not all((vm.dir / "booted").exists() for vm in vms):
        if time.monotonic() >= deadline or any(vm.process.poll() is not None for vm in vms):
            return False
        time.sleep(0.1)
    return True


def boot(options):
    """Starts the VMs of a run and returns their directory and them.

    On a busy host an emulated CPU can lose its timer while the kernel starts; that guest never comes up, and another one is
    started.
    """
    for _ in range(BOOTS):
        run = new_run()
        vms = (single if options.kind == "single" else pair)(options, run)
        for vm in vms:
            vm.start()
        if options.interactive or came_up(vms, options.boot_limit):
            return run, vms
        for vm in vms:
            vm.process.kill()
            vm.process.wait()
            shutil.rmtree(vm.dir / "layer")
        complain(f"a guest did not come up within {options.boot_limit:.0f} s; consoles: {run}/*/console.log")
    sys.exit(DIED)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("single", "pair"))
    parser.add_argument("--module", choices=("rust", "c", "installed"), default="rust", help="of a single VM")
    parser.add_argument("--client", choices=("rust", "c"), default="rust")
    parser.add_argument("--server", choices=("rust", "c"), default="rust")
    parser.add_argument("--rdma", choices=RDMA, default="rxe", help="the RDMA device")
    parser.add_argument("--peer-rdma", choices=RDMA, help="the RDMA device of a pair's server, if it is another one")
    parser.add_argument("--built", type=Path, default=Path("/src/build/debug" if DEBUG else "/src"), help="where our modules are")
    parser.add_argument("--root", default="/mnt", help="the root directory of the VMs; its kernel modules are those of the build root")
    parser.add_argument("--smp", type=int, default=2)
    parser.add_argument("--memory", default="3G" if DEBUG else "2G")
    parser.add_argument("--peer-memory", help="of a pair's server, if it has another amount")
    parser.add_argument("--accel", choices=("auto", *ACCELERATION), default="auto")
    parser.add_argument("--append", default="", help="more for the kernel's command line")
    parser.add_argument("--qemu", default="qemu-system-x86_64", help="what is started with QEMU's arguments")
    parser.add_argument("--boot-limit", type=float, default=BOOT_SECONDS, help="seconds until a guest that did not come up is killed")
    parser.add_argument("--limit", type=float, default=600, help="seconds until the VMs are killed")
    parser.add_argument("command", nargs="?", default="", help="a shell command; none gives a shell")
    options = parser.parse_args()
    options.interactive = not options.command
    options.peer_rdma = options.peer_rdma or options.rdma
    options.peer_memory = options.peer_memory or options.memory
    single_vm, two = [(options.module, options.rdma)], [(options.client, options.rdma), (options.server, options.peer_rdma)]
    for module, rdma in single_vm if options.kind == "single" else two:
        for file in added(options, module, rdma):
            if not file.exists():
                builder = "selftests/iwarp/siw.sh" if file.name == "siw.ko" else "`make module`"
                sys.exit(f"vm: {file} is not there; {builder} builds it")

    turn = take_turn(options)
    run, vms = boot(options)
    deadline = time.monotonic() + (float("inf") if options.interactive else options.limit)
    status = vms[-1].wait(deadline, vms[0] if options.kind == "pair" else None)
    if options.kind == "pair":
        (run / "pair/stop").touch()
        server = vms[0].wait(time.monotonic() + 30)
        status = status or server
    if any([vm.faults() for vm in vms]):
        status = status or 1
    for vm in vms:
        shutil.rmtree(vm.dir / "layer")
    turn.close()
    return status


sys.exit(main())
