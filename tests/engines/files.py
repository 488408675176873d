"""Writes small Parquet files with every writer, codec, page version and kind of dictionary."""

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 3000
GROUP = 1000
FLAT = ["id", "name", "small", "score", "raw", "at"]


def mixed(rows=ROWS):
    """Returns a table with nulls, nested columns, NaN and both zeros."""
    rng = np.random.default_rng(7)
    ids = rng.integers(0, 2**60, rows) * 2
    scores = rng.normal(size=rows)
    scores[::50], scores[1::50], scores[2::50] = np.nan, 0.0, -0.0
    sometimes = lambda i, value: None if i % 9 == 4 else value
    start = dt.datetime(2020, 1, 1)
    return pa.table(
        {
            "id": pa.array(ids),
            "name": pa.array([sometimes(i, f"name {x:x}") for i, x in enumerate(ids)]),
            "small": pa.array([sometimes(i, int(x) % 40) for i, x in enumerate(ids)], pa.int32()),
            "score": pa.array(scores),
            "raw": pa.array([rng.bytes(i % 40) for i in range(rows)]),
            "at": pa.array([start + dt.timedelta(seconds=int(x) % 10**6) for x in ids], pa.timestamp("us")),
            "flag": pa.array([i % 3 == 0 for i in range(rows)]),
            "day": pa.array([start.date() + dt.timedelta(days=int(x) % 3000) for x in ids]),
            "amount": pa.array([decimal.Decimal(int(x) % 10**9).scaleb(-2) for x in ids], pa.decimal128(18, 2)),
            "tags": pa.array([sometimes(i, [f"tag {int(x) % 97}"] * (i % 4)) for i, x in enumerate(ids)]),
            "place": pa.array([sometimes(i, {"code": int(x) % 10**6, "town": None}) for i, x in enumerate(ids)],
                              pa.struct([("code", pa.int64()), ("town", pa.string())])),
        }
    )


def leaves(path):
    """Returns the paths of all leaf columns but Booleans."""
    metadata = pq.ParquetFile(path).metadata
    schema = metadata.schema
    columns = [schema.column(i) for i in range(metadata.num_columns)]
    return [column.path for column in columns if column.physical_type != "BOOLEAN"]


def pyarrow_files(table, _):
    for codec in ["none", "snappy", "gzip", "zstd", "brotli", "lz4"]:
        for version in ["1.0", "2.0"]:
            for dictionary in [True, False]:
                label = f"pyarrow-{codec}-v{version[0]}-{'dict' if dictionary else 'plain'}"
                options = {"compression": codec, "data_page_version": version, "use_dictionary": dictionary}
                yield label, lambda path, o=options: pq.write_table(table, path, row_group_size=GROUP, **o)
    flat = table.select(FLAT)
    encodings = {"id": "DELTA_BINARY_PACKED", "name": "DELTA_BYTE_ARRAY", "raw": "DELTA_LENGTH_BYTE_ARRAY"}
    encodings |= {"score": "BYTE_STREAM_SPLIT", "small": "BYTE_STREAM_SPLIT", "at": "DELTA_BINARY_PACKED"}
    options = {"use_dictionary": False, "column_encoding": encodings, "write_page_index": True}
    yield "pyarrow-encodings", lambda path: pq.write_table(flat, path, row_group_size=GROUP, **options)
    small = {"row_group_size": GROUP, "data_page_size": 2000, "dictionary_pagesize_limit": 3000}
    yield "pyarrow-small-pages", lambda path: pq.write_table(table, path, **small)
    int96 = {"row_group_size": GROUP, "use_deprecated_int96_timestamps": True}
    yield "pyarrow-int96", lambda path: pq.write_table(table, path, **int96)


def duckdb_files(table, _):
    import duckdb

    def write(path, options):
        con = duckdb.connect()
        con.execute("set threads = 1")
        con.register("t", table)
        con.execute(f"copy t to '{path}' (format parquet, row_group_size {GROUP}, {options})")

    for codec in ["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4_raw"]:
        for version in ["V1", "V2"]:
            options = f"codec '{codec}', parquet_version {version}"
            yield f"duckdb-{codec}-{version.lower()}", lambda path, o=options: write(path, o)
    options = "dictionary_size_limit 1, parquet_version V2"
    yield "duckdb-no-dictionary", lambda path: write(path, options)


def polars_files(table, _):
    import polars

    frame = polars.from_arrow(table)
    for codec in ["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4"]:
        yield f"polars-{codec}", lambda path, c=codec: frame.write_parquet(path, compression=c, row_group_size=GROUP)


def fastparquet_files(table, _):
    import fastparquet

    frame = table.select(FLAT).to_pandas()

    def write(path, codec, times):
        fastparquet.write(str(path), frame, row_group_offsets=GROUP, compression=codec, times=times)

    for codec in [None, "SNAPPY", "GZIP", "ZSTD", "BROTLI", "LZ4_RAW"]:
        yield f"fastparquet-{codec or 'none'}", lambda path, c=codec: write(path, c, "int64")
    yield "fastparquet-int96", lambda path: write(path, None, "int96")


def parquet_rs_files(table, ctx):
    """Writes with the crate `parquet`, as DataFusion calls it."""
    source = ctx.path("source.parquet")
    pq.write_table(table, source)

    def write(path, options):
        common = {"max_row_group_size": GROUP, "allow_single_file_parallelism": False}
        ctx.engines["datafusion"].ask("write", source=str(source), path=str(path), options=common | options)

    for codec in ["uncompressed", "snappy", "gzip(4)", "zstd(3)", "brotli(4)", "lz4_raw", "lz4"]:
        for version in ["1.0", "2.0"]:
            for dictionary in [True, False]:
                name = codec.split("(")[0]
                label = f"parquet-rs-{name}-v{version[0]}-{'dict' if dictionary else 'plain'}"
                options = {"compression": codec, "writer_version": version, "dictionary_enabled": dictionary}
                yield label, lambda path, o=options: write(path, o)


def clickhouse_files(table, ctx):
    source = ctx.path("source.parquet")
    pq.write_table(table.drop_columns(["tags", "raw"]), source)
    for codec in ["none", "snappy", "gzip", "zstd", "brotli", "lz4"]:
        settings = f"output_format_parquet_compression_method = '{codec}', "
        settings += f"output_format_parquet_row_group_size = {GROUP}, output_format_parquet_write_bloom_filter = 0"
        ask = lambda path, s=settings: ctx.engines["clickhouse"].ask(
            "write", source=str(source), path=str(path), settings=s
        )
        yield f"clickhouse-{codec}", ask


WRITERS = {
    "pyarrow": pyarrow_files,
    "duckdb": duckdb_files,
    "polars": polars_files,
    "fastparquet": fastparquet_files,
    "datafusion": parquet_rs_files,
    "clickhouse": clickhouse_files,
}
