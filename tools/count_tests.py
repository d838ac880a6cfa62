#!/usr/bin/env python3
"""Adds up the test cases of a ctest run: `N passed, N failed`. A program that reports no cases of its own counts as one."""
import re
import sys

CASES = re.compile(r"^\[doctest\] test cases:\s*\d+\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed", re.M)
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def main(path):
    with open(path, encoding="utf-8", errors="replace") as log:
        runs = re.split(r"^\d+/\d+ Test(?:ing)?: ", ANSI.sub("", log.read()), flags=re.M)[1:]
    passed = failed = 0
    for run in runs:
        ok = "\nTest Passed.\n" in run
        cases = CASES.findall(run)
        ran = sum(int(p) for p, _ in cases)
        bad = sum(int(f) for _, f in cases)
        passed += ran if cases else int(ok)
        # A program that dies reports no failed case, or fewer than happened.
        failed += bad if bad else int(not ok)
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
