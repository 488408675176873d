"""Tests `filterblock.index`: an index never leaves out a file that has the value."""

import os
import shutil
import uuid
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filterblock import DamagedError, index

FILES, ROWS = 20, 500


def write(path, columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=200)


@pytest.fixture
def lake(tmp_path):
    """Writes files in two folders. The file number n has the ids n * ROWS to (n + 1) * ROWS - 1."""
    for number in range(FILES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        columns = {
            "id": pa.array(ids, pa.int64()),
            "text": [f"käse{id}" for id in ids],
            "uuid": pa.array([uuid.UUID(int=id).bytes for id in ids], pa.uuid()),
            "zero": np.array([-0.0 if number % 2 else 1.5] * ROWS),
        }
        write(tmp_path / "lake" / str(number % 2) / f"{number:02}.parquet", columns)
    (tmp_path / "lake" / "_metadata").write_text("none")
    return tmp_path / "lake"


def path_of(lake, number):
    return str(lake / str(number % 2) / f"{number:02}.parquet")


def test_every_file_of_a_value_is_found(lake):
    for column, value in (
        ("id", lambda id: id),
        ("id", np.int64),
        ("id", lambda id: id.to_bytes(8, "little")),
        ("text", lambda id: f"käse{id}"),
        ("uuid", lambda id: uuid.UUID(int=id)),
    ):
        found = index.build(lake.with_name(f"{column}.index"), lake, column, error_rate=0.001, overwrite=True)
        assert found.column == column and found.error_rate == 0.001 and len(found) == FILES
        assert sorted(found.files) == sorted(path_of(lake, number) for number in range(FILES))
        ids = range(0, FILES * ROWS, 7)
        answers = found.query_many([value(id) for id in ids])
        assert all(path_of(lake, id // ROWS) in answer for id, answer in zip(ids, answers, strict=True))
        assert found.query(value(5)) == answers[0] or path_of(lake, 0) in found.query(value(5))
        absent = found.query_many([value(id) for id in range(10**6, 10**6 + 1000)])
        assert sum(map(len, absent)) < 0.01 * FILES * 1000
        found.verify()
        assert found.changed() == {} and found.query_many([]) == []


def test_values_with_several_encodings_are_found(lake):
    found = index.build(lake.with_name("zero.index"), lake, "zero")
    odd = {path_of(lake, number) for number in range(1, FILES, 2)}
    assert odd <= set(found.query(0.0)) and odd <= set(found.query(-0.0))
    assert len(found.query(float("nan"))) == FILES


def test_a_changed_file_may_have_every_value(lake):
    path = lake.with_name("ids.index")
    found = index.build(path, [lake / "0", os.fspath(lake / "1")], "id")
    write(lake / "0" / "00.parquet", {"id": pa.array([10**9], pa.int64())})
    os.remove(lake / "1" / "01.parquet")
    for reader in (found, index.open(path)):
        assert sorted(reader.changed()) == [path_of(lake, 0), path_of(lake, 1)]
        with pytest.warns(UserWarning, match="2 of 20 files have changed"):
            assert {path_of(lake, 0), path_of(lake, 1)} <= set(reader.query(10**9))
    again = index.build(path, lake, "id", overwrite=True)
    assert again.query(10**9) == [path_of(lake, 0)] and len(again) == FILES - 1


def test_damage_of_an_index_denies_nothing(lake):
    path = lake.with_name("ids.index")
    found = index.build(path, lake, "id")
    ids, data = list(range(0, FILES * ROWS, 11)), path.read_bytes()
    sound = found.query_many(ids)
    opened = 0
    for at in range(0, len(data), 97):
        damaged = bytearray(data)
        damaged[at] ^= 16
        path.write_bytes(damaged)
        try:
            reader = index.open(path)
        except ValueError:
            continue
        opened += 1
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            answers = reader.query_many(ids)
        assert all(set(old) <= set(new) for old, new in zip(sound, answers, strict=True)), at
        with pytest.raises(DamagedError):
            reader.verify()
    assert opened > 10
    for length in (0, 10, 63, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(DamagedError) as raised:
            index.open(path)
        assert raised.value.path == path


def test_relative_paths_are_looked_up_in_the_base(lake, monkeypatch):
    monkeypatch.chdir(lake.parent)
    found = index.build("ids.index", "lake", "id")
    assert found.files[0] == os.path.join("lake", "0", "00.parquet")
    assert os.path.join("lake", "0", "00.parquet") in found.query(5)
    monkeypatch.chdir(lake)
    assert len(index.open("../ids.index").changed()) == FILES
    with pytest.warns(UserWarning, match="base="):
        assert len(index.open("../ids.index").query(5)) == FILES
    assert index.open("../ids.index", base="..").query(5) == index.open("../ids.index", base=b"..").query(5)
    assert index.open("../ids.index", base="..").changed() == {}
    assert index.build("../other.index", "lake", "id", base="..").files == found.files


def test_wrong_calls_say_what_to_do(lake):
    path = lake.with_name("ids.index")
    ids = index.build(path, lake, "id")
    text = index.build(lake.with_name("text.index"), lake, "text")
    write(lake / "other.parquet", {"id": ["a"]})
    before = sorted(os.listdir(lake.parent))
    for call, error, match in (
        (lambda: index.build(path, lake / "0", "id"), FileExistsError, "overwrite=True"),
        (lambda: index.build(path, lake, "id", overwrite=True), ValueError, "build another index"),
        (lambda: index.build(lake.with_name("n"), lake / "0", "no"), ValueError, "give one of: id, text"),
        (lambda: index.build(lake.with_name("n"), [], "id"), ValueError, "give a list of paths"),
        (lambda: index.build(lake.with_name("n"), 5, "id"), TypeError, "a path, or a list of paths"),
        (lambda: index.build(lake.with_name("n"), lake.parent / "empty", "id"), FileNotFoundError, "empty"),
        (
            lambda: index.build(path_of(lake, 0), lake / "0", "id", overwrite=True),
            ValueError,
            "also an input",
        ),
        (lambda: index.Index(path), TypeError, "index.open"),
        (lambda: ids.query("text"), TypeError, "int"),
        (lambda: ids.query(2**70), OverflowError, "range"),
        (lambda: text.query_many("text"), TypeError, "a list of values"),
        (lambda: index.open(lake), ValueError, "regular file"),
    ):
        with pytest.raises(error, match=match):
            call()
    assert sorted(os.listdir(lake.parent)) == before
    shutil.rmtree(lake)
    assert len(index.open(path).changed()) == FILES
