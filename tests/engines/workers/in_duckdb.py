"""Asks DuckDB. Counts row groups and bytes by the JSON profile."""

import json
import os
import tempfile

import duckdb
from forms import compare as compare_forms
from forms import FULL, conditions, quoted


def version():
    return duckdb.__version__


def connect():
    con = duckdb.connect()
    con.execute("set threads = 1; set TimeZone = 'UTC'")
    return con


def read(path):
    return connect().execute(f"select * from read_parquet('{path}')").to_arrow_table()


def scans(node):
    if "total_row_groups_to_scan" in node:
        yield node
    for child in node.get("children", []) + node.get("operator", []):
        yield from scans(child)


def run(con, sql):
    """Returns the rows and the profile."""
    profile = tempfile.mktemp(suffix=".json")
    con.execute("set enable_profiling = 'json'")
    con.execute(f"set profiling_output = '{profile}'")
    found = con.execute(sql).fetchall()
    con.execute("pragma disable_profiling")
    with open(profile) as file:
        tree = json.load(file)
    os.remove(profile)
    return found, tree


def lookup(path, column, literal, scalar=None):
    con = connect()
    name = ".".join(f'"{part}"' for part in column)
    counted, tree = run(con, f"select count({name}) from read_parquet('{path}') where {name} = {literal}")
    found = list(scans(tree))
    total = sum(scan["total_row_groups_to_scan"] for scan in found)
    scanned = sum(scan["row_groups_scanned"] for scan in found)
    return {"rows": counted[0][0], "total": total, "scanned": scanned}


def bytes_read(path, column, literal):
    """Asks for whole rows. Returns the number of bytes read."""
    # A file system in Python could not count the bytes, because DuckDB's threads would share its position.
    _, tree = run(connect(), f"select * from read_parquet('{path}') where {column} = {literal}")
    return {"bytes": tree["io"]["total_bytes_read"]}


def probe(path, column, literals):
    """Returns how many of the values are denied by the filters of all row groups."""
    con, denied = connect(), 0
    for literal in literals:
        sql = f"select bool_and(bloom_filter_excludes) from parquet_bloom_probe('{path}', '{column}', {literal})"
        denied += bool(con.execute(sql).fetchone()[0])
    return {"denied": denied, "asked": len(literals)}


def lengths(path):
    """Returns the total lengths of filters and of chunks, and the numbers of filters and of lengths."""
    sql = "select sum(bloom_filter_length), sum(total_compressed_size), count(bloom_filter_offset), "
    sql += f"count(bloom_filter_length) from parquet_metadata('{path}')"
    row = connect().execute(sql).fetchone()
    return {"filters": int(row[0] or 0), "chunks": int(row[1]), "num": row[2], "num_lengths": row[3]}


def copy(source, path, options):
    """Writes the file again with DuckDB. Returns the number of its filters."""
    con = connect()
    con.execute("set preserve_insertion_order = true")
    con.execute(f"copy (from read_parquet('{source}')) to '{path}' (format parquet, row_group_size 1000000, {options})")
    return {"filters": lengths(path)["num"]}


def count(sql):
    return {"count": connect().execute(sql).fetchall()[0][0]}


KINDS = "TINYINT BIGINT HUGEINT UBIGINT FLOAT DOUBLE DECIMAL(38,2) VARCHAR BLOB DATE TIMESTAMP_NS TIMESTAMPTZ INTERVAL"


def source(path, declared, options=""):
    """Returns the table of a file. With a declared type, an empty file before it gives the column this type."""
    if not declared:
        return f"read_parquet('{path}')"
    first = os.path.join(os.path.dirname(path), f"first-{abs(hash(declared))}.parquet")
    if not os.path.exists(first):
        connect().execute(f"copy (select null::{declared} as c limit 0) to '{first}' (format parquet)")
    return f"read_parquet(['{first}', '{path}']{options})"


def compare(old, new, zero, column, values, declared=None, options=""):
    con = connect()
    name, table = ".".join(column), lambda path: source(path, declared, options)
    sql = f"select distinct on ({name}) {name}::varchar, typeof({name}) from {table(old)} where {name} is not null limit {values}"
    found = con.execute(sql).fetchall()
    if "GEOMETRY" in found[0][1]:
        found = [(text, "GEOMETRY") for text, _ in found]

    full = 1 if declared else FULL

    def cast(text, kind):
        return f"{text}::{kind}"

    def forms():
        for i, (text, kind) in enumerate(found):
            kinds = [other for other in KINDS.split() if other != kind] if i == 0 and not declared else []
            typed = cast(quoted(text), kind)
            for form, condition in conditions(name, text, kind, cast, kinds, i >= full):
                yield i, form, (f"where {condition}", [])
            if i >= full:
                continue
            yield i, "join", (f"join (select unnest([{typed}]) v) w on {name} = w.v", [])
            yield i, "subquery", (f"where {name} = (select {typed})", [])
            # A parameter has the Python value of the column.
            try:
                where = f"{name}::varchar = {quoted(text)} limit 1"
                value = con.execute(f"select {name} from {table(old)} where {where}").fetchone()[0]
            except Exception:
                continue
            yield i, "parameter", (f"where {name} = ?", [value])

    def count_of(path, question):
        return con.execute(f"select count(*) from {table(path)} t {question[0]}", question[1]).fetchone()[0]

    return compare_forms(count_of, forms(), old, new, zero) | {"type": found[0][1]}
