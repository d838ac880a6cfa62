#!/usr/bin/env python3
"""Tells guppy facts and asks for them later, where the KV of the telling is reused: does it still know, token for token?

    tools/kv_recall.py [--shoal build/tools/shoal] [--conversations 200] [--replay bounded] [--tokens 400 900]

Each conversation is two turns: a fact among other sentences, then the question. The second turn is asked
  same     of the process that answered the first;
  killed   of a new process, after the first was killed with SIGKILL;
  shared   of a second process that shares the first one's directory and never saw the first turn;
  expired  of the process that answered the first, when the session's tail is gone.
Everything is compared with a server that keeps nothing (uncached). "hit" is the share of the second prompt that was not
computed."""
import argparse
import contextlib
import http.client
import json
import os
import random
import statistics
import sys
import tempfile
import time

from bench_serve import LIMIT_S, ROOT, Server

CASES = ("same", "killed", "shared", "expired")
NAMES = ("Clara", "David", "Hugo", "Lena", "Jasper", "Nora", "Oscar", "Paula", "Rosa", "Victor")
FILLER = ("The table was on the hill.", "In the valley the frog and the spider jumped.", "Felix is a writer and likes reading.",
          "Karin saw a slow lizard near the cave.", "In the market the deer and the goose looked.", "The brave lizard laughed in the castle.",
          "The weather was bright and the bear jumped.", "There was a purple lake in the barn.", "Dora gave the train to Iris.",
          "The quiet mouse waited in the valley.", "The spoon was on the road.", "The small goose sang in the castle.")
BEGIN, USER, ASSISTANT = "<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜></think>"
EOS = 1
BLOCK = 128


class Kept(Server):
    """A server on a KV directory; tails are kept, or gone at once."""

    def __init__(self, shoal, directory, tails=True):
        keeps = ["--kv-dir", directory] if directory else ["--set", "kv.store=none"]
        super().__init__(shoal, [*keeps, *([] if tails else ["--set", "kv.tail_bytes=0"])])
        if directory:
            self.await_true("its store is not open", lambda: self.metric("shoal_kv_store_opening") == 0)

    def post(self, path, body):
        connection = http.client.HTTPConnection(*self.address, timeout=LIMIT_S)
        with contextlib.closing(connection):
            connection.request("POST", path, json.dumps({"model": self.model, **body}), {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = json.load(response)
            if response.status != 200:
                sys.exit(f"kv_recall: {path}: {answer}")
            return answer

    def tokens(self, text):
        return self.post("/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]

    def ask(self, prompt, replay):
        """(token ids of the answer, its text, prompt tokens that were not computed)"""
        answer = self.post("/v1/completions", {"prompt": prompt, "max_tokens": 40, "temperature": 0, "replay": replay, "return_token_ids": True})
        choice = answer["choices"][0]
        return choice["token_ids"], choice["text"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def await_kept(self, blocks, tails):
        """Until that many blocks are durable and so many tails are there: they are kept behind the answers."""
        self.await_true(f"not all of {blocks} blocks and {tails} tails were kept",
                        lambda: self.metric("shoal_kv_store_blocks") >= blocks and self.metric("shoal_kv_tails") >= tails)

    @staticmethod
    def await_true(otherwise, holds):
        limit = time.monotonic() + LIMIT_S
        while not holds():
            if time.monotonic() > limit:
                sys.exit(f"kv_recall: {otherwise}")

    def metric(self, name):
        connection = http.client.HTTPConnection(*self.address, timeout=LIMIT_S)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            page = connection.getresponse().read().decode()
            return next(int(line.split()[1]) for line in page.splitlines() if line.startswith(name + " "))


class Conversation:
    def __init__(self, seed, length):
        rng = random.Random(seed)
        self.name, self.code = rng.choice(NAMES), str(rng.randint(1000, 9999))
        self.length, self.rng = length, rng
        self.first, self.second, self.told = [], [], []

    def begin(self, server):
        """Writes the first turn, as long as was asked for."""
        told = f"The code of {self.name} is {self.code}."
        while not self.first or len(self.first) < self.length:
            told += "".join(" " + self.rng.choice(FILLER) for _ in range(8))
            self.first = server.tokens(f"{BEGIN}{USER}{told} What is shoal?{ASSISTANT}")
        self.question = server.tokens(f"{USER}What is the code of {self.name}?{ASSISTANT}")

    def answered(self, ids):
        """The second turn goes on from the first one's answer."""
        ended = ids if ids and ids[-1] == EOS else [*ids, EOS]
        self.second = [*self.first, *ended, *self.question]

    def is_right(self, text):
        return self.code in text


def tell(server, conversations, replay):
    for conversation in conversations:
        conversation.begin(server)
        conversation.answered(server.ask(conversation.first, replay)[0])


def ask(server, conversations, replay):
    return [server.ask(conversation.second, replay) for conversation in conversations]


def blocks_of(conversations):
    return len({tuple(c.second[:end]) for c in conversations for end in range(BLOCK, len(c.first) + 1, BLOCK)})


def measure(shoal, conversations, replay, cases=CASES):
    """{case: [(token ids, text, cached tokens) per conversation]}"""
    answers = {}
    with Kept(shoal, None) as server:
        tell(server, conversations, replay)
        answers["uncached"] = ask(server, conversations, replay)
    for case in cases:
        with tempfile.TemporaryDirectory() as directory:
            with Kept(shoal, directory, tails=case != "expired") as server:
                tell(server, conversations, replay)
                server.await_kept(blocks_of(conversations), 0 if case == "expired" else 2 * len(conversations))
                if case in ("same", "expired"):
                    answers[case] = ask(server, conversations, replay)
                elif case == "shared":
                    with Kept(shoal, directory) as other:
                        answers[case] = ask(other, conversations, replay)
            if case == "killed":
                with Kept(shoal, directory) as server:
                    answers[case] = ask(server, conversations, replay)
    return answers


def report(conversations, answers):
    print(f"{'case':<10}{'same tokens':>12}{'tokens equal':>14}{'fact right':>12}{'hit':>8}")
    for case, asked in answers.items():
        equal = sum(ids == cold[0] for (ids, _, _), cold in zip(asked, answers["uncached"]))
        pairs = [(a, b) for (ids, _, _), cold in zip(asked, answers["uncached"]) for a, b in zip(ids, cold[0])]
        right = sum(c.is_right(text) for c, (_, text, _) in zip(conversations, asked))
        hit = statistics.mean(cached / len(c.second) for c, (_, _, cached) in zip(conversations, asked))
        print(f"{case:<10}{equal:>6}/{len(asked):<5}{sum(a == b for a, b in pairs) / len(pairs):>13.1%}{right:>7}/{len(asked):<5}{hit:>7.1%}")


def conversations(count, shortest, longest):
    return [Conversation(seed, shortest + (longest - shortest) * seed // max(count - 1, 1)) for seed in range(count)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shoal", default=os.path.join(ROOT, "build", "tools", "shoal"))
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--replay", choices=("bounded", "exact"), default="bounded")
    parser.add_argument("--tokens", type=int, nargs=2, default=(400, 900), metavar=("SHORTEST", "LONGEST"), help="of the first turn")
    args = parser.parse_args()
    asked = conversations(args.conversations, *args.tokens)
    report(asked, measure(args.shoal, asked, args.replay))


if __name__ == "__main__":
    main()
