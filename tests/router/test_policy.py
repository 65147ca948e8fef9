"""Placement by a class of the user's."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from aisimulate.core.errors import InputError, ReplayError
from aisimulate.replay import placement_policies as policies
from aisimulate.replay.execute import execute

from .routed import payload

GUIDE = (Path(__file__).parents[2] / "docs" / "router.md").read_text()
FIXED = {"timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 5.0}}
ROWS = [
    {"timestamp": at_ms, "input_length": 16, "output_length": output, "hash_ids": [1, 2, 3, 4]}
    for at_ms, output in ((0, 100), (100, 2), (200, 2), (300, 2))
]


class Broken:
    """Raises."""

    def choose(self, request: object, targets: list[object]) -> int:
        raise KeyError("mine")


class Far:
    """Picks what nobody has."""

    def choose(self, request: object, targets: list[object]) -> int:
        del request
        return len(targets)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The class of the guide, installed under the names that follow."""
    module: dict[str, Any] = {}
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, re.S)
    exec(code, module)
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    monkeypatch.setattr(f"{__name__}.LeastLoaded", module["LeastLoaded"], raising=False)
    names = {"least_loaded": "LeastLoaded", "far": "Far", "gone": "Gone", "broken": "Broken"}
    points = [EntryPoint(name, f"{__name__}:{kind}", policies.GROUP) for name, kind in names.items()]

    def entry_points(group: str, name: str | None = None) -> list[EntryPoint]:
        assert group == policies.GROUP
        return [point for point in points if name in (None, point.name)]

    monkeypatch.setattr(policies, "entry_points", entry_points)


def workers(asked: dict[str, Any]) -> list[int]:
    records = sorted(execute(asked)["per_request"], key=lambda record: int(record["uuid"]))
    return [record["routing_history"][0]["logical_worker_id"] for record in records]


@pytest.mark.usefixtures("installed")
def test_the_class_of_the_guide_places(tmp_path: Path) -> None:
    """Worker 0 is busy with the first; of the others, 1 has the prompt once the second was there."""
    asked = payload(ROWS, tmp_path, workers=3, block=4, rank=FIXED, provider="least_loaded")
    assert workers(asked) == [0, 1, 1, 1]


@pytest.mark.usefixtures("installed")
def test_settings_reach_the_class(tmp_path: Path) -> None:
    asked = payload(ROWS, tmp_path, workers=3, block=4, rank=FIXED, provider="least_loaded", favour=False)
    with pytest.raises(InputError, match=r"placement: .*LeastLoaded cannot be made: .*favour"):
        execute(asked)
    rows = [ROWS[0] | {"output_length": 2}, ROWS[1] | {"output_length": 100}, *ROWS[2:]]
    rows[2] = rows[2] | {"timestamp": 110}
    for favours, expected in ((True, [0, 0, 1, 1]), (False, [0, 0, 1, 1])):
        asked = payload(rows, tmp_path, block=4, rank=FIXED, provider="least_loaded", favour_cache=favours)
        assert workers(asked) == expected


@pytest.mark.usefixtures("installed")
def test_both_pools_of_a_pair_ask_it(tmp_path: Path) -> None:
    asked = payload(ROWS, tmp_path, pools=(2, 2), block=4, rank=FIXED, provider="least_loaded")
    records = execute(asked)["per_request"]
    assert sorted(record["decode_worker_idx"] for record in records) == [0, 1, 1, 1]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("provider", "error", "text"),
    [
        ("far", ReplayError, r"placement policy Far: 2 is not the index of one of 2 targets"),
        ("broken", ReplayError, r"placement policy Broken: raised KeyError"),
        ("gone", InputError, r"spec.adapters.placement: .*Gone cannot be made: .*'Gone'"),
        ("least_loade", InputError, r'got "least_loade"; did you mean \'least_loaded\'\?'),
    ],
)
def test_a_policy_that_does_not_work_is_named(
    provider: str, error: type[Exception], text: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=text) as caught:
        execute(payload(ROWS, tmp_path, block=4, rank=FIXED, provider=provider))
    assert "\n" not in str(caught.value)
