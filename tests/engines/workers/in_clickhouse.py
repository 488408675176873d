"""Asks ClickHouse. Counts row groups by the event ParquetReadPages, and bytes by other events."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
from chdb import session
from forms import compare as compare_forms
from forms import FULL, conditions

SESSION = session.Session()
# Dictionaries would answer before the filters do.
READ = "ReadBufferFromFileDescriptorReadBytes"
SETTINGS = "settings max_threads = 1, session_timezone = 'UTC', "
SETTINGS += "input_format_parquet_dictionary_filter_push_down = 0, use_parquet_metadata_cache = 0, input_format_parquet_preserve_order = 1"


def version():
    return str(SESSION.query("select version()", "TSV")).strip()


def read(path):
    data = SESSION.query(f"select * from file('{path}', Parquet) {SETTINGS}", "Arrow").bytes()
    return pa.ipc.open_file(pa.py_buffer(data)).read_all()


def events():
    lines = str(SESSION.query("select event, value from system.events", "TSV")).splitlines()
    return {name: int(value) for name, value in (line.split("\t") for line in lines)}


def lookup(path, column, literal, scalar=None):
    name = ".".join(f"`{part}`" for part in column)
    before = events()
    sql = f"select count() from file('{path}', Parquet) where {name} = {literal} {SETTINGS}"
    rows = int(str(SESSION.query(sql, "TSV")))
    after = events()
    # The tests write one page for each chunk. The event ParquetPrunedRowGroups counts only row groups that
    # statistics skip.
    total = pq.ParquetFile(path).num_row_groups
    pages = after.get("ParquetReadPages", 0) - before.get("ParquetReadPages", 0)
    return {"rows": rows, "total": total, "scanned": min(pages, total)}


def bytes_read(path, column, literal):
    """Asks for whole rows. Returns the number of bytes read while the footer is in memory."""
    sql = f"select * from file('{path}', Parquet) where {column} = {literal} {SETTINGS}"
    sql += ", storage_file_read_method = 'pread'"
    # The first query also reads the footer, and keeps it.
    SESSION.query(sql, "TSV")
    before = events()
    SESSION.query(sql, "TSV")
    after = events()
    return {"bytes": after[READ] - before.get(READ, 0)}


def write(source, path, settings):
    insert = f"insert into function file('{path}', Parquet) select * from file('{source}', Parquet)"
    SESSION.query(f"{insert} settings {settings}")
    return {}


def count(sql):
    return {"count": int(str(SESSION.query(f"{sql} {SETTINGS}", "TSV")))}


KINDS = ["Int64", "Float64", "String", "FixedString(16)", "Bool", "Decimal256(2)"]


def compare(old, new, zero, column, values, declared=None):
    name, structure = ".".join(column), ""
    if declared:
        structure = ", '" + "{} {}".format(name, declared).replace("'", "\\'") + "'"
    # Not all values are valid UTF-8.
    sql = f"select hex(toString(assumeNotNull({name}))) as bytes, toTypeName(assumeNotNull({name})) as kind "
    sql += f"from file('{old}', Parquet{structure}) where {name} is not null limit {values} {SETTINGS}"
    found = [json.loads(line) for line in str(SESSION.query(sql, "JSONEachRow")).splitlines()]

    full = 1 if declared else FULL

    def cast(text, kind):
        escaped = kind.replace("'", "\\'")
        return f"CAST({text}, '{escaped}')"

    def forms():
        for i, row in enumerate(found):
            kinds = [kind for kind in KINDS if kind != row["kind"]] if i == 0 and not declared else []
            bytes_of, kind = f"unhex('{row['bytes']}')", row["kind"]
            yield i, "bytes", f"{name} = {cast(bytes_of, kind)}"
            if i < full:
                yield i, "bytes without a type", f"{name} = {bytes_of}"
                yield i, "in bytes", f"{name} in ({cast(bytes_of, kind)})"
            try:
                text = bytes.fromhex(row["bytes"]).decode().replace("\\", "\\\\")
            except UnicodeDecodeError:
                continue
            for form, condition in conditions(name, text, kind, cast, kinds, i >= full):
                yield i, form, condition

    def count_of(path, condition):
        return count(f"select count() from file('{path}', Parquet{structure}) where {condition}")["count"]

    return compare_forms(count_of, forms(), old, new, zero) | {"type": found[0]["kind"]}


def export(expression, rows, path):
    """Writes a file with the column `c`, computed from the integers `i`."""
    source = f"(select toInt64(number) as i from numbers({rows}))"
    settings = "output_format_parquet_write_bloom_filter = 0, output_format_parquet_fixed_string_as_fixed_byte_array = 1"
    insert = f"insert into function file('{path}', Parquet) select {expression} as c from {source} settings {settings}"
    SESSION.query(insert)
    return {}
