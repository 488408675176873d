"""Tests that no engine loses a row of any type because of filters, whatever the form of the value in the query.

A control shows which engine asks filters at all: the same file with filters whose bits are all 0. The command must
refuse the types with which an engine loses rows, and only these.
"""

import re
from concurrent.futures import ThreadPoolExecutor

import pyarrow.parquet as pq
import written
from cells import CELLS
from harness import EngineError
from members import parse_header

SUITE = "types"
VALUES = 12


def add(ctx, old, new, column):
    """Adds filters. Returns the name of the refused type, or `None`. A refused type is forced."""
    new.unlink(missing_ok=True)
    options = ["parquet", "add", old, "--column", ".".join(column), "--fpr", "0.0001", "--replace", "-o", new]
    status, _, err = ctx.command.run(*options)
    if status == 0:
        return None
    found = re.search(r"--force-type (\w+)", err)
    if not found:
        raise RuntimeError(err.strip()[:200])
    status, _, err = ctx.command.run(*options, "--force-type", found[1])
    if status != 0:
        raise RuntimeError(err.strip()[:200])
    return found[1]


def clear(new, zero, column):
    """Copies a file and clears all bits of its filters."""
    data, metadata = bytearray(new.read_bytes()), pq.ParquetFile(new).metadata
    for group in range(metadata.num_row_groups):
        chunks = [metadata.row_group(group).column(i) for i in range(metadata.num_columns)]
        chunk = next(chunk for chunk in chunks if chunk.path_in_schema == ".".join(column))
        start, end = chunk.bloom_filter_offset, chunk.bloom_filter_offset + chunk.bloom_filter_length
        _, header_len = parse_header(data[start:end])
        data[start + header_len : end] = bytes(end - start - header_len)
    zero.write_bytes(data)


def leaf(path):
    """Returns the column that gets filters: `c`, or the last of the columns below `c`."""
    schema = pq.ParquetFile(path).metadata.schema
    return schema.column(len(schema) - 1).path.split(".")


def judge(ctx, engine, name, paths, column, refused):
    """Returns `asks`, `no`, `loses rows`, or `cannot ask`."""
    old, new, zero = map(str, paths)
    try:
        reply = engine.ask("compare", old=old, new=new, zero=zero, column=column, values=VALUES)
    except EngineError:
        return "cannot ask"
    if reply["lost"]:
        ctx.results.check(SUITE, engine.name, refused, f"{name} as {reply['type']} loses rows: {reply['lost']}")
        return "loses rows"
    if reply["found"] == 0:
        return "cannot ask"
    ctx.results.check(SUITE, engine.name, True, name)
    return "asks" if reply["asked"] else "no"


def check(ctx, name, old, column):
    new, zero = old.with_suffix(".new.parquet"), old.with_suffix(".zero.parquet")
    try:
        refused = add(ctx, old, new, column)
        clear(new, zero, column)
    except Exception as error:
        ctx.results.note(f"{name} gets no filters: {error}"[:200])
        return None
    ask = lambda engine: (engine.name, judge(ctx, engine, name, (old, new, zero), column, refused))
    with ThreadPoolExecutor() as pool:
        answers = dict(pool.map(ask, ctx.filtering()))
    return answers | {"refused": refused} if refused else answers


def files(ctx):
    """Yields the name, path and column of each file."""
    for number, cell in enumerate(CELLS):
        path = ctx.path(f"cell-{number}.parquet")
        cell.write(path)
        yield cell.name, path, cell.column()
    for writer, make in written.WRITERS.items():
        if writer in ("clickhouse", "datafusion") and writer not in ctx.engines:
            continue
        for number, (kind, write) in enumerate(make(ctx)):
            name, path = f"{writer}: {kind}", ctx.path(f"{writer}-{number}.parquet")
            path.unlink(missing_ok=True)
            try:
                write(path)
                column = leaf(path)
            except Exception as error:
                ctx.results.note(f"{name} cannot be written: {error}"[:140])
                continue
            yield name, path, column


def run(ctx):
    table = {}
    for name, path, column in files(ctx):
        answers = check(ctx, name, path, column)
        if answers:
            table[name] = answers
    for refused in {answers["refused"] for answers in table.values() if "refused" in answers}:
        loses = any(answers.get("refused") == refused and "loses rows" in answers.values() for answers in table.values())
        ctx.results.check(SUITE, "command", loses, f"the command refuses {refused}, but no engine loses rows")
    ctx.results.compare(SUITE, table)
    return table
