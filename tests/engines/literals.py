"""Writes values as literals of each engine's queries."""


def duckdb(kind, value):
    match kind:
        case "string" | "json":
            return f"'{value}'"
        case "binary" | "fixed":
            return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
        case "uuid":
            return f"'{value.hex()}'::UUID"
        case "date":
            return f"DATE '{value}'"
        case "time_ms" | "time_us":
            return f"TIME '{value}'"
        case "timestamp_utc" | "timestamp_ms_utc":
            return f"TIMESTAMPTZ '{value}'"
        case "timestamp_ns" | "int96":
            return f"TIMESTAMP_NS '{value}'"
        case "timestamp_ms" | "timestamp_us":
            return f"TIMESTAMP '{value}'"
        case "float32" | "float64" | "float16":
            return f"{value!r}::{'DOUBLE' if kind == 'float64' else 'FLOAT'}".replace("np.float16", "")
    return str(value)


def datafusion(kind, value):
    match kind:
        case "string" | "json":
            return f"'{value}'"
        case "binary":
            return f"X'{value.hex()}'"
        case "fixed" | "uuid":
            return f"arrow_cast(X'{value.hex()}', 'FixedSizeBinary(16)')"
        case "date":
            return f"DATE '{value}'"
        case "time_ms":
            return f"arrow_cast('{value}', 'Time32(Millisecond)')"
        case "time_us":
            return f"arrow_cast('{value}', 'Time64(Microsecond)')"
        case "timestamp_utc" | "timestamp_ms_utc":
            return f"TIMESTAMP '{value.isoformat()}'"
        case "timestamp_ms" | "timestamp_us" | "timestamp_ns" | "int96":
            return f"TIMESTAMP '{value}'"
        case "float16" | "float32" | "float64":
            return f"arrow_cast({float(value)}, 'Float{kind[-2:]}')"
        case "decimal_fixed2" | "decimal_int32_short":
            return f"arrow_cast('{value}', 'Decimal128(4, 2)')"
        case "decimal_fixed4" | "decimal_int32":
            return f"arrow_cast('{value}', 'Decimal128(9, 2)')"
        case "decimal_fixed8" | "decimal_int64":
            return f"arrow_cast('{value}', 'Decimal128(18, 2)')"
        case "decimal_fixed16":
            return f"arrow_cast('{value}', 'Decimal128(38, 2)')"
    return str(value)


def clickhouse(kind, value):
    match kind:
        case "string" | "json":
            return f"'{value}'"
        case "binary" | "fixed":
            return f"unhex('{value.hex()}')"
        case "uuid":
            digits = value.hex()
            parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
            return f"toUUID('{'-'.join(parts)}')"
        case "date":
            return f"toDate32('{value}')"
        case "timestamp_ms" | "timestamp_us" | "timestamp_ns" | "timestamp_utc" | "timestamp_ms_utc" | "int96":
            digits = {"timestamp_ms": 3, "timestamp_ms_utc": 3, "timestamp_ns": 9, "int96": 9}.get(kind, 6)
            return f"toDateTime64('{value.replace(tzinfo=None)}', {digits}, 'UTC')"
        case "time_ms" | "time_us":
            return f"toTime64('{value}', {3 if kind == 'time_ms' else 6})"
        case "decimal_fixed2" | "decimal_int32_short" | "decimal_fixed4" | "decimal_int32":
            return f"toDecimal32('{value}', 2)"
        case "decimal_fixed8" | "decimal_int64":
            return f"toDecimal64('{value}', 2)"
        case "decimal_fixed16":
            return f"toDecimal128('{value}', 2)"
        case "float16" | "float32":
            return f"toFloat32({float(value)})"
    return repr(value) if kind == "float64" else str(value)


def hyparquet(kind, value):
    match kind:
        case "string" | "json":
            return {"kind": "string", "text": value}
        case "binary" | "fixed":
            return {"kind": "bytes", "text": value.hex()}
        case "uuid":
            digits = value.hex()
            parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
            return {"kind": "string", "text": "-".join(parts)}
        case "int64" | "uint64" | "nested":
            return {"kind": "bigint", "text": str(value)}
        case "time_ms" | "time_us":
            seconds = (value.hour * 60 + value.minute) * 60 + value.second
            is_short = kind == "time_ms"
            return {"kind": "number" if is_short else "bigint", "text": str(seconds * (1000 if is_short else 10**6))}
        case "date" | "timestamp_ms" | "timestamp_us" | "timestamp_ns" | "timestamp_utc" | "timestamp_ms_utc" | "int96":
            text = value.isoformat().removesuffix("+00:00")
            return {"kind": "date", "text": text if kind == "date" else text + "Z"}
    return {"kind": "number", "text": str(value)}


def none(kind, value):
    return ""


WRITERS = {"duckdb": duckdb, "datafusion": datafusion, "clickhouse": clickhouse, "hyparquet": hyparquet}


def literal(engine, kind, value):
    return WRITERS.get(engine, none)(kind, value)
