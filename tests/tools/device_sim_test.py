#!/usr/bin/env python3
"""`--device sim`: a server without weights, whose answers are the same everywhere and whose steps take the time it is told."""
import json
import os
import re
import shutil
import tempfile
import unittest

import shoal_program
from shoal_cluster import Cluster, one_host
from shoal_program import DEADLINE_S, GUPPY, Server, await_true, run
from shoal_streams import Streams, joined, prompt, without_ids

FAST = ["--set", "sim.step_ns=0", "--set", "sim.row_ns=0", "--set", "sim.copy_ns=0"]
REPLACED = "\ufffd"  # what stands for bytes that are no text


def sim_server(*arguments):
    return Server("--device", "sim", *FAST, *arguments)


def completion(**more):
    return "/v1/completions", {"model": "sim", "prompt": prompt(140), "max_tokens": 200, "return_token_ids": True, **more}


def chat(**more):
    return "/v1/chat/completions", {"model": "sim", "messages": [{"role": "user", "content": "What is shoal?"}], "max_tokens": 200,
                                    "reasoning_effort": "none", **more}


REQUESTS = {
    "greedy": completion(temperature=0),
    "greedy, exact": completion(temperature=0, replay="exact", ignore_eos=True),
    "seeded": completion(temperature=0.9, top_p=0.9, top_k=5, min_p=0.1, seed=11),
    "three seeded choices": completion(temperature=1.5, seed=3, n=3),
    "end tokens forbidden": completion(temperature=1, seed=5, min_tokens=150),
    "log probabilities": completion(temperature=0, logprobs=3),
    "chat": chat(temperature=0),
    "chat with log probabilities": chat(temperature=0, logprobs=True, top_logprobs=2),
    "chat that thinks": chat(temperature=1, seed=7, reasoning_effort="high"),
    "stop string": chat(temperature=1, seed=8, stop=["e"]),
    "one token": completion(temperature=0, max_tokens=1),
}


def metric(server, name):
    return int(re.search(rf"^{name}(?:{{[^}}]*}})? (\d+)$", server.request("GET", "/metrics")[1], re.MULTILINE)[1])


def collected(server):
    return {name: without_ids(server.post(path, body)) for name, (path, body) in REQUESTS.items()}


def streamed(server):
    return {name: joined(server.stream(path, {**body, "stream_options": {"include_usage": True}}))
            for name, (path, body) in REQUESTS.items()}


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = sim_server("--set", "kv.store=none")
        cls.addClassCleanup(cls.server.__exit__)

    def test_it_says_what_it_is(self):
        status, models = self.server.request("GET", "/v1/models")
        self.assertEqual((status, [model["id"] for model in models["data"]], self.server.model), (200, ["sim"], "sim"))
        self.assertEqual(self.server.request("GET", "/ready")[0], 200)
        path, body = chat()
        status, answer = self.server.request("POST", path, {**body, "model": "guppy"})
        self.assertEqual(status, 404)
        self.assertIn("sim", answer["error"]["message"])

    def test_equal_requests_get_equal_answers_also_from_another_process(self):
        first, stream = collected(self.server), streamed(self.server)
        self.assertEqual((collected(self.server), streamed(self.server)), (first, stream))
        with sim_server("--threads", "3", "--set", "kv.store=none") as other:
            self.assertEqual((collected(other), streamed(other)), (first, stream))

    def test_answers_differ_by_seed_and_prompt_and_greedy_ones_need_no_seed(self):
        def text(**more):
            path, body = completion(ignore_eos=True, max_tokens=30, **more)
            return self.server.post(path, body)["choices"][0]["text"]
        self.assertEqual(len({text(temperature=1, seed=seed) for seed in range(5)}), 5)
        self.assertEqual(len({text(temperature=0, prompt=prompt(20, start)) for start in range(5)}), 5)
        self.assertEqual(len({text(temperature=0, **seed) for seed in ({}, {}, {"seed": 1}, {"seed": 2})}), 1)

    def test_answers_are_plain_text_that_ends_as_the_limit_or_the_device_says(self):
        reasons = set()
        for seed in range(20):
            path, body = chat(temperature=1, seed=seed)
            answer = self.server.post(path, body)
            choice, usage = answer["choices"][0], answer["usage"]
            text, tokens = choice["message"]["content"], usage["completion_tokens"]
            reasons.add(choice["finish_reason"])
            self.assertEqual(choice["finish_reason"] == "length", tokens == 200, answer)
            self.assertNotIn(REPLACED, text)
            self.assertNotRegex(text, r"[\x00-\x09\x0b-\x1f\x7f]")
            self.assertNotRegex(text, "<｜|<think>|</think>|｜DSML｜")
            choices, _ = joined(self.server.stream(path, body))
            self.assertEqual((choices[0]["content"], choices[0]["finish_reason"]), (text, choice["finish_reason"]))
        self.assertEqual(reasons, {"stop", "length"})

    def test_only_ordinary_tokens_and_the_end_are_drawn(self):
        drawn = set()
        for seed in range(20):
            path, body = completion(temperature=1, seed=seed, ignore_eos=True, max_tokens=1000)
            drawn.update(self.server.post(path, body)["choices"][0]["token_ids"])
        with open(os.path.join(GUPPY, "tokenizer.json"), encoding="utf-8") as file:
            control = {token["id"] for token in json.load(file)["added_tokens"]}
        self.assertEqual(drawn & control, {1})
        self.assertGreater(len(drawn), 1000)

    def test_many_streams_at_once_are_each_what_they_are_alone(self):
        with sim_server("--set", "kv.sequences=128", "--max-num-seqs", "128") as server:
            together = Streams(server, 96, 100).texts()
            alone = [server.post("/v1/completions", body)["choices"][0]["text"] for body in Streams(server, 96, 100).bodies[:5]]
            self.assertEqual(together[:5], alone)
            await_true(lambda: metric(server, "shoal_kv_sequences_free") == 128)


class Time(unittest.TestCase):
    def test_steps_take_the_time_they_are_said_to_take_and_serve_all_streams(self):
        step, row = 20_000_000, 100_000  # so long that all streams have come before the first ends
        with Server("--device", "sim", "--set", f"sim.step_ns={step}", "--set", f"sim.row_ns={row}") as server:
            Streams(server, 32, 100).texts()
            for kind in ("prefill", "decode"):
                steps, rows, took = (metric(server, f"shoal_{kind}_{what}_total") for what in ("steps", "rows", "compute_ns"))
                self.assertGreaterEqual(took, steps * step + rows * row)
            self.assertEqual(rows, 32 * 99)
            self.assertLess(steps, rows / 2)

    def test_a_short_answer_does_not_wait_for_the_end_of_a_long_one(self):
        with Server("--device", "sim", "--set", "sim.step_ns=100000000", "--set", "sim.eos_period=0") as server:
            path, body = completion(max_tokens=200)
            long = server.stream(path, body)
            next(long)
            server.post(path, {**body, "max_tokens": 2})
            self.assertLess(metric(server, "shoal_attempts_finished_total"), 2)
            long.close()

    def test_a_server_that_is_told_to_end_does_not_wait_for_a_step_of_minutes(self):
        with Server("--device", "sim", "--set", "sim.row_ns=1000000000", "--set", "request.drain_ms=0") as server:
            streams = Streams(server, 1, 1000, length=300)
            await_true(lambda: metric(server, "shoal_kv_sequences_free") < 64)
            server.process.terminate()
            self.assertEqual(server.process.wait(DEADLINE_S), 0)
            self.assertNotIsInstance(streams.answers()[0], tuple)


class Everywhere(unittest.TestCase):
    def test_three_processes_answer_as_one(self):
        text = one_host().replace("  kv {", '  compute { device: "sim" } sim { step_ns: 0 row_ns: 0 copy_ns: 0 }\n  kv {', 1)
        with Cluster(text) as three, sim_server("--set", "kv.store=none") as one:
            self.assertEqual(three.front.model, "sim")
            self.assertEqual((collected(three.front), streamed(three.front)), (collected(one), streamed(one)))

    def test_a_directory_needs_nothing_but_its_tokenizer(self):
        with tempfile.TemporaryDirectory() as directory:
            shutil.copy(os.path.join(GUPPY, "tokenizer.json"), directory)
            with sim_server(directory) as server, sim_server("--served-model-name", "other") as other:
                path, body = chat(temperature=0)
                answer = server.post(path, body)["choices"]
                self.assertEqual((server.model, other.model), ("sim", "other"))
                self.assertEqual([other.post(path, {**body, "model": name})["choices"] for name in ("sim", "other")], [answer, answer])

    def test_generate_draws_what_the_server_answers(self):
        ids = prompt(20)
        with sim_server() as server:
            path, body = completion(prompt=ids, temperature=0, ignore_eos=True, max_tokens=40, replay="exact")
            expected = server.post(path, body)["choices"][0]["token_ids"]
        done = run("generate", "--device", "sim", "--ids", ",".join(map(str, ids)), "--max-tokens", "40", "--ignore-eos")
        self.assertEqual([int(line.split("\t")[0]) for line in done.stdout.splitlines()], expected, done.stderr)

    def test_chat_talks_to_it(self):
        done = run("chat", "--device", "sim", *FAST, "--effort", "none", "--max-tokens", "20", stdin="Hello\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(done.stdout), 20)

    def test_config_tells_its_options(self):
        text = run("config", "--device", "sim", "--set", "sim.row_ns=7").stdout
        self.assertRegex(text, r'compute\.device = "sim"  \(--device\)')
        self.assertRegex(text, r"sim\.row_ns = 7  \(--set\)")

    def test_a_device_that_does_not_exist_is_refused_by_naming_those_that_do(self):
        for arguments in (["serve", "--port", "0"], ["config"], ["chat"], ["generate", "--ids", "0"]):
            with self.subTest(arguments=arguments):
                done = run(*arguments, "--device", "nonsense")
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertEqual(done.stderr, "shoal: device 'nonsense' is not in this build; known: cpu, sim\n")


if __name__ == "__main__":
    shoal_program.main()
