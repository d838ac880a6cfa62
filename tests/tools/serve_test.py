#!/usr/bin/env python3
"""`shoal serve` with the built-in model, over real sockets: what it answers, and how it ends."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import signal
import unittest

import shoal_program
from shoal_program import DEADLINE_S, GUPPY, Server, json_lines

SAFE_MARGIN = 1.0  # smaller ones are possible ties, see the model's README


def golden(tag=None):
    """Golden answers that end by themselves and whose every token is safe."""
    return [g for g in json_lines(os.path.join(GUPPY, "golden.jsonl"))
            if g["finish"] == "stop" and min(g["margins"]) > SAFE_MARGIN and (tag is None or tag(g))]


def chat_body(server, case, **more):
    body = {"model": server.model, "messages": case["messages"], "temperature": 0, "max_tokens": 100, **more}
    body["reasoning_effort"] = case["thinking_effort"] or "none"
    for field in ("tools", "response_format"):
        if case[field]:
            body[field] = case[field]
    return body


def join_chat(events):
    """The message and finish reason that a client has after joining the chunks."""
    message, finish = {"content": "", "reasoning_content": "", "tool_calls": []}, None
    *chunks, last = events
    if last != "[DONE]":
        raise AssertionError(f"the stream ended with {last!r}")
    for event in chunks:
        choice = json.loads(event)["choices"][0]
        for field in ("content", "reasoning_content"):
            message[field] += choice["delta"].get(field) or ""
        for part in choice["delta"].get("tool_calls") or []:
            if part["index"] == len(message["tool_calls"]):
                message["tool_calls"].append({"id": part["id"], "name": part["function"]["name"], "arguments": ""})
            message["tool_calls"][part["index"]]["arguments"] += part["function"].get("arguments") or ""
        finish = choice["finish_reason"] or finish
    return message, finish


def rest_of(stream):
    """The events that still come, up to the end or the break."""
    events = []
    try:
        for event in stream:
            events.append(event)
    except (http.client.HTTPException, ConnectionError):
        pass
    return events


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.__exit__)

    def test_it_is_ready_when_it_says_so(self):
        for _ in range(3):
            with Server() as server:
                self.assertEqual(server.request("GET", "/ready")[0], 200)

    def test_it_tells_about_itself(self):
        for path in ("/health", "/ready", "/live"):
            self.assertEqual(self.server.request("GET", path)[0], 200)
        status, models = self.server.request("GET", "/v1/models")
        self.assertEqual((status, models["data"][0]["id"], self.server.model), (200, "guppy", "guppy"))
        self.assertEqual(self.server.request("GET", "/version")[1]["version"].count("."), 2)
        self.assertIn("# TYPE", self.server.request("GET", "/metrics")[1])

    def test_ids_in_give_the_golden_ids_out(self):
        for case in golden()[:6]:
            for replay in ({}, {"replay": "exact"}):
                with self.subTest(id=case["id"], replay=replay):
                    answer = self.server.post("/v1/completions", {
                        "model": "guppy", "prompt": case["prompt_ids"], "temperature": 0, "max_tokens": 100,
                        "return_token_ids": True, **replay})
                    choice = answer["choices"][0]
                    self.assertEqual(choice["token_ids"], case["output_ids"])
                    self.assertEqual((choice["finish_reason"], answer["usage"]["completion_tokens"]),
                                     ("stop", len(case["output_ids"])))

    def test_a_streamed_completion_joins_to_the_collected_one(self):
        case = golden()[0]
        body = {"model": "guppy", "prompt": case["prompt_ids"], "temperature": 0, "max_tokens": 100}
        *chunks, last = self.server.stream("/v1/completions", body)
        self.assertEqual(last, "[DONE]")
        text = "".join(json.loads(chunk)["choices"][0]["text"] for chunk in chunks if json.loads(chunk)["choices"])
        self.assertEqual(text, self.server.post("/v1/completions", body)["choices"][0]["text"])
        self.assertEqual(text + "<｜end▁of▁sentence｜>", case["output"])

    def test_chat_gives_the_golden_text_streamed_or_not(self):
        cases = golden(lambda g: not g["tools"] and not g["thinking_effort"] and not g["response_format"])
        self.assertGreater(len(cases), 5)
        for case in cases[:6]:
            with self.subTest(id=case["id"]):
                body = chat_body(self.server, case)
                answer = self.server.post("/v1/chat/completions", body)
                message = answer["choices"][0]["message"]
                self.assertEqual(message["content"] + "<｜end▁of▁sentence｜>", case["output"])
                self.assertEqual(answer["usage"]["prompt_tokens"], len(case["prompt_ids"]))
                joined, finish = join_chat(self.server.stream("/v1/chat/completions", body))
                self.assertEqual((joined["content"], finish), (message["content"], "stop"))

    def test_a_tool_call_comes_as_name_and_json_streamed_or_not(self):
        cases = golden(lambda g: g["tools"] and "calls>" in g["output"])
        self.assertGreater(len(cases), 0)
        for case in cases[:3]:
            with self.subTest(id=case["id"]):
                body = chat_body(self.server, case)
                choice = self.server.post("/v1/chat/completions", body)["choices"][0]
                self.assertEqual(choice["finish_reason"], "tool_calls")
                call = choice["message"]["tool_calls"][0]
                self.assertIn(call["function"]["name"], [tool["function"]["name"] for tool in case["tools"]])
                self.assertIsInstance(json.loads(call["function"]["arguments"]), dict)
                joined, finish = join_chat(self.server.stream("/v1/chat/completions", body))
                self.assertEqual(finish, "tool_calls")
                self.assertEqual([(c["name"], c["arguments"]) for c in joined["tool_calls"]],
                                 [(c["function"]["name"], c["function"]["arguments"]) for c in choice["message"]["tool_calls"]])

    def test_log_probabilities_come_with_every_token(self):
        case = golden(lambda g: not g["tools"] and not g["thinking_effort"] and not g["response_format"])[0]
        body = chat_body(self.server, case, logprobs=True, top_logprobs=2)
        choice = self.server.post("/v1/chat/completions", body)["choices"][0]
        entries = choice["logprobs"]["content"]
        self.assertEqual("".join(entry["token"] for entry in entries if not entry["token"].startswith("<｜")),
                         choice["message"]["content"])
        for entry in entries:
            self.assertEqual(len(entry["top_logprobs"]), 2)
            self.assertEqual(entry["top_logprobs"][0]["token"], entry["token"])  # greedy
            self.assertLessEqual(entry["logprob"], 0)

    def test_biases_penalties_and_bad_words_change_what_is_drawn(self):
        case = golden()[0]
        body = {"model": "guppy", "prompt": case["prompt_ids"], "temperature": 0, "max_tokens": 12, "ignore_eos": True,
                "return_token_ids": True}

        def ids(**more):
            return self.server.post("/v1/completions", {**body, **more})["choices"][0]["token_ids"]

        plain = ids()
        self.assertEqual(ids(logit_bias={"500": 100}), [500] * 12)
        self.assertNotIn(plain[0], ids(logit_bias={str(plain[0]): -100}))
        few = {str(id): 90 for id in range(500, 520)}
        self.assertGreater(len(set(ids(logit_bias=few, presence_penalty=2, frequency_penalty=2))), len(set(ids(logit_bias=few))))
        self.assertEqual(len(set(ids(repetition_penalty=50))), 12)
        first = self.server.post("/v1/completions", {**body, "max_tokens": 1})["choices"][0]["text"]
        self.assertNotEqual(ids(bad_words=[first])[0], plain[0])

    def test_what_cannot_be_answered_is_refused_in_words(self):
        cases = [({"model": "none", "messages": [{"role": "user", "content": "Hi"}]}, 404, "guppy"),
                 ({"model": "guppy", "messages": []}, 400, "messages"),
                 ({"model": "guppy", "messages": "Hi"}, 400, "messages"),
                 ({"model": "guppy", "messages": [{"role": "user", "content": "Hi"}], "bad_words": ["a", ""]}, 400, "bad_words[1]"),
                 ({"model": "guppy", "messages": [{"role": "user", "content": "Hi"}], "bad_words": ["a"] * 65}, 400, "64"),
                 ({"model": "guppy", "messages": [{"role": "user", "content": "Hi"}], "logit_bias": {"9999999": 1}}, 400, "vocabulary"),
                 ({"model": "guppy", "messages": [{"role": "user", "content": "Hi"}], "logit_bias": {"016": 1}}, 400, "leading zeros"),
                 ({"model": "guppy", "messages": [{"role": "user", "content": "Hi"}], "repetition_penalty": 1e-40}, 400, "[0.01, 100]")]
        for body, status, word in cases:
            with self.subTest(body=body):
                got, answer = self.server.request("POST", "/v1/chat/completions", body)
                self.assertEqual(got, status)
                self.assertIn(word, answer["error"]["message"])


class Ranks(unittest.TestCase):
    def test_answers_spread_over_ranks_with_drafts_are_the_golden_ones(self):
        with Server("--set", "compute.ranks=2", "--set", "decode.drafts=fixed5", "--set", "kv.store=none") as server:
            def answer(case):
                return server.post("/v1/completions", {
                    "model": "guppy", "prompt": case["prompt_ids"], "temperature": 0, "max_tokens": 100,
                    "return_token_ids": True, "replay": "exact"})["choices"][0]["token_ids"]
            cases = golden()[:12]
            with concurrent.futures.ThreadPoolExecutor(max_workers=6) as pool:
                answers = list(pool.map(answer, cases))
            for case, ids in zip(cases, answers):
                self.assertEqual(ids, case["output_ids"])
            page = server.request("GET", "/metrics")[1]
            values = dict(line.rsplit(" ", 1) for line in page.splitlines() if line.startswith("shoal_d"))
            self.assertGreater(int(values['shoal_drafts_accepted_total{place="1"}']), 0)
            self.assertLess(int(values["shoal_decode_steps_total"]), int(values["shoal_decode_tokens_total"]))


class Shards(unittest.TestCase):
    def test_experts_on_shards_give_the_golden_ids_and_are_counted(self):
        with Server("--set", "experts.shards=4", "--set", "experts.redundant=1", "--set", "kv.store=none",
                    "--set", "decode.drafts=none") as server:
            rows = 0
            for case in golden()[:6]:
                answer = server.post("/v1/completions", {
                    "model": "guppy", "prompt": case["prompt_ids"], "temperature": 0, "max_tokens": 100,
                    "return_token_ids": True, "replay": "exact"})
                self.assertEqual(answer["choices"][0]["token_ids"], case["output_ids"])
                rows += len(case["prompt_ids"]) + len(case["output_ids"]) - 1
            page = server.request("GET", "/metrics")[1]
        values = dict(line.rsplit(" ", 1) for line in page.splitlines() if line.startswith("shoal_expert"))
        self.assertEqual(int(values['shoal_expert_rows_total{layer="0"}']), 2 * rows)
        self.assertEqual(values["shoal_expert_exchanges_failed_total"], "0")
        self.assertGreater(int(values['shoal_expert_weights_bytes{shard="3"}']), 0)
        self.assertGreater(int(values["shoal_expert_hops_total"]), int(values["shoal_expert_exchanges_total"]))

    def test_experts_that_move_while_answers_are_decoded_give_the_golden_ids_and_metrics_tell_of_it(self):
        with Server("--set", "experts.shards=4", "--set", "experts.redundant=1", "--set", "kv.store=none", "--set", "experts.window_ms=5",
                    "--set", "experts.window_rows=1") as server:
            for case in golden()[:6]:
                answer = server.post("/v1/completions", {
                    "model": "guppy", "prompt": case["prompt_ids"], "temperature": 0, "max_tokens": 100,
                    "return_token_ids": True, "replay": "exact"})
                self.assertEqual(answer["choices"][0]["token_ids"], case["output_ids"])
            page = server.request("GET", "/metrics")[1]
        values = dict(line.rsplit(" ", 1) for line in page.splitlines() if line.startswith("shoal_expert"))
        self.assertEqual(values["shoal_expert_exchanges_failed_total"], "0")
        self.assertGreater(int(values["shoal_expert_epoch"]), 2)
        self.assertGreater(int(values['shoal_expert_plans_total{end="placed"}']), 1)
        self.assertGreater(int(values["shoal_expert_moves_total"]), 1)
        self.assertGreater(int(values["shoal_expert_moved_bytes_total"]), int(values["shoal_expert_moves_total"]))
        self.assertGreaterEqual(float(values['shoal_expert_moe_lb{layer="5"}']), 1)
        self.assertIn('shoal_expert_top{layer="0",place="4"}', values)
        names = [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")]
        self.assertEqual(len(names), len(set(names)))

    def test_a_device_without_experts_is_refused_in_words(self):
        done = shoal_program.run("serve", "--set", "experts.shards=2", "--set", "compute.device=sim")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("experts.shards: the device sim has no experts", done.stderr)


class Explained(unittest.TestCase):
    def test_a_request_is_explained_as_a_table_with_its_basis(self):
        with Server() as server:
            answer = server.post("/v1/completions", {"model": server.model, "prompt": "Hello", "max_tokens": 4, "n": 2})
            done = shoal_program.run("explain", answer["id"], "--url", server.url)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for text in ("choice 0,", "choice 1,", "basis: ", "prefill_started", "decode_joined", "finished"):
                self.assertIn(text, done.stdout)
            unknown = shoal_program.run("explain", "chatcmpl-x", "--url", server.url)
            self.assertEqual((unknown.returncode, unknown.stdout), (1, ""))
            self.assertIn("not known here", unknown.stderr)

    @staticmethod
    def explained(server, prompt, **more):
        answer = server.post("/v1/completions", {"model": server.model, "prompt": prompt, "max_tokens": 2, **more})
        return shoal_program.run("explain", answer["id"], "--url", server.url).stdout

    def test_why_a_prompt_hits_or_misses_is_told_in_words(self):
        prompt = [3 + n % 200 for n in range(500)]
        with Server("--device", "sim", "--set", "kv.tail_bytes=0") as server:
            self.assertIn("kept KV, attempt 1: nothing: no block of this model and API key is stored", self.explained(server, prompt))
            shoal_program.await_true(lambda: "shoal_kv_blocks_stored_total 3\n" in server.request("GET", "/metrics")[1])
            self.assertIn("kept KV, attempt 1: blocks of the store; 384 leading tokens are stored, 384 loaded", self.explained(server, prompt))
            self.assertIn("a hit of 128 tokens or less is a miss", self.explained(server, prompt[:200]))
            self.assertIn("blocks have 128 tokens", self.explained(server, prompt[:100]))
        with Server("--device", "sim", "--set", "kv.store=none") as server:
            self.assertIn("kept KV, attempt 1: nothing: the router's node keeps no KV", self.explained(server, prompt))

    def test_every_field_of_the_table_is_explained_below_it(self):
        with Server("--device", "sim") as server:
            table, meanings = self.explained(server, [3 + n % 200 for n in range(500)]).split("fields\n")
        told = {line.split()[0] for line in meanings.splitlines()}
        self.assertEqual(set(re.findall(r" (\w+)=", table)) - told, set())
        self.assertIn("work_ns", told)

    def test_a_refused_request_is_explained_with_the_figures_of_its_refusal(self):
        with Server("--device", "sim", "--set", "request.ceiling=1", "--set", "sim.eos_period=0") as server:
            stream = server.stream("/v1/completions", {"model": server.model, "prompt": "Once", "max_tokens": 50_000})
            next(stream)
            with contextlib.closing(server.connect()) as connection:
                connection.request("POST", "/v1/completions", json.dumps({"prompt": "Hi"}), {"x-request-id": "late"})
                self.assertEqual(connection.getresponse().status, 503)
            done = shoal_program.run("explain", "late", "--url", server.url)
            self.assertIn("refused, attempt 1: the node is full: 1 open, its most (request.ceiling)", done.stdout)
            stream.close()


class Keys(unittest.TestCase):
    def test_each_key_is_let_in_and_nobody_without(self):
        with Server("--api-key", "one", "--api-key", "two") as server:
            self.assertEqual([server.request("GET", "/v1/models", key=key)[0] for key in (None, "three", "one", "two")],
                             [401, 401, 200, 200])
            self.assertEqual(server.request("GET", "/health")[0], 200)


class Ends(unittest.TestCase):
    def long_stream(self, server, tokens):
        return server.stream("/v1/completions", {"model": "guppy", "prompt": "Once", "max_tokens": tokens, "ignore_eos": True,
                                                 "temperature": 0})

    def test_sigterm_lets_a_running_stream_finish_and_exits_with_0(self):
        with Server() as server:
            stream = self.long_stream(server, 300)
            events = [next(stream)]
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.await_line(server.stderr, "draining").rstrip(),
                             "shoal: draining: waits for 1 open answer, at most 30000 ms (request.drain_ms); once more to leave at once")
            events += stream
            self.assertEqual(events[-1], "[DONE]")
            last = [json.loads(event) for event in events[:-1] if json.loads(event)["choices"]][-1]
            self.assertEqual(last["choices"][0]["finish_reason"], "length")
            self.assertEqual(server.process.wait(DEADLINE_S), 0)

    def test_a_server_that_drains_says_so(self):
        with Server() as server:
            stream = self.long_stream(server, 2_000)
            next(stream)
            server.process.send_signal(signal.SIGTERM)
            server.await_line(server.stderr, "node.draining")
            status, health = server.request("GET", "/health")
            self.assertEqual((status, health["status"]), (200, "draining"))
            status, ready = server.request("GET", "/ready")
            self.assertEqual((status, ready["status"]), (503, "draining"))
            self.assertEqual(rest_of(stream)[-1], "[DONE]")
            self.assertEqual(server.process.wait(DEADLINE_S), 0)

    def test_an_answer_cut_at_the_drain_limit_gets_its_last_event_and_the_exit_is_0(self):
        with Server("--set", "request.drain_ms=50") as server:
            stream = self.long_stream(server, 50_000)
            next(stream)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(json.loads(rest_of(stream)[-1])["error"]["code"], "draining")
            server.await_line(server.stderr, "shoal: 1 answer cut after 50 ms (request.drain_ms)")
            self.assertEqual(server.process.wait(DEADLINE_S), 0)

    def test_the_log_names_the_drain_limit_that_holds(self):
        hour_ns = 3_600_000_000_000
        with Server("--set", "request.drain_ms=3600000") as server:
            server.process.send_signal(signal.SIGTERM)
            limit = re.search(r"limit_ns=(\d+)", server.await_line(server.stderr, "node.draining"))[1]
            self.assertTrue(hour_ns - DEADLINE_S * 1_000_000_000 < int(limit) <= hour_ns, limit)
            self.assertEqual(server.process.wait(DEADLINE_S), 0)

    def test_a_second_sigterm_exits_at_once(self):
        with Server() as server:
            stream = self.long_stream(server, 50_000)
            next(stream)
            server.process.send_signal(signal.SIGTERM)
            server.await_line(server.stderr, "draining")
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(DEADLINE_S), 128 + signal.SIGTERM)
            self.assertNotIn("[DONE]", rest_of(stream))

    def test_sigint_without_requests_exits_with_0(self):
        with Server() as server:
            server.process.send_signal(signal.SIGINT)
            self.assertEqual(server.process.wait(DEADLINE_S), 0)


class KeepsKv(unittest.TestCase):
    def test_a_repeated_prompt_is_not_computed_again(self):
        # Exact: the windows of all layers are made anew, so that only a long prompt has anything to gain.
        body = {"prompt": "Once upon a time there was a fish. " * 150, "max_tokens": 20, "temperature": 0, "replay": "exact",
                "return_token_ids": True}
        with Server() as cold:
            whole = cold.post("/v1/completions", {"model": cold.model, **body})
        self.assertEqual(whole["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        with Server() as server:
            answers = [server.post("/v1/completions", {"model": server.model, **body}) for _ in range(5)]
            self.assertRegex(server.request("GET", "/metrics")[1], r'(?m)^shoal_kv_hits_total\{tier="(store|tail)",provenance="exact",age="1m"\} [1-9]')
        cached = [answer["usage"]["prompt_cache_hit_tokens"] for answer in answers]
        self.assertEqual(cached[0], 0)
        self.assertGreater(cached[-1], 0)  # blocks are stored behind the answer, not before it
        for answer in answers:
            self.assertEqual(answer["choices"][0]["token_ids"], whole["choices"][0]["token_ids"])


if __name__ == "__main__":
    shoal_program.main()
