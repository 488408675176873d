"""Tests the class `Filter`: files, damage, secrets, pickling, set algebra, ranges and planning."""

import copy
import os
import pathlib
import pickle
import stat
import subprocess
import sys

import filterblock
import numpy as np
import pyarrow as pa
import pytest
from filterblock import DamagedError, Filter, SecretError, UnexpectedError, UnsupportedError

KEYS = [f"key-{number}" for number in range(2000)]
SPECS = [
    "bloom:10",
    "blocked-bloom:10",
    "split-block:10",
    "split-block-512:10",
    "ribbon:8",
    "bumped-ribbon:8",
]
SPECS += ["binary-fuse:8", "always-maybe", "grafite:fpr=0.01"]
GOLDEN = pathlib.Path(__file__).parents[2] / "tests/golden"


@pytest.mark.parametrize("spec", SPECS)
def test_every_kind_holds_its_keys_in_memory_and_in_a_file(spec, tmp_path):
    built = Filter.build(KEYS, spec)
    built.save(tmp_path / "filter")
    filters = [
        built,
        Filter.from_bytes(built.to_bytes()),
        pickle.loads(pickle.dumps(built)),
        copy.deepcopy(built),
    ]
    filters += [Filter.open(tmp_path / "filter", mapped=mapped) for mapped in (True, False)]
    absent = [f"no-{number}" for number in range(5000)]
    for filter in filters:
        assert all(key in filter for key in KEYS) and filter.contains_many(KEYS).all()
        answers = filter.contains_many(absent)
        assert answers.tolist() == [key in filter for key in absent]
        assert answers.mean() < 0.05 or spec == "always-maybe"
        assert (len(filter), filter.kind, filter.nbytes) == (2000, spec.split(":")[0], len(bytes(filter)))
        assert filter.inspect()["num_keys"] == 2000 and 0 <= filter.error_rate <= 1
        assert filter.to_bytes() == built.to_bytes()
        filter.verify()
        assert spec.split(":")[0] in repr(filter)


def test_no_keys_are_a_filter_that_denies_everything_and_is_true():
    filter = Filter.build([])
    assert "a" not in filter and len(filter) == 0 and filter
    assert filter.contains_many([]).shape == (0,) and not filter.contains_many(KEYS).any()


def test_golden_files_of_rust_open():
    opened = 0
    for path in sorted(GOLDEN.glob("v1-*.fb")):
        if any(word in path.name for word in ("siphash", "secret", "prefix", "grafite")):
            continue
        filter = Filter.open(path)
        keys = [f"key-{number:08}" for number in range(len(filter))]
        assert filter.contains_many(keys).all() and all(key in filter for key in keys), path
        opened += 1
    assert opened > 20


def test_a_static_filter_says_why_it_takes_no_key():
    filter = Filter.build(KEYS)
    for change in (filter.add, filter.update):
        with pytest.raises(TypeError, match="built once.*Bloom"):
            change("a")


def test_invalid_arguments_raise_value_errors():
    for spec in ("bloom:0", "nothing:10", "", "bloom:fpr=2"):
        with pytest.raises(ValueError):
            Filter.build(KEYS, spec)
    for arguments in ({"threads": 0}, {"secret": b"short"}, {"table_id": b"short"}, {"ranges": "bloom:10"}):
        with pytest.raises(ValueError):
            Filter.build(KEYS, **arguments)


def test_threads_change_no_byte():
    keys = np.arange(200_000)
    built = {Filter.build(keys, "bumped-ribbon:8", threads=threads).to_bytes() for threads in (1, 2, 5)}
    assert len(built) == 1


# Files --------------------------------------------------------------------------------------------------


def test_save_replaces_a_file_whole_and_keeps_open_filters(tmp_path):
    path = tmp_path / "filter"
    Filter.build(["old"]).save(path)
    old = Filter.open(path)
    path.chmod(0o640)
    Filter.build(["new"] * 1000).save(str(path))
    assert "old" in old and "new" not in old
    assert "new" in Filter.open(os.fspath(path)) and "old" not in Filter.open(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["filter"]


def test_save_follows_the_umask_and_links(tmp_path):
    old = os.umask(0o027)
    try:
        Filter.build(["a"]).save(tmp_path / "target")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "target").stat().st_mode) == 0o640
    (tmp_path / "link").symlink_to("target")
    Filter.build(["b"]).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and "b" in Filter.open(tmp_path / "target")


def test_a_save_that_fails_leaves_the_old_file(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        Filter.build(["a"]).save(tmp_path / "no" / "filter")
    assert raised.value.errno == 2 and "no" in str(raised.value)
    with pytest.raises(OSError):
        Filter.build(["a"]).save(tmp_path)
    path = tmp_path / "filter"
    Filter.build(["old"]).save(path)
    code = (
        "import resource, sys, filterblock\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "try: filterblock.Filter.build(range(100000)).save(sys.argv[1])\n"
        "except OSError as error: print(error.errno)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "27"
    assert "old" in Filter.open(path) and os.listdir(tmp_path) == ["filter"]


def test_files_that_are_missing_or_no_files_raise_os_errors(tmp_path):
    for mapped in (True, False):
        with pytest.raises(FileNotFoundError):
            Filter.open(tmp_path / "no", mapped=mapped)
        with pytest.raises((OSError, ValueError)):
            Filter.open(tmp_path, mapped=mapped)


# Damage -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["blocked-bloom:10", "bumped-ribbon:8", "binary-fuse:8"])
def test_every_changed_byte_raises_and_never_answers(spec, tmp_path):
    data = Filter.build(KEYS[:50], spec).to_bytes()
    path = tmp_path / "filter"
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        with pytest.raises((DamagedError, UnsupportedError)) as raised:
            Filter.from_bytes(bytes(changed))
        if at % 16 == 0:
            path.write_bytes(changed)
            for mapped in (True, False):
                with pytest.raises((DamagedError, UnsupportedError)) as raised:
                    Filter.open(path, mapped=mapped)
                assert str(path) in str(raised.value)
        if isinstance(raised.value, DamagedError):
            assert raised.value.field and 0 <= raised.value.offset <= len(data)


def test_cut_and_foreign_files_raise(tmp_path):
    data = Filter.build(KEYS[:50]).to_bytes()
    for length in range(len(data)):
        with pytest.raises(DamagedError):
            Filter.from_bytes(data[:length])
    with pytest.raises(DamagedError):
        Filter.from_bytes(data + b"\0")
    (tmp_path / "text").write_text("no filter " * 100)
    with pytest.raises(DamagedError) as raised:
        Filter.open(tmp_path / "text")
    assert raised.value.path == tmp_path / "text" and isinstance(raised.value, ValueError)
    again = pickle.loads(pickle.dumps(raised.value))
    assert (str(again), again.offset, again.field) == (
        str(raised.value),
        raised.value.offset,
        raised.value.field,
    )


def test_verify_finds_damage_that_came_after_the_open(tmp_path):
    path = tmp_path / "filter"
    Filter.build(range(10_000)).save(path)
    filter, mapped = Filter.open(path), Filter.open(path, mapped=True)
    with open(path, "r+b") as file:
        file.seek(5000)
        file.write(b"damage!!")
    with pytest.raises(DamagedError) as raised:
        mapped.verify()
    assert raised.value.offset == 4096 and raised.value.path == path
    # Only the mapped filter depends on the bytes of the file.
    path.write_bytes(bytes(path.stat().st_size))
    assert filter.contains_many(range(10_000)).all()
    filter.verify()


def test_a_damaged_range_filter_beside_a_filter_raises():
    data = bytearray(Filter.build(KEYS, "bloom:10", ranges="grafite:fpr=0.01").to_bytes())
    data[10] ^= 1
    with pytest.raises(DamagedError):
        Filter.from_bytes(bytes(data))


def test_other_filters_than_the_expected_one_raise():
    filter = Filter.build(KEYS, table_id=b"table 0000000012")
    data, checksum = filter.to_bytes(), filter.checksum
    opened = Filter.from_bytes(data, table_id=b"table 0000000012", checksum=checksum)
    assert opened.inspect()["table_id"] == b"table 0000000012" and "key-1" in opened
    for expected in ({"table_id": b"table 0000000013"}, {"checksum": checksum ^ 1}):
        with pytest.raises(UnexpectedError):
            Filter.from_bytes(data, **expected)


# Secrets ------------------------------------------------------------------------------------------------


def test_a_secret_is_needed_and_never_pickled(tmp_path):
    secret, other = bytes(range(16)), bytes(16)
    filter = Filter.build(KEYS, secret=secret)
    filter.save(tmp_path / "filter")
    assert Filter.open(tmp_path / "filter", secret=secret).contains_many(KEYS).all()
    for wrong in (None, other):
        with pytest.raises(SecretError):
            Filter.open(tmp_path / "filter", secret=wrong)
    with pytest.raises(ValueError):
        Filter.from_bytes(Filter.build(KEYS).to_bytes(), secret=secret)
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(filter)
    assert secret not in filter.to_bytes() and secret.hex() not in repr(filter)


# Set algebra, ranges and plans --------------------------------------------------------------------------


def alike(numbers, spec, seed=0):
    return Filter.build(numbers, spec, seed=seed)


@pytest.mark.parametrize("spec", ["bloom:10", "blocked-bloom:10", "split-block:10", "split-block-512:10"])
def test_merged_filters_hold_the_keys_of_all(spec):
    parts = [alike(range(start, start + 1000), spec) for start in (0, 500, 5000)]
    merged = Filter.merge(parts)
    for numbers in (range(1500), range(5000, 6000)):
        assert merged.contains_many(numbers).all()
    # The merged filter has 2,500 distinct keys in the space for 1,000. Its `len` is the sum of the parts.
    assert len(merged) == 3000 and 0.1 < merged.contains_many(np.arange(10**6, 10**6 + 1000)).mean() < 0.5
    assert (parts[0] | parts[1]).contains_many(range(1500)).all()
    found = parts[0].compare(parts[1])
    assert 400 < found["intersection"] < 600 and 1350 < found["union"] < 1650 and not found["is_equal"]


def test_filters_that_are_not_alike_are_not_merged():
    one = alike(range(1000), "bloom:10")
    for other in (
        alike(range(1000), "bloom:10", seed=1),
        alike(range(5000), "bloom:10"),
        alike(range(1000), "bloom:12"),
    ):
        with pytest.raises(ValueError):
            Filter.merge([one, other])
        with pytest.raises(ValueError):
            one.compare(other)
    with pytest.raises(ValueError):
        Filter.merge([alike(range(1000), "binary-fuse:8")] * 2)
    with pytest.raises(ValueError):
        Filter.merge([])
    with pytest.raises(TypeError):
        one | 5


def test_ranges_are_asked_by_bytes_in_order():
    keys = [f"user{number:04}" for number in range(0, 1000, 100)]
    for filter in (Filter.build(keys, "grafite:fpr=0.001"), Filter.build(keys, ranges="grafite:fpr=0.001")):
        assert filter.may_contain_range("user0100", "user0150") and filter.may_contain_range(
            b"user0050", "user0100"
        )
        assert filter.may_contain_range() and filter.may_contain_range(low="user0900")
        assert not filter.may_contain_range("user0901", "user0950") and not filter.may_contain_range(low="v")
        with pytest.raises(ValueError):
            filter.may_contain_range("b", "a")
        for bound in (1, None.__class__, 1.5, True):
            with pytest.raises(TypeError):
                filter.may_contain_range(bound, "z")
        with pytest.raises(TypeError, match="in the order of the numbers"):
            filter.may_contain_range(low=5)
    assert Filter.build(keys).may_contain_range("x", "y")  # without a range filter


def test_integers_raise_for_range_filters():
    many = ([1, 2, 3], range(3), np.arange(3), np.array([True]), pa.array([1, 2]), [np.int64(1)], [True])
    for arguments in ({"spec": "grafite:fpr=0.01"}, {"ranges": "grafite:fpr=0.01"}):
        for keys in many:
            with pytest.raises(TypeError, match="in the order of the numbers"):
                Filter.build(keys, **arguments)
        ordered = [number.to_bytes(8, "big") for number in (1, 2, 3)]
        filter = Filter.build(ordered, **arguments)
        assert filter.may_contain_range(ordered[0], ordered[2]) and all(key in filter for key in ordered)
        for asked in (filter, pickle.loads(pickle.dumps(filter)), Filter.from_bytes(filter.to_bytes())):
            with pytest.raises(TypeError, match="in the order of the numbers"):
                assert 1 not in asked
            for keys in many:
                with pytest.raises(TypeError, match="in the order of the numbers"):
                    asked.contains_many(keys)


def test_plans_tell_what_a_build_gives():
    for spec in ("blocked-bloom:10", "bumped-ribbon:fpr=0.01", "binary-fuse:8"):
        plan, built = filterblock.plan(spec, 10_000), Filter.build(range(10_000), spec)
        assert plan.payload_len_bytes == pytest.approx(built.inspect()["payload_len_bytes"], rel=0.02)
        assert plan.error_rate == pytest.approx(built.error_rate, rel=0.1)
        assert plan.num_keys == 10_000 and plan.spec == spec and spec in repr(plan)
        assert plan.bits_per_key > 4 and plan.lines_if_absent >= 1 and plan.lines_if_present >= 1
    largest = filterblock.plan_largest("bloom", 1000, 2000)
    assert largest is not None and largest.payload_len_bytes <= 2000
    assert filterblock.plan_largest("bloom", 10**6, 1) is None
    for call in (lambda: filterblock.plan("bloom:10", 0), lambda: filterblock.plan_largest("no", 1, 1)):
        with pytest.raises(ValueError):
            call()
    assert "blocked-bloom" in filterblock.kinds() and filterblock.instruction_set()


def test_a_bug_of_a_builder_is_an_error_and_no_filter():
    # Only a debug build has the function.
    with_a_bug = getattr(filterblock._filterblock, "_build_with_a_bug", None)
    if with_a_bug is not None:
        with pytest.raises(filterblock.Error, match="the build of the filter panicked"):
            with_a_bug()
