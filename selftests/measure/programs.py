# SPDX-License-Identifier: GPL-2.0
"""The workloads of programs: perftest over the device of a pair. Each is a function as those of workloads.py. A program that waits for
events sleeps; one that polls spins, so that its CPU time is the time that it takes. Those that send and write poll: over iWARP
ib_send_bw with events stops in the middle (selftests/suites/outcomes.tsv), and ib_write_bw has none."""

import subprocess
import sys

from rig import SRC

# Messages of one second, about: several in flight, and one at a time.
BANDWIDTH, LATENCY = 8000, 3000


def perftest(options, each_second):
    """Returns a workload of one of its programs with these options; with no seconds it sends the fewest messages that it can, which is
    what its own start costs. One that fails has sent none: over siw that is most of them."""
    def measure(seconds):
        messages = max(int(seconds * each_second), 20)
        script = f". ./lib.sh; . ./programs.sh; perftest_once {options} -n {messages}"
        done = subprocess.run(["bash", "-c", script], cwd=SRC / "selftests/vm", stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            print(f"perftest {options} -n {messages}: {done.stdout}", file=sys.stderr)
        return messages if done.returncode == 0 else 0, None
    measure.starts = True
    return measure


PROGRAMS = {
    "ib_send_bw, 64 KiB": perftest("ib_send_bw -s 65536", BANDWIDTH),
    "ib_write_bw, 64 KiB": perftest("ib_write_bw -s 65536", BANDWIDTH),
    "ib_send_lat, 64 octets, events": perftest("ib_send_lat -e -s 64", LATENCY),
}
