#!/usr/bin/env python3
"""A mounted directory whose file system can hang: its calls come to a process that stops, and so does everybody who makes one.

As a program: hanging_mount.py BACKING MOUNTPOINT serves the files of BACKING at MOUNTPOINT (FUSE, linux/fuse.h, version 7.31; one directory,
nothing is cached), says "mounted", and stops itself between two calls at every byte on its standard input."""
import contextlib
import ctypes
import errno
import os
import select
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT_NODE = 1
MAX_WRITE = 1 << 20
INIT_FLAGS = 1 << 5 | 1 << 22  # big writes, max_pages
DIRECT_IO = 1
ATTR_SIZE, ATTR_HANDLE = 8, 64


class Files:
    """The file system: a method each call, which answers with bytes or raises OSError."""

    def __init__(self, backing):
        self.backing = backing
        self.names = {ROOT_NODE: ""}
        self.last = ROOT_NODE

    def path(self, name):
        return os.path.join(self.backing, name)

    def node_of(self, name):
        for node, known in self.names.items():
            if known == name:
                return node
        self.last += 1
        self.names[self.last] = name
        return self.last

    def forget_name(self, name):
        self.names = {node: known for node, known in self.names.items() if known != name}

    @staticmethod
    def attributes(facts):
        return struct.pack("<6Q10I", facts.st_ino, facts.st_size, facts.st_blocks, int(facts.st_atime), int(facts.st_mtime), int(facts.st_ctime),
                           facts.st_atime_ns % 10**9, facts.st_mtime_ns % 10**9, facts.st_ctime_ns % 10**9, facts.st_mode, facts.st_nlink,
                           facts.st_uid, facts.st_gid, 0, 4096, 0)

    def facts(self, node, handle=None):
        if handle is not None:
            return os.fstat(handle)
        if node not in self.names:
            raise OSError(errno.ESTALE, "it was removed")
        return os.stat(self.path(self.names[node]))

    def entry(self, name):
        facts = os.stat(self.path(name))
        return struct.pack("<4Q2I", self.node_of(name), 0, 0, 0, 0, 0) + self.attributes(facts)

    def init(self, _node, _data):
        return struct.pack("<4I2H2I2HI7I", 7, 31, 0, INIT_FLAGS, 16, 12, MAX_WRITE, 1, MAX_WRITE // 4096, 0, 0, *[0] * 7)

    def lookup(self, _node, data):
        return self.entry(data.rstrip(b"\0").decode())

    def getattr(self, node, data):
        flags, _, handle = struct.unpack_from("<2IQ", data)
        return struct.pack("<Q2I", 0, 0, 0) + self.attributes(self.facts(node, handle if flags & 1 else None))

    def setattr(self, node, data):
        valid, _, handle, size = struct.unpack_from("<2I2Q", data)
        if valid & ATTR_SIZE:
            os.truncate(handle if valid & ATTR_HANDLE else self.path(self.names[node]), size)
        return struct.pack("<Q2I", 0, 0, 0) + self.attributes(self.facts(node, handle if valid & ATTR_HANDLE else None))

    def open(self, node, data):
        flags = struct.unpack_from("<I", data)[0]
        return struct.pack("<Q2I", os.open(self.path(self.names[node]), flags & (os.O_ACCMODE | os.O_TRUNC)), DIRECT_IO, 0)

    def create(self, _node, data):
        flags, mode = struct.unpack_from("<2I", data)
        name = data[16:].rstrip(b"\0").decode()
        handle = os.open(self.path(name), flags & (os.O_ACCMODE | os.O_TRUNC | os.O_EXCL) | os.O_CREAT, mode)
        return self.entry(name) + struct.pack("<Q2I", handle, DIRECT_IO, 0)

    def read(self, _node, data):
        handle, offset, size = struct.unpack_from("<2QI", data)
        return os.pread(handle, size, offset)

    def write(self, _node, data):
        handle, offset, size = struct.unpack_from("<2QI", data)
        return struct.pack("<2I", os.pwrite(handle, data[40:40 + size], offset), 0)

    def release(self, _node, data):
        os.close(struct.unpack_from("<Q", data)[0])
        return b""

    def unlink(self, _node, data):
        name = data.rstrip(b"\0").decode()
        os.unlink(self.path(name))
        self.forget_name(name)
        return b""

    def rename(self, _node, data, header=8):
        old, new = (name.decode() for name in data[header:].split(b"\0")[:2])
        os.rename(self.path(old), self.path(new))
        node = self.node_of(old)
        self.forget_name(new)
        self.names[node] = new
        return b""

    def rename2(self, node, data):
        return self.rename(node, data, header=16)

    def opendir(self, _node, _data):
        return struct.pack("<Q2I", 0, 0, 0)

    def readdir(self, _node, data):
        _, offset, size = struct.unpack_from("<2QI", data)
        out = b""
        for at, name in enumerate(sorted(os.listdir(self.backing))[offset:], offset + 1):
            raw = name.encode()
            entry = struct.pack("<2Q2I", at, at, len(raw), stat.S_IFREG >> 12) + raw
            entry += bytes(-len(entry) % 8)
            if len(out) + len(entry) > size:
                break
            out += entry
        return out

    def statfs(self, _node, _data):
        return struct.pack("<5Q4I6I", 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096, 0, *[0] * 6)

    def nothing(self, _node, _data):
        return b""


CALLS = {1: Files.lookup, 3: Files.getattr, 4: Files.setattr, 10: Files.unlink, 12: Files.rename, 14: Files.open, 15: Files.read,
         16: Files.write, 17: Files.statfs, 18: Files.release, 20: Files.nothing, 25: Files.nothing, 26: Files.init, 27: Files.opendir,
         28: Files.readdir, 29: Files.nothing, 30: Files.nothing, 35: Files.create, 38: Files.nothing, 45: Files.rename2}
UNANSWERED = {2, 36, 42}  # forget, interrupt, batch_forget


def answer(files, call):
    _, opcode, unique, node = struct.unpack_from("<2I2Q", call)
    if opcode in UNANSWERED:
        return None
    try:
        if opcode not in CALLS:
            raise OSError(errno.ENOSYS, "no such call")
        error, body = 0, CALLS[opcode](files, node, call[40:])
    except OSError as failed:
        error, body = -failed.errno, b""
    return struct.pack("<IiQ", 16 + len(body), error, unique) + body


def serve(backing, mountpoint):
    device = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    if libc.mount(b"shoal-test", mountpoint.encode(), b"fuse", 0, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), "cannot mount")
    print("mounted", flush=True)
    files = Files(backing)
    while True:
        ready = select.select([device, sys.stdin.fileno()], [], [])[0]
        if sys.stdin.fileno() in ready and os.read(sys.stdin.fileno(), 1):
            os.kill(os.getpid(), signal.SIGSTOP)
        elif device in ready:
            said = answer(files, os.read(device, MAX_WRITE + 4096))
            if said is not None:
                with contextlib.suppress(FileNotFoundError):  # who called was killed meanwhile
                    os.write(device, said)


class Mount:
    def __init__(self, path, server):
        self.path, self._server = path, server

    def hang(self):
        """From now on no call returns."""
        self._server.stdin.write(b"!")
        self._server.stdin.flush()
        os.waitid(os.P_PID, self._server.pid, os.WSTOPPED)

    def go_on(self):
        self._server.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def hanging_mount():
    """Skips the test where mounting is not allowed. Whoever hangs in the end gets an error."""
    with tempfile.TemporaryDirectory() as backing, tempfile.TemporaryDirectory() as path:
        with subprocess.Popen([sys.executable, os.path.abspath(__file__), backing, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as server:
            try:
                if server.stdout.readline() != b"mounted\n":
                    raise unittest.SkipTest("this user may not mount a FUSE file system")
                yield Mount(path, server)
            finally:
                server.kill()
                subprocess.run(["umount", "-l", path], capture_output=True, check=False)


if __name__ == "__main__":
    serve(*sys.argv[1:])
