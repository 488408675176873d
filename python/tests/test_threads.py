"""Tests several threads at once: no key is lost, no answer is wrong, and no thread waits forever."""

import sys
import threading

import numpy as np
import pyarrow as pa
import pytest
from filterblock import Bloom, FileFilter, Filter

THREADS = 4


@pytest.fixture(autouse=True)
def switch_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def run(work):
    """Runs `work(number)` in several threads that start together, and raises their exceptions."""
    start, failed = threading.Barrier(THREADS), []

    def one(number):
        try:
            start.wait()
            work(number)
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread waits forever"
    if failed:
        raise failed[0]


def test_threads_ask_one_filter():
    numbers = np.arange(100_000)
    filter = Filter.build(numbers[::2])
    expected = filter.contains_many(numbers)

    def ask(number):
        for _ in range(10):
            assert (filter.contains_many(numbers) == expected).all()
            assert all(key in filter for key in range(number * 2, 2000, 2))

    run(ask)


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_threads_add_to_one_filter_and_lose_no_key(kind, tmp_path):
    numbers = np.arange(THREADS * 20_000)
    filter = Bloom(len(numbers)) if kind == "memory" else FileFilter(len(numbers), 0.01, tmp_path / "file")

    def add(number):
        mine = numbers[number::THREADS]
        filter.update(mine[:10_000])
        assert filter.contains_many(mine[:10_000]).all()
        for key in mine[10_000:].tolist():
            filter.add(key)
            assert key in filter
        if kind == "file":
            filter.sync()

    run(add)
    assert filter.contains_many(numbers).all()
    if kind == "file":
        assert FileFilter.open(tmp_path / "file", "r").contains_many(numbers).all()


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_set_operations_in_every_direction_never_wait_forever(kind, tmp_path):
    def make(name):
        return Bloom(1000) if kind == "memory" else FileFilter(1000, 0.01, tmp_path / name)

    filters = [make(str(number)) for number in range(THREADS)]
    for filter in filters:
        filter.update(range(500))

    def combine(number):
        left, right = filters[number], filters[(number + 1) % THREADS]
        for _ in range(20):
            left.__ior__(right)
            right.__iand__(left)
            assert left.contains_many(range(500)).all()
            assert 7 in right and len(right) > 0
            left.add("other")

    run(combine)


def test_a_filter_that_is_closed_by_another_thread_never_denies(tmp_path):
    numbers = np.arange(50_000)
    for round in range(5):
        filter = FileFilter(len(numbers), 0.01, tmp_path / str(round))
        filter.update(numbers)

        def ask(number, filter=filter):
            if number == 0:
                filter.close()
                return
            try:
                for _ in range(5):
                    assert filter.contains_many(numbers).all() and 5 in filter
            except ValueError as error:
                assert "closed" in str(error)

        run(ask)


class Exported:
    """An Arrow array that is exported once, in advance. pyarrow releases the GIL during the export."""

    def __init__(self, numbers):
        self.capsules = pa.array(numbers).__arrow_c_array__()

    def __arrow_c_array__(self, requested_schema=None):
        return self.capsules


@pytest.mark.parametrize("kind", ["buffer", "arrow", "add"])
def test_arrays_are_read_without_the_gil(kind):
    """Asserts that a thread that waits for the GIL can run while the main thread is inside one call.

    The switch interval of 1,000 seconds keeps the interpreter from switching threads by itself.
    """
    numbers = np.arange(3_000_000)
    filter, bloom = Filter.build(numbers[:10]), Bloom(len(numbers))
    work = bloom.update if kind == "add" else filter.contains_many
    for _ in range(20):
        seen, go, ready = [], threading.Event(), threading.Event()

        def wait(seen=seen, go=go, ready=ready):
            ready.set()
            go.wait()
            seen.append(1)

        keys = Exported(numbers) if kind == "arrow" else numbers
        thread = threading.Thread(target=wait)
        thread.start()
        ready.wait()
        before = sys.getswitchinterval()
        sys.setswitchinterval(1000)
        go.set()
        work(keys)
        ran = bool(seen)
        sys.setswitchinterval(before)
        thread.join()
        if ran:
            return
    pytest.fail("no thread ran during the call")
