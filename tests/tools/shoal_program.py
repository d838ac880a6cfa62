"""What the black-box tests share: the program under test, servers it runs, requests to them. Every wait has a deadline."""
import contextlib
import http.client
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GUPPY = os.path.join(ROOT, "deploy", "models", "guppy")
GOLDEN = os.path.join(ROOT, "tests", "golden", "codec")
DEADLINE_S = 120  # for one step; far beyond what a slow machine with sanitizers needs

SHOAL = ""


def main():
    """Every test program is called as: PROGRAM_TEST.py [SHOAL [unittest arguments]]; SHOAL is build/tools/shoal by default."""
    global SHOAL
    SHOAL = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(ROOT, "build", "tools", "shoal")
    if not os.access(SHOAL, os.X_OK):
        sys.exit(f"{SHOAL} is no program; build it with tools/up or name it: {sys.argv[0]} SHOAL [unittest arguments]")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache  # nothing is left behind, nothing is found that was there
        unittest.main(module="__main__", argv=[sys.argv[0]] + sys.argv[2:])


def run(*arguments, stdin=""):
    return subprocess.run([SHOAL, *arguments], input=stdin, capture_output=True, text=True, timeout=DEADLINE_S)


def json_lines(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def await_true(holds):
    """Asks again and again, for as long as a test may take."""
    limit = time.monotonic() + DEADLINE_S
    while not holds():
        if time.monotonic() > limit:
            raise AssertionError("it did not come true")


class Program:
    """A command of shoal that runs until it is told to end; killed when the block is left."""

    def __init__(self, *arguments, cache=None):
        self.cache = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen([SHOAL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, "XDG_CACHE_HOME": cache or self.cache.name})
        self.stdout, self.stderr = _lines_of(self.process.stdout), _lines_of(self.process.stderr)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()
        self.cache.cleanup()

    @staticmethod
    def await_line(lines, text):
        seen = []
        while True:
            line = lines.get(timeout=DEADLINE_S)
            if line is None:
                raise AssertionError(f"the program ended without a line with {text!r}: {seen}")
            if text in line:
                return line
            seen.append(line)


class Server(Program):
    """`shoal serve` on a free port; ready when the constructor returns."""

    def __init__(self, *arguments, cache=None):
        super().__init__("serve", "--port", "0", *arguments, cache=cache)
        ready = re.search(r"shoal serves (\S+) at (\S+) \(ready in (\d+) ms\)", self.await_line(self.stdout, "serves"))
        self.model, self.url, self.ready_ms = ready[1], ready[2], int(ready[3])
        self.address = urllib.parse.urlsplit(self.url)

    def connect(self):
        return http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=DEADLINE_S)

    def request(self, method, path, body=None, key=None):
        """(status, body) of one request; the body as JSON where it is JSON."""
        connection = self.connect()
        response = self._send(connection, method, path, body, key)
        text = response.read().decode()
        connection.close()
        is_json = response.headers.get_content_type() == "application/json"
        return response.status, json.loads(text) if is_json else text

    def post(self, path, body):
        status, answer = self.request("POST", path, body)
        if status != 200:
            raise AssertionError(f"status {status}: {answer}")
        return answer

    def stream(self, path, body):
        """The data of each event as it arrives, "[DONE]" included."""
        connection = self.connect()
        response = self._send(connection, "POST", path, {**body, "stream": True}, None)
        with contextlib.closing(connection), response:
            if response.status != 200:
                raise AssertionError(f"status {response.status}: {response.read()}")
            for line in response:
                if line.startswith(b"data: "):
                    yield line[6:].decode().rstrip("\n")

    @staticmethod
    def _send(connection, method, path, body, key):
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if key is not None:
            headers["Authorization"] = "Bearer " + key
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return connection.getresponse()


def _lines_of(pipe):
    """A queue of the pipe's lines, None at its end."""
    lines = queue.Queue()

    def read():
        for line in pipe:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return lines
