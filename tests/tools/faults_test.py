#!/usr/bin/env python3
"""Real processes under kill -9 and SIGSTOP, one role after the other, while clients read long answers.

Only counts are asserted. The longest wait of a client is printed by its parts: until the loss was noticed (a stopped process is
silent for supervisor.heartbeat_ms * supervisor.dead first), until what was lost was computed again, queues included, and the rest."""
import queue
import re
import shlex
import time
import unittest
from datetime import datetime

import shoal_program
from shoal_cluster import Cluster
from shoal_program import DEADLINE_S
from shoal_streams import Streams

STREAMS = 16


def topology(owner, /, **roles):
    """A cluster whose nodes write down all they decide."""
    def node(name, roles):
        http = "http_port: 0" if "gateway" in roles else ""
        return f'node {{ name: "{name}" role: [{roles}] control_port: 0 bulk_port: 0 {http} }}'
    return f'''
cluster: "faults"
state_dir: "shoal-state"
owner: "{owner}"
config {{ compute {{ threads: 1 }} kv {{ blocks: 256 }} log {{ level: "debug" }} }}
''' + "\n".join(node(*item) for item in roles.items())


class LoggedCluster(Cluster):
    def __init__(self, owner, /, **roles):
        self.logs, self.owner, self.roles = {}, owner, roles
        super().__init__(topology(owner, **roles))
        for name in roles:
            self.await_linked(name)

    def start(self, name):
        super().start(name)
        self.logs[name] = Log(self.nodes[name])

    def others(self, name):
        """The logs of the nodes that have a link to it: prefill and decode nodes have none to each other."""
        def talks_to_all(node):
            return node == self.owner or "gateway" in self.roles[node] or "router" in self.roles[node]
        return [log for other, log in self.logs.items() if other != name and (talks_to_all(other) or talks_to_all(name))]

    def await_lost(self, name, since):
        """Until all others have noticed; when the last one did."""
        return max(log.wait_for("peer.down", since, node=name)[0] for log in self.others(name))

    def await_linked(self, name, since=0.0):
        for log in self.others(name):
            log.wait_for("peer.up", since, node=name)


def log_time():
    """Now, as a log would write it: in whole milliseconds."""
    return int(time.time() * 1000) / 1000


class Log:
    """What a node has written so far, as (time, event, fields)."""

    def __init__(self, node):
        self.node, self.entries, self.ended = node, [], False

    def read(self, wait_s):
        """One more line; False if there is none by then."""
        try:
            line = None if self.ended else self.node.stderr.get(timeout=wait_s) if wait_s > 0 else self.node.stderr.get_nowait()
        except queue.Empty:
            return False
        self.ended = line is None
        if line:
            when, _, event, *fields = shlex.split(line)
            self.entries.append((datetime.fromisoformat(when).timestamp(), event, dict(field.split("=", 1) for field in fields)))
        return not self.ended

    def select(self, pattern, since, /, **fields):
        """`pattern` is of the event's name."""
        while self.read(0):
            pass
        return [(when, found) for when, name, found in self.entries
                if when >= since and re.fullmatch(pattern, name) and fields.items() <= found.items()]

    def wait_for(self, pattern, since=0.0, /, nth=1, **fields):
        deadline = time.monotonic() + DEADLINE_S
        while len(found := self.select(pattern, since, **fields)) < nth:
            if not self.read(deadline - time.monotonic()):
                raise AssertionError(f"{self.node.up_line.strip()} did not log {pattern} {fields}")
        return found[nth - 1]


class FollowedStreams(Streams):
    """Streams, and the number that the cluster knows each one by."""

    def __init__(self, cluster, *shape):
        log = cluster.logs["front"]
        self.requests, since = [], log_time()

        def follow():
            _, entry = log.wait_for("request.submitted", since, nth=len(self.requests) + 1, attempt="1")
            self.requests.append(entry["request"])
        super().__init__(cluster.front, STREAMS, *shape, each=follow)


def tokens_of(answer):
    return answer[0][0]["token_ids"]


def count(answers, expected):
    lost = [answer for answer in answers if isinstance(answer, Exception)]
    for error in lost:
        print(f"  lost: {error!r}", flush=True)
    both = [(tokens_of(answer), tokens_of(wanted)) for answer, wanted in zip(answers, expected) if isinstance(answer, tuple)]
    return {"lost": len(lost) + sum(len(got) < len(wanted) for got, wanted in both),
            "hung": sum(answer is None for answer in answers),
            "duplicated": sum(len(got) > len(wanted) for got, wanted in both),
            "changed": sum(got != wanted for got, wanted in both)}


TABLE = "{:14} {:>6} {:>7} {:>12} {:>10} {:>14} {:>5} {:>13} {:>12}"
NONE = {"lost": 0, "hung": 0, "duplicated": 0, "changed": 0}


def longest_gap(arrivals, fault):
    """(from, to) of a stream's longest wait after the fault."""
    before = [when for when in arrivals if when <= fault]
    times = [before[-1] if before else fault] + [when for when in arrivals if when > fault]
    return max(zip(times, times[1:]), key=lambda gap: gap[1] - gap[0], default=(fault, fault))


class Pause:
    """The longest wait of one client from the fault on, and what it was for. `struck` if the fault reached this stream: it was
    tried again, or its KV was handed to another decode node. The rest has the steps that wait for a core in it."""

    def __init__(self, request, arrivals, fault, gateway, routers):
        began, ended = longest_gap(arrivals, fault)
        again = [found for found in gateway.select("request.submitted", fault, request=request) if found[1]["attempt"] != "1"]
        moved = [found for log in routers for found in log.select("request.*", fault, request=request, event="decode_lost")]
        self.struck = bool(again or moved)
        noticed = computed = fault
        if again:
            noticed, entry = again[0]
            computed = min((when for log in routers for when, _ in log.select(
                "request.*", noticed, request=request, attempt=entry["attempt"], event="prefill_done")), default=noticed)
        elif moved:
            noticed = computed = moved[0][0]
        # Only while the client waited: tokens pass by the router, so nobody does before its loss is noticed.
        self.noticed = noticed - fault
        self.total = ended - began
        self.detection = max(0.0, min(noticed, ended) - max(fault, began))
        self.recomputation = max(0.0, min(computed, ended) - max(noticed, began))
        self.rest = self.total - self.detection - self.recomputation


class EveryRoleInTurn(unittest.TestCase):
    LONG, WIDE = (240, 20), (30, 400)  # tokens of answer and prompt: the fault falls into decoding, or into prefill

    @classmethod
    def setUpClass(cls):
        cls.cluster = LoggedCluster("front", front="gateway", router1="router", router2="router", prefill1="prefill",
                                    prefill2="prefill", decode1="decode", decode2="decode")
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.expected = {shape: Streams(cls.cluster.front, STREAMS, *shape).answers() for shape in (cls.LONG, cls.WIDE)}
        print("\n" + TABLE.format("fault", "struck", "noticed", "longest wait", "detection", "recomputation", "rest",
                                 "largest rest", "others wait"), "  (ms)", flush=True)

    def test_killed_and_started_again(self):
        for role in ("router", "prefill", "decode"):
            for number in (1, 2):
                self.fault(f"{role}{number}", "kill", self.cluster.kill, self.cluster.start)

    def test_stopped_and_continued(self):
        for role in ("router", "prefill", "decode"):
            for number in (1, 2):
                victim = f"{role}{number}"
                back = self.fault(victim, "stop", self.cluster.stop, self.cluster.resume)
                self.cluster.logs[victim].wait_for("node.fenced", back)

    def fault(self, victim, how, strike, repair):
        """Strikes while all streams run, brings the victim back when they run again, and waits until the cluster is whole."""
        shape = self.WIDE if victim.startswith("prefill") else self.LONG
        streams = FollowedStreams(self.cluster, *shape)
        if shape is self.WIDE:
            streams.await_started(2)
        else:  # one time the last stream is just handed over, one time all are in the middle
            streams.await_each(lambda arrivals: len(arrivals) >= (1 if victim.endswith("1") else 40))
        self.assertGreater(streams.open(), 0)
        fault = log_time()
        strike(victim)
        self.cluster.await_lost(victim, fault)
        streams.await_news(time.time())
        back = log_time()
        repair(victim)
        answers = streams.answers()
        self.cluster.await_linked(victim, back)
        self.cluster.await_whole()
        struck = self.tell(f"{how} {victim}", streams, fault)
        with self.subTest(f"{how} {victim}"):
            self.assertEqual(count(answers, self.expected[shape]), NONE)
            if how == "kill":  # while it is only stopped, answers may come to their end without it
                self.assertGreater(struck, 0)
        return back

    def tell(self, name, streams, fault):
        logs = self.cluster.logs
        pauses = [Pause(request, arrivals, fault, logs["front"], [logs["router1"], logs["router2"]])
                  for request, arrivals in zip(streams.requests, streams.arrivals)]
        struck = sorted((pause for pause in pauses if pause.struck), key=lambda pause: -pause.total)
        times = [(p.noticed, p.total, p.detection, p.recomputation, p.rest) for p in struck[:1]] or [(0.0,) * 5]
        rest = max((p.rest for p in struck), default=0.0)
        others = max((p.total for p in pauses if not p.struck), default=0.0)
        print(TABLE.format(name, len(struck), *(f"{1000 * t:.0f}" for t in (*times[0], rest, others))), flush=True)
        return len(struck)


def gauges(server, *names):
    page = server.request("GET", "/metrics")[1]
    return [int(re.search(rf"^shoal_{name} (\d+)$", page, re.MULTILINE)[1]) for name in names]


class Gateways(unittest.TestCase):
    """All nodes serve HTTP, so that each one's metrics can be read. The owner of the membership does nothing else."""
    SHAPE = (200, 20)

    @classmethod
    def setUpClass(cls):
        cls.cluster = LoggedCluster("owner", owner="gateway", front="gateway", middle="gateway, router, prefill",
                                    decode="gateway, decode")
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.expected = Streams(cls.cluster.front, STREAMS, *cls.SHAPE).answers()

    def streams(self):
        streams = FollowedStreams(self.cluster, *self.SHAPE)
        streams.await_started()
        self.assertGreater(streams.open(), 0)
        return streams

    def assert_answered(self, streams):
        self.assertEqual(count(streams.answers(), self.expected), NONE)

    def assert_nobody_was_fenced(self, since):
        for name in ("front", "middle", "decode"):
            self.assertEqual(self.cluster.logs[name].select("node.fenced", since), [])

    def await_idle(self):
        """Until no node holds anything of any answer."""
        def held():
            yield from gauges(self.cluster.nodes["middle"], "ledger_open", "decode_live")
            for node in ("middle", "decode"):
                blocks, free_blocks, slots, free_slots = gauges(
                    self.cluster.nodes[node], "kv_blocks", "kv_blocks_free", "kv_sequences", "kv_sequences_free")
                yield from (blocks - free_blocks, slots - free_slots)
        deadline = time.monotonic() + DEADLINE_S
        while any(now := list(held())):
            self.assertLess(time.monotonic(), deadline, now)

    def test_a_killed_gateway_resets_its_sockets_and_its_work_is_cancelled(self):
        streams = self.streams()
        fault = log_time()
        self.cluster.kill("front")
        noticed = self.cluster.await_lost("front", fault)
        self.await_idle()
        idle = time.time()
        router = self.cluster.logs["middle"]
        # Failed: the decode node noticed first, and told the router.
        cancelled = max(router.wait_for("request.(cancelled|failed)", fault, request=request)[0] for request in streams.requests)
        print(f"\ngateway killed: noticed by all after {1000 * (noticed - fault):.0f} ms, all work cancelled after "
              f"{1000 * (cancelled - fault):.0f} ms, all KV free after {1000 * (idle - fault):.0f} ms", flush=True)
        answers = streams.answers()
        self.cluster.start("front")
        self.cluster.await_linked("front", fault)
        self.assertEqual([answer for answer in answers if not isinstance(answer, Exception)], [])
        self.assert_answered(self.streams())

    def test_a_stopped_gateway_goes_on_with_its_streams_when_it_is_continued(self):
        streams = self.streams()
        fault = log_time()
        self.cluster.stop("front")
        noticed = self.cluster.await_lost("front", fault)
        self.await_idle()
        print(f"\ngateway stopped: noticed by all after {1000 * (noticed - fault):.0f} ms, all KV free after "
              f"{1000 * (time.time() - fault):.0f} ms", flush=True)
        self.cluster.resume("front")
        self.cluster.logs["front"].wait_for("node.fenced", fault)
        self.assert_answered(streams)
        self.await_idle()
        self.cluster.await_linked("front", noticed)

    def test_serving_goes_on_while_the_owner_of_the_membership_is_dead(self):
        streams = self.streams()
        fault = log_time()
        self.cluster.kill("owner")
        noticed = self.cluster.await_lost("owner", fault)
        self.assert_answered(streams)
        streams = self.streams()
        self.cluster.start("owner")
        self.assert_answered(streams)
        self.cluster.await_linked("owner", noticed)
        self.cluster.await_whole("owner")
        self.cluster.await_whole()
        self.assert_nobody_was_fenced(fault)

    def test_an_owner_of_the_membership_that_was_stopped_blames_nobody(self):
        streams = self.streams()
        fault = log_time()
        self.cluster.stop("owner")
        noticed = self.cluster.await_lost("owner", fault)
        self.cluster.resume("owner")
        self.assert_answered(streams)
        self.cluster.await_linked("owner", noticed)
        self.cluster.await_whole()
        self.assert_nobody_was_fenced(fault)


if __name__ == "__main__":
    shoal_program.main()
