"""Writes a column of each type that a writer has, as the writer stores it."""

import datetime as dt
import decimal
import uuid

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 12
START = dt.datetime(2001, 2, 3, 4, 5, 6)

# Expressions over the integers i from 0 to 11.
DUCKDB = {
    **{kind: f"i::{kind}" for kind in ["tinyint", "utinyint", "smallint", "usmallint", "integer", "uinteger"]},
    **{kind: f"i::{kind}" for kind in ["bigint", "ubigint", "hugeint", "uhugeint", "float", "double", "bignum"]},
    **{f"decimal({p},{s})": f"(i / 10)::decimal({p}, {s})" for p, s in [(2, 1), (4, 2), (9, 3), (18, 2), (38, 2)]},
    **{kind: f"i::varchar::{kind}" for kind in ["varchar", "blob", "json"]},
    **{kind: f"('2001-02-03 04:05:06'::timestamp + to_seconds(i))::{kind}"
       for kind in ["timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz", "time"]},
    "time_ns": "('04:05:06.000000' || lpad(i::varchar, 3, '0'))::time_ns",
    "timetz": "('04:05:06+0' || (i % 9)::varchar)::timetz",
    "timetz in one zone": "('04:05:' || lpad(i::varchar, 2, '0') || '+00')::timetz",
    "date": "('2001-02-03'::date + i::int)::date",
    "interval days": "to_days((i * 11)::int)",
    "interval hours": "to_hours(i * 7)",
    "interval months": "to_months(i::int)",
    "uuid": "md5(i::varchar)::uuid",
    "bit": "i::int::bit",
    "enum": "(['sad', 'ok', 'happy'])[1 + i % 3]::enum('sad', 'ok', 'happy')",
    "struct": "{'c': i}",
    "variant": "i::variant",
    "geometry": "('POINT(' || i || ' 2)')::geometry",
}
CLICKHOUSE = {
    **{kind: f"to{kind}(i)" for kind in ["Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64"]},
    **{kind: f"to{kind}(i)" for kind in ["Int128", "UInt128", "Int256", "UInt256", "Float32", "Float64", "String"]},
    **{f"Decimal{bits}(2)": f"toDecimal{bits}(i / 10, 2)" for bits in [32, 64, 128, 256]},
    "FixedString(5)": "toFixedString(toString(i), 5)",
    "Date": "toDate('2001-02-03') + i",
    "Date32": "toDate32('2001-02-03') + i",
    "DateTime": "toDateTime('2001-02-03 04:05:06', 'UTC') + i",
    **{f"DateTime64({n})": f"toDateTime64('2001-02-03 04:05:06', {n}, 'UTC') + i" for n in [0, 3, 6, 9]},
    "Enum8": "CAST(i % 3, 'Enum8(\\'a\\' = 0, \\'b\\' = 1, \\'c\\' = 2)')",
    "UUID": "toUUID(concat('61f0c404-5cb3-11e7-907b-a6006ad3db', leftPad(toString(i), 2, '0')))",
    "IPv4": "toIPv4(concat('1.2.3.', toString(i)))",
    "IPv6": "toIPv6(concat('2001:db8::', toString(i)))",
    "LowCardinality": "toLowCardinality(toString(i))",
}
DATAFUSION = {
    kind: f"arrow_cast(i, '{kind}')"
    for kind in ["Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64"]
    + ["Float16", "Float32", "Float64", "Utf8", "LargeUtf8", "Utf8View", "Dictionary(Int32, Utf8)"]
    + ["Decimal128(9, 2)", "Decimal128(18, 2)", "Decimal128(38, 2)", "Decimal256(39, 0)", "Decimal256(76, 2)", "Timestamp(Second, None)"]
    + ["Timestamp(Millisecond, None)", "Timestamp(Microsecond, None)", "Timestamp(Nanosecond, None)"]
    + ["Duration(Second)", "Duration(Nanosecond)"]
} | {
    **{kind: f"arrow_cast(arrow_cast(i, 'Int32'), '{kind}')" for kind in ["Date32", "Time32(Millisecond)"]},
    **{kind: f"arrow_cast(i, '{kind}')" for kind in ["Date64", "Time64(Microsecond)", "Time64(Nanosecond)"]},
    "Binary": "arrow_cast(arrow_cast(i, 'Utf8'), 'Binary')",
    "FixedSizeBinary(16)": "arrow_cast(arrow_cast(lpad(arrow_cast(i, 'Utf8'), 16, '0'), 'Binary'), 'FixedSizeBinary(16)')",
    "Interval": "arrow_cast(concat(arrow_cast(i * 11, 'Utf8'), ' days'), 'Interval(DayTime)')",
}


def arrow_columns():
    """Returns arrays of the types of Arrow."""
    numbers = range(ROWS)
    instants = [START + dt.timedelta(seconds=i) for i in numbers]
    decimals = [decimal.Decimal(i).scaleb(-1) for i in numbers]
    arrays = [pa.array(numbers, kind) for kind in (pa.int8(), pa.uint16(), pa.int64(), pa.float16(), pa.float64())]
    for kind in (pa.decimal32(9, 2), pa.decimal64(18, 2), pa.decimal128(38, 2), pa.decimal256(38, 2)):
        arrays.append(pa.array(decimals, kind))
    for kind in (pa.decimal256(39, 1), pa.decimal256(76, 2)):
        arrays.append(pa.array(decimals, kind))
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        arrays.append(pa.array([f"text {i}" for i in numbers]).cast(kind))
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(7)):
        arrays.append(pa.array([b"bytes %d" % (i % 10) for i in numbers], kind))
    arrays += [pa.array(instants, pa.timestamp(unit, zone)) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")]
    arrays += [pa.array([at.date() for at in instants], kind) for kind in (pa.date32(), pa.date64())]
    clocks = [at.time() for at in instants]
    arrays += [pa.array(clocks, kind) for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))]
    arrays += [pa.array([dt.timedelta(days=i) for i in numbers], pa.duration(unit)) for unit in ("s", "ns")]
    ids = pa.array([uuid.UUID(int=i * 2**100).bytes for i in numbers], pa.binary(16))
    arrays.append(pa.ExtensionArray.from_storage(pa.uuid(), ids))
    arrays.append(pa.ExtensionArray.from_storage(pa.json_(), pa.array([f'{{"a": {i}}}' for i in numbers])))
    opaque = pa.opaque(pa.int64(), "type", "vendor")
    arrays.append(pa.ExtensionArray.from_storage(opaque, pa.array(numbers, pa.int64())))
    return {str(array.type): array for array in arrays}


def pyarrow_files(_):
    for name, array in arrow_columns().items():
        yield name, lambda path, a=array: pq.write_table(pa.table({"c": a}), path)
    for name in ("time32[ms]", "time64[us]", "time64[ns]"):
        array = arrow_columns()[name]
        table = pa.table({"c": array})
        yield name + " UTC", lambda path, t=table: pq.write_table(t, path, write_time_adjusted_to_utc=True)


def duckdb_files(_):
    import duckdb

    def write(path, expression):
        con = duckdb.connect()
        con.execute(f"copy (select {expression} as c from range({ROWS}) r(i)) to '{path}' (format parquet)")

    for name, expression in DUCKDB.items():
        yield name, lambda path, e=expression: write(path, e)


def polars_files(_):
    import polars

    def write(path, array, kind):
        series = polars.Series("c", array)
        polars.DataFrame({"c": series.cast(kind) if kind else series}).write_parquet(path)

    for name, array in arrow_columns().items():
        # Polars panics at decimals of 256 bits.
        if not name.startswith("decimal256"):
            yield name, lambda path, a=array: write(path, a, None)
    numbers = pa.array(range(ROWS), pa.int64())
    kinds = ["Int128", "UInt128", "Float16", "Categorical"]
    for name in kinds:
        kind = getattr(polars, name, None)
        if kind:
            source = numbers.cast(pa.string()) if name == "Categorical" else numbers
            yield name, lambda path, a=source, k=kind: write(path, a, k)


def fastparquet_files(_):
    import fastparquet

    def write(path, array, **options):
        fastparquet.write(str(path), pa.table({"c": array}).to_pandas(), **options)

    columns = arrow_columns()
    for name in ("int8", "uint16", "int64", "double", "string", "binary", "timestamp[ns]", "timestamp[ns, tz=UTC]"):
        yield name, lambda path, a=columns[name]: write(path, a)
    yield "timedelta", lambda path: write(path, columns["duration[ns]"])
    yield "INT96", lambda path: write(path, columns["timestamp[ns]"], times="int96")
    yield "json", lambda path: write(path, columns["string"], object_encoding="json")


def of_engine(name, expressions):
    def files(ctx):
        for kind, expression in expressions.items():
            ask = lambda path, e=expression: ctx.engines[name].ask("export", expression=e, rows=ROWS, path=str(path))
            yield kind, ask

    return files


WRITERS = {
    "pyarrow": pyarrow_files,
    "duckdb": duckdb_files,
    "polars": polars_files,
    "fastparquet": fastparquet_files,
    "clickhouse": of_engine("clickhouse", CLICKHOUSE),
    "datafusion": of_engine("datafusion", DATAFUSION),
}
