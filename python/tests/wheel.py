"""Checks a wheel and a source distribution: licences, description, and no paths of this machine."""

import email
import os
import pathlib
import re
import sys
import tarfile
import zipfile

package = pathlib.Path(__file__).resolve().parents[1]
home = pathlib.Path.home()
cargo = pathlib.Path(os.environ.get("CARGO_HOME", home / ".cargo"))
paths = [str(path).encode() for path in (package.parent, cargo, home / ".rustup")]


def check(metadata: bytes, licences: set[str]) -> None:
    """Asserts that the description is the README of the Python package, and that the licences are there."""
    fields = email.message_from_bytes(metadata)
    description = fields.get_payload()
    assert description.startswith("# filterblock for Python"), description[:100]
    links = re.findall(r"\]\((?!https?://)[^)]*\)", description)
    assert links == [], f"PyPI cannot follow {links}"
    assert set(fields.get_all("License-File")) == licences == {"LICENSE-APACHE", "LICENSE-MIT"}


folder = pathlib.Path(sys.argv[1])
[wheel] = folder.glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    names = archive.namelist()
    for name in names:
        found = [path.decode() for path in paths if path in archive.read(name)]
        assert found == [], f"{name} names {found}"
    [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
    check(archive.read(metadata), {name.split("/")[-1] for name in names if "/licenses/LICENSE" in name})

[sdist] = folder.glob("*.tar.gz")
with tarfile.open(sdist) as archive:
    files = {name.partition("/")[2]: archive.extractfile(name) for name in archive.getnames() if "." in name}
    files |= {
        name.partition("/")[2]: archive.extractfile(name) for name in archive.getnames() if "LICENSE" in name
    }
    content = {name: file.read() for name, file in files.items() if file}
check(content["PKG-INFO"], {name for name in content if re.fullmatch(r"LICENSE-\w+", name)})
# A wheel that is built from the sdist takes its description from this file.
assert content["PYPI.md"] == content["python/README.md"] == (package / "README.md").read_bytes()
assert b'readme = "PYPI.md"' in content["pyproject.toml"]
print(f"{wheel.name} and {sdist.name} are complete")
