"""Measures filterblock and other filters for Python in one run, and prints the table of README.md.

    python bench.py [--write] [--keys N] [--rounds R]

Every round measures every filter once, so that a busy machine slows all of them. A time is the median of
the rounds; size and error rate are those of the first round. The two packages in pure Python are measured
with fewer keys, because they take microseconds per key.
"""

import argparse
import gc
import os
import pathlib
import statistics
import tempfile
import time

import bloom_filter2
import filterblock
import numpy as np
import probables
import pybloomfilter
import rbloom

BEGIN, END = "<!-- bench.py writes this table: begin -->", "<!-- bench.py writes this table: end -->"
COLUMNS = ["add", "update", "in, present", "in, absent", "many, list", "many, array"]
ERROR_RATE, SLOW_KEYS = 0.01, 20_000


class Set:
    name = "`set` (exact)"
    is_slow = False

    def __init__(self, count):
        self.filter = set()
        self.add, self.update = self.filter.add, self.filter.update

    def contains_many(self, keys):
        keys = keys.tolist() if isinstance(keys, np.ndarray) else keys
        held = self.filter
        return [key in held for key in keys]

    def bytes_per_key(self, count):
        return self.filter.__sizeof__() / count


class Rbloom(Set):
    name = "rbloom"

    def __init__(self, count):
        self.filter = rbloom.Bloom(count, ERROR_RATE)
        self.add, self.update = self.filter.add, self.filter.update

    def bytes_per_key(self, count):
        return self.filter.size_in_bits / 8 / count


class Pybloom(Set):
    name = "pybloomfiltermmap3"

    def __init__(self, count):
        self.filter = pybloomfilter.BloomFilter(count, ERROR_RATE)
        self.add, self.update = self.filter.add, self.filter.update

    def bytes_per_key(self, count):
        return self.filter.num_bits / 8 / count


class Probables(Set):
    name = "pyprobables"
    is_slow = True

    def __init__(self, count):
        self.filter = probables.BloomFilter(est_elements=count, false_positive_rate=ERROR_RATE)
        self.add = self.filter.add

    def update(self, keys):
        for key in keys:
            self.add(key)

    def contains_many(self, keys):
        keys = map(str, keys.tolist()) if isinstance(keys, np.ndarray) else keys
        return [self.filter.check(key) for key in keys]

    def bytes_per_key(self, count):
        return self.filter.bloom_length / count


class BloomFilter2(Probables):
    name = "bloom-filter2"

    def __init__(self, count):
        self.filter = bloom_filter2.BloomFilter(max_elements=count, error_rate=ERROR_RATE)
        self.add = self.filter.add

    def contains_many(self, keys):
        keys = keys.tolist() if isinstance(keys, np.ndarray) else keys
        return [key in self.filter for key in keys]

    def bytes_per_key(self, count):
        return self.filter.num_bits_m / 8 / count


class Bloom(Set):
    name = "**filterblock** `Bloom`"

    def __init__(self, count):
        self.filter = self.make(count)
        self.add, self.update = self.filter.add, self.filter.update
        self.contains_many = self.filter.contains_many

    def make(self, count):
        return filterblock.Bloom(count, ERROR_RATE)

    def bytes_per_key(self, count):
        return self.filter.num_bits / 8 / count


class FileFilter(Bloom):
    name = "**filterblock** `FileFilter`"

    def make(self, count):
        self.folder = tempfile.TemporaryDirectory()
        return filterblock.FileFilter(count, ERROR_RATE, os.path.join(self.folder.name, "file"))

    def bytes_per_key(self, count):
        self.filter.sync()
        return os.path.getsize(self.filter.filename) / count


class Built(Set):
    """A `Filter`, which is built once from all keys. It has no `add`, so `update` builds it."""

    spec = "blocked-bloom:fpr=0.01"
    name = f"**filterblock** `Filter`, `{spec}`"

    def __init__(self, count):
        self.filter = None

    def update(self, keys):
        self.filter = filterblock.Filter.build(keys, self.spec)
        self.contains_many = self.filter.contains_many

    def bytes_per_key(self, count):
        return self.filter.nbytes / count


class Ribbon(Built):
    spec = "bumped-ribbon:fpr=0.01"
    name = f"**filterblock** `Filter`, `{spec}`"


CLASSES = [Set, Rbloom, Pybloom, Probables, BloomFilter2, Bloom, FileFilter, Built, Ribbon]


def nanoseconds(work, count):
    gc.collect()
    start = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - start) / count


def measure(kind, keys, absent, numbers):
    """Measures one filter. Returns nanoseconds per key for each column, bytes per key, and the error rate."""
    count = len(keys)
    asked = SLOW_KEYS if kind.is_slow else count
    keys, absent, numbers = keys[:asked], absent[:asked], numbers[:asked]
    found = {}

    def add_each():
        add = kind(count).add
        for key in keys:
            add(key)

    if not issubclass(kind, Built):
        found["add"] = nanoseconds(add_each, asked)
    full = kind(count)
    found["update"] = nanoseconds(lambda: full.update(keys), asked)
    filter = full.filter

    def ask_each(keys):
        if isinstance(full, Probables) and not isinstance(full, BloomFilter2):
            check = filter.check
            for key in keys:
                check(key)
        else:
            for key in keys:
                key in filter  # noqa: B015

    found["in, present"] = nanoseconds(lambda: ask_each(keys), asked)
    found["in, absent"] = nanoseconds(lambda: ask_each(absent), asked)
    found["many, list"] = nanoseconds(lambda: full.contains_many(keys), asked)
    found["many, array"] = nanoseconds(lambda: full.contains_many(numbers), asked)
    assert all(full.contains_many(keys))
    # A filter with far fewer keys than its capacity has a lower error rate, so the rate is left out.
    rate = None if kind.is_slow else sum(map(bool, full.contains_many(absent))) / asked
    return found, full.bytes_per_key(count), rate


def rows(count, rounds):
    keys = [f"user:{number:08}" for number in range(count)]
    absent = [f"none:{number:08}" for number in range(count)]
    numbers = np.arange(count)
    measured = {kind: [] for kind in CLASSES}
    for number in range(rounds):
        for kind in CLASSES if number % 2 == 0 else reversed(CLASSES):
            measured[kind].append(measure(kind, keys, absent, numbers))
    for kind, of_rounds in measured.items():
        medians = {
            column: statistics.median(found[column] for found, _, _ in of_rounds)
            for column in COLUMNS
            if column in of_rounds[0][0]
        }
        yield kind, medians, of_rounds[0][1], of_rounds[0][2]


def millions(nanoseconds):
    """Returns a time in nanoseconds per key as millions of keys per second."""
    return "" if nanoseconds is None else f"{1000 / nanoseconds:.3g}"


def table(found, count):
    units = [f"{column} (M/s)" for column in COLUMNS]
    lines = ["| | " + " | ".join([*units, "bytes per key", "error rate"]) + " |"]
    lines.append("|---|" + "--:|" * (len(COLUMNS) + 2))
    for kind, medians, size, rate in found:
        cells = [millions(medians.get(column)) for column in COLUMNS]
        rate = "" if rate is None else f"{100 * rate:.2f} %"
        lines.append(f"| {kind.name} | " + " | ".join([*cells, f"{size:.2f}", rate]) + " |")
    return "\n".join(lines)


def marks(found):
    by_kind = {kind: medians for kind, medians, _, _ in found}
    peers = [Rbloom, Pybloom, Probables, BloomFilter2]
    best = min(by_kind[peer]["many, array"] for peer in peers)
    for kind in (Built, Ribbon, Bloom, FileFilter):
        of_kind = by_kind[kind]
        ratios = [of_kind[column] / by_kind[Rbloom][column] for column in ("in, present", "in, absent")]
        print(
            f"{kind.name}: `in` takes {ratios[0]:.2f} (present) and {ratios[1]:.2f} (absent) of the time of "
            "rbloom; "
            f"an array is {best / of_kind['many, array']:.1f} times as fast as with the fastest peer"
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    found = list(rows(arguments.keys, arguments.rounds))
    text = table(found, arguments.keys)
    print(text)
    marks(found)
    if arguments.write:
        page = pathlib.Path(__file__).with_name("README.md")
        before, rest = page.read_text().split(BEGIN)
        page.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
