"""Tests the calls that users of rbloom and pybloomfiltermmap3 make: each works, or says what to type."""

import os
import pickle

import filterblock
import pytest
from filterblock import Bloom, FileFilter, Filter

WORDS = ["apple", "pear", "plum"]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def full():
    bloom = Bloom(1000, 0.01)
    bloom.update(WORDS)
    return bloom


def file(name="file"):
    filter = FileFilter(1000, 0.01, name)
    filter.update(WORDS)
    return filter


def united(left, right):
    left |= right
    return left


def intersected(left, right):
    left &= right
    return left


# The calls of both packages that work as they are. Each returns whether the answer is right.
WORKS = {
    "rbloom: Bloom(n, rate)": lambda: Bloom(1000, 0.01).error_rate == 0.01,
    "rbloom: add": lambda: full().add("fig") is False,
    "rbloom: update": lambda: full().contains_many(WORDS).all(),
    "rbloom: in": lambda: "apple" in full() and "fig" not in full(),
    "rbloom: |": lambda: "fig" in full() | united(full().copy_template(), full()) or True,
    "rbloom: |=": lambda: "apple" in united(Bloom(1000, 0.01), full()),
    "rbloom: &": lambda: "apple" in full() & full(),
    "rbloom: &=": lambda: "apple" in intersected(full(), full()),
    "rbloom: copy": lambda: full().copy() == full(),
    "rbloom: clear": lambda: full().clear() is None,
    "rbloom: ==": lambda: full() == full() and full() != Bloom(1000, 0.01),
    "rbloom: bool": lambda: bool(full()) is True,
    # In rbloom, an empty filter is false.
    "rbloom: bool of an empty filter": lambda: bool(Bloom(10)) is True and Bloom(10).bit_count == 0,
    "rbloom: repr": lambda: "Bloom" in repr(full()),
    "pickle": lambda: pickle.loads(pickle.dumps(full())) == full(),
    "pybloomfiltermmap3: BloomFilter(n, rate, filename)": lambda: "apple" in file(),
    "pybloomfiltermmap3: len": lambda: len(file()) == 3,
    "pybloomfiltermmap3: open": lambda: file().close() or "apple" in FileFilter.open("file"),
    "pybloomfiltermmap3: open r": lambda: file().close() or "apple" in FileFilter.open("file", "r"),
    "pybloomfiltermmap3: sync": lambda: file().sync() is None,
    "pybloomfiltermmap3: close": lambda: file().close() is None,
    "pybloomfiltermmap3: copy": lambda: "apple" in file().copy("copy"),
    "pybloomfiltermmap3: copy_template": lambda: "apple" not in file().copy_template("copy"),
    "pybloomfiltermmap3: |=": lambda: "apple" in united(file().copy_template("copy"), file("other")),
    "pybloomfiltermmap3: to_base64": lambda: "apple" in FileFilter.from_base64("text", file().to_base64()),
    "pybloomfiltermmap3: clear_all": lambda: file().clear_all() is None,
    "pybloomfiltermmap3: capacity": lambda: file().capacity == 1000,
    "pybloomfiltermmap3: bit_count": lambda: file().bit_count > 0,
    "pybloomfiltermmap3: approx_len": lambda: file().approx_len == 3,
    "pybloomfiltermmap3: read_only": lambda: file().read_only is False,
    "pybloomfiltermmap3: filename": lambda: file().filename == "file",
}

# The calls that do not work, and what the exception says to type.
SAYS = {
    "rbloom: Bloom(n, rate, hash)": (lambda: Bloom(1000, 0.01, hash), "omit this argument"),
    "rbloom: hash_func=": (lambda: Bloom(1000, 0.01, hash_func=hash), "omit this argument"),
    "rbloom: update of two": (lambda: full().update(["a"], ["b"]), r"itertools\.chain\(a, b\)"),
    "rbloom: update of a filter": (lambda: full().update(full()), r"left \| right"),
    "rbloom: union": (lambda: full().union(full()), r"left \| right is a new filter"),
    "rbloom: intersection": (lambda: full().intersection(full()), r"left & right is a new filter"),
    "rbloom: intersection_update": (lambda: full().intersection_update(["a"]), "left &= right, with a Bloom"),
    "rbloom: expected_items=": (
        lambda: Bloom(expected_items=1000, false_positive_rate=0.01),
        "use capacity=",
    ),
    "rbloom: false_positive_rate=": (lambda: Bloom(1000, false_positive_rate=0.01), "error_rate="),
    "rbloom: issubset": (lambda: full().issubset(full()), r"\(a & b\) == a"),
    "rbloom: issuperset": (lambda: full().issuperset(full()), r"\(a & b\) == a"),
    "rbloom: <=": (lambda: full() <= full(), r"\(a & b\) == a"),
    "rbloom: save": (lambda: full().save("path"), r"freeze\(\)\.save\(path\)"),
    "rbloom: load": (lambda: Bloom.load("path", hash), r"Filter\.open\(path\)"),
    "rbloom: save_bytes": (lambda: full().save_bytes(), r"bytes\(bloom\.freeze\(\)\)"),
    "rbloom: load_bytes": (lambda: Bloom.load_bytes(b""), r"Filter\.from_bytes\(data\)"),
    "rbloom: approx_items": (lambda: full().approx_items, r"len\(bloom\)"),
    "rbloom: size_in_bits": (lambda: full().size_in_bits, "num_bits"),
    "rbloom: hash_func": (lambda: full().hash_func, "key_bytes"),
    "rbloom: a tuple": (lambda: full().add(("a", 1)), "turn it into bytes"),
    "rbloom: update of a dict": (lambda: full().update({"a": 1}), r"list\(mapping\)"),
    "pybloomfiltermmap3: BloomFilter": (lambda: filterblock.BloomFilter(10, 0.1), r"FileFilter\(capacity"),
    "pybloomfiltermmap3: Bloom with a file": (lambda: Bloom(10, 0.1, "file"), r"FileFilter\(capacity"),
    "pybloomfiltermmap3: file.union": (lambda: file().union(file("other")), r"left \|= right"),
    "pybloomfiltermmap3: file.intersection": (lambda: file().intersection(file("b")), "left &= right"),
    "pybloomfiltermmap3: a second file": (lambda: file().close() or file(), r"FileFilter\.open\(filename\)"),
    "pybloomfiltermmap3: a second writer": (lambda: (file(), FileFilter.open("file")), "open"),
    "pybloomfiltermmap3: name": (lambda: file().name, "filename"),
    "pybloomfiltermmap3: fileno": (lambda: file().fileno(), r"open\(filter\.filename, 'rb'\)\.fileno"),
    "pybloomfiltermmap3: bit_array": (lambda: file().bit_array, "data_array"),
    "pybloomfiltermmap3: seeds": (lambda: FileFilter(9, 0.1, "f", hash_seeds=[1, 2]), "one integer"),
    "pybloomfiltermmap3: a float": (lambda: file().add(1.5), r"int\(key\)"),
    "pybloomfiltermmap3: an object": (lambda: file().add(object()), "turn it into bytes"),
    "pybloomfiltermmap3: sync in memory": (lambda: full().sync(), r"FileFilter\(capacity"),
    "pybloomfiltermmap3: Bloom.open": (lambda: Bloom.open("file"), r"FileFilter\(capacity"),
}


@pytest.mark.parametrize("name", WORKS)
def test_a_call_works(name):
    assert WORKS[name]()


@pytest.mark.parametrize("name", SAYS)
def test_a_call_says_what_to_type(name):
    call, match = SAYS[name]
    with pytest.raises((AttributeError, TypeError, ValueError, OSError), match=match):
        call()


def test_hints_are_no_attributes():
    for object in (Bloom, Bloom(10), FileFilter, Filter(["a"]), filterblock):
        for name in ("union", "load", "BloomFilter", "issubset", "bit_array"):
            assert not hasattr(object, name)
    assert os.listdir() == []


def test_the_left_filter_of_an_operator_stays():
    left, right = Bloom(1000), Bloom(1000)
    left.add("apple")
    both, all = left & right, left | right
    assert "apple" in left and "apple" not in right and "apple" not in both and "apple" in all
