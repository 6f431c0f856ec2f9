# SPDX-License-Identifier: GPL-2.0
"""What growth.py takes for growth, and what not."""

import unittest

import growth

SLABINFO = """slabinfo - version: 2.1
# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>
rpc_tasks              8     16    376   10    1 : tunables    0    0    0 : slabdata      1      1      0
kmalloc-64           640    640     64   64    1 : tunables    0    0    0 : slabdata     10     10      0
"""
EVENTS = 10


def samples(count=16, **series):
    """Returns so many samples; a series is of `qp`, `mr`, `thread`, `slab`, `memory` or `leaks`."""

    def value(name, index, otherwise=0):
        return series[name][index] if name in series else otherwise

    return [
        {
            "kernel threads": {"nfsd": value("thread", index, 4)},
            "rdma": {"qp": value("qp", index, 3), "mr": value("mr", index, 40)},
            "slab objects": {"kmalloc-256": value("slab", index, 5000)},
            "memory": {"slab": value("memory", index, 30000)},
            "suspected leaks": value("leaks", index),
        }
        for index in range(count)
    ]


def found(count=16, **series):
    return growth.grown(samples(count, **series), EVENTS)


class Judges(unittest.TestCase):
    def test_what_stays_does_not_grow(self):
        self.assertEqual(found(), [])

    def test_what_is_allocated_in_the_first_quarter_does_not_grow(self):
        self.assertEqual(found(slab=[1000 * min(i, 4) for i in range(16)], qp=[min(i, 4) for i in range(16)]), [])

    def test_what_goes_up_and_down_does_not_grow(self):
        self.assertEqual(found(slab=[5000 + 3000 * (i % 2) for i in range(16)], memory=[30000 + 5000 * (i % 3) for i in range(16)]), [])

    def test_what_shrinks_does_not_grow(self):
        self.assertEqual(found(slab=[9000 - 200 * i for i in range(16)], qp=[30 - i for i in range(16)]), [])

    def test_an_object_at_each_event_grows(self):
        self.assertIn("kmalloc-256", found(slab=[5000 + EVENTS * i for i in range(16)])[0])

    def test_an_object_at_each_event_grows_in_spite_of_noise(self):
        noise = [3, -7, 0, 9, -2, 5, -9, 1, 4, -6, 8, -3, 2, 7, -8, 0]
        self.assertIn("kmalloc-256", found(slab=[5000 + EVENTS * i + noise[i] for i in range(16)])[0])

    def test_an_object_at_each_other_event_is_within_the_bound(self):
        self.assertEqual(found(slab=[5000 + EVENTS // 2 * i for i in range(16)]), [])

    def test_the_tracker_of_references_keeps_what_was_freed(self):
        self.assertEqual(growth.bound("slab objects", "kmalloc-32", EVENTS), EVENTS // 2 + 256)

    def test_a_queue_pair_that_is_left_once_in_four_samples_grows(self):
        self.assertIn("qp", found(qp=[3 + i // 4 for i in range(16)])[0])

    def test_a_thread_grows(self):
        self.assertIn("nfsd", found(thread=[4 + i // 4 for i in range(16)])[0])

    def test_a_connection_may_have_the_regions_of_all_its_credits(self):
        self.assertEqual(found(mr=[40] * 8 + [40 + growth.REGIONS] * 8), [])
        self.assertIn("mr", found(mr=[40] * 8 + [41 + growth.REGIONS] * 8)[0])

    def test_memory_grows_by_more_than_a_mebibyte(self):
        self.assertEqual(found(memory=[30000 + 128 * i for i in range(16)]), [])
        self.assertIn("memory", found(memory=[30000 + 129 * i for i in range(16)])[0])

    def test_what_kmemleak_suspects_is_growth(self):
        self.assertIn("suspected", found(leaks=[0] * 15 + [1])[0])

    def test_too_few_samples_say_nothing(self):
        self.assertIn("too few", found(count=7)[0])

    def test_a_name_that_appears_later_counts_from_nothing(self):
        late = samples()
        for index, each in enumerate(late):
            if index >= 8:
                each["kernel threads"]["left"] = 1
        self.assertIn("left", growth.grown(late, EVENTS)[0])


class Reads(unittest.TestCase):
    def test_a_cache_has_so_many_objects_of_so_many_octets(self):
        self.assertEqual(growth.slabs(SLABINFO), {"rpc_tasks": (8, 376), "kmalloc-64": (640, 64)})

    def test_objects_of_all_devices_are_added_up(self):
        resources = [{"ifname": "iw0", "pd": 2, "qp": 3}, {"ifname": "rxe0", "pd": 1, "qp": 4, "mr": 5}]
        self.assertEqual({kind: count for kind, count in growth.objects(resources).items() if count}, {"pd": 3, "qp": 7, "mr": 5})


if __name__ == "__main__":
    unittest.main()
