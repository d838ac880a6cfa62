#!/usr/bin/env python3
"""`shoal kv` on stores that this program writes itself, byte by byte as the READMEs say."""
import hashlib
import json
import os
import re
import shutil
import struct
import tempfile
import time
import unittest
import unittest.mock

import kv_hostile_test
import shoal_program
from shoal_program import ROOT, Server, run

PAGE = 4096
VERSION = "shoal KV store, format 1\n"


def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def text(value):
    return struct.pack("<Q", len(value)) + value


def with_crc(page, at):
    """The page with the checksum of itself, taken with zeros there."""
    return page[:at] + struct.pack("<I", crc32c(page)) + page[at + 4:]


class Block:
    def __init__(self, parent, first_token, number, provenance=0, ttl=1):
        tokens = struct.pack("<128i", *range(first_token, first_token + 128))
        self.parent, self.number, self.provenance, self.ttl = parent, number, provenance, ttl
        self.key = hashlib.sha256(text(b"shoal.kv.block.1") + parent + tokens).digest()
        payload = self.key * 100
        header = struct.pack("<8sII32s32sQQQIIIBB138x", b"SHLKVBK1", 1, 0, self.key, parent, 5, 6, 7, len(payload), crc32c(payload),
                             number, provenance, ttl) + tokens
        record = with_crc(header, 12) + payload
        self.crc = crc32c(payload)
        self.record = record + bytes(-len(record) % PAGE)


def entry(block, page, used):
    return struct.pack("<32s32sqIIIIBBBxI", block.key, block.parent, used, page, len(block.record) // PAGE, block.number, block.crc, 1,
                       block.provenance, 0, 7)


def segment(writer, ttl, number, blocks, used):
    """A segment with one group."""
    begin = struct.pack("<8sIIQB7xq", b"SHLKVSG1", 0, number, writer, ttl, used)
    data = with_crc(begin + bytes(PAGE - len(begin)), 8)
    entries = b""
    for block in blocks:
        entries += entry(block, len(data) // PAGE, used)
        data += block.record
    head = struct.pack("<8sIIQB3xIIIQ16x", b"SHLKIDX1", 0, number, writer, ttl, len(blocks), len(data) // PAGE, 0, 0)
    index = head + entries
    return data + with_crc(index + bytes(PAGE - len(index)), 8)


CLASSES = ["agent", "chat", "pinned"]


def chain(count, first_token=0, ttl=1):
    parent = hashlib.sha256(text(b"shoal.kv.root.1") + text(b"m") + text(b"w") + text(b"l") + text(b"t") + text(b"")).digest()
    blocks = []
    for number in range(count):
        blocks.append(Block(parent, first_token + 128 * number, number, provenance=number % 2, ttl=ttl))
        parent = blocks[-1].key
    return blocks


class Store(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = place.name
        self.dir = self.new_store("kv")
        self.blocks = chain(5)
        self.write(self.dir, 0xAB, 1, 0, self.blocks, hours=3)
        self.write(self.dir, 0xAB, 0, 0, chain(3, 5000, ttl=0), hours=30)

    def new_store(self, name):
        path = os.path.join(self.root, name)
        os.mkdir(path)
        with open(os.path.join(path, "shoal-kv"), "w", encoding="utf-8") as out:
            out.write(VERSION)
        return path

    def write(self, path, writer, ttl, number, blocks, hours):
        name = os.path.join(path, f"{writer:016x}-{CLASSES[ttl]}-{number:06d}.kv")
        with open(name, "wb") as out:
            out.write(segment(writer, ttl, number, blocks, int(1000 * (time.time() - 3600 * hours))))
        return name

    def kv(self, *arguments, status=0):
        done = run("kv", *arguments)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def listed(self, path=None):
        return [line.split()[0] for line in self.kv("ls", path or self.dir).splitlines()]

    def damage(self, name, at):
        with open(name, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1]))

    def test_stat_counts_blocks_by_class_and_provenance(self):
        said = self.kv("stat", self.dir)
        self.assertIn("8: 5 exact, 3 bounded; 3 agent, 5 chat, 0 pinned", said)
        self.assertIn("in 2 segments of 1 writers", said)
        self.assertIn("3.0 to 30.0 hours ago", said)
        for told in (said, run("kv", "stat", "--help").stdout, run("kv", "ls", "--help").stdout):
            self.assertIn("exact: as every run from the first token on computes them", told)
            self.assertIn("bounded: computed behind a hit with rebuilt windows", told)

    def test_ls_names_every_block_with_its_place(self):
        lines = self.kv("ls", self.dir).splitlines()
        self.assertEqual(len(lines), 8)
        first = next(line for line in lines if line.startswith(self.blocks[0].key.hex()))
        self.assertRegex(first, r"chat +exact +number 0 bytes 4096 used 3.0 h ago 00000000000000ab-chat-000000.kv page 1$")

    def test_verify_finds_a_flipped_bit_and_scrub_takes_the_block_out(self):
        self.assertIn("8 blocks verified, 0 damaged", self.kv("verify", self.dir))
        self.damage(os.path.join(self.dir, "00000000000000ab-chat-000000.kv"), PAGE + 1000)
        said = self.kv("verify", self.dir, status=1)
        self.assertIn(self.blocks[0].key.hex(), said)
        self.assertIn("shoal kv scrub", said)
        self.assertEqual(len(self.listed()), 8)
        self.assertIn("1 blocks taken out", self.kv("scrub", self.dir))
        self.assertNotIn(self.blocks[0].key.hex(), self.listed())
        self.assertIn("7 blocks verified, 0 damaged", self.kv("verify", self.dir))

    def test_evict_by_age_class_and_bytes(self):
        self.assertIn("3 blocks taken out", self.kv("evict", self.dir, "--older-than", "10"))
        self.assertEqual(len(self.listed()), 5)
        self.assertFalse([name for name in os.listdir(self.dir) if "agent" in name], "the empty segment of a stopped writer stays")
        self.assertIn("0 blocks taken out", self.kv("evict", self.dir, "--class", "pinned"))
        # What is behind in its sequence goes first.
        self.assertIn("3 blocks taken out", self.kv("evict", self.dir, "--to-bytes", str(2 * PAGE)))
        self.assertEqual(sorted(self.listed()), sorted(block.key.hex() for block in self.blocks[:2]))
        self.assertIn("2 blocks taken out", self.kv("evict", self.dir, "--class", "chat"))
        self.assertEqual(self.listed(), [])
        self.assertEqual(os.listdir(self.dir), ["shoal-kv"], "nothing is left of an emptied store")

    def test_evict_without_a_condition_is_refused(self):
        self.assertIn("--older-than", self.kv("evict", self.dir, status=2))
        for nothing in ("nan", "-1", "inf", "soon"):
            self.assertIn("expected a number", self.kv("evict", self.dir, "--older-than", nothing, status=2))
        self.assertEqual(len(self.listed()), 8)

    def test_files_of_a_living_writer_stay(self):
        with open(os.path.join(self.dir, f"{0xAB:016x}.alive"), "w", encoding="utf-8") as out:
            out.write("1\n")
        self.kv("evict", self.dir, "--to-bytes", "0")
        self.assertEqual(self.listed(), [])
        self.assertTrue([name for name in os.listdir(self.dir) if name.startswith(f"{0xAB:016x}-chat")])

    def test_export_brings_stores_together_without_what_is_damaged(self):
        other = self.new_store("other")
        self.write(other, 0xCD, 1, 0, chain(4, 9000), hours=1)
        self.damage(os.path.join(self.dir, "00000000000000ab-chat-000000.kv"), PAGE + 1000)
        target = os.path.join(self.root, "new")
        said = self.kv("export", self.dir, other, "--to", target)
        self.assertIn("7 blocks exported, 1 damaged ones left out", said)
        self.assertIn("11 blocks verified, 0 damaged", self.kv("verify", target))

    def test_a_damaged_segment_is_named_by_stat(self):
        names = [os.path.join(self.dir, f"00000000000000ab-{ttl}-000000.kv") for ttl in ("agent", "chat")]
        self.damage(names[0], 30)
        self.assertIn("damaged   1 pages", self.kv("stat", self.dir))
        self.assertEqual(len(self.listed()), 8)
        os.rename(names[1], os.path.join(self.dir, "00000000000000ab-chat-000009.kv"))
        said = self.kv("stat", self.dir)
        self.assertIn("00000000000000ab-chat-000009.kv: it is another segment under this name", said)
        self.assertIn("3: 2 exact", said)

    def test_verify_names_segments_that_were_renamed_or_cut(self):
        chat = os.path.join(self.dir, "00000000000000ab-chat-000000.kv")
        renamed = os.path.join(self.dir, "00000000000000ab-chat-000009.kv")
        os.rename(chat, renamed)
        said = self.kv("verify", self.dir, status=1)
        self.assertIn("segment 00000000000000ab-chat-000009.kv: it is another segment under this name, 00000000000000ab-chat-000000.kv", said)
        self.assertIn("1 damaged segments and 0 damaged blocks", said)
        os.rename(renamed, chat)
        self.kv("verify", self.dir)
        with open(chat, "r+b") as file:
            file.truncate(4 * PAGE + 100)
        said = self.kv("verify", self.dir, status=1)
        self.assertIn("segment 00000000000000ab-chat-000000.kv: it was cut", said)
        self.assertIn("damaged   00000000000000ab-chat-000000.kv: it was cut", self.kv("stat", self.dir))

    def test_what_a_killed_writer_left_in_its_last_segment_is_no_damage(self):
        with open(os.path.join(self.dir, f"{0xAB:016x}.alive"), "w", encoding="utf-8"):
            pass
        with open(os.path.join(self.dir, "00000000000000ab-chat-000000.kv"), "r+b") as file:
            file.truncate(4 * PAGE + 100)
        self.assertIn("3 blocks verified, 0 damaged", self.kv("verify", self.dir))

    def test_stat_says_where_a_server_may_know_better(self):
        self.assertNotIn("note", self.kv("stat", self.dir))
        with open(os.path.join(self.dir, f"{0xAB:016x}.alive"), "w", encoding="utf-8"):
            pass
        self.assertIn("shoal_kv_store_blocks", self.kv("stat", self.dir))

    def test_export_touches_nothing(self):
        target = os.path.join(self.root, "new")
        self.kv("export", self.dir, "--to", target)
        self.assertEqual(sorted(line.split(" h ago")[0] for line in self.kv("ls", target).splitlines()),
                         sorted(line.split(" h ago")[0] for line in self.kv("ls", self.dir).splitlines()))
        self.assertIn("3.0 to 30.0 hours ago", self.kv("stat", target))
        # Once more, and from where it is: nothing is there twice.
        self.kv("export", self.dir, target, "--to", target)
        self.assertEqual(len(self.listed(target)), 8)
        self.assertEqual(len([name for name in os.listdir(target) if name.endswith(".kv")]), 2)
        self.assertFalse([name for name in os.listdir(target) if name.endswith(".alive")])

    def test_a_damaged_version_file_is_told_from_another_version(self):
        version = os.path.join(self.dir, "shoal-kv")
        with open(version, "w", encoding="utf-8") as out:
            out.write("shoal KV store, form\0at 1\n")
        said = self.kv("stat", self.dir, status=1)
        self.assertIn("the file shoal-kv of " + self.dir + " is damaged", said)
        self.assertNotIn("another version", said)
        self.assertIn("remove that file alone", run("serve", "--port", "0", "--device", "sim", "--kv-dir", self.dir).stderr)
        os.remove(version)
        with Server("--device", "sim", "--kv-dir", self.dir) as server:
            self.assertEqual(self.visible(server), 8)

    def test_what_is_no_store_is_refused_by_name(self):
        empty = os.path.join(self.root, "empty")
        os.mkdir(empty)
        self.assertIn("holds no KV store", self.kv("stat", empty, status=1))
        self.assertEqual(os.listdir(empty), [])
        self.assertIn("nowhere", self.kv("ls", os.path.join(self.root, "nowhere"), status=1))
        with open(os.path.join(empty, "shoal-kv"), "w", encoding="utf-8") as out:
            out.write("shoal KV store, format 2\n")
        self.assertRegex(self.kv("verify", empty, status=1), re.compile("format 1"))

    def test_ceph_that_cannot_be_had_is_told_by_what_is_missing(self):
        said = self.kv("stat", "rados:shoal/kv", "--set", f"kv.ceph_conf={self.root}/ceph.conf", status=1)
        self.assertRegex(said, re.compile("name the ceph.conf of the cluster|install librados-dev"))
        self.assertIn("POOL/STORE", self.kv("stat", "rados:/kv", status=1))

    def test_ceph_without_a_configuration_is_told_by_the_option_that_names_one(self):
        for command in (("kv", "stat", "rados:shoal/kv"), ("serve", "--device", "sim", "--port", "0", "--set", "kv.store=rados")):
            done = run(*command)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("kv.ceph_conf", done.stderr)

    def test_how_long_each_class_lives_is_an_option_with_its_origin(self):
        shown = run("config", "--set", "kv.agent_hours=24").stdout
        self.assertIn("kv.agent_hours = 24  (--set)", shown)
        self.assertIn("kv.chat_hours = 168  (default)", shown)
        self.assertIn("1 .. 87600", run("config", "--set", "kv.chat_hours=0").stderr)
        serving = ("--device", "sim", "--kv-dir", self.dir)
        with Server(*serving) as server:
            self.assertEqual(self.visible(server), 8)
        with Server(*serving, "--set", "kv.agent_hours=24") as server:
            self.assertEqual(self.visible(server), 5)

    @staticmethod
    def visible(server):
        """Blocks, once all of the store is read."""
        while True:
            page = server.request("GET", "/metrics")[1]
            if "shoal_kv_store_opening 0" in page:
                return int(re.search(r"(?m)^shoal_kv_store_blocks (\d+)$", page)[1])

    def on_a_full_disk(self, directory):
        """A store of 40 blocks with a living writer, in what is then a full file system; its segment."""
        shutil.copy(os.path.join(self.dir, "shoal-kv"), directory)
        with open(os.path.join(directory, f"{0xAB:016x}.alive"), "w", encoding="utf-8"):
            pass
        name = self.write(directory, 0xAB, 1, 0, chain(40), hours=3)
        with open(os.path.join(directory, "filler"), "wb", buffering=0) as filler, self.assertRaises(OSError):
            while True:
                filler.write(bytes(PAGE))
        return name

    def test_evict_and_scrub_need_no_room_on_a_full_disk(self):
        with kv_hostile_test.mounted("size=256k") as directory:
            name = self.on_a_full_disk(directory)
            self.assertIn("30 blocks taken out", self.kv("evict", directory, "--to-bytes", str(10 * PAGE)))
            self.assertIn("10 blocks verified, 0 damaged", self.kv("verify", directory))
            self.damage(name, PAGE + 1000)
            self.assertIn("1 blocks taken out", self.kv("scrub", directory))
            self.assertIn("9 blocks verified, 0 damaged", self.kv("verify", directory))

    def test_evict_gives_back_what_was_asked_inside_a_segment_that_stays(self):
        with kv_hostile_test.mounted("size=256k") as directory:
            self.on_a_full_disk(directory)
            os.remove(os.path.join(directory, f"{0xAB:016x}.alive"))
            self.assertIn("30 blocks taken out, 0.0 MB of files removed, 0.1 MB given back inside others",
                          self.kv("evict", directory, "--to-bytes", str(10 * PAGE)))
            # But for the segment that says so.
            self.assertGreaterEqual(self.free(directory), 27 * PAGE)
            self.assertIn("10 blocks verified, 0 damaged", self.kv("verify", directory))
            free = self.free(directory)
            self.kv("evict", directory, "--to-bytes", str(5 * PAGE))
            self.assertGreaterEqual(self.free(directory), free + 2 * PAGE)
            self.assertIn("5 blocks verified, 0 damaged", self.kv("verify", directory))

    @staticmethod
    def free(directory):
        facts = os.statvfs(directory)
        return facts.f_bavail * facts.f_frsize

    def test_evict_removes_whole_segments_of_the_dead_before_it_writes(self):
        with kv_hostile_test.mounted("size=256k") as directory:
            self.on_a_full_disk(directory)
            os.remove(os.path.join(directory, f"{0xAB:016x}.alive"))
            self.assertIn("40 blocks taken out, 0.2 MB of files removed", self.kv("evict", directory, "--to-bytes", "0"))
            self.assertEqual(sorted(os.listdir(directory)), ["filler", "shoal-kv"])

    def test_without_a_directory_the_one_of_serve_is_meant(self):
        cache = os.path.join(self.root, "cache")
        config = os.path.join(self.root, "config.txtpb")
        with open(config, "w", encoding="utf-8") as out:
            out.write(f'kv {{ dir: "{self.dir}" }}')
        with Server("--device", "sim", cache=cache) as server:
            self.assertIn(f"KV is kept in {cache}/shoal/kv, up to 8.0 GiB", server.await_line(server.stdout, "KV"))
        with unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=cache):
            self.assertTrue(self.kv("stat").startswith(f"{cache}/shoal/kv\n"))
            self.assertEqual(self.kv("ls"), "")
            self.assertIn("8 blocks verified", self.kv("verify", "--config", config))
            self.assertIn("kv.store", self.kv("stat", "--set", "kv.store=none", status=1))

    def test_the_start_line_names_the_whole_path_of_a_relative_directory(self):
        relative = os.path.relpath(self.dir)
        with Server("--device", "sim", "--kv-dir", relative, "--kv-store-bytes", "5000000") as server:
            self.assertIn(f"KV is kept in {self.dir}, up to 4.8 MiB (kv.store_bytes)", server.await_line(server.stdout, "KV"))
        self.assertTrue(self.kv("stat", relative).startswith(self.dir + "\n"))

    def test_the_start_line_of_a_store_that_is_away_says_so_and_why(self):
        with Server("--device", "sim", "--kv-dir", "/proc/none/kv") as server:
            line = server.await_line(server.stdout, "KV")
            self.assertIn("KV ends with its request until its store is there, which is away: ", line)
            self.assertIn("/proc/none/kv", line)

    def test_a_server_that_keeps_no_kv_says_by_which_option(self):
        with Server("--device", "sim", "--set", "kv.store=none") as server:
            self.assertIn("KV ends with its request (kv.store is none)", server.await_line(server.stdout, "KV"))
        with Server("--device", "sim", "--set", "kv.store=memory") as server:
            self.assertIn("KV is kept in the memory of this process", server.await_line(server.stdout, "KV"))

    def test_several_directories_are_looked_at_and_one_bad_one_does_not_hide_the_others(self):
        said = self.kv("stat", os.path.join(self.root, "nowhere"), self.dir, status=1)
        self.assertIn("8: 5 exact", said)


class Keys(unittest.TestCase):
    def test_a_key_s_blocks_have_its_class_unless_a_request_says_so(self):
        with tempfile.TemporaryDirectory() as directory:
            keys = ("--api-key", "one", "--api-key", "two=2", "--set", "http.key_class=two=2=pinned")
            with Server("--device", "sim", "--kv-dir", directory, *keys) as server:
                self.assertEqual(self.grown(server, directory, "one", {}), {"chat"})
                self.assertEqual(self.grown(server, directory, "two=2", {}), {"pinned"})
                self.assertEqual(self.grown(server, directory, "two=2", {"cache_class": "chat"}), {"chat"})

    @staticmethod
    def grown(server, directory, key, more):
        """The classes that have more blocks when all of a new prompt's are stored, which may be after its answer."""
        before = run("kv", "ls", directory).stdout.splitlines()
        body = {"model": server.model, "prompt": f"{key} {more} was first. " * 150, "max_tokens": 1, **more}
        status, answer = server.request("POST", "/v1/completions", body, key)
        if status != 200:
            raise AssertionError(answer)
        blocks = answer["usage"]["prompt_tokens"] // 128
        after = []

        def has_grown():
            after[:] = run("kv", "ls", directory).stdout.splitlines()
            return len(after) == len(before) + blocks

        shoal_program.await_true(has_grown)
        return {line.split()[1] for line in set(after) - set(before)}

    def test_a_class_for_a_key_is_checked_and_not_shown(self):
        for setting, problem in [("SECRET=pinned", "not one of http.api_key"), ("known=forever", "agent, chat or pinned"), ("known", "KEY=CLASS")]:
            said = run("config", "--api-key", "known", "--set", "http.key_class=" + setting).stderr
            self.assertIn("http.key_class 1: ", said)
            self.assertIn(problem, said)
            self.assertNotIn("SECRET", said)
        twice = run("config", "--api-key", "SECRET", "--set", "http.key_class=SECRET=agent", "--set", "http.key_class=SECRET=pinned").stderr
        self.assertIn("http.key_class 2: its key has a class by an earlier one", twice)
        self.assertNotIn("SECRET", twice)
        self.assertIn("http.key_class = 1 keys  (--set)", run("config", "--api-key", "known", "--set", "http.key_class=known=agent").stdout)


class ReadMe(unittest.TestCase):
    def setUp(self):
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as readme:
            self.lines = [line for line in readme.read().splitlines() if "prompt_cache" in line or "exact, " in line]

    def ask(self, server):
        prompt = "The code of Nora is 4711. " + "The table was on the hill. " * 60 + "What is the code of Nora?"
        answer = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": prompt}], "thinking": {"type": "disabled"},
                                                      "temperature": 0})
        usage = answer["usage"]
        self.assertIn(f'    "content":"{answer["choices"][0]["message"]["content"]}" '
                      f'"prompt_cache_hit_tokens":{usage["prompt_cache_hit_tokens"]},'
                      f'"prompt_cache_miss_tokens":{usage["prompt_cache_miss_tokens"]}', self.lines)
        return usage["prompt_cache_hit_tokens"]

    @staticmethod
    def await_kept(server):
        def has_kept():
            page = server.request("GET", "/metrics")[1]
            return "shoal_kv_tails 2\n" in page and "shoal_kv_blocks_stored_total 3\n" in page
        shoal_program.await_true(has_kept)

    def test_the_example_of_the_readme_gives_what_it_says(self):
        with tempfile.TemporaryDirectory() as directory:
            with Server("--kv-dir", directory) as server:
                hits = [self.ask(server)]
                self.await_kept(server)
                hits.append(self.ask(server))
            with Server("--kv-dir", directory) as server:
                Store.visible(server)
                hits.append(self.ask(server))
            self.assertEqual(hits, [0, 441, 384])
            self.assertIn("    " + run("kv", "stat", directory).stdout.splitlines()[1], self.lines)


class Bench(unittest.TestCase):
    def test_bench_kv_replays_recorded_requests(self):
        trace = os.path.join(ROOT, "tests", "sim", "traces", "mixed-600.jsonl.gz")
        done = run("bench", "kv", "--trace", trace, "--capacity", "20%", "100%", "--policy", "ours", "lru")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(line["blocks"], line["policy"]) for line in lines],
                         [(10219, "ours"), (10219, "lru"), (51095, "ours"), (51095, "lru")])
        self.assertEqual([line["hit"] for line in lines], [0.0389, 0.0365, 0.1132, 0.1132])

    def test_bench_kv_measures_and_leaves_nothing_behind(self):
        with tempfile.TemporaryDirectory() as place:
            done = run("bench", "kv", os.path.join(place, "kv"), "--blocks", "64", "--payload", "5000", "--restart-blocks", "5000")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("64 of 64 good", done.stdout)
            # Each byte of a record is summed once: 768 of its header, 5000 of the block.
            loads = re.findall(r"^load of +(1|32) by .* checksums (\d+) of 5768 bytes: +([0-9.]+) %$", done.stdout, re.M)
            self.assertEqual([blocks for blocks, _, _ in loads], ["1", "32", "1", "32"], done.stdout)
            for _, ticks, share in loads:
                self.assertGreater(int(ticks), 0)
                self.assertLess(float(share), 100)
            self.assertIn("restart with 5000 blocks", done.stdout)
            self.assertIn("0 corrupt", done.stdout)
            self.assertEqual(os.listdir(place), [])
            with open(os.path.join(place, "mine"), "w", encoding="utf-8") as out:
                out.write("mine")
            refused = run("bench", "kv", place)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("not empty", refused.stderr)
            self.assertEqual(os.listdir(place), ["mine"])


if __name__ == "__main__":
    shoal_program.main()
