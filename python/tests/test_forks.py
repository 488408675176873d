"""Tests forks while other threads use a filter: no process waits forever, and no key is denied."""

import os
import subprocess
import sys

import pytest

# A thread changes the filter without a pause, and the main thread forks. A call in a child returns or raises
# `LockedError`. If the first call raises, all later calls raise.
PROGRAM = """
import os, signal, sys, threading
from filterblock import Bloom, FileFilter, LockedError

kind, work, forks = sys.argv[1], sys.argv[2], int(sys.argv[3])
keys = list(range(5_000))

def make(name):
    return Bloom(len(keys)) if kind == "Bloom" else FileFilter(len(keys), 0.01, name)

filter, other = make("one"), make("two")
other.update(keys)
if work != "clear":
    filter.update(keys)
stop = threading.Event()

def run():
    while not stop.is_set():
        if work == "clear":
            filter.clear()
        elif work == "update":
            filter.update(keys)
        elif work == "sync":
            filter.add(1)
            filter.sync()
        elif work == "copy":
            filter.copy() if kind == "Bloom" else filter.copy("three").close() or os.remove("three")
        elif work == "union":
            filter.__ior__(other)
        else:
            filter.__iand__(other)

def raises(call):
    try:
        call()
        return False
    except LockedError:
        return True

def child():
    asked = [raises(lambda: 1 in filter)]
    calls = [lambda: 1 in filter, lambda: filter.contains_many(keys), lambda: filter.bit_count]
    for call in [*calls, lambda: len(filter)]:
        asked.append(raises(call))
    assert len(set(asked)) == 1, asked
    repr(filter)
    if work != "clear" and not asked[0]:
        assert filter.contains_many(keys).all()
    combine = [lambda: filter.__iand__(other), lambda: filter.__ior__(other)]
    writes = [raises(call) for call in [filter.clear, *combine]]
    assert raises(filter.clear) == writes[0]
    raises(lambda: filter.data_array)
    if kind == "FileFilter":
        assert all(writes)
        raises(lambda: filter.to_base64())
        raises(filter.close)
    return asked[0]

threads = [threading.Thread(target=run) for _ in range(2 if work == "union" else 1)]
for thread in threads:
    thread.start()
for _ in range(forks):
    process = os.fork()
    if process == 0:
        signal.alarm(60)
        code = 3
        try:
            code = int(child())
        except BaseException:
            import traceback
            traceback.print_exc()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert code in (0, 1), f"a child ended with {code}"
stop.set()
for thread in threads:
    thread.join(60)
    assert not thread.is_alive()
filter.update(keys)
assert filter.contains_many(keys).all()
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("work", ["clear", "intersection", "union", "update", "copy", "sync"])
@pytest.mark.parametrize("kind", ["Bloom", "FileFilter"])
def test_a_fork_while_a_thread_uses_the_filter_never_hangs(kind, work, tmp_path):
    if (kind, work) == ("Bloom", "sync"):
        pytest.skip("a Bloom has no file")
    forks = "30" if work == "clear" else "10"
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, kind, work, forks]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert (run.returncode, run.stdout, run.stderr) == (0, "done\n", "")


CHILD_WITH_THREADS = """
import os, signal, threading
from filterblock import Bloom

bloom = Bloom(1000)
bloom.update(range(1000))
process = os.fork()
if process == 0:
    signal.alarm(60)
    failed = []
    def run(number):
        try:
            for _ in range(300):
                bloom.clear() if number == 0 else (1 in bloom, bloom.update([number]))
        except BaseException as error:
            failed.append(error)
    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    os._exit(1 if failed else 0)
print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_threads_of_a_child_share_a_filter_that_was_free_at_the_fork():
    run = subprocess.run(
        [sys.executable, "-c", CHILD_WITH_THREADS], capture_output=True, text=True, timeout=300
    )
    assert (run.stdout, run.stderr) == ("0\n", "")


# A hook that another package registered earlier runs before the hooks of this package. `fork` of the C
# library runs no hook of Python.
OTHER_FORKS = """
import ctypes, os, signal, sys, threading, time

filter = None

def ask():
    signal.alarm(20)
    try:
        1 in filter
    except LockedError:
        pass

os.register_at_fork(after_in_child=lambda: filter and ask())
from filterblock import Bloom, LockedError

# `PyDLL` keeps the lock of the interpreter. The child of a fork by C hangs in Python itself if another
# thread held or awaited that lock, so the other thread does one long call.
fork = ctypes.PyDLL(None).fork if sys.argv[1] == "c" else os.fork
filter = Bloom(50_000_000)
for _ in range(30):
    thread = threading.Thread(target=filter.clear)
    thread.start()
    time.sleep(0.001)
    process = fork()
    if process == 0:
        ask()
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert code == 0, f"a child ended with {code}"
    thread.join()
print("done")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="calls the C library")
@pytest.mark.parametrize("caller", ["python", "c"])
def test_a_fork_by_c_or_before_other_hooks_never_hangs(caller):
    command = [sys.executable, "-W", "ignore", "-c", OTHER_FORKS, caller]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (run.returncode, run.stdout, run.stderr) == (0, "done\n", "")
