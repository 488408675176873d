"""Tests a table of wrong calls: each exception names what to do next, without tracebacks of other layers."""

import datetime
import decimal
import io
import pathlib
import tempfile
import uuid

import filterblock
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filterblock import Bloom, FileFilter, Filter, LevelDbTable, index, parquet, plan, plan_largest


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Filter(["a"]).save("a.filter")
    Filter(["a"], secret=b"s" * 16).save("secret.filter")
    FileFilter(10, 0.1, "a.bloom").close()
    FileFilter(10, 0.1, "b.bloom").close()
    pq.write_table(
        pa.table({"id": [1, 2], "flag": [True, False], "day": [datetime.date.today()] * 2}), "a.parquet"
    )
    pathlib.Path("text").write_text("no filter")
    pathlib.Path("empty").mkdir()
    index.build("a.index", "a.parquet", "id")


def kept(*filters):
    """Keeps filters alive during the next call."""
    return filters[-1]


# The name of the mistake: the call, and the words of the message that say what to do.
WRONG = {
    # Keys
    "a str as keys": (lambda: Filter("apple"), r"give a list of keys"),
    "a file of lines as keys": (lambda: Filter(io.StringIO("apple\n")), r'line\.rstrip\("'),
    "a binary file as keys": (lambda: Filter(io.BytesIO(b"apple\n")), r'line\.rstrip\(b"'),
    "a temporary file as keys": (lambda: Filter(tempfile.NamedTemporaryFile()), r'line\.rstrip\(b"'),
    "save over a file of text": (lambda: Filter(["a"]).save("text"), "overwrite=True"),
    "save over a Parquet file": (lambda: Filter(["a"]).save("a.parquet"), "overwrite=True"),
    "a missing folder": (lambda: parquet.add("a.parquet", "no/b.parquet", ["id"]), "make its folder first"),
    "a filter in a missing folder": (lambda: FileFilter(10, 0.01, "no/f"), "make its folder first"),
    "an empty list of columns": (lambda: parquet.add("a.parquet", "b.parquet", []), "name a column"),
    "a path as keys": (lambda: Filter("a.filter"), r"to open a file: Filter\.open\(path\)"),
    "Filter.open of a Parquet file": (
        lambda: Filter.open("a.parquet"),
        r"use filterblock\.parquet\.ParquetFile\.open",
    ),
    "Filter.open of an index": (lambda: Filter.open("a.index"), r"use filterblock\.index\.open"),
    "Filter.open of a FileFilter": (lambda: Filter.open("a.bloom"), r"use FileFilter\.open"),
    "FileFilter.open of a filter block": (lambda: FileFilter.open("a.filter"), r"use Filter\.open"),
    "mode a for a filter block": (lambda: FileFilter.open("a.filter", "a"), r"use Filter\.open"),
    "index.open of a filter block": (lambda: index.open("a.filter"), r"use Filter\.open"),
    "a negative width": (lambda: Bloom(10).update(b"ab", width=-1), "from 0 to"),
    "negative threads": (lambda: Filter([1], threads=-1), "from 0 to"),
    "a width for a list": (lambda: Filter([b"ab"], width=2), "omit width"),
    "one value for query_many": (lambda: index.open("a.index").query_many(5), r"query\(value\)"),
    "a pathlib path as keys": (
        lambda: Filter(pathlib.Path("a.filter")),
        r"to open a file: Filter\.open\(path\)",
    ),
    "bytes as keys": (
        lambda: Filter(b"apple"),
        r"width=16; to open the bytes of a filter: Filter\.from_bytes",
    ),
    "a bytearray as keys": (lambda: Filter(bytearray(b"apple")), r"give a list of keys"),
    "a dict as keys": (lambda: Filter({"a": 1}), r"give list\(mapping\)"),
    "a filter as keys": (lambda: Filter(Filter(["a"])), r"unite filters with left \| right"),
    "a Bloom as keys": (lambda: Filter(Bloom(10)), r"Bloom\.freeze\(\) returns a Filter"),
    "a capacity as keys": (
        lambda: Filter(1000, error_rate=0.01),
        r"an int has no keys; .* Bloom\(1000, 0\.01\)",
    ),
    "None as keys": (lambda: Filter(None), r"give a list of keys"),
    "no keys": (lambda: Filter(), "keys"),
    "a float key": (lambda: 1.5 in Filter(["a"]), r"int\(key\)"),
    "a missing key": (lambda: Bloom(10).update(["a", None]), r"key 1: .*leave missing values out"),
    "a tuple key": (lambda: Bloom(10).add(("a", "b")), "turn it into bytes"),
    "a UUID key": (lambda: uuid.UUID(int=1) in Bloom(10), r"key\.bytes"),
    "a decimal key": (lambda: Bloom(10).add(decimal.Decimal(1)), "turn it into bytes"),
    "a date key": (lambda: Bloom(10).add(datetime.date.today()), "turn it into bytes"),
    "a large int": (lambda: Bloom(10).add(2**64), r"int\.to_bytes"),
    "a surrogate": (lambda: Bloom(10).update(np.array(["\ud800"])), "pass bytes"),
    "an array as a key": (lambda: np.arange(3) in Bloom(10), "contains_many or update"),
    "an array of floats": (lambda: Filter(np.array([1.5])), "convert the array to integers"),
    "an array of times": (lambda: Filter(np.array(["2020"], "M8[s]")), "convert the array to integers"),
    "an array of two dimensions": (lambda: Filter(np.zeros((2, 2), int)), r"array\.ravel\(\)"),
    "a masked array": (lambda: Filter(np.ma.array([1], mask=[1])), r"array\.compressed\(\)"),
    "a frame": (lambda: Filter(pd.DataFrame({"a": [1]})), "pass|give"),
    "a series of floats": (lambda: Filter(pd.Series([1.5])), r"int\(key\)|convert"),
    "an Arrow array with nulls": (lambda: Filter(pa.array([1, None])), "drop|leave"),
    "an Arrow array of floats": (lambda: Filter(pa.array([1.5])), "convert|cast|turn"),
    "a wrong width": (lambda: Filter(b"abc", width=2), "whole keys"),
    "an int of a range filter": (lambda: Filter([1], "grafite:fpr=0.01"), r"int\(key\)\.to_bytes"),
    "bounds in the wrong order": (lambda: Filter(["a"]).may_contain_range("b", "a"), "exchange them"),
    # Settings
    "a rate as spec": (lambda: Filter(["a"], 0.01), r"error_rate=0\.01"),
    "a percentage": (lambda: Filter(["a"], error_rate=5), r"for example 0\.01"),
    "a percentage of a Bloom": (lambda: Bloom(10, 5), r"for example 0\.01"),
    "both sizes": (lambda: Filter(["a"], "bloom:10", error_rate=0.1), "give one of them"),
    "an unknown kind": (lambda: Filter(["a"], "blom:10"), "bloom"),
    "no budget": (lambda: Filter(["a"], "bloom"), r"bloom:|bits|fpr"),
    "an unknown kind of a plan": (lambda: plan_largest("blom", 5, 5), "choose one of bloom"),
    "a rate of a plan": (lambda: plan(0.01, 5), "must be a str"),
    "a rate as a text": (lambda: Bloom(10, "1%"), r"a float, for example 0\.01, not str"),
    "a rate as a text of a Filter": (lambda: Filter(["a"], error_rate="1%"), r"a float, for example 0\.01"),
    "a capacity as a float": (lambda: Bloom(1e6), r"an int, for example 1_000_000 or int\(1e6\), not float"),
    "a capacity of a file as a float": (lambda: FileFilter(1e6, 0.1, "new"), r"int\(1e6\)"),
    "a number of keys as a float": (lambda: plan("bloom:10", 1e6), r"int\(1e6\)"),
    "a budget as a float": (lambda: plan_largest("bloom", 5, 1e6), r"int\(1e6\)"),
    "a negative capacity": (lambda: Bloom(-1), "pass an int from 0 to"),
    "a negative seed": (lambda: Filter(["a"], seed=-1), "pass an int from 0 to"),
    "a large seed": (lambda: Bloom(10, seed=2**64), "pass an int from 0 to"),
    "the rate of the command": (lambda: Filter(["a"], fpr=0.01), "no argument fpr; use error_rate="),
    "the rate of the command in Parquet": (
        lambda: parquet.add("a.parquet", "new", ["id"], fpr=0.01),
        "use error_rate=",
    ),
    "the rate of the command in an index": (
        lambda: index.build("new", "a.parquet", "id", fpr=0.01),
        "error_rate=",
    ),
    "an unknown argument": (
        lambda: Filter(["a"], threds=2),
        r"arguments are \(keys, spec=None, .*threads=1\)",
    ),
    "an argument of another call": (lambda: Bloom(10, force=True), r"arguments are \(capacity, .*seed=0\)"),
    "no arguments": (lambda: Bloom(), r"for example Bloom\(1000\)"),
    "no threads": (lambda: Filter(["a"], threads=0), "at least 1"),
    "a short secret": (lambda: Filter(["a"], secret=b"short"), "16 or 32"),
    "a text as secret": (lambda: Filter(["a"], secret="s" * 16), "must be bytes"),
    "a short table id": (lambda: Filter(["a"], table_id=b"short"), "pass 16 bytes"),
    "no capacity": (lambda: Bloom(0), "capacity"),
    "a hash function": (lambda: Bloom(10, 0.1, hash), "omit this argument"),
    # Changes
    "add to a Filter": (lambda: Filter(["a"]).add("b"), r"build a new one with Filter\(keys\)"),
    "update of a Filter": (lambda: Filter(["a"]).update(["b"]), "use Bloom"),
    "a Filter of another kind": (lambda: Filter(["a"]) | Filter(["b"], "ribbon:8"), "same|kind"),
    "a Bloom of another size": (lambda: Bloom(10) | Bloom(10_000), "size|bits|shape"),
    "a merge of nothing": (lambda: Filter.merge([]), r"give a list, such as \[a, b\]"),
    "several updates": (lambda: Bloom(10).update(["a"], ["b"]), r"itertools\.chain"),
    "an order": (lambda: Bloom(10) < Bloom(10), r"\(a & b\) == a"),
    "a Bloom in a set": (lambda: {Bloom(10)}, "unhashable"),
    "a pickle of a secret": (lambda: filterblock.Filter.open("secret.filter").__reduce__(), "secret"),
    "a pickle of a file": (lambda: FileFilter.open("a.bloom").__reduce__(), "to_base64"),
    # Files
    "a file that is no filter": (lambda: Filter.open("text"), "damaged|not a|too short|trailer|shorter"),
    "a folder as a filter": (lambda: Filter.open("empty"), "give a file"),
    "a filter without its secret": (lambda: Filter.open("secret.filter"), "secret"),
    "another secret": (lambda: Filter.open("secret.filter", secret=b"t" * 16), "secret"),
    "another checksum": (lambda: Filter.open("a.filter", checksum=5), "checksum"),
    "a flag as an int": (lambda: Filter.open("a.filter", mapped=1), "True or False"),
    "a Filter as a FileFilter": (lambda: FileFilter.open("a.filter"), "a.filter"),
    "a FileFilter that exists": (
        lambda: FileFilter(10, 0.1, "a.bloom"),
        r'FileFilter\.open\(filename\), or mode "a"',
    ),
    "mode a without a file": (lambda: FileFilter.open("new", "a"), "give a capacity"),
    "mode a with another rate": (
        lambda: FileFilter.open("a.bloom", "a", error_rate=0.2),
        "error rate 0.1; give these",
    ),
    "an unknown mode": (lambda: FileFilter.open("a.bloom", "w"), '"a" to create'),
    "a second writer": (lambda: [FileFilter.open("a.bloom"), FileFilter.open("a.bloom")], "open"),
    "a closed filter": (
        lambda: kept(closed := FileFilter.open("b.bloom"), closed.close(), closed).add("a"),
        "open its file",
    ),
    "a writer with mode r": (lambda: FileFilter.open("a.bloom", "r").add("a"), "reading|rw"),
    "several seeds": (lambda: FileFilter(10, 0.1, "new", hash_seeds=[1, 2]), "one integer"),
    "a table of another engine": (lambda: LevelDbTable.open("a.filter"), "LevelDB|footer|magic"),
    "a form of keys": (lambda: LevelDbTable.open("a.filter", key_form="users"), '"user", "internal" or None'),
    # Parquet
    "columns as a str": (
        lambda: parquet.add("a.parquet", "new", "id"),
        r'a list of str, for example \["id"\]',
    ),
    "an unknown column": (
        lambda: parquet.add("a.parquet", "new", ["no"]),
        "a.parquet: there is no column .* id",
    ),
    "a Boolean column": (lambda: parquet.add("a.parquet", "new", ["flag"]), "omit this column"),
    "no columns": (lambda: parquet.add("a.parquet", "new"), "advised=True"),
    "no output": (lambda: parquet.add("a.parquet", columns=["id"]), "in_place=True"),
    "two outputs": (lambda: parquet.add("a.parquet", "new", ["id"], in_place=True), "give either"),
    "an output that exists": (lambda: parquet.add("a.parquet", "text", ["id"]), "overwrite=True"),
    "an output that exists, by force": (
        lambda: parquet.add("a.parquet", "text", ["id"], force=True),
        "use overwrite=True",
    ),
    "one output of two inputs": (
        lambda: parquet.add(["a.parquet", "b.parquet"], "new", ["id"]),
        "of another input; choose another out",
    ),
    "both sizes of Parquet": (
        lambda: parquet.add("a.parquet", "new", ["id"], error_rate=0.01, bits_per_value=10),
        "give one of them",
    ),
    "a pattern": (
        lambda: parquet.add("*.parquet", "new", ["id"]),
        r"give the folder, or glob\.glob\(pattern\)",
    ),
    "a pattern of a check": (lambda: parquet.check("*.parquet"), r"glob\.glob\(pattern\)"),
    "a pattern of an index": (lambda: index.build("new", ["*.parquet"], "id"), r"glob\.glob\(pattern\)"),
    "a maximum rate": (lambda: parquet.check("a.parquet", max_error_rate=5), r"for example 0\.06"),
    "an output that is the input": (
        lambda: parquet.add("a.parquet", "a.parquet", ["id"], overwrite=True),
        "in_place=True",
    ),
    "a folder without files": (lambda: parquet.add("empty", "new", ["id"]), "give another folder"),
    "a folder in the folder": (lambda: parquet.add(".", "empty", ["id"]), "choose a folder beside it"),
    "a file that is not Parquet": (lambda: parquet.check("text"), "Parquet"),
    "an int of a date column": (
        lambda: parquet.ParquetFile.open("a.parquet").row_groups("day", 5),
        "stored|bytes",
    ),
    "a text of a number column": (
        lambda: parquet.ParquetFile.open("a.parquet").row_groups("id", "5"),
        "give an int",
    ),
    "an unknown column of a query": (lambda: parquet.ParquetFile.open("a.parquet").row_groups("no", 5), "id"),
    "ParquetFile(path)": (lambda: parquet.ParquetFile("a.parquet"), r"ParquetFile\.open\(path\)"),
    # An index
    "an index that exists": (lambda: index.build("a.index", "a.parquet", "id"), "overwrite=True"),
    "an unknown column of an index": (lambda: index.build("new", "a.parquet", "no"), "give one of: id"),
    "a text of an index of numbers": (lambda: index.open("a.index").query("5"), "give an int"),
    "a filter as an index": (lambda: index.open("a.filter"), "index"),
    "Index(path)": (lambda: index.Index("a.index"), r"index\.open\(path\)"),
    # Names
    "LevelDbTable(path)": (lambda: LevelDbTable("a"), r"LevelDbTable\.open\(path\)"),
    "a class of another package": (lambda: filterblock.BloomFilter, r"Bloom\(capacity"),
    "a method of another package": (lambda: Bloom(10).save("a"), r"freeze\(\)\.save"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_says_what_to_do(name):
    call, match = WRONG[name]
    with pytest.raises(
        (TypeError, ValueError, OverflowError, AttributeError, OSError), match=match
    ) as raised:
        call()
    error = raised.value
    assert error.__cause__ is None and error.__context__ is None
    # Only the test itself is in the traceback.
    layers = {pathlib.Path(str(entry.path)).name for entry in raised.traceback}
    assert layers <= {pathlib.Path(__file__).name, "_hints.py", "__init__.py", "python_api.py"}, layers
