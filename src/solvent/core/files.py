"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from solvent.errors import ModelError


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name and move it into place, so that it is never seen half-written.

    A link is followed, and what is no plain file (a device, a pipe) is refused: it would be replaced by one.

    Raises
    ------
    ModelError
        If the place cannot be written.
    """
    temporary = None
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            found = "a folder" if target.is_dir() else "no plain file"
            raise ModelError(str(path), "a place that can be written", found)
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".solvent-", delete=False) as file:
            temporary = Path(file.name)
            file.write(content)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, target)  # noqa: PTH105
        temporary = None
    except ModelError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelError(str(path), "a place that can be written", reason) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
