"""Print hashes of the values that each engine of this machine computes: ``python tests/bits.py``.

The hashed calls are in `posenc_fast/_selfcheck/bits.py`.

``python tests/bits.py --write`` writes the hashes to the repository, if all engines agree. Run this command after you
change a value that an engine computes, or a call that is hashed. If results of the calls in `bits.calls` change, also
run ``--long --write``. With ``--long``, 2^27 values of each type are hashed instead of 2^20, which takes minutes with
the Python engine.

``python tests/bits.py FILE`` compares the hashes with a file that has the output of another machine or compiler.
``--check`` compares them with the hashes in the repository. ``--engines baseline,python`` selects engines. No compiler,
flag or architecture may change the hashes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import posenc_fast as pf
from posenc_fast._selfcheck import bits
from posenc_fast._selfcheck.accuracy import engines


def made(long: bool, loops: bool) -> dict[str, dict[str, str]]:
    """Return the hashes that the active engine computes, as {part of the file of hashes: {name of a call: hash}}.

    long: whether to hash 2^27 values of each type, and nothing else. loops: whether to hash the loops too.
    """
    if long:
        return {str(bits.LONG): dict(bits.hashes(bits.LONG))}
    parts = {str(bits.SHORT): dict(bits.hashes(bits.SHORT)), "frequencies": dict(bits.hashes_of_frequencies())}
    return parts | ({"loops": dict(bits.hashes_of_loops())} if loops else {})


def joined(parts: dict[str, dict[str, str]]) -> dict[str, str]:
    return {f"{part}: {name}": digest for part, found in parts.items() for name, digest in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--engines", default=",".join(engines()))
    arguments = parser.parse_args()
    found, parts, wrong = {}, {}, False
    for engine in arguments.engines.split(","):
        begin = time.monotonic()
        with pf.use_backend(*engines()[engine]):
            # the Python engine needs a long time for hashes_of_loops, so it computes these hashes only with --write
            each = made(arguments.long, arguments.write or engine != "python")
        found[engine], parts = joined(each), parts | each
        print(f"{engine}: {len(found[engine])} hashes in {time.monotonic() - begin:.0f} s", file=sys.stderr)
    together = {
        name: {each[name] for each in found.values() if name in each} for each in found.values() for name in each
    }
    if arguments.write:
        other = [name for name, digests in together.items() if len(digests) > 1]
        if other:
            sys.exit("\n  ".join(["the engines do not agree:", *other]))
        stored = json.loads(bits.FILE.read_text("utf-8")) if bits.FILE.exists() else {}
        bits.FILE.write_text(json.dumps(stored | parts, indent=0) + "\n", "utf-8")
        return 0
    if arguments.check or arguments.file:
        if arguments.check:
            right = joined({part: bits.expected(part) for part in parts})
        else:
            with open(arguments.file, encoding="utf-8") as file:
                right = dict(line.rstrip("\n").rsplit(": ", 1) for line in file)
        for engine, each in found.items():
            other = [name for name, digest in each.items() if right.get(name) != digest]
            wrong = wrong or bool(other) or not each
            print(f"{engine}: {len(each) - len(other)} of {len(each)} hashes are the same", *other, sep="\n  ")
        return int(wrong)
    for name, digests in together.items():
        for digest in sorted(digests):
            print(f"{name}: {digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
