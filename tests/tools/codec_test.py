#!/usr/bin/env python3
"""`shoal codec` answers the official codec's golden cases with the official results."""
import hashlib
import itertools
import json
import lzma
import os
import struct
import tempfile
import unittest

import shoal_program
from shoal_program import GOLDEN, json_lines, run

# Where ours is right and the official result is not, as in tests/codec/stream_decode_test.cpp.
OURS_INSTEAD = {
    "calls: unicode names": {"calls": [["put", '{"város é": "漢字", "a=b string=\\"x\\"": 1}']]},
    "malformed: forced but text": {"content": "just text"},
}


def setUpModule():
    global TOKENIZER
    directory = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(directory.cleanup)
    TOKENIZER = os.path.join(directory.name, "tokenizer.json")
    with lzma.open(os.path.join(GOLDEN, "tokenizer", "tokenizer.json.xz")) as packed, open(TOKENIZER, "wb") as file:
        file.write(packed.read())


def codec(task, cases, fields):
    """The answers to the input fields of `cases`, in their order."""
    lines = "".join(json.dumps({f: case[f] for f in fields if f in case}) + "\n" for case in cases)
    done = run("codec", task, "--tokenizer", TOKENIZER, stdin=lines)
    if done.returncode != 0 or done.stderr:
        raise AssertionError(f"status {done.returncode}: {done.stderr}")
    answers = [json.loads(line) for line in done.stdout.split("\n")[:-1]]  # splitlines() also cuts at U+2028
    if [a["id"] for a in answers] != [c["id"] for c in cases]:
        raise AssertionError("the answers are not one a case, in order")
    return answers


class Golden(unittest.TestCase):
    def test_render_gives_every_chat_prompt_or_refusal(self):
        cases = [c for c in json_lines(os.path.join(GOLDEN, "render.jsonl")) if c["dialect"] == "chat"]
        self.assertEqual(len(cases), 270)
        for case, answer in zip(cases, codec("render", cases, ("id", "dialect", "body", "options"))):
            with self.subTest(id=case["id"]):
                if "error" in case:
                    self.assertEqual(answer["error"]["status"], case["error"]["status"])
                    if case["error"]["stage"] == "convert":
                        self.assertEqual(answer["error"]["body"], case["error"]["body"])
                    continue
                self.assertEqual({k: answer.get(k) for k in ("prompt", "control", "ids")},
                                 {k: case[k] for k in ("prompt", "control", "ids")})

    def test_another_dialect_is_an_error_object(self):
        cases = [c for c in json_lines(os.path.join(GOLDEN, "render.jsonl")) if c["dialect"] != "chat"][:3]
        for case, answer in zip(cases, codec("render", cases, ("id", "dialect", "body"))):
            self.assertIn(case["dialect"], answer["error"]["body"]["error"]["message"])

    def test_tokenize_gives_every_id(self):
        cases = json_lines(os.path.join(GOLDEN, "tokenize.jsonl"))
        self.assertEqual(len(cases), 557)
        for case, answer in zip(cases, codec("tokenize", cases, ("id", "text", "text_runs"))):
            with self.subTest(id=case["id"]):
                ids = answer["ids"]
                if "ids" in case:
                    self.assertEqual(ids, case["ids"])
                    continue
                self.assertEqual(len(ids), case["n_ids"])
                self.assertEqual(hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest(), case["ids_sha256"])
                if "ids_rle" in case:
                    self.assertEqual([[i, len(list(run))] for i, run in itertools.groupby(ids)], case["ids_rle"])

    def test_decode_gives_every_byte_and_character(self):
        cases = json_lines(os.path.join(GOLDEN, "decode.jsonl"))
        self.assertEqual(len(cases), 70)
        for case, answer in zip(cases, codec("decode", cases, ("id", "ids"))):
            with self.subTest(id=case["id"]):
                self.assertEqual((answer["bytes_hex"], answer["text"]), (case["bytes_hex"], case["text"]))

    def test_parse_gives_every_final_answer(self):
        cases = json_lines(os.path.join(GOLDEN, "stream.jsonl"))
        self.assertEqual(len(cases), 304)
        for case, answer in zip(cases, codec("parse", cases, ("id", "request", "chunks", "finish"))):
            with self.subTest(id=case["id"], scenario=case["scenario"]):
                self.check_final(case, answer["final"])
                self.check_steps(case, answer)

    def check_final(self, case, final):
        expected = {**case["final"], **case.get("right", {}), **OURS_INSTEAD.get(case["scenario"], {})}
        self.assertEqual((final["reasoning"], final["calls"]), (expected["reasoning"], expected["calls"]))
        if case["kind"] == "json":  # official spaces around the JSON value are no text
            self.assertEqual(final["content"].strip(" \n"), expected["content"].strip(" \n"))
        else:
            self.assertEqual(final["content"], expected["content"])
        if expected["finish"] == "not tool_calls":
            self.assertNotEqual(final["finish"], "tool_calls")
        else:
            self.assertEqual(final["finish"], expected["finish"])
        self.assertEqual(final["reasoning_tokens"] is None, expected["reasoning_tokens"] is None)

    def check_steps(self, case, answer):
        steps = answer["steps"]
        self.assertEqual(len(steps), len(case["chunks"]) + 3)
        self.assertEqual((steps[0], steps[-1]), ([["start"]], None))
        events = [event for step in steps for event in step or []]
        joined = {kind: "".join(e[1] for e in events if e[0] == kind) for kind in ("r", "c")}
        self.assertEqual((joined["r"], joined["c"]), (answer["final"]["reasoning"], answer["final"]["content"]))
        self.assertEqual(events[-1][:3], ["end", answer["final"]["finish"], answer["final"]["completion_tokens"]])


class Lines(unittest.TestCase):
    def test_the_built_in_model_is_the_default(self):
        done = run("codec", "tokenize", stdin='{"id": 7, "text": "Hello there."}\n')
        self.assertEqual(json.loads(done.stdout), {"id": 7, "ids": json.loads(run("tokenize", "Hello there.").stdout)})

    def test_a_line_that_is_no_case_is_named_and_the_others_are_answered(self):
        good = '{"id": "a", "ids": [43]}\n'
        for bad in ("{", "[]", '{"id": "b"}', '{"id": "b", "ids": "x"}', '{"id": "b", "ids": [0.5]}', ""):
            with self.subTest(bad=bad):
                done = run("codec", "decode", stdin=good + bad + "\n" + good)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(done.stdout.count("\n"), 2)
                self.assertEqual(done.stderr.count("\n"), 1)
                self.assertIn("line 2: ", done.stderr)

    def test_what_only_our_api_accepts_is_rendered_as_served(self):
        body = json.dumps({"model": "m", "n": 2, "messages": [{"role": "user", "content": "Hi"}]})
        line = json.dumps({"id": 1, "dialect": "chat", "body": body}) + "\n"
        self.assertIn("error", json.loads(run("codec", "render", stdin=line).stdout))
        self.assertIn("prompt", json.loads(run("codec", "render", "--as-served", stdin=line).stdout))

    def test_an_image_is_spelled_as_asked(self):
        image = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": [image]}]})
        line = json.dumps({"id": 1, "dialect": "chat", "body": body}) + "\n"
        plain, spelled = (json.loads(run("codec", "render", "--tokenizer", TOKENIZER, *more, stdin=line).stdout)
                          for more in ((), ("--placeholder", "<picture>")))
        self.assertIn("<｜image｜>", plain["prompt"])
        self.assertEqual(plain["prompt"].replace("<｜image｜>", "<picture>"), spelled["prompt"])
        self.assertEqual(plain["ids"], spelled["ids"])

    def test_a_token_outside_the_vocabulary_fails_the_answer(self):
        case = {"id": 1, "request": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}, "chunks": [{"ids": [99999]}]}
        answer = json.loads(run("codec", "parse", stdin=json.dumps(case) + "\n").stdout)
        self.assertEqual(answer["error"]["status"], 500)


if __name__ == "__main__":
    shoal_program.main()
