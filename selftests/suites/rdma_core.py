#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs rdma-core's own tests as their run_tests.py does, and writes what came of each to a file, in the form that judge.py reads.

    rdma_core.py TESTS RESULTS --dev DEVICE --port 1 --gid 0

The tests connect their RC queue pairs by telling each the other's number and address handle. iWARP has no such connections, so here
the connection manager connects the same queue pairs, in the same place. All else is the tests' own. It does so for RoCE, too, which
shows what is the fault of this script.
"""

import itertools
import os
import random
import signal
import sys
import unittest
from importlib.machinery import SourceFileLoader

sys.dont_write_bytecode = True
import judge  # noqa: E402  beside this file

directory, results = sys.argv[1:3]
del sys.argv[1:3]
os.chdir(directory)
sys.path.insert(0, directory)

from args_parser import parser  # noqa: E402  it is the tests' own

parser.parse_args()
tests = SourceFileLoader("tests", os.path.join(directory, "__init__.py")).load_module()

import pyverbs.cm_enums as ce  # noqa: E402
import pyverbs.enums as e  # noqa: E402
from pyverbs.cmid import CMID, AddrInfo, CMEvent, CMEventChannel, ConnParam  # noqa: E402
from pyverbs.device import get_device_list  # noqa: E402
from tests.base import RCResources, RDMATestCase  # noqa: E402

ports = itertools.count(7475)
# Of one test; the tests' own processes wait for less.
SECONDS = 120


def expect(channel, kind):
    """Waits for an event and returns it. One of another kind is an error of the test that connects."""
    event = CMEvent(channel)
    if event.event_type != kind:
        raise RuntimeError(f"the connection manager says {event.event_str()}")
    return event


def ready(end, pair):
    """Moves a queue pair to RTS, which a device for iWARP does when it connects it."""
    for state in e.IBV_QPS_INIT, e.IBV_QPS_RTR, e.IBV_QPS_RTS:
        pair.modify(*end.init_qp_attr(state))


def connect(address, passive, active, iwarp):
    """Connects two queue pairs and returns what keeps the connection."""
    ends = {"port_space": ce.RDMA_PS_TCP}
    there, here = CMEventChannel(), CMEventChannel()
    port = str(next(ports))
    listener = CMID(creator=there, **ends)
    listener.bind_addr(AddrInfo(src=address, src_service=port, flags=ce.RAI_PASSIVE, **ends))
    listener.listen()
    end = CMID(creator=here, **ends)
    end.resolve_addr(AddrInfo(src=address, dst=address, dst_service=port, **ends))
    expect(here, ce.RDMA_CM_EVENT_ADDR_RESOLVED).ack_cm_event()
    end.resolve_route()
    expect(here, ce.RDMA_CM_EVENT_ROUTE_RESOLVED).ack_cm_event()
    end.connect(ConnParam(qp_num=active.qp_num))
    request = expect(there, ce.RDMA_CM_EVENT_CONNECT_REQUEST)
    other_end = CMID(creator=request, listen_id=listener)
    if not iwarp:
        ready(other_end, passive)
    other_end.accept(ConnParam(qp_num=passive.qp_num))
    request.ack_cm_event()
    expect(here, ce.RDMA_CM_EVENT_ESTABLISHED if iwarp else ce.RDMA_CM_EVENT_CONNECT_RESPONSE).ack_cm_event()
    if not iwarp:
        ready(end, active)
        end.establish()
    expect(there, ce.RDMA_CM_EVENT_ESTABLISHED).ack_cm_event()
    return other_end, end, listener, there, here


def pre_run(case):
    """Stands for RDMATestCase.pre_run."""
    for one, other in (case.client, case.server), (case.server, case.client):
        one.rpsns, one.rqps_num = other.psns, other.qps_num
        if not isinstance(one, RCResources):
            one.pre_run(other.psns, other.qps_num)
    if isinstance(case.client, RCResources):
        iwarp = next(dev for dev in get_device_list() if dev.name.decode() == case.dev_name).transport_type == e.IBV_TRANSPORT_IWARP
        case.connections = [connect(case.ip_addr, *pair, iwarp) for pair in zip(case.server.qps, case.client.qps)]


RDMATestCase.pre_run = pre_run


class Results(unittest.TestResult):
    """Writes a line for each test as soon as it has ended."""

    def __init__(self, file):
        super().__init__()
        self.file = file

    def startTest(self, test):
        super().startTest(test)
        print(f"== {test.id()}", flush=True)
        # They choose attributes at random, and some of these cannot be had.
        random.seed(test.id())
        signal.alarm(SECONDS)

    def stopTest(self, test):
        signal.alarm(0)
        super().stopTest(test)

    def write(self, test, outcome, said=""):
        print(test.id(), outcome, " ".join(said.split()), sep="\t", file=self.file, flush=True)

    def addSuccess(self, test):
        self.write(test, "passed")

    def addSkip(self, test, reason):
        self.write(test, "skipped", reason)

    def addError(self, test, error):
        text = self._exc_info_to_string(error, test)
        print(text, flush=True)
        self.write(test, "failed", " | ".join(text.rstrip().splitlines()[-6:]))

    addFailure = addError

    def addExpectedFailure(self, test, error):
        self.write(test, "passed")

    def addUnexpectedSuccess(self, test):
        self.write(test, "failed", "it passed, and the test itself expects that it fails")

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addError(subtest, error)


def too_long(*_):
    raise TimeoutError(f"it took more than {SECONDS} s")


def run(name, suite, file):
    """Runs the tests of a file in a process of its own. Those of some files begin processes, which must not inherit what the
    connection manager has open for those of others."""
    child = os.fork()
    if child == 0:
        suite.run(Results(file))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        print(name, "failed", f"its process ended with {os.waitstatus_to_exitcode(status)}", sep="\t", file=file, flush=True)


def to_run(suite):
    """Yields the tests of a suite but those that the table leaves out."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from to_run(test)
        else:
            row = judge.row_of(rows, test.id())
            if row is None or row.outcome != "omitted":
                yield test


rows = [row for row in judge.table(judge.TABLE.read_text()) if row.suite == "rdma-core"]
signal.signal(signal.SIGALRM, too_long)
with open(results, "w", encoding="utf-8") as file:
    for module in sys.modules["tests"].__test_modules__:
        tests_of_module = unittest.defaultTestLoader.loadTestsFromModule(module)
        run(module.__name__, unittest.TestSuite(to_run(tests_of_module)), file)
