"""Tests calls that need more memory than there is: they raise an exception, and the interpreter goes on."""

import os
import resource
import subprocess
import sys

import pytest

# Each process runs with little more memory than it has after the preparation.
START = """
import ctypes, itertools, resource, sys
import numpy as np, pyarrow as pa
import filterblock
from filterblock import Bloom, FileFilter, Filter, parquet

class Liar(list):
    def __len__(self):
        return 2**62

class Refuses(list):
    def __len__(self):
        raise RuntimeError("mine")

def file(bits):
    return FileFilter(bits, 0.5, "file")
"""
RUN = """
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + room * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    call()
    print("done")
except Exception as error:
    print(type(error).__name__)
"""
MEMORY, VALUE, DONE = "MemoryError", "ValueError", "done"
BLOOM = "big = Bloom(80_000_000, 0.5)\nbig.add(1)\n"  # 14 MB
FILE = "big = file(80_000_000)\nbig.add(1)\n"

CASES = {
    "contains_many of a range": ("", "Bloom(10).contains_many(range(10**12))", MEMORY),
    "contains_many of a range without a length": ("", "Bloom(10).contains_many(range(10**30))", MEMORY),
    "update of a range": ("", "Bloom(10).update(range(10**12))", MEMORY),
    "update of a file": ("big = file(10)", "big.update(range(10**12))", MEMORY),
    "build of a range": ("", "Filter.build(range(10**12))", MEMORY),
    "contains_many of a filter with ranges": (
        "big = Filter.build(['a'], ranges='grafite:fpr=0.01')",
        "big.contains_many(itertools.repeat('b'))",
        MEMORY,
    ),
    "update without end": ("", "Bloom(10).update(itertools.count())", MEMORY),
    "build without end": ("", "Filter.build(itertools.count())", MEMORY),
    "build of ranges without end": (
        "",
        "Filter.build((b'%020d' % i for i in itertools.count()), 'grafite:fpr=0.01')",
        MEMORY,
    ),
    "contains_many without end": ("", "Bloom(10).contains_many(itertools.repeat('a'))", MEMORY),
    "a wrong length": ("", "Bloom(10).update(Liar(['a']))", MEMORY),
    "a length that raises": ("", "Bloom(10).update(Refuses(['a']))", "RuntimeError"),
    "a wide key of no bytes": ("", "Bloom(10).contains_many(b'', width=2**42)", DONE),
    "a wide item of no items": ("big = np.zeros(0, 'V2000000000')", "Bloom(10).contains_many(big)", DONE),
    "wide items": (
        "big = np.broadcast_to(np.zeros((), 'S60000000'), 3)",
        "Bloom(10).contains_many(big)",
        MEMORY,
    ),
    "wide texts": ("big = np.broadcast_to(np.zeros((), 'U15000000'), 3)", "Bloom(10).update(big)", MEMORY),
    "wide bytes": ("big = bytes(60_000_000)", "Bloom(10).contains_many(big, width=len(big))", MEMORY),
    "an array without memory": (
        "big = np.broadcast_to(np.int64(7), 10**12)",
        "Bloom(10).contains_many(big)",
        MEMORY,
    ),
    "an array of texts without memory": (
        "big = np.broadcast_to(np.array('a'), 10**12)",
        "Bloom(10).update(big)",
        MEMORY,
    ),
    "an array in chunks": (
        "big = np.broadcast_to(np.int8(7), 30_000_000)",
        "Bloom(10).update(big)",
        DONE,
    ),
    "a dictionary": (
        "big = pa.DictionaryArray.from_arrays(np.zeros(20_000_000, 'i1'), ['a'])",
        "Filter.build(big, 'bloom:10')",
        DONE,
    ),
    "a dictionary of large values": (
        "big = pa.DictionaryArray.from_arrays([0], pa.array([b'a' * 60_000_000]))",
        "Bloom(10).update(big)",
        MEMORY,
    ),
    "a large bytearray": ("big = bytearray(60_000_000)", "big in Bloom(10)", MEMORY),
    "a large memoryview": ("big = memoryview(bytes(60_000_000))", "Bloom(10).add(big)", MEMORY),
    "a large key": ("big = bytes(60_000_000)", "Bloom(10).add(big)", DONE),
    "key_bytes": ("big = 'a' * 60_000_000", "filterblock.key_bytes(big)", MEMORY),
    "a large bound": (
        "big, some = bytes(60_000_000), Filter.build(['a'])",
        "some.may_contain_range(big, big)",
        MEMORY,
    ),
    "Bloom": ("", "Bloom(2**62, 0.01)", MEMORY),
    "Bloom with a tiny rate": ("", "Bloom(2**40, 1e-6)", MEMORY),
    "FileFilter": ("", "file(2**50)", MEMORY),
    "copy": (BLOOM, "big.copy()", MEMORY),
    "or": (BLOOM, "big | big", MEMORY),
    "union": (BLOOM, "big.__ior__(big)", MEMORY),
    "intersection": (BLOOM, "big.__iand__(big)", MEMORY),
    "compare": (BLOOM, "big.compare(big)", MEMORY),
    "copy_template": (BLOOM, "big.copy_template()", MEMORY),
    "freeze": (BLOOM, "big.freeze()", MEMORY),
    "data_array": (BLOOM, "big.data_array", MEMORY),
    "pickle": (BLOOM, "big.__reduce__()", MEMORY),
    "unpickle": (BLOOM, "f, a = big.__reduce__(); call = lambda: f(*a)", MEMORY),
    "file copy": (FILE, "big.copy('other')", MEMORY),
    "file copy_template": (FILE, "big.copy_template('other')", MEMORY),
    "file to_base64": (FILE, "big.to_base64()", MEMORY),
    "file data_array": (FILE, "big.data_array", MEMORY),
    "file clear": (FILE, "big.clear()", MEMORY),
    "file counts": (FILE, "(big.bit_count, big.approx_len, len(big))", DONE),
    "file open": (FILE + "big.close()\n", "FileFilter.open('file')", MEMORY),
    "to_bytes": (BLOOM + "big = big.freeze()\n", "big.to_bytes()", MEMORY),
    "merge": (BLOOM + "big = big.freeze()\n", "Filter.merge([big, big])", MEMORY),
    "from_bytes": (BLOOM + "big = big.freeze().to_bytes()\n", "Filter.from_bytes(big)", MEMORY),
    "open in memory": (
        BLOOM + "big.freeze().save('big')\n",
        "Filter.open('big', mapped=False)",
        MEMORY,
    ),
    "an arrow stream of many chunks": (
        "big = pa.chunked_array([pa.array([1])] * 300_000)",
        "Bloom(10).update(big)",
        MEMORY,
    ),
    "misaligned integers": (
        "big = pa.py_buffer(bytes(40_000_001)).slice(1)\n"
        "big = pa.Array.from_buffers(pa.int64(), 5_000_000, [None, big])",
        "Bloom(10).update(big)",
        MEMORY,
    ),
    "misaligned views": (
        "big = pa.py_buffer(bytes(48_000_008)).slice(8)\n"
        "big = pa.Array.from_buffers(pa.string_view(), 3_000_000, [None, big])",
        "Bloom(10).update(big)",
        MEMORY,
    ),
    "merge of many": ("big = [Filter.build(['a'])] * 200_000", "Filter.merge(big)", MEMORY),
    "a long spec": ("big = 'x' * 60_000_000", "filterblock.plan(big, 1)", VALUE),
    "a long kind": ("big = 'x' * 60_000_000", "filterblock.plan_largest(big, 1, 1)", VALUE),
    "a long mode": ("big = 'x' * 60_000_000", "FileFilter.open('file', big)", VALUE),
    "a long type": ("big = type('x' * 60_000_000, (), {})()", "Bloom(10).update([big])", "TypeError"),
    "a long type of an argument": (
        "big = type('x' * 60_000_000, (), {})()",
        "Filter.merge(big)",
        "TypeError",
    ),
    "a long dtype": ("big = np.zeros(1, [('x' * 60_000_000, 'i1')])", "Bloom(10).update(big)", "TypeError"),
    "merge of a range": ("", "Filter.merge(range(10**15))", "TypeError"),
    "columns of a range": ("", "parquet.add('a', 'b', range(10**15))", "TypeError"),
    "hash_seeds of a range": ("", "FileFilter(10, 0.1, 'a', hash_seeds=range(10**15))", VALUE),
    "table_id of a range": ("", "Filter.build([1], table_id=range(2**62))", "TypeError"),
    "too many threads": ("", "Filter.build(range(1000), 'bumped-ribbon:8', threads=10**9)", DONE),
    "a filter that does not fit": (
        "big = np.arange(3_000_000)",
        "Filter.build(big, 'bumped-ribbon:8')",
        MEMORY,
    ),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sets a limit of Linux")
@pytest.mark.parametrize("name", CASES)
def test_too_little_memory_raises_and_never_aborts(name, tmp_path):
    prepare, call, expected = CASES[name]
    call = f"call = lambda: {call}\n" if "call = " not in call else call + "\n"
    # `call` was compiled before the limit is set.
    program = f"{START}{prepare}\n{call}room = 10\n{RUN}"
    # The arena of a thread reserves memory that the limit then includes.
    env = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=env
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, expected + "\n", "")
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
