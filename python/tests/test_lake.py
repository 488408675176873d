"""Tests `parquet.add` for folders, in place, and for the columns that a check advises."""

import os
import shutil
import stat
import subprocess
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filterblock import parquet

ROWS, GROUP = 6000, 2000
NAMES = ["a.parquet", "b.PARQ", "deep/er/c.pq"]
SKIPPED = [".hidden.parquet", "_skipped.parquet", "_metadata", "notes.txt", "deep/.x/d.parquet"]


def write(path, columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=GROUP)


@pytest.fixture
def lake(tmp_path):
    random = np.random.default_rng(7)
    for number, name in enumerate(NAMES):
        columns = {
            "id": random.integers(0, 2**62, ROWS),
            "text": [f"{value:x}" for value in random.integers(0, 2**62, ROWS)],
            "sorted": np.arange(ROWS) + number,
            "few": np.arange(ROWS) % 3,
            "flag": np.arange(ROWS) % 2 == 0,
            "half": random.random(ROWS).astype(np.float16),
        }
        write(tmp_path / "lake" / name, columns)
    for name in SKIPPED:
        path = tmp_path / "lake" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("no Parquet file")
    return tmp_path / "lake"


def content(folder):
    found = {}
    for root, _, names in os.walk(folder):
        found |= {os.path.join(root, name): open(os.path.join(root, name), "rb").read() for name in names}
    return found


def assert_filters(folder, columns):
    """Asserts that the filters of the columns hold all values, and that the rows are unchanged."""
    for name in NAMES:
        checked = parquet.check(folder / name, values=True)
        filtered = {chunk["column"] for chunk in checked if chunk["state"] == "right"}
        assert filtered == set(columns), name
        assert all(chunk["false_negatives"] == 0 for chunk in checked if chunk["column"] in columns)


def test_a_folder_gets_filters_in_another_folder(lake, tmp_path):
    before = content(lake)
    added = parquet.add(lake, tmp_path / "out", ["id", "text"])
    assert len(added) == len(NAMES) * 2 * 3
    assert {filter["path"] for filter in added} == {str(tmp_path / "out" / name) for name in NAMES}
    assert content(lake) == before
    assert sorted(content(tmp_path / "out")) == sorted(str(tmp_path / "out" / name) for name in NAMES)
    assert_filters(tmp_path / "out", ["id", "text"])
    for name in NAMES:
        assert pq.read_table(tmp_path / "out" / name).equals(pq.read_table(lake / name))
    with pytest.raises(FileExistsError, match="overwrite=True"):
        parquet.add(lake, tmp_path / "out", ["id"])
    assert len(parquet.add(lake, tmp_path / "out", ["id"], overwrite=True)) == len(NAMES) * 3
    states = {(chunk["path"], chunk["row_group"], chunk["state"]) for chunk in parquet.check(lake, ["id"])}
    assert len(states) == len(NAMES) * 3 and {state for _, _, state in states} == {"missing"}


def test_a_folder_gets_filters_in_place_and_only_once(lake):
    tables = {name: pq.read_table(lake / name) for name in NAMES}
    os.chmod(lake / NAMES[0], 0o640)
    assert len(parquet.add(lake, columns=["id"], in_place=True)) == len(NAMES) * 3
    assert_filters(lake, ["id"])
    assert stat.S_IMODE(os.stat(lake / NAMES[0]).st_mode) == 0o640
    assert all(pq.read_table(lake / name).equals(table) for name, table in tables.items())
    before = {name: os.stat(lake / name) for name in NAMES}
    assert parquet.add(lake, columns=["id"], in_place=True) == []
    assert {name: os.stat(lake / name) for name in NAMES} == before
    assert sorted(name for name in os.listdir(lake) if "displaced" in name or name.endswith(".tmp")) == []


def test_advised_takes_the_columns_of_the_command(lake, tmp_path):
    added = parquet.add(lake, tmp_path / "out", advised=True)
    assert {filter["column"] for filter in added} == {"id", "text"}
    assert_filters(tmp_path / "out", ["id", "text"])
    assert parquet.add(tmp_path / "out", advised=True, in_place=True) == []
    command = os.environ.get("FILTERBLOCK") or shutil.which("filterblock")
    if command:
        said = subprocess.run([command, "parquet", "check", lake / NAMES[0]], capture_output=True, text=True)
        assert "--column id,text -o" in said.stdout


def test_a_file_with_two_names_and_a_changed_file_stay(lake):
    os.link(lake / NAMES[0], lake / "second.name")
    with pytest.raises(OSError, match="hard links"):
        parquet.add(lake / NAMES[0], columns=["id"], in_place=True)
    assert all(chunk["state"] == "missing" for chunk in parquet.check(lake / NAMES[0], ["id"]))


def test_an_error_in_one_file_leaves_every_file_whole(lake):
    data = bytearray((lake / "deep/er/c.pq").read_bytes())
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    (lake / "deep/er/c.pq").write_bytes(data)
    with pytest.raises(ValueError, match="c.pq"):
        parquet.add(lake, columns=["id"], in_place=True)
    assert (lake / "deep/er/c.pq").read_bytes() == data
    for name in NAMES[:2]:
        assert {chunk["state"] for chunk in parquet.check(lake / name, ["id"], values=True)} == {"right"}
    assert [name for name in os.listdir(lake / "deep/er")] == ["c.pq"]


def test_lists_of_files_and_folders_are_taken(lake, tmp_path):
    out = tmp_path / "new"
    out.mkdir()
    assert len(parquet.add([lake / NAMES[0], lake / "deep"], out, ["id"])) == 6
    assert sorted(os.listdir(out)) == ["a.parquet", "er"]
    checked = parquet.check([out / "a.parquet", out / "er"], ["id"])
    assert [chunk["state"] for chunk in checked] == ["right"] * 6
    assert parquet.add([], columns=["id"], in_place=True) == [] == parquet.check([])


def test_no_new_folder_stays_after_an_error(lake, tmp_path):
    (tmp_path / "mine").mkdir()
    for out in (tmp_path / "new" / "er", tmp_path / "mine"):
        with pytest.raises(ValueError, match="no column"):
            parquet.add(lake, out, ["no"])
    assert sorted(os.listdir(tmp_path)) == ["lake", "mine"] and os.listdir(tmp_path / "mine") == []


def test_files_of_a_table_give_a_warning(lake):
    (lake / "_delta_log").mkdir()
    with pytest.warns(UserWarning, match="Delta table record the length"):
        parquet.add(lake / NAMES[0], columns=["id"], in_place=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            parquet.add(lake / NAMES[1], columns=["id"], in_place=True)
    assert all(chunk["state"] == "missing" for chunk in parquet.check(lake / NAMES[1], ["id"]))


def test_an_output_never_replaces_an_input(lake, tmp_path):
    before = content(lake)
    os.symlink(lake, tmp_path / "link")
    for out in (lake, lake / "out", lake / "deep" / ".." / "out", tmp_path / "link" / "out"):
        with pytest.raises(ValueError, match="in_place=True"):
            parquet.add(lake, out, ["id"], overwrite=True)
    os.symlink(lake / NAMES[0], tmp_path / "file")
    for out in (lake / NAMES[0], tmp_path / "file", tmp_path / "link" / NAMES[0], lake):
        with pytest.raises(ValueError, match="in_place=True"):
            parquet.add(lake / NAMES[0], out, ["id"], overwrite=True)
    assert content(lake) == before
    assert len(parquet.add(lake / NAMES[0], tmp_path, ["id"])) == 3  # the folder for the file
    assert (tmp_path / NAMES[0]).exists()
