"""Tests containers of keys: each one gives the keys that its items are alone, or it raises.

A container that exports other bytes than its items have would make a filter deny keys. So for each container
of the table, `add_many(container)` and `add(item)` for each item must be the same.
"""

import array
import collections
import ctypes
import datetime
import decimal
import io
import mmap
import pathlib
import subprocess
import sys
import uuid
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from filterblock import Bloom, FileFilter, Filter, key_bytes

ADDRESS = object()


class OwnType(pa.ExtensionType):
    """An extension type whose values are not the integers of its storage."""

    def __init__(self, storage=None):
        super().__init__(storage or pa.int64(), "tests.own")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls(storage)


def own(values):
    return pa.ExtensionArray.from_storage(OwnType(), pa.array(values))


def uuids(count):
    storage = pa.array([bytes([number]) * 16 for number in range(count)], pa.binary(16))
    return pa.ExtensionArray.from_storage(pa.uuid(), storage)


class Upper(np.ndarray):
    """A subclass of the arrays of NumPy that returns other items than its buffer has."""

    def __getitem__(self, index):
        found = super().__getitem__(index)
        return found.upper() if isinstance(found, str) else found


class Doubled(array.array):
    """A subclass of `array.array` that returns other items than its buffer has."""

    def __iter__(self):
        return (2 * number for number in super().__iter__())


class UpperSeries(pd.Series):
    """A subclass of the series of pandas that returns other items than it exports."""

    def __iter__(self):
        return (text.upper() for text in super().__iter__())


class UpperPolars(pl.Series):
    """A subclass of the series of Polars that returns other items than it exports."""

    def __iter__(self):
        return (text.upper() for text in self.to_list())


class RomanType(pd.api.extensions.ExtensionDtype):
    """A dtype whose name begins like the name of integers."""

    type, kind, na_value, name = str, "O", None, "introman"

    @classmethod
    def construct_array_type(cls):
        return Romans


class StructType(RomanType):
    """A dtype whose name begins like the name of texts."""

    name = "structure"


class Romans(pd.api.extensions.ExtensionArray):
    """An array of pandas that exports other values than its items."""

    def __init__(self, values, dtype):
        self.values, self._dtype = np.asarray(values), dtype

    dtype = property(lambda self: self._dtype)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        found = self.values[index]
        return Romans(found, self.dtype) if isinstance(found, np.ndarray) else "I" * int(found)

    def copy(self):
        return Romans(self.values.copy(), self.dtype)

    def __arrow_array__(self, type=None):
        return pa.array(self.values)


class Labelled:
    """Exports Arrow values, and has a dtype whose name is the name of integers."""

    class Category:
        categories = dtype = property(lambda self: self)

        def __str__(self):
            return "category"

    def __init__(self, dtype):
        self.dtype_of = dtype

    dtype = property(lambda self: self.dtype_of)

    def __iter__(self):
        return iter(["a", "b"])

    def __arrow_c_array__(self, requested_schema=None):
        return pa.array([1, 2]).__arrow_c_array__()


class Content(bytearray):
    """A `bytearray` with a method for other bytes."""

    def __bytes__(self):
        return b"other"


def misaligned(kind, dtype, values, *data):
    """Returns an Arrow array whose buffer of this dtype begins at an odd address."""
    buffer = pa.py_buffer(b"x" + np.array(values, dtype).tobytes()).slice(1)
    count = len(values) - 1 if data else len(values)
    return pa.Array.from_buffers(kind, count, [None, buffer, *map(pa.py_buffer, data)])


def dictionary(kind, *indexes):
    return pa.DictionaryArray.from_arrays(pa.array(indexes, kind), pa.array(["a", "b"]), safe=False)


def structured():
    values = np.zeros(4, dtype=[("a", "u1"), ("b", ">i4"), ("c", "U3"), ("d", "S3")])
    values["b"], values["c"], values["d"] = range(4), ["", "a", "b ", "c\0d"], [b"", b"a", b"b ", b"c\0d"]
    return values


def memory_map(dtype):
    values = np.memmap(io.FileIO("values", "w+"), dtype=dtype, shape=(3,))
    values[:] = [1, 2, 3]
    return values


def chunks(*values):
    return pa.chunked_array([pa.array(part, pa.string()) for part in values])


def numpy_strings(values, **options):
    return np.array(values, dtype=np.dtypes.StringDType(**options))


def ctypes_array(kind, *values):
    return (kind * len(values))(*values)


TEXTS = ["a", "", "käse ", "a\0b", "😀", "a longer text than twelve bytes"]
INTS = [0, 1, -1, 127, -128]
PADDED = ["a  ", "b", " ", "", "c\t"]

# Each container gives the keys that its items are.
READ: dict = {
    # NumPy
    "numpy chararray of texts": lambda: np.char.array(PADDED),
    "numpy chararray of bytes": lambda: np.char.array([text.encode() for text in PADDED]),
    "numpy chararray of one key": lambda: np.char.array(["abc  "])[:1],
    "numpy chararray, every second": lambda: np.char.array(PADDED)[::2],
    "numpy subclass": lambda: np.array(["a", "b"]).view(Upper),
    "numpy recarray of integers": lambda: np.array(INTS).view(np.recarray),
    "numpy memmap": lambda: memory_map("i4"),
    "numpy memmap, swapped": lambda: memory_map(">u2"),
    "numpy memmap, backwards": lambda: memory_map("i8")[::-1],
    "numpy texts": lambda: np.array(TEXTS),
    "numpy texts, swapped": lambda: np.array(TEXTS, ">U31"),
    "numpy bytes": lambda: np.array([text.encode() for text in TEXTS]),
    "numpy void": lambda: np.array([b"ab\0", b"\0\0\0"], "S3").view("V3"),
    "numpy objects": lambda: np.array([1, "a", b"a\0", np.int8(3), np.str_("ä"), True], dtype=object),
    "numpy objects, every second": lambda: np.array([1, 0.5, b"a\0"], dtype=object)[::2],
    "numpy strings": lambda: numpy_strings(TEXTS),
    "numpy strings, backwards": lambda: numpy_strings(TEXTS)[::-1],
    "numpy strings with a text for missing ones": lambda: numpy_strings(["a", "?"], na_object="?"),
    "numpy field of integers": lambda: structured()["b"],
    "numpy field of texts": lambda: structured()["c"],
    "numpy field of bytes, backwards": lambda: structured()["d"][::-1],
    "numpy field of a recarray": lambda: structured().view(np.recarray).b,
    "numpy broadcast": lambda: np.broadcast_to(np.uint32(2**32 - 1), 3),
    "numpy column": lambda: np.arange(12, dtype=">i2").reshape(3, 4)[:, 1],
    "numpy diagonal": lambda: np.arange(9).reshape(3, 3).diagonal(),
    "numpy view of times": lambda: np.array(["2020-01-01", "NaT"], "M8[s]").view("i8"),
    "numpy real parts": lambda: np.arange(3)[::-1].real,
    "numpy truth values": lambda: np.array([True, False])[::-1],
    "numpy default without keys": lambda: np.array([]),
    "numpy half floats without keys": lambda: np.array([], "f2"),
    "numpy short floats without keys": lambda: np.array([], ">f4"),
    "numpy empty texts": lambda: np.zeros(2, "U0"),
    "numpy empty bytes": lambda: np.zeros(2, "S0"),
    # The standard library
    "bytearrays with other bytes": lambda: [Content(b"ab"), Content(b"")],
    "array of characters": lambda: array.array("u", "a\0ä😀"),
    "array of NULs": lambda: array.array("u", "\0\0"),
    "array subclass": lambda: Doubled("q", [1, 2]),
    "array subclass of bytes": lambda: Doubled("B", [1, 2]),
    "memoryview of integers": lambda: memoryview(array.array("h", [1, -2]))[::-1],
    "memoryview cast": lambda: memoryview(bytes(range(16))).cast("Q"),
    "memoryview of truth values": lambda: memoryview(b"\1\0\2").cast("?"),
    "range": lambda: range(-5, 300, 7),
    "range backwards": lambda: range(5)[::-1],
    "deque": lambda: collections.deque(["a", 1]),
    "keys of a dict": lambda: {"a": 1, 2: "b"}.keys(),
    "values of a dict": lambda: {"a": 1, 2: "b"}.values(),
    # ctypes
    "ctypes signed bytes": lambda: ctypes_array(ctypes.c_byte, 1, -1),
    "ctypes bytes": lambda: ctypes_array(ctypes.c_ubyte, 1, 255),
    "ctypes integers": lambda: ctypes_array(ctypes.c_int, 1, -2, 3),
    "ctypes long integers": lambda: ctypes_array(ctypes.c_ulonglong, 1, 2**64 - 1),
    "ctypes big-endian integers": lambda: ctypes_array(ctypes.c_int.__ctype_be__, 1, -2),
    "ctypes truth values": lambda: ctypes_array(ctypes.c_bool, True, False),
    "ctypes characters": lambda: ctypes_array(ctypes.c_wchar, "a", "\0", "ä"),
    "ctypes pointers to texts": lambda: ctypes_array(ctypes.c_char_p, b"ab", b""),
    "ctypes objects": lambda: ctypes_array(ctypes.py_object, "a", 1, b"b"),
    "ctypes without keys": lambda: (ctypes.c_int * 0)(),
    "view of ctypes integers": lambda: memoryview(ctypes_array(ctypes.c_int, 1, -2)),
    # Polars
    "polars objects": lambda: pl.Series(["a", b"b", 3], dtype=pl.Object),
    "polars slice of objects": lambda: pl.Series(["a", b"b", 3], dtype=pl.Object)[1:],
    "polars integers of 128 bits": lambda: pl.Series([1, -1, 2**63], dtype=pl.Int128),
    "polars unsigned integers of 128 bits": lambda: pl.Series([1, 2**64 - 1], dtype=pl.UInt128),
    "polars integers": lambda: pl.Series(INTS, dtype=pl.Int16),
    "polars chunks": lambda: pl.concat([pl.Series(INTS), pl.Series([5])], rechunk=False)[2:],
    "polars texts": lambda: pl.Series(TEXTS)[1:],
    "polars bytes": lambda: pl.Series([text.encode() for text in TEXTS]),
    "polars categories": lambda: pl.Series(["a", "b", "a"], dtype=pl.Categorical),
    "polars enum": lambda: pl.Series(["a", "b", "a"], dtype=pl.Enum(["b", "c", "a"])),
    "polars truth values": lambda: pl.Series([True, False] * 5)[3:],
    "polars subclass": lambda: UpperPolars(["a", "b"]),
    "polars short floats without keys": lambda: pl.Series([], dtype=pl.Float32),
    "polars without keys": lambda: pl.Series([]),
    # pandas
    "pandas mixed objects": lambda: pd.Series([1, "a", b"c", np.int8(4), True]),
    "pandas index of mixed objects": lambda: pd.Index([1, "a", b"c"]),
    "pandas large integers as objects": lambda: pd.Series([-1, 2**63], dtype=object),
    "pandas mixed categories": lambda: pd.Series(pd.Categorical([1, "a", 1])),
    "pandas categories": lambda: pd.Series(["a", "b", "a"], dtype="category")[1:],
    "pandas categories of integers": lambda: pd.Series([5, 7, 5], dtype="category"),
    "pandas categories of truth values": lambda: pd.Series([True, False], dtype="category"),
    "pandas categorical": lambda: pd.Categorical(["a", "b", "a"]),
    "pandas sparse": lambda: pd.Series(pd.arrays.SparseArray([1, 0, 0, 2])),
    "pandas nullable integers": lambda: pd.Series([1, -2], dtype="Int8"),
    "pandas nullable truth values": lambda: pd.Series([True, False], dtype="boolean"),
    "pandas array": lambda: pd.array([1, 2]),
    "pandas texts": lambda: pd.Series(TEXTS, dtype="str")[::-2],
    "pandas texts of Python": lambda: pd.Series(TEXTS, dtype="string[python]"),
    "pandas texts of Arrow": lambda: pd.Series(TEXTS, dtype="string[pyarrow]"),
    "pandas Arrow bytes": lambda: pd.Series([b"a\0", b""], dtype=pd.ArrowDtype(pa.binary())),
    "pandas Arrow dictionary": lambda: pd.Series(
        ["a", "b"], dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))
    ),
    "pandas Arrow integers": lambda: pd.Series(INTS, dtype="int16[pyarrow]"),
    "pandas Arrow view": lambda: pd.Series(TEXTS, dtype=pd.ArrowDtype(pa.string_view())),
    "pandas index": lambda: pd.Index(INTS)[::2],
    "pandas index of a range": lambda: pd.RangeIndex(5, 50, 3),
    "pandas series with an index": lambda: pd.Series([1, 2], index=["x", "y"]),
    "pandas subclass": lambda: UpperSeries(["a", "b"]),
    "pandas dtype named like integers": lambda: pd.Series(Romans([1, 2, 3], RomanType())),
    "pandas dtype named like texts": lambda: pd.Series(Romans([1, 2, 3], StructType())),
    "pandas without keys": lambda: pd.Series([]),
    "pandas floats without keys": lambda: pd.Series([], dtype=float),
    # Arrow
    "export with a dtype of a name": lambda: Labelled("int64"),
    "export with a dtype that holds itself": lambda: Labelled(Labelled.Category()),
    "arrow misaligned integers": lambda: misaligned(pa.int64(), "i8", [1, -2, 3]),
    "arrow misaligned short integers": lambda: misaligned(pa.uint16(), "u2", [1, 2]),
    "arrow misaligned indexes": lambda: pa.DictionaryArray.from_arrays(
        misaligned(pa.int32(), "i4", [1, 0]), pa.array(["a", "b"])
    ),
    "arrow indexes of 64 bits": lambda: dictionary(pa.uint64(), 1, 0, 1),
    "arrow short floats without keys": lambda: pa.array([], pa.float32()),
    "arrow half floats without keys": lambda: pa.array([], pa.float16()),
    "arrow slice": lambda: pa.array(TEXTS).slice(1, 3),
    "arrow chunks": lambda: chunks(TEXTS, [], ["b"]).slice(2),
    "arrow truth values": lambda: pa.array([True, False] * 20).slice(9),
    "arrow dictionary": lambda: pa.array(TEXTS).dictionary_encode().slice(1),
    "arrow chunks of dictionaries": lambda: pa.chunked_array(
        [pa.array(["a", "b"]).dictionary_encode(), pa.array(["b", "c"]).dictionary_encode()]
    ),
    "arrow views of texts": lambda: pa.array(TEXTS, pa.string_view()).slice(2),
    "arrow views of bytes": lambda: pa.array([text.encode() for text in TEXTS], pa.binary_view()),
    "arrow bytes of one width": lambda: pa.array([b"ab\0", b"\0\0\0", b"abc"], pa.binary(3)).slice(1),
    "arrow without nulls in a slice": lambda: pa.array(["a", None, "b"]).slice(2),
    "arrow without keys": lambda: pa.array([]),
    "arrow chunks without keys": lambda: pa.chunked_array([], pa.float64()),
}

# Arrow arrays that are not valid.
INVALID: dict = {
    "misaligned offsets of texts": lambda: misaligned(pa.string(), "i4", [0, 1, 2], b"ab"),
    "misaligned offsets of long texts": lambda: misaligned(pa.large_string(), "i8", [0, 1, 2], b"ab"),
    "misaligned offsets of bytes": lambda: misaligned(pa.binary(), "i4", [0, 1, 2], b"ab"),
    "misaligned offsets of long bytes": lambda: misaligned(pa.large_binary(), "i8", [0, 1, 2], b"ab"),
    "misaligned offsets in chunks": lambda: pa.chunked_array(
        [pa.array(["a"]), misaligned(pa.string(), "i4", [0, 1, 2], b"ab")]
    ),
    "misaligned offsets of values": lambda: pa.DictionaryArray.from_arrays(
        pa.array([0, 1]), misaligned(pa.string(), "i4", [0, 1, 2], b"ab")
    ),
    "an index above the values": lambda: dictionary(pa.int8(), 0, 2),
    "a large index": lambda: dictionary(pa.int64(), 2**40),
    "a negative index": lambda: dictionary(pa.int32(), -1),
    "the largest index": lambda: dictionary(pa.uint64(), 2**64 - 1),
    "an index without values": lambda: pa.DictionaryArray.from_arrays(
        pa.array([0], pa.int8()), pa.array([], pa.string()), safe=False
    ),
}

# Containers whose items are not keys.
REFUSED: dict = {
    "numpy masked": lambda: np.ma.array([1, 2], mask=[0, 1]),
    "numpy masked without a mask": lambda: np.ma.array(["a", "b"]),
    "numpy masked records": lambda: np.ma.array([(1, 2)], dtype="i4,i4"),
    "numpy records": structured,
    "numpy recarray": lambda: structured().view(np.recarray),
    "numpy one value": lambda: np.array(5),
    "numpy text": lambda: np.array("abc"),
    "numpy scalar": lambda: np.int64(5),
    "numpy void scalar": lambda: np.void(b"abc"),
    "numpy matrix": lambda: np.matrix([1, 2]),
    "numpy times": lambda: np.array(["2020-01-01", "NaT"], "M8[us]"),
    "numpy durations": lambda: np.array([1, 2], "m8[D]"),
    "numpy half floats": lambda: np.ones(2, "f2"),
    "numpy floats": lambda: np.ones(2),
    "numpy long floats": lambda: np.ones(2, "g"),
    "numpy complex": lambda: np.ones(2, "c16"),
    "numpy missing strings": lambda: numpy_strings(["a", None], na_object=None),
    "numpy missing strings as nan": lambda: numpy_strings(["a", np.nan], na_object=np.nan),
    "numpy objects with times": lambda: np.array(["a", np.datetime64("2020")], dtype=object),
    "numpy objects with addresses": lambda: np.array(["a", ADDRESS], dtype=object),
    "numpy arrays in objects": lambda: np.array([np.arange(2), None], dtype=object)[:1],
    "array of floats": lambda: array.array("d", [1.0]),
    "array of short floats": lambda: array.array("f", [1.0]),
    "bytes": lambda: b"abc",
    "bytearray": lambda: bytearray(b"abc"),
    "mmap": lambda: mmap.mmap(-1, 16),
    # CPython 3.12.1 crashes if the garbage collection finds the buffer of a BytesIO.
    "memoryview of bytearray": lambda: memoryview(bytearray(b"abc")),
    "memoryview of bytes": lambda: memoryview(b"abc"),
    "memoryview of characters": lambda: memoryview(array.array("u", "a\0")),
    "memoryview of padded texts": lambda: memoryview(np.array(["ab", "c"])),
    "memoryview of padded bytes": lambda: memoryview(np.array([b"ab", b"c"])),
    "memoryview of void": lambda: memoryview(np.zeros(2, "V3")),
    "memoryview of floats": lambda: memoryview(array.array("d", [1.0])),
    "memoryview of a masked array": lambda: memoryview(np.ma.array([1, 2], mask=[0, 1])),
    "memoryview of one value": lambda: memoryview(np.array(5)),
    "memoryview of a table": lambda: memoryview(bytes(4)).cast("B", (2, 2)),
    "ctypes bytes of C": lambda: ctypes.create_string_buffer(b"abc"),
    "ctypes floats": lambda: ctypes_array(ctypes.c_double, 1.0),
    "ctypes table": lambda: (ctypes.c_int * 2 * 2)(),
    "ctypes value": lambda: ctypes.c_int(5),
    "ctypes pointers": lambda: ctypes_array(ctypes.POINTER(ctypes.c_int), ctypes.pointer(ctypes.c_int(1))),
    "polars objects that are no keys": lambda: pl.Series(["a", ADDRESS], dtype=pl.Object),
    "polars missing objects": lambda: pl.Series(["a", None], dtype=pl.Object),
    "polars half floats": lambda: pl.Series([1.0], dtype=pl.Float16),
    "polars floats": lambda: pl.Series([1.0]),
    "polars decimals": lambda: pl.Series([decimal.Decimal(1)]),
    "polars dates": lambda: pl.Series([datetime.date(2020, 1, 1)]),
    "polars times": lambda: pl.Series([datetime.time(1)]),
    "polars durations": lambda: pl.Series([datetime.timedelta(1)]),
    "polars lists": lambda: pl.Series([[1]]),
    "polars arrays": lambda: pl.Series([[1]], dtype=pl.Array(pl.Int8, 1)),
    "polars records": lambda: pl.Series([{"a": 1}]),
    "polars nulls": lambda: pl.Series([None]),
    "polars frame": lambda: pl.DataFrame({"a": [1]}),
    "polars frame of objects": lambda: pl.DataFrame({"a": pl.Series(["a"], dtype=pl.Object)}),
    "pandas objects that are no keys": lambda: pd.Series(["a", ADDRESS]),
    "pandas unique ids": lambda: pd.Series([uuid.UUID(int=1)]),
    "pandas periods": lambda: pd.Series(pd.period_range("2020", periods=2, freq="Y")),
    "pandas categories of periods": lambda: pd.Series(
        pd.Categorical(pd.period_range("2020", periods=2, freq="Y"))
    ),
    "pandas categories of times": lambda: pd.Series(pd.Categorical(pd.to_datetime(["2020-01-01"]))),
    "pandas categories of floats": lambda: pd.Series([0.5, 1.5], dtype="category"),
    "pandas missing categories": lambda: pd.Series(["a", None], dtype="category"),
    "pandas intervals": lambda: pd.Series(pd.interval_range(0, 2)),
    "pandas bins": lambda: pd.cut(pd.Series([1, 2, 3]), 2),
    "pandas times": lambda: pd.Series(pd.to_datetime(["2020-01-01"])),
    "pandas times with a zone": lambda: pd.Series(pd.to_datetime(["2020-01-01"]).tz_localize("UTC")),
    "pandas durations": lambda: pd.Series([pd.Timedelta(1)]),
    "pandas complex": lambda: pd.Series([1j]),
    "pandas floats": lambda: pd.Series([1.0, None]),
    "pandas half floats": lambda: pd.Series([1], dtype="f2"),
    "pandas nullable floats": lambda: pd.Series([1.0], dtype="Float64"),
    "pandas missing integers": lambda: pd.Series([1, None], dtype="Int64"),
    "pandas sparse floats": lambda: pd.Series(pd.arrays.SparseArray([1.0])),
    "pandas Arrow decimals": lambda: pd.Series(
        [decimal.Decimal(1)], dtype=pd.ArrowDtype(pa.decimal128(5, 1))
    ),
    "pandas Arrow unique ids": lambda: pd.Series([b"0" * 16], dtype=pd.ArrowDtype(pa.uuid())),
    "pandas Arrow lists": lambda: pd.Series([[1]], dtype=pd.ArrowDtype(pa.list_(pa.int8()))),
    "pandas index of tuples": lambda: pd.MultiIndex.from_tuples([(1, 2)]),
    "pandas index of times": lambda: pd.date_range("2020", periods=2),
    "pandas frame": lambda: pd.DataFrame({"a": [1]}),
    "pandas frame with a column dtype": lambda: pd.DataFrame({"dtype": [1], "shape": [2]}),
    "arrow dictionary of an extension type": lambda: pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 0]), own([5, 6])
    ),
    "arrow dictionary of unique ids": lambda: pa.DictionaryArray.from_arrays(pa.array([0, 1]), uuids(2)),
    "arrow chunks of such dictionaries": lambda: pa.chunked_array(
        [pa.DictionaryArray.from_arrays(pa.array([0, 1]), uuids(2))]
    ),
    "arrow extension type": lambda: own([5]),
    "arrow extension type of a dictionary": lambda: pa.ExtensionArray.from_storage(
        OwnType(pa.dictionary(pa.int8(), pa.string())), pa.array(["a"], pa.dictionary(pa.int8(), pa.string()))
    ),
    "arrow short truth values": lambda: pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1], pa.int8())),
    "arrow json": lambda: pa.array(["1"], pa.json_()),
    "arrow half floats": lambda: pa.array([1.0], pa.float16()),
    "arrow floats": lambda: pa.array([1.0]),
    "arrow decimals": lambda: pa.array([decimal.Decimal(1)], pa.decimal32(5, 1)),
    "arrow large decimals": lambda: pa.array([decimal.Decimal(1)], pa.decimal256(50, 1)),
    "arrow run ends": lambda: pa.RunEndEncodedArray.from_arrays([2], ["a"]),
    "arrow lists": lambda: pa.array([[1]]),
    "arrow views of lists": lambda: pa.array([[1]], pa.list_view(pa.int8())),
    "arrow lists of one length": lambda: pa.array([[1]], pa.list_(pa.int8(), 1)),
    "arrow records": lambda: pa.array([{"a": 1}]),
    "arrow maps": lambda: pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
    "arrow dense union": lambda: pa.UnionArray.from_dense(
        pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array(["a"])]
    ),
    "arrow sparse union": lambda: pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array(["a"])]),
    "arrow months": lambda: pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    "arrow nulls": lambda: pa.nulls(2),
    "arrow null among texts": lambda: pa.array(["a", None]),
    "arrow null in a later chunk": lambda: chunks(["a"], ["b", None]),
    "arrow null in a dictionary": lambda: pa.DictionaryArray.from_arrays(
        pa.array([0, 1]), pa.array(["a", None])
    ),
    "arrow misaligned offsets of lists": lambda: pa.ListArray.from_arrays(
        misaligned(pa.int32(), "i4", [0, 1]), pa.array([1])
    ),
    "arrow null among indexes": lambda: dictionary(pa.int8(), 0, None),
    "arrow table": lambda: pa.table({"a": [1]}),
    "arrow buffer": lambda: pa.py_buffer(b"abc"),
    # other objects
    "dict": lambda: {"a": 1},
    "counter": lambda: collections.Counter("a"),
    "path": lambda: pathlib.Path("a"),
    "filter": lambda: Filter(["a"]),
    "bloom": lambda: Bloom(10),
}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def made(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy and pandas announce that some containers will go
        return make()


def items_of(container):
    """Returns the items as values of Python or NumPy."""
    if isinstance(container, memoryview):
        return np.asarray(container).tolist()
    is_arrow = type(container).__module__ == "pyarrow.lib"
    return container.to_pylist() if is_arrow else list(container)


@pytest.mark.parametrize("name", READ)
def test_a_container_gives_the_keys_that_its_items_are(name, tmp_path):
    container = made(READ[name])
    items = items_of(container)
    filters = [Bloom(100), FileFilter(100, 0.01, tmp_path / "file")]
    for many in filters:
        many.update(container)
        assert all(item in many for item in items)
        assert many.contains_many(container).tolist() == [True] * len(items)
    one = Bloom(100)
    for item in items:
        one.add(item)
    assert one.data_array == filters[0].data_array
    assert one.contains_many(container).tolist() == [True] * len(items)
    for spec in ("binary-fuse:16", "bloom:10"):
        built = Filter.build(container, spec)
        assert built.to_bytes() == Filter.build(items, spec).to_bytes()
        assert all(item in built for item in items)


@pytest.mark.parametrize("name", REFUSED)
def test_a_container_of_other_items_raises(name, tmp_path):
    container, filter, bloom = made(REFUSED[name]), Filter.build(["a"]), Bloom(10)
    file = FileFilter(100, 0.01, tmp_path / "file")
    for many in (filter.contains_many, Filter.build, bloom.update, bloom.contains_many, file.update):
        with pytest.raises((TypeError, ValueError)) as raised:
            many(container)
        # An array of other dimensions raises ValueError, everything else raises TypeError.
        assert isinstance(raised.value, TypeError) or "dimension" in str(raised.value)
        assert "pyarrow" not in type(raised.value).__module__ and len(str(raised.value)) > 20
    assert bloom.bit_count == file.bit_count == 0


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_arrow_array_raises_and_adds_nothing(name, tmp_path):
    array, bloom, file = INVALID[name](), Bloom(10), FileFilter(10, 0.1, tmp_path / "file")
    for many in (Filter.build(["a"]).contains_many, Filter.build, bloom.update, file.update):
        with pytest.raises(ValueError, match="Arrow"):
            many(array)
    assert bloom.bit_count == file.bit_count == 0


def test_a_bytearray_is_its_content(tmp_path):
    assert key_bytes(Content(b"ab")) == b"ab" and Content(b"ab") in Filter.build([b"ab"])
    data = Content(Filter.build(["a"]).to_bytes())
    assert "a" in Filter.from_bytes(data)


def test_a_character_of_array_array_that_has_no_utf8_raises():
    with pytest.raises(UnicodeEncodeError):
        Filter.build(array.array("u", "a\ud800"))


@pytest.mark.skipif(sys.version_info < (3, 13), reason="array.array has the type code w since Python 3.13")
def test_an_array_of_ucs4_characters_gives_its_items():
    values = array.array("w", "a\0ä😀")
    assert (
        Filter.build(values, "binary-fuse:16").to_bytes()
        == Filter.build(list(values), "binary-fuse:16").to_bytes()
    )


def test_an_arrow_array_that_was_read_before_raises():
    class Once:
        capsules = pa.array([1, 2]).__arrow_c_array__()

        def __arrow_c_array__(self, requested_schema=None):
            return self.capsules

    class Stream:
        capsule = pa.chunked_array([[1, 2]]).__arrow_c_stream__()

        def __arrow_c_stream__(self, requested_schema=None):
            return self.capsule

    for exporter in (Once(), Stream()):
        assert len(Filter.build(exporter)) == 2
        with pytest.raises(ValueError, match="Arrow"):
            Filter.build(exporter)


def test_width_takes_the_bytes_of_every_container_of_bytes():
    expected = Filter.build([b"ab", b"cd"], "binary-fuse:16").to_bytes()
    mapped = mmap.mmap(-1, 4)
    mapped[:] = b"abcd"
    for data in (
        b"abcd",
        bytearray(b"abcd"),
        memoryview(b"xabcd")[1:],
        array.array("B", b"abcd"),
        np.frombuffer(b"abcd", "i1"),
        (ctypes.c_char * 4)(*b"abcd"),
        (ctypes.c_ubyte * 4)(*b"abcd"),
        pa.py_buffer(b"abcd"),
        mapped,
    ):
        assert Filter.build(data, "binary-fuse:16", width=2).to_bytes() == expected
    for data in (np.ma.array([1, 2], "u1"), np.array(5, "u1"), ctypes.c_ubyte(5)):
        with pytest.raises((TypeError, ValueError)):
            Filter.build(data, width=1)


WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = None  # an import raises ImportError
import pandas as pd
from filterblock import Bloom, Filter

for values in ([1, -1, 2**40], ["a", "b\\u00e4"], [True, False], [1, "a", b"b"], []):
    is_text = values and all(isinstance(value, str) for value in values)
    for dtype in (None, object, "category", "string[python]") if is_text else (None, object):
        series = pd.Series(values, dtype=dtype)
        for keys in (series, series[::-1], pd.Index(series), series.array):
            bloom = Bloom(10)
            bloom.update(keys)
            assert all(value in bloom for value in values) and bloom.contains_many(keys).all()
assert len(Filter.build(pd.Series([1, 2], dtype="Int64"))) == 2
times, frame = pd.Series(pd.to_datetime(["2020-01-01"])), pd.DataFrame({"a": [1], "dtype": [2]})
for wrong in (pd.Series([1.5]), times, frame):
    try:
        Filter.build(wrong)
    except (TypeError, ImportError):
        continue
    raise AssertionError(wrong)
print("done")
"""


def test_pandas_works_without_pyarrow():
    done = subprocess.run([sys.executable, "-c", WITHOUT_PYARROW], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("done\n", "")
