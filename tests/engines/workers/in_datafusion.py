"""Asks DataFusion. Counts row groups by EXPLAIN ANALYZE, and bytes by an HTTP server."""

import os
import re

import datafusion
import pyarrow as pa
from counted import Server
from datafusion.object_store import AmazonS3
from forms import compare as compare_forms
from forms import FULL, conditions


def version():
    return datafusion.__version__


def connect():
    config = datafusion.SessionConfig({"datafusion.execution.target_partitions": "1"})
    return datafusion.SessionContext(config)


def read(path):
    frame = connect().read_parquet(path)
    return pa.Table.from_batches(frame.collect(), frame.schema())


def expression(column):
    return f'"{column[0]}"' + "".join(f"['{part}']" for part in column[1:])


def lookup(path, column, literal, scalar=None):
    con, name = connect(), expression(column)
    con.register_parquet("t", path)
    sql = f"select {name} from t where {name} = {literal}"
    rows = sum(batch.num_rows for batch in con.sql(sql).collect())
    plan = str(con.sql("explain analyze " + sql).collect()[0].to_pylist())
    total, matched = metric(plan, "statistics")
    # If a plan cannot ask filters, its metrics count no row groups for filters.
    asked, kept = metric(plan, "bloom_filter")
    return {"rows": rows, "total": total, "scanned": matched - (asked - kept)}


def metric(plan, name):
    """Returns the row groups before and after a step. Large numbers look like `10.00 K`."""
    number = r"([\d.]+)( K)?"
    found = re.search(f"row_groups_pruned_{name}={number} total . {number} matched", plan)
    if not found:
        raise ValueError(f"the plan has no metric row_groups_pruned_{name}")
    before, before_unit, after, after_unit = found.groups()
    return round(float(before) * (1000 if before_unit else 1)), round(float(after) * (1000 if after_unit else 1))


def bytes_read(path, column, literal):
    """Asks for whole rows. Returns the number of bytes read."""
    server, con = Server(os.path.dirname(path)), connect()
    # The package has another HTTP client, but it refuses addresses without TLS.
    store = AmazonS3("files", region="none", access_key_id="-", secret_access_key="-", endpoint=server.url, allow_http=True)
    con.register_object_store("s3://", store, "files")
    con.register_parquet("t", f"s3://files/{os.path.basename(path)}")
    before = server.read_bytes
    con.sql(f"select * from t where {column} = {literal}").collect()
    footers, all_bytes = before, server.read_bytes
    server.close()
    return {"bytes": all_bytes - footers}


def write(source, path, options):
    """Writes a file with the crate `parquet`."""
    from datafusion.dataframe import ParquetWriterOptions

    frame = connect().read_parquet(source)
    frame.write_parquet_with_options(path, ParquetWriterOptions(**options))
    return {}


def count(sql):
    con = datafusion.SessionContext().enable_url_table()
    return {"count": con.sql(sql).collect()[0].column(0)[0].as_py()}


KINDS = ["Int8", "Int64", "UInt64", "Float32", "Float64", "Utf8", "LargeUtf8", "Binary", "Date32"]
KINDS += ["Timestamp(Nanosecond, None)", "Decimal128(38, 2)", "Decimal256(76, 2)"]


def compare(old, new, zero, column, values, declared=None):
    con, name = connect(), expression(column)
    for path in (old, new, zero):
        if declared:
            table = f'create external table "{os.path.basename(path)}" ({name} {declared})'
            con.sql(f"{table} stored as parquet location '{path}'")
        else:
            con.register_parquet(os.path.basename(path), path)
    table = lambda path: '"' + os.path.basename(path) + '"'
    rows = f"select {name} as c, arrow_typeof({name}) as kind from {table(old)} where {name} is not null limit {values}"
    read = lambda selected: pa.Table.from_batches(con.sql(f"select {selected} as x from ({rows})").collect())["x"]
    kind = read("kind")[0].as_py()
    try:
        scalars = list(read("c"))
    except KeyError:
        # pyarrow has no class for the type, such as some intervals.
        scalars = []
    try:
        texts = read("cast(c as varchar)").to_pylist()
    except BaseException:
        texts = [scalar.as_py() for scalar in scalars]

    full = 1 if declared else FULL

    def cast(text, kind):
        return f"arrow_cast({text}, '{kind}')"

    kinds = [other for other in KINDS if other != kind and not declared]

    def forms():
        if len(column) == 1:
            yield from ((i, "scalar", scalar) for i, scalar in enumerate(scalars))
        for i, text in enumerate(texts):
            if isinstance(text, bytes):
                yield i, "bytes", f"{name} = X'{text.hex()}'"
                continue
            for form, condition in conditions(name, text, kind, cast, kinds if i == 0 else [], i >= full):
                yield i, form, condition

    def count_of(path, question):
        if isinstance(question, str):
            return con.sql(f"select count(*) from {table(path)} where {question}").collect()[0].column(0)[0].as_py()
        frame = con.table(os.path.basename(path)).filter(datafusion.col("c") == datafusion.lit(question))
        return sum(batch.num_rows for batch in frame.collect())

    return compare_forms(count_of, forms(), old, new, zero) | {"type": kind}


def export(expression, rows, path):
    """Writes a file with the column `c`, computed from the integers `i`."""
    source = f"(select unnest(range({rows})) as i)"
    connect().sql(f"select {expression} as c from {source}").write_parquet(path)
    return {}
