#!/usr/bin/env python3
"""Measures Python filters as `peers variants` measures Rust filters, and adds rows to the same CSV.

    python3 -m venv .venv && .venv/bin/pip install pybloomfiltermmap3 pyprobables
    .venv/bin/python python/variants.py --append ../record/variants.csv

The keys are those of src/keys.rs. Times are CPU time of the thread, and include the loop and the call from Python.
pyprobables is written in Python and takes microseconds per key, so it gets fewer keys (--slow-keys). If a filter denies a
key that was added, its row has the number of such keys, and the exit status is 1.
"""

import argparse
import csv
import math
import platform
import random
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from time import thread_time_ns

import probables
import pybloomfilter

RATE = 0.01
ABSENT = 1 << 60
MASK = (1 << 64) - 1
Z99 = 2.575829303548901
FIRST = 1_000


def mix(number):
    """Mixes the bits of a number, as src/keys.rs does."""
    z = (number + 0x9E3779B97F4A7C15) & MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def key(number):
    """Returns the key of 16 bytes with a number, as src/keys.rs does."""
    return (mix(number) | mix(number ^ (1 << 63)) << 64).to_bytes(16, "little")


class Work:
    """The keys that all filters get: added keys, the same keys in another order, and absent keys."""

    def __init__(self, keys):
        numbers = list(range(keys))
        self.added = [key(number) for number in numbers]
        random.Random(7).shuffle(numbers)
        # New objects, so that they lie in memory in the order of the queries.
        self.asked = [key(number) for number in numbers]
        self.absent = [key(ABSENT + number) for number in range(keys)]


def nanos(keys, act):
    """Returns the mean CPU time of a call in ns, and the number of true answers."""
    start = thread_time_ns()
    true = 0
    for each in keys:
        if act(each):
            true += 1
    return (thread_time_ns() - start) / len(keys), true


def in_file(keys):
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "filter"
    return Held(pybloomfilter.BloomFilter(keys, RATE, str(path)), folder, path)


class Held:
    """A filter in a temporary file."""

    def __init__(self, filter, folder, path):
        self.filter, self.folder, self.path = filter, folder, path


def of_array(filter):
    """Returns the size in bytes of the array in which pyprobables has its bits or counters."""
    return filter.bloom.itemsize * len(filter.bloom)


def of_quotients(filter):
    """Returns the size in bytes: in memory a remainder takes twice `bits_per_elm` bits, and has three bits of metadata."""
    return len(filter._filter) * filter._filter.itemsize + filter.size * 3 // 8


def of_export(filter):
    """Returns the size in bytes of the serialised filter, because in memory the filter has Python lists."""
    return len(bytes(filter))


# Name, package, and functions that make a filter, add, ask, remove, return the size, and make insertions durable.
def probables_kind(name, make, size, remove=None):
    return (name, "pyprobables", make, lambda f: f.add, lambda f: f.check, remove, size, None)


KINDS = [
    (
        "BloomFilter",
        "pybloomfiltermmap3",
        lambda n: pybloomfilter.BloomFilter(n, RATE),
        lambda f: f.add,
        lambda f: f.__contains__,
        None,
        lambda f: f.num_bits // 8,
        None,
    ),
    (
        "BloomFilter in a file",
        "pybloomfiltermmap3",
        in_file,
        lambda h: h.filter.add,
        lambda h: h.filter.__contains__,
        None,
        lambda h: h.path.stat().st_size,
        lambda h: h.filter.sync(),
    ),
    probables_kind("BloomFilter", lambda n: probables.BloomFilter(n, RATE), of_array),
    probables_kind("CountingBloomFilter", lambda n: probables.CountingBloomFilter(n, RATE), of_array, lambda f: f.remove),
    probables_kind("ExpandingBloomFilter, from 1,000", lambda n: probables.ExpandingBloomFilter(FIRST, RATE), of_export),
    probables_kind(
        "CuckooFilter of 1 %",
        lambda n: probables.CuckooFilter.init_error_rate(RATE, capacity=n // 4),
        of_export,
        lambda f: f.remove,
    ),
    probables_kind("CuckooFilter", lambda n: probables.CuckooFilter(capacity=n // 3), of_export, lambda f: f.remove),
    probables_kind(
        "QuotientFilter",
        lambda n: probables.QuotientFilter(quotient=math.ceil(math.log2(n / 0.8))),
        of_quotients,
        lambda f: f.remove,
    ),
]


def one_pass(kind, work):
    """Measures a new filter: fills it, asks for all keys, and removes half of them if it can."""
    _, _, make, add, has, take, size, sync = kind
    filter = make(len(work.added))
    insert_ns, _ = nanos(work.added, add(filter))
    if sync:
        start = thread_time_ns()
        sync(filter)
        insert_ns += (thread_time_ns() - start) / len(work.added)
    found = {"insert_ns": insert_ns, "bytes": size(filter)}
    found["present_ns"], true = nanos(work.asked, has(filter))
    found["denied"] = len(work.asked) - true
    found["absent_ns"], found["false_positives"] = nanos(work.absent, has(filter))
    if take:
        half = len(work.added) // 2
        found["remove_ns"], _ = nanos(work.added[:half], take(filter))
        left = work.added[half:]
        found["denied_after_removals"] = len(left) - nanos(left, has(filter))[1]
    return found


def least(passes):
    """Returns the lowest times and the highest numbers of denied keys of all passes, and the last pass's other values."""
    best = dict(passes[-1])
    for name in best:
        if name.endswith("_ns"):
            best[name] = round(min(each[name] for each in passes), 2)
        elif name.startswith("denied"):
            best[name] = max(each[name] for each in passes)
    return best


def row(kind, keys, passes):
    found = least(passes)
    share = found.pop("false_positives") / keys
    # The interval of Wilson, as in src/rate.rs.
    middle = (share + Z99**2 / (2 * keys)) / (1 + Z99**2 / keys)
    reach = Z99 / (1 + Z99**2 / keys) * math.sqrt(share * (1 - share) / keys + Z99**2 / (4 * keys**2))
    return {
        "variant": kind[0],
        "package": kind[1],
        "version": version(kind[1]),
        "runtime": f"Python {platform.python_version()}",
        "keys": keys,
        "passes": len(passes),
        "rate": share,
        "rate_low": max(middle - reach, 0.0),
        "rate_high": middle + reach,
        **found,
    }


def append(path, rows):
    """Adds rows to a CSV, and drops those of an earlier run of this script."""
    lines = path.read_text().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    reader = csv.DictReader(line for line in lines if not line.startswith("#"))
    kept = [each for each in reader if not each["runtime"].startswith("Python")]
    with path.open("w", newline="") as out:
        out.writelines(f"{line}\n" for line in comments)
        writer = csv.DictWriter(out, reader.fieldnames, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept + rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000, help="number of keys for the filters of pybloomfiltermmap3")
    parser.add_argument("--slow-keys", type=int, default=50_000, help="number of keys for the filters of pyprobables")
    parser.add_argument("--passes", type=int, default=5, help="number of passes; the lowest times count")
    parser.add_argument("--append", type=Path, help="append the rows to this CSV, which `peers variants --out` wrote")
    args = parser.parse_args()
    if args.append and "insert_ns" not in args.append.read_text():
        parser.error(f"{args.append} was not written by `peers variants --out`; write it with that command first")
    works = {"pybloomfiltermmap3": Work(args.keys), "pyprobables": Work(args.slow_keys)}
    passes = [[] for _ in KINDS]
    for number in range(args.passes):
        for kind, done in zip(KINDS, passes):
            done.append(one_pass(kind, works[kind[1]]))
        print(f"pass {number + 1} of {args.passes}", file=sys.stderr)
    rows = [row(kind, len(works[kind[1]].added), done) for kind, done in zip(KINDS, passes)]
    for each in rows:
        print(each)
    if args.append:
        append(args.append, rows)
    denied = [each["variant"] for each in rows if each["denied"] or each.get("denied_after_removals")]
    if denied:
        print(f"filters that denied added keys: {', '.join(denied)}", file=sys.stderr)
    return 1 if denied else 0


if __name__ == "__main__":
    sys.exit(main())
