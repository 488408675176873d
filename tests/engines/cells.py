"""Defines a column for each physical type, logical type and width of Parquet, and writes it with pyarrow.

pyarrow writes the physical values. The annotation of the column is then set in the footer, so that columns exist which
no writer of these tests writes, such as decimals in byte arrays.
"""

import math
import random
import struct
import uuid
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import thrift
from thrift import BYTE, I32, STRUCT, TRUE

DAY = 86400
RANDOM = random.Random(5)
UNITS = {"ms": 1, "us": 2, "ns": 3}


@dataclass
class Cell:
    """A column. `logical` and `converted` are fields of the schema element: see `annotate`."""

    name: str
    arrow: pa.DataType
    values: list
    logical: dict
    converted: dict
    is_nested: bool = False
    uses_dictionary: bool = False
    int96: bool = False

    def column(self):
        return ("g", "c") if self.is_nested else ("c",)

    def write(self, path):
        array = pa.array([*self.values, None], self.arrow)
        if self.is_nested:
            array = pa.StructArray.from_arrays([array], names=["c"])
        options = {"use_dictionary": self.uses_dictionary, "use_deprecated_int96_timestamps": self.int96}
        table = pa.table({self.column()[0]: array})
        # Statistics of the physical type would have another order than those of the logical type.
        pq.write_table(table, path, row_group_size=5, store_schema=False, write_statistics=False, **options)
        if self.logical or self.converted:
            data = path.read_bytes()
            metadata = thrift.footer(data)
            element = metadata[2][1][1][-1]
            for field in (6, 10):
                element.pop(field, None)
            element.update({10: (STRUCT, self.logical)} if self.logical else {})
            element.update(self.converted)
            path.write_bytes(thrift.with_footer(data, metadata))


def simple(number):
    return {number: (STRUCT, {})}


def converted(number):
    return {6: (I32, number)}


def edges(low, high, count=6):
    """Returns the ends of a range, numbers around zero, and random numbers."""
    numbers = {0, 1, -1, 42, low, high, *(RANDOM.randint(low, high) for _ in range(count))}
    return sorted(number for number in numbers if low <= number <= high)


def integers():
    for bits in (8, 16, 32, 64):
        for is_signed in (True, False):
            arrow, wide = (pa.int64(), 64) if bits == 64 else (pa.int32(), 32)
            values = edges(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else edges(0, 2**bits - 1)
            values = [value - 2**wide if value >= 2 ** (wide - 1) else value for value in values]
            logical = {10: (STRUCT, {1: (BYTE, bytes([bits])), 2: (TRUE, is_signed)})}
            code = converted({8: 11, 16: 12, 32: 13, 64: 14}[bits] + 4 * is_signed)
            yield Cell(f"{'' if is_signed else 'u'}int{bits}", arrow, values, logical, code)
    yield Cell("INT32", pa.int32(), edges(-(2**31), 2**31 - 1), {}, {})
    yield Cell("INT64", pa.int64(), edges(-(2**63), 2**63 - 1), {}, {})


def decimal(name, arrow, precision, scale, encode, limit=10**80, **options):
    high = min(10**precision - 1, limit)
    logical = {5: (STRUCT, {1: (I32, scale), 2: (I32, precision)})}
    code = converted(5) | {7: (I32, scale), 8: (I32, precision)}
    values = [encode(number) for number in edges(-high, high)]
    return Cell(f"decimal({precision},{scale}) {name}", arrow, values, logical, code, **options)


def minimal(number):
    size = ((number if number >= 0 else ~number).bit_length() + 8) // 8
    return number.to_bytes(size, "big", signed=True)


def decimals():
    same = lambda number: number
    for precision, scale in [(1, 0), (4, 2), (5, 5), (9, 2)]:
        yield decimal("INT32", pa.int32(), precision, scale, same)
    for precision, scale in [(1, 0), (4, 2), (9, 2), (10, 2), (18, 18)]:
        yield decimal("INT64", pa.int64(), precision, scale, same)
    for size in range(1, 33):
        widest = math.floor((8 * size - 1) * math.log10(2))
        encode = lambda number, size=size: number.to_bytes(size, "big", signed=True)
        for precision in sorted({min(9 if size == 16 else 4, widest), min(38, widest), min(39, widest), widest}):
            # Between the widths of integers, one precision of each width is enough.
            if size in (1, 2, 4, 8, 12, 16, 17, 32) or precision == widest:
                yield decimal(f"FIXED({size})", pa.binary(size), precision, size % 3 * (precision > 2), encode)
    for precision, scale in [(1, 0), (9, 2), (18, 2), (38, 2), (39, 0), (76, 2)]:
        yield decimal("BYTE_ARRAY", pa.binary(), precision, scale, minimal)
    padded = lambda number: b"\xff\0"[number >= 0 :][:1] + minimal(number)
    yield decimal("BYTE_ARRAY padded", pa.binary(), 10, 2, padded)
    yield decimal("BYTE_ARRAY", pa.binary(), 39, 2, minimal, is_nested=True)
    yield decimal("INT64", pa.int64(), 17, 2, same, is_nested=True)
    yield decimal("INT64", pa.int64(), 16, 2, same, uses_dictionary=True)


def times():
    seconds = [0, 1, 3600, DAY - 1, *(RANDOM.randrange(DAY) for _ in range(5))]
    instants = [0, 1, -1, 10**9, -(10**9), 2 * 10**9, *(RANDOM.randrange(-(10**9), 10**9) for _ in range(4))]
    for is_utc in (False, True):
        for unit, number in UNITS.items():
            factor, zone = 1000**number, " UTC" if is_utc else ""
            # Some values are whole seconds or microseconds, and others are not.
            parts = [0, 7, min(7000, factor - 1), min(7 * 10**6, factor - 2)]
            spread = lambda all_seconds: sorted(
                second * factor + parts[i % 4] for i, second in enumerate([s for s in all_seconds for _ in (0, 1)])
            )
            params = {1: (TRUE, is_utc), 2: (STRUCT, simple(number))}
            old = number < 3 and is_utc
            arrow = pa.int32() if unit == "ms" else pa.int64()
            code = converted(6 + number) if old else {}
            yield Cell(f"time {unit}{zone}", arrow, spread(seconds), {7: (STRUCT, params)}, code)
            code = converted(8 + number) if old else {}
            yield Cell(f"timestamp {unit}{zone}", pa.int64(), spread(instants), {8: (STRUCT, params)}, code)
    yield Cell("date", pa.int32(), [0, 1, -1, 18000, -25567, 2932896, 47], simple(6), converted(6))
    nanos = [second * 10**9 + part for second in instants for part in (0, 7)]
    yield Cell("INT96", pa.timestamp("ns"), nanos, {}, {}, int96=True)


def floats():
    numbers = [0.0, -0.0, 1.0, -1.5, 0.1, 16777216.0, math.inf, -math.inf, math.nan, 3.0, -42.25]
    yield Cell("FLOAT", pa.float32(), [float(np.float32(number)) for number in numbers], {}, {})
    yield Cell("DOUBLE", pa.float64(), [*numbers, 5e-324, 1e300, 1 / 3], {}, {})
    halves = [np.float16(number).tobytes() for number in [*numbers[:5], *numbers[6:], 65504.0]]
    yield Cell("float16", pa.binary(2), halves, simple(15), {})
    yield Cell("float16 nested", pa.binary(2), halves, simple(15), {}, is_nested=True)


def texts():
    texts = ["", "a", "abc", " a", "a ", "A", "42", "1.50", "true", "2020-01-01", "é", "e\u0301", "x" * 300, "o'k"]
    raw = [text.encode() for text in texts]
    yield Cell("BYTE_ARRAY", pa.binary(), [*raw, b"\xff\xfe", b"a\0b", bytes(16)], {}, {})
    yield Cell("string", pa.binary(), raw, simple(1), converted(0))
    yield Cell("string dictionary", pa.binary(), raw, simple(1), converted(0), uses_dictionary=True)
    yield Cell("string nested", pa.binary(), raw, simple(1), converted(0), is_nested=True)
    yield Cell("enum", pa.binary(), raw, simple(4), converted(4))
    json = ["{}", '{"a":1}', '{"a": 1}', '{ "b":2 , "a":1}', "[1,2]", "1", "1.0", '"x"', "null", '{"a":"\\u00e9"}']
    yield Cell("json", pa.binary(), [text.encode() for text in json], simple(12), converted(19))
    bson = [b"\5\0\0\0\0", b"\x0c\0\0\0\x10a\0\1\0\0\0\0"]
    yield Cell("bson", pa.binary(), bson, simple(13), converted(20))
    point = lambda order, x, y: struct.pack(order + "BIdd", order == "<", 1, x, y)
    points = [point("<", 1, 2), point("<", 0.0, -0.0), point(">", 3, 4), point("<", 5, 6)]
    yield Cell("geometry", pa.binary(), points, simple(17), {})
    yield Cell("geography", pa.binary(), points, simple(18), {})
    for size in (1, 2, 4, 8, 12, 16, 32):
        values = [bytes(size), b"\xff" * size, b"a" * size, b"a" + bytes(size - 1), RANDOM.randbytes(size)]
        yield Cell(f"FIXED({size})", pa.binary(size), values, {}, {})
    ids = [bytes(16), b"\xff" * 16, *(uuid.UUID(int=RANDOM.getrandbits(128)).bytes for _ in range(5))]
    yield Cell("uuid", pa.binary(16), ids, simple(14), {})
    yield Cell("uuid nested", pa.binary(16), ids, simple(14), {}, is_nested=True)
    spans = [(0, 0, 1000), (1, 0, 0), (0, 1, 0), (0, 30, 0), (0, 45, 0), (12, 0, 0), (1, 2, 3), (0, 0, DAY * 1000)]
    yield Cell("interval", pa.binary(12), [struct.pack("<III", *span) for span in spans], {}, converted(21))


CELLS = [*integers(), *decimals(), *times(), *floats(), *texts()]
