"""Tests the bytes of keys for each type in the table of README.md.

A value has the same bytes alone and in an array. A value of another type raises an exception.
"""

import array
import datetime
import decimal
import enum
import fractions
import hashlib
import os
import pathlib
import struct
import subprocess
import sys
import uuid

import filterblock
import numpy as np
import pyarrow as pa
import pytest
from filterblock import Bloom, Filter, key_bytes

INTEGERS = [
    0,
    1,
    -1,
    127,
    -128,
    255,
    256,
    2**31 - 1,
    -(2**31),
    2**32 - 1,
    2**63 - 1,
    -(2**63),
    2**63,
    2**64 - 1,
]


def added(keys):
    """Returns the bytes of a filter of the keys. They are equal for keys with equal bytes."""
    return Filter.build(keys, "binary-fuse:16").to_bytes()


def same(left, right):
    assert added(left) == added(right)


# One key ------------------------------------------------------------------------------------------------


def test_text_is_utf8_and_bytes_are_themselves():
    assert key_bytes("") == b"" and key_bytes("käse\N{SNOWMAN}") == "käse\N{SNOWMAN}".encode()
    assert key_bytes("a\0b") == b"a\0b"
    for made in (bytes, bytearray, memoryview, np.bytes_):
        assert key_bytes(made(b"a\0b")) == b"a\0b"
    assert key_bytes(np.str_("ä")) == "ä".encode()


def test_a_text_with_surrogates_raises():
    for text in ("\ud800", "a\udcff", os.fsdecode(b"\xff")):
        with pytest.raises(UnicodeEncodeError):
            key_bytes(text)
        for filter in (Filter.build(["a"]), Bloom(10)):
            with pytest.raises(UnicodeEncodeError):
                text in filter  # noqa: B015
            with pytest.raises(UnicodeEncodeError):
                filter.contains_many([text])


def test_integers_have_eight_bytes_little_endian():
    for number in INTEGERS:
        assert key_bytes(number) == (number % 2**64).to_bytes(8, "little")


def test_larger_integers_raise():
    for number in (2**64, -(2**63) - 1, 10**30):
        with pytest.raises(OverflowError):
            key_bytes(number)
        with pytest.raises(OverflowError, match="key 1:"):
            Filter.build([1, number])


def test_equal_numbers_have_equal_bytes():
    class Color(enum.IntEnum):
        RED = 1

    class Index:
        def __index__(self):
            return 1

    equal = [1, True, Color.RED, Index(), np.True_, np.array(1)]
    equal += [np.dtype(code).type(1) for code in "bBhHiIlLqQ"]
    assert {key_bytes(key) for key in equal} == {key_bytes(1)}
    assert key_bytes(False) == key_bytes(np.False_) == key_bytes(0)


def test_numpy_integers_have_the_bytes_of_their_value():
    for code in "bBhHiIlLqQ":
        info = np.iinfo(code)
        for number in (info.min, info.max, 0):
            assert key_bytes(np.dtype(code).type(number)) == key_bytes(int(number))


def test_strings_of_other_types_are_their_text():
    class Name(enum.StrEnum):
        A = "a"

    class Own(str):
        __slots__ = ()

    assert key_bytes(Name.A) == key_bytes(Own("a")) == b"a"


REFUSED = [
    None,
    1.0,
    float("nan"),
    np.float64(1),
    np.float32(1),
    np.float16(1),
    1j,
    decimal.Decimal(1),
    fractions.Fraction(1),
    (1, "a"),
    [1],
    {"a"},
    frozenset({"a"}),
    object(),
    datetime.date(2020, 1, 1),
    datetime.datetime(2020, 1, 1),
    np.datetime64("2020-01-01"),
    np.timedelta64(1, "s"),
    uuid.UUID(int=1),
    np.array([1]),
    np.array(1.0),
    np.zeros(1, "i4,f4")[0],
    array.array("q", [1]),
    memoryview(array.array("q", [1])),
    memoryview(np.zeros((2, 2), "u1")),
    memoryview(np.zeros(2)),
    pa.array([1]),
    pa.scalar("a"),
    slice(1),
    int,
    Ellipsis,
]


@pytest.mark.parametrize("key", REFUSED, ids=lambda key: type(key).__name__)
def test_every_other_type_raises_and_is_never_absent(key, tmp_path):
    with filterblock.FileFilter(10, 0.1, tmp_path / "file") as file:
        for filter in (Filter.build(["a"]), Bloom(10), file):
            with pytest.raises(TypeError):
                key in filter  # noqa: B015
            with pytest.raises(TypeError, match="key 1: "):
                filter.contains_many(["a", key])
            if filter is not file:
                continue
            with pytest.raises(TypeError):
                filter.add(key)
            with pytest.raises(TypeError):
                filter.update(["a", key])
            assert len(filter) == 0  # not even the key before it
    with pytest.raises(TypeError, match="key 1: "):
        Filter.build(["a", key])
    with pytest.raises(TypeError):
        key_bytes(key)


def test_a_memoryview_of_bytes_may_have_any_stride():
    view = memoryview(b"abcdef")
    assert key_bytes(view[::2]) == b"ace" and key_bytes(view[::-1]) == b"fedcba"
    assert key_bytes(view.cast("c")) == b"abcdef"


# The same in every process ------------------------------------------------------------------------------

GOLDEN = {
    "": "",
    "a": "61",
    "käse": "6bc3a47365",
    b"\x00\xff": "00ff",
    0: "0000000000000000",
    1: "0100000000000000",
    -1: "ffffffffffffffff",
    258: "0201000000000000",
    2**63 - 1: "ffffffffffffff7f",
    -(2**63): "0000000000000080",
    2**64 - 2: "feffffffffffffff",
}


def digests():
    specs = ["bloom:10", "blocked-bloom:10", "bumped-ribbon:8", "binary-fuse:8"]
    made = [Filter.build(list(GOLDEN), spec, seed=7).to_bytes() for spec in specs]
    return [hashlib.sha256(data).hexdigest() for data in made]


def test_golden_bytes_of_keys():
    assert {key: key_bytes(key).hex() for key in GOLDEN} == GOLDEN


def test_bytes_do_not_depend_on_the_hash_seed_of_a_process():
    code = "import sys; sys.path.insert(0, sys.argv[1]); import test_keys; print(test_keys.digests())"
    for seed in ("0", "1", "random"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code, os.path.dirname(__file__)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == str(digests())


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("bloom", "bloom:10"),
        ("blocked-bloom", "blocked-bloom:10"),
        ("binary-fuse-filled-16", "binary-fuse:16"),
        ("bumped-ribbon", "bumped-ribbon:fpr=0.00390625"),
    ],
)
def test_filters_have_the_bytes_that_rust_writes(name, spec):
    golden = (pathlib.Path(__file__).parents[2] / "tests/golden" / f"v1-{name}-1000.fb").read_bytes()
    keys = [f"key-{number:08}" for number in range(1000)]
    table_id = Filter.from_bytes(golden).inspect()["table_id"]
    for given in (keys, [key.encode() for key in keys], np.array(keys), np.array(keys, "S"), pa.array(keys)):
        assert Filter.build(given, spec, seed=0x0123_4567_89AB_CDEF, table_id=table_id).to_bytes() == golden


# Buffers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", "<>=")
@pytest.mark.parametrize("code", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_numpy_integers_of_every_width_and_byte_order(code, order):
    info = np.iinfo(code)
    numbers = [number for number in INTEGERS if info.min <= number <= info.max]
    values = np.array(numbers, dtype=np.dtype(code).newbyteorder(order))
    same(values, numbers)
    same(list(values), numbers)
    filter = Filter.build(numbers, "binary-fuse:16")
    assert filter.contains_many(values).all()
    assert all(value in filter for value in values)


def test_numpy_arrays_of_any_stride():
    numbers = np.arange(100)
    for view in (
        numbers[::2],
        numbers[::-1],
        numbers[::-3],
        numbers[10:20],
        numbers[:0],
        numbers.reshape(10, 10)[:, 3],
    ):
        same(view, [int(number) for number in view])
    field = np.zeros(5, dtype=[("a", "u1"), ("b", ">i4")])
    field["b"] = range(5)
    same(field["b"], range(5))
    zero_stride = np.broadcast_to(np.int64(7), 5)
    same(zero_stride, [7])
    numbers.flags.writeable = False
    same(numbers, range(100))


def test_numpy_truth_values_are_integers():
    same(np.array([True, False]), [1, 0])
    same(np.array([True, False]), list(np.array([True, False])))


def test_numpy_padded_bytes_are_what_numpy_returns_for_them():
    values = np.array([b"ab", b"a", b"", b"a\0b", b"ab\0"], dtype="S5")
    assert values.tolist() == [b"ab", b"a", b"", b"a\0b", b"ab"]  # NumPy drops the NULs at the end
    same(values, values.tolist())
    same(values, list(values))
    same(values[::2], values[::2].tolist())
    assert Filter.build(values, "binary-fuse:16").contains_many([b"ab", b"a", b"", b"a\0b"]).all()


def test_numpy_void_keeps_all_bytes():
    values = np.array([b"ab\0\0", b"abcd"], dtype="S4").view("V4")
    same(values, [b"ab\0\0", b"abcd"])
    same(list(values), [b"ab\0\0", b"abcd"])


def test_numpy_texts_lose_nuls_at_the_end_as_numpy_says():
    values = np.array(["ab\0", "\0", "a\0b"])
    assert values.tolist() == ["ab", "", "a\0b"]
    same(values, values.tolist())


@pytest.mark.parametrize("order", "<>")
def test_numpy_texts_are_utf8(order):
    values = np.array(["a", "", "käse", "\N{SNOWMAN}", "😀", "a\0b"], dtype=f"{order}U5")
    same(values, values.tolist())
    same(list(values), values.tolist())


def test_numpy_texts_without_utf8_raise():
    for word in (0xD800, 0x110000):
        values = np.array([0x61, word], "u4").view("U1")
        with pytest.raises(UnicodeError, match="key 1:"):
            Filter.build(values)


def test_numpy_strings_of_variable_length_and_objects():
    values = ["a", "käse", "x" * 100]
    same(np.array(values, dtype=np.dtypes.StringDType()), values)
    same(np.array(values + [b"x", 1], dtype=object), values + [b"x", 1])
    missing = np.array(["a", None], dtype=np.dtypes.StringDType(na_object=None))
    for array_ in (missing, np.array(["a", None], dtype=object), np.array([1, 1.5], dtype=object)):
        with pytest.raises(TypeError, match="key 1"):
            Filter.build(array_)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "g", "M8[s]", "m8[s]", "i4,i4"])
def test_numpy_arrays_of_other_types_raise(dtype):
    filter = Filter.build([1])
    for values in (np.zeros(3, dtype), np.zeros(0, dtype)):
        if dtype in ("f2", "f4", "f8") and not len(values):
            continue  # an array of no keys, such as numpy.array([])
        with pytest.raises(TypeError):
            filter.contains_many(values)
        with pytest.raises(TypeError):
            Filter.build(values)


def test_numpy_masked_arrays_raise():
    with pytest.raises(TypeError, match="masked"):
        Filter.build(np.ma.masked_array([1, 2], mask=[0, 1]))


def test_arrays_of_other_dimensions_raise():
    for values in (np.array(5), np.zeros((2, 2), "i8"), np.zeros((2, 2), object)):
        with pytest.raises((ValueError, TypeError), match="dimension"):
            Filter.build(values)


@pytest.mark.parametrize("code", "bBhHiIlLqQ")
def test_arrays_of_the_standard_library(code):
    same(array.array(code, [1, 2, 100]), [1, 2, 100])
    with pytest.raises(TypeError):
        Filter.build(array.array("d", [1.0]))


def test_memoryviews_of_numbers():
    same(memoryview(array.array("i", [1, -2]))[::-1], [-2, 1])
    same(memoryview(b"\x01\x00").cast("?"), [1, 0])
    with pytest.raises(TypeError):
        Filter.build(memoryview(array.array("d", [1.0])))


def test_one_key_is_not_taken_for_many():
    filter = Filter.build(["a"])
    for keys in (
        "abc",
        b"abc",
        bytearray(b"abc"),
        memoryview(b"abc"),
        np.str_("abc"),
        np.bytes_(b"abc"),
        5,
        None,
        1.5,
    ):
        for many in (filter.contains_many, Filter.build, Bloom(10).update):
            with pytest.raises(TypeError):
                many(keys)


def test_bytes_of_keys_of_one_width():
    keys = [struct.pack(">Q", number) for number in range(100)]
    for data in (
        b"".join(keys),
        bytearray(b"".join(keys)),
        memoryview(b"".join(keys)),
        np.frombuffer(b"".join(keys), "u1"),
    ):
        assert Filter.build(data, "binary-fuse:16", width=8).to_bytes() == added(keys)
    for data, width in ((b"abc", 2), (b"abc", 0), (b"abc", 2**62)):
        with pytest.raises(ValueError):
            Filter.build(data, width=width)
    with pytest.raises(TypeError):
        Filter.build(np.zeros(4), width=8)
    with pytest.raises(TypeError):
        Filter.build(np.zeros(4, "u1")[::2], width=2)
    with pytest.raises(TypeError):
        Filter.build([b"ab"], width=2)
    assert len(Filter.build(b"", width=2)) == 0


def test_iterables_of_every_kind():
    keys = ["a", b"b", 3]
    for many in (
        tuple(keys),
        set(keys),
        frozenset(keys),
        iter(keys),
        (key for key in keys),
        dict.fromkeys(keys).keys(),
    ):
        same(many, keys)
    same(range(1000), np.arange(1000))

    class Liar(list):
        def __len__(self):
            return 1

    assert Filter.build(keys).contains_many(Liar(keys)).tolist() == [True] * 3


def test_an_exception_of_an_iterable_passes_through():
    def keys():
        yield "a"
        raise RuntimeError("mine")

    bloom = Bloom(10)
    for many in (Filter.build, bloom.update, bloom.contains_many):
        with pytest.raises(RuntimeError, match="mine"):
            many(keys())
    assert bloom.bit_count == 0


# Arrow --------------------------------------------------------------------------------------------------

ARROW_INTEGERS = [
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
]
TEXTS = ["a", "", "käse", "a longer text than twelve bytes", "a\0b"]
BINARIES = [text.encode() for text in TEXTS]


def variants(array_):
    """Yields the array whole, sliced, chunked, as a sliced column of a table, and empty."""
    yield array_
    yield array_.slice(1, len(array_) - 2)
    yield pa.chunked_array([array_, array_.slice(2), array_.slice(0, 0)])
    yield pa.table({"a": pa.concat_arrays([array_, array_])})["a"].slice(1)
    yield array_.slice(0, 0)


@pytest.mark.parametrize("kind", ARROW_INTEGERS, ids=str)
def test_arrow_integers(kind):
    for values in variants(pa.array([1, 2, 100, 0, 127], kind)):
        same(values, values.to_pylist())
    smallest = -(2 ** (kind.bit_width - 1)) if str(kind).startswith("int") else 0
    largest = smallest + 2**kind.bit_width - 1
    same(pa.array([smallest, largest], kind), [smallest, largest])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_arrow_texts(kind):
    for values in variants(pa.array(TEXTS, kind)):
        same(values, values.to_pylist())


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
def test_arrow_bytes(kind):
    for values in variants(pa.array(BINARIES, kind)):
        same(values, values.to_pylist())


def test_arrow_bytes_of_one_width_and_truth_values():
    for values in variants(pa.array([b"ab\0", b"abc", b"\0\0\0"], pa.binary(3))):
        same(values, values.to_pylist())
    for values in variants(pa.array([True, False, True, True, False] * 5)):
        same(values, values.to_pylist())


@pytest.mark.parametrize("index", [pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64()], ids=str)
@pytest.mark.parametrize(
    "values", [TEXTS, BINARIES, [1, 2, -1, 4, 5], [True, False] * 3], ids=["str", "bytes", "int", "bool"]
)
def test_arrow_dictionaries(index, values):
    indices = pa.array([1, 0, 1, 2 % len(set(values)), 0, 1], index)
    for array_ in variants(pa.DictionaryArray.from_arrays(indices, pa.array(list(dict.fromkeys(values))))):
        same(array_, array_.to_pylist())


def test_arrow_dictionaries_with_unused_nulls():
    values = pa.DictionaryArray.from_arrays(pa.array([2, 0]), pa.array(["a", None, "b"]))
    same(values, ["a", "b"])


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None]),
        pa.array(["a", None]),
        pa.array([True, None]),
        pa.array(["a", None], pa.string_view()),
        pa.array([b"a", None], pa.binary(1)),
        pa.array(["a", None]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None])),
        pa.chunked_array([["a"], [None]]),
    ],
    ids=lambda values: str(values.type),
)
def test_arrow_nulls_raise(values):
    filter = Filter.build(["a"])
    for many in (filter.contains_many, Filter.build, Bloom(10).update):
        with pytest.raises(TypeError, match="key 1: a null"):
            many(values)
    same(values.slice(0, 1), values.slice(0, 1).to_pylist())  # the null is outside of the slice


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.0]),
        pa.array([1.0], pa.float16()),
        pa.array([None]),
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([datetime.date(2020, 1, 1)]),
        pa.array([datetime.datetime(2020, 1, 1)]),
        pa.array([decimal.Decimal(1)]),
        pa.array([datetime.timedelta(1)]),
        pa.array([1.0]).dictionary_encode(),
        pa.RunEndEncodedArray.from_arrays([2], ["a"]),
        pa.table({"a": [1]}),
        pa.record_batch({"a": [1]}),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))),
    ],
    ids=lambda values: str(getattr(values, "type", type(values).__name__)),
)
def test_other_arrow_types_raise(values):
    filter = Filter.build(["a"])
    for many in (filter.contains_many, Filter.build, Bloom(10).update):
        with pytest.raises(TypeError):
            many(values)


def test_arrow_storage_of_an_extension_type():
    values = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16)))
    same(values.storage, [b"0" * 16])


def test_a_stream_that_fails_raises():
    def batches():
        yield pa.record_batch({"a": [1]})
        raise RuntimeError("mine")

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            raise RuntimeError("mine")

    class Nothing:
        def __arrow_c_array__(self, requested_schema=None):
            return 5

    with pytest.raises(RuntimeError, match="mine"):
        Filter.build(Stream())
    with pytest.raises(TypeError):
        Filter.build(Nothing())
    with pytest.raises(TypeError):
        Filter.build(pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches()))


def test_arrays_of_every_length_are_answered_in_order():
    present = Filter.build(range(0, 10_000, 3), "binary-fuse:16")
    for length in [0, 1, 2, 1023, 1024, 1025, 2048, 5000]:
        numbers = np.arange(length)
        expected = [number in present for number in numbers.tolist()]
        for keys in (
            numbers,
            numbers.tolist(),
            pa.array(numbers),
            numbers.astype(">i4"),
            (int(n) for n in numbers),
        ):
            answers = present.contains_many(keys)
            assert answers.dtype == np.bool_ and answers.shape == (length,) and answers.flags.writeable
            assert answers.tolist() == expected
            assert all(expected[::3])


# Other libraries ----------------------------------------------------------------------------------------


def test_series_of_polars():
    import polars

    same(polars.Series(["a", "käse"]), ["a", "käse"])
    same(polars.Series([1, -1, 2**40]), [1, -1, 2**40])
    same(polars.Series(["a", "b", "a"], dtype=polars.Categorical), ["a", "b"])
    same(polars.Series([b"a\0"]), [b"a\0"])
    same(polars.Series([True, False]), [1, 0])
    for values in (
        polars.Series([1.0]),
        polars.Series([1, None]),
        polars.Series([datetime.date(2020, 1, 1)]),
    ):
        with pytest.raises(TypeError):
            Filter.build(values)
    with pytest.raises(TypeError):
        Filter.build(polars.DataFrame({"a": [1]}))


def test_series_of_pandas():
    import pandas

    same(pandas.Series([1, -1, 2**40]), [1, -1, 2**40])
    same(pandas.Series([True, False]), [1, 0])
    same(pandas.Index(["a", "b"]), ["a", "b"])
    for dtype in (object, "str", "category", "string"):
        same(pandas.Series(["a", "käse", "a"], dtype=dtype), ["a", "käse"])
    same(pandas.Series([1, 2], dtype="Int64"), [1, 2])
    same(pandas.Series([1, 2, 3])[::-2], [3, 1])
    missing = [pandas.Series(["a", None], dtype=dtype) for dtype in (object, "str", "string", "category")]
    missing += [pandas.Series([1, None]), pandas.Series([1, None], dtype="Int64")]
    for values in [*missing, pandas.Series([1.0]), pandas.Series(pandas.to_datetime(["2020-01-01"]))]:
        with pytest.raises(TypeError):
            Filter.build(values)
