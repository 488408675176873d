"""Tests reads of a column as a wider type. Filters hash values of the file's type, and no row may be lost."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import EngineError

SUITE = "other types"
TYPES = ["Int8", "UInt32", "Int64", "UInt64", "Int128", "Float32", "Float64", "String", "Decimal(18, 2)"]
CASTS = ["", "::TINYINT", "::BIGINT", "::UBIGINT", "::HUGEINT", "::FLOAT", "::DOUBLE", "::DECIMAL(18, 3)", "::VARCHAR"]


def write(ctx):
    """Writes an old file with narrow types, and a later file with wide types."""
    numbers = np.unique(np.random.default_rng(19).integers(0, 10**6, 5000)) * 2
    narrow = pa.table({"a": pa.array(numbers, pa.int32()), "f": pa.array(numbers / 4, pa.float32())})
    wide = pa.table({"a": pa.array(numbers + 10**10), "f": pa.array(numbers / 4 + 0.1)})
    paths = []
    for name, table in (("narrow", narrow), ("wide", wide)):
        old = ctx.path(name + ".parquet")
        pq.write_table(table, old, use_dictionary=False)
        new = ctx.path(name + ".new.parquet")
        ctx.command.add(old, new, ["a", "f"], "--fpr", "0.0001")
        paths.append((old, new))
    old, new = zip(*paths)
    return old, new, int(numbers[7])


def duckdb_queries(number):
    for condition in (f"a = {number}", f"f = {number / 4}"):
        for cast in CASTS:
            yield lambda narrow, wide, c=condition + cast: f"select count(*) from '{narrow}' where {c}"
        for options in ("", ", union_by_name = true"):
            both = "select count(*) from read_parquet(['{}', '{}']{}) where {}"
            yield lambda narrow, wide, c=condition, o=options: both.format(wide, narrow, o, c)


def clickhouse_queries(number):
    for kind in TYPES:
        for column, value in (("a", number), ("f", number / 4)):
            value = f"'{value}'" if kind == "String" else value
            query = "select count() from file('{}', Parquet, '{} {}') where {} = {}"
            yield lambda narrow, wide, c=column, k=kind, v=value: query.format(narrow, c, k, c, v)


def datafusion_queries(number):
    for kind in ["Int8", "Int64", "UInt64", "Float32", "Float64", "Utf8", "Decimal128(18, 3)"]:
        for column, value in (("a", number), ("f", number / 4)):
            query = "select count(*) from '{}' where {} = arrow_cast({}, '{}')"
            yield lambda narrow, wide, c=column, k=kind, v=value: query.format(narrow, c, v, k)


QUERIES = {"duckdb": duckdb_queries, "clickhouse": clickhouse_queries, "datafusion": datafusion_queries}


def count(engine, sql):
    try:
        return engine.ask("count", sql=sql)["count"]
    except EngineError:
        return "error"


def run(ctx):
    old, new, number = write(ctx)
    for name, make in QUERIES.items():
        if name not in ctx.engines:
            continue
        engine, num_found = ctx.engines[name], 0
        for query in make(number):
            before, after = (count(engine, query(*paths)) for paths in (old, new))
            num_found += before == 1
            ctx.results.check(SUITE, name, before == after, f"{query('narrow', 'wide')}: {before}, then {after}")
        ctx.results.check(SUITE, name, num_found >= 4, f"only {num_found} queries find the row")
