#!/usr/bin/env python3
"""Measures `shoal serve` over HTTP, against servers it starts itself. Client and server share the machine.

    tools/bench_serve.py [--shoal build/tools/shoal] [--requests 10000] [-- SERVE ARGUMENTS]

Time to ready: from the start of the process to the first 200 from /ready, median of 5. Time to the first token: from
sending a request to the first bytes of its stream, 16 streams at any time. Tokens/s: all streams start together, clock
from the first request to the last end. Memory: resident set of the server; its slope is a least-squares fit over the
second half of the requests, when caches are full."""
import argparse
import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import time
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMIT_S = 120  # without any byte from the server: it hangs


class Server:
    def __init__(self, shoal, arguments):
        began = time.monotonic()
        self.process = subprocess.Popen([shoal, "serve", "--port", "0", "--log-level", "error", *arguments],
                                        stdout=subprocess.PIPE, text=True)
        words = self.process.stdout.readline().split()
        if len(words) < 5:
            sys.exit("bench_serve: the server did not start")
        self.model = words[2]
        url = urllib.parse.urlsplit(words[4])
        self.address = (url.hostname, url.port)
        with socket.create_connection(self.address, LIMIT_S) as connection:
            connection.sendall(b"GET /ready HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")
            if b" 200 " not in connection.recv(4096):
                sys.exit("bench_serve: the server is not ready")
        self.ready_s = time.monotonic() - began

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def resident_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


class Stream:
    """One request in flight, and what came of it."""

    def __init__(self, server, prompt, tokens):
        body = json.dumps({"model": server.model, "prompt": prompt, "max_tokens": tokens, "ignore_eos": True,
                           "temperature": 0, "stream": True}).encode()
        self.socket = socket.create_connection(server.address)
        self.sent = time.monotonic()
        self.socket.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: bench\r\nConnection: close\r\nContent-Type: application/json\r\n"
                            b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.first = None
        self.tail = b""

    def read(self):
        """False when the stream is over."""
        received = self.socket.recv(1 << 16)
        if self.first is None and b"data: " in self.tail + received:
            self.first = time.monotonic()
        if received:
            self.tail = (self.tail + received)[-4096:]
            return True
        return False

    def close(self):
        self.socket.close()
        if b"data: [DONE]" not in self.tail:
            sys.exit(f"bench_serve: a stream broke off: {self.tail[-300:]!r}")


def run_streams(server, count, parallel, prompt, tokens, on_end=lambda ended: None):
    """Runs `count` requests, `parallel` at any time; the times to the first token."""
    first_s, started, ended = [], 0, 0
    with selectors.DefaultSelector() as waiting:
        while ended < count:
            while started < min(count, ended + parallel):
                stream = Stream(server, [3 + (started * 7 + i * 11) % 2000 for i in range(prompt)], tokens)
                waiting.register(stream.socket, selectors.EVENT_READ, stream)
                started += 1
            ready = waiting.select(LIMIT_S)
            if not ready:
                sys.exit(f"bench_serve: nothing from the server for {LIMIT_S} s")
            for key, _ in ready:
                stream = key.data
                if not stream.read():
                    waiting.unregister(stream.socket)
                    stream.close()
                    first_s.append(stream.first - stream.sent)
                    ended += 1
                    on_end(ended)
    return first_s


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def slope(points):
    """Least squares: units of y per unit of x."""
    mean_x = statistics.fmean(x for x, _ in points)
    mean_y = statistics.fmean(y for _, y in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def measure(arguments):
    def start():
        return Server(arguments.shoal, ["--set", "kv.store=none", *arguments.serve])

    ready = []
    for _ in range(5):
        with start() as server:
            ready.append(server.ready_s)
    yield "start to ready, median of 5", f"{statistics.median(ready) * 1e3:.0f} ms"
    with start() as server:
        yield "resident memory, idle", f"{server.resident_kib() / 1024:.1f} MiB"
        run_streams(server, 4, 2, 16, 16)  # the first requests touch memory for the first time
        first_s = run_streams(server, 320, 16, 32, 32)
        yield "time to first token, 16 streams, p50", f"{quantile(first_s, 0.50) * 1e3:.1f} ms"
        yield "time to first token, 16 streams, p99", f"{quantile(first_s, 0.99) * 1e3:.1f} ms"
        for parallel in (1, 8, 32):
            began = time.monotonic()
            run_streams(server, parallel, parallel, 16, 256)
            yield f"tokens/s over HTTP, {parallel} streams", f"{parallel * 256 / (time.monotonic() - began):.0f}"
    with start() as server:
        points = []
        every = max(1, arguments.requests // 100)
        run_streams(server, arguments.requests, 16, 16, 4,
                    lambda ended: ended % every == 0 and points.append((ended, server.resident_kib())))
        half = points[len(points) // 2:]
        yield f"resident memory after {arguments.requests} requests", f"{points[-1][1] / 1024:.1f} MiB"
        yield "its slope over their second half", f"{slope(half) * 1024:.1f} bytes/request"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shoal", default=os.path.join(ROOT, "build", "tools", "shoal"), help="the program")
    parser.add_argument("--requests", type=int, default=10_000, help="for the slope of memory")
    parser.add_argument("serve", nargs="*", help="arguments of `shoal serve`, after --")
    arguments = parser.parse_args()
    if arguments.requests < 100:
        parser.error("--requests: at least 100, a slope needs points")
    print("$", " ".join(sys.argv), f"({os.cpu_count()} CPUs)")
    for name, value in measure(arguments):
        print(f"{name:42} {value:>18}", flush=True)


if __name__ == "__main__":
    main()
