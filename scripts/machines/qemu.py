# SPDX-License-Identifier: GPL-2.0
"""A machine of QEMU: with hardware virtualisation (kvm), or emulated (tcg); with `count`, its time is what it has executed."""

import os
import subprocess
import tempfile
from pathlib import Path

from . import CACHE, KERNEL, SRC, Machine, digest, initramfs
from .shares import shares

# What is emulated has the processor that the table of architectures names.
ACCELERATION = {
    "kvm": ["-accel", "kvm", "-cpu", "host"],
    "tcg": ["-accel", "tcg,thread=multi"],
    # A nanosecond of the guest's time for each of its instructions; one virtual CPU only.
    "count": ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"],
}
# A PCI device that no driver of the kernel is for, and how a strict device learns that memory is to be mapped for it.
PCI, NAMED = ["-device", "edu,addr=1e"], "rdma_rxe.pci=0000:00:1e.0"
# What of the machine maps memory for it, and what that takes: devices, and words for the kernel's command line.
DMA = {
    "": ([], ""),
    # A mapping ends for the device when it ends for who made it.
    "iommu": (["-device", "intel-iommu,intremap=off", *PCI], f"intel_iommu=on iommu.passthrough=0 iommu.strict=1 {NAMED}"),
    # All DMA goes through bounce buffers: 128 MiB, twice the default.
    "bounce": (PCI, f"swiotlb=65536,force {NAMED}"),
}
BOOT_SECONDS = 240 * (3 if KERNEL.checks or KERNEL.foreign else 1)  # On two idle CPUs a pair takes under 20, or under a minute with the debug kernel.
# Emulated guests that share the processors run into their time limits.
ALONE = True


def kvm_works():
    """Says whether a guest of this machine's architecture really boots under KVM: the device alone is no proof on nested machines."""
    flags = Path("/proc/cpuinfo").read_text()
    if not (" vmx" in flags or " svm" in flags) or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    verdict = CACHE / f"kvm-{digest(Path('/proc/sys/kernel/random/boot_id').read_text())}"
    if not verdict.exists():
        # Without a root the kernel panics, and -no-reboot makes that an orderly exit.
        own = KERNEL.architecture
        command = [own.qemu, "-M", own.board, "-accel", "kvm", "-cpu", "host", "-m", "512M", "-display", "none",
                   "-no-reboot", "-serial", "stdio", "-kernel", KERNEL.image, "-append", f"console={own.console} panic=-1"]
        try:
            text = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30).stdout
        except subprocess.TimeoutExpired:
            text = b""
        CACHE.mkdir(parents=True, exist_ok=True)
        verdict.write_text("yes" if b"Kernel panic" in text else "no")
    return verdict.read_text() == "yes"


def disk(file):
    """Returns the options for a disk in that file, which is made with an empty file system if it is not there."""
    if not file.exists():
        with open(file, "wb") as new:
            new.truncate(4 << 30)
        subprocess.run(["mkfs.ext4", "-q", file], check=True)
    return ["-drive", f"file={file},format=raw,if=virtio"]


class Qemu(Machine):
    """A machine of QEMU, on one end of a wire or without one."""

    def __init__(self, role, run, options, module, rdma, command="", wire=()):
        super().__init__(role, run, options, module, rdma, command)
        accel = options.accel
        if accel == "auto":
            accel = "kvm" if not self.kernel.foreign and kvm_works() else "tcg"
        own = self.kernel.architecture
        processor = [] if accel == "kvm" else ["-cpu", own.cpu]
        append = f"console={own.console} loglevel=5 panic=-1 oops=panic watchdog_thresh=60 mitigations=off random.trust_cpu=on"
        if own.name == "amd64":
            # On a busy host an emulated timer tick can be late; the kernel must not give up on it.
            append += " no_timer_check tsc=nowatchdog"
        if self.kernel.checks:
            # An interrupt in the moment when the kernel reads what its CPU can do finds five levels of page tables gone,
            # and with them the place of KASAN's shadow.
            append += " page_poison=1 no5lvl lockdep.lock_stat=0"
        devices, more = DMA[options.dma]
        append += f" {more}"
        modules = ["overlay"]
        if options.systemd:
            append += " guest.systemd net.ifnames=0"
            modules += ["virtio_blk", "ext4"]
            # Nobody but QEMU itself is on the other end of its wire.
            wire = [*disk(options.systemd), "-netdev", "user,id=net0,restrict=on,ipv6=off", "-device", "virtio-net-pci,netdev=net0"]
        self.shares = shares(self.kernel, self.memory)
        if options.disk:
            append += " guest.disk"
            modules += ["virtio_blk", "ext4"]
            # Whoever made the disk can make it again.
            wire = ["-drive", f"file={options.disk},format=raw,if=virtio,cache=unsafe,discard=unmap"]
        for tag, path in ("root", self.root), ("layer", self.layer), ("src", SRC), ("kernel", self.kernel.directory):
            self.shares.add(tag, path)
        self.shares.add("run", self.dir, writable=True)
        if role != "single":
            self.shares.add("pair", run / "pair", writable=True)
        self.command = [
            options.qemu or own.qemu, "-M", own.board, "-nodefaults", "-display", "none", "-no-reboot",
            *ACCELERATION[accel], *processor, *devices,
            "-smp", str(options.smp), "-m", self.memory,
            "-kernel", str(self.kernel.image), "-initrd", str(initramfs(self.kernel, *self.shares.modules, *modules)),
            "-append", f"{append} {options.append}".strip(),
            "-chardev", f"file,id=console,path={self.dir}/console.log", "-serial", "chardev:console",
            "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
            *self.shares.arguments, *wire,
        ]
        if options.plugin:
            self.command += ["-plugin", f"{options.plugin},out={self.dir}/plugin"]
        if self.interactive:
            self.command += ["-chardev", "stdio,id=command,signal=off", "-device", "virtconsole,chardev=command"]
        else:
            # A file, not stdio: QEMU takes the end of stdin for a closed port, and the guest would wait for ever.
            self.command += ["-chardev", f"file,id=command,path=/proc/self/fd/{self.sink}",
                             "-device", "virtserialport,chardev=command,name=command"]

    def start(self):
        with open(self.dir / "shares.log", "wb") as log:
            self.shares.start(log)
        super().start()

    def clean_up(self):
        self.shares.stop()
        super().clean_up()


def single(options, run):
    return [Qemu("single", run, options, options.module, options.rdma, options.command)]


def pair(options, run):
    """Returns two machines on one wire: QEMU's stream netdev over a unix socket."""
    wire = tempfile.mkdtemp() + "/wire"

    # When a connection breaks, rxe frees packets under the lock of its queue pair. With merged buffers virtio_net then receives more
    # packets, which need the same lock: the guest hangs.
    def net(number, end):
        return ["-netdev", f"stream,id=net0,addr.type=unix,addr.path={wire},{end}",
                "-device", f"virtio-net-pci,netdev=net0,mac=52:54:00:00:00:0{number},host_mtu=4500,mrg_rxbuf=off"]

    return [
        Qemu("server", run, options, options.server, options.peer_rdma, wire=net(1, "server=on")),
        Qemu("client", run, options, options.client, options.rdma, options.command, net(2, "server=off,reconnect-ms=200")),
    ]
