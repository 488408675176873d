"""Opens files of an earlier version of this package: see crates/cli/tests/earlier."""

import shutil
from pathlib import Path

import pytest
from filterblock import FileFilter, Filter

FOLDER = Path(__file__).parents[2] / "crates/cli/tests/earlier"
NAMES = (FOLDER / "keys").read_text().split()


@pytest.mark.parametrize("name", ["names", "bloom"])
def test_filters_of_an_earlier_version_hold_their_keys(name):
    found = Filter.open(FOLDER / f"python-{name}.filter")
    assert all(found.contains_many(NAMES))
    assert sum(found.contains_many(range(10_000))) < 200


def test_integers_of_an_earlier_version_are_found():
    found = Filter.open(FOLDER / "python-ints.filter")
    assert all(found.contains_many(range(0, 2100, 7)))
    assert [i for i in range(2100, 5000) if i in found] == [
        3141,
        3316,
        3915,
        4013,
        4051,
        4144,
        4192,
        4317,
        4429,
        4505,
        4536,
        4928,
    ]


def test_a_file_filter_of_an_earlier_version_holds_its_keys(tmp_path):
    path = shutil.copy(FOLDER / "python-file.filter", tmp_path)
    with FileFilter.open(path) as found:
        assert all(found.contains_many(NAMES))
        assert sum(found.contains_many(range(10_000))) < 200
