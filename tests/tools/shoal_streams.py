"""Streamed answers: what a client holds at their end, and many of them read at once."""
import json
import threading
import time

from shoal_program import DEADLINE_S

WORDS = [5 + 7 * i % 2400 for i in range(2000)]  # token ids that are plain text


def prompt(length, start=0):
    return [0] + [WORDS[(start + i) % len(WORDS)] for i in range(length - 1)]


def without_ids(answer):
    """What must be the same everywhere: all but ids and times."""
    return {k: v for k, v in answer.items() if k not in ("id", "created", "system_fingerprint")}


def joined(events):
    """What a client has after a stream: how tokens were put into chunks does not matter."""
    *chunks, last = events
    if last != "[DONE]":
        raise AssertionError(f"the stream ended with {last!r}")
    choices, rest = {}, []
    for chunk in map(json.loads, chunks):
        if "error" in chunk:
            raise AssertionError(chunk)
        for choice in chunk["choices"]:
            seen = choices.setdefault(choice["index"], {})
            merge(seen, choice.get("delta", {}))
            merge(seen, {k: v for k, v in choice.items() if k not in ("delta", "index")})
        if not chunk["choices"]:
            rest.append(without_ids(chunk))
    return choices, rest


def merge(seen, part):
    for key, value in part.items():
        if value is None or value == []:
            continue
        if isinstance(value, dict):
            merge(seen.setdefault(key, {}), value)
        elif key in seen and isinstance(value, (str, list)) and key not in ("role", "finish_reason"):
            seen[key] += value
        else:
            seen[key] = value


class Streams:
    """Long greedy answers, all read at once. `each` is called after each one's request is on its way."""

    def __init__(self, server, count, tokens, length=20, each=lambda: None):
        self.bodies = [{"model": server.model, "prompt": prompt(length, 37 * i), "max_tokens": tokens, "temperature": 0,
                        "ignore_eos": True, "return_token_ids": True} for i in range(count)]
        self.server, self.results = server, [None] * count
        self.arrivals = [[] for _ in range(count)]  # of every event, by the clock that logs have too
        self.news = threading.Condition()
        self.threads = [threading.Thread(target=self.read, args=(i,), daemon=True) for i in range(count)]
        for thread in self.threads:
            thread.start()
            each()

    def read(self, i):
        events = []
        try:
            for event in self.server.stream("/v1/completions", self.bodies[i]):
                events.append(event)
                with self.news:
                    self.arrivals[i].append(time.time())
                    self.news.notify_all()
            result = joined(events)
        except Exception as error:  # told by the main thread
            result = error
        with self.news:
            self.results[i] = result
            self.news.notify_all()

    def await_each(self, condition, count=None):
        """Until the stream is over or `condition(arrivals)` holds for `count` streams, all of them by default."""
        def holds():
            return sum(result is not None or bool(condition(arrivals)) for result, arrivals in zip(self.results, self.arrivals))
        with self.news:
            if not self.news.wait_for(lambda: holds() >= (count or len(self.bodies)), DEADLINE_S):
                raise AssertionError(f"only {holds()} streams became what was waited for")

    def await_started(self, count=None):
        self.await_each(bool, count)

    def await_news(self, since):
        self.await_each(lambda arrivals: any(when > since for when in arrivals[-1:]))

    def open(self):
        return sum(result is None for result in self.results)

    def answers(self):
        """By stream what `joined` says; an exception if it was lost, None if it hangs."""
        deadline = time.monotonic() + DEADLINE_S
        for thread in self.threads:
            thread.join(max(0, deadline - time.monotonic()))
        return list(self.results)

    def texts(self):
        for answer in self.answers():
            if not isinstance(answer, tuple):
                raise AssertionError(f"a stream was lost: {answer!r}")
        return [choices[0]["text"] for choices, _ in self.results]
