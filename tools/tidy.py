#!/usr/bin/env python3
"""Checks what the compiler does not: include direction, banned calls, one title per README. Prints the longest functions and files.

Exit status 1 when a rule is broken; lengths are printed and never fail."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Layer of a path, and what each layer may include (design: layers and folders).
LAYERS = ["actors/policy", "actors/codec", "actors", "kernels", "transport", "schemas", "tests/sim", "tests", "tools"]
MAY_INCLUDE = {
    "schemas": {"schemas"},
    "actors/policy": {"actors/policy", "schemas"},
    "actors/codec": {"actors/codec", "schemas"},
    "kernels": {"kernels", "schemas"},
    "transport": {"transport", "schemas"},
    "actors": {"actors", "actors/policy", "actors/codec", "kernels", "transport", "schemas"},
    "tests/sim": set(LAYERS) - {"tests"},  # the simulator is part of the program; its tests are not
    "tests": set(LAYERS),
    "tools": set(LAYERS) - {"tests"},
}
# Of kernels and transport, actors see interfaces and registries only: no header of a device or transport row.
ROW_HEADER = re.compile(r"^(kernels/(cpu|cuda|model)|transport/(memory|tcp|ucx|nccl|file_store|rados_store|etcd|sim))/")

# (pattern, where it is banned, what to use instead); a file may be exempt because it is the port itself.
PORTS = {"actors/ports.cpp", "actors/caf.h", "actors/caf_links.cpp"}
BANNED = [
    (re.compile(r"\b(steady_clock|system_clock|high_resolution_clock)::now"), "product", "take the clock port or `now` as an argument"),
    (re.compile(r"\brandom_device\b|\bstd::rand\b|(?<![\w.:])rand\(\)"), "product", "take a seed or generator as an argument"),
    (re.compile(r"\bgetenv\b"), "product", "a field of Config"),
    (re.compile(r"\bcaf::infinite\b|(?<![\w:])infinite\b(?=[,)])"), "actors", "the deadline of the request"),
    (re.compile(r"#\s*include\s*<caf/"), "not-caf", "actors/caf.h"),
    (re.compile(r"#\s*include\s*<cuda"), "not-cuda", "kernels/cuda"),
    (re.compile(r"\[=\]|\[=,|\[&\]|\[&,"), "actor-lambda", "name each capture"),
    (re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep)\b"), "everywhere", "wait for an event with a deadline"),
    (re.compile(r"\bFIXME\b|\bTODO\b|\bXXX\b"), "everywhere", "an issue, or the README's list of what is missing"),
    (re.compile(r"using namespace (?!std::(chrono_)?literals)"), "headers", "qualified names"),
    (re.compile(r"\.then\([^;]*\.then\("), "actors", "an event of the state machine"),
]


def layer_of(path):
    return next((layer for layer in LAYERS if path.startswith(layer + "/")), None)


def applies(rule, path):
    layer = layer_of(path)
    if path in PORTS:
        return rule in ("everywhere", "headers")
    return {
        "product": layer not in ("tests", "tests/sim", "tools"),
        "actors": layer == "actors",
        "not-caf": layer not in ("tests", "tests/sim"),
        "not-cuda": not path.startswith(("kernels/cuda/", "transport/nccl/")),
        "actor-lambda": layer == "actors" and path.endswith(".cpp") and not path.startswith("actors/http"),
        "headers": path.endswith(".h"),
        "everywhere": True,
    }[rule]


def strip_comments(text):
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


def check_includes(path, text, problems):
    layer = layer_of(path)
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
        if not match or layer is None:
            continue
        target = match.group(1)
        if target.startswith("."):
            problems.append(f"{path}:{number}: include from the project root, not {target}")
            continue
        other = layer_of(target)
        if other is not None and other not in MAY_INCLUDE[layer]:
            problems.append(f"{path}:{number}: {layer} must not include {other} ({target})")
        if layer == "actors" and ROW_HEADER.match(target):
            problems.append(f"{path}:{number}: actors include interfaces and registries only, not {target}")


def check_text(path, text, problems):
    code = strip_comments(text)
    for number, line in enumerate(code.splitlines(), 1):
        for pattern, rule, instead in BANNED:
            if applies(rule, path) and pattern.search(line):
                problems.append(f"{path}:{number}: {pattern.search(line).group()!r} is banned here: {instead}")
    if path.endswith(".h") and "#pragma once" not in text:
        problems.append(f"{path}: header without #pragma once")
    if not text.startswith("//"):
        problems.append(f"{path}:1: the first line says in one sentence what the file decides or does")


def check_pairs(files, problems):
    """Every policy and codec source has a test of its name under the same path in tests/ (or a test of its family)."""
    tests = {os.path.basename(f) for f in files if f.startswith("tests/") and f.endswith("_test.cpp")}
    for path in files:
        if path.startswith("actors/policy/") and path.endswith(".cpp"):
            name = os.path.basename(path)[:-4] + "_test.cpp"
            if name not in tests:
                problems.append(f"{path}: no tests/policy/{name}")


def check_sources_listed(files, problems):
    lists = "\n".join(open(os.path.join(ROOT, f), encoding="utf-8").read() for f in files if f.endswith("CMakeLists.txt"))
    whole_folders = re.findall(r"file\(GLOB \w+ CONFIGURE_DEPENDS (\w+)/\*\.cpp\)", lists)
    for path in files:
        if path.endswith(".cpp") and os.path.basename(path) not in lists and os.path.basename(os.path.dirname(path)) not in whole_folders:
            problems.append(f"{path}: not in any CMakeLists.txt")


def check_readme(path, text, problems):
    fence = False
    titles = 0
    for line in text.splitlines():
        fence ^= line.startswith("```")
        titles += not fence and line.startswith("# ")
    if titles != 1:
        problems.append(f"{path}: {titles} titles, wants exactly one")


def functions(text):
    """(lines, first line) of every top-level or member function body, found by brace depth on formatted code."""
    start = None
    for number, line in enumerate(text.splitlines(), 1):
        if start is None and re.match(r"^( {0,2})[\w~:<>,&*\[\] ].*\)[^;]*\{$", line) and not re.match(r"^\s*(if|for|while|switch|else|namespace|do|class|struct)\b", line):
            start, indent = number, len(line) - len(line.lstrip())
        elif start is not None and line.rstrip() == " " * indent + "}":
            yield number - start + 1, start
            start = None


def main():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True)
    files = sorted(set(listed.stdout.split())) if listed.returncode == 0 and listed.stdout else [
        os.path.relpath(os.path.join(d, f), ROOT) for d, _, names in os.walk(ROOT) for f in names if "/build" not in d and "/.git" not in d]
    files = [f for f in files if os.path.isfile(os.path.join(ROOT, f))]
    problems, longest, sizes = [], [], []
    for path in files:
        if not path.endswith((".h", ".cpp", ".md")) or path.startswith("tests/golden/"):
            continue
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            text = f.read()
        if path.endswith(".md"):
            if os.path.basename(path) == "README.md":
                check_readme(path, text, problems)
            continue
        check_includes(path, text, problems)
        check_text(path, text, problems)
        sizes.append((text.count("\n"), path))
        longest += [(n, f"{path}:{line}") for n, line in functions(text)]
    check_pairs(files, problems)
    check_sources_listed(files, problems)
    for title, rows in (("longest functions (lines)", longest), ("longest files (lines)", sizes)):
        print(title)
        for n, where in sorted(rows, reverse=True)[:10]:
            print(f"  {n:5} {where}")
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problem(s) in {len(sizes)} sources")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
