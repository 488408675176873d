"""Defines the types of the tested columns, with present values and absent values between them."""

import datetime as dt
import decimal
import uuid
from dataclasses import dataclass
from typing import Callable

import numpy as np
import pyarrow as pa

GROUPS = 8
ROWS = 2000
EPOCH = dt.datetime(2001, 1, 1)


@dataclass
class Kind:
    """A type. `value` turns an integer from 0 to 2 * size into a value. Only even integers occur in files."""

    name: str
    arrow: pa.DataType
    size: int
    value: Callable[[int], object]
    path: tuple = ()

    def column(self):
        return self.path or (self.name,)

    def scalar(self, value):
        return pa.scalar(value, storage(self.arrow))


def storage(arrow):
    return arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow


def scattered(i, num_bytes):
    """Returns bytes that look random. Their order does not follow `i`."""
    return np.random.default_rng(i).bytes(num_bytes)


def integers(bits, is_signed):
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if is_signed else (0, 2**bits)
    size = min(2**30, (high - low) // 2 - 1)
    step = (high - low) // (2 * size + 2)
    name = ("int" if is_signed else "uint") + str(bits)
    return Kind(name, getattr(pa, name)(), size, lambda i: low + i * step)


def decimals(name, arrow, factor, size=10**6):
    scaled = lambda i: decimal.Decimal(i * factor).scaleb(-2)
    return Kind(name, arrow, size, scaled)


def times(name, arrow, zone=None):
    start = EPOCH.replace(tzinfo=zone)
    return Kind(name, arrow, 10**6, lambda i: start + dt.timedelta(seconds=137 * i))


def clock(i):
    return (EPOCH + dt.timedelta(seconds=i)).time()


UTC = dt.timezone.utc
KINDS = [
    *(integers(bits, is_signed) for is_signed in (True, False) for bits in (8, 16, 32, 64)),
    Kind("float32", pa.float32(), 2**20, lambda i: i / 4 - 1000),
    Kind("float64", pa.float64(), 2**30, lambda i: i / 7 - 1000),
    Kind("string", pa.string(), 2**30, lambda i: scattered(i, 8).hex()),
    Kind("binary", pa.binary(), 2**30, lambda i: scattered(i, 12)),
    Kind("fixed", pa.binary(16), 2**30, lambda i: scattered(i, 16)),
    Kind("uuid", pa.uuid(), 2**30, lambda i: uuid.UUID(bytes=scattered(i, 16)).bytes),
    Kind("date", pa.date32(), 15000, lambda i: EPOCH.date() + dt.timedelta(days=i)),
    Kind("time_ms", pa.time32("ms"), 40000, clock),
    Kind("time_us", pa.time64("us"), 40000, clock),
    Kind("json", pa.json_(), 2**30, lambda i: f'{{"a": "{scattered(i, 6).hex()}"}}'),
    times("timestamp_ms", pa.timestamp("ms")),
    times("timestamp_us", pa.timestamp("us")),
    times("timestamp_ns", pa.timestamp("ns")),
    times("timestamp_ms_utc", pa.timestamp("ms", tz="UTC"), UTC),
    times("timestamp_utc", pa.timestamp("us", tz="UTC"), UTC),
    decimals("decimal_fixed2", pa.decimal128(4, 2), 1, 4000),
    decimals("decimal_fixed4", pa.decimal128(9, 2), 1),
    decimals("decimal_fixed8", pa.decimal128(18, 2), 10**9 + 7),
    decimals("decimal_fixed16", pa.decimal128(38, 2), 10**17 + 7),
]
# Decimals that are stored as integers, and the deprecated type of 96 bits, need other options of the writer.
INTEGER_DECIMALS = [
    decimals("decimal_int32_short", pa.decimal128(4, 2), 1, 4000),
    decimals("decimal_int32", pa.decimal128(9, 2), 1),
    decimals("decimal_int64", pa.decimal128(18, 2), 10**9 + 7),
]
INT96 = [times("int96", pa.timestamp("ns"))]
NESTED = Kind("nested", pa.int64(), 2**30, lambda i: i * 3, ("place", "code"))


class Sample:
    """Random values of a kind for each row group. The lowest and the highest value occur in every group."""

    def __init__(self, kind, rows=ROWS, groups=GROUPS):
        rng = np.random.default_rng(len(kind.name) + kind.size)
        self.kind = kind
        draw = min(rows, max(8, kind.size // 3))
        picks = [rng.integers(1, kind.size - 1, draw) * 2 for _ in range(groups)]
        ordered = sorted((kind.value(int(i)), int(i)) for pick in picks for i in pick)
        extremes = [ordered[0][1], ordered[-1][1]]
        self.groups = [self.fill(pick, extremes, rows, rng) for pick in picks]
        self.low, self.high = ordered[0][0], ordered[-1][0]
        # This value occurs in the middle group, and in few other groups.
        middle = self.groups[groups // 2]
        self.present = next(v for v in middle if v is not None and self.low < v < self.high)
        self.absent = self.find_absent(rng)

    def fill(self, pick, extremes, rows, rng):
        numbers = np.concatenate([extremes, pick, rng.choice(pick, rows)])[:rows]
        rng.shuffle(numbers)
        values = [self.kind.value(int(i)) for i in numbers]
        # Every twentieth row is null, except for rows with the lowest or the highest value.
        return [None if n % 20 == 7 and i not in extremes else v for n, (i, v) in enumerate(zip(numbers, values))]

    def find_absent(self, rng):
        found = []
        while len(found) < 3:
            value = self.kind.value(int(rng.integers(1, self.kind.size - 1)) * 2 + 1)
            if self.low < value < self.high:
                found.append(value)
        return found

    def array(self):
        values = pa.array([value for group in self.groups for value in group], storage(self.kind.arrow))
        if isinstance(self.kind.arrow, pa.BaseExtensionType):
            values = pa.ExtensionArray.from_storage(self.kind.arrow, values)
        return values

    def count(self, value):
        return [sum(v == value for v in group) for group in self.groups]
