"""Tests arguments of a wrong type: the exception says what to pass. Errors of the caller's code pass."""

import inspect
import pathlib
import re
import typing
import uuid

import filterblock
import numpy as np
import pytest
from filterblock import (
    Bloom,
    FileFilter,
    Filter,
    LevelDbTable,
    Plan,
    RocksDbTable,
    index,
    parquet,
    plan,
    plan_largest,
)

# Words of PyO3 and of Rust that say nothing to a caller.
WORDS = re.compile(
    r"Can't extract|is not an instance of|cannot be (converted|cast)|No constructor|cannot create|Py[A-Z]"
    r"|\bVec\b"
    r"|integral type|\bu(8|16|32|64|size)\b|\bstr\]|expected a sequence|'?None'? is not"
)
WRONG = [
    None,
    5,
    1.5,
    "text",
    b"bytes",
    ["list"],
    [5],
    {"a": 1},
    object(),
    np.int64(3),
    -1,
    2**40,
    2**70,
    range(3),
]


def calls(folder):
    """Yields the name of a parameter, and a function that passes a value to it."""
    bloom, filter = Bloom(10), Filter.build(["a"])
    file, made = FileFilter(10, 0.1, folder / "made"), iter(range(10**9))
    data = filter.to_bytes()

    def new():
        return folder / f"new{next(made)}"

    yield "Filter", lambda value: Filter(value)
    yield "Filter.build keys", Filter.build
    for name in ("spec", "error_rate", "width", "seed", "secret", "table_id", "ranges", "threads"):
        yield f"Filter.build {name}", lambda value, name=name: Filter.build(["a"], **{name: value})
    yield "Filter.open", Filter.open
    for name in ("secret", "table_id", "checksum", "mapped"):
        yield f"Filter.open {name}", lambda value, name=name: Filter.open(folder / "no", **{name: value})
    yield "Filter.from_bytes", Filter.from_bytes
    for name in ("secret", "table_id", "checksum"):
        yield f"Filter.from_bytes {name}", lambda value, name=name: Filter.from_bytes(data, **{name: value})
    yield "Filter.merge", Filter.merge
    yield "Filter |", lambda value: filter | value
    for name in ("compare", "contains_many", "may_contain_range", "add", "update"):
        yield f"Filter.{name}", getattr(filter, name)
    yield "Filter in", lambda value: value in filter
    yield "Bloom", Bloom
    yield "Bloom error_rate", lambda value: Bloom(10, value)
    yield "Bloom seed", lambda value: Bloom(10, seed=value)
    for name in ("add", "update", "contains_many", "compare"):
        yield f"Bloom.{name}", getattr(bloom, name)
    yield "Bloom |=", lambda value: bloom.__ior__(value)
    yield "Bloom &", lambda value: bloom & value
    yield "FileFilter capacity", lambda value: FileFilter(value, 0.1, new())
    yield "FileFilter error_rate", lambda value: FileFilter(10, value, new())
    yield "FileFilter perm", lambda value: FileFilter(10, 0.1, new(), value if value != 3 else 0o600)
    yield "FileFilter hash_seeds", lambda value: FileFilter(10, 0.1, new(), hash_seeds=value)
    yield "FileFilter.open", lambda value: FileFilter.open(value) if not isinstance(value, int) else None
    yield "FileFilter.open mode", lambda value: FileFilter.open(folder / "no", value)
    yield "FileFilter.from_base64", lambda value: FileFilter.from_base64(new(), value)
    for name in ("add", "update", "contains_many"):
        yield f"FileFilter.{name}", getattr(file, name)
    for table in (LevelDbTable, RocksDbTable):
        yield f"{table.__name__}", lambda value, table=table: table(value)
        yield f"{table.__name__}.open", table.open
        yield (
            f"{table.__name__}.open mapped",
            lambda value, table=table: table.open(folder / "no", mapped=value),
        )
    yield "LevelDbTable.open key_form", lambda value: LevelDbTable.open(folder / "no", key_form=value)
    yield "RocksDbTable.open secret", lambda value: RocksDbTable.open(folder / "no", secret=value)
    yield "Plan", lambda value: Plan(value)
    yield "plan", lambda value: plan(value, 5)
    yield "plan num_keys", lambda value: plan("bloom:10", value)
    yield "plan_largest", lambda value: plan_largest(value, 5, 5)
    yield "ParquetFile", lambda value: parquet.ParquetFile(value)
    yield "ParquetFile.open", parquet.ParquetFile.open
    yield "parquet.add", lambda value: parquet.add(value, new(), ["a"])
    yield "parquet.add out", lambda value: parquet.add(folder / "no", value, ["a"])
    yield "parquet.add columns", lambda value: parquet.add(folder / "no", new(), value)
    for name in ("error_rate", "bits_per_value", "exact_size", "replace", "overwrite"):
        yield (
            f"parquet.add {name}",
            lambda value, name=name: parquet.add(folder / "no", new(), ["a"], **{name: value}),
        )
    yield "index.build", lambda value: index.build(new(), value, "a")
    for name in ("error_rate", "base", "overwrite"):
        yield f"index.build {name}", lambda value, name=name: index.build(new(), [], "a", **{name: value})
    yield "index.open", index.open
    yield "parquet.check columns", lambda value: parquet.check(folder / "no", value)
    yield "parquet.check values", lambda value: parquet.check(folder / "no", values=value)
    yield "key_bytes", filterblock.key_bytes


def test_no_exception_has_the_words_of_the_binding(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = {}
    for name, call in calls(tmp_path):
        for value in WRONG:
            try:
                call(value)
            except Exception as error:  # noqa: BLE001
                told[name, repr(value)[:20], type(error).__name__] = str(error)
    assert len(told) > 400
    assert {key: text for key, text in told.items() if WORDS.search(text)} == {}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: parquet.add("a", "b", "id"), r'a list of str, for example \["id"\], not str'),
        (lambda: parquet.add("a", "b", ["id", 5]), "item 1 is of the type int"),
        (lambda: Filter.from_bytes("text"), "must be bytes, not str"),
        (
            lambda: Filter.merge([Filter.build([]), Bloom(10)]),
            "a list of Filter; item 1 is of the type Bloom",
        ),
        (lambda: Bloom(10).compare(Filter.build([])), "must be a Bloom, not Filter"),
        (lambda: Filter.build([], table_id=5), "bytes of length 16, not int"),
        (lambda: Filter.build(5), "int"),
        (lambda: LevelDbTable("a"), "LevelDbTable.open"),
        (lambda: Filter.build(["a"], spec=5), "must be a str, not int"),
        (lambda: Filter.open("a", mapped=1), "must be True or False, not int"),
        (lambda: Bloom(10).update(Bloom), "a list of keys"),
        (lambda: Bloom(10).add(np.ma.masked), "masked"),
    ],
)
def test_a_type_error_says_what_to_pass(call, text):
    with pytest.raises(TypeError, match=text):
        call()


def test_bytes_may_be_a_bytearray_or_a_memoryview(tmp_path):
    secret, table_id = b"s" * 16, b"t" * 16
    filter = Filter.build(["a"], secret=bytearray(secret), table_id=memoryview(table_id))
    assert filter.to_bytes() == Filter.build(["a"], secret=secret, table_id=table_id).to_bytes()
    for kind in (bytes, bytearray, memoryview):
        assert "a" in Filter.from_bytes(kind(filter.to_bytes()), secret=secret)
    with pytest.raises(ValueError, match="16 bytes"):
        Filter.build([], table_id=b"short")
    for name in (str, lambda path: bytes(str(path), "utf8"), pathlib.Path):
        filter.save(name(tmp_path / "file"))
        assert Filter.open(name(tmp_path / "file"), secret=secret).filename == str(tmp_path / "file")


def test_an_error_in_index_passes_through():
    class Broken:
        def __init__(self, error):
            self.error = error

        def __index__(self):
            raise self.error

    class Text:
        def __index__(self):
            return "1"

    class Large:
        def __index__(self):
            return 2**64

    for error in (ZeroDivisionError("mine"), RuntimeError("mine"), TypeError("mine"), KeyError("mine")):
        for call in (filterblock.key_bytes, Bloom(10).add, lambda key: Bloom(10).update(["a", key])):
            with pytest.raises(type(error), match="mine"):
                call(Broken(error))
    for key, kind in ((Text(), TypeError), (Large(), OverflowError), (uuid.UUID(int=1), TypeError)):
        with pytest.raises(kind):
            filterblock.key_bytes(key)


def test_the_repr_of_a_closed_file_filter_says_so(tmp_path):
    filter = FileFilter(10, 0.1, tmp_path / "file")
    assert repr(filter).startswith("<FileFilter: capacity 10, error rate 0.1, ")
    filter.close()
    assert repr(filter) == f"<FileFilter {tmp_path / 'file'}: closed>"


def test_methods_that_always_raise_have_the_type_noreturn():
    stub = (pathlib.Path(filterblock.__file__).parent / "_filterblock.pyi").read_text()
    for name in ("add", "update"):
        assert re.search(rf"class Filter:(?:(?!\n@final).)*def {name}\([^)]*\) -> NoReturn", stub, re.DOTALL)
    assert typing.NoReturn is not None
    for method in (Filter.build([]).add, Filter.build([]).update):
        with pytest.raises(TypeError, match="Filter\\(keys\\)"):
            method("a")


def test_the_estimate_of_a_length_is_documented():
    assert "`len` of the filter is an estimate" in " ".join(inspect.getdoc(Bloom).split())
