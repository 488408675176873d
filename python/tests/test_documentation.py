"""Tests that every public name has a docstring, and that `__all__` lists every public name."""

import inspect

import filterblock
from filterblock import parquet


def public_names():
    for module in (filterblock, parquet):
        for name in module.__all__:
            value = getattr(module, name)
            if name != "__version__":
                yield f"{module.__name__}.{name}", value
            if inspect.isclass(value) and not issubclass(value, Exception):
                for attribute, member in vars(value).items():
                    if not attribute.startswith("_"):
                        yield f"{module.__name__}.{name}.{attribute}", member


def test_every_public_name_has_a_docstring():
    found = dict(public_names())
    assert len(found) > 90
    assert [name for name, value in found.items() if not (value.__doc__ or "").strip()] == []


def test_all_lists_every_public_name():
    names = {name for name in vars(filterblock) if not name.startswith("_")} | {"__version__"}
    assert names == set(filterblock.__all__)
    assert filterblock.__version__ == "0.1.0"
