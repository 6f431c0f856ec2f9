# SPDX-License-Identifier: GPL-2.0
"""What watch.py finds in a directory that looks like /proc."""

import tempfile
import threading
import time
import unittest
from pathlib import Path

import watch

SLABINFO = """slabinfo - version: 2.1
# name <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>
kmalloc-4k             3     16   4096    8    8 : tunables    0    0    0 : slabdata      2      2      0
kmalloc-64           640    640     64   64    1 : tunables    0    0    0 : slabdata     10     10      0
"""
STATUS = "Name:\tnfsd\nState:\t{state}\nvoluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t0\n"
IDLE = "[<0>] svc_recv+0x1a/0x2b [sunrpc]\n[<0>] nfsd+0x8f/0xf0 [nfsd]\n[<0>] kthread+0xf0/0x240\n"
WAITS = "[<0>] schedule_timeout+0x1/0x2\n[<0>] send_reply+0x12/0x34 [rpcrdma]\n[<0>] sendto+0x5/0x6 [rpcrdma]\n" + IDLE


class Watch(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.proc = watch.PROC = Path(directory.name)
        self.stop = self.proc / "stop"

    def thread(self, number, stack, state="S (sleeping)", comm="nfsd", switches=1):
        thread = self.proc / str(number)
        thread.mkdir(exist_ok=True)
        for name, text in ("comm", comm + "\n"), ("stack", stack), ("status", STATUS.format(state=state, switches=switches)):
            (thread / name).write_text(text)
        return thread

    def found(self, *module):
        """What is found until a moment later."""
        timer = threading.Timer(0.35, self.stop.touch)
        timer.start()
        found = watch.threads(self.stop, *module)
        timer.join()
        return found

    def test_a_thread_that_sleeps_in_the_module_is_found(self):
        self.thread(1, IDLE)
        self.thread(2, WAITS)
        self.thread(3, WAITS, state="D (disk sleep)")
        found = self.found()
        self.assertEqual((found["threads"], found["most"]), (3, 2))
        self.assertEqual(set(found["where"]), {"send_reply"})
        self.assertGreater(found["samples"], 1)
        self.assertGreater(found["longest"], 0)

    def test_it_is_ready_with_its_first_sample(self):
        ready, sample = Path(f"{self.stop}.ready"), watch.asleep
        seen = []

        def asleep(*arguments):
            seen.append(ready.exists())
            if len(seen) == 2:
                self.stop.touch()
            return sample(*arguments)

        watch.asleep = asleep
        self.addCleanup(setattr, watch, "asleep", sample)
        self.thread(1, IDLE)
        watch.threads(self.stop)
        self.assertEqual(seen, [False, True])

    def test_idle_threads_sleep_elsewhere(self):
        self.thread(1, IDLE, state="I (idle)")
        self.assertEqual(self.found()["most"], 0)
        self.stop.unlink()
        for where in "sunrpc", "svc_recv":
            self.assertEqual(self.found(where)["most"], 1)
            self.stop.unlink()

    def test_a_function_that_is_in_no_module_is_found(self):
        self.thread(1, IDLE.replace(" [sunrpc]", ""))
        self.assertEqual(self.found("sunrpc")["most"], 0)
        self.stop.unlink()
        self.assertEqual(self.found("svc_recv")["where"].keys(), {"svc_recv"})

    def test_a_thread_that_runs_is_not_asleep(self):
        self.thread(1, WAITS, state="R (running)")
        self.assertEqual(self.found()["most"], 0)

    def test_a_thread_that_has_run_meanwhile_is_not_asleep(self):
        thread, function = self.thread(1, WAITS), watch.function_of("rpcrdma")
        self.assertEqual(watch.asleep(thread, function), ("send_reply", ("1", "0")))
        seen = iter((1, 2))

        def switches(_):
            return next(seen), True

        switches, watch.switches = watch.switches, switches
        self.addCleanup(setattr, watch, "switches", switches)
        self.assertIsNone(watch.asleep(thread, function))

    def test_a_thread_that_runs_between_samples_begins_another_sleep(self):
        self.thread(1, WAITS)
        runs = threading.Timer(0.2, self.thread, (1, WAITS), {"switches": 2})
        start = time.monotonic()
        runs.start()
        found = self.found()
        self.assertLess(found["longest"], time.monotonic() - start - 0.1)

    def test_a_thread_that_makes_a_connection_may_sleep_shortly(self):
        self.thread(1, WAITS.replace("send_reply", "_RNvX13SvcConnection5start"))
        found = self.found()
        self.assertEqual((found["most"], len(found["where"])), (0, 1))
        self.stop.unlink()
        watch.SHORT = 0.1
        self.addCleanup(setattr, watch, "SHORT", 0.5)
        self.assertEqual(self.found()["most"], 1)

    def test_slab_caches_have_so_many_kib_in_use(self):
        self.assertEqual(watch.slabs(SLABINFO), {"kmalloc-4k": 12, "kmalloc-64": 40})

    def test_caches_of_threads_and_reclaimable_ones_are_not_kept(self):
        watch.SLAB = self.proc
        self.addCleanup(setattr, watch, "SLAB", Path("/sys/kernel/slab"))
        for name, is_reclaimable in {"dentry": 1, "kmalloc-64": 0}.items():
            (self.proc / name).mkdir()
            (self.proc / name / "reclaim_account").write_text(f"{is_reclaimable}\n")
        self.assertEqual(watch.unreclaimable({"dentry": 7, "kmalloc-64": 40, "task_struct": 500}), 40)

    def test_others_are_not_looked_at(self):
        self.thread(1, WAITS, comm="kworker/0:1")
        self.assertEqual(self.found()["most"], 0)

    def test_a_thread_that_has_ended_is_not_asleep(self):
        self.assertIsNone(watch.asleep(self.proc / "7", watch.function_of("rpcrdma")))


if __name__ == "__main__":
    unittest.main()
