"""Asks filters for values with a second implementation: XXH64 and split blocks in numpy.

It reads the physical values with pyarrow and shares no code with the command.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

SALT = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)
JULIAN_DAY_OF_1970 = 2440588
NANOS_OF_DAY = 86400 * 10**9


class FilterBits:
    """The bits of one filter in a file."""

    def __init__(self, file, offset, length):
        file.seek(offset)
        data = file.read(length)
        self.num_bytes, header_len = parse_header(data)
        if header_len + self.num_bytes != length:
            raise ValueError(f"the filter at {offset} has {self.num_bytes} bits and {length} bytes")
        self.words = np.frombuffer(data[header_len:], "<u4").reshape(-1, 8)

    def may_contain(self, hashes):
        blocks = ((hashes >> np.uint64(32)) * np.uint64(len(self.words))) >> np.uint64(32)
        low = (hashes & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        masks = np.uint32(1) << ((low[:, None] * SALT[None, :]) >> np.uint32(27))
        return ((self.words[blocks.astype(np.int64)] & masks) == masks).all(axis=1)


def parse_header(data):
    """Returns the length of the bits and the length of the header, both in bytes.

    The header is in the compact Thrift protocol: field 1 is an i32, and the fields 2 to 4 are unions of
    empty structs.
    """
    if data[0] != 0x15:
        raise ValueError("the header has no length")
    value, shift, at = 0, 0, 1
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            break
    union = bytes([0x1C, 0x1C, 0x00, 0x00])
    if data[at : at + 13] != union * 3 + b"\0":
        raise ValueError("the header has other fields")
    return value >> 1, at + 13


def hash_all(values):
    return np.fromiter((xxhash.xxh64_intdigest(value) for value in values), np.uint64)


def to_int96(nanos):
    days, rest = divmod(int(nanos), NANOS_OF_DAY)
    return rest.to_bytes(8, "little") + (days + JULIAN_DAY_OF_1970).to_bytes(4, "little")


def plain(array, physical, width):
    """Returns the distinct values of a leaf column in the plain encoding."""
    views = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    array = array.cast(views.get(array.type, array.type)).drop_null()
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if physical == "INT96":
        return {to_int96(n) for n in array.cast(pa.timestamp("ns")).cast(pa.int64()).to_pylist()}
    if pa.types.is_decimal(array.type):
        unscaled = (int(value.scaleb(array.type.scale)) for value in array.to_pylist())
        if physical in ("INT32", "INT64"):
            size = 4 if physical == "INT32" else 8
            return {number.to_bytes(size, "little", signed=True) for number in unscaled}
        return {number.to_bytes(width, "big", signed=True) for number in unscaled}
    if physical == "BYTE_ARRAY" or physical == "FIXED_LEN_BYTE_ARRAY" and not pa.types.is_float16(array.type):
        return set(array.cast(pa.large_binary() if physical == "BYTE_ARRAY" else array.type).to_pylist())
    return set(fixed_bytes(array, physical))


def fixed_bytes(array, physical):
    if physical in ("INT32", "INT64"):
        is_unsigned = pa.types.is_unsigned_integer(array.type)
        numbers = array if pa.types.is_integer(array.type) else as_integers(array)
        wide = numbers.to_numpy(zero_copy_only=False)
        number = {"INT32": "u4" if is_unsigned else "i4", "INT64": "u8" if is_unsigned else "i8"}[physical]
        data = wide.astype("<" + number)
    else:
        data = array.to_numpy(zero_copy_only=False)
    raw, size = data.tobytes(), data.dtype.itemsize
    return (raw[i : i + size] for i in range(0, len(raw), size))


def as_integers(array):
    is_short = pa.types.is_date32(array.type) or pa.types.is_time32(array.type)
    return array.cast(pa.int32()).cast(pa.int64()) if is_short else array.cast(pa.int64())


def flatten(array):
    """Yields the leaf arrays below a column, in the order of the schema."""
    kind = array.type
    if pa.types.is_struct(kind):
        for field in array.flatten():
            yield from flatten(field)
    elif pa.types.is_map(kind):
        yield from flatten(array.keys)
        yield from flatten(array.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from flatten(array.flatten())
    else:
        yield array


def leaves_of(table):
    for column in table.columns:
        chunk = column.combine_chunks()
        chunks = chunk.chunks if isinstance(chunk, pa.ChunkedArray) else [chunk]
        parts = [list(flatten(part)) for part in chunks]
        for leaf in zip(*parts):
            yield pa.concat_arrays(leaf)




def denied_values(path):
    """Asks every filter of a file for every value of its chunk. Returns the numbers of denied values and of all."""
    # Without the stored Arrow schema, the columns have the types of the file.
    reader = pq.ParquetFile(path, coerce_int96_timestamp_unit="ns")
    schema, denied, asked = reader.schema, 0, 0
    with open(path, "rb") as file:
        for group in range(reader.num_row_groups):
            metadata = reader.metadata.row_group(group)
            for leaf, array in enumerate(leaves_of(reader.read_row_group(group))):
                chunk, column = metadata.column(leaf), schema.column(leaf)
                if chunk.bloom_filter_offset is None:
                    continue
                values = plain(array, chunk.physical_type, column.length)
                bits = FilterBits(file, chunk.bloom_filter_offset, chunk.bloom_filter_length)
                answers = bits.may_contain(hash_all(values))
                denied, asked = denied + int((~answers).sum()), asked + len(answers)
    return denied, asked
