#!/usr/bin/env python3
"""Experts on nodes of their own: four processes answer as one does, a killed one costs a pause, and experts move by load."""
import os
import re
import shutil
import tempfile
import unittest

import shoal_program
from shoal_cluster import Cluster
from shoal_program import GUPPY, ROOT, Server
from shoal_streams import Streams, joined, prompt, without_ids

with open(os.path.join(ROOT, "deploy", "topologies", "experts.txtpb"), encoding="utf-8") as file:
    TOPOLOGY = file.read()
EXPERTS = 6 * 16 + 3 * 8  # of guppy: layers, and stages of its drafts


def completion(length, **more):
    return "/v1/completions", {"model": "guppy", "prompt": prompt(length), "max_tokens": 24, "temperature": 0, "ignore_eos": True,
                               "return_token_ids": True, **more}


class SameAnswers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.one = Server("--set", "kv.store=none")
        cls.addClassCleanup(cls.one.__exit__)
        cls.four = Cluster(TOPOLOGY)
        cls.addClassCleanup(cls.four.__exit__)

    def test_answers_are_the_same(self):
        for length in (2, 129, 1100):
            for replay in ("bounded", "exact"):
                with self.subTest(f"{length} tokens, {replay}"):
                    path, body = completion(length, replay=replay)
                    self.assertEqual(without_ids(self.four.front.post(path, body)), without_ids(self.one.post(path, body)))
        path, body = completion(40, temperature=0.9, seed=11, stream_options={"include_usage": True})
        self.assertEqual(joined(self.four.front.stream(path, body)), joined(self.one.stream(path, body)))

    def test_each_shard_loads_its_own_experts_only(self):
        held = []
        for name in ("experts1", "experts2"):
            node = self.four.nodes[name]
            self.assertIn(f"shoal node {name} (experts) of experts", node.up_line)
            line = node.await_line(node.stderr, "experts.served")
            held.append(tuple(int(re.search(rf"{field}=(\d+)", line)[1]) for field in ("experts", "bytes")))
        self.assertEqual(sum(experts for experts, _ in held), EXPERTS)
        weights = os.path.getsize(os.path.join(ROOT, "deploy", "models", "guppy", "model.safetensors"))
        for experts, size in held:
            self.assertEqual(experts, EXPERTS // 2)
            self.assertGreater(size, 0)
            self.assertLess(size, weights / 2)

    def test_a_gateway_with_a_device_tells_what_it_sends(self):
        self.four.front.post(*completion(10))
        page = self.four.front.request("GET", "/metrics")[1]
        self.assertRegex(page, r"(?m)^shoal_expert_hops_total [1-9]")
        self.assertRegex(page, r'(?m)^shoal_expert_rows_total\{layer="0"\} [1-9]')


class Moves(unittest.TestCase):
    def test_experts_move_between_processes_by_load_and_answers_are_the_same(self):
        # Moves cost nothing by these figures, so that other prompts are followed.
        moving = "experts { shards: 1 redundant: 1 window_ms: 300 window_rows: 20 place_ms: 5000 layer_us: 100000 move_us: 1 }"
        topology = TOPOLOGY.replace("experts { shards: 1 redundant: 0 }", moving)
        self.assertIn(moving, topology)
        with Server("--set", "kv.store=none") as one, Cluster(topology) as four:
            placed = 0
            for length in range(20, 400, 7):
                path, body = completion(length)
                self.assertEqual(without_ids(four.front.post(path, body)), without_ids(one.post(path, body)), length)
                page = four.front.request("GET", "/metrics")[1]
                placed = int(re.search(r'(?m)^shoal_expert_plans_total\{end="placed"\} (\d+)', page)[1])
                if placed >= 3:
                    break
            self.assertGreaterEqual(placed, 3)
            self.assertRegex(page, r"(?m)^shoal_expert_moves_total [1-9]")
            self.assertRegex(page, r"(?m)^shoal_expert_moved_bytes_total [1-9]")
            for node in ("experts1", "experts2"):
                lines = four.nodes[node].stderr
                epochs = {re.search(r"epoch=(\d+)", four.nodes[node].await_line(lines, "experts.served"))[1] for _ in range(2)}
                self.assertEqual(len(epochs), 2)


class Losses(unittest.TestCase):
    def test_a_killed_node_of_experts_costs_a_pause_and_no_token(self):
        with Cluster(TOPOLOGY) as cluster:
            expected = Streams(cluster.front, 4, 400).texts()
            streams = Streams(cluster.front, 4, 400)
            streams.await_each(lambda arrivals: len(arrivals) > 5)
            cluster.kill("experts2")
            cluster.await_health(lambda status, body: body["status"] not in ("ok", "busy"))
            self.assertGreater(streams.open(), 0)
            cluster.start("experts2")
            self.assertEqual(streams.texts(), expected)
            cluster.await_whole()
            self.assertEqual(Streams(cluster.front, 4, 400).texts(), expected)

    def test_a_node_of_experts_with_other_weights_is_refused_by_name_and_never_asked(self):
        with tempfile.TemporaryDirectory() as directory:
            model = shutil.copytree(GUPPY, os.path.join(directory, "guppy"))
            with Cluster(TOPOLOGY.replace('name: "experts2"', f'name: "experts2" config {{ model {{ path: "{model}" }} }}')) as cluster:
                cluster.kill("experts2")
                with open(os.path.join(model, "model.safetensors"), "r+b") as weights:
                    weights.seek(-1, os.SEEK_END)
                    byte = weights.read(1)[0]
                    weights.seek(-1, os.SEEK_CUR)
                    weights.write(bytes([byte ^ 0x40]))
                cluster.start("experts2")
                line = cluster.front.await_line(cluster.front.stderr, "peer.refused")
                self.assertRegex(line, r"node experts2 \(\w+\) runs another model than node front \(\w+\)")
                expected = {"node.experts1": "ok", "node.experts2": "degraded", "expert_source": "degraded"}
                cluster.await_health(lambda status, health: expected.items() <= {p["name"]: p["state"] for p in health["parts"]}.items())


if __name__ == "__main__":
    shoal_program.main()
