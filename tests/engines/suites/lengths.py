"""Tests `--fix-lengths`: it adds the lengths of filters to a footer that lacks them."""

import members
import pyarrow.parquet as pq
from harness import EngineError
from suites import random_ids

SUITE = "lengths"


def varint(number):
    """Encodes a positive number in the compact Thrift protocol."""
    number, encoded = number * 2, b""
    while number >= 0x80:
        number, encoded = number >> 7, encoded + bytes([number & 0x7F | 0x80])
    return encoded + bytes([number])


def without_length(footer, chunk):
    """Returns a footer without the field bloom_filter_length (number 15) of a chunk."""
    offset = b"\x16" + varint(chunk.bloom_filter_offset)
    length = b"\x15" + varint(chunk.bloom_filter_length)
    before, found, after = footer.partition(offset + length)
    if not found:
        raise ValueError("the footer has no such filter")
    # A field stores the difference of its number and the number of the field before it.
    following = after[:1] if after[0] == 0 else bytes([after[0] + 0x10])
    return before + offset + following + after[1:]


def without_lengths(source, path):
    """Copies a file, without the lengths of filters in the footer of the copy."""
    data = source.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer, metadata = data[start:-8], pq.ParquetFile(source).metadata
    for group in range(metadata.num_row_groups):
        footer = without_length(footer, metadata.row_group(group).column(0))
    path.write_bytes(data[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def run(ctx):
    old, added = ctx.path("lengths.parquet"), ctx.path("lengths.added.parquet")
    ids = random_ids.write(old, random_ids.GROUPS, random_ids.GROUP_ROWS)
    ctx.command.add(old, added, ["id"])
    without, fixed = ctx.path("without.parquet"), ctx.path("fixed.new.parquet")
    without_lengths(added, without)
    ctx.command.add(without, fixed, [], "--fix-lengths")
    duckdb = ctx.engines.get("duckdb")
    if duckdb:
        counts = [duckdb.ask("lengths", path=str(path)) for path in (without, fixed)]
        is_right = [(c["num"], c["num_lengths"]) for c in counts] == [(8, 0), (8, 8)]
        ctx.results.check(SUITE, "command", is_right, str(counts))
    denied, asked = members.denied_values(fixed)
    ctx.results.check(SUITE, "command", denied == 0 and asked == len(set(ids)), f"{denied} of {asked}")
    for engine in ctx.filtering():
        try:
            compare(ctx, engine, without, fixed, int(ids[5]) + 1)
        except EngineError as error:
            ctx.results.check(SUITE, engine.name, False, str(error))


def compare(ctx, engine, without, fixed, absent):
    before, after = (random_ids.bytes_read(engine, path, absent) for path in (without, fixed))
    scanned = random_ids.lookup(engine, fixed, absent)["scanned"]
    ctx.results.check(SUITE, engine.name, scanned == 0 and after <= before, f"{before} to {after}, {scanned} scanned")
    ctx.results.note(f"{engine.name}: {before:,} bytes without lengths, {after:,} with lengths")
