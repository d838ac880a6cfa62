#!/usr/bin/env python3
"""What drafts and the step ahead bring, measured on servers that it starts itself and that stay beside each other.

    tools/bench_drafts.py [--binary build/tools/shoal] [--device cpu] [--parts drafts,idle,acceptance] [-- OPTION=VALUE ...]

A round asks every server the same, one after the other, in an order that rotates: all meet the same machine. Clients wait for their
answers, as many at once as --batches says. Requests are the chats of the built-in model's golden answers, half of them at temperature 0,
half at 0.7 with seeds; servers keep no KV. Ratios are medians of those of rounds, with a 95 % interval by bootstrap.

drafts: decode.drafts none, fixed5 and group. tokens/s by the clock on the wall, prompts and HTTP included, and by the device's time in
decode steps. idle: decode.steps_ahead 0 and 1, and how much of that time and the gaps between steps the device had nothing to do.
Of both, answers must be the same on all servers, or it ends with status 1. acceptance (of the device cpu): five drafts of each answer,
coupled and by rejection sampling, whose answers are others.

--device sim: answers of 128 tokens, steps of 20 ms, and --cost of that more for a step of the largest batch with five drafts of each."""
import argparse
import collections
import contextlib
import dataclasses
import http.client
import json
import os
import random
import statistics
import sys
import threading
import time

from bench_serve import ROOT, Server

GOLDEN = os.path.join(ROOT, "deploy", "models", "guppy", "golden.jsonl")
LIMIT_S = 600  # for an answer: it hangs; beside others on a machine that all share, one may take minutes
PLACES = 5  # drafts of an answer at most
STEP_NS = 20_000_000
PARTS = ("drafts", "idle", "acceptance")


class Served(Server):
    """A server with options, by the name that tables have for it."""

    def __init__(self, shoal, name, options):
        self.name = name
        super().__init__(shoal, [a for option in options for a in ("--set", option)])

    def metrics(self):
        with contextlib.closing(http.client.HTTPConnection(*self.address, timeout=LIMIT_S)) as connection:
            connection.request("GET", "/metrics")
            page = connection.getresponse().read().decode()
        return collections.Counter({name: float(value) for name, value in (line.split() for line in page.splitlines() if line[0] != "#")})


def said(answer):
    """What must not depend on drafts: all of an answer but its ids and time."""
    choice = answer["choices"][0]
    for call in choice["message"].get("tool_calls") or []:
        call.pop("id")
    return choice, answer["usage"]["completion_tokens"]


def ask(server, requests, parallel):
    """What came of each request, `parallel` at any time."""
    waiting, answers = collections.deque(enumerate(requests)), [None] * len(requests)

    def client():
        with contextlib.closing(http.client.HTTPConnection(*server.address, timeout=LIMIT_S)) as connection:
            while True:
                try:
                    number, body = waiting.popleft()
                except IndexError:
                    return
                connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
                response = connection.getresponse()
                answer = json.load(response)
                answers[number] = said(answer) if response.status == 200 else answer

    clients = [threading.Thread(target=client) for _ in range(parallel)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    bad = next((answer for answer in answers if not isinstance(answer, tuple)), ())
    if bad != ():
        sys.exit(f"bench_drafts: a request failed: {bad}")
    return answers


@dataclasses.dataclass
class Round:
    """Of one server."""
    seconds: float
    counts: collections.Counter  # what its counters grew by

    def tokens_per_s(self, clock):
        seconds = self.seconds if clock == "wall" else self.counts["shoal_decode_compute_ns_total"] / 1e9
        return self.counts["shoal_decode_tokens_total"] / seconds

    def idle(self):
        idle = self.counts["shoal_decode_idle_ns_total"]
        return idle / (self.counts["shoal_decode_compute_ns_total"] + idle)

    def accepted_per_step(self):
        """Drafts accepted of an answer whose drafts a step verified."""
        return sum(places(self.counts, "accepted")) / places(self.counts, "verified")[0]


def places(counts, what):
    return [counts[f'shoal_drafts_{what}_total{{place="{place}"}}'] for place in range(1, PLACES + 1)]


class Bench:
    def __init__(self, args):
        self.args = args
        self.full = args.full or args.device == "sim"
        with open(GOLDEN, encoding="utf-8") as lines:
            # Those that the API takes as they are.
            self.cases = [case for case in map(json.loads, lines) if case["tag"] not in ("json", "tool_result")]
        random.Random(0).shuffle(self.cases)

    def requests(self, number, batch, temperature):
        """Those of a round. Temperature None: 0 and 0.7 in turn."""
        count = batch if self.full else self.args.answers or max(16, 2 * batch)
        for i in range(number * count, (number + 1) * count):
            case = self.cases[i % len(self.cases)]
            # Every other time through the cases, the other half is sampled.
            drawn = 0.7 * ((i + i // len(self.cases)) % 2) if temperature is None else temperature
            body = {"messages": case["messages"], "reasoning_effort": case["thinking_effort"] or "none", "temperature": drawn, "seed": i,
                    "max_tokens": self.args.max_tokens, "ignore_eos": self.full}
            yield {**body, "tools": case["tools"]} if case["tools"] else body

    @contextlib.contextmanager
    def servers(self, configurations, cost):
        """One of each configuration: a name and its options."""
        options = ["kv.store=none", "kv.tail_bytes=0", f"compute.device={self.args.device}", *self.args.serve]
        if self.args.device == "sim":
            most = max(self.args.batches)
            options += [f"sim.step_ns={STEP_NS}", f"sim.row_ns={int(cost * STEP_NS / (most * (PLACES + 1)))}", "sim.draft_ns=20000",
                        f"sim.drafts={PLACES}", "sim.eos_period=0"]
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(Served(self.args.binary, name, [*options, *more])) for name, more in configurations.items()]

    def rounds(self, servers, batch, temperature=None, same=True):
        """Of each server, by its name; the first one makes them warm and is not counted."""
        counted = {server.name: [] for server in servers}
        for number in range(self.args.rounds + 1):
            requests, answers = list(self.requests(number, batch, temperature)), {}
            for i in range(len(servers)):
                server = servers[(number + i) % len(servers)]
                before, began = server.metrics(), time.monotonic()
                answers[server.name] = ask(server, requests, batch)
                seconds, after = time.monotonic() - began, server.metrics()
                after.subtract(before)
                counted[server.name].append(Round(seconds, after))
            if same:
                compare(answers, f"round {number} at batch {batch}")
        return {name: rounds[1:] for name, rounds in counted.items()}


def compare(answers, where):
    (first, expected), *others = answers.items()
    for name, got in others:
        for number, (one, other) in enumerate(zip(expected, got)):
            if one != other:
                sys.exit(f"bench_drafts: request {number} of {where} has another answer with {name} than with {first}:\n{other}\n{one}")


def interval(values):
    """(median, low, high): 95 % of the medians of what is drawn from them with replacement."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), medians[50], medians[1949]


def ratios(rounds, base, of):
    return interval([of(one) / of(other) for one, other in zip(rounds, base)])


def measure_drafts(bench, cost):
    names = ("none", "fixed5", "group")
    with bench.servers({name: [f"decode.drafts={name}"] for name in names}, cost) as servers:
        for batch in bench.args.batches:
            rounds = bench.rounds(servers, batch)
            for name, clock in ((name, clock) for name in names for clock in ("wall", "device")):
                def speed(r, clock=clock):
                    return r.tokens_per_s(clock)
                total = sum((r.counts for r in rounds[name]), collections.Counter())
                verified = sum(places(total, "verified"))
                answers = total["shoal_decode_rows_total"] - verified
                yield {"batch": batch, "drafts": name, "clock": clock, "tokens_per_s": statistics.median(map(speed, rounds[name])),
                       "to_none": ratios(rounds[name], rounds["none"], speed), "to_fixed5": ratios(rounds[name], rounds["fixed5"], speed),
                       "answers": answers / total["shoal_decode_steps_total"], "verified": verified / answers,
                       "tokens": total["shoal_decode_tokens_total"] / answers}


def measure_idle(bench, cost):
    with bench.servers({ahead: [f"decode.steps_ahead={ahead}"] for ahead in (0, 1)}, cost) as servers:
        for batch in bench.args.batches:
            rounds = bench.rounds(servers, batch)
            for ahead, of_server in rounds.items():
                def speed(r):
                    return r.tokens_per_s("wall")
                yield {"batch": batch, "steps_ahead": ahead, "idle_percent": interval([100 * r.idle() for r in of_server]),
                       "tokens_per_s": statistics.median(map(speed, of_server)), "to_0": ratios(of_server, rounds[0], speed)}


def measure_acceptance(bench, _):
    configurations = {name: ["decode.drafts=fixed5", f"decode.acceptance={name}"] for name in ("coupled", "rejection")}
    for temperature in (0, 0.7, 1.0):
        # Others for each temperature: what they say of their heads is of all that they drew.
        with bench.servers(configurations, None) as servers:
            rounds = bench.rounds(servers, sorted(bench.args.batches)[len(bench.args.batches) // 2], temperature, same=temperature == 0)
            for server in servers:
                total = sum((r.counts for r in rounds[server.name]), collections.Counter())
                shares = [a / v for a, v in zip(places(total, "accepted"), places(total, "verified"))]
                errors = {f"error_{which}_percent": server.metrics()[f"shoal_drafts_error_{which}_ppm"] / 1e4 for which in ("said", "tempered")}
                yield {"temperature": temperature, "acceptance": server.name,
                       "accepted": Round(0, total).accepted_per_step(),
                       "to_coupled": ratios(rounds[server.name], rounds["coupled"], Round.accepted_per_step),
                       **{f"place_{place}": share for place, share in enumerate(shares, 1)}, **errors}


def shown(value):
    if isinstance(value, tuple):
        return "{:.3f} [{:.3f}, {:.3f}]".format(*value)
    return f"{value:,.0f}" if isinstance(value, float) and value >= 100 else f"{value:.3f}" if isinstance(value, float) else str(value)


def report(rows, as_json):
    if as_json:
        for row in rows:
            print(json.dumps({"bench": "drafts", **row}), flush=True)
        return
    cells = [list(rows[0]), *([shown(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    for row in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths)).rstrip(), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "build", "tools", "shoal"), help="the program")
    parser.add_argument("--device", choices=("cpu", "sim"), default="cpu")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=PARTS, help="comma-separated, of " + ", ".join(PARTS))
    parser.add_argument("--batches", type=lambda text: [int(batch) for batch in text.split(",")], default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--answers", type=int, default=0, help="of a round on the device cpu; 0: two for each of the batch, 16 at least")
    parser.add_argument("--full", action="store_true", help="answers go on behind their ends, so batches are full; with the device sim they do")
    parser.add_argument("--max-tokens", type=int, default=128, help="of an answer")
    parser.add_argument("--cost", type=float, default=0.5, help="of --device sim: of a step's fixed time")
    parser.add_argument("--json", action="store_true", help="a line of JSON a row")
    parser.add_argument("serve", nargs="*", metavar="OPTION=VALUE", help="options of all servers, after --")
    args = parser.parse_args()
    if not set(args.parts) <= set(PARTS) or min(args.batches + [args.rounds, args.max_tokens]) < 1:
        parser.error(f"--parts are of {', '.join(PARTS)}; batches, rounds and tokens are at least 1")
    bench = Bench(args)
    measures = {"drafts": measure_drafts, "idle": measure_idle, "acceptance": measure_acceptance}
    if not args.json:
        print("$", " ".join(sys.argv), f"({os.cpu_count()} CPUs)")
    for part in args.parts:
        if args.device == "cpu" or part != "acceptance":
            report([{"part": part, "device": args.device, **row} for row in measures[part](bench, args.cost)], args.json)


if __name__ == "__main__":
    main()
