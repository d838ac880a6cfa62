#!/usr/bin/env python3
"""Benchmarks of policies on recorded requests: every row of a registry, in a table or as JSON."""
import json
import os
import unittest

import shoal_program
from shoal_program import run

TRACES = os.path.join(shoal_program.ROOT, "tests", "sim", "traces")
AGENTIC = os.path.join(TRACES, "agentic-600.jsonl.gz")
VISION = os.path.join(TRACES, "vision-800.jsonl.gz")


class Policies(unittest.TestCase):
    def rows(self, *arguments):
        done = run("bench", *arguments, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return {row["policy"]: row for row in map(json.loads, done.stdout.splitlines())}

    def test_every_way_to_place_answers_is_compared_ours_first(self):
        rows = self.rows("decode", "--trace", AGENTIC, "--seeds", "1", "--ranks", "8", "--per-rank", "8", "--contexts", "1000,500000")
        self.assertEqual(next(iter(rows)), "least_time_moves")
        self.assertLess(rows["least_time"]["time_max_over_mean"], rows["least_requests"]["time_max_over_mean"])
        self.assertLess(rows["least_requests"]["time_max_over_mean"], rows["random"]["time_max_over_mean"])

    def test_every_way_to_place_images_is_compared_ours_first(self):
        rows = self.rows("vision", "--trace", VISION, "--seeds", "1", "--encoders", "8")
        self.assertEqual(next(iter(rows)), "least_left")
        self.assertLess(rows["least_left"]["ready_ms"], rows["least_cost"]["ready_ms"])
        self.assertLess(rows["least_cost"]["ready_p99_ms"], rows["rr_image"]["ready_p99_ms"])

    def test_only_the_named_policies_are_measured(self):
        rows = self.rows("decode", "--cost", "--ranks", "4", "--policies", "random,least_kv")
        self.assertEqual(list(rows), ["random", "least_kv"])
        self.assertGreater(rows["random"]["placement_ns"], 0)

    def test_experts_in_processes_are_compared_with_the_device_s_own(self):
        done = run("bench", "engine", "--steps", "3", "--prefill", "64", "--shards", "0", "--processes", "2")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for batch in (1, 8, 32):
            self.assertRegex(done.stdout, rf"batch +{batch} in 2 processes: [+-]\d+\.\d us a layer .* hops, .* KB back, .* us computed in all")

    def test_cost_is_judged_by_two_clocks_and_ends_in_time(self):
        done = run("bench", "cost", "--seconds", "1", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("157 shapes, 5 times each, for 1 s at most", done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(row["stage"], row["clock"]) for row in rows],
                         [(stage, clock) for stage in ("prefill", "decode") for clock in ("thread", "wall")])

    def test_what_cannot_be_measured_is_refused_in_one_line(self):
        for arguments, word in ((["decode"], "--trace or --cost"), (["vision", "--cost", "--policies", "best"], "best"),
                                (["vision", "--trace", AGENTIC], "image_tokens")):
            with self.subTest(arguments=arguments):
                done = run("bench", *arguments)
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(done.stdout, "")
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn(word, done.stderr)


if __name__ == "__main__":
    shoal_program.main()
