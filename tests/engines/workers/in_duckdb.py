"""Asks DuckDB. Counts row groups and bytes by the JSON profile."""

import json
import os
import tempfile

import duckdb


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
