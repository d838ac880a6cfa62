"""A cluster of `shoal node` processes on loopback, made from a topology with free ports."""
import os
import re
import signal
import socket
import tempfile
import time
import urllib.parse

from shoal_program import DEADLINE_S, ROOT, Program, Server

ONE_HOST = os.path.join(ROOT, "deploy", "topologies", "one-host.txtpb")


def example(name):
    with open(os.path.join(ROOT, "deploy", "topologies", name), encoding="utf-8") as file:
        return file.read()


def one_host():
    return example("one-host.txtpb")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()


class Node(Server):
    """One process; up when the constructor returns. Only a gateway can be asked over HTTP."""

    def __init__(self, topology, name):
        Program.__init__(self, "node", "--topology", topology, "--name", name)
        self.up_line = self.await_line(self.stdout, "up in")
        serves = re.search(r" serves (\S+) at (\S+) ", self.up_line)
        if serves:
            self.model, self.url = serves[1], serves[2]
            self.address = urllib.parse.urlsplit(self.url)


class Cluster:
    """All nodes of a topology, one-host.txtpb unless another text is given. Whole when the constructor returns."""

    def __init__(self, text=None):
        self.directory = tempfile.TemporaryDirectory()
        text = text or one_host()
        fields = re.compile(r'((?:control|bulk|http|metrics)_port: )\d+')
        ports = iter(free_ports(len(fields.findall(text))))
        text = fields.sub(lambda m: m[1] + str(next(ports)), text)
        text = re.sub(r'"shoal-state[^"]*"', f'"{self.directory.name}/state"', text)
        self.topology = os.path.join(self.directory.name, "topology.txtpb")
        with open(self.topology, "w", encoding="utf-8") as file:
            file.write(text)
        self.nodes = {}
        began = time.monotonic()
        for name in re.findall(r'^\s*(?:node \{ )?name: "([^"]+)"', text, re.MULTILINE):
            self.start(name)
        self.await_whole()
        self.ready_s = time.monotonic() - began

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.nodes.values():
            node.__exit__()
        self.directory.cleanup()

    def start(self, name):
        self.nodes[name] = Node(self.topology, name)

    def kill(self, name):
        self.nodes.pop(name).__exit__()

    def stop(self, name):
        self.nodes[name].process.send_signal(signal.SIGSTOP)

    def resume(self, name):
        self.nodes[name].process.send_signal(signal.SIGCONT)

    @property
    def front(self):
        return self.nodes["front"]

    def await_health(self, condition, gateway="front"):
        """Until a gateway's /health is as wanted; its own answer is the pace."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            health = self.nodes[gateway].request("GET", "/health")
            if condition(*health):
                return
        raise AssertionError(f"the cluster did not become what was waited for: {health}")

    def await_whole(self, gateway="front"):
        self.await_health(lambda status, body: status == 200 and body["status"] in ("ok", "busy"), gateway)
