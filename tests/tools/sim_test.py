#!/usr/bin/env python3
"""The simulator's command: what it prints, its exit status, its log of a range of seeds, traces."""
import gzip
import json
import os
import re
import signal
import tempfile
import time
import unittest
import xml.etree.ElementTree

import shoal_program
from shoal_program import DEADLINE_S, ROOT, Program, run

TRACES = os.path.join(ROOT, "tests", "sim", "traces")
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

    def test_what_a_single_run_did_not_reach_is_said_and_is_no_failure(self):
        scenario = self.write("rare.txtpb", 'node: "all" workload { requests: 3 } reaches: "finished" reaches: "node_fenced"')
        single = self.sim("--scenario", scenario, "--seed", "1")
        self.assertIn(scenario + ": this seed did not reach node_fenced", single.stdout)
        self.assertNotIn("reach finished", single.stdout)
        self.assertIn(scenario + ": never reached node_fenced, in seeds 1..2: give more, the files of tests/sim/scenarios reach theirs with "
                      "--seeds 1..8\n", self.sim("--scenario", scenario, "--seeds", "1..2", status=1).stdout)
        self.assertIn(scenario + ": never reached node_fenced, in seeds 1..8\n",
                      self.sim("--scenario", scenario, "--seeds", "1..8", status=1).stdout)

    def test_the_readme_lists_all_counters(self):
        scenario = self.write("unknown.txtpb", 'node: "all" reaches: "x"')
        known = self.sim("--scenario", scenario, status=1).stderr.split("known: ")[1].strip().split(", ")
        self.assertGreater(len(known), 40)
        with open(os.path.join(ROOT, "tests", "sim", "README.md"), encoding="utf-8") as file:
            words = set(re.findall(r"\w+", file.read()))
        self.assertEqual([name for name in known if name not in words], [])

    def test_the_table_says_none_and_stays_narrow(self):
        done = self.sim("--nodes", "6", "--seed", "7")
        self.assertIn("\nviolations  none\n", done.stdout)
        self.assertLessEqual(max(len(line) for line in done.stdout.splitlines()), 110)

    def test_the_table_tells_when_the_cluster_was_whole_and_when_all_was_over(self):
        scenario = self.write("restart.txtpb", 'node: "gateway router" node: "prefill decode" workload { requests: 3 gap_us: 1 answer_min: 40 }'
                                               'fault { kind: KILL node: 1 at_ms: 1 for_ms: 100 }')
        done = self.sim("--scenario", scenario)
        recovery = re.search(r"whole again at most (\S+) s after faults and arrivals ended, all over at most (\S+) s after that", done.stdout)
        self.assertGreater(float(recovery[1]), 0)
        self.assertGreater(float(recovery[2]), 0)

    def test_runs_keep_kv_in_a_store_when_asked(self):
        scenario = self.write("turns.txtpb", 'node: "all"\nworkload { requests: 12 gap_us: 400000 texts: 1 '
                                             'prompt_min: 400 prompt_max: 500 }\n')
        self.assertNotIn("kv_hit", self.sim("--scenario", scenario, "--seeds", "1..2").stdout)
        self.assertIn("kv_hit", self.sim("--scenario", scenario, "--seeds", "1..2", "--kv").stdout)

    def test_the_table_counts_what_the_kv_stores_did(self):
        scenario = self.write("turns.txtpb", 'node: "all"\nworkload { requests: 12 gap_us: 400000 texts: 1 '
                                             'prompt_min: 400 prompt_max: 500 }\n')
        self.assertNotIn("\nkv  ", self.sim("--scenario", scenario).stdout)
        told = self.sim("--scenario", scenario, "--kv", "--seeds", "1..2", "--log", self.log).stdout
        line = re.search(r"\nkv +(.*?)\nviolations", told, re.DOTALL)[1].split()
        counts = dict(zip(line[::2], map(int, line[1::2])))
        self.assertGreaterEqual(counts.keys(), {"hits", "misses", "stored", "corrupt", "expired"})
        self.assertGreater(min(counts["hits"], counts["misses"], counts["stored"]), 0)
        self.assertEqual(counts["corrupt"] + counts["expired"], 0)
        self.assertEqual(json.loads(self.lines()[-1])["kv"], counts)

    def test_what_would_be_ignored_is_refused(self):
        scenario = self.write("one.txtpb", 'node: "all"')
        for flag, value in (("--nodes", "2"), ("--topology", "x")):
            self.assertIn(f"{flag}", self.sim("--scenario", scenario, flag, value, status=2).stderr)
        self.assertIn("--topology", self.sim("--nodes", "2", "--topology", "x", status=2).stderr)

    def test_a_log_that_cannot_be_written_is_told_before_the_run(self):
        for path in (self.folder, os.path.join(self.folder, "none", "run.log")):
            done = self.sim("--nodes", "2", "--seed", "1", "--log", path, status=1)
            self.assertIn(path + ": cannot be written", done.stderr)
            self.assertEqual(done.stdout, "")

    def test_the_events_of_a_single_run_go_into_a_pipe(self):
        done = self.sim("--nodes", "2", "--seed", "1", "--log", "/dev/stdout")
        self.assertIn(" request.finished ", done.stdout)

    def test_two_runs_do_not_share_a_log(self):
        with Program("sim", "--nodes", "2", "--seeds", "1..100000", "--log", self.log) as soak:
            end = time.monotonic() + DEADLINE_S
            while not os.path.exists(self.log) or len(self.lines()) < 2:
                self.assertLess(time.monotonic(), end)
            for arguments in (("--seeds", "1..2"), ("--seed", "1")):
                done = self.sim("--nodes", "2", *arguments, "--log", self.log, status=1)
                self.assertRegex(done.stderr, "another run writes it|is the log of a range of seeds")
            soak.process.send_signal(signal.SIGINT)
            soak.process.wait(DEADLINE_S)
        self.assertEqual(json.loads(self.lines()[0])["first_seed"], 1)

    def test_kv_of_a_model_is_kept_when_asked(self):
        scenario = self.write("guppy.txtpb", 'node: "all"\ndevice { model: "guppy" }\n'
                                             'workload { requests: 2 gap_us: 8000000 texts: 1 prompt_min: 300 answer_max: 5 }\n')
        self.assertIn("kv_hit", self.sim("--scenario", scenario, "--seed", "1", "--kv").stdout)


class Shrinking(InFolder):
    def test_the_shrunk_scenario_is_told_with_how_to_run_it_and_violates_again(self):
        scenario = self.write("impossible.txtpb", IMPOSSIBLE)
        done = self.sim("--scenario", scenario, "--seed", "5", "--shrink", status=1)
        self.assertIn("save it here as shrunk.txtpb and run `shoal sim --scenario shrunk.txtpb --seed 5`:\n", done.stdout)
        text = done.stdout.split("--seed 5`:\n")[1].split("\nruns ")[0]
        again = self.sim("--scenario", self.write("shrunk.txtpb", text), "--seed", "5", status=1)
        self.assertIn("full_service_returns", again.stdout)

    def test_a_seed_that_holds_has_nothing_to_shrink(self):
        self.assertIn("nothing to shrink", self.sim("--nodes", "2", "--seed", "3", "--shrink").stdout)


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

    def stopped(self, signal_number, *arguments):
        """A long range that a signal ends: its exit status and what it printed."""
        before = len(self.lines()) if os.path.exists(self.log) else 1
        with Program("sim", *arguments) as soak:
            end = time.monotonic() + DEADLINE_S
            while not os.path.exists(self.log) or len(self.lines()) <= before:
                self.assertLess(time.monotonic(), end)
            soak.process.send_signal(signal_number)
            printed = list(iter(lambda: soak.stdout.get(timeout=DEADLINE_S), None))
            return soak.process.wait(DEADLINE_S), printed

    def test_a_stopped_run_writes_its_totals_says_where_it_is_and_goes_on(self):
        arguments = ("--nodes", "2", "--seeds", "1..100000", "--log", self.log)
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            status, printed = self.stopped(signal_number, *arguments)
            self.assertEqual(status, 128 + signal_number)
            last = json.loads(self.lines()[-1])["last"]
            self.assertEqual(printed[-1].rstrip(), f"stopped after seed {last}; the same command goes on")
            self.assertTrue(any(line.startswith(f"runs {last}, ") for line in printed))
        self.assertGreater(last, 1)

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

    def test_the_log_of_a_range_is_not_overwritten_by_the_events_of_a_single_run(self):
        self.sim("--nodes", "2", "--seeds", "1..2", "--log", self.log)
        before = self.lines()
        done = self.sim("--nodes", "2", "--seed", "1", "--log", self.log, status=1)
        self.assertIn(self.log + ": is the log of a range of seeds", done.stderr)
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


class Traces(InFolder):
    MIXED = os.path.join(TRACES, "mixed.jsonl")

    def packed(self, copies=1):
        """The trace in gzip, cut into so many members."""
        with open(self.MIXED, "rb") as file:
            text = file.read()
        path = os.path.join(self.folder, "mixed.jsonl.gz")
        piece = len(text) // copies + 1
        with open(path, "wb") as file:
            for i in range(copies):
                file.write(gzip.compress(text[i * piece:(i + 1) * piece]))
        return path

    def test_a_packed_trace_is_the_same_run_as_a_plain_one(self):
        plain = self.sim("--trace", self.MIXED, "--seed", "2")
        for copies in (1, 3):
            packed = self.sim("--trace", self.packed(copies), "--seed", "2")
            self.assertEqual(packed.stdout.splitlines()[0], plain.stdout.splitlines()[0])
        self.assertRegex(plain.stdout, r"\ntrace       \S*mixed.jsonl: 60 requests over 17 s\n")

    def test_as_many_requests_as_asked_come_as_fast_as_asked(self):
        done = self.sim("--trace", self.MIXED, "--requests", "10", "--rate", "2.5")
        self.assertIn(": 10 requests over 1 s, arrivals and pauses 2.5 times shorter\n", done.stdout)
        answers = next(line for line in done.stdout.splitlines() if line.startswith("answers"))
        self.assertEqual(sum(int(word) for word in answers.split() if word.isdigit()), 10 + 1)  # and the probe

    def test_a_trace_is_played_under_a_range_of_seeds_and_goes_on_in_its_log(self):
        arguments = ("--trace", self.MIXED, "--requests", "20", "--nodes", "5")
        self.sim(*arguments, "--seeds", "1..2", "--log", self.log)
        resumed = self.sim(*arguments, "--seeds", "1..4", "--log", self.log)
        self.assertEqual(table(resumed), table(self.sim(*arguments, "--seeds", "1..4")))
        other = self.sim(*arguments, "--rate", "3", "--seeds", "1..4", "--log", self.log, status=1)
        self.assertIn("--nodes 5 --trace " + self.MIXED + " --requests 20 --rate 1 --seeds 1..`", other.stderr)

    def test_requests_that_do_not_fit_are_said(self):
        scenario = self.write("small.txtpb", 'node: "all" device { blocks: 64 row_us: 1 } settle_s: 100')
        done = self.sim("--scenario", scenario, "--trace", self.MIXED)
        self.assertRegex(done.stdout, r"\ntoo_long    [1-9][0-9]* requests were not sent: ")

    def test_the_command_that_shows_a_violation_again_names_the_trace(self):
        scenario = self.write("impossible.txtpb", IMPOSSIBLE + "device { blocks: 4096 }")
        done = self.sim("--scenario", scenario, "--trace", self.MIXED, "--requests", "3", "--seed", "5", status=1)
        self.assertIn(f"--trace {self.MIXED} --requests 3 --rate 1 --seed 5", done.stdout)
        command = next(line for line in done.stdout.splitlines() if "again:" in line).split("again: shoal ")[1]
        self.assertEqual(run(*command.split()).stdout.splitlines()[0], done.stdout.splitlines()[0])

    def test_a_trace_that_cannot_be_read_is_named_with_what_is_expected(self):
        broken = self.write("broken.jsonl", '{"arrival_ms":0,"input_tokens":5,"output_tokens":1}\n{"arrival_ms":1}\n')
        with open(self.packed(), "rb") as file:
            cut = file.read()[:-30]
        torn = os.path.join(self.folder, "torn.jsonl.gz")
        with open(torn, "wb") as file:
            file.write(cut)
        for path, words in [(broken, broken + ":2: input_tokens: expected a whole number"), (torn, torn + ": the gzip data is damaged or incomplete"),
                            (self.folder, "--trace")]:
            done = run("sim", "--trace", path)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("--trace", self.sim("--requests", "3", status=2).stderr)


class AFleet(InFolder):
    TENTH = os.path.join(ROOT, "tests", "sim", "fleet", "fleets", "tenth.txtpb")
    WHOLE = os.path.join(ROOT, "tests", "sim", "fleet", "fleets", "whole.txtpb")
    CHAT = os.path.join(TRACES, "chat-800.jsonl.gz")

    def fleet(self, *arguments, status=0):
        return self.sim("--fleet", self.TENTH, "--trace", self.CHAT, "--hours", "0.02", "--rate", "20", *arguments, status=status)

    def test_policies_are_compared_in_one_run_with_charts_of_all(self):
        plots = os.path.join(self.folder, "plots")
        done = self.fleet("--compare", "first_token,round_robin", "--json", "--plot", plots)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([row["policy"] for row in rows], ["first_token", "round_robin"])
        for row in rows:
            self.assertEqual(row["answered"], row["requests"])
            self.assertGreater(row["ttft_p99_ms"], row["ttft_p50_ms"])
        self.assertNotEqual(rows[0]["hash"], rows[1]["hash"])
        for name in ("ttft", "tpot", "queued", "decode", "loads", "prefill_instances", "decode_groups", "decode_ranks"):
            with self.subTest(name):
                chart = xml.etree.ElementTree.parse(os.path.join(plots, name + ".svg")).getroot()
                self.assertTrue(chart.tag.endswith("svg"))

    def test_a_fleet_runs_the_same_again(self):
        def hashes(seed):
            return [json.loads(line)["hash"] for line in self.fleet("--seed", seed, "--json").stdout.splitlines()]
        self.assertEqual(hashes("3"), hashes("3"))
        self.assertNotEqual(hashes("3"), hashes("4"))

    def test_flags_of_actors_are_refused_beside_a_fleet(self):
        for flag in (["--kv"], ["--nodes", "3"], ["--seeds", "1..2"], ["--requests", "5"], ["--shrink"], ["--log", self.log],
                     ["--scenario", self.folder]):
            self.assertIn(flag[0], self.fleet(*flag, status=2).stderr)

    def test_a_fleet_without_a_rate_is_refused_and_one_that_rests_is_told(self):
        self.assertIn("--rate", self.sim("--fleet", self.TENTH, "--trace", self.CHAT, status=1).stderr)
        resting = self.sim("--fleet", self.TENTH, "--trace", self.CHAT, "--hours", "0.02", "--rate", "2")
        self.assertRegex(resting.stderr, r"prefill ranks worked \S+ % of the time: so small a load says little, raise --rate 2\n")
        self.assertEqual(self.fleet().stderr, "")

    def test_rows_of_every_part_are_compared_in_a_whole_fleet(self):
        plots = os.path.join(self.folder, "plots")
        choices = ["experts:eplb", "verify:fixed5", "vision:rr_image", "scale:static", "store:lru", "split:even"]
        done = self.sim("--fleet", self.WHOLE, "--trace", self.CHAT, "--hours", "0.05", "--copies", "3", "--compare", ",".join(choices), "--json",
                        "--plot", plots)
        rows = {row["policy"]: row for row in map(json.loads, done.stdout.splitlines())}
        self.assertEqual(list(rows), choices)
        for row in rows.values():
            self.assertEqual(row["answered"], row["requests"])
            self.assertGreater(row["moe_lb"], 1)
            self.assertGreater(row["images_p99_ms"], 0)
            self.assertGreater(row["store_gb"], 0)
        self.assertAlmostEqual(rows["verify:fixed5"]["drafts_a_step"], 5, delta=0.01)
        self.assertLess(rows["experts:eplb"]["drafts_a_step"], 5)
        for name in ("images", "experts", "expert_gpus"):
            with self.subTest(name):
                xml.etree.ElementTree.parse(os.path.join(plots, name + ".svg"))

    def test_arrivals_follow_a_week_of_rates(self):
        rates = os.path.join(TRACES, "rates-2d.csv.gz")
        low = json.loads(self.fleet("--rates", rates, "--json").stdout)
        self.assertLess(low["requests"], json.loads(self.fleet("--json").stdout)["requests"])
        self.assertIn("there are", self.fleet("--rates", rates, "--service", "none", status=1).stderr)

    def test_what_cannot_be_run_is_said(self):
        self.assertIn("is no role", self.fleet("--compare", "gate:ours", status=1).stderr)
        self.assertIn("greedy", self.fleet("--compare", "verify:best", status=1).stderr)
        self.assertIn("no 'best'", self.fleet("--compare", "best", status=1).stderr)
        self.assertIn("no request arrives", self.fleet("--from-hour", "7", status=1).stderr)
        charts = self.fleet("--plot", "/proc/plots", status=1)
        self.assertIn("cannot be written", charts.stderr)
        self.assertEqual(charts.stdout, "")
        wrong = self.write("wrong.txtpb", "prefill { instances: 0 }\n")
        done = run("sim", "--fleet", wrong, "--trace", self.CHAT, "--rate", "20")
        self.assertEqual(done.returncode, 1)
        self.assertIn("wrong.txtpb: prefill", done.stderr)


if __name__ == "__main__":
    shoal_program.main()
