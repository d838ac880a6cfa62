#!/usr/bin/env python3
"""tools/bench_drafts.py: its tables, and that it tells answers apart."""
import json
import os
import subprocess
import sys
import unittest

import shoal_program
from shoal_program import DEADLINE_S, ROOT

sys.path.insert(0, os.path.join(ROOT, "tools"))
import bench_drafts  # noqa: E402


class BenchDrafts(unittest.TestCase):
    def bench(self, *arguments):
        program = os.path.join(ROOT, "tools", "bench_drafts.py")
        return subprocess.run([sys.executable, program, "--binary", shoal_program.SHOAL, "--rounds", "1", "--batches", "1", *arguments],
                              capture_output=True, text=True, timeout=DEADLINE_S)

    def rows(self, *arguments):
        done = self.bench("--json", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_answers_are_equal_and_every_row_of_drafts_has_its_speed_by_both_clocks(self):
        done = self.bench("--answers", "6", "--parts", "drafts")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        _, head, *rows = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual(head, ["part", "device", "batch", "drafts", "clock", "tokens_per_s", "to_none", "to_fixed5", "answers", "verified", "tokens"])
        self.assertEqual([row[:5] for row in rows], [["drafts", "cpu", "1", drafts, clock] for drafts in ("none", "fixed5", "group")
                                                     for clock in ("wall", "device")])

    def test_a_device_without_a_model_is_measured_too(self):
        rows = self.rows("--device", "sim", "--max-tokens", "8", "--parts", "drafts,idle,acceptance")
        self.assertEqual([row["part"] for row in rows], ["drafts"] * 6 + ["idle"] * 2)
        tokens = {row["drafts"]: row["tokens"] for row in rows if row["part"] == "drafts"}
        self.assertEqual(tokens["none"], 1)
        self.assertGreater(tokens["fixed5"], 1)

    def test_the_first_answer_that_differs_is_named(self):
        with self.assertRaisesRegex(SystemExit, "request 1 of round 2 .* with group than with none"):
            bench_drafts.compare({"none": [("a", 1), ("b", 1)], "group": [("a", 1), ("c", 1)]}, "round 2")

    def test_a_part_that_there_is_not_is_refused_with_what_there_is(self):
        done = self.bench("--parts", "best")
        self.assertEqual(done.returncode, 2)
        self.assertIn("drafts, idle, acceptance", done.stderr)

    def test_an_interval_holds_its_median_and_is_the_same_every_time(self):
        values = [1.0, 1.1, 1.3, 0.9, 1.2, 1.05]
        median, low, high = bench_drafts.interval(values)
        self.assertLessEqual(low, median)
        self.assertLessEqual(median, high)
        self.assertEqual(bench_drafts.interval(values), (median, low, high))


if __name__ == "__main__":
    shoal_program.main()
