"""Whether the performance data of an engine can be right, and how far they reach (spec 07 section 4.1).

Each engine gets a grade with its reasons. `low`: its data contradict themselves, or the times of its own
batch sizes lie far outside what was measured. `medium`: something stands in for a measurement of this
engine. `high`: neither.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from aisimulate.core.errors import AISimulateError
from aisimulate.timing.aic.engine import compile_engine_spec, load_engine
from aisimulate.timing.aic.operations import decode_operations, prefill_operations
from aisimulate.timing.aic.quant import resolve_modes
from aisimulate.timing.aic.sdk import sdk_call
from aisimulate.timing.aic.tables import decode_axes, prefill_axes, table_sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.timing.aic.key import EngineKey
    from aisimulate.timing.aic.operations import OperationTime
    from aisimulate.timing.aic.tables import TableSource

GRADES = ("low", "medium", "high")
"""From worst to best."""

SLOWER = 1.5
SLOWER_US_PER_LAYER = 20.0
"""Quantised weights may cost a kernel of a few us before each multiplication. An operation that takes this
many times the one of bfloat16 weights, and this much longer in each layer, was measured wrongly."""

FAR = 4.0
"""Times at sizes this many times outside the measured ones are guesses."""

FORMULA_SHARE = 0.25
"""More of a forward than this from formulas is no measurement of it."""

# The same weights with other activations: whichever an engine uses, its steps are hardly slower.
_NEIGHBOURS = {"w4a16_mxfp4": "w4a8_mxfp4_mxfp8"}

ABOVE = 1.25
"""Whole steps with weights of fewer bits that take this many times those of more bits were measured on
another day, or with another kernel; which of the two is wrong nobody can tell."""

_MORE_BITS = {"nvfp4": ("fp8_static", "fp8_block", "fp8")}

_BATCHES = (1, 8, 64)
_CONTEXT_TOKENS = 1024
_PLAIN = "bfloat16"


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason for less than full confidence. `implausible`: the data contradict themselves."""

    grade: str
    text: str
    implausible: bool = False


@dataclass(frozen=True, slots=True)
class Confidence:
    """The worst grade of all findings, `high` without any."""

    findings: tuple[Finding, ...] = ()

    @property
    def grade(self) -> str:
        """`low`, `medium` or `high`."""
        return min((finding.grade for finding in self.findings), key=GRADES.index, default="high")

    @property
    def reasons(self) -> tuple[str, ...]:
        """The findings in words, worst first."""
        ranked = sorted(self.findings, key=lambda finding: GRADES.index(finding.grade))
        return tuple(dict.fromkeys(finding.text for finding in ranked))

    @property
    def implausible(self) -> tuple[str, ...]:
        """What cannot be right."""
        return tuple(finding.text for finding in self.findings if finding.implausible)

    def __or__(self, other: Confidence) -> Confidence:
        """Both together, for deployments of several engines."""
        return Confidence(tuple(dict.fromkeys((*self.findings, *other.findings))))


def reaches(grade: str, least: str) -> bool:
    """Whether a grade is at least `least`."""
    return GRADES.index(grade) >= GRADES.index(least)


def engine_confidence(key: EngineKey, most_tokens: int, longest_tokens: int = 0) -> Confidence:
    """Judge the data of an engine whose forwards compute up to `most_tokens` per attention-DP rank.

    `longest_tokens`: of its longest sequence, 0 where it is not known. Raises like `compile_engine_spec` and,
    where a forward cannot be timed at all, `TimingError`.
    """
    return Confidence((*_of_any_size(key), *_outside(key, most_tokens, longest_tokens)))


@lru_cache(maxsize=1024)
def _of_any_size(key: EngineKey) -> tuple[Finding, ...]:
    """Find what holds whatever the forwards are."""
    return (*_slower_than_others(key), *_above_neighbours(key), *_stand_ins(key))


def _slower_than_others(key: EngineKey) -> Iterator[Finding]:
    """Compare the operations of decode steps with those of the same engine on other data types."""
    effective = resolve_modes(key).effective
    for field in ("gemm_dtype", "moe_dtype"):
        dtype = effective.get(field, _PLAIN)
        neighbour = _NEIGHBOURS.get(dtype)
        beside = {} if neighbour is None else _slower_operations(key, _with_dtype(key, field, neighbour))
        if beside:
            text = f"{dtype} weights {max(beside.values()):.1f} times slower than {neighbour}: check {field}"
            yield Finding("medium", text)
        slower = {} if dtype == _PLAIN else _slower_operations(key, _with_dtype(key, field, _PLAIN))
        if slower:
            name = max(slower, key=lambda name: slower[name])
            text = (
                f"{key.backend} {key.backend_version} on {key.system}: {dtype} weights up to "
                f"{slower[name]:.1f} times slower than {_PLAIN} ({name}), which is not physical: prefer "
                "other weights or another backend"
            )
            yield Finding("low", text, implausible=True)


def _above_neighbours(key: EngineKey) -> Iterator[Finding]:
    """Compare whole decode steps with those on weights of more bits, where these were measured."""
    effective = resolve_modes(key).effective
    for field in ("gemm_dtype", "moe_dtype"):
        dtype = effective.get(field, _PLAIN)
        for neighbour in _MORE_BITS.get(dtype, ()):
            ratios = _step_ratios(key, _with_dtype(key, field, neighbour))
            if sum(ratio > ABOVE for ratio in ratios) * 2 > len(_BATCHES):
                text = f"decode steps on {dtype} weights {max(ratios):.1f} times those on {neighbour}"
                yield Finding("medium", f"{text}: check {field}")
            if ratios:
                break


def _step_ratios(key: EngineKey, other: EngineKey) -> list[float]:
    """How many times those of `other` steps of `key` last; empty where `other` was not measured."""
    try:
        others = _timed_steps(other)
    except AISimulateError:
        return []
    formula = sum(one.ms for step in others for one in step if one.source == "formula")
    totals = [sum(one.ms for one in step) for step in others]
    if formula > FORMULA_SHARE * sum(totals):
        return []
    own = [sum(one.ms for one in step) for step in _timed_steps(key)]
    return [mine / theirs for mine, theirs in zip(own, totals, strict=True)]


def _with_dtype(key: EngineKey, field: str, dtype: str) -> EngineKey:
    return replace(key, gemm_dtype=dtype) if field == "gemm_dtype" else replace(key, moe_dtype=dtype)


def _slower_operations(key: EngineKey, plain: EngineKey) -> dict[str, float]:
    """How many times longer than in `plain` each operation lasts that was measured wrongly.

    One batch size alone proves nothing: kernels differ most at the smallest.
    """
    try:
        other_steps = _steps(plain)
    except AISimulateError:
        return {}  # nothing to compare with
    layers = compile_engine_spec(key).layers
    slower: dict[str, list[float]] = {}
    for step, other in zip(_steps(key), other_steps, strict=True):
        for name, ms in step.items():
            plain_ms = other.get(name, ms)
            if ms > SLOWER * plain_ms and (ms - plain_ms) * 1e3 > SLOWER_US_PER_LAYER * layers:
                slower.setdefault(name, []).append(ms / plain_ms)
    return {name: max(ratios) for name, ratios in slower.items() if 2 * len(ratios) > len(_BATCHES)}


def _steps(key: EngineKey) -> list[dict[str, float]]:
    """Time each operation of decode steps of a few batch sizes, in ms."""
    return [
        {operation.name: operation.ms for operation in step if operation.ms > 0} for step in _timed_steps(key)
    ]


def _timed_steps(key: EngineKey) -> list[list[OperationTime]]:
    engine = load_engine(compile_engine_spec(key))
    with sdk_call(str(key)):
        return [decode_operations(engine, batch, _CONTEXT_TOKENS) for batch in _BATCHES]


def _stand_ins(key: EngineKey) -> Iterator[Finding]:
    """Find tables of other engines, transferred rows, formulas, and data types that were replaced."""
    nearest: dict[str, TableSource] = {}
    for source in table_sources(key):
        nearest.setdefault(source.table, source)
    for source in nearest.values():
        if source.origin == "transferred":
            where = f"{source.framework} {source.version}"
            yield Finding("medium", f"{source.table}: measured with {where} only")
    engine = load_engine(compile_engine_spec(key))
    for phase in ("prefill", "decode"):
        with sdk_call(str(key)):
            operations = (
                prefill_operations(engine, 1, _CONTEXT_TOKENS, 0)
                if phase == "prefill"
                else decode_operations(engine, _BATCHES[1], _CONTEXT_TOKENS)
            )
            transfer = engine.last_provenance()
        if transfer is not None:
            yield Finding("medium", f"{phase}: data of another shape or type ({transfer})")
        total = sum(operation.ms for operation in operations)
        formula = sum(operation.ms for operation in operations if operation.source == "formula")
        if formula > FORMULA_SHARE * total:
            yield Finding("medium", f"{phase}: {formula / total:.0%} of the time from formulas")
    for text in resolve_modes(key).replaced:
        yield Finding("medium", text)


def _outside(key: EngineKey, most_tokens: int, longest_tokens: int) -> Iterator[Finding]:
    """Compare the largest forwards with the range of each table."""
    axes = {(axis.table, axis.name): axis for axis in (*prefill_axes(key), *decode_axes(key))}
    for axis in axes.values():
        asked = longest_tokens if axis.name == "length" else most_tokens
        if axis.name == "batch" or not asked:
            continue
        if axis.table == "moe":
            asked *= key.attention_dp
        most = axis.values[-1] if axis.values else 0
        if asked > most:
            grade = "low" if asked >= FAR * most else "medium"
            yield Finding(grade, f"{axis.table}: {axis.name} up to {asked}, measured up to {most}")
