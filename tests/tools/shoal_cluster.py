"""A cluster of `shoal node` processes on loopback, made from a topology of deploy/topologies with free ports."""
import os
import re
import socket
import tempfile
import time
import urllib.parse

from shoal_program import DEADLINE_S, ROOT, Program, Server

ONE_HOST = os.path.join(ROOT, "deploy", "topologies", "one-host.txtpb")


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
    """The nodes of one-host.txtpb and `more` (text of further nodes, ports 0). Whole when the constructor returns."""

    def __init__(self, more="", names=("front", "prefill", "decode")):
        self.directory = tempfile.TemporaryDirectory()
        with open(ONE_HOST, encoding="utf-8") as file:
            text = file.read() + more
        fields = re.compile(r'((?:control|bulk|http)_port: )\d+')
        ports = iter(free_ports(len(fields.findall(text))))
        text = fields.sub(lambda m: m[1] + str(next(ports)), text)
        text = text.replace('"shoal-state"', f'"{self.directory.name}/state"')
        self.topology = os.path.join(self.directory.name, "topology.txtpb")
        with open(self.topology, "w", encoding="utf-8") as file:
            file.write(text)
        self.nodes = {}
        began = time.monotonic()
        for name in names:
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

    @property
    def front(self):
        return self.nodes["front"]

    def await_health(self, condition):
        """Until the front's /health is as wanted; its own answer is the pace."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            health = self.front.request("GET", "/health")
            if condition(*health):
                return
        raise AssertionError(f"the cluster did not become what was waited for: {health}")

    def await_whole(self):
        self.await_health(lambda status, body: status == 200 and body["status"] in ("ok", "busy"))
