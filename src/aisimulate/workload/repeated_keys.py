"""Finding a key that a JSON row gives twice, of which readers silently keep the last."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any


def repeated_key(line: bytes, fields: int) -> str | None:
    """Return a key that an object of the (valid) row gives twice, None when there is none.

    `fields` is the number of keys that were kept. A row with just as many colons has no room for another
    key, so hardly a row is read again.
    """
    if line.count(b":") == fields:
        return None
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        counts = Counter(key for key, _ in pairs)
        found.extend(key for key, count in counts.items() if count > 1)

    try:
        # Numbers stay text: Python refuses some that other readers take.
        json.loads(line, object_pairs_hook=look, parse_int=str, parse_float=str)
    except RecursionError:
        return None
    return found[0] if found else None
