"""Which candidates of a search are replayed in part only, and which of them in full at its end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aisimulate.replay.parts import FEWEST_WAVES
from aisimulate.spica.config_goal import OptimizationTarget
from aisimulate.spica.deploy import scales
from aisimulate.spica.evaluator import SHORT_SESSIONS, ReplayEvaluator
from aisimulate.spica.reported import was_short
from aisimulate.spica.score import rank

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.spica.config import Candidate, SmartSearchConfig
    from aisimulate.spica.evaluate import EvaluationContext, Prepared

# Goals that a closed loop has settled for when its waves agree (spec 08 section 4.1).
_SETTLING = frozenset(
    {
        OptimizationTarget.THROUGHPUT,
        OptimizationTarget.THROUGHPUT_PER_GPU,
        OptimizationTarget.THROUGHPUT_PER_USER,
        OptimizationTarget.E2E_LATENCY,
    }
)
_FEWEST_FINALISTS = 16
_FINAL_SHARE = 0.1
_MOST_OF_A_FRONT = 48  # a long front is a line: points between these hold next to nothing more
_TINY = 1e-12  # stands for values that have no logarithm
_LEAST_GAIN = 1.25  # times the sessions of a short replay, for a trace to be cut
_SHORT_SUFFIX = " short"


def may_be_short(sample: Mapping[str, Any], context: EvaluationContext) -> bool:
    """Whether a candidate may be replayed in part.

    Not where pools scale, for their intervals are long, nor where a bound decides who is feasible at all.
    """
    evaluator, config = context.evaluator, context.config
    if config.sweep.early_stop == "off" or config.goal.strict_sla:
        return False
    if not isinstance(evaluator, ReplayEvaluator):
        return False
    if not evaluator.can_be_short or scales(sample):
        return False
    if config.workload.is_trace_based:
        return context.trace_sessions > _LEAST_GAIN * SHORT_SESSIONS
    return _settles(sample, config)


def _settles(sample: Mapping[str, Any], config: SmartSearchConfig) -> bool:
    """Whether a closed loop settles.

    Ranks of SGLang that run in step take long to (spec 08 2.2): two waves agree while both still drift, so
    what follows from them is up to 3 % too low. That is for a search that asks for it. Requests that share
    prefixes are not equal: what is cached changes from wave to wave.
    """
    workload = config.workload
    if workload.request_rate is not None or workload.turns_per_session > 1:
        return False
    if workload.frontend is not None:
        return False  # waves are those of engines
    if workload.shared_prefix_ratio > 0:
        return False
    if workload.num_request_ratio is None or workload.num_request_ratio < FEWEST_WAVES:
        return False
    return set(config.goal.targets) <= _SETTLING and (
        config.sweep.early_stop == "rough" or not _runs_in_step(sample)
    )


def _runs_in_step(sample: Mapping[str, Any]) -> bool:
    """Whether attention-DP ranks of SGLang wait for each other."""
    names = ("attention_dp", "prefill_attention_dp", "decode_attention_dp")
    return sample["backend"] == "sglang" and any((sample.get(name) or 1) > 1 for name in names)


def short_key(key: str) -> str:
    """Name the part of a replay, as the key names the whole."""
    return key + _SHORT_SUFFIX


def in_full(prepared: Prepared) -> Prepared:
    """Ask for the whole replay of a candidate."""
    return replace(prepared, key=prepared.key.removesuffix(_SHORT_SUFFIX), short=False)


def finalists(candidates: Sequence[Candidate], config: SmartSearchConfig) -> list[Candidate]:
    """Choose those of the candidates measured in part whose whole replay is worth its time.

    The best 16, or the best tenth if that is more; of several objectives the front, and what is behind it,
    but of more than 48 points of it (or that tenth) so many that lie far apart. Of those that measured
    exactly the same only the first.
    """
    short = _distinct([candidate for candidate in candidates if was_short(candidate)])
    wanted = max(_FEWEST_FINALISTS, round(_FINAL_SHARE * len(short)))
    if not config.goal.is_pareto:
        return rank(short)[:wanted]
    return _front_layers(short, config, wanted)


def _distinct(candidates: list[Candidate]) -> list[Candidate]:
    first: dict[tuple[object, ...], Candidate] = {}
    for candidate in candidates:
        first.setdefault((candidate.used_gpus, *sorted(candidate.metrics.items())), candidate)
    return list(first.values())


def _front_layers(candidates: list[Candidate], config: SmartSearchConfig, wanted: int) -> list[Candidate]:
    """Take fronts, best first, until there are `wanted`: whole ones, as far as there is room."""
    import numpy as np  # noqa: PLC0415 - numpy costs start-up time

    from aisimulate.spica.pool_gp.design import far_apart  # noqa: PLC0415 - as above
    from aisimulate.spica.pool_gp.fronts import layers  # noqa: PLC0415 - as above

    if not candidates:
        return []
    signs = np.array([1.0 if target.maximize else -1.0 for target in config.goal.targets])
    values = np.array([list((candidate.objectives or {}).values()) for candidate in candidates]) * signs
    logs = np.log(np.maximum(np.abs(values), _TINY))
    room = max(_MOST_OF_A_FRONT, wanted)
    rows: list[int] = []
    for layer in layers(values, wanted):
        rows += [int(layer[place]) for place in far_apart(logs[layer], room - len(rows))]
    return [candidates[row] for row in sorted(rows)]
