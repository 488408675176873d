"""Tests Parquet files: filters that pyarrow wrote, filters that filterblock adds, and damage."""

import datetime
import decimal
import os
import pathlib
import struct
import uuid
import zlib

import filterblock
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filterblock import DamagedError, parquet

GOLDEN = pathlib.Path(__file__).parents[2] / "tests/golden/foreign/parquet"
ROWS, GROUP = 3000, 1000
COLUMNS = {
    "i32": (pa.int32(), lambda i: i - 5),
    "i64": (pa.int64(), lambda i: i * 10**12),
    "u8": (pa.uint8(), lambda i: i % 256),
    "u32": (pa.uint32(), lambda i: 2**32 - 1 - i),
    "u64": (pa.uint64(), lambda i: 2**64 - 1 - i),
    "f32": (pa.float32(), lambda i: i / 8),
    "f64": (pa.float64(), lambda i: i / 10),
    "str": (pa.string(), lambda i: f"käse{i}"),
    "bin": (pa.binary(), lambda i: b"\xff%d" % i),
    "flba": (pa.binary(4), lambda i: i.to_bytes(4, "big")),
    "date": (pa.date32(), lambda i: i),
    "dec": (pa.decimal128(9, 2), lambda i: decimal.Decimal(i)),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Writes a file without filters, and returns its path."""
    path = tmp_path_factory.mktemp("parquet") / "plain.parquet"
    columns = {
        name: pa.array([value(i) for i in range(ROWS)], kind) for name, (kind, value) in COLUMNS.items()
    }
    columns["bool"] = pa.array([i % 2 == 0 for i in range(ROWS)])
    pq.write_table(pa.table(columns), path, row_group_size=GROUP)
    return path


@pytest.fixture(scope="module")
def filtered(plain):
    """Adds filters to the file for all columns that can have one, and returns the path of the new file."""
    out = plain.with_name("filtered.parquet")
    added = parquet.add(plain, out, list(COLUMNS), error_rate=0.001)
    assert len(added) == len(COLUMNS) * 3 and added[0]["column"] == "i32" and added[0]["distinct"] == GROUP
    assert all(0 < filter["error_rate"] <= 0.001 and filter["len_bytes"] > 32 for filter in added)
    return out


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.float16(), np.float16(1.5)),
        (pa.decimal256(39, 0), decimal.Decimal(7)),
        (pa.decimal256(76, 2), decimal.Decimal(7)),
    ],
)
def test_a_type_with_which_an_engine_loses_rows_is_refused(kind, value, tmp_path):
    path, out = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(pa.table({"c": pa.array([value], kind), "id": [1]}), path)
    with pytest.raises(filterblock.UnsupportedError, match="DuckDB 2.0 .* loses rows; omit the column"):
        parquet.add(path, out, ["c", "id"])
    assert list(tmp_path.iterdir()) == [path]
    parquet.add(path, out, ["id"])
    assert [chunk["state"] for chunk in parquet.check(out)] == ["missing", "right"]


def test_a_filter_of_such_a_type_is_unsafe(tmp_path):
    path = tmp_path / "a.parquet"
    numbers = pa.array([decimal.Decimal(i) for i in range(100)], pa.decimal256(39, 0))
    pq.write_table(pa.table({"c": numbers}), path, bloom_filter_options={"c": True})
    for values in (False, True):
        (chunk,) = parquet.check(path, values=values)
        assert chunk["state"] == "unsafe" and "DuckDB 2.0" in chunk["error"]


def test_added_filters_keep_the_data_and_never_deny_a_value(plain, filtered):
    assert filtered.read_bytes()[: plain.stat().st_size - 1000] == plain.read_bytes()[:-1000]
    assert pq.read_table(filtered).equals(pq.read_table(plain))
    checked = parquet.check(filtered, values=True)
    for chunk in checked:
        if chunk["column"] == "bool":
            assert chunk["state"] == "missing"
            continue
        assert (
            chunk["false_negatives"] == 0
            and chunk["state"] in ("right", "oversized")
            and chunk["unread"] is None
        )
    assert {chunk["state"] for chunk in parquet.check(plain, ["i64"])} == {"missing"}
    assert sorted(parquet.ParquetFile.open(filtered).columns) == sorted(COLUMNS)


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in ("date", "dec")])
def test_row_groups_that_may_hold_a_value(name, filtered):
    value, file = COLUMNS[name][1], parquet.ParquetFile.open(filtered)
    assert file.num_row_groups == 3 and file.verify() == 3 * len(COLUMNS)
    alone = 0
    for i in range(0, ROWS, 97):
        found = file.row_groups(name, value(i))
        assert i // GROUP in found
        alone += found == [i // GROUP]
    assert alone > 25 or name == "u8"


def test_values_of_times_and_decimals_are_given_as_stored_bytes(filtered):
    file = parquet.ParquetFile.open(filtered)
    assert 1 in file.row_groups("date", struct.pack("<i", 1500))
    for column, value in (
        ("date", 1500),
        ("date", datetime.date(2020, 1, 1)),
        ("dec", 5),
        ("dec", decimal.Decimal(5)),
    ):
        with pytest.raises(TypeError):
            file.row_groups(column, value)


def test_values_of_other_types_raise_and_are_never_absent(filtered):
    file = parquet.ParquetFile.open(filtered)
    wrong = {
        "i32": ["1", 1.0, None, True, np.True_, np.float64(1), np.datetime64(1, "D"), np.datetime64(1, "ns")],
        "i64": [np.datetime64(1, "ns"), np.timedelta64(1, "Y"), np.longdouble(1)],
        "f64": [1, "1", None, decimal.Decimal(1)],
        "str": [1, 1.0, None, ("a",), uuid.UUID(int=1), np.int64(1)],
        "bin": [1, None, uuid.UUID(int=1)],
        "flba": ["abcd", 1, None, uuid.UUID(int=1), np.array([b"abcd"])],
    }
    for column, values in wrong.items():
        for value in values:
            with pytest.raises(TypeError):
                file.row_groups(column, value)
    out_of_range = (
        ("i32", 2**31),
        ("i64", 2**63),
        ("u8", -1),
        ("u8", 256),
        ("u64", -1),
        ("u64", 2**200),
        ("i32", -(2**31) - 1),
        ("f32", 1e300),
    )
    for column, value in out_of_range:
        with pytest.raises(OverflowError):
            file.row_groups(column, value)
    for column, value in (("flba", b"abc"), ("i32", b"abc"), ("f64", b"abc"), ("no", 1), ("bool", True)):
        with pytest.raises(ValueError):
            file.row_groups(column, value)
    with pytest.raises(UnicodeEncodeError):
        file.row_groups("str", "\ud800")


SCALARS = {
    "i32": np.int16,
    "i64": np.int64,
    "u8": np.uint8,
    "u32": np.uint64,
    "u64": np.uint64,
    "f32": np.float32,
    "f64": np.float64,
    "str": np.str_,
    "bin": np.bytes_,
    "flba": np.void,
}


@pytest.mark.parametrize("name", SCALARS)
def test_a_scalar_of_numpy_asks_for_its_value(name, filtered):
    value, file = COLUMNS[name][1], parquet.ParquetFile.open(filtered)
    for i in range(0, ROWS, 97):
        assert file.row_groups(name, SCALARS[name](value(i))) == file.row_groups(name, value(i))
    assert 0 in file.row_groups("f32", np.float16(0.125)) and 0 in file.row_groups("f64", np.float32(0))


def test_a_uuid_asks_no_column_of_texts_or_bytes(tmp_path):
    value = uuid.UUID(int=7 << 100)
    table = {
        "text": [str(value)],
        "bin": pa.array([value.bytes]),
        "flba": pa.array([value.bytes_le], pa.binary(16)),
    }
    pq.write_table(pa.table(table), tmp_path / "plain")
    parquet.add(tmp_path / "plain", tmp_path / "file", list(table))
    file = parquet.ParquetFile.open(tmp_path / "file")
    for column in table:
        with pytest.raises(TypeError, match="UUID"):
            file.row_groups(column, value)
    assert file.row_groups("text", str(value)) == file.row_groups("bin", value.bytes) == [0]
    assert file.row_groups("flba", value.bytes_le) == [0] and file.row_groups("flba", value.bytes) == []


def test_zeros_of_both_signs_and_nans_are_never_denied(tmp_path):
    for value in (0.0, -0.0, float("nan")):
        table = pa.table({"f64": [value, 1.0], "f32": pa.array([value, 1.0], pa.float32())})
        options = {"f64": {"ndv": 10}, "f32": {"ndv": 10}}
        pq.write_table(table, tmp_path / "file", bloom_filter_options=options)
        file = parquet.ParquetFile.open(tmp_path / "file")
        assert sorted(file.columns) == ["f32", "f64"]
        for column in ("f64", "f32"):
            for asked in (value, -value):
                assert file.row_groups(column, asked) == [0]
            assert file.row_groups(column, 7.25) == []


def test_uuids_and_row_groups_without_filters(tmp_path, plain):
    values = [uuid.UUID(int=i) for i in range(100)]
    storage = pa.array([value.bytes for value in values], pa.binary(16))
    pq.write_table(pa.table({"id": pa.ExtensionArray.from_storage(pa.uuid(), storage)}), tmp_path / "plain")
    parquet.add(tmp_path / "plain", tmp_path / "file", ["id"])
    file = parquet.ParquetFile.open(tmp_path / "file")
    assert all(file.row_groups("id", value) == [0] == file.row_groups("id", value.bytes) for value in values)
    assert file.row_groups("id", uuid.UUID(int=10**9)) == []
    assert parquet.ParquetFile.open(plain).row_groups("i32", 10**9) == [0, 1, 2]


def read_answers(path):
    """Returns one character for each absent key: 1 for "maybe", 0 for "absent", - if no filter was asked."""
    lines = path.read_text().splitlines()
    return "".join(line for line in lines if not line.startswith("#"))


def test_files_of_pyarrow_and_parquet_rs_answer_alike():
    for name in ("pyarrow.parquet", "rs.parquet"):
        file = parquet.ParquetFile.open(GOLDEN / name)
        for i in range(1300):
            number = 5 + 7 * i
            assert i // 1000 in file.row_groups("i64", number) and i // 1000 in file.row_groups("i32", number)
            assert i // 1000 in file.row_groups("bytes", f"k{number:08}".encode())
            assert i // 1000 in file.row_groups("f64", float(number))
        expected = read_answers(GOLDEN / f"{name.split('.')[0]}-rg0-i64.absent.txt")
        for j in range(0, 10_000, 11):
            number = 5 + 7 * (j * 1000 // 10_000) + 1 + j % 6
            assert (0 in file.row_groups("i64", number)) == (expected[j] == "1")


def test_a_filter_that_the_footer_contradicts_denies_nothing(filtered, tmp_path):
    data, path = bytearray(filtered.read_bytes()), tmp_path / "file"
    chunks = parquet.check(filtered, ["i64"])
    good = parquet.ParquetFile.open(filtered)
    assert good.unusable_filters == 0 and good.row_groups("i64", -1) == []
    offset, length = chunks[0]["offset"], chunks[0]["len_bytes"]
    for changed in (struct.pack("<BBB", 0x15, 0x80, 0x01), bytes(length - 16)):
        start = offset if len(changed) == 3 else offset + 16
        path.write_bytes(bytes(data[:start]) + changed + bytes(data[start + len(changed) :]))
        file = parquet.ParquetFile.open(path)
        assert file.unusable_filters == 1 and file.row_groups("i64", -1) == [0]
        assert all(0 in file.row_groups("i64", i * 10**12) for i in range(GROUP))
        with pytest.raises(filterblock.Error):
            parquet.add(path, tmp_path / "new", ["i64"])
        assert not (tmp_path / "new").exists()
        assert len(parquet.add(path, tmp_path / "new", ["i64"], replace=True)) == 3
        assert parquet.ParquetFile.open(tmp_path / "new").unusable_filters == 0
        os.remove(tmp_path / "new")


def test_outputs_are_complete_or_absent(plain, tmp_path):
    out = tmp_path / "out"
    out.write_text("mine")
    with pytest.raises(FileExistsError):
        parquet.add(plain, out, ["i64"])
    assert out.read_text() == "mine"
    for arguments in ({"columns": ["no"]}, {"columns": ["bool"]}, {"columns": ["i64"], "error_rate": 2.0}):
        with pytest.raises(ValueError):
            parquet.add(plain, tmp_path / "new", **arguments)
    with pytest.raises(FileNotFoundError):
        parquet.add(tmp_path / "no", tmp_path / "new", ["i64"])
    assert os.listdir(tmp_path) == ["out"]
    assert len(parquet.add(plain, out, ["i64", "i64"], overwrite=True)) == 3
    assert parquet.add(out, tmp_path / "same", ["i64"]) == []
    assert (tmp_path / "same").read_bytes() == out.read_bytes()
    assert (
        len(parquet.add(out, tmp_path / "again", ["i64"], replace=True, bits_per_value=20, exact_size=True))
        == 3
    )


def test_damage_raises_with_field_and_offset(filtered, tmp_path):
    data, damaged = filtered.read_bytes(), tmp_path / "damaged"
    offset = parquet.check(filtered, ["i64"])[0]["offset"]
    changed = bytearray(data)
    changed[offset] ^= 0xFF
    damaged.write_bytes(changed)
    file = parquet.ParquetFile.open(damaged)
    assert file.row_groups("i64", -1)[:1] == [0]  # a filter that cannot be read never denies a value
    with pytest.raises(DamagedError) as raised:
        file.verify()
    assert 0 <= raised.value.offset - offset < 32 and raised.value.path == damaged
    assert parquet.check(damaged, ["i64"])[0]["state"] == "damaged"
    changed = bytearray(data)
    changed[offset + 20 : offset + 2000] = bytes(1980)
    damaged.write_bytes(changed)
    assert parquet.check(damaged, ["i64"], values=True)[0]["false_negatives"] > 0
    for wrong in (data[:-1], data[:100], b"", b"PAR1" * 5):
        damaged.write_bytes(wrong)
        for call in (
            parquet.ParquetFile.open,
            parquet.check,
            lambda path: parquet.add(path, tmp_path / "new", ["i64"]),
        ):
            with pytest.raises((filterblock.Error, OSError)):
                call(damaged)
    assert os.listdir(tmp_path) == ["damaged"]


@pytest.mark.skipif(os.name != "posix", reason="the other systems lock no files")
def test_a_file_that_another_process_locked_or_replaced_is_not_replaced(plain, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    path = tmp_path / "a.parquet"
    path.write_bytes(plain.read_bytes())
    block = filterblock.Filter.build([1, 2, 3])
    before = path.read_bytes()
    with path.open("rb") as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        for write in (
            lambda: parquet.add(path, columns=["i64"], in_place=True),
            lambda: parquet.add(plain, path, ["i64"], overwrite=True),
            lambda: block.save(path, overwrite=True),
        ):
            with pytest.raises(OSError, match="has locked this file"):
                write()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.parquet"]
    # In place, the old file is read and replaced.
    assert parquet.add(path, columns=["i64"], in_place=True)
    assert path.read_bytes().startswith(before[:-1000])
    assert os.listdir(tmp_path) == ["a.parquet"]


def test_checksum_files_of_hadoop_follow_the_file(plain, tmp_path):
    def checksums(content):
        parts = [content[at : at + 512] for at in range(0, len(content), 512)]
        return b"crc\0" + struct.pack(">I", 512) + b"".join(struct.pack(">I", zlib.crc32(p)) for p in parts)

    path, sums = tmp_path / "a.parquet", tmp_path / ".a.parquet.crc"
    path.write_bytes(plain.read_bytes())
    sums.write_bytes(checksums(path.read_bytes()))
    parquet.add(path, columns=["i64"], in_place=True)
    assert sums.read_bytes() == checksums(path.read_bytes())
    filterblock.Filter.build([1]).save(path, overwrite=True)
    assert sums.read_bytes() == checksums(path.read_bytes())
    sums.write_bytes(checksums(b"other"))
    before = path.read_bytes()
    with pytest.raises(OSError, match="checksum"):
        filterblock.Filter.build([2]).save(path)
    assert path.read_bytes() == before


def test_a_text_or_bytes_of_numpy_keeps_its_nuls(tmp_path):
    path, out = tmp_path / "a.parquet", tmp_path / "b.parquet"
    table = pa.table({"s": ["a\0", "\0"], "b": [b"a\0", b"\0"], "u": pa.array([b"u" * 16] * 2, pa.uuid())})
    pq.write_table(table, path)
    parquet.add(path, out, ["s", "b", "u"], error_rate=1e-6)
    file = parquet.ParquetFile.open(out)

    class Own(uuid.UUID):
        pass

    class Content(bytearray):
        def __bytes__(self):
            return b"other"

    for column, value in (
        ("s", np.str_("a\0")),
        ("s", np.str_("\0")),
        ("s", np.bytes_(b"a\0")),
        ("b", np.bytes_(b"a\0")),
        ("b", np.bytes_(b"\0")),
        ("b", np.void(b"a\0")),
        ("b", Content(b"a\0")),
        ("u", uuid.UUID(bytes=b"u" * 16)),
        ("u", Own(bytes=b"u" * 16)),
    ):
        assert file.row_groups(column, value) == [0], (column, value)
    assert file.row_groups("s", np.str_("a")) == [] == file.row_groups("b", np.bytes_(b"a"))


def test_a_rate_that_is_no_number_is_refused(filtered):
    for rates in ({"max_error_rate": float("nan")}, {"max_error_rate": -1.0}, {"error_rate": float("nan")}):
        with pytest.raises(ValueError, match="rate"):
            parquet.check(filtered, **rates)
