"""docs/configuration.md names every field, states its default and says what is not simulated yet."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from aisimulate.config.aic import AicConfig
from aisimulate.config.calibration import (
    Calibration,
    CalibrationError,
    CalibrationKey,
    CalibrationPoint,
    CalibrationSource,
    StepModel,
)
from aisimulate.config.engine import EngineConfig
from aisimulate.config.frontend import FrontendConfig
from aisimulate.config.kv_router import KvRouterConfig
from aisimulate.config.planner import PlannerConfig, Scheduling, ScriptConfig, ScriptStep
from aisimulate.config.rank import (
    DiskOffload,
    HostOffload,
    RankConfig,
    SglangConfig,
    StateCache,
    TrtllmConfig,
)
from aisimulate.config.spec import (
    Adapters,
    Aggregated,
    Disaggregated,
    Provider,
    ReplayRequest,
    ReplaySpec,
    SlaConfig,
    WorkerPool,
)
from aisimulate.config.timing import ExternalTiming, FixedTiming, LinearTiming, PolynomialTiming
from aisimulate.config.traffic import RuntimeTraffic
from aisimulate.spica.config import (
    OptimizationGoal,
    SearchSpace,
    SLATarget,
    SmartSearchConfig,
    SweepConfig,
    Workload,
)
from aisimulate.spica.parallel_pins import PIN_KEYS
from model_walk import models_below

from .field_walk import STAYS, Acts
from .test_every_payload_field_acts import TABLE as PAYLOAD_TABLE

TEXT = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
LATER = "not simulated yet"
HEADER = ["field", "type", "default", "unit", "rule", "what it does"]
SECTIONS: dict[str, type[BaseModel]] = {
    "The search": SmartSearchConfig,
    "search_space": SearchSpace,
    "workload": Workload,
    "goal": OptimizationGoal,
    "goal.sla": SLATarget,
    "sweep": SweepConfig,
    "spec": ReplaySpec,
    "spec.topology": Aggregated,
    "spec.topology (disaggregated)": Disaggregated,
    "A pool of workers": WorkerPool,
    "spec.adapters": Adapters,
    "An adapter": Provider,
    "kv_router": KvRouterConfig,
    "planner": PlannerConfig,
    "planner.scheduling": Scheduling,
    "scripted": ScriptConfig,
    "scripted.decisions": ScriptStep,
    "spec.sla": SlaConfig,
    "spec.frontend": FrontendConfig,
    "spec.requests": ReplayRequest,
    "spec.engine": EngineConfig,
    "rank": RankConfig,
    "rank.native_host_offload": HostOffload,
    "rank.g3_offload": DiskOffload,
    "rank.state_cache": StateCache,
    "rank.sglang": SglangConfig,
    "rank.trtllm": TrtllmConfig,
    "polynomial": PolynomialTiming,
    "fixed": FixedTiming,
    "linear": LinearTiming,
    "external": ExternalTiming,
    "aic": AicConfig,
    "traffic": RuntimeTraffic,
    "calibration": Calibration,
    "calibration.key": CalibrationKey,
    "calibration.step_model": StepModel,
    "calibration.points": CalibrationPoint,
    "calibration.training_error": CalibrationError,
    "calibration.source": CalibrationSource,
}


def tables() -> dict[str, list[list[str]]]:
    """The rows of the table below each heading."""
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for line in TEXT.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("|"):
            found.setdefault(heading, []).append([cell.strip() for cell in line.strip("|").split("|")])
    return found


ROWS = {heading: rows for heading, rows in tables().items() if rows[0] == HEADER}


def documented(heading):
    return {row[0].strip("`"): row for row in ROWS[heading][2:]}


def test_every_model_has_a_table_and_every_table_a_model():
    assert set(ROWS) == set(SECTIONS)
    # A role is the engine without its two roles.
    models = models_below(SmartSearchConfig, ReplaySpec, RuntimeTraffic, AicConfig, KvRouterConfig)
    assert {model.__name__ for model in models} - {model.__name__ for model in SECTIONS.values()} == {
        "RoleConfig"
    }


@pytest.mark.parametrize("heading", SECTIONS)
def test_a_table_names_the_fields_in_order(heading):
    assert list(documented(heading)) == list(SECTIONS[heading].model_fields)
    assert {len(row) for row in ROWS[heading]} == {len(HEADER)}
    assert [row[0] for row in ROWS[heading] if not row[5]] == []


@pytest.mark.parametrize("heading", SECTIONS)
def test_a_table_states_the_defaults(heading):
    for name, field in SECTIONS[heading].model_fields.items():
        stated = documented(heading)[name][2]
        if field.is_required():
            assert stated == "required", name
            continue
        default = field.get_default(call_default_factory=True)
        value = json.loads(stated.strip("`"))
        if isinstance(default, BaseModel):
            assert type(default).model_validate(value) == default, name
        else:
            assert to_jsonable_python(default) == value, name
            assert type(to_jsonable_python(default)) is type(value), name


@pytest.mark.parametrize(
    "heading", [heading for heading in SECTIONS if SECTIONS[heading] in PAYLOAD_TABLE.rows]
)
def test_a_payload_field_that_comes_later_says_so(heading):
    for name, effects in PAYLOAD_TABLE.rows[SECTIONS[heading]].items():
        later = not any(isinstance(effect, Acts) or effect.why in STAYS for effect in effects)
        assert not later or LATER in documented(heading)[name][5], name


def test_pins_are_documented():
    keys = [row[0] for row in tables()["parallel_configs"][2:]]
    assert keys == list(PIN_KEYS)


def test_links_inside_the_page_lead_to_headings():
    headings = [line.lstrip("# ") for line in TEXT.splitlines() if line.startswith("#")]
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", TEXT)) <= anchors


@pytest.mark.parametrize(
    "statement",
    [
        "arrivals are evenly spaced",
        "null is the value of `parallel_evals`",
        "the ratio times the load (concurrency, or rate), rounded half away from zero, at least 1",
    ],
)
def test_what_is_easily_misunderstood_is_said(statement):
    assert statement in TEXT
