"""Synthetic load: equal requests, optionally in sessions and with shared prefixes (spec 02 section 3)."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.core.rng import ChaChaRng
from aisimulate.core.traffic import Session, Turn
from aisimulate.core.units import round_half_away
from aisimulate.workload.limits import MAX_INSTANT_MS, MAX_TOKENS, require_whole
from aisimulate.workload.plain import PlainSessions, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SMALLEST_NORMAL = 2.0**-1022
_MAX_SEED = 2**64 - 1


class TooSlow(InputError):
    """The sessions are so far apart that the last one starts when the clock has ended."""


@dataclass(frozen=True, slots=True)
class Burst:
    """All sessions start at 0 ms; a concurrency cap, if any, does the pacing."""


@dataclass(frozen=True, slots=True)
class ConstantRate:
    """Sessions start at equal distances, `request_rate` per second."""

    request_rate: float


@dataclass(frozen=True, slots=True)
class Poisson:
    """Sessions start at exponential distances, on average `request_rate` per second."""

    request_rate: float


Arrivals = Burst | ConstantRate | Poisson


def synthetic_sessions(
    *,
    isl: int,
    osl: int,
    sessions: int,
    turns: int = 1,
    shared_prefix_ratio: float = 0.0,
    num_prefix_groups: int = 0,
    inter_turn_delay_ms: float = 0.0,
    arrivals: Arrivals,
    block_tokens: int,
    content_seed: int = 0,
    arrival_seed: int = 42,
) -> Sequence[Session]:
    """Build `sessions` sessions of `turns` turns, each of `isl` new prompt tokens and `osl` output tokens.

    Sessions start at `arrivals`; later turns wait `inter_turn_delay_ms` after the previous one ended. With
    prefix groups, each session draws a group and every prompt begins with `shared_prefix_ratio` of its
    blocks (of `block_tokens`) from it. Ids are None where nothing can be shared. Raises InputError.
    """
    _check_lengths(isl, osl, sessions, turns, block_tokens)
    require_whole("arrival_seed", arrival_seed, 0, _MAX_SEED)
    _check_sharing(shared_prefix_ratio, num_prefix_groups)
    if not 0.0 <= inter_turn_delay_ms <= MAX_INSTANT_MS:
        raise InputError(
            f"inter_turn_delay_ms must be a finite number of at least 0, got {inter_turn_delay_ms:g}"
        )
    starts_ms = _starts_ms(arrivals, sessions, arrival_seed)
    blocks = -(-isl // block_tokens)
    shared = min(blocks, round_half_away(blocks * shared_prefix_ratio))
    delays_ms = [0.0] + [float(inter_turn_delay_ms)] * (turns - 1)
    if num_prefix_groups == 0 or shared == 0:
        if turns == 1:
            plain = PlainSessions("session_", with_ids=False)
            isls, osls = array("I", [isl]) * sessions, array("I", [osl]) * sessions
            plain.add(whole_numbers("Q", 0, sessions), starts_ms, isls, osls)
            return plain
        private = [Turn(isl, osl, delay_ms=delay) for delay in delays_ms]
        return [Session(f"session_{i}", private, start) for i, start in enumerate(starts_ms)]
    prompts = _shared_prompts(ChaChaRng(content_seed), num_prefix_groups, blocks, shared, turns)
    return [
        Session(f"session_{i}", [Turn(isl, osl, next(prompts), delay_ms=delay) for delay in delays_ms], start)
        for i, start in enumerate(starts_ms)
    ]


def sharing_notes(shared_prefix_ratio: float, num_prefix_groups: int) -> list[str]:
    """Say what a user may not expect of these two settings together."""
    if shared_prefix_ratio > 0.0 and num_prefix_groups == 0:
        return [f"shared_prefix_ratio {shared_prefix_ratio:g} has no effect without num_prefix_groups"]
    if num_prefix_groups > 0 and shared_prefix_ratio == 0.0:
        return [f"num_prefix_groups {num_prefix_groups} has no effect without shared_prefix_ratio"]
    return []


def _shared_prompts(rng: ChaChaRng, groups: int, blocks: int, shared: int, turns: int) -> Iterator[list[int]]:
    """Yield the block ids of prompt after prompt: a group's ids, then ids never used before."""
    fresh = groups * shared
    private = blocks - shared
    while True:
        first = rng.below(groups) * shared
        for _ in range(turns):
            yield [*range(first, first + shared), *range(fresh, fresh + private)]
            fresh += private


def _starts_ms(arrivals: Arrivals, sessions: int, seed: int) -> Sequence[float]:
    """First arrivals, the first at 0 ms."""
    if isinstance(arrivals, Burst):
        return array("d", bytes(8 * sessions))
    starts = [0.0]
    for gap_ms in _gaps_ms(arrivals, sessions - 1, seed):
        starts.append(starts[-1] + gap_ms)
    if starts[-1] > MAX_INSTANT_MS:
        raise TooSlow(f"the last session would start at {starts[-1]:g} ms, beyond {MAX_INSTANT_MS:g}")
    return starts


def _gaps_ms(arrivals: ConstantRate | Poisson, number: int, seed: int) -> Iterator[float]:
    rate = arrivals.request_rate
    if not (math.isfinite(rate) and rate > 0.0):
        raise InputError(f"request_rate must be a finite number above 0, got {rate:g}")
    mean_ms = 1000.0 / rate
    if isinstance(arrivals, ConstantRate):
        return repeat(mean_ms, number)
    rng = ChaChaRng(seed)
    return (-mean_ms * math.log(max(1.0 - rng.f64(), _SMALLEST_NORMAL)) for _ in range(number))


def _check_lengths(isl: int, osl: int, sessions: int, turns: int, block_tokens: int) -> None:
    require_whole("isl", isl, 1, MAX_TOKENS)
    require_whole("osl", osl, 1, MAX_TOKENS)
    require_whole("request_count", sessions, 1, MAX_TOKENS)
    require_whole("turns_per_session", turns, 1, MAX_TOKENS)
    require_whole("block_size", block_tokens, 1, MAX_TOKENS)


def _check_sharing(ratio: float, groups: int) -> None:
    if not 0.0 <= ratio <= 1.0:
        raise InputError(f"shared_prefix_ratio must be between 0 and 1, got {ratio:g}")
    require_whole("num_prefix_groups", groups, 0, MAX_TOKENS)
