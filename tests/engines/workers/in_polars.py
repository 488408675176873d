"""Asks Polars: reads frames and filters scans. Polars uses no Bloom filters."""

import polars as pl
import pyarrow as pa


def version():
    return pl.__version__


def read(path):
    return pl.read_parquet(path).to_arrow()


def lookup(path, column, literal, scalar):
    name = pl.col(column[0])
    for part in column[1:]:
        name = name.struct.field(part)
    value = pl.Series(pa.array([scalar], scalar.type))
    rows = pl.scan_parquet(path).filter(name == pl.lit(value[0], value.dtype)).collect().height
    return {"rows": rows, "total": 0, "scanned": 0}
