"""Tests the API as users of Python type it: constructors, equality, weak references, paths and texts."""

import gc
import os
import pathlib
import pickle
import re
import weakref

import filterblock
import pytest
from filterblock import Bloom, FileFilter, Filter, LevelDbTable, RocksDbTable, index, parquet, plan

KEYS = [f"key-{number}" for number in range(1000)]
GOLDEN = pathlib.Path(__file__).parents[2] / "tests/golden/foreign"


# Filter(keys) -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"spec": "ribbon:8"},
        {"error_rate": 0.001},
        {"seed": 7, "threads": 2, "table_id": b"t" * 16},
        {"secret": b"s" * 16, "ranges": "grafite:fpr=0.01"},
    ],
)
def test_filter_is_filter_build(arguments):
    made = Filter(KEYS, **arguments)
    assert made == Filter.build(KEYS, **arguments) and type(made) is Filter
    assert made.contains_many(KEYS).all() and len(made) == 1000


def test_an_error_rate_is_a_blocked_bloom_filter_of_this_rate():
    for rate in (0.3, 0.01, 1e-7):
        assert Filter(KEYS, error_rate=rate) == Filter(KEYS, f"blocked-bloom:fpr={rate:.10f}")
        assert Filter(KEYS, error_rate=rate).error_rate <= rate
    for rate in (0, 1, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="above 0 and below 1"):
            Filter(KEYS, error_rate=rate)
    with pytest.raises(TypeError, match="give one of them"):
        Filter(KEYS, "bloom:10", error_rate=0.01)
    with pytest.raises(TypeError, match=r"error_rate=0\.01"):
        Filter(KEYS, 0.01)


def test_width_takes_one_bytes_object():
    assert Filter(b"abcd", width=2) == Filter([b"ab", b"cd"])


# Equality -----------------------------------------------------------------------------------------------


def test_filters_of_equal_bytes_are_equal_and_have_one_hash(tmp_path):
    one = Filter(KEYS)
    one.save(tmp_path / "file")
    same = [Filter(reversed(KEYS)), Filter.open(tmp_path / "file"), pickle.loads(pickle.dumps(one))]
    for other in same:
        assert one == other and not one != other and hash(one) == hash(other)
    others = [Filter(KEYS[1:]), Filter(KEYS, "bloom:10"), Filter(KEYS, seed=1), one.to_bytes(), None]
    for other in others:
        assert one != other and not one == other
    table = {one: "one", Filter(KEYS[1:]): "other"}
    assert [table[filter] for filter in [*same, others[0]]] == ["one"] * 3 + ["other"]
    assert len({*same, *others[:3]}) == 4
    with pytest.raises(TypeError):
        one < same[0]  # noqa: B015


def test_blooms_of_equal_bits_shape_and_seed_are_equal():
    one, other = Bloom(1000), Bloom(1000)
    assert one == other == one and not one != other
    one.update(KEYS)
    assert one != other and one == one.copy() == pickle.loads(pickle.dumps(one))
    other.update(reversed(KEYS))
    assert one == other
    assert Bloom(1000) != Bloom(1000, seed=1) and Bloom(1000) != Bloom(2000)
    assert Bloom(1000) != Bloom(1000, 0.001) and Bloom(1000) != set() and Bloom(1000) is not None
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    with pytest.raises(TypeError, match=r"\(a & b\) == a"):
        one <= other  # noqa: B015
    assert (one & other) == one


def test_file_filters_are_equal_only_to_themselves(tmp_path):
    one, other = (FileFilter(10, 0.1, tmp_path / name) for name in ("one", "other"))
    assert one == one and one != other and len({one, other}) == 2


# Files --------------------------------------------------------------------------------------------------


def test_a_cell_of_a_notebook_runs_twice(tmp_path):
    cell = 'urls = FileFilter.open(path, "a", capacity=1000, error_rate=0.001)\nurls.add(key)\nurls.sync()'
    names = {"FileFilter": FileFilter, "path": tmp_path / "urls", "key": "first"}
    exec(cell, names)
    first = names["urls"]
    exec(cell, names | {"key": "second"})
    exec(cell, names)
    assert names["urls"] is first and "first" in first and "second" in first
    assert (first.capacity, first.error_rate) == (1000, 0.001)
    first.close()
    exec(cell, names)
    assert names["urls"] is not first and "second" in names["urls"]
    names.clear()
    del first
    gc.collect()
    with FileFilter.open(tmp_path / "urls") as again:
        assert "second" in again and "third" not in again


def test_mode_a_says_what_differs(tmp_path):
    with pytest.raises(FileNotFoundError, match="give a capacity"):
        FileFilter.open(tmp_path / "file", "a")
    with FileFilter.open(tmp_path / "file", "a", capacity=10) as made:
        assert (made.capacity, made.error_rate) == (10, 0.01)
    with FileFilter.open(tmp_path / "file", "a") as opened:
        assert opened.capacity == 10
    for other in ({"capacity": 11}, {"error_rate": 0.02}, {"capacity": 10, "error_rate": 0.1}):
        with pytest.raises(ValueError, match="capacity 10 and the error rate 0.01"):
            FileFilter.open(tmp_path / "file", "a", **other)
    with pytest.raises(ValueError, match='mode "a"'):
        FileFilter.open(tmp_path / "file", "rw", capacity=10)
    with pytest.raises(FileExistsError, match="FileFilter.open") as raised:
        FileFilter(10, 0.01, tmp_path / "file")
    assert raised.value.filename == tmp_path / "file"
    os.remove(tmp_path / "file")
    assert FileFilter.open(tmp_path / "file", "a", capacity=11).capacity == 11


def test_paths_may_be_bytes_and_stay_the_objects_of_the_caller(tmp_path):
    class Path:
        def __fspath__(self):
            return str(tmp_path / "missing")

    mapped = {"mapped": False}
    for path in (bytes(tmp_path / "missing"), str(tmp_path / "missing"), tmp_path / "missing", Path()):
        calls = [
            lambda: Filter.open(path),  # noqa: B023
            lambda: FileFilter.open(path),  # noqa: B023
            lambda: FileFilter.open(path, "r"),  # noqa: B023
            lambda: FileFilter.open(path, "a"),  # noqa: B023
            lambda: LevelDbTable.open(path, **mapped),  # noqa: B023
            lambda: RocksDbTable.open(path),  # noqa: B023
            lambda: parquet.ParquetFile.open(path),  # noqa: B023
            lambda: parquet.add(path, tmp_path / "new", ["a"]),  # noqa: B023
            lambda: parquet.add(path, columns=["a"], in_place=True),  # noqa: B023
            lambda: parquet.check(path),  # noqa: B023
            lambda: index.open(path),  # noqa: B023
            lambda: index.build(tmp_path / "index", [path], "a"),  # noqa: B023
        ]
        for number, call in enumerate(calls):
            with pytest.raises(FileNotFoundError) as raised:
                call()
            assert raised.value.filename is path, (number, raised.value.filename)
    path = bytes(tmp_path / "file")
    Filter(KEYS).save(path)
    assert "key-1" in Filter.open(path)
    with FileFilter(10, 0.1, bytes(tmp_path / "bloom")) as made:
        made.add("a")
        copy = made.copy(bytes(tmp_path / "copy"))
    assert "a" in copy and "a" in FileFilter.open(bytes(tmp_path / "bloom"), "r")
    folder = bytes(tmp_path / "no" / "file")
    for call in (lambda: Filter(KEYS).save(folder), lambda: FileFilter(10, 0.1, folder)):
        with pytest.raises(FileNotFoundError) as raised:
            call()
        assert raised.value.filename is folder


# Objects ------------------------------------------------------------------------------------------------


def test_weak_references_work(tmp_path):
    makers = [
        lambda: Filter(KEYS),
        lambda: Bloom(10),
        lambda: FileFilter(10, 0.1, tmp_path / "file"),
        lambda: plan("bloom:10", 10),
        lambda: LevelDbTable.open(GOLDEN / "leveldb/tbl-n100.ldb"),
        lambda: parquet.ParquetFile.open(GOLDEN / "parquet/ids.parquet"),
        lambda: index.build(tmp_path / "index", GOLDEN / "parquet/ids.parquet", "id"),
    ]
    for make in makers:
        object = make()
        reference = weakref.ref(object)
        assert reference() is object
        del object
        gc.collect()
        assert reference() is None


def test_all_texts_write_rates_in_one_form(tmp_path):
    filters = [
        Filter(KEYS),
        Filter(KEYS, error_rate=1e-7),
        Filter([]),
        Filter(KEYS, "always-maybe"),
        Bloom(1000, 0.0123456),
        FileFilter(1000, 1 / 3, tmp_path / "file"),
        plan("bumped-ribbon:fpr=0.01", 1000),
        index.build(tmp_path / "index", GOLDEN / "parquet/ids.parquet", "id", error_rate=1e-5),
    ]
    for filter in filters:
        [rate] = re.findall(r"error rate ([-0-9.e]+)", repr(filter))
        assert float(rate) == pytest.approx(filter.error_rate, rel=0.005), repr(filter)
        assert len(re.sub(r"e.*|^[0.]+|\.", "", rate)) <= 3 and rate == re.sub(r"(\.\d*?)0+$", r"\1", rate)
    assert repr(filters[4]) == f"<Bloom: capacity 1000, error rate 0.0123, {filters[4].num_hashes} hashes>"
    assert "error rate 0.333," in repr(filters[5]) and "error rate 0>" in repr(filters[2])
    assert "error rate 1>" in repr(filters[3]) and "error rate 1e-5>" in repr(filters[7])


def test_one_word_names_the_rate_and_one_the_replacing_of_files():
    text = pathlib.Path(filterblock.__file__).with_name("_filterblock.pyi").read_text()
    names = set(re.findall(r"(\w+): (?:bool|float|int|str)\b", text))
    assert "error_rate" in names and "overwrite" in names
    assert not names & {"fpr", "rate", "force", "false_positive_rate", "replace_existing", "exist_ok"}
