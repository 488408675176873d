"""Compares the time and memory to add filters to a string column of 1 GB with pyarrow's time to read it."""

import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

GROUPS, GROUP_ROWS = 26, 1_000_000
READ = """
import sys, time, pyarrow.parquet as pq
start, file = time.monotonic(), pq.ParquetFile(sys.argv[1])
for group in range(file.num_row_groups):
    file.read_row_group(group, use_threads=False)
print(time.monotonic() - start)
"""


def write(path):
    """Writes a file with one column of random strings of 36 bytes."""
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    rng = np.random.default_rng(17)
    offsets = pa.py_buffer(np.arange(0, 36 * (GROUP_ROWS + 1), 36, dtype=np.int32))
    with pq.ParquetWriter(path, pa.schema([("id", pa.string())]), use_dictionary=False, compression="none") as out:
        for _ in range(GROUPS):
            text = pa.py_buffer(digits[rng.integers(0, 16, 36 * GROUP_ROWS, np.uint8)])
            ids = pa.StringArray.from_buffers(GROUP_ROWS, offsets, text)
            out.write_table(pa.table({"id": ids}), row_group_size=GROUP_ROWS)


def copy_seconds(old, new):
    start = time.monotonic()
    shutil.copyfile(old, new)
    with new.open("rb+") as file:
        os.fsync(file.fileno())
    seconds = time.monotonic() - start
    new.unlink()
    return seconds


def read_seconds(path):
    return float(subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True).stdout)


def run(ctx):
    old, new = ctx.path("large.parquet"), ctx.path("large.new.parquet")
    write(old)
    size = old.stat().st_size
    rounds = []
    for _ in range(3):
        new.unlink(missing_ok=True)
        rounds.append(measure(ctx, old, new))
    add, memory, copy, read = (min(column) for column in zip(*rounds))
    ctx.results.note(
        f"{size / 1e9:.2f} GB, {GROUPS} row groups: add {add:.2f} s of which copy and fsync {copy:.2f} s; pyarrow reads "
        f"in {read:.2f} s; (add - copy) / read = {(add - copy) / read:.2f}"
    )
    largest = pq.ParquetFile(old).metadata.row_group(0).total_byte_size
    ctx.results.note(
        f"peak memory {memory / 2**20:.0f} MiB = {memory / size:.3f} of the file, {memory / largest:.2f} of a column chunk"
    )
    ctx.results.check("cost", "command", new.stat().st_size > size, "no filters were added")
    old.unlink()
    new.unlink()


def measure(ctx, old, new):
    copy = copy_seconds(old, new)
    add, memory = ctx.command.measure("parquet", "add", old, "--column", "id", "-o", new)
    return add, memory, copy, read_seconds(old)
