"""The hashes of `posenc_fast/_cli/bits.py`: ``python tests/bits.py`` prints them for each engine of this machine.

``python tests/bits.py FILE`` compares them with those that another machine or compiler has printed, ``--check`` with
those in the repository, ``--write`` puts there what the engines agree on. ``--long`` takes 2^27 values of a type in place
of 2^20 (minutes, for Python), ``--engines baseline,python`` not all engines. No compiler, flag or architecture may change them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import posenc_fast as pf
from posenc_fast._cli import bits
from posenc_fast._cli.verify import engines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--engines", default=",".join(engines()))
    arguments = parser.parse_args()
    times = bits.LONG if arguments.long else bits.SHORT
    made, wrong = {}, False
    for engine in arguments.engines.split(","):
        begin = time.monotonic()
        with pf.use_backend(*engines()[engine]):
            made[engine] = dict(bits.hashes(times))
        print(f"{engine}: {len(made[engine])} hashes in {time.monotonic() - begin:.0f} s", file=sys.stderr)
    first = next(iter(made.values()))
    if arguments.write:
        if any(each != first for each in made.values()):
            sys.exit("the engines do not agree")
        stored = json.loads(bits.FILE.read_text("utf-8")) if bits.FILE.exists() else {}
        bits.FILE.write_text(json.dumps(stored | {str(times): first}, indent=0) + "\n", "utf-8")
        return 0
    if arguments.check or arguments.file:
        if arguments.check:
            right = bits.expected(times)
        else:
            with open(arguments.file, encoding="utf-8") as file:
                right = dict(line.rstrip("\n").rsplit(": ", 1) for line in file)
        for engine, found in made.items():
            other = [name for name, digest in found.items() if right.get(name) != digest]
            wrong = wrong or bool(other) or not found
            print(f"{engine}: {len(found) - len(other)} of {len(found)} hashes are the same", *other, sep="\n  ")
        return int(wrong)
    for name in first:
        for digest in dict.fromkeys(each[name] for each in made.values()):
            print(f"{name}: {digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
