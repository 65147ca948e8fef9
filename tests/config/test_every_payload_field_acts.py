"""Every field of a payload acts, or is refused, or is reported without effect.

Only what this version leaves to later ones may do the last two; each such row names its reason.
"""

from __future__ import annotations

import pytest

from aisimulate.config.aic import AicConfig
from aisimulate.config.calibration import CalibrationKey
from aisimulate.config.kv_router import KvRouterConfig
from aisimulate.config.planner import PlannerConfig, ScriptConfig
from aisimulate.config.spec import ReplaySpec
from aisimulate.config.traffic import RuntimeTraffic
from aisimulate.core.errors import AISimulateError
from aisimulate.replay.execute import execute
from model_walk import models_below

from .field_payloads import AIC, CROWD, SYNTHETIC, TRACE
from .field_table_calibration import TABLE as CALIBRATION_TABLE
from .field_table_engine import TABLE as ENGINE_TABLE
from .field_table_planner import TABLE as PLANNER_TABLE
from .field_table_router import TABLE as ROUTER_TABLE
from .field_table_spec import TABLE as SPEC_TABLE
from .field_walk import STAYS, Acts, FieldTable, Inert, Refused, changed, result

TABLE = FieldTable(
    {
        **SPEC_TABLE.rows,
        **ENGINE_TABLE.rows,
        **ROUTER_TABLE.rows,
        **PLANNER_TABLE.rows,
        **CALIBRATION_TABLE.rows,
    }
)
ACTS, REFUSED, INERT = (list(TABLE.cases(kind)) for kind in (Acts, Refused, Inert))

# The fields that do nothing for another reason than that their subject comes later.
WITHOUT_CHOICE = {
    "ReplaySpec.version",
    "RankConfig.worker_type",
    "RankConfig.trtllm",
    "TrtllmConfig.capacity_scheduler_policy",
    "ExternalTiming.provider",
    "AicConfig.fmha_dtype",
    "AicConfig.comm_dtype",
    "AicConfig.kv_block_size",
    "AicConfig.allow_model_download",
    "RuntimeTraffic.max_sim_time_ms",
    "Calibration.version",
    "Calibration.key",
    *(f"CalibrationKey.{name}" for name in CalibrationKey.model_fields),
    "KvRouterConfig.disk_cache_hit_weight",
    "PlannerConfig.mode",
    "PlannerConfig.prefill_engine_num_gpu",
    "PlannerConfig.decode_engine_num_gpu",
    "PlannerConfig.speculative_nextn",
    "PlannerConfig.prophet_window_size",
    "PlannerConfig.fpm_sample_bucket_size",
    "PlannerConfig.report_interval_hours",
    "PlannerConfig.live_dashboard_port",
}


def named(cases):
    return pytest.mark.parametrize("effect", [effect for _, effect in cases], ids=[name for name, _ in cases])


@named(ACTS)
def test_a_field_acts(effect):
    before, after = execute(effect.base), execute(changed(effect.base, effect.changes))
    assert before.get(effect.metric) != after.get(effect.metric)
    assert after.get("notes") == before.get("notes")


@named(REFUSED)
def test_a_field_is_refused_with_its_reason(effect):
    with pytest.raises(AISimulateError) as caught:
        execute(changed(effect.base, effect.changes))
    assert effect.text in str(caught.value)
    assert "\n" not in str(caught.value)
    assert execute(effect.base)["completed_requests"] > 0


@named(INERT)
def test_a_field_without_effect_is_reported(effect):
    payload = changed(effect.base, effect.changes)
    assert effect.note in execute(payload)["notes"]
    assert effect.note not in execute(effect.base).get("notes", ())
    assert result(payload) == result(effect.base)


def test_every_field_of_every_model_is_walked():
    walked = {f"{model.__name__}.{name}" for model, fields in TABLE.rows.items() for name in fields}
    models = models_below(ReplaySpec, RuntimeTraffic, AicConfig, KvRouterConfig, PlannerConfig, ScriptConfig)
    assert walked == {f"{model.__name__}.{name}" for model in models for name in model.model_fields}


def test_a_row_changes_the_field_it_stands_for():
    for name, effect in [*ACTS, *REFUSED, *INERT]:
        field = name.split(".")[1].split("-")[0]
        assert any(
            field in path.split(".") or f"'{field}'" in str(value) for path, value in effect.changes.items()
        ), name


def test_only_what_comes_later_may_have_no_effect():
    idle = {
        f"{model.__name__}.{name}"
        for model, fields in TABLE.rows.items()
        for name, effects in fields.items()
        if not any(isinstance(effect, Acts) or effect.why not in STAYS for effect in effects)
    }
    assert idle == WITHOUT_CHOICE


def test_a_plain_payload_has_no_remarks():
    for base in (CROWD, SYNTHETIC, TRACE, AIC):
        assert "notes" not in execute(base)


def test_an_unknown_field_of_a_request_is_reported_once():
    typos = {f"spec.requests.{number}.dp_rnk": 0 for number in (1, 4)}
    assert execute(changed(CROWD, typos))["notes"] == [
        "spec.requests[].dp_rnk: unknown field, ignored; did you mean 'dp_rank'?"
    ]
