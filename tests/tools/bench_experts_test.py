#!/usr/bin/env python3
"""shoal bench experts: rows of a small table of loads, and what is refused."""
import json
import os
import tempfile
import unittest

import shoal_program
from shoal_program import run

NAMES = "window,step,layer," + ",".join(f"e{e}" for e in range(8))


def table(windows, steps, scale):
    """Two layers; expert 0 gets ever more."""
    lines = [f"{w},{s},{layer}," + ",".join(str(scale * (1 + (5 + w if e == 0 else e))) for e in range(8))
             for w in windows for s in steps for layer in range(2)]
    return "\n".join([NAMES, *lines]) + "\n"


class BenchExperts(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.windows = self.file("windows.csv", table(range(4), [0], 50000))
        self.steps = self.file("steps.csv", table([2], range(6), 100))

    def file(self, name, text):
        path = os.path.join(self.place.name, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return path

    def bench(self, *arguments):
        return run("bench", "experts", "--windows", self.windows, "--steps", self.steps, *arguments)

    def test_every_group_has_a_row_of_each_placement_and_split(self):
        done = self.bench("--json", "--policies", "ours,eplb", "--splits", "fill,even")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(rows), 2 * 3 * 2 * 2)
        self.assertEqual({row["group"] for row in rows}, {f"{g}+{s}" for g in ("EP64", "EP128") for s in (0, 1, 4)})
        for row in rows:
            self.assertGreaterEqual(row["step"], 1)

    def test_prefill_is_a_group_of_eight(self):
        done = self.bench("--stage", "prefill", "--policies", "contiguous", "--splits", "even")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("EP8+4", done.stdout)
        self.assertNotIn("EP64", done.stdout)

    def test_what_there_is_not_is_refused_with_what_there_is(self):
        done = self.bench("--policies", "best")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no 'best'; there are ours eplb", done.stderr)
        self.steps = self.file("steps.csv", table([9], [0], 1))
        done = self.bench()
        self.assertEqual(done.returncode, 1)
        self.assertIn("a window that the other file lacks", done.stderr)


if __name__ == "__main__":
    shoal_program.main()
