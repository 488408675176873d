"""Tests for which types each engine skips row groups, and that no engine loses a row."""

import columns
import pyarrow as pa
import pyarrow.parquet as pq
from harness import EngineError
from literals import literal

SUITE = "row groups skipped"


def write(ctx, name, kinds, **options):
    samples = [columns.Sample(kind) for kind in kinds]
    table = pa.table({sample.kind.name: sample.array() for sample in samples})
    path = ctx.path(name)
    pq.write_table(table, path, row_group_size=columns.ROWS, use_dictionary=False, **options)
    return path, samples


def write_nested(ctx):
    sample = columns.Sample(columns.NESTED)
    place = pa.StructArray.from_arrays([sample.array()], names=["code"])
    path = ctx.path("nested.parquet")
    pq.write_table(pa.table({"place": place}), path, row_group_size=columns.ROWS, use_dictionary=False)
    return path, [sample]


def lookup(engine, path, kind, value):
    return engine.ask(
        "lookup",
        path=str(path),
        column=kind.column(),
        literal=literal(engine.name, kind.name, value),
        scalar=kind.scalar(value),
    )


def judge(ctx, engine, old, new, sample):
    """Returns `yes`, `no`, or the reason why the engine cannot be asked for the type."""
    kind, results = sample.kind, ctx.results

    def check(is_right, what):
        results.check(SUITE, engine.name, is_right, f"{kind.name}: {what}")

    try:
        before = lookup(engine, old, kind, sample.absent[0])
        present = lookup(engine, old, kind, sample.present)
    except EngineError as error:
        results.note(f"{engine.name} cannot ask for {kind.name}: {error}"[:160])
        return "cannot ask"
    check(before["rows"] == 0 and before["scanned"] == before["total"], f"the old file gives {before}")
    counts = sample.count(sample.present)
    if present["rows"] != sum(counts):
        results.note(f"{engine.name} finds no row for {kind.name} without filters either")
        return "cannot ask"
    try:
        after = lookup(engine, new, kind, sample.present)
        misses = [lookup(engine, new, kind, value) for value in sample.absent]
    except EngineError as error:
        check(False, str(error))
        return "fails"
    holding = sum(count > 0 for count in counts)
    check(after["rows"] == sum(counts), f"{after['rows']} of {sum(counts)} rows are found")
    check(all(miss["rows"] == 0 for miss in misses), "rows with an absent value")
    if after["total"] == 0:
        return "no"
    check(after["scanned"] >= holding, f"{after['scanned']} row groups are scanned, {holding} hold the value")
    if all(miss["scanned"] == miss["total"] for miss in misses):
        return "no"
    check(all(miss["scanned"] == 0 for miss in misses), f"an absent value scans {misses}")
    check(after["scanned"] == holding, f"{after['scanned']} row groups are scanned, {holding} hold the value")
    return "yes"


def run(ctx):
    """Returns the answer of each engine for each type."""
    files = [
        write(ctx, "types.parquet", columns.KINDS),
        write(ctx, "decimals.parquet", columns.INTEGER_DECIMALS, store_decimal_as_integer=True),
        write(ctx, "int96.parquet", columns.INT96, use_deprecated_int96_timestamps=True),
        write_nested(ctx),
    ]
    table = {}
    for old, samples in files:
        new = old.with_suffix(".new.parquet")
        ctx.command.add(old, new, [".".join(sample.kind.column()) for sample in samples], "--fpr", "0.0001")
        for sample in samples:
            answers = {engine.name: judge(ctx, engine, old, new, sample) for engine in ctx.engines.values()}
            table[sample.kind.name] = answers
    ctx.results.compare(SUITE, table)
    return table


def markdown(ctx, table):
    """Returns the table of types as Markdown."""
    lines = ["| Type | " + " | ".join(f"{e.name} {e.version}" for e in ctx.engines.values()) + " |"]
    lines.append("|---" * (len(ctx.engines) + 1) + "|")
    for kind, answers in table.items():
        lines.append(f"| {kind} | " + " | ".join(answers[name] for name in ctx.engines) + " |")
    return "\n".join(lines)
