"""Asks DataFusion. Counts row groups by EXPLAIN ANALYZE, and bytes by an HTTP server."""

import os
import re

import datafusion
import pyarrow as pa
from counted import Server
from datafusion.object_store import AmazonS3


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
