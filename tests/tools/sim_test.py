#!/usr/bin/env python3
"""The simulator's command: what it prints, its exit status, its log of a range of seeds."""
import json
import os
import signal
import tempfile
import time
import unittest

import shoal_program
from shoal_program import DEADLINE_S, Program, run

# Fails under every seed: no device is that quick.
IMPOSSIBLE = 'node: "all"\nworkload { requests: 30 gap_us: 1 answer_min: 30 }\nsettle_s: 0\n'


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = os.path.join(folder.name, "run.log")
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def lines(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read().splitlines()

    def sim(self, *arguments, status=0):
        done = run("sim", *arguments)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done


def table(done):
    """All of the summary but how fast it went."""
    lines = done.stdout.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("runs "))
    return [lines[first].split(", ")[:2]] + lines[first + 1:]


class OneRun(InFolder):
    def test_the_same_seed_prints_the_same_hash_and_writes_the_same_events(self):
        first = self.sim("--nodes", "2", "--seed", "3", "--log", self.log)
        events = self.lines()
        again = self.sim("--nodes", "2", "--seed", "3", "--log", self.log)
        self.assertRegex(first.stdout, r"^hash [0-9a-f]{16}\n")
        self.assertEqual(first.stdout.splitlines()[0], again.stdout.splitlines()[0])
        self.assertEqual(events, self.lines())
        self.assertTrue(any(" request.finished " in line for line in events))

    def test_a_violation_is_told_with_the_command_that_shows_it_again(self):
        scenario = self.write("impossible.txtpb", IMPOSSIBLE)
        done = self.sim("--scenario", scenario, "--seed", "5", status=1)
        self.assertIn("full_service_returns", done.stdout)
        command = next(line for line in done.stdout.splitlines() if "again:" in line).split("again: shoal ")[1]
        again = run(*command.split())
        self.assertEqual(again.stdout.splitlines()[0], done.stdout.splitlines()[0])


class Journal(InFolder):
    def test_a_longer_range_goes_on_after_the_recorded_seeds(self):
        self.sim("--nodes", "2", "--seeds", "1..3", "--log", self.log)
        resumed = self.sim("--nodes", "2", "--seeds", "1..6", "--log", self.log)
        self.assertIn("3 runs already", resumed.stdout)
        self.assertEqual(table(resumed), table(self.sim("--nodes", "2", "--seeds", "1..6")))
        self.assertEqual([json.loads(line).get("last") for line in self.lines()], [None, 3, 6])

    def test_a_line_torn_by_the_end_of_the_program_is_run_again(self):
        whole = table(self.sim("--nodes", "2", "--seeds", "1..6", "--log", self.log))
        os.remove(self.log)
        for last in ("3", "6"):
            self.sim("--nodes", "2", "--seeds", "1.." + last, "--log", self.log)
        for keep in (-20, len(self.lines()[0]) + 5, 10, 0):
            with open(self.log, "rb+") as file:
                file.truncate(len(file.read()[:keep]))
            self.assertEqual(table(self.sim("--nodes", "2", "--seeds", "1..6", "--log", self.log)), whole)

    def test_a_killed_run_goes_on_and_ends_with_the_totals_of_an_undisturbed_one(self):
        arguments = ("--nodes", "2", "--seeds", "1..250", "--log", self.log)
        with Program("sim", *arguments) as soak:
            end = time.monotonic() + DEADLINE_S
            while not os.path.exists(self.log) or len(self.lines()) < 2:
                self.assertLess(time.monotonic(), end)
            soak.process.send_signal(signal.SIGKILL)
            soak.process.wait()
        resumed = self.sim(*arguments)
        self.assertIn("runs already", resumed.stdout)
        self.assertEqual(table(resumed), table(self.sim("--nodes", "2", "--seeds", "1..250")))

    def test_each_scenario_of_a_folder_goes_on_where_it_was(self):
        self.write("a.txtpb", 'node: "all" workload { requests: 3 } reaches: "finished"')
        self.write("b.txtpb", 'node: "all" workload { requests: 4 }')
        self.sim("--scenario", self.folder, "--seeds", "1..2", "--log", self.log)
        resumed = self.sim("--scenario", self.folder, "--seeds", "1..3", "--log", self.log)
        self.assertEqual(table(resumed), table(self.sim("--scenario", self.folder, "--seeds", "1..3")))
        self.assertIn("4 runs already", resumed.stdout)

    def test_violations_stay_in_the_log_and_in_the_exit_status(self):
        scenario = self.write("impossible.txtpb", IMPOSSIBLE)
        self.sim("--scenario", scenario, "--seeds", "4..5", "--log", self.log, status=1)
        found = [json.loads(line) for line in self.lines() if "violates" in line]
        self.assertEqual([(line["seed"], line["violates"]) for line in found], [(4, ["full_service_returns"]), (5, ["full_service_returns"])])
        self.assertEqual(found[0]["again"], f"shoal sim --scenario {scenario} --seed 4")
        again = self.sim("--scenario", scenario, "--seeds", "4..5", "--log", self.log, status=1)
        self.assertIn("runs 2, violating 2,", again.stdout)
        self.assertEqual(len(found), sum("violates" in line for line in self.lines()))

    def test_the_log_of_another_run_is_refused_and_left_as_it_is(self):
        self.sim("--nodes", "2", "--seeds", "1..2", "--log", self.log)
        before = self.lines()
        for arguments in (["--nodes", "3", "--seeds", "1..2"], ["--nodes", "2", "--seeds", "2..3"]):
            done = self.sim(*arguments, "--log", self.log, status=1)
            self.assertIn("is the log of `shoal sim --nodes 2 --seeds 1..`", done.stderr)
            self.assertIn("another file with --log", done.stderr)
        self.assertEqual(before, self.lines())

    def test_a_file_that_is_no_log_is_refused_and_left_as_it_is(self):
        for text in ("precious", "precious\n", "[]\n", '{"shoal sim": 3, "first_seed": 1}\n'):
            self.log = self.write("run.log", text)
            done = self.sim("--nodes", "2", "--seeds", "1..2", "--log", self.log, status=1)
            self.assertIn("is not the log of a range of seeds", done.stderr)
            self.assertEqual(self.lines(), [text.strip()])

    def test_a_broken_line_in_the_middle_is_named(self):
        self.sim("--nodes", "2", "--seeds", "1..2", "--log", self.log)
        with open(self.log, "a", encoding="utf-8") as file:
            file.write('{"scenario":""}\n')
        done = self.sim("--nodes", "2", "--seeds", "1..3", "--log", self.log, status=1)
        self.assertIn(self.log + ":3: ", done.stderr)
        self.assertIn("remove the line", done.stderr)

    def test_a_log_that_cannot_be_written_is_named(self):
        for path in (self.folder, os.path.join(self.folder, "none", "run.log")):
            done = self.sim("--nodes", "2", "--seeds", "1..2", "--log", path, status=1)
            self.assertIn(path, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    shoal_program.main()
