#!/usr/bin/env python3
"""Adds up the test cases of a ctest run: `N passed, N failed`. A program that reports no cases of its own counts as one."""
import re
import sys

RUN = re.compile(r"^\d+/\d+ Testing: ", re.M)
DOCTEST = re.compile(r"^\[doctest\] test cases:\s*\d+\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed", re.M)
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*?^(?:OK|FAILED)(?: \((.*)\))?$", re.M | re.S)
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def cases(run):
    """(passed, failed) of one program."""
    ok = "\nTest Passed.\n" in run
    passed = failed = 0
    for good, bad in DOCTEST.findall(run):
        passed, failed = passed + int(good), failed + int(bad)
    for ran, notes in UNITTEST.findall(run):
        counts = {name: int(n) for name, n in re.findall(r"(\w+)=(\d+)", notes)}
        bad = counts.get("failures", 0) + counts.get("errors", 0)
        passed, failed = passed + int(ran) - bad - counts.get("skipped", 0), failed + bad
    if ok:
        return max(passed, 1), failed
    return passed, max(failed, 1)  # a program that dies reports fewer failures than happened


def main(path):
    with open(path, encoding="utf-8", errors="replace") as log:
        runs = RUN.split(ANSI.sub("", log.read()))[1:]
    counted = [cases(run) for run in runs]
    passed, failed = sum(p for p, _ in counted), sum(f for _, f in counted)
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
