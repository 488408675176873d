"""Runs the suites over the installed engines and prints tables of the results."""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from harness import ENGINES, EXPECTED, Command, Context, Engine, EngineError, Results
from suites import cost, declared, lengths, random_ids, sizes, skips, types, values, widened, writers

BEGIN = "<!-- The table of engines begins; tests/engines/run --record writes it. -->"
END = "<!-- The table of engines ends. -->"
ROOT = Path(__file__).parents[2]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", required=True, help="the path of filterblock")
    parser.add_argument("--npm", required=True, help="the folder with node_modules")
    parser.add_argument("--full", action="store_true", help="also 10,000 row groups and a file of 1 GB")
    parser.add_argument("--record", action="store_true", help="record the table of types as expected")
    parser.add_argument("--suite", action="append", help="run only this suite, besides the types")
    parser.add_argument("--keep", help="keep the files in this folder")
    return parser.parse_args()


def start_engines(npm, log, results):
    engines = {}
    for name in ENGINES:
        try:
            engines[name] = Engine(name, npm, log)
            print(f"{name} {engines[name].version}")
        except (EngineError, OSError) as error:
            results.note(f"SKIPPED: {name} is not installed or does not start: {error}")
    return engines


def write_table(text):
    """Writes the table of types between the markers of docs/PARQUET.md."""
    page = ROOT / "docs/PARQUET.md"
    before, begin, rest = page.read_text().partition(BEGIN)
    if begin:
        after = rest.partition(END)[2]
        page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def run_suites(ctx, options):
    """Returns the table of the suite `skips`, and the tables of all suites by the names of the suites."""
    suites = [random_ids, sizes, lengths, writers, values, types, widened, declared] + [cost] * options.full
    print("\n# skips", flush=True)
    skipped = skips.run(ctx)
    tables = {skips.SUITE: skipped}
    for suite in suites:
        name = suite.__name__.removeprefix("suites.")
        if options.suite and name not in options.suite:
            continue
        start = time.monotonic()
        print(f"\n# {name}", flush=True)
        try:
            if table := suite.run(ctx):
                tables[suite.SUITE] = table
        except Exception as error:
            ctx.results.check(name, "suite", False, f"{type(error).__name__}: {error}")
        print(f"  {time.monotonic() - start:.0f} s", flush=True)
    return skipped, tables


def main():
    options = arguments()
    options.npm = str(Path(options.npm).absolute())
    results = Results()
    temporary = tempfile.TemporaryDirectory()
    folder = Path(options.keep or temporary.name)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "engines.log", "w") as log:
        engines = start_engines(options.npm, log, results)
        ctx = Context(engines, Command(options.command), folder, results, options.full)
        table, tables = run_suites(ctx, options)
        for engine in engines.values():
            engine.close()
    if options.record:
        # A suite that did not run keeps what it recorded before.
        tables = (json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}) | tables
        EXPECTED.write_text(json.dumps(tables, indent=1) + "\n")
        write_table(skips.markdown(ctx, table))
    print("\n" + skips.markdown(ctx, table))
    results.print_table()
    print("\n" + "\n".join(f"FAILED {line}" for line in results.failures))
    print(f"{len(results.failures)} failures")
    return 1 if results.failures or not engines else 0


if __name__ == "__main__":
    sys.exit(main())
