"""Tests that Ctrl-C ends long calls: a child process gets SIGINT, and says when Python answered."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filterblock import Bloom, FileFilter, Filter

CHILD = """
import sys, time
import numpy as np, pyarrow as pa
import filterblock
from filterblock import Bloom, FileFilter, Filter, index, parquet

# The keys of 2 TB are no memory: all items lie at one address, or are made one by one.
many = np.broadcast_to(np.int64(7), 2**40)
{prepare}
print("ready", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", time.monotonic(), flush=True)
    sys.exit()
print("done", flush=True)
"""
PREPARE_KEYS = "keys = np.arange(60_000_000)"
CASES = {
    "build": (PREPARE_KEYS, "Filter(keys, 'ribbon:fpr=0.001')"),
    "build with threads": (PREPARE_KEYS, "Filter(keys, 'bumped-ribbon:fpr=0.001', threads=2)"),
    "build of a list": ("import itertools", "Filter(itertools.cycle(['a']))"),
    "update of an array": ("bloom = Bloom(10)", "bloom.update(many)"),
    "update of a file": ("bloom = FileFilter(10, 0.1, sys.argv[1])", "bloom.update(many)"),
    "update of Arrow": (
        "bloom = Bloom(10)\nkeys = pa.chunked_array([pa.array(np.arange(2**20))] * 2**14)",
        "bloom.update(keys)",
    ),
    "contains_many": (
        "few, long = Bloom(10), np.broadcast_to(np.int64(7), 2**31)",
        "few.contains_many(long)",
    ),
    "merge": (
        "big = Bloom(8_000_000)\nbig.add(1)\nbig = [big.freeze()] * 3000",
        "Filter.merge(big)",
    ),
    "parquet.add": ("", "parquet.add('long.parquet', 'new.parquet', ['id', 'text'])"),
    "parquet.add in place": ("", "parquet.add('long.parquet', columns=['id', 'text'], in_place=True)"),
    "parquet.check": ("", "parquet.check('long.parquet', ['id', 'text'], values=True)"),
    "index.build": ("", "index.build('new.index', ['long.parquet'], 'text')"),
    "query_many": (
        "import itertools, pyarrow.parquet as pq\nplace = sys.argv[1]\n"
        "pq.write_table(pa.table({'id': [1]}), place)\none = index.build(place + '.index', place, 'id')",
        "one.query_many(itertools.repeat(1))",
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Makes a Parquet file whose columns take seconds to read."""
    folder, count = tmp_path_factory.mktemp("interrupts"), 8_000_000
    numbers = np.random.default_rng(1).integers(0, 2**62, count)
    table = pa.table({"id": numbers, "text": pa.array(numbers).cast(pa.string())})
    pq.write_table(table, folder / "long.parquet", row_group_size=count, use_dictionary=False)
    return folder


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize("name", CASES)
def test_ctrl_c_is_answered_at_once(name, folder, tmp_path):
    prepare, call = CASES[name]
    before = sorted(os.listdir(folder))
    old = (folder / "long.parquet").stat()
    code = CHILD.format(prepare=prepare, call=call)
    command = [sys.executable, "-c", code, tmp_path / "bloom"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
    with child:
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.5)
        sent = time.monotonic()
        child.send_signal(signal.SIGINT)
        answer = child.stdout.readline().split()
    assert answer[0] == "interrupted", "the call ended before the signal, or did not end"
    assert float(answer[1]) - sent < 0.5
    # No half-written file, and no temporary file, stays.
    assert sorted(os.listdir(folder)) == before
    assert (folder / "long.parquet").stat().st_mtime_ns == old.st_mtime_ns


def test_keys_before_an_interrupt_are_found(tmp_path):
    """Interrupts an update from a handler of a signal, and asks for all keys that may have been added."""
    for make in (lambda: Bloom(2_000_000), lambda: FileFilter(2_000_000, 0.01, tmp_path / "file")):
        bloom, keys = make(), np.arange(2_000_000)

        def stop(*_):
            raise RuntimeError("stop")

        previous = signal.signal(signal.SIGALRM, stop)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            with pytest.raises(RuntimeError, match="stop"):
                while True:
                    bloom.update(keys)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
        bloom.update(keys)
        assert bloom.contains_many(keys).all()
    assert Filter(np.arange(300_000)).contains_many(np.arange(300_000)).all()
