"""A lock on a file, held by one process at a time and given up with it, however it ends."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

if sys.platform == "win32":
    import msvcrt

    def lock_file(file: TextIO) -> None:
        """Take the lock until the file is closed. Raises OSError when another process has it."""
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def lock_file(file: TextIO) -> None:
        """Take the lock until the file is closed. Raises OSError when another process has it."""
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
