"""Tests files of every writer: each engine reads equal rows from the new and the old file, and no value is lost."""

import files
from harness import EngineError
from literals import literal
from members import denied_values

EQUAL = "equal rows"
SKIPS = "skips in files of"
MEMBERS = "no false negative"


def made(ctx, table):
    """Yields the label and path of each file, and notes which writers refuse."""
    for writer, make in files.WRITERS.items():
        if writer in ("datafusion", "clickhouse") and writer not in ctx.engines:
            continue
        try:
            labels = list(make(table, ctx))
        except ImportError as error:
            ctx.results.note(f"SKIPPED: files of {writer}: {error}")
            continue
        for label, write in labels:
            path = ctx.path(label + ".parquet")
            try:
                path.unlink(missing_ok=True)
                write(path)
            except Exception as error:
                ctx.results.note(f"SKIPPED: {label} cannot be written: {str(error)[:120]}")
                continue
            yield label, path


def check_equal(ctx, engine, label, old, new):
    try:
        reply = engine.ask("equal", old=str(old), new=str(new))
        ctx.results.check(EQUAL, engine.name, reply["equal"] and reply["rows"] == files.ROWS, f"{label}: {reply}")
    except EngineError as error:
        # If the engine cannot read the file without filters either, filters are not the cause.
        try:
            engine.ask("equal", old=str(old), new=str(old))
            ctx.results.check(EQUAL, engine.name, False, f"{label}: {error}")
        except EngineError:
            ctx.results.note(f"{engine.name} cannot read {label}: {error}"[:200])


def check_skips(ctx, engine, label, path, ids):
    """Asks for an absent and a present id. A chunk of these files may have several pages."""
    ask = lambda value: engine.ask(
        "lookup", path=str(path), column=["id"], literal=literal(engine.name, "int64", value)
    )
    try:
        absent, present = ask(ids[0] + 1), ask(ids[0])
    except EngineError as error:
        return ctx.results.check(SKIPS, engine.name, False, f"{label}: {error}")
    is_right = absent["rows"] == absent["scanned"] == 0 and present["rows"] == 1 and present["scanned"] >= 1
    ctx.results.check(SKIPS, engine.name, is_right, f"{label}: absent {absent}, present {present}")


def run(ctx):
    table = files.mixed()
    ids = sorted(table["id"].to_pylist())
    middle = ids[len(ids) // 2 :]
    num = 0
    for label, old in made(ctx, table):
        new = old.with_suffix(".new.parquet")
        writer = "parquet-rs" if label.startswith("parquet-rs") else label.split("-")[0]
        try:
            ctx.command.add(old, new, files.leaves(old), "--fpr", "0.0001")
        except Exception as error:
            ctx.results.check("added", writer, False, f"{label}: {error}")
            continue
        ctx.results.check("added", writer, True, label)
        denied, asked = denied_values(new)
        ctx.results.check(MEMBERS, writer, denied == 0 and asked > 0, f"{label}: {denied} of {asked} are denied")
        for engine in ctx.engines.values():
            check_equal(ctx, engine, label, old, new)
        for engine in ctx.filtering():
            check_skips(ctx, engine, label, new, middle)
        num += 1
    ctx.results.note(f"{num} files of {len(files.WRITERS)} writers")
