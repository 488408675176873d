"""Tests that tables of LevelDB and RocksDB answer as the engines did for the files in tests/golden."""

import json
import pathlib

import filterblock
import numpy as np
import pyarrow as pa
import pytest
from filterblock import DamagedError, LevelDbTable, RocksDbTable, SecretError

FOREIGN = pathlib.Path(__file__).parents[2] / "tests/golden/foreign"
FOLDERS = {
    "leveldb": LevelDbTable,
    "rocksdb-7.8.3": RocksDbTable,
    "rocksdb-9.8.4": RocksDbTable,
    "rocksdb-11.8.1": RocksDbTable,
}


def cases():
    for folder, table in FOLDERS.items():
        for case in json.loads((FOREIGN / folder / "cases.json").read_text()):
            if case["type"] in ("table", "db_table") and case["keys"]["kind"] in ("dec", "be64"):
                yield pytest.param(table, FOREIGN / folder, case, id=f"{folder}-{case['name']}")


def key(kind, number):
    value = kind["start"] + kind["step"] * number
    return f"{kind['prefix']}{value:08}".encode() if kind["kind"] == "dec" else value.to_bytes(8, "big")


def read_answers(path):
    """Returns one character for each absent key: 1 for "maybe", 0 for "absent", - if no filter was asked."""
    lines = path.read_text().splitlines()
    return "".join(line for line in lines if not line.startswith("#"))


@pytest.mark.parametrize(("table", "folder", "case"), list(cases()))
def test_answers_are_those_of_the_engine(table, folder, case):
    opened = table.open(folder / case["file"], mapped=False)
    keys = [key(case["keys"], number) for number in range(case["n"])]
    assert opened.contains_many(keys).all() and all(key in opened for key in keys[:50])
    assert opened.verify()["denied_keys"] == 0
    assert opened.inspect()["filters"] or case.get("bits_per_key") == 0
    answers = folder / f"{case['name']}.absent.txt"
    if case.get("absent") != "tilde" or not answers.exists():
        return
    bases = [number * case["n"] // 10_000 for number in range(10_000)]
    absent = [key(case["keys"], base) + b"~%d" % number for number, base in enumerate(bases)]
    expected = read_answers(answers)
    found = opened.contains_many(absent).tolist()
    assert all(
        known == "-" or (known == "1") == answer for known, answer in zip(expected, found, strict=True)
    )


def test_a_table_of_a_database_and_its_key_form():
    path = FOREIGN / "leveldb/db-n1500.ldb"
    for form in (None, "internal"):
        assert "key-00000001" in LevelDbTable.open(path, key_form=form)
    assert LevelDbTable.open(path).inspect()["key_form"] == "internal"
    with pytest.raises(ValueError):
        LevelDbTable.open(path, key_form="other")


def test_integers_raise_because_no_file_says_how_it_stores_them():
    tables = [LevelDbTable.open(FOREIGN / "leveldb/tbl-n100.ldb")]
    tables.append(RocksDbTable.open(next((FOREIGN / "rocksdb-11.8.1").glob("fv7-ribbon*.sst"))))
    for table in tables:
        for wrong in (1, True, np.int64(1), np.True_, None, 1.0):
            with pytest.raises(TypeError):
                wrong in table  # noqa: B015
            with pytest.raises(TypeError):
                table.contains_many([wrong])
        for many in (
            np.arange(3),
            pa.array([1]),
            pa.array([True]),
            pa.array([1]).dictionary_encode(),
            range(3),
        ):
            with pytest.raises(TypeError):
                table.contains_many(many)
        for many in (
            np.array(["key-00000001"]),
            np.array([b"key"]),
            pa.array(["key"]),
            [bytearray(b"key"), "key"],
        ):
            assert table.contains_many(many).shape == (len(many),)


def test_filters_of_filterblock_in_tables_of_rocksdb():
    folder = FOREIGN / "filterblock"
    keys = [f"key-{number:08}" for number in range(1000)]
    tables = sorted(folder.glob("rocksdb*.sst"))
    assert tables
    for path in tables:
        secret = b"0123456789abcdef" if "secret" in path.name else None
        opened = RocksDbTable.open(path, secret=secret)
        assert (
            opened.contains_many(keys).all()
            and opened.contains_many([f"no-{key}" for key in keys]).mean() < 0.1
        )
        if secret:
            assert RocksDbTable.open(path).contains_many(["no"]).all()  # "maybe" without the secret
            with pytest.raises(SecretError):
                RocksDbTable.open(path, secret=bytes(16))


def test_prefixes_of_rocksdb():
    opened = RocksDbTable.open(FOREIGN / "rocksdb-11.8.1/fv6-ribbon-prefix-only.sst")
    assert opened.inspect()["whole_key_filtering"] is False and opened.prefix_may_match("key-00000137")
    with pytest.raises(TypeError):
        opened.prefix_may_match(5)


@pytest.mark.parametrize("path", ["leveldb/tbl-n100.ldb", "rocksdb-11.8.1/fv7-ribbon-n2000.sst"])
def test_damage_raises_or_never_denies_a_key(path, tmp_path):
    table = LevelDbTable if "leveldb" in path else RocksDbTable
    data = (FOREIGN / path).read_bytes()
    kind = {"kind": "dec", "prefix": "key-", "start": 0, "step": 1}
    if table is RocksDbTable:
        kind = {"kind": "dec", "prefix": "k", "start": 5, "step": 7}
    keys = [key(kind, number) for number in range(100)]
    assert table.open(FOREIGN / path).contains_many(keys).all()
    damaged = tmp_path / "damaged"
    for at in range(len(data) - 1, 0, -max(1, len(data) // 300)):
        changed = bytearray(data)
        changed[at] ^= 16
        damaged.write_bytes(changed)
        try:
            opened = table.open(damaged)
        except filterblock.Error as error:
            assert str(damaged) in str(error)
            continue
        assert opened.contains_many(keys).all()
    damaged.write_bytes(data[:-9])
    with pytest.raises(DamagedError) as raised:
        table.open(damaged)
    assert raised.value.path == damaged and raised.value.field and raised.value.offset is not None
    with pytest.raises(FileNotFoundError):
        table.open(tmp_path / "no")
