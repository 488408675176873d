"""Records what happens if a query or a table declares another type for a column than the file has.

Without filters, some engines convert the stored values, and then compare. With filters, an engine may look up a value
of the declared type, and lose rows. The command cannot prevent this: it does not know the queries.
"""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
from harness import EngineError
from suites import types

SUITE = "declared types"
VALUES = 5
NUMBERS = [1, 0, 200, 300, 70000, 70001]
COLUMNS = {
    "int16": pa.array([1, 0, 200, 300, -1, -200], pa.int16()),
    "int32": pa.array([*NUMBERS, -1], pa.int32()),
    "uint32": pa.array([*NUMBERS, 2**32 - 1], pa.uint32()),
    "int64": pa.array([*NUMBERS, 2**32 + 1, -1], pa.int64()),
    "uint64": pa.array([*NUMBERS, 2**64 - 1], pa.uint64()),
    "float": pa.array([1.0, 0.0, 200.5, -0.0, 70000.25], pa.float32()),
    "double": pa.array([1.0, 0.0, 0.1, 70000.1, -0.0], pa.float64()),
    "string": pa.array(["a", "abcd", "", "42", "2020-01-01", "0123456789abcdef"]),
    "binary": pa.array([b"a", b"abcd", b"", b"ab\0\0", bytes(16)], pa.binary()),
    "fixed(4)": pa.array([b"abcd", b"ab\0\0", b"\1\2\3\4", bytes(4)], pa.binary(4)),
    "fixed(16)": pa.array([b"0123456789abcdef", b"ab" + bytes(14), bytes(16)], pa.binary(16)),
    "decimal(9,2)": pa.array(["1.00", "0.10", "20.50"], pa.string()).cast(pa.decimal128(9, 2)),
    "date": pa.array([1, 0, 18000], pa.int32()).cast(pa.date32()),
    "timestamp[ms]": pa.array([1000, 0, 86400000, 1500], pa.int64()).cast(pa.timestamp("ms")),
    "timestamp[us]": pa.array([10**6, 0, 86400 * 10**6, 1500], pa.int64()).cast(pa.timestamp("us")),
}
DECLARED = {
    "clickhouse": [
        *("Int8 UInt8 Int16 UInt16 Int32 UInt32 Int64 UInt64 Int128 Float32 Float64 Bool String".split()),
        *("FixedString(4) FixedString(16) LowCardinality(String) Date Date32 DateTime".split()),
        *("DateTime64(3) DateTime64(9) Decimal32(2) Decimal64(4) UUID IPv4 IPv6".split()),
    ],
    "duckdb": [
        *("TINYINT SMALLINT USMALLINT INTEGER UINTEGER BIGINT UBIGINT HUGEINT FLOAT DOUBLE BOOLEAN VARCHAR BLOB".split()),
        *("DATE TIMESTAMP TIMESTAMP_NS TIMESTAMPTZ DECIMAL(9,2) DECIMAL(18,4) UUID".split()),
    ],
    "datafusion": [
        *("TINYINT SMALLINT INT BIGINT".split()),
        *["INT UNSIGNED", "BIGINT UNSIGNED", "FLOAT", "DOUBLE", "BOOLEAN", "VARCHAR", "BYTEA", "DATE", "TIMESTAMP"],
        *["DECIMAL(9,2)", "DECIMAL(18,4)"],
    ],
}


def judge(engine, paths, declared, **options):
    old, new, zero = map(str, paths)
    try:
        request = {"old": old, "new": new, "zero": zero, "column": ["c"], "values": VALUES, "declared": declared}
        reply = engine.ask("compare", **request, **options)
    except EngineError:
        return None
    if reply["found"] == 0:
        return None
    return "loses rows" if reply["lost"] else "asks" if reply["asked"] else "no"


def answers_of(engine, paths):
    """Yields the declared types and the answers of an engine for a file."""
    for declared in DECLARED[engine.name]:
        variants = [{}, {"options": ", union_by_name = true"}] if engine.name == "duckdb" else [{}]
        answers = {judge(engine, paths, declared, **options) for options in variants} - {None}
        if answers:
            yield declared, max(answers)


def run(ctx):
    """Returns the answers of the engines that find a value. `loses rows` is the fault of the engine."""
    table = {}
    engines = [ctx.engines[name] for name in DECLARED if name in ctx.engines]
    for number, (name, array) in enumerate(COLUMNS.items()):
        old = ctx.path(f"declared-{number}.parquet")
        # ClickHouse asks no filters of an optional column if the declared type is not nullable.
        column = pa.table({"c": array}, schema=pa.schema([pa.field("c", array.type, nullable=False)]))
        pq.write_table(column, old, row_group_size=2, write_statistics=False, use_dictionary=False)
        paths = old, old.with_suffix(".new.parquet"), old.with_suffix(".zero.parquet")
        types.add(ctx, paths[0], paths[1], ["c"])
        types.clear(paths[1], paths[2], ["c"])
        with ThreadPoolExecutor() as pool:
            found = pool.map(lambda engine: (engine.name, dict(answers_of(engine, paths))), engines)
            for engine, answers in found:
                for declared, answer in answers.items():
                    table.setdefault(f"{name} as {declared}", {})[engine] = answer
    ctx.results.compare(SUITE, table)
    losses = [row for row, answers in table.items() if "loses rows" in answers.values()]
    print(f"  {len(table)} pairs of types, rows lost in {len(losses)}: {', '.join(losses)}")
    return table
