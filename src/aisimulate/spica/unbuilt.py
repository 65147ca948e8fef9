"""What a look-ahead or a front end of a search cannot be combined with yet: choices dropped, pins refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.config.frontend import PRESETS
from aisimulate.core.errors import UnsupportedError
from aisimulate.spica.planner import enables_scaling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeAlias

    from aisimulate.config.frontend import FrontendConfig
    from aisimulate.spica.config import SmartSearchConfig

    # By knob: whether a choice is left out.
    Rules: TypeAlias = Mapping[str, Callable[[Any], bool]]

_SCALING: Rules = {"planner_scaling_policy": enables_scaling}
_ROUTED: Rules = {"router_mode": lambda mode: mode != "round_robin"}
_AGGREGATED: Rules = {"deployment_mode": lambda mode: mode != "agg"}
_PLAIN: Rules = {**_AGGREGATED, **_ROUTED, **_SCALING}


def unbuilt_choices(config: SmartSearchConfig) -> list[tuple[str, Rules]]:
    """List, by the setting that is to blame, which choices of a search cannot be simulated beside it.

    Raises UnsupportedError, one line, for what is pinned beside it.
    """
    space, found = config.search_space, list[tuple[str, "Rules"]]()
    if space.scheduling_look_ahead:
        setting = f"scheduling_look_ahead {space.scheduling_look_ahead}"
        _refuse_pins(config, setting, ("num_g2_blocks",))
        if drafts := max([space.aic_nextn or 0, *space.aic_nextn_choices]):
            found.append((f"{setting} and aic_nextn {drafts}", _AGGREGATED))
    frontend = config.workload.frontend
    if frontend is None:
        return found
    chunk = max(_interval(frontend, "stream_interval", backend) for backend in space.backend)
    looks = max(_interval(frontend, "receive_interval", backend) for backend in space.backend)
    if chunk > 1:
        setting = f"workload.frontend.stream_interval {chunk}"
        _refuse_pins(config, setting, ("aic_nextn",))
    if looks > 1:
        setting = f"workload.frontend.receive_interval {looks}"
        _refuse_pins(config, setting, ("num_g2_blocks",))
        found.append((setting, _PLAIN))
    return found


def _refuse_pins(config: SmartSearchConfig, setting: str, names: tuple[str, ...]) -> None:
    for name in names:
        if value := getattr(config.search_space, name):
            raise UnsupportedError(
                f"search_space.{name} {value}: cannot be simulated yet with {setting}; set 0"
            )


def _interval(frontend: FrontendConfig, name: str, backend: str) -> int:
    given = getattr(frontend, name)
    if given is not None or frontend.preset is None:
        return int(given or 1)
    return int(PRESETS[f"inferencex-{backend}"].get(name, 1))
