"""How much memory a process has taken at most, as the kernel counts it (Linux)."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")
_KB_PER_MB = 1024


def can_watch_memory() -> bool:
    """Whether this system tells."""
    return (_PROC / "self" / "status").is_file()


def peak_mb(pid: int) -> float:
    """Return the largest resident size in MB (2^20 bytes) so far; 0.0 for a process that has ended."""
    try:
        text = (_PROC / str(pid) / "status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0.0
    for line in text.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / _KB_PER_MB
    return 0.0
