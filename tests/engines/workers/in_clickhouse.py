"""Asks ClickHouse. Counts row groups by the event ParquetReadPages, and bytes by other events."""

import pyarrow as pa
import pyarrow.parquet as pq
from chdb import session

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
