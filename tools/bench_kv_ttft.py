#!/usr/bin/env python3
"""Time to the first token of a prompt whose KV is there, beside that of one whose KV is not.

    tools/bench_kv_ttft.py [--shoal build/tools/shoal] [--tokens 2000] [--rounds 20] [--replay bounded]

Two servers with fresh KV directories, one of them without tails; one request at a time. A round asks each a new prompt (cold),
then the same again of the one without tails (blocks), and of the other one that goes on from the last answer, 300 tokens longer
(tail): they are interleaved, so that all meet the same machine."""
import argparse
import contextlib
import http.client
import json
import os
import random
import statistics
import tempfile
import time

from bench_serve import LIMIT_S, ROOT
from kv_recall import BEGIN, BLOCK, FILLER, USER, Kept


def first_token_s(server, prompt, replay):
    """(seconds to the first event of the stream, token ids of the answer)"""
    body = {"model": server.model, "prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": True, "stream": True,
            "replay": replay, "return_token_ids": True}
    connection = http.client.HTTPConnection(*server.address, timeout=LIMIT_S)
    with contextlib.closing(connection):
        began = time.monotonic()
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        first, ids = None, []
        for line in response:
            if line.startswith(b"data: {"):
                first = first or time.monotonic() - began
                choices = json.loads(line[6:])["choices"]
                ids += choices[0].get("token_ids") or [] if choices else []
        return first, ids


def words(rng, server, tokens):
    text = BEGIN + USER
    while True:
        text += " ".join(rng.choice(FILLER) for _ in range(tokens // 8)) + " "
        ids = server.tokens(text)
        if len(ids) >= tokens:
            return ids[:tokens]


def measure(args):
    times = {"cold": [], "blocks": [], "tail": []}
    with contextlib.ExitStack() as stack:
        keeps, plain = (stack.enter_context(Kept(args.shoal, stack.enter_context(tempfile.TemporaryDirectory()), tails))
                        for tails in (True, False))
        for number in range(args.rounds):
            rng = random.Random(number)
            prompt = words(rng, keeps, args.tokens)
            ids = []
            for server in (keeps, plain):
                blocks, tails = server.metric("shoal_kv_store_blocks"), server.metric("shoal_kv_tails")
                seconds, ids = first_token_s(server, prompt, args.replay)
                times["cold"].append(seconds)
                server.await_kept(blocks + args.tokens // BLOCK, tails + 2 if server is keeps else 0)
            times["blocks"].append(first_token_s(plain, prompt, args.replay)[0])
            times["tail"].append(first_token_s(keeps, [*prompt, *ids, *words(rng, keeps, 300)[2:]], args.replay)[0])
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shoal", default=os.path.join(ROOT, "build", "tools", "shoal"))
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--replay", choices=("bounded", "exact"), default="bounded")
    args = parser.parse_args()
    times = measure(args)
    cold = statistics.median(times["cold"])
    for name, label in (("cold", "cold"), ("blocks", "the same again, behind blocks"), ("tail", "next turn, from its session's tail")):
        median = statistics.median(times[name])
        print(f"{label:<36} p50 {median * 1e3:7.1f} ms  p90 {sorted(times[name])[len(times[name]) * 9 // 10] * 1e3:7.1f} ms  {median / cold:5.1%} of cold")


if __name__ == "__main__":
    main()
