"""Many questions to one engine at once: every combination of the given values."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, TypeVar

from aisimulate.core.errors import InputError, TimingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from aisimulate.perf.model import PerfModel
    from aisimulate.perf.results import Capacity, Latency, MixedLatency
    from aisimulate.timing.aic.health import Confidence

Answer = TypeVar("Answer")

PHASES = ("prefill", "decode", "mixed", "capacity")
MAX_ROWS = 10_000

_LATENCIES = ("prefill", "decode", "mixed")
_PROMPTS = ("prefill", "mixed")
_DECODES = ("decode", "mixed")
_CAPACITY = ("capacity",)

# The phases whose answers a value can change; what is not listed describes the engine in all of them.
USED_BY = {
    "batch": _LATENCIES,
    "isl": _PROMPTS,
    "prefix": _PROMPTS,
    "context": _DECODES,
    "prefill_batch": ("mixed",),
    "nextn": _DECODES,
    "operations": ("prefill", "decode"),
    "block_size": _CAPACITY,
    "max_num_batched_tokens": _CAPACITY,
    "gpu_memory_utilization": _CAPACITY,
    "mem_fraction_static": _CAPACITY,
    "free_gpu_memory_fraction": _CAPACITY,
}


@dataclass(frozen=True, slots=True)
class Questions:
    """Values to combine: `batch` requests of `isl` tokens of which `prefix` are cached, or at `context`.

    In a mixed pass `batch` sequences decode beside `prefill_batch` prompts.
    """

    phases: tuple[str, ...] = PHASES
    batch: tuple[int, ...] = (1, 8, 64)
    isl: tuple[int, ...] = (1024, 8192)
    prefix: tuple[int, ...] = (0,)
    context: tuple[int, ...] = (1024, 8192)
    prefill_batch: tuple[int, ...] = (1,)
    block_size: int | None = None
    max_num_batched_tokens: int = 8192


@dataclass(slots=True)
class Answers:
    """What the engine answered; `problems` name what it has no figures for, one line each.

    `confidence` is that in the data of its forwards, None where there are none.
    """

    prefill: list[Latency] = field(default_factory=list)
    decode: list[Latency] = field(default_factory=list)
    mixed: list[MixedLatency] = field(default_factory=list)
    capacity: Capacity | None = None
    confidence: Confidence | None = None
    problems: list[str] = field(default_factory=list)


def ask(model: PerfModel, questions: Questions) -> Answers:
    """Ask for every combination. Raises `InputError` for a value that makes no sense."""
    _check_size(questions)
    answers = Answers()
    _ask_all(_prefills(model, questions), answers.prefill, answers.problems)
    _ask_all(_decodes(model, questions), answers.decode, answers.problems)
    _ask_all(_mixed(model, questions), answers.mixed, answers.problems)
    if answers.prefill or answers.decode or answers.mixed:
        longest = max(*questions.isl, *questions.context)
        tokens = questions.max_num_batched_tokens
        with suppress(TimingError):  # what cannot be timed is among the problems already
            answers.confidence = model.confidence(max_num_batched_tokens=tokens, longest_tokens=longest)
    if "capacity" in questions.phases:
        tokens, block_size = questions.max_num_batched_tokens, questions.block_size
        call = partial(model.capacity, block_size=block_size, max_num_batched_tokens=tokens)
        capacities: list[Capacity] = []
        _ask_all([call], capacities, answers.problems)
        answers.capacity = capacities[0] if capacities else None
    return answers


def unused_values(names: Iterable[str], phases: Iterable[str]) -> list[str]:
    """List those of the named values that change no answer of `phases`."""
    asked = set(phases)
    return [name for name in names if asked.isdisjoint(USED_BY.get(name, PHASES))]


def _prefills(model: PerfModel, q: Questions) -> Iterator[Callable[[], Latency]]:
    if "prefill" in q.phases:
        for batch, isl, prefix in product(q.batch, q.isl, q.prefix):
            yield partial(model.prefill, isl, batch=batch, prefix=prefix)


def _decodes(model: PerfModel, q: Questions) -> Iterator[Callable[[], Latency]]:
    if "decode" in q.phases:
        for batch, context in product(q.batch, q.context):
            yield partial(model.decode, context, batch=batch)


def _mixed(model: PerfModel, q: Questions) -> Iterator[Callable[[], MixedLatency]]:
    if "mixed" in q.phases:
        for prompts, isl, prefix, batch, context in product(
            q.prefill_batch, q.isl, q.prefix, q.batch, q.context
        ):
            yield partial(model.mixed, isl, context, batch=batch, prefix=prefix, prefill_batch=prompts)


def _ask_all(calls: Iterable[Callable[[], Answer]], answers: list[Answer], problems: list[str]) -> None:
    for call in calls:
        try:
            answers.append(call())
        except TimingError as error:
            if str(error) not in problems:
                problems.append(str(error))


def _check_size(q: Questions) -> None:
    prompts = len(q.isl) * len(q.prefix)
    rows = len(q.batch) * (prompts + len(q.context) + prompts * len(q.context) * len(q.prefill_batch))
    if rows > MAX_ROWS:
        raise InputError(f"{rows} combinations are more than {MAX_ROWS}: give fewer values")
