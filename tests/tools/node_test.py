#!/usr/bin/env python3
"""`shoal node`: three processes answer as one does, and lose nothing when one of them is killed."""
import os
import re
import shutil
import signal
import socket
import tempfile
import time
import unittest
import urllib.parse

import shoal_program
from shoal_cluster import ONE_HOST, Cluster, example, free_ports, one_host
from shoal_program import DEADLINE_S, GUPPY, Server, run
from shoal_streams import Streams, joined, prompt, without_ids

SECOND_DECODE = """
node { name: "decode2" role: decode control_port: 0 bulk_port: 0 config { compute { threads: 1 } } }
"""


def completion(length, **more):
    return "/v1/completions", {"model": "guppy", "prompt": prompt(length), "max_tokens": 24, "temperature": 0, "ignore_eos": True,
                               "return_token_ids": True, **more}


def chat(text, **more):
    return "/v1/chat/completions", {"model": "guppy", "messages": [{"role": "user", "content": text}], "max_tokens": 60,
                                    "reasoning_effort": "none", "temperature": 0, **more}


REQUESTS = {
    **{f"{length} tokens, {replay}": completion(length, replay=replay)
       for replay in ("bounded", "exact") for length in (2, 127, 128, 129, 130, 1100)},
    "seeded": completion(40, temperature=0.9, top_p=0.95, seed=11),
    "two seeded choices": completion(40, temperature=1.0, seed=3, n=2),
    "two seeded choices, exact": completion(300, temperature=1.0, seed=4, n=2, replay="exact"),
    "log probabilities": completion(140, logprobs=3, replay="exact"),
    "chat": chat("What is shoal?"),
    "chat with log probabilities": chat("What is shoal?", logprobs=True, top_logprobs=2),
    "chat that thinks": chat("What is 3 plus 4?", reasoning_effort="high", seed=5, temperature=0.5),
    "stop string": chat("What is shoal?", stop=["a"]),
    "one token": completion(130, max_tokens=1),
}


class SameAnswers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.one = Server("--set", "kv.store=none")
        cls.addClassCleanup(cls.one.__exit__)
        cls.three = Cluster()
        cls.addClassCleanup(cls.three.__exit__)
        print(f"three processes are ready after {1000 * cls.three.ready_s:.0f} ms", flush=True)

    def test_each_node_says_what_it_is(self):
        lines = {name: node.up_line for name, node in self.three.nodes.items()}
        self.assertRegex(lines["front"], r"^shoal node front \(gateway, router\) of one-host serves guppy at http://127\.0\.0\.1:\d+ "
                                         r"\(up in \d+ ms\)$")
        self.assertRegex(lines["prefill"], r"^shoal node prefill \(prefill\) of one-host \(up in \d+ ms\)$")
        self.assertRegex(lines["decode"], r"^shoal node decode \(decode\) of one-host \(up in \d+ ms\)$")

    def test_collected_answers_are_the_same(self):
        for name, (path, body) in REQUESTS.items():
            with self.subTest(name):
                self.assertEqual(without_ids(self.three.front.post(path, body)), without_ids(self.one.post(path, body)))

    def test_streamed_answers_are_the_same(self):
        for name, (path, body) in REQUESTS.items():
            with self.subTest(name):
                body = {**body, "stream_options": {"include_usage": True}}
                self.assertEqual(joined(self.three.front.stream(path, body)), joined(self.one.stream(path, body)))

    def test_it_tells_about_the_whole_cluster(self):
        front = self.three.front
        status, health = front.request("GET", "/health")
        self.assertEqual(status, 200)
        parts = {part["name"]: part["state"] for part in health["parts"]}
        for node in ("node.front", "node.prefill", "node.decode"):
            self.assertEqual(parts.get(node), "ok", parts)
        self.assertEqual(front.request("GET", "/ready")[0], 200)
        self.assertIn("# TYPE", front.request("GET", "/metrics")[1])

    def test_how_fast_it_is(self):
        rates = {}
        for name, server in (("one process", self.one), ("three processes", self.three.front)):
            began = time.monotonic()
            Streams(server, 8, 200).texts()
            rates[name] = 8 * 200 / (time.monotonic() - began)
        print(", ".join(f"{name}: {rate:.0f} tokens/s" for name, rate in rates.items()), flush=True)


class Losses(unittest.TestCase):
    def test_a_decode_node_that_is_killed_loses_no_stream_and_changes_no_text(self):
        with Cluster(one_host() + SECOND_DECODE) as cluster:
            expected = Streams(cluster.front, 8, 600).texts()
            streams = Streams(cluster.front, 8, 600)
            # The first token is prefill's; a hand-over that fails is not tried again by the stream.
            streams.await_each(lambda arrivals: len(arrivals) > 5)
            cluster.kill("decode")
            self.assertGreater(streams.open(), 0)
            self.assertEqual(streams.texts(), expected)
            self.assertRegex(cluster.front.request("GET", "/metrics")[1], r"shoal_stream_retries_total\S* [1-9]")

    def test_a_prefill_node_that_is_killed_and_started_again_serves_again(self):
        with Cluster() as cluster:
            expected = Streams(cluster.front, 4, 20, length=900).texts()
            streams = Streams(cluster.front, 4, 20, length=900)
            cluster.kill("prefill")
            cluster.start("prefill")
            cluster.await_whole()
            self.assertEqual(streams.texts(), expected)
            self.assertEqual(Streams(cluster.front, 4, 20, length=900).texts(), expected)

    def test_sigterm_of_the_front_lets_its_streams_finish_and_exits_with_0(self):
        with Cluster() as cluster:
            front = cluster.front
            streams = Streams(front, 4, 300)
            streams.await_started()
            front.process.send_signal(signal.SIGTERM)
            self.assertIn("waits for 4 open answers, at most 30000 ms (request.drain_ms)", front.await_line(front.stderr, "shoal: draining"))
            self.assertEqual(len(streams.texts()), 4)
            self.assertEqual(front.process.wait(DEADLINE_S), 0)

    def test_sigterm_of_a_node_without_clients_says_what_it_waits_for(self):
        with Cluster() as cluster:
            streams = Streams(cluster.front, 4, 300)
            streams.await_each(lambda arrivals: len(arrivals) > 5)
            decode, prefill = cluster.nodes["decode"], cluster.nodes["prefill"]
            decode.process.send_signal(signal.SIGTERM)
            self.assertRegex(decode.await_line(decode.stderr, "shoal: draining"), "no client is connected here; waits for [1-4] answers? in its "
                             r"KV memory to end or to go on on another node, at most 30000 ms \(request.drain_ms\)")
            self.assertEqual(len(streams.texts()), 4)
            prefill.process.send_signal(signal.SIGTERM)
            self.assertIn("no client is connected here; its KV memory holds no answer", prefill.await_line(prefill.stderr, "shoal: draining"))
            self.assertEqual([node.process.wait(DEADLINE_S) for node in (decode, prefill)], [0, 0])

    def test_a_request_is_explained_with_the_names_of_its_nodes(self):
        with Cluster() as cluster:
            answer = cluster.front.post("/v1/completions", {"model": cluster.front.model, "prompt": "Hello", "max_tokens": 3})
            done = run("explain", answer["id"], "--url", cluster.front.url)
            self.assertRegex(done.stdout, r"\d  0 front +1 +received ")
            self.assertRegex(done.stdout, r"prefill_placed .* to_node=\"\d prefill\"")
            self.assertRegex(done.stdout, r"\d+ decode +1 +answer_done ")

    def test_a_node_says_where_its_kv_is_kept(self):
        with Cluster() as cluster:
            prefill = cluster.nodes["prefill"]
            self.assertIn("kv.dir names a directory that they share", prefill.await_line(prefill.stdout, "KV"))

    def test_sigterm_ends_every_node_with_0(self):
        with Cluster() as cluster:
            for node in cluster.nodes.values():
                node.process.send_signal(signal.SIGTERM)
            self.assertEqual([node.process.wait(DEADLINE_S) for node in cluster.nodes.values()], [0, 0, 0])


# On a machine that is busy with other things nobody is taken for dead.
TWO_DECODES = example("two-decodes.txtpb").replace("kv { bytes", "supervisor { dead: 600 } kv { bytes")


class TwoDecodes(unittest.TestCase):
    """deploy/topologies/two-decodes.txtpb, as its first lines tell to use it."""

    @staticmethod
    def await_state(cluster, state):
        def is_so(status, health):
            states = {part["name"]: part["state"] for part in health["parts"]}
            return (status, health["status"], states["node.decode1"]) == (200, "ok", state)
        cluster.await_health(is_so)

    @staticmethod
    def await_end_of_link(node, other):
        line = ""
        while f"node={other}" not in line or "peer.up" in line:
            line = node.await_line(node.stderr, "peer.")
        return line

    def test_a_decode_node_that_is_told_to_end_hands_its_streams_over_and_is_missed_by_nobody(self):
        with Cluster(TWO_DECODES) as cluster:
            front, leaving = cluster.front, cluster.nodes["decode1"]
            expected = Streams(front, 8, 300).texts()
            streams = Streams(front, 8, 300)
            streams.await_each(lambda arrivals: len(arrivals) > 5)
            leaving.process.send_signal(signal.SIGTERM)
            self.assertEqual(leaving.process.wait(DEADLINE_S), 0)
            self.assertEqual(streams.texts(), expected)
            self.assertRegex(front.request("GET", "/metrics")[1], r"shoal_stream_retries_total\S* 0")
            self.assertIn("peer.left", self.await_end_of_link(front, "decode1"))
            self.await_state(cluster, "left")
            cluster.kill("decode1")  # what is left of it here
            cluster.start("decode1")
            self.await_state(cluster, "ok")

    def test_the_last_prefill_node_ends_with_its_own_work_and_what_is_new_waits_for_another(self):
        with Cluster(TWO_DECODES) as cluster:
            leaving = cluster.nodes["prefill"]
            streams = Streams(cluster.front, 4, 200, length=900)
            leaving.process.send_signal(signal.SIGTERM)
            late = Streams(cluster.front, 2, 20)
            self.assertEqual(leaving.process.wait(DEADLINE_S), 0)
            cluster.kill("prefill")
            cluster.start("prefill")
            self.assertEqual(len(streams.texts()), 4)
            self.assertEqual(len(late.texts()), 2)


class OtherModel(unittest.TestCase):
    def test_a_node_that_comes_back_with_other_weights_is_refused_and_the_others_answer_as_before(self):
        with tempfile.TemporaryDirectory() as directory:
            model = shutil.copytree(GUPPY, os.path.join(directory, "guppy"))
            with Cluster(one_host() + SECOND_DECODE.replace("config {", f'config {{ model {{ path: "{model}" }}')) as cluster:
                expected = Streams(cluster.front, 4, 100).texts()
                cluster.kill("decode2")
                with open(os.path.join(model, "model.safetensors"), "r+b") as weights:
                    weights.seek(-2, os.SEEK_END)
                    byte = weights.read(1)[0]
                    weights.seek(-1, os.SEEK_CUR)
                    weights.write(bytes([byte ^ 0x40]))
                cluster.start("decode2")
                for node, other in (("front", "decode2"), ("decode2", "front")):
                    line = cluster.nodes[node].await_line(cluster.nodes[node].stderr, "peer.refused")
                    self.assertRegex(line, rf"node {other} \(\w+\) runs another model than node {node} \(\w+\)")
                self.assertEqual(Streams(cluster.front, 4, 100).texts(), expected)
                status, health = cluster.front.request("GET", "/health")
                self.assertEqual((status, health["status"]), (200, "degraded"))
                states = {part["name"]: part["state"] for part in health["parts"]}
                self.assertEqual((states["node.decode"], states["node.decode2"]), ("ok", "degraded"))


class KeepsKv(unittest.TestCase):
    """Nodes that share a KV directory."""

    def ask(self, server, ids):
        answer = server.post("/v1/completions", {"model": "guppy", "prompt": ids, "max_tokens": 24, "temperature": 0, "ignore_eos": True,
                                                 "replay": "exact", "return_token_ids": True})
        return answer["choices"][0]["token_ids"], answer["usage"]["prompt_cache_hit_tokens"]

    def test_turns_go_on_from_the_last_one_and_from_what_dead_nodes_left(self):
        with tempfile.TemporaryDirectory() as kept, Server("--set", "kv.store=none") as cold, \
                Cluster(one_host().replace("kv { bytes", f'kv {{ dir: "{kept}" bytes')) as three:
            ids = prompt(1000)
            said = cold.post("/tokenize", {"prompt": "And then? "})["tokens"]
            tokens, cached = self.ask(three.front, ids)
            self.assertEqual(cached, 0)
            for turn in range(3):
                if turn == 2:  # nobody has the tail any more
                    for name in ("prefill", "decode"):
                        three.kill(name)
                        three.start(name)
                    three.await_whole()
                ids = [*ids, *tokens, *said]
                # Tail and last blocks are kept behind the answer, and seen within 2 s: until then it is no hit.
                limit = time.monotonic() + DEADLINE_S
                expected = len(ids) - len(said) - 1 if turn < 2 else len(ids) // 128 * 128 - 128
                cached = 0
                while cached < expected and time.monotonic() < limit:
                    tokens, cached = self.ask(three.front, ids)
                    self.assertEqual(tokens, self.ask(cold, ids)[0])
                self.assertGreaterEqual(cached, expected)


class Monitors(unittest.TestCase):
    def test_every_role_may_have_pages_for_monitors(self):
        text = one_host().replace("bulk_port: 7121", "bulk_port: 7121\n  metrics_port: 7122")
        with Cluster(text) as cluster:
            decode = cluster.nodes["decode"]
            pages = decode.await_line(decode.stdout, "pages for monitors at ").split()[-1]
            Streams(cluster.front, 2, 20).texts()
            decode.address = urllib.parse.urlsplit(pages)
            status, page = decode.request("GET", "/metrics")
            self.assertEqual(status, 200)
            self.assertRegex(page, r"\nshoal_decode_steps_total [1-9]")
            self.assertNotIn("vllm:", page)
            self.assertEqual(decode.request("GET", "/health")[0], 200)
            self.assertEqual(decode.request("GET", "/ready")[0], 200)
            self.assertEqual(decode.request("GET", "/v1/models")[0], 404)


class Refusals(unittest.TestCase):
    def refused(self, arguments, *words):
        done = run("node", *arguments)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_a_missing_file_or_an_unknown_node_is_named(self):
        self.refused(["--topology", "/nowhere.txtpb", "--name", "front"], "/nowhere.txtpb")
        self.refused(["--topology", ONE_HOST, "--name", "decoed"], "one-host.txtpb", "decoed", "\"decode\"")

    def test_a_second_process_of_a_node_names_the_field_in_its_way(self):
        with Cluster() as cluster:
            self.refused(["--topology", cluster.topology, "--name", "decode"], "node decode: bulk_port")
            self.refused(["--topology", cluster.topology, "--name", "front"], "node front: state_dir")

    def test_a_port_that_is_taken_is_told_with_the_field_that_chooses_it(self):
        with socket.socket() as taken, tempfile.TemporaryDirectory() as directory:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            topology = os.path.join(directory, "topology.txtpb")
            for field, of in (("http_port: ", "http_port: 8000"), ("metrics_port: ", "http_port: 8000")):
                text = one_host().replace(of, f"{field}{port}").replace('"shoal-state"', f'"{directory}/state"')
                ports = iter(free_ports(6))
                text = re.sub(r"((?:control|bulk)_port: )\d+", lambda m: m[1] + str(next(ports)), text)
                if "http_port" not in text:
                    text = text.replace("config {\n", "config {\n  http { port: 0 }\n", 1)
                with open(topology, "w", encoding="utf-8") as file:
                    file.write(text)
                self.refused(["--topology", topology, "--name", "front"], f"node front: {field}cannot listen on 127.0.0.1:{port}: the port is in use")

    def test_a_command_without_its_flags_is_refused(self):
        done = run("node", "--name", "front")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--topology", done.stderr)


if __name__ == "__main__":
    shoal_program.main()
