#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Starts QEMU for vm.py, but as a machine with Secure Boot, whose firmware trusts the keys of a PC that is bought: it starts shim,
that GRUB, and that the kernel.

Runs in the build root in place of QEMU (vm.py --qemu), with the arguments of QEMU. $FIRMWARE is a directory with code.fd and vars.fd,
the firmware and its variables, which it may change, and shim.efi, mm.efi and grub.efi. If mokutil has asked for a key to be
enrolled, shim starts MokManager first; what a person would press there is pressed here, with the password $PASSWORD.
"""

import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

DOWN, ENTER = "\x1b[B", "\r"

# What MokManager shows, in this order, and what is pressed then.
ENROLMENT = (
    ("Press any key to perform MOK management", ENTER),
    ("Continue boot", DOWN + ENTER),  # Enroll MOK
    ("View key 0", DOWN + ENTER),  # Continue
    (r"Enroll the key\(s\)\?", DOWN + ENTER),  # Yes
    ("Password:", os.environ.get("PASSWORD", "") + ENTER),
    ("Perform MOK management", ENTER),  # Reboot
)
# Escape sequences that move the cursor or set colours.
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()=>].?")


def taken(arguments, name):
    """Takes the option `name` out of QEMU's arguments and returns its value."""
    place = arguments.index(name)
    value = arguments[place + 1]
    del arguments[place:place + 2]
    return value


def system_partition(firmware, arguments):
    """Makes the directory that the firmware sees as its system partition."""
    esp = firmware / "esp"
    shutil.rmtree(esp, ignore_errors=True)
    (esp / "EFI/BOOT").mkdir(parents=True)
    (esp / "EFI/debian").mkdir()
    shutil.copy(firmware / "shim.efi", esp / "EFI/BOOT/BOOTX64.EFI")
    shutil.copy(firmware / "mm.efi", esp / "EFI/BOOT/mmx64.efi")
    shutil.copy(firmware / "grub.efi", esp / "EFI/BOOT/grubx64.efi")
    shutil.copy(taken(arguments, "-kernel"), esp / "vmlinuz")
    shutil.copy(taken(arguments, "-initrd"), esp / "initrd")
    (esp / "EFI/debian/grub.cfg").write_text(f"linux /vmlinuz {taken(arguments, '-append')}\ninitrd /initrd\nboot\n")
    return esp


def with_firmware(firmware, arguments, console):
    """Returns QEMU's arguments, changed to start by the firmware, with a console that can be typed at."""
    esp = system_partition(firmware, arguments)
    machine = arguments.index("-M") + 1
    arguments[machine] += ",smm=on"
    # MokManager restarts the machine.
    arguments.remove("-no-reboot")
    serial = next(i for i, argument in enumerate(arguments) if argument.startswith("file,id=console,path="))
    log = arguments[serial].split("path=")[1]
    arguments[serial] = f"socket,id=console,path={console},server=on,wait=off,logfile={log}"
    return [
        *arguments,
        "-global", "driver=cfi.pflash01,property=secure,value=on",
        "-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={firmware}/code.fd",
        "-drive", f"if=pflash,unit=1,format=raw,file={firmware}/vars.fd",
        "-drive", f"if=none,id=esp,format=raw,readonly=on,file=fat:{esp}",
        "-device", "virtio-blk-pci,drive=esp,bootindex=0",
    ]


def press(line, keys):
    """Presses keys one after another, as slowly as the firmware reads them."""
    for key in re.findall(r"\x1b\[.|.", keys, re.DOTALL):
        time.sleep(0.5)
        line.sendall(key.encode())


def enrol(line):
    """Reads the console as long as there is one, and answers MokManager."""
    seen, steps = b"", list(ENROLMENT)
    while data := line.recv(4096):
        seen = ESCAPES.sub(b"", seen + data)[-20000:]
        if steps and (found := re.search(steps[0][0].encode(), seen)):
            seen = seen[found.end():]
            press(line, steps.pop(0)[1])


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def main():
    firmware = Path(os.environ["FIRMWARE"])
    console = f"/tmp/console-{os.getpid()}"
    command = ["qemu-system-x86_64", *with_firmware(firmware, sys.argv[1:], console)]
    with subprocess.Popen(command, close_fds=False, preexec_fn=die_with_parent) as machine:
        line = socket.socket(socket.AF_UNIX)
        while machine.poll() is None:
            try:
                line.connect(console)
                break
            except OSError:
                time.sleep(0.1)
        else:
            return machine.returncode
        enrol(line)
    return machine.returncode


sys.exit(main())
