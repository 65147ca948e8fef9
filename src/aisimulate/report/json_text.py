"""JSON for programs: same value, same bytes."""

from __future__ import annotations

import json


def json_text(value: object) -> str:
    """Write a value as JSON: sorted keys, finite numbers only, one final newline."""
    return json.dumps(value, sort_keys=True, allow_nan=False, indent=2, default=str) + "\n"
