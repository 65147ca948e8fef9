"""From the name of a scaling policy in a payload to the policy itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.replay.scaling import ScriptedPolicy

if TYPE_CHECKING:
    from aisimulate.config.spec import ReplaySpec
    from aisimulate.replay.build_scaled import PoolPlan
    from aisimulate.replay.scaling import ScalingPolicy


def policy_of(spec: ReplaySpec, plans: dict[str, PoolPlan]) -> ScalingPolicy:
    """Make the policy that `spec.adapters.scaling` names, for pools by name (agg, or prefill and decode).

    Raises InputError for settings that it does not take.
    """
    del plans
    raise NotImplementedError(spec.adapters.scaling.provider)


__all__ = ["ScriptedPolicy", "policy_of"]
