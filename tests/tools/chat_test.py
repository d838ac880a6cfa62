#!/usr/bin/env python3
"""`shoal chat`: answers through a pipe, a conversation in a terminal, and a server that misbehaves."""
import http.server
import json
import os
import pty
import select
import signal
import threading
import time
import unittest

import shoal_program
from shoal_program import DEADLINE_S, GUPPY, Server, json_lines, run


def delta(**fields):
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


class ScriptedServer:
    """Plays an answer of the test's choice: a list of events, a whole reply (status, body), or events and then silence (None)."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.bodies = []
        self.client_left = threading.Event()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def reply(self, status, body):
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def do_GET(self):
                self.reply(200, {"data": [{"id": "scripted"}]})

            def do_POST(self):
                server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                answer = server.answers.pop(0)
                if isinstance(answer, tuple):
                    self.reply(*answer)
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                for event in answer:
                    if event is None:
                        if self.connection.recv(1) == b"":
                            server.client_left.set()
                        return
                    self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()


class Terminal:
    """The program in a terminal of its own."""

    def __init__(self, *arguments):
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(shoal_program.SHOAL, [shoal_program.SHOAL, *arguments])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)

    def write(self, text):
        os.write(self.fd, text.encode())

    def read(self, text, start=0):
        """Reads until `text` is there behind `start`; returns where it ends."""
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.text[start:]:
            if not self._read_more(deadline):
                raise AssertionError(f"the program ended before {text!r}: {self.text!r}")
        return self.text.index(text, start) + len(text)

    def status(self):
        """Of the program, after it ended by itself."""
        deadline = time.monotonic() + DEADLINE_S
        while self._read_more(deadline):
            pass
        status = os.waitpid(self.pid, 0)[1]
        self.pid = None
        return os.waitstatus_to_exitcode(status)

    def _read_more(self, deadline):
        """False: the program has ended."""
        if not select.select([self.fd], [], [], max(0, deadline - time.monotonic()))[0]:
            raise AssertionError(f"nothing more came: {self.text!r}")
        try:
            more = os.read(self.fd, 4096)
        except OSError:  # how Linux says that the other end is closed
            return False
        self.text += more.decode(errors="replace")
        return bool(more)


class Pipe(unittest.TestCase):
    def test_a_question_through_a_pipe_gets_the_answer_alone(self):
        golden = json_lines(os.path.join(GUPPY, "golden.jsonl"))[0]
        done = run("chat", "--effort", "none", stdin=golden["messages"][0]["content"] + "\n")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.rstrip("\n") + "<｜end▁of▁sentence｜>", golden["output"])

    def test_it_talks_to_a_running_server_with_a_key(self):
        with Server("--api-key", "secret") as server:
            done = run("chat", "--url", server.url + "/v1", "--api-key", "secret", "--effort", "none", stdin="Who are you?\n")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout.strip())
            refused = run("chat", "--url", server.url, stdin="Who are you?\n")
            self.assertEqual((refused.returncode, refused.stdout, refused.stderr.count("\n")), (1, "", 1))
            self.assertIn("key", refused.stderr.lower())

    def test_the_history_goes_along_until_it_is_forgotten(self):
        answers = [[delta(content=text), END] for text in ("one", "two", "three")]
        with ScriptedServer(*answers) as server:
            done = run("chat", "--url", server.url, "--system", "Be brief.", "--max-tokens", "9", stdin="a\n\nb\n/clear\nc\n/exit\nd\n")
            self.assertEqual((done.returncode, done.stdout), (0, "one\ntwo\nthree\n"))
            system = ("system", "Be brief.")
            self.assertEqual([[(m["role"], m["content"]) for m in body["messages"]] for body in server.bodies],
                             [[system, ("user", "a")],
                              [system, ("user", "a"), ("assistant", "one"), ("user", "b")],
                              [system, ("user", "c")]])
            self.assertEqual((server.bodies[0]["model"], server.bodies[0]["max_tokens"]), ("scripted", 9))

    def test_a_line_of_one_slash_is_never_sent_to_the_model(self):
        with ScriptedServer([delta(content="one"), END]) as server:
            done = run("chat", "--url", server.url, stdin="/help\n/exit \na\n")
            self.assertEqual((done.returncode, done.stdout), (0, ""))
            for command in ("/help", "/clear", "/exit", "//"):
                self.assertIn(command, done.stderr)
            unknown = run("chat", "--url", server.url, stdin="/forget it\na\n")
            self.assertEqual((unknown.returncode, unknown.stdout, unknown.stderr.count("\n")), (1, "one\n", 1))
            self.assertIn("no /forget it; commands: /help", unknown.stderr)
            self.assertEqual([m["content"] for m in server.bodies[0]["messages"]], ["a"])

    def test_two_slashes_send_a_text_that_starts_with_one(self):
        with ScriptedServer([delta(content="one"), END]) as server:
            self.assertEqual(run("chat", "--url", server.url, stdin="//clear it\n").stdout, "one\n")
            self.assertEqual([m["content"] for m in server.bodies[0]["messages"]], ["/clear it"])

    def test_an_error_is_one_line_and_the_conversation_goes_on(self):
        with ScriptedServer((429, {"error": {"message": "too many"}}), [delta(content="half"), {"error": {"message": "lost a part"}}],
                            [delta(content="cut off")], [delta(content="fine"), END]) as server:
            done = run("chat", "--url", server.url, stdin="a\nb\nc\nd\n")
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr.count("\n"), 3, done.stderr)
            self.assertIn("too many", done.stderr)
            self.assertIn("lost a part", done.stderr)
            self.assertTrue(done.stdout.endswith("fine\n"))

    def test_a_server_that_is_not_there_ends_it_with_one_line(self):
        with ScriptedServer() as gone:
            url = gone.url
        done = run("chat", "--url", url, stdin="a\n")
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1))
        self.assertIn(url, done.stderr)

    def test_reasoning_is_not_part_of_what_a_pipe_gets(self):
        with ScriptedServer([delta(reasoning_content="hm"), delta(content="yes"), END]) as server:
            self.assertEqual(run("chat", "--url", server.url, stdin="a\n").stdout, "yes\n")


class InTerminal(unittest.TestCase):
    def test_reasoning_is_dimmed_and_escapes_of_the_model_are_not_obeyed(self):
        with ScriptedServer([delta(reasoning_content="hm"), delta(content="a\x1b[31mb"), END]) as server, \
                Terminal("chat", "--url", server.url) as terminal:
            at = terminal.read("> ")
            terminal.write("question\r")
            at = terminal.read("\x1b[2mhm\x1b[0m", at)
            at = terminal.read("a[31mb", at)
            terminal.read("> ", at)
            terminal.write("\x04")
            self.assertEqual(terminal.status(), 0)

    def test_ctrl_c_ends_the_answer_and_not_the_program(self):
        with ScriptedServer([delta(content="and so on"), None], [delta(content="later"), END]) as server, \
                Terminal("chat", "--url", server.url) as terminal:
            at = terminal.read("> ")
            terminal.write("tell me\r")
            at = terminal.read("and so on", at)
            terminal.write("\x03")
            self.assertTrue(server.client_left.wait(DEADLINE_S))
            at = terminal.read("> ", at)
            terminal.write("next\r")
            at = terminal.read("later", at)
            terminal.read("> ", at)
            self.assertEqual([m["content"] for m in server.bodies[1]["messages"]], ["tell me", "and so on", "next"])
            terminal.write("/exit\r")
            self.assertEqual(terminal.status(), 0)


if __name__ == "__main__":
    shoal_program.main()
