"""Answers requests about Parquet files with one engine: a line of JSON in, a line of JSON out.

Each engine runs in a process of its own, so that a crash of an engine is a result of a test.
"""

import base64
import importlib
import json
import os
import pickle
import sys
import traceback


def same(old, new):
    """Compares two Arrow tables. NaN equals NaN, and the two zeros differ."""
    if old.schema != new.schema or old.num_rows != new.num_rows:
        return False
    for a, b in zip(old.columns, new.columns):
        if not a.equals(b) and repr(a.to_pylist()) != repr(b.to_pylist()):
            return False
    return True


def answer(engine, request):
    op = request.pop("op")
    if op == "version":
        return {"version": engine.version()}
    if op == "equal":
        old = engine.read(request["old"])
        new = engine.read(request["new"])
        return {"equal": same(old, new), "rows": old.num_rows, "columns": old.num_columns}
    if op == "lookup":
        scalar = request.pop("scalar", None)
        if scalar:
            request["scalar"] = pickle.loads(base64.b64decode(scalar))
        return engine.lookup(**request)
    return getattr(engine, op)(**request)


def serve(engine):
    # Engines print to stdout now and then, so the answers get a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            reply = answer(engine, json.loads(line))
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve(importlib.import_module("in_" + sys.argv[1]))
