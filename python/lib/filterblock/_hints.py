"""Says what to type instead of the names that users of other packages know."""

from __future__ import annotations

from typing import NoReturn

from ._filterblock import Bloom, FileFilter, Filter

_COMBINE = {
    # Other packages do not agree whether these change the left filter.
    "union": "left | right is a new filter, and left |= right changes left",
    "intersection": "left & right is a new filter, and left &= right changes left",
}
_COMBINE_FILES = {
    "union": "left |= right changes left; make left.copy(filename) first to keep it",
    "intersection": "left &= right changes left; make left.copy(filename) first to keep it",
}
_ORDER = "to ask whether all bits of a are set in b: (a & b) == a"
_IN_MEMORY = "a Bloom is in memory; for a filter in a file: FileFilter(capacity, error_rate, filename)"
CLASSES: dict[type, dict[str, str]] = {
    Bloom: {
        **_COMBINE,
        "intersection_update": "left &= right, with a Bloom made of the keys first",
        "issubset": _ORDER,
        "issuperset": _ORDER,
        "save": "freeze().save(path) writes a Filter, and pickle.dump(bloom, file) a Bloom",
        "load": "Filter.open(path) opens a saved filter, and pickle.load(file) reads a Bloom",
        "save_bytes": "bytes(bloom.freeze()) or pickle.dumps(bloom)",
        "load_bytes": "Filter.from_bytes(data) or pickle.loads(data)",
        "approx_items": "len(bloom)",
        "approx_len": "len(bloom)",
        "size_in_bits": "num_bits",
        "hash_func": "filterblock.key_bytes(key) returns the bytes that are hashed",
        "clear_all": "clear()",
        "contains": "key in bloom, or contains_many(keys)",
        "remove": "a Bloom filter cannot remove keys; make a new one of the other keys",
        "discard": "a Bloom filter cannot remove keys; make a new one of the other keys",
        "bit_array": "data_array",
        "open": _IN_MEMORY,
        "sync": _IN_MEMORY,
        "close": _IN_MEMORY,
        "filename": _IN_MEMORY,
        "name": _IN_MEMORY,
        "to_base64": _IN_MEMORY,
        "from_base64": _IN_MEMORY,
    },
    FileFilter: {
        **_COMBINE_FILES,
        "name": "filename",
        "bit_array": "data_array",
        "save": "sync() makes the added keys durable, and copy(filename) writes another file",
        "load": "FileFilter.open(filename)",
        "fileno": "open(filter.filename, 'rb').fileno()",
    },
    Filter: {
        "load": "Filter.open(path)",
        "load_bytes": "Filter.from_bytes(data)",
        "save_bytes": "to_bytes()",
        "union": "left | right is a new filter",
        "copy": "a Filter does not change, so it needs no copy",
        "clear": "a Filter does not change; build a new one with Filter(keys)",
        "contains": "key in filter, or contains_many(keys)",
        "intersection": "a Filter of the keys that both have cannot be made; ask both filters",
    },
}
MODULE = {
    "BloomFilter": "Bloom(capacity, error_rate), or in a file FileFilter(capacity, error_rate, filename)",
    "open": "Filter.open(path), FileFilter.open(filename) or index.open(path)",
    "load": "Filter.open(path)",
}


class _Hint:
    """Raises AttributeError with a hint. So `hasattr` is False, and completion shows no such name."""

    def __init__(self, name: str, hint: str) -> None:
        self.name, self.hint = name, hint

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__} has no {self.name}: {self.hint}")


for _class, _names in CLASSES.items():
    for _name, _hint in _names.items():
        setattr(_class, _name, _Hint(_name, _hint))
