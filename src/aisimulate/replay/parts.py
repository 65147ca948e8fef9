"""Which replays may end early, and the keys that tell their reports from that of a whole replay."""

from __future__ import annotations

EARLY_STOP_KEY = "early_stop_completed_requests"
"""In the report of a replay that ended early: the requests that had completed."""

FIRST_SESSIONS_KEY = "first_sessions_only"
"""In the report of a replay of the beginning of a trace: its sessions."""

FEWEST_WAVES = 4
"""Of a closed loop that may end early: with fewer there is next to nothing to save."""
