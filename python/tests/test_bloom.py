"""Tests the class `Bloom`: Bloom filters in memory."""

import copy
import pickle

import numpy as np
import pytest
from filterblock import Bloom, Filter

KEYS = [f"key-{number}" for number in range(2000)]


def full():
    bloom = Bloom(2000, 0.01)
    bloom.update(KEYS)
    return bloom


def test_keys_are_added_one_by_one_and_many():
    one, many = Bloom(2000, 0.01), full()
    assert [one.add(key) for key in KEYS[:10]] == [False] * 10 and one.add(KEYS[0]) is True
    one.update(KEYS[10:])
    assert one.data_array == many.data_array and all(key in one for key in KEYS)
    assert one.contains_many(KEYS).all() and one.contains_many(np.arange(10_000)).mean() < 0.03
    assert (one.capacity, one.error_rate, one.hash_seeds) == (2000, 0.01, [0])
    assert 1900 < len(one) < 2100 and one.num_bits == 8 * len(one.data_array)
    assert one.bit_count == int.from_bytes(one.data_array, "little").bit_count() > 0
    assert 0.005 < one.expected_error_rate < 0.015


def test_a_frozen_filter_gives_the_same_answers(tmp_path):
    bloom = full()
    frozen = bloom.freeze()
    frozen.save(tmp_path / "filter")
    numbers = np.arange(20_000)
    for filter in (frozen, Filter.open(tmp_path / "filter")):
        assert filter.contains_many(KEYS).all()
        assert (filter.contains_many(numbers) == bloom.contains_many(numbers)).all()
    bloom.clear()
    assert bloom.freeze().kind == "empty" and bloom.data_array == bytes(bloom.num_bits // 8)


def test_copies_and_pickles_are_equal_and_apart():
    bloom = full()
    bloom.add("x" * 1000)
    for other in (bloom.copy(), pickle.loads(pickle.dumps(bloom)), copy.deepcopy(bloom)):
        assert other.data_array == bloom.data_array and repr(other) == repr(bloom)
        assert (other.capacity, other.error_rate, other.hash_seeds) == (2000, 0.01, [0])
        other.clear()
        assert "key-1" not in other and "key-1" in bloom and len(other) == 0 and other
    template = bloom.copy_template()
    assert (
        template.bit_count == 0
        and (template.__ior__(bloom) is template)
        and template.data_array == bloom.data_array
    )


def test_damaged_pickles_raise():
    make, arguments = full().__reduce__()
    for at in range(0, len(arguments[0]), 7):
        data = bytearray(arguments[0])
        data[at] ^= 4
        with pytest.raises(ValueError):
            make(bytes(data), *arguments[1:])


def test_set_algebra():
    left, right = Bloom(3000, 0.001, seed=5), Bloom(3000, 0.001, seed=5)
    left.update(range(2000))
    right.update(range(1000, 3000))
    union, both = left | right, left & right
    assert union.contains_many(range(3000)).all() and both.contains_many(range(1000, 2000)).all()
    assert not both.contains_many(range(0, 1000)).all()
    assert left.compare(right)["intersection"] == pytest.approx(1000, abs=150)
    same = left
    left |= right
    assert left is same and left.data_array == union.data_array
    left &= left
    assert left.data_array == union.data_array
    for other in (Bloom(3000, 0.001), Bloom(4000, 0.001, seed=5), Bloom(3000, 0.01, seed=5)):
        for combine in (left.__ior__, left.__iand__, left.__or__, left.__and__, left.compare):
            with pytest.raises(ValueError):
                combine(other)
    with pytest.raises(TypeError):
        left | Filter.build([])


def test_invalid_arguments_raise_value_errors():
    for capacity, rate in ((0, 0.1), (10, 0), (10, 1), (10, -1), (10, float("nan"))):
        with pytest.raises(ValueError):
            Bloom(capacity, rate)
    with pytest.raises(OverflowError):
        Bloom(-1)
    with pytest.raises((MemoryError, ValueError)):
        Bloom(2**62, 0.01)
