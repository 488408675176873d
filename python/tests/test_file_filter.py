"""Tests the class `FileFilter`: one writer, any number of readers, damage and forks."""

import multiprocessing
import os
import pickle
import stat
import subprocess
import sys

import numpy as np
import pytest
from filterblock import DamagedError, DisplacedError, FileFilter, LockedError, ReadOnlyError

KEYS = [f"key-{number}" for number in range(1000)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


def full(path):
    filter = FileFilter(1000, 0.01, path)
    filter.update(KEYS)
    return filter


def test_synced_keys_are_in_the_file(path):
    with full(path) as filter:
        assert filter.contains_many(KEYS).all() and len(filter) > 990
        filter.sync()
        reader = FileFilter.open(path, "r")
        assert reader.contains_many(KEYS).all() and len(reader) == len(filter)
        filter.add("later")
    assert "later" not in reader and "later" in FileFilter.open(str(path), mode="r")
    with FileFilter.open(path) as filter:
        assert filter.add("later") is True and filter.add("new") is False
        assert filter.contains_many(np.arange(10_000)).mean() < 0.03


def test_properties(path):
    filter = FileFilter(1000, 0.01, path, hash_seeds=[2**64 - 1])
    assert (filter.capacity, filter.error_rate, filter.hash_seeds) == (1000, 0.01, [2**64 - 1])
    assert (filter.read_only, filter.damaged_pages, filter.bit_count, len(filter)) == (False, 0, 0, 0)
    assert filter.filename == str(path) and filter.num_bits == 8 * len(filter.data_array) and filter
    assert repr(filter) == f"<FileFilter: capacity 1000, error rate 0.01, {filter.num_hashes} hashes>"
    filter.add("a")
    assert (
        filter.bit_count == filter.num_hashes and filter.approx_len == 1 and filter.expected_error_rate < 1e-6
    )
    for seeds in ([], [1, 2], ["a"], [-1], [2**64], [1.5]):
        with pytest.raises(ValueError):
            FileFilter(10, 0.1, path.with_name("other"), hash_seeds=seeds)


def test_an_existing_file_is_an_error_and_stays(path):
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        FileFilter(10, 0.1, path)
    assert path.read_text() == "mine"
    with pytest.raises(FileNotFoundError):
        FileFilter.open(path.with_name("no"))
    with pytest.raises(FileNotFoundError):
        FileFilter(10, 0.1, path.with_name("no") / "file")
    with pytest.raises(ValueError):
        FileFilter.open(path, "w")


def test_modes_of_files(path):
    full(path).close()
    copy = FileFilter.open(path, "r").copy(path.with_name("copy"), perm=0o600)
    assert stat.S_IMODE(os.stat(copy.filename).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(FileFilter(10, 0.1, path.with_name("new"), 0o640).filename).st_mode) == 0o640


def test_a_reader_changes_nothing(path):
    full(path).close()
    before = path.read_bytes()
    reader = FileFilter.open(path, "r")
    other = reader.copy(path.with_name("other"))
    assert reader.read_only
    changes = [
        lambda: reader.add("a"),
        lambda: reader.update(["a"]),
        lambda: reader.update([]),
        reader.sync,
        reader.clear,
    ]
    changes += [lambda: reader.__ior__(other), lambda: reader.__iand__(other), reader.clear_all]
    for change in changes:
        with pytest.raises(ReadOnlyError):
            change()
    reader.close()
    assert path.read_bytes() == before


def test_a_closed_filter_raises(path):
    filter = full(path)
    filter.close()
    filter.close()
    for call in (
        lambda: "a" in filter,
        lambda: filter.add("a"),
        lambda: filter.update(["a"]),
        filter.sync,
        filter.clear,
    ):
        with pytest.raises(ValueError, match="closed"):
            call()
    for call in (
        lambda: filter.contains_many(["a"]),
        lambda: len(filter),
        lambda: filter.capacity,
        filter.to_base64,
    ):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_copies_templates_and_texts(path):
    filter = full(path)
    for other in (
        filter.copy(path.with_name("copy")),
        FileFilter.from_base64(path.with_name("text"), filter.to_base64()),
    ):
        assert other.data_array == filter.data_array and len(other) == len(filter) and not other.read_only
    template = filter.copy_template(path.with_name("template"))
    assert (
        template.bit_count == 0
        and template.__ior__(filter) is template
        and template.contains_many(KEYS).all()
    )
    with pytest.raises(FileExistsError):
        filter.copy(path.with_name("copy"))
    text = filter.to_base64()
    for wrong in (
        text[:-8],
        "A" + text[1:],
        "",
        text[:1000] + ("A" if text[1000] != "A" else "B") + text[1001:],
    ):
        with pytest.raises(DamagedError):
            FileFilter.from_base64(path.with_name("wrong"), wrong)
    assert not path.with_name("wrong").exists()
    with pytest.raises(TypeError, match="one writer"):
        pickle.dumps(filter)


def test_set_algebra(path):
    left, right = FileFilter(1000, 0.001, path), FileFilter(1000, 0.001, path.with_name("right"))
    left.update(range(500))
    right.update(range(250, 750))
    left |= right
    assert left.contains_many(range(750)).all() and left.approx_len == len(left) == pytest.approx(750, abs=30)
    right &= left
    assert right.contains_many(range(250, 750)).all()
    left |= left
    left &= left
    right.clear()
    assert right.bit_count == 0 and len(right) == 0
    assert FileFilter.open(path.with_name("right"), "r").bit_count == 0
    for other in (
        FileFilter(900, 0.001, path.with_name("1")),
        FileFilter(1000, 0.001, path.with_name("2"), hash_seeds=[1]),
    ):
        for combine in (left.__ior__, left.__iand__):
            with pytest.raises(ValueError):
                combine(other)


# Damage -------------------------------------------------------------------------------------------------


def test_a_changed_byte_never_makes_it_deny_a_key(path):
    full(path).close()
    data = path.read_bytes()
    for at in range(0, len(data), 13):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        try:
            filter = FileFilter.open(path, "r")
        except DamagedError as error:
            assert at < 512 and error.path == path and error.offset < 512
            continue
        assert at >= 512 and filter.damaged_pages == 1 and filter.contains_many(KEYS).all()
        assert len(filter) == filter.approx_len


def test_a_file_that_another_program_changes_is_not_written(path):
    filter = full(path)
    filter.sync()
    filter.add("new")
    path.rename(path.with_name("moved"))
    path.write_text("other")
    with pytest.raises(DisplacedError):
        filter.sync()
    assert "new" in filter and path.read_text() == "other"


# Processes ----------------------------------------------------------------------------------------------

TRY_TO_OPEN = """
import sys, filterblock
try:
    filterblock.FileFilter.open(sys.argv[1])
except filterblock.LockedError:
    print("locked")
"""


def other_process(path):
    done = subprocess.run(
        [sys.executable, "-c", TRY_TO_OPEN, str(path)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_second_writer_is_refused_in_this_and_other_processes(path):
    filter = full(path)
    with pytest.raises(LockedError):
        FileFilter.open(path)
    assert other_process(path) == "locked"
    assert FileFilter.open(path, "r").read_only
    filter.close()
    assert other_process(path) == ""


def child(filter, path):
    """Asserts what a forked child may do with the filter of its parent: ask, but not write."""
    assert filter.contains_many(KEYS).all() and "key-1" in filter
    for change in (lambda: filter.add("child"), lambda: filter.update(["child"]), filter.sync, filter.clear):
        with pytest.raises(LockedError):
            change()
    for combine in (filter.__ior__, filter.__iand__):
        with pytest.raises(LockedError):
            combine(filter)
    filter.close()
    assert FileFilter.open(path, "r").contains_many(KEYS).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("ends", ["close", "drop"])
def test_a_forked_child_neither_writes_nor_unlocks(path, ends):
    filter = full(path)
    filter.sync()
    filter.add("unsynced")
    started = os.fork()
    if started == 0:
        try:
            if ends == "close":
                child(filter, path)
            del filter
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(started, 0)[1]) == 0
    assert "unsynced" not in FileFilter.open(path, "r")
    assert other_process(path) == "locked"
    filter.update(range(100))
    filter.sync()
    assert FileFilter.open(path, "r").contains_many([*KEYS, "unsynced", *range(100)]).all()


def read_until_full(path, count):
    while not FileFilter.open(path, "r").contains_many(np.arange(count)).all():
        pass


def test_readers_see_every_synced_key_while_a_writer_adds(path):
    filter = FileFilter(20_000, 0.01, path)
    readers = [
        multiprocessing.get_context("spawn").Process(target=read_until_full, args=(path, 20_000))
        for _ in range(2)
    ]
    for reader in readers:
        reader.start()
    for start in range(0, 20_000, 500):
        filter.update(np.arange(start, start + 500))
        filter.sync()
        assert FileFilter.open(path, "r").contains_many(np.arange(start + 500)).all()
    for reader in readers:
        reader.join(120)
        assert reader.exitcode == 0
