# SPDX-License-Identifier: GPL-2.0
"""What the measurements share: on this machine, booting VMs; in a VM, a mount, and commands for the server of the pair."""

import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).resolve().parents[2]
FILE_MB = 64


def boot(kind, command, *options):
    """Runs `command` in new VMs of this kind. Returns whether it succeeded, and what it said."""
    vm = subprocess.run(["scripts/vm.py", kind, *options, "--", " ".join(command)], cwd=SRC, stdout=subprocess.PIPE, text=True)
    return vm.returncode == 0, vm.stdout


def write(out, name, text):
    """Prints a table, and writes it to a file."""
    print(text, end="")
    out.mkdir(parents=True, exist_ok=True)
    (out / name).write_text(text)


def run(*command):
    subprocess.run(command, check=True)


def on_server(command):
    """Runs a command on the server of the pair. Returns what it said."""
    return subprocess.run([SRC / "scripts/vm/on-server", command], check=True, stdout=subprocess.PIPE, text=True).stdout


def make_file(directory):
    """Returns the command that makes the file of the workloads, on the server."""
    return ["dd", "if=/dev/zero", f"of={directory}/file", "bs=1M", f"count={FILE_MB}", "status=none"]


def mount(directory, address, *options, tcp=False):
    """Mounts what the server at `address` exports."""
    directory.mkdir(exist_ok=True)
    transport = "proto=tcp" if tcp else "proto=rdma,port=20049"
    run("mount", "-t", "nfs", "-o", ",".join(["vers=4.2", transport, *options]), f"{address}:/", str(directory))


def fail(message):
    sys.exit(f"{Path(sys.argv[0]).stem}: {message}")
