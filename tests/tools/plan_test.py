#!/usr/bin/env python3
"""shoal plan: what it prints, as a table and as JSON, and what it says of files and flags that are wrong."""
import json
import os
import tempfile
import unittest

import shoal_program
from shoal_program import ROOT, run

MACHINES = os.path.join(ROOT, "deploy", "machines")


class Planned(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def rows(self, *arguments, status=0):
        done = run("plan", *arguments, "--json")
        self.assertEqual(done.returncode, status, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def figure(self, rows, name):
        return next(row["value"] for row in rows if row.get("figure") == name)

    def refused(self, *arguments):
        """One line that says what to do."""
        done = run("plan", *arguments)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr


class Plans(Planned):
    def test_the_big_day_takes_about_the_published_fleet(self):
        rows = self.rows()
        self.assertAlmostEqual(self.figure(rows, "fleet"), 2482, delta=248)
        self.assertAlmostEqual(self.figure(rows, "income of a GPU"), 38, delta=4)
        best = [row for row in rows if row.get("verdict") == "best"]
        self.assertEqual([row["stage"] for row in best], ["prefill", "decode"])

    def test_every_layout_that_is_not_the_best_says_why(self):
        layouts = [row for row in self.rows("--all") if row["bench"] == "plan-layouts"]
        self.assertEqual(len({(row["stage"], row["layout"]) for row in layouts}), len(layouts))
        self.assertTrue(all(row["why"] for row in layouts if row["verdict"] != "best"))

    def test_every_machine_and_load_that_is_shipped_can_be_planned_with(self):
        for machine in os.listdir(MACHINES):
            for load in ("agents-155t", "chat-small"):
                name = machine.removesuffix(".txtpb")
                with self.subTest(machine=name, load=load):
                    done = run("plan", "--machine", name, "--workload", load, "--slo-user-rate", "20", "--slo-ttft-ms", "60000")
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertIn("best", done.stdout)

    def test_flags_win_over_the_file(self):
        few = self.figure(self.rows("--slo-user-rate", "60"), "decode")
        many = self.figure(self.rows("--slo-user-rate", "200"), "decode")
        self.assertLess(few, many)
        half = self.figure(self.rows("--output-tokens", "0.75e12"), "decode")
        self.assertLess(half, 0.6 * self.figure(self.rows(), "decode"))

    def test_a_promise_that_no_layout_keeps_is_an_error_behind_the_reasons(self):
        done = run("plan", "--slo-user-rate", "5000")
        self.assertEqual(done.returncode, 1)
        self.assertIn("answers_too_slow", done.stdout)
        self.assertIn("no layout of decode", done.stderr)


class Published(Planned):
    def test_economics_have_the_published_fleets(self):
        rows = [row for row in self.rows("--economics") if row["bench"] == "plan-economics"]
        self.assertEqual([round(row["gpus"]) for row in rows], [2482, 3430, 5549, 3162, 2199, 2889, 2075])

    def test_storage_has_the_published_reads(self):
        self.assertAlmostEqual(self.figure(self.rows("--storage"), "read, mean"), 1.52, places=2)

    def test_validation_has_a_verdict_in_each_row_and_names_what_it_leaves_out(self):
        rows = self.rows("--validate")
        self.assertEqual(len(rows), 13)
        for row in rows:
            self.assertRegex(row["verdict"], "^(ok|off: .+|above: .+)")
        self.assertGreaterEqual(sum(row["verdict"].startswith("ok") for row in rows), 12)
        self.assertIn("Only a simulated fleet can tell: token hit rate", run("plan", "--validate").stdout)


class Wrong(Planned):
    def test_an_unknown_field_names_the_nearest(self):
        text = self.refused("--machine", self.write("m.txtpb", "memory_rat: 1e12\n"))
        self.assertIn("m.txtpb:1:", text)
        self.assertIn('Did you mean "memory_rate"?', text)
        text = self.refused("--workload", self.write("w.txtpb", "slo { user_rates: 3 }\n"))
        self.assertIn('Did you mean "user_rate"?', text)

    def test_an_unknown_name_names_the_nearest(self):
        self.assertIn("did you mean 'b200-hgx'?", self.refused("--machine", "b200-hgxx"))
        self.assertIn("there are agents-155t chat-small", self.refused("--workload", "nothing-like-it-at-all"))

    def test_values_that_mean_nothing_are_named(self):
        self.assertIn("fp8_flops", self.refused("--machine", self.write("m.txtpb", "")))
        self.assertIn("input_tokens", self.refused("--workload", self.write("w.txtpb", "")))
        with open(os.path.join(ROOT, "deploy", "workloads", "agents-155t.txtpb"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("hit_share", self.refused("--workload", self.write("w.txtpb", text.replace("hit_share: 0.96", "hit_share: nan"))))
        self.assertIn("survival", self.refused("--workload", self.write("w.txtpb", text.replace("0.84, 0.67", "0.84, 0.9, 0.67"))))

    def test_what_is_no_file_is_said_so(self):
        self.assertIn("is a directory", self.refused("--machine", self.folder + "/."))
        self.assertIn("cannot be read", self.refused("--machine", os.path.join(self.folder, "none.txtpb")))

    def test_one_table_at_a_time(self):
        done = run("plan", "--economics", "--validate")
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    shoal_program.main()
