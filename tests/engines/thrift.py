"""Parses and encodes Thrift's compact protocol, the encoding of Parquet's metadata.

A struct is a dict from field number to (type, value). A Boolean has the type 1 and a Python bool. A list is a pair
of the type of its elements and a Python list.
"""

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, num):
        self.at += num
        return self.data[self.at - num : self.at]

    def unsigned(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def int(self):
        value = self.unsigned()
        return value >> 1 ^ -(value & 1)

    def value(self, kind):
        match kind:
            case 1 | 2:
                return self.take(1)[0] == 1
            case 3:
                return self.take(1)
            case 4 | 5 | 6:
                return self.int()
            case 7:
                return self.take(8)
            case 8:
                return self.take(self.unsigned())
            case 9 | 10:
                head = self.take(1)[0]
                num = head >> 4 if head >> 4 < 15 else self.unsigned()
                return head & 15, [self.value(head & 15) for _ in range(num)]
            case 12:
                return self.struct()
        raise ValueError(f"the type {kind} is not supported")

    def struct(self):
        fields, number = {}, 0
        while head := self.take(1)[0]:
            kind = head & 15
            number = number + (head >> 4) if head >> 4 else self.int()
            fields[number] = (1, kind == 1) if kind in (1, 2) else (kind, self.value(kind))
        return fields


def unsigned(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def encode(kind, value):
    match kind:
        case 1 | 2:
            return bytes([1 if value else 2])
        case 3 | 7:
            return value
        case 4 | 5 | 6:
            return unsigned(value << 1 ^ value >> 63)
        case 8:
            return unsigned(len(value)) + value
        case 9 | 10:
            of, items = value
            head = bytes([len(items) << 4 | of]) if len(items) < 15 else bytes([0xF0 | of]) + unsigned(len(items))
            return head + b"".join(encode(of, item) for item in items)
        case 12:
            return struct(value)


def struct(fields):
    out, last = b"", 0
    for number, (kind, value) in sorted(fields.items()):
        kind = (1 if value else 2) if kind in (1, 2) else kind
        step = number - last
        out += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + encode(I16, number)
        out += b"" if kind in (1, 2) else encode(kind, value)
        last = number
    return out + b"\0"


def footer(data):
    size = int.from_bytes(data[-8:-4], "little")
    return Reader(data[-8 - size : -8]).struct()


def with_footer(data, metadata):
    size = int.from_bytes(data[-8:-4], "little")
    new = struct(metadata)
    return data[: -8 - size] + new + len(new).to_bytes(4, "little") + b"PAR1"
