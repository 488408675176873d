"""Tests how many bytes filters add to a file, and which engines refuse lengths that are no power of two."""

import re

import members
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import EngineError
from literals import literal

SUITE = "sizes"
BITS_PER_VALUE_MAX = 10.6
# Engines that refuse a query over a filter whose length is no power of two.
REFUSING = set()
# The message of such an engine.
REFUSAL = re.compile("power|bloom|invalid", re.IGNORECASE)


def write_ids(ctx, rows):
    """Writes random ids of 16 bytes in one row group."""
    data = np.random.default_rng(5).bytes(16 * rows)
    ids = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), rows, [None, pa.py_buffer(data)])
    path = ctx.path("bytes16.parquet")
    pq.write_table(pa.table({"id": ids}), path, row_group_size=rows, use_dictionary=False)
    return path, len(set(ids.to_pylist()))


def duckdb_dictionary_cost(ctx, source):
    """Returns the bytes that a forced dictionary and its filter add in DuckDB."""
    duckdb = ctx.engines["duckdb"]
    sizes = {}
    for name, option in (("plain", "dictionary_size_limit 1"), ("forced", "dictionary_size_limit 100000000")):
        path = ctx.path(f"duckdb_{name}.parquet")
        num = duckdb.ask("copy", source=str(source), path=str(path), options=option)["filters"]
        if (num > 0) != (name == "forced"):
            raise EngineError(f"the file {name} has {num} filters")
        sizes[name] = path.stat().st_size
    return sizes["forced"] - sizes["plain"]


def check_added(ctx):
    rows = 1_000_000
    old, distinct = write_ids(ctx, rows)
    new = ctx.path("bytes16.new.parquet")
    ctx.command.add(old, new, ["id"], "--fpr", "0.01", "--exact-size")
    added = new.stat().st_size - old.stat().st_size
    bits = added * 8 / distinct
    ctx.results.check(SUITE, "command", bits <= BITS_PER_VALUE_MAX, f"{bits:.3f} bits a distinct value")
    rate = false_positives(new)
    ctx.results.check(SUITE, "command", rate <= 0.0105, f"the false-positive rate is {rate:.4f}")
    ctx.results.note(f"1 M ids of 16 bytes: {added:,} bytes, {bits:.2f} bits a value, FPR {rate:.4f}")
    if "duckdb" in ctx.engines:
        forced = duckdb_dictionary_cost(ctx, old)
        ctx.results.check(SUITE, "duckdb", added <= forced / 3, f"{added} bytes against {forced}")
        ctx.results.note(f"a forced dictionary of DuckDB adds {forced:,} bytes; the filter {added / forced:.3f} of that")


def false_positives(path, num=1_000_000):
    hashes = np.random.default_rng(11).integers(0, 2**64 - 1, num, np.uint64)
    return float(filters_of(path)[0].may_contain(hashes).mean())


def filters_of(path):
    metadata = pq.ParquetFile(path).metadata
    found = []
    with open(path, "rb") as file:
        for group in range(metadata.num_row_groups):
            for leaf in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(leaf)
                if chunk.bloom_filter_offset is not None:
                    found.append(members.FilterBits(file, chunk.bloom_filter_offset, chunk.bloom_filter_length))
    return found


def write_odd(ctx):
    """Writes a file whose filters with exact sizes have about 206 blocks."""
    rng = np.random.default_rng(9)
    ids = rng.integers(0, 2**60, 40_000) * 2
    path = ctx.path("odd.parquet")
    table = pa.table({"id": ids})
    pq.write_table(table, path, row_group_size=5000, use_dictionary=False)
    return path, int(ids[9]), int(ids[9]) + 1


def is_power_of_two(num):
    return num & (num - 1) == 0


def check_powers(ctx):
    old, present, absent = write_odd(ctx)
    default, exact = ctx.path("odd.default.parquet"), ctx.path("odd.exact.parquet")
    ctx.command.add(old, default, ["id"], "--fpr", "0.001")
    ctx.command.add(old, exact, ["id"], "--fpr", "0.001", "--exact-size")
    lengths = {path: [found.num_bytes for found in filters_of(path)] for path in (default, exact)}
    ctx.results.check(SUITE, "command", all(map(is_power_of_two, lengths[default])), f"defaults: {lengths[default]}")
    ctx.results.check(SUITE, "command", not any(map(is_power_of_two, lengths[exact])), f"exact: {lengths[exact]}")
    for engine in ctx.engines.values():
        check_exact(ctx, engine, exact, present, absent)


def check_exact(ctx, engine, path, present, absent):
    """Checks that an engine uses or refuses a filter of any length, as REFUSING records."""
    try:
        for value, rows in ((absent, 0), (present, 1)):
            text = literal(engine.name, "int64", value)
            scalar = pa.scalar(value)
            reply = engine.ask("lookup", path=str(path), column=["id"], literal=text, scalar=scalar)
            is_right = reply["rows"] == rows and (rows == 1 or reply["scanned"] == 0)
            ctx.results.check(SUITE, engine.name, is_right, f"--exact-size, {value}: {reply}")
        outcome = "takes it"
    except EngineError as error:
        ctx.results.check(SUITE, engine.name, REFUSAL.search(str(error)), f"--exact-size: {error}")
        outcome = "refuses the query"
    is_recorded = (outcome != "takes it") == (engine.name in REFUSING)
    ctx.results.check(SUITE, engine.name, is_recorded, f"--exact-size: {outcome}")
    ctx.results.note(f"--exact-size: {engine.name} {outcome}")


def run(ctx):
    check_added(ctx)
    check_powers(ctx)
