#!/usr/bin/env python3
"""`shoal serve` and `shoal kv` with KV in a Ceph pool: the one that tests/transport/ceph_loopback.sh started."""
import os
import tempfile
import unittest

import shoal_program
from kv_hostile_test import PROMPTS, ask, await_true, metric
from shoal_program import Server, run


class Rados(unittest.TestCase):
    def setUp(self):
        self.conf = ["--set", "kv.ceph_conf=" + os.environ["SHOAL_CEPH_CONF"]]
        self.serving = ["--set", "kv.store=rados", "--kv-dir", "shoal/served", *self.conf, "--set", "kv.tail_bytes=0"]

    def kv(self, *arguments, status=0):
        done = run("kv", *arguments, *self.conf)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_what_one_server_kept_in_a_pool_another_finds_and_shoal_kv_cleans(self):
        with Server(*self.serving) as server:
            answers = [ask(server, prompt)[0] for prompt in PROMPTS]
            await_true(lambda: metric(server, "shoal_kv_store_blocks") >= 6 * len(PROMPTS))
        with Server(*self.serving) as server:
            await_true(lambda: metric(server, "shoal_kv_store_opening") == 0)
            for prompt, tokens in zip(PROMPTS, answers):
                again, cached = ask(server, prompt)
                self.assertEqual(again, tokens)
                self.assertGreater(cached, 0)
        self.assertIn("rados:shoal/served", self.kv("stat", "rados:shoal/served"))
        blocks = len(self.kv("ls", "rados:shoal/served").splitlines())
        self.assertIn(f"{blocks} blocks verified, 0 damaged", self.kv("verify", "rados:shoal/served"))
        with tempfile.TemporaryDirectory() as place:
            copy = os.path.join(place, "copy")
            self.assertIn(f"{blocks} blocks exported", self.kv("export", "rados:shoal/served", "--to", copy))
            self.assertIn(f"{blocks} blocks exported", self.kv("export", copy, "--to", "rados:shoal/copied"))
        self.assertIn(f"{blocks} blocks verified", self.kv("scrub", "rados:shoal/copied"))
        self.assertIn(f"{blocks} blocks taken out", self.kv("evict", "rados:shoal/served", "--to-bytes", "0"))
        self.assertEqual(self.kv("ls", "rados:shoal/served"), "")

    def test_what_is_no_store_or_no_pool_is_named_and_nothing_is_made(self):
        for _ in range(2):
            self.assertIn("rados:shoal/nothing holds no KV store", self.kv("stat", "rados:shoal/nothing", status=1))
        self.assertIn("ceph osd pool create absent", self.kv("ls", "rados:absent", status=1))


if __name__ == "__main__":
    shoal_program.main()
