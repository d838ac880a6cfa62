#!/usr/bin/env python3
"""Puts and gets of the KV store's row `file` beside fio on the same disk, in turns: medians and ratios.

  tools/bench_kv_disk.py build/tools/shoal /data/bench [rounds]

fio writes and reads as many bytes as the store, by the same calls: io_uring in pieces of 4 MiB, 4 deep (as the store writes), or of a
block, 16 deep (as it reads); pwrite of 16 MiB, what the store makes durable together; with the page cache also with fdatasync after each of them,
which is what a durable put needs."""
import json
import re
import statistics
import subprocess
import sys

BLOCKS = 4000
BLOCK = 114688  # a record of V4.1-Flash
# What the store prints: the fio runs that it is compared with.
URING = ["--ioengine=io_uring", "--direct=1"]
CASES = {
    "put io_uring, O_DIRECT": {"fio": ["--rw=write", "--bs=4m", "--iodepth=4", "--end_fsync=1"] + URING},
    "put pwrite, O_DIRECT": {"fio": ["--rw=write", "--bs=16m", "--end_fsync=1", "--ioengine=psync", "--direct=1"]},
    "put pwrite, page cache": {
        "fio": ["--rw=write", "--bs=16m", "--end_fsync=1", "--ioengine=psync"],
        "fio, fdatasync each": ["--rw=write", "--bs=16m", "--fdatasync=1", "--ioengine=psync"],
    },
    "get io_uring, O_DIRECT": {"fio": ["--rw=read", f"--bs={BLOCK}", "--iodepth=16"] + URING},
    "get pread, O_DIRECT": {"fio": ["--rw=read", f"--bs={BLOCK}", "--ioengine=psync", "--direct=1", "--numjobs=8", "--thread",
                                    "--group_reporting", f"--io_size={BLOCKS * BLOCK // 8}", f"--offset_increment={BLOCKS * BLOCK // 8}"]},
}


def fio(arguments, directory):
    if "--rw=write" in arguments:
        subprocess.run(["rm", "-f", f"{directory}/fio.dat"], check=True)  # the store writes new files, too
    command = ["fio", "--name=fio", f"--filename={directory}/fio.dat", f"--size={BLOCKS * BLOCK}", "--output-format=json"] + arguments
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    job = json.loads(text[text.index("{"):])["jobs"][0]
    return max(job["read"]["bw_bytes"], job["write"]["bw_bytes"]) / 1e9


def shoal(program, directory):
    text = subprocess.run([program, "bench", "kv", f"{directory}/kv", "--blocks", str(BLOCKS), "--restart-blocks", "0"],
                          check=True, capture_output=True, text=True).stdout
    return {match[1].strip(): float(match[2]) for match in re.finditer(r"^((?:put|get) .{28}) +([\d.]+) GB/s", text, re.M)}


def main():
    program, directory = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    subprocess.run(["mkdir", "-p", directory], check=True)
    measured = {}
    for _ in range(rounds):
        for name, speed in shoal(program, directory).items():
            measured.setdefault((name, "shoal"), []).append(speed)
        for name, references in CASES.items():
            for reference, arguments in references.items():
                measured.setdefault((name, reference), []).append(fio(arguments, directory))
    subprocess.run(["rm", "-f", f"{directory}/fio.dat"], check=True)
    for name, references in CASES.items():
        own = statistics.median(measured[name, "shoal"])
        for reference in references:
            other = statistics.median(measured[name, reference])
            print(f"{name:26} {own:5.2f} GB/s  {reference:20} {other:5.2f} GB/s  {100 * own / other:4.0f} %")


if __name__ == "__main__":
    main()
