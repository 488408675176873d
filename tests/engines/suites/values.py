"""Tests values with pitfalls: NaN, both zeros, and samples that DuckDB's own probe is asked for."""

import columns
import members
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import EngineError
from literals import literal

SUITE = "values"
NAN = {"duckdb": "'nan'::DOUBLE", "datafusion": "arrow_cast('NaN', 'Float64')", "clickhouse": "nan"}


def lookup(engine, path, text, number):
    scalar = pa.scalar(number, pa.float64())
    return engine.ask("lookup", path=str(path), column=["score"], literal=text, scalar=scalar)["rows"]


def ask_zeros(ctx, engine, old, new):
    """Checks that an engine finds as many rows with filters as without."""
    for number in (0.0, -0.0, float("nan")):
        if engine.name == "hyparquet":
            text = {"kind": "number", "text": str(number).replace("nan", "NaN")}
        else:
            text = NAN.get(engine.name, "") if np.isnan(number) else str(number)
        try:
            before, after = (lookup(engine, path, text, number) for path in (old, new))
        except EngineError as error:
            ctx.results.note(f"{engine.name} cannot ask for {number}: {error}"[:160])
            continue
        ctx.results.check(SUITE, engine.name, before == after, f"{number}: {before} rows, then {after}")


def check_zeros(ctx):
    """Tests row groups that each have only one of 0.0, -0.0 and NaN, among other numbers."""
    rng = np.random.default_rng(13)
    groups = [np.concatenate([rng.normal(size=999), [special]]) for special in (0.0, -0.0, np.nan)]
    old, new = ctx.path("zeros.parquet"), ctx.path("zeros.new.parquet")
    pq.write_table(pa.table({"score": np.concatenate(groups)}), old, row_group_size=1000, use_dictionary=False)
    ctx.command.add(old, new, ["score"], "--fpr", "0.0001")
    for engine in ctx.engines.values():
        ask_zeros(ctx, engine, old, new)


def check_probes(ctx):
    """Asks DuckDB's parquet_bloom_probe for a sample of the values of each type."""
    duckdb = ctx.engines.get("duckdb")
    if duckdb is None:
        return
    for sample in map(columns.Sample, columns.KINDS):
        kind = sample.kind
        found = [value for group in sample.groups for value in group if value is not None]
        texts = [literal("duckdb", kind.name, value) for value in found[:: 1 if ctx.is_full else 100]]
        try:
            path = str(ctx.path("types.new.parquet"))
            reply = duckdb.ask("probe", path=path, column=kind.name, literals=texts)
        except EngineError as error:
            ctx.results.note(f"parquet_bloom_probe cannot ask for {kind.name}: {error}"[:160])
            continue
        ctx.results.check(SUITE, "duckdb", reply["denied"] == 0, f"{kind.name}: {reply}")


def check_members(ctx):
    """Asks the filters in the files of the other suites for every value, with members.py."""
    for path in sorted(ctx.folder.glob("*.new.parquet")):
        if "-" in path.name:
            continue
        denied, asked = members.denied_values(path)
        ctx.results.check("no false negative", "own files", denied == 0 and asked > 0, f"{path.name}: {denied} denied")


def check_damage_is_seen(ctx):
    """Checks that members.py detects a cleared filter."""
    new, broken = ctx.path("zeros.new.parquet"), ctx.path("broken.parquet")
    data = bytearray(new.read_bytes())
    chunk = pq.ParquetFile(new).metadata.row_group(0).column(0)
    end = chunk.bloom_filter_offset + chunk.bloom_filter_length
    data[end - 512 : end] = bytes(512)
    broken.write_bytes(data)
    denied, _ = members.denied_values(broken)
    ctx.results.check(SUITE, "this check", denied > 0, "a cleared filter is not noticed")


def run(ctx):
    check_zeros(ctx)
    check_probes(ctx)
    check_members(ctx)
    check_damage_is_seen(ctx)
