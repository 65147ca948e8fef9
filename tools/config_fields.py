#!/usr/bin/env python3
"""Write the tables of fields in docs/configuration.md from the configuration models.

usage: python tools/config_fields.py [--check]

What a model says about a field makes its row: type, default, bounds and choices come from the annotation, the
text from the string below the field. That string may end in `:unit:` and in `:rule:`, which holds what the
annotation cannot say. With --check nothing is written, and the exit code is 1 where the page is not current.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import AfterValidator, BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from aisimulate.config import (
    aic,
    calibration,
    engine,
    frontend,
    kv_router,
    planner,
    rank,
    spec,
    timing,
    traffic,
)
from aisimulate.spica import config as search
from aisimulate.spica import config_space, field_types
from aisimulate.spica.choices import EXTRA_CHOICES, SEARCH_CHOICES, default_choices

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
HEADER = ("field", "type", "default", "unit", "rule", "what it does")
SECTIONS: Mapping[str, type[BaseModel]] = {
    "The search": search.SmartSearchConfig,
    "search_space": search.SearchSpace,
    "workload": search.Workload,
    "goal": search.OptimizationGoal,
    "goal.sla": search.SLATarget,
    "sweep": search.SweepConfig,
    "spec": spec.ReplaySpec,
    "spec.topology": spec.Aggregated,
    "spec.topology (disaggregated)": spec.Disaggregated,
    "A pool of workers": spec.WorkerPool,
    "spec.adapters": spec.Adapters,
    "An adapter": spec.Provider,
    "kv_router": kv_router.KvRouterConfig,
    "planner": planner.PlannerConfig,
    "planner.scheduling": planner.Scheduling,
    "scripted": planner.ScriptConfig,
    "scripted.decisions": planner.ScriptStep,
    "spec.sla": spec.SlaConfig,
    "spec.frontend": frontend.FrontendConfig,
    "spec.requests": spec.ReplayRequest,
    "spec.engine": engine.EngineConfig,
    "rank": rank.RankConfig,
    "rank.native_host_offload": rank.HostOffload,
    "rank.g3_offload": rank.DiskOffload,
    "rank.state_cache": rank.StateCache,
    "rank.sglang": rank.SglangConfig,
    "rank.trtllm": rank.TrtllmConfig,
    "polynomial": timing.PolynomialTiming,
    "fixed": timing.FixedTiming,
    "linear": timing.LinearTiming,
    "external": timing.ExternalTiming,
    "aic": aic.AicConfig,
    "traffic": traffic.RuntimeTraffic,
    "calibration": calibration.Calibration,
    "calibration.key": calibration.CalibrationKey,
    "calibration.step_model": calibration.StepModel,
    "calibration.points": calibration.CalibrationPoint,
    "calibration.training_error": calibration.CalibrationError,
    "calibration.source": calibration.CalibrationSource,
}
ALIASES = {"str": "text", "bool": "boolean", "int": "integer", "float": "number", "Any": "any"}
RULES = {
    field_types._positive: "> 0",
    field_types._proper_share: "0 to less than 1",
    field_types._not_negative: ">= 0",
    field_types._at_least_one: ">= 1",
    field_types._ratio: "0 to 1",
    field_types._utilization: "above 0, at most 1",
}
UNITS = {
    "_ms": "ms",
    "_seconds": "s",
    "_secs": "s",
    "_gbps": "GB/s",
    "_tokens": "tokens",
    "_blocks": "blocks",
    "_num_seqs": "sequences",
    "_block_size": "tokens",
    "_per_token": "bytes",
}
FAR = 1_000  # upper bounds above this lie far beyond real deployments; the page says so once


def field_texts(model: type[BaseModel]) -> dict[str, str]:
    """Read the string below each field of a model, base classes first."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if base is BaseModel or not issubclass(base, BaseModel):
            continue
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(node, ast.ClassDef)
        for field, below in zip(node.body, node.body[1:], strict=False):
            is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if is_text and isinstance(field, ast.AnnAssign):
                found[ast.unparse(field.target)] = " ".join(str(below.value.value).split())
    return found


def parted(text: str) -> tuple[str, str, str]:
    """Part the string of a field: what it does, its unit, and its rule."""
    what, _, rule = text.partition(" :rule: ")
    what, _, unit = what.partition(" :unit: ")
    return what, unit, rule


def shown_type(annotation: Any) -> str:
    """Name the JSON type of an annotation; that null is possible shows in the default."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return shown_type(inner[0])
    if origin in (Union, UnionType):
        kinds = {shown_type(each) for each in inner if each is not NoneType}
        return " or ".join(sorted(kinds))
    if origin is Literal:
        return "text" if isinstance(inner[0], str) else "integer"
    if origin in (list, tuple):
        return "list"
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "object"
    if annotation is NoneType:
        return "null"
    if isinstance(annotation, type) and issubclass(annotation, str):
        return "text"  # enumerations are written by their values
    return ALIASES[getattr(annotation, "__name__", str(annotation))]


def metadata(annotation: Any) -> Iterator[Any]:
    """Every marker of an annotation, those of the parts of unions and of `Annotated` included."""
    if get_origin(annotation) is Annotated:
        inner, *markers = get_args(annotation)
        yield from metadata(inner)
        yield from markers
    elif get_origin(annotation) in (Union, UnionType):
        for each in get_args(annotation):
            yield from metadata(each)
    elif get_origin(annotation) is Literal or (isinstance(annotation, type) and issubclass(annotation, Enum)):
        yield annotation


def flattened(markers: Iterator[Any]) -> Iterator[Any]:
    for marker in markers:
        yield from marker.metadata if isinstance(marker, FieldInfo) else [marker]


def bounds(markers: Sequence[Any]) -> str:
    """Say what the bounds of a number allow."""
    over = [marker.gt for marker in markers if isinstance(marker, annotated_types.Gt)]
    least = [marker.ge for marker in markers if isinstance(marker, annotated_types.Ge)]
    most = [marker.le for marker in markers if isinstance(marker, annotated_types.Le) and marker.le <= FAR]
    if most:
        low = f"above {over[0]:g}, at most" if over else f"{least[0]:g} to"
        return f"{low} {most[0]:g}"
    below = [f"below {marker.lt:g}" for marker in markers if isinstance(marker, annotated_types.Lt)]
    low = [f"{sign} {values[0]:g}" for sign, values in ((">", over), (">=", least)) if values]
    return ", ".join([*low[:1], *below])


def derived_rule(name: str, info: FieldInfo) -> str:
    """Say the bounds and choices that the annotation of a field holds."""
    markers = [*flattened(metadata(info.annotation)), *info.metadata]
    for marker in markers:
        if get_origin(marker) is Literal:
            return ", ".join(f"`{choice}`" for choice in get_args(marker))
        if isinstance(marker, type):
            return ", ".join(f"`{choice.value}`" for choice in marker)
        if isinstance(marker, AfterValidator):
            if marker.func in RULES:
                return RULES[marker.func]
            if marker.func is config_space._check_knob:
                return knob_rule(name)
    return bounds(markers)


def knob_rule(name: str) -> str:
    """Say what the list of a knob may hold."""
    if default_choices(name) != list(SEARCH_CHOICES[name]):
        return "of " + ", ".join(f"`{choice}`" for choice in SEARCH_CHOICES[name])
    extra = ", ".join(f"`{choice}`" for choice in EXTRA_CHOICES.get(name, ()))
    return "of the default's" + (f", or {extra}" if extra else "")


def shown_default(info: FieldInfo) -> str:
    """Write the default as JSON; of an object whose fields all have defaults, only what differs from them."""
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True)
    plain = value.model_dump(mode="json", exclude_defaults=True) if isinstance(value, BaseModel) else value
    if isinstance(value, BaseModel) and "type" in type(value).model_fields:
        plain = {"type": value.type, **plain}
    return f"`{json.dumps(to_jsonable_python(plain))}`"


def unit_of(name: str) -> str:
    """The unit that the ending of a name stands for."""
    return next((unit for ending, unit in UNITS.items() if f"_{name}".endswith(ending)), "")


def row(name: str, info: FieldInfo, text: str) -> tuple[str, ...]:
    what, unit, rule = parted(text)
    if not rule.startswith("only "):  # which is narrower than the annotation
        rule = "; ".join(part for part in (derived_rule(name, info), rule) if part)
    kind = shown_type(info.annotation)
    if kind != "boolean":
        unit = unit or unit_of(name)
    return (f"`{name}`", kind, shown_default(info), unit, rule, what)


def table(model: type[BaseModel]) -> list[str]:
    """The lines of a model's table. Raises `SystemExit` where a field says nothing about itself."""
    texts = field_texts(model)
    silent = [name for name in model.model_fields if not texts.get(name)]
    if silent:
        raise SystemExit(
            f"{model.__name__}: {', '.join(silent)} without a string below that says what it does"
        )
    rows = [HEADER, *(row(name, info, texts[name]) for name, info in model.model_fields.items())]
    lines = ["|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|" for cells in rows]
    return [lines[0], "|---" * len(HEADER) + "|", *lines[1:]]


def written(page: str) -> str:
    """Replace the table below every heading that names a model."""
    lines: list[str] = []
    heading, is_replaced = "", False
    opening = f"| {' | '.join(HEADER)} |"
    for line in page.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if line == opening:
            lines += table(SECTIONS[heading])
        is_replaced = line.startswith("|") and (is_replaced or line == opening)
        if not is_replaced:
            lines.append(line)
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    page = PAGE.read_text()
    if "--check" in arguments:
        return int(written(page) != page)
    PAGE.write_text(written(page))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
