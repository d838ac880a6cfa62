#!/usr/bin/env python3
"""KV stores that were damaged, filled up or made read-only cost hits, never an answer; counters and health say what happened."""
import concurrent.futures
import contextlib
import os
import random
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import shoal_program
from hanging_mount import hanging_mount
from shoal_program import DEADLINE_S, Server, await_true, run

PROMPTS = [f"The code of Nora is {1000 + 7 * n}. " + "The table was on the hill. " * 140 for n in range(4)]


def ask(server, prompt, key=None):
    body = {"model": server.model, "prompt": prompt, "max_tokens": 12, "temperature": 0, "replay": "exact", "return_token_ids": True}
    status, answer = server.request("POST", "/v1/completions", body, key)
    if status != 200:
        raise AssertionError(f"status {status}: {answer}")
    return answer["choices"][0]["token_ids"], answer["usage"]["prompt_cache_hit_tokens"]


def metric(server, name):
    page = server.request("GET", "/metrics")[1]
    return int(re.search(rf"(?m)^{name} (\d+)$", page)[1])


def health(server):
    return str(server.request("GET", "/health")[1])


def kept_by(directory, *arguments):
    """A server without tails, so that only the directory counts; it has read what is there."""
    server = Server("--kv-dir", directory, "--set", "kv.tail_bytes=0", *arguments)
    await_true(lambda: metric(server, "shoal_kv_store_opening") == 0)
    return server


def fill(directory, key=None):
    """Answers of a server that found nothing, with their blocks stored."""
    with kept_by(directory, *(("--api-key", key) if key else ())) as server:
        answers = [ask(server, prompt, key)[0] for prompt in PROMPTS]
        await_true(lambda: metric(server, "shoal_kv_store_blocks") >= 6 * len(PROMPTS))
    return answers


def segments(directory):
    return sorted(os.path.join(directory, name) for name in os.listdir(directory) if os.path.getsize(os.path.join(directory, name)) > 65536)


@contextlib.contextmanager
def mounted(options):
    """A tmpfs; skips the test where mounting is not allowed."""
    with tempfile.TemporaryDirectory() as directory:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], capture_output=True, check=False).returncode != 0:
            raise unittest.SkipTest("this user may not mount a tmpfs")
        try:
            yield directory
        finally:
            subprocess.run(["umount", "-l", directory], check=True)


class Hostile(unittest.TestCase):
    def check_answers(self, directory, answers, *arguments, key=None):
        """Every prompt, twice: damage that was met is a miss the next time."""
        with kept_by(directory, *arguments) as server:
            for _ in range(2):
                for prompt, tokens in zip(PROMPTS, answers):
                    self.assertEqual(ask(server, prompt, key)[0], tokens)
            if metric(server, "shoal_kv_store_corrupt_total") > 0:
                await_true(lambda: "the KV store has damage: " in health(server))
            return metric(server, "shoal_kv_store_corrupt_total") + metric(server, "shoal_kv_store_broken_pages_total")

    def test_flipped_bits_are_counted_and_never_answered_from(self):
        rng = random.Random(5)
        with tempfile.TemporaryDirectory() as directory:
            answers = fill(directory)
            for path in segments(directory):
                with open(path, "r+b") as file:
                    for at in range(2048, os.path.getsize(path), 4096):
                        file.seek(at + rng.randrange(1024))
                        byte = file.read(1)
                        file.seek(-1, os.SEEK_CUR)
                        file.write(bytes([byte[0] ^ 1 << rng.randrange(8)]))
            self.assertGreater(self.check_answers(directory, answers), 0)

    def test_truncated_and_swapped_segments_are_misses(self):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            answers = fill(one)
            self.assertEqual(fill(other), answers)
            mine, theirs = segments(one)[0], segments(other)[0]
            os.truncate(mine, os.path.getsize(mine) // 2 + 100)
            with open(mine, "rb") as a, open(theirs, "rb") as b:
                truncated, swapped = a.read(), b.read()
            with open(theirs, "wb") as file:
                file.write(truncated)
            self.check_answers(other, answers)
            with open(mine, "wb") as file:
                file.write(swapped)
            self.check_answers(one, answers)

    def test_another_tenants_blocks_are_no_hits(self):
        with tempfile.TemporaryDirectory() as directory:
            answers = fill(directory, "first")
            with kept_by(directory, "--api-key", "second", "--api-key", "first") as server:
                self.assertEqual(ask(server, PROMPTS[0], "second"), (answers[0], 0))
                tokens, cached = ask(server, PROMPTS[0], "first")
                self.assertEqual(tokens, answers[0])
                self.assertGreater(cached, 0)

    def test_a_full_disk_costs_hits_and_health_says_so(self):
        with mounted("size=160k") as directory:
            with kept_by(directory) as server, Server("--set", "kv.store=none") as cold:
                for prompt in PROMPTS:
                    self.assertEqual(ask(server, prompt)[0], ask(cold, prompt)[0])
                await_true(lambda: metric(server, "shoal_kv_blocks_dropped_total") > 0)
                await_true(lambda: "refuses writes" in health(server))
                # Until there is room for what it refused, and no longer.
                refused = metric(server, "shoal_kv_store_failed_total")
                while metric(server, "shoal_kv_store_failed_total") < refused + 3:
                    self.assertIn("refuses writes", health(server))
                subprocess.run(["mount", "-o", "remount,size=32m", directory], check=True)
                said = self.await_ok(server)
                self.assertFalse([text for text in said if "directory" in text], said)

    @staticmethod
    def await_ok(server):
        """What health said until it said ok."""
        said = []
        while not said or "'status': 'ok'" not in said[-1]:
            said.append(health(server))
        return said

    def test_a_ceiling_below_the_files_of_others_is_told(self):
        with tempfile.TemporaryDirectory() as directory, kept_by(directory) as server:
            count = 0
            while metric(server, "shoal_kv_store_bytes") < 2000000:
                ask(server, f"{count} was first. " + PROMPTS[0])
                count += 1
            with kept_by(directory, "--set", "kv.store_bytes=1048576") as small:
                self.assertIn("raise kv.store_bytes", small.await_line(small.stderr, "kv.cramped"))
                await_true(lambda: "the KV store is cramped: files of other processes (" in health(small))
            self.assertNotIn("cramped", health(server))

    def test_a_read_only_mount_is_read_and_health_says_so(self):
        with mounted("size=32m") as directory:
            answers = fill(directory)
            subprocess.run(["mount", "-o", "remount,ro", directory], check=True)
            with kept_by(directory) as server:
                for prompt, tokens in zip(PROMPTS, answers):
                    again, cached = ask(server, prompt)
                    self.assertEqual(again, tokens)
                    self.assertGreater(cached, 0)
                ask(server, PROMPTS[0] + "This is new. " * 100)
                await_true(lambda: "refuses writes" in health(server))

    def test_a_mount_that_hangs_costs_hits_until_it_answers_again(self):
        with hanging_mount() as mount:
            answers = fill(mount.path)
            with kept_by(mount.path) as server, concurrent.futures.ThreadPoolExecutor(16) as clients:
                mount.hang()
                # More loads at once than the store has threads.
                for tokens, again in zip(4 * answers, clients.map(lambda prompt: ask(server, prompt), 4 * PROMPTS)):
                    self.assertEqual(again, (tokens, 0))
                self.assertGreater(metric(server, "shoal_kv_loads_failed_total"), 0)
                # Also when nobody asks, as long as it hangs.
                await_true(lambda: "KV store" in health(server))
                hung = metric(server, "shoal_kv_store_failed_total")
                while metric(server, "shoal_kv_store_failed_total") < hung + 3:
                    self.assertNotEqual(server.request("GET", "/health")[1]["status"], "ok")
                mount.go_on()
                await_true(lambda: ask(server, PROMPTS[0])[1] > 0)
                await_true(lambda: "KV store" not in health(server))
                self.assertEqual([ask(server, prompt)[0] for prompt in PROMPTS], answers)

    def test_a_server_does_not_wait_for_a_mount_that_hangs(self):
        with hanging_mount() as mount:
            mount.hang()
            with Server("--kv-dir", mount.path) as server:
                self.assertIn("does not answer", server.await_line(server.stderr, "kv.store_away"))
                await_true(lambda: "the KV store is away" in health(server))
                self.assertEqual(len(ask(server, PROMPTS[0])[0]), 12)
                mount.go_on()
                server.await_line(server.stderr, "kv.store_back")
                ask(server, PROMPTS[0])
                await_true(lambda: ask(server, PROMPTS[0])[1] > 0)

    def test_a_mount_that_hangs_keeps_no_server_from_ending(self):
        with hanging_mount() as mount:
            fill(mount.path)
            with kept_by(mount.path) as server:
                mount.hang()
                ask(server, PROMPTS[0])
                asked = time.monotonic()
                server.process.terminate()
                self.assertEqual(server.process.wait(DEADLINE_S), 0)
                self.assertLess(time.monotonic() - asked, 20)

    def test_a_store_that_is_away_at_start_is_used_when_it_is_there(self):
        with tempfile.TemporaryDirectory() as place:
            link, target = os.path.join(place, "link"), os.path.join(place, "target")
            os.symlink(target, link)
            with Server("--kv-dir", link, "--set", "kv.tail_bytes=0") as server, Server("--set", "kv.store=none") as cold:
                self.assertIn(link, server.await_line(server.stderr, "kv.store_away"))
                await_true(lambda: "the KV store is away: cannot make " + link in str(server.request("GET", "/health")[1]))
                self.assertEqual(ask(server, PROMPTS[0])[0], ask(cold, PROMPTS[0])[0])
                os.mkdir(target)
                server.await_line(server.stderr, "kv.store_back")
                await_true(lambda: server.request("GET", "/health")[1]["status"] == "ok")
                ask(server, PROMPTS[0])
                await_true(lambda: ask(server, PROMPTS[0])[1] > 0)

    def test_the_users_cache_that_cannot_be_had_is_told_by_health(self):
        with tempfile.NamedTemporaryFile() as file, Server(cache=file.name) as server:
            self.assertIn("shoal/kv", server.await_line(server.stderr, "kv.store_away"))
            await_true(lambda: "the KV store is away" in str(server.request("GET", "/health")[1]))
            self.assertEqual(len(ask(server, PROMPTS[0])[0]), 12)

    def test_a_directory_removed_under_a_server_is_made_again(self):
        with tempfile.TemporaryDirectory() as place:
            directory = os.path.join(place, "kv")
            with kept_by(directory) as server:
                tokens = ask(server, PROMPTS[0])[0]
                shutil.rmtree(directory)
                server.await_line(server.stderr, "kv.store_away")
                server.await_line(server.stderr, "kv.store_back")
                said = self.await_ok(server)
                self.assertFalse([text for text in said if "still there" in text], said)
                self.assertEqual(ask(server, PROMPTS[0])[0], tokens)
                await_true(lambda: ask(server, PROMPTS[0])[1] > 0)

    def test_where_a_mount_went_away_no_store_is_made(self):
        with mounted("size=32m") as disk, tempfile.TemporaryDirectory() as place:
            os.mkdir(os.path.join(disk, "kv"))
            subprocess.run(["mount", "--bind", disk, place], check=True)
            with kept_by(os.path.join(place, "kv")) as server:
                ask(server, PROMPTS[0])
                await_true(lambda: metric(server, "shoal_kv_store_blocks") >= 6)
                subprocess.run(["umount", "-l", place], check=True)
                await_true(lambda: "mount that again" in str(server.request("GET", "/health")[1]))
                self.assertEqual(os.listdir(place), [])
                subprocess.run(["mount", "--bind", disk, place], check=True)
                try:
                    await_true(lambda: metric(server, "shoal_kv_store_blocks") >= 6)
                    await_true(lambda: ask(server, PROMPTS[0])[1] > 0)
                finally:
                    subprocess.run(["umount", "-l", place], check=True)

    def test_what_can_never_be_a_directory_is_refused_at_start(self):
        with tempfile.NamedTemporaryFile() as file:
            for path in (file.name, os.path.join(file.name, "kv")):
                refused = run("serve", "--port", "0", "--device", "sim", "--kv-dir", path)
                self.assertEqual(refused.returncode, 1)
                self.assertIn(path + " cannot be a directory", refused.stderr)
                self.assertNotIn(".new", refused.stderr)

    def test_errors_name_no_temporary_files(self):
        with mounted("size=64k,ro") as directory:
            with Server("--device", "sim", "--kv-dir", directory) as server:
                away = server.await_line(server.stderr, "kv.store_away")
        self.assertIn("to this user to write", away)
        self.assertNotIn(".new", away)


if __name__ == "__main__":
    shoal_program.main()
