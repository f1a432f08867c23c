"""Builds the wheel of stoker-env (PEP 517, 660) with nothing but Python, so that it builds without a network."""

import base64
import hashlib
import io
import os
import re
import tarfile
import zipfile
from typing import Dict, List, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "stoker_env"


def _text(path: str) -> str:
    with open(os.path.join(HERE, path), encoding="utf-8") as file:
        return file.read()


def _version() -> str:
    found = re.search(r'^VERSION = "([^"]+)"$', _text("stoker_env/protocol.py"), re.MULTILINE)
    if found is None:
        raise SystemExit('stoker_env/protocol.py has no line VERSION = "...".')
    return found.group(1)


def _metadata() -> str:
    head = [
        "Metadata-Version: 2.1",
        "Name: stoker-env",
        "Version: " + _version(),
        "Summary: Tools, environments and rewards in Python for the Stoker trainer.",
        "Requires-Python: >=3.9",
        "Classifier: Programming Language :: Python :: 3",
        "Classifier: Typing :: Typed",
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(head) + "\n\n" + _text("README.md")


def _sources() -> List[str]:
    paths = []
    for folder, folders, files in os.walk(os.path.join(HERE, NAME)):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py") or name == "py.typed":
                paths.append(os.path.relpath(os.path.join(folder, name), HERE).replace(os.sep, "/"))
    return paths


def _write_wheel(folder: str, contents: Dict[str, bytes]) -> str:
    info = "%s-%s.dist-info" % (NAME, _version())
    contents = dict(contents)
    contents[info + "/METADATA"] = _metadata().encode()
    contents[info + "/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: stoker-env\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    contents[info + "/entry_points.txt"] = b"[console_scripts]\nstoker-env = stoker_env.__main__:main\n"
    record = ""
    for path, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += "%s,sha256=%s,%d\n" % (path, digest, len(data))
    contents[info + "/RECORD"] = (record + info + "/RECORD,,\n").encode()
    name = "%s-%s-py3-none-any.whl" % (NAME, _version())
    with zipfile.ZipFile(os.path.join(folder, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in contents.items():
            # A fixed time stamp: the same sources give the same bytes.
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return name


def build_wheel(
    wheel_directory: str,
    config_settings: Optional[Dict[str, str]] = None,
    metadata_directory: Optional[str] = None,
) -> str:
    return _write_wheel(wheel_directory, {path: _text(path).encode() for path in _sources()})


def build_editable(
    wheel_directory: str,
    config_settings: Optional[Dict[str, str]] = None,
    metadata_directory: Optional[str] = None,
) -> str:
    return _write_wheel(wheel_directory, {NAME + ".pth": (HERE + "\n").encode()})


def build_sdist(sdist_directory: str, config_settings: Optional[Dict[str, str]] = None) -> str:
    root = "%s-%s" % (NAME, _version())
    name = root + ".tar.gz"
    with tarfile.open(os.path.join(sdist_directory, name), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path in _sources() + ["README.md", "build_backend.py", "pyproject.toml"]:
            archive.add(os.path.join(HERE, path), root + "/" + path)
        metadata = _metadata().encode()
        entry = tarfile.TarInfo(root + "/PKG-INFO")
        entry.size = len(metadata)
        archive.addfile(entry, io.BytesIO(metadata))
    return name
