"""Keys that tell the report of a part of a replay from that of the whole."""

from __future__ import annotations

EARLY_STOP_KEY = "early_stop_completed_requests"
"""In the report of a replay that ended early: the requests that had completed."""

FIRST_SESSIONS_KEY = "first_sessions_only"
"""In the report of a replay of the beginning of a trace: its sessions."""
