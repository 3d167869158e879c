"""Files of older formats are read; new files have a checksum."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from format_examples import FOLDERS, discounted, model, write

import solvent
from solvent.core.archives import compress, read_archive, write_archive
from solvent.formats import documents, npz
from solvent.policy import files as policy_files

NAMES = ["model.npz", "discounted.npz", "van.policy", "discounted.policy"]


def load(path: Path) -> object:
    if path.suffix == ".npz":
        return solvent.load_model(path, discounted=None)
    return solvent.load_policy(path, discounted() if path.stem == "discounted" else model())


@pytest.fixture(scope="module")
def now(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("now")
    write(folder)
    return folder


@pytest.mark.parametrize("version", FOLDERS)
@pytest.mark.parametrize("name", NAMES)
def test_older_formats_are_read(name: str, version: int, now: Path, tmp_path: Path) -> None:
    old = tmp_path / name
    shutil.copy(FOLDERS[version] / name, old)
    _, header = read_archive(old.read_bytes())
    assert ("checksum" in header) == (version > 1)
    assert header[next(key for key in header if key.startswith("solvent"))] == version
    assert load(old) == load(now / name)


@pytest.mark.parametrize("name", NAMES)
def test_files_have_a_checksum_and_need_it(name: str, now: Path, tmp_path: Path) -> None:
    arrays, _ = read_archive((now / name).read_bytes())
    with np.load(now / name) as archive:
        text = archive["header"].tobytes()
    header = json.loads(text)
    assert len(header["checksum"]) == 64
    path = tmp_path / name
    for change, message in (
        ({"version": "9.9.9"}, "expected a file of Solvent .* or older, found '9.9.9'; it was written by a newer"),
        (
            {next(key for key in header if key.startswith("solvent")): 4},
            "of format 1 or 2 or 3, found 4; it was written by a",
        ),
    ):
        path.write_bytes(write_archive(arrays, header | change))
        with pytest.raises(solvent.SolventError, match=message):
            load(path)
    for edited, message in (
        (text.replace(b'"version"', b'"Version"'), "damaged or edited after it was written"),
        (text.replace(b"checksum", b"checksun"), "a checksum, which files of this format have"),
    ):
        path.write_bytes(compress({**arrays, "header": np.frombuffer(edited, np.uint8)}))
        with pytest.raises(solvent.SolventError, match=message):
            load(path)


def test_every_kind_of_file_has_a_table_of_readers() -> None:
    assert sorted(documents.READERS) == [1]
    for module in (npz, policy_files):
        assert sorted(module.READERS) == [1, 2, 3]


def test_every_kind_of_file_has_a_reader_of_the_current_format() -> None:
    from solvent.core.archives import FORMAT
    from solvent.formats import npz
    from solvent.policy import files

    for module in (npz, files):
        assert max(module.READERS) == FORMAT, module.__name__
