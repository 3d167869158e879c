"""Fetch KaTeX, which typesets the mathematics of the documentation, into docs/theme/katex.

The site loads nothing from other machines, so the style sheet, the script and the fonts are copied into it. `npm pack`
downloads one release, whose archive must have the checksum below. To move to another release, change the version and
the checksum: `npm view katex dist.integrity` prints the latter.
"""

import base64
import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

VERSION = "0.19.1"
SHA512 = "jG8uKntjSEcm2EpQOh0XturpPuuC9r3Sq5HLHdsFdWZT27E672SF19QEi+of0/YeOy15lDgRhKvr5614uRrEfA=="
FOLDER = Path(__file__).parents[1] / "docs" / "theme" / "katex"


def download() -> bytes:
    """Return the archive of the release."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("make docs: expected npm, which comes with Node.js, to fetch KaTeX; found none")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([npm, "pack", "--silent", f"katex@{VERSION}"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        return next(Path(folder).glob("*.tgz")).read_bytes()


def wanted(name: str) -> str | None:
    """Return the path under `FOLDER` of a file of the archive, or None if the site does not need it."""
    if name in ("package/dist/katex.min.css", "package/dist/katex.min.js"):
        return name.removeprefix("package/dist/")
    if name.startswith("package/dist/fonts/") and name.endswith(".woff2"):
        return name.removeprefix("package/dist/")
    return "LICENSE" if name == "package/LICENSE" else None


def main() -> None:
    """Download the archive, check it, and unpack what the site needs."""
    data = download()
    found = base64.b64encode(hashlib.sha512(data).digest()).decode()
    if found != SHA512:
        raise SystemExit(f"katex {VERSION}: expected the SHA-512 checksum {SHA512}, found {found}")
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        for member in archive.getmembers():
            path = wanted(member.name)
            content = archive.extractfile(member) if path is not None and member.isfile() else None
            if path is None or content is None:
                continue
            (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
            (FOLDER / path).write_bytes(content.read())


if __name__ == "__main__":
    main()
