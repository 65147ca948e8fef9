"""The recorded cases of the reference, and how to run one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CASES: dict[str, dict[str, Any]] = {
    case["name"]: case
    for case in json.loads((Path(__file__).parents[1] / "data/replay/cases.json").read_text())
}


def materialise(payload: dict[str, Any], trace_files: list[list[Any]], folder: Path) -> dict[str, Any]:
    """Write the traces (rows, or raw lines) into `folder` and return the payload that names them."""
    text = json.dumps(payload)
    for index, rows in enumerate(trace_files):
        path = folder / f"t{index}.jsonl"
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path.write_text("".join(line + "\n" for line in lines))
        text = text.replace(f"<trace{index}>", str(path))
    return json.loads(text)


def payload_of(name: str, folder: Path) -> dict[str, Any]:
    """The payload of a recorded case, its traces written into `folder`."""
    case = CASES[name]
    return materialise(case["payload"], case.get("trace_files", []), folder)
