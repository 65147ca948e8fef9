"""What surrounds the engines; what a target cannot say; and what it refuses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from engine_arguments import parsed, recorded
from exported_cases import BASE, CASES, KV_ROUTER, PLANNER, agg, disagg, shape

from aisimulate.core.errors import InputError
from aisimulate.report.export.coverage import unexpressed
from aisimulate.report.export.deployment import deployment_of
from aisimulate.report.export.targets import TARGETS, export_candidate
from aisimulate.spica.config import OptimizationGoal
from aisimulate.spica.deploy import build_deployment

GOAL = OptimizationGoal.model_validate({"target": "goodput", "sla": {"ttft_ms": 1000, "itl_ms": 30}})


def graph_of(config):
    export = export_candidate(config, GOAL, "dynamo")
    documents = list(yaml.safe_load_all(export.files["dynamo.yaml"]))
    components = {item["name"]: item for item in documents[-1]["spec"]["components"]}
    files = documents[0]["data"] if documents[0]["kind"] == "ConfigMap" else {}
    return components, files, export


def container(component):
    return component["podTemplate"]["spec"]["containers"][0]


def test_dynamo_expresses_the_router():
    components, _, export = graph_of(agg(**KV_ROUTER, host_cache_hit_weight=0.75))
    arguments = container(components["Frontend"])["args"]
    assert arguments[:2] == ["-m", "dynamo.frontend"]
    options = parsed(arguments[2:], recorded("dynamo")["frontend"])
    assert options == {
        "--router-mode": "kv",
        "--router-kv-overlap-score-credit": "0.5",
        "--router-prefill-load-scale": "4",
        "--router-host-cache-hit-weight": "0.75",
        "--router-temperature": "0.2",
    }
    assert not any("kv_router" in remark for remark in export.remarks)
    plain, _, _ = graph_of(agg())
    assert container(plain["Frontend"])["args"][2:] == ["--router-mode", "round-robin"]


def test_dynamo_expresses_the_planner():
    config = disagg(**PLANNER, min_endpoint=1)
    components, files, _ = graph_of(config)
    settings = json.loads(files["planner.json"])
    assert set(settings) <= set(recorded("dynamo")["planner"])
    plan = build_deployment(config, backend_version="1", optimization_target="sla", planner_sla=GOAL.sla)
    given = {name: value for name, value in plan.planner_config.items() if value is not None}
    own = {"environment": "kubernetes", "backend": "vllm", "model_name": "acme/some-model"}
    assert settings == own | given
    assert (settings["ttft_ms"], settings["load_predictor"], settings["min_endpoint"]) == (1000, "kalman", 1)
    planner = components["Planner"]
    assert planner["type"] == "planner"
    assert container(planner)["args"] == ["--config", "/aisimulate/planner.json"]
    [volume] = planner["podTemplate"]["spec"]["volumes"]
    [mount] = container(planner)["volumeMounts"]
    assert volume["name"] == mount["name"] == volume["configMap"]["name"]


def test_dynamo_spreads_large_workers_over_nodes():
    config = agg(**shape(tp=1, dp=16, moe_ep=16, replicas=2), used_gpus=32)
    components, _, _ = graph_of(config)
    assert components["agg"]["multinode"] == {"nodeCount": 2}
    assert container(components["agg"])["resources"] == {"limits": {"nvidia.com/gpu": "8"}}
    for target in ("vllm", "compose", "kubernetes", "llm-d"):
        with pytest.raises(InputError, match="16 GPUs, more than the 8 of a node"):
            export_candidate(config, GOAL, target)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"planner_mode": "direct", "planner_scaling_policy": "direct_hybrid_180_5"}, "sizes pools by the"),
        ({"load_predictor": "ridge"}, "'ridge' is a forecaster of ours"),
    ],
)
def test_dynamo_refuses_planners_that_it_has_not(changes, problem):
    with pytest.raises(InputError, match=problem):
        export_candidate(agg(**(PLANNER | changes)), GOAL, "dynamo")


def test_llmd_has_the_pools_and_a_picker_for_them():
    export = export_candidate(disagg(), GOAL, "llm-d")
    values = yaml.safe_load(export.files["values.yaml"])
    assert (values["prefill"]["replicas"], values["decode"]["replicas"]) == (2, 1)
    assert values["decode"]["parallelism"] == {"tensor": 1, "data": 8, "dataLocal": 8}
    assert values["routing"]["proxy"]["enabled"] is True
    for role, port in (("prefill", 8000), ("decode", 8200)):
        [engine] = values[role]["containers"]
        assert engine["ports"][0]["containerPort"] == port
        record = recorded("vllm")
        assert "--kv-transfer-config" in parsed(engine["args"], record["flags"], record["negatable"])
    picker = yaml.safe_load(export.files["endpoint-picker.yaml"])
    named = {plugin["type"] for plugin in picker["plugins"]}
    used = {item["pluginRef"] for profile in picker["schedulingProfiles"] for item in profile["plugins"]}
    assert used <= named
    assert "always-disagg-pd-decider" in named
    alone = export_candidate(agg(**KV_ROUTER), GOAL, "llm-d")
    assert yaml.safe_load(alone.files["values.yaml"])["prefill"] == {"create": False}
    assert "prefix-cache-scorer" in alone.files["endpoint-picker.yaml"]
    assert any("weights of its own" in remark for remark in alone.remarks)


def front_of(config):
    export = export_candidate(config, GOAL, "compose")
    return export, yaml.safe_load(export.files["compose.yaml"])["services"].get("front")


def test_compose_joins_the_pools_of_sglang_by_its_router():
    _, front = front_of(disagg("sglang"))
    command = front["command"]
    workers = [f"http://prefill-{number}:8000" for number in range(2)]
    assert [command[at + 1] for at, word in enumerate(command) if word == "--prefill"] == workers
    assert [command[at + 1] for at, word in enumerate(command) if word == "--decode"] == [
        "http://decode-0:8000"
    ]
    assert front["depends_on"] == ["prefill-0", "prefill-1", "decode-0"]
    assert front["image"].startswith("lmsysorg/sglang:")
    assert front["ports"] == ["127.0.0.1:8000:8000"]


def test_compose_joins_the_pools_of_tensorrt_llm_by_its_server():
    export, front = front_of(disagg("trtllm"))
    assert front["command"] == ["trtllm-serve", "disaggregated", "-c", "/aisimulate/trtllm-front.yaml"]
    assert front["volumes"] == ["./trtllm-front.yaml:/aisimulate/trtllm-front.yaml:ro"]
    settings = yaml.safe_load(export.files["trtllm-front.yaml"])
    assert settings["context_servers"]["urls"] == ["prefill-0:8000", "prefill-1:8000"]
    assert settings["generation_servers"] == {
        "num_instances": 1,
        "router": {"type": "round_robin"},
        "urls": ["decode-0:8000"],
    }


def options(command, name):
    return [command[at + 1] for at, word in enumerate(command) if word == name]


def test_compose_joins_the_pools_of_vllm_by_its_router():
    export, front = front_of(disagg())
    command = front["command"]
    assert front["image"].startswith("vllm/vllm-router:")
    assert options(command, "--prefill") == ["http://prefill-0:8000", "http://prefill-1:8000"]
    assert options(command, "--decode") == ["http://decode-0:8000"]
    known = recorded("vllm_router")["flags"]
    assert [word for word in command if word.startswith("--") and word not in known] == []
    services = yaml.safe_load(export.files["compose.yaml"])["services"]
    shell, at_own_address = services["prefill-0"]["entrypoint"][:2], services["prefill-0"]["entrypoint"][2]
    assert shell == ["/bin/sh", "-c"]
    ran = subprocess.run(
        [*shell, at_own_address.replace("$$", "$"), "vllm", "sh", "-c", "echo $VLLM_NIXL_SIDE_CHANNEL_HOST"],
        capture_output=True,
        text=True,
    )
    assert re.fullmatch(r"[0-9a-f.:]+\n", ran.stdout), ran.stderr


def test_kubernetes_joins_the_pools_of_vllm_and_says_that_others_are_not_joined():
    export = export_candidate(disagg(), GOAL, "kubernetes")
    documents = list(yaml.safe_load_all(export.files["kubernetes.yaml"]))
    named = {(document["kind"], document["metadata"]["name"]): document for document in documents}
    services = {name for kind, name in named if kind == "Service"}
    (front,) = (name for kind, name in named if kind == "Deployment" and name.endswith("-front"))
    assert front in services
    pod = named["Deployment", front]["spec"]["template"]["spec"]["containers"][0]
    reached = [*options(pod["command"], "--prefill"), *options(pod["command"], "--decode")]
    assert {url.removeprefix("http://").removesuffix(":8000") for url in reached} == services - {front}
    worker = named["Deployment", front.replace("-front", "-prefill")]["spec"]["template"]["spec"]
    assert worker["containers"][0]["env"][0]["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    for backend in ("sglang", "trtllm"):
        remarks = export_candidate(disagg(backend), GOAL, "kubernetes").remarks
        assert any("a proxy for the engine has to join the two pools" in remark for remark in remarks)


@pytest.mark.parametrize(("config", "target"), [(agg("sglang"), "vllm"), (agg("trtllm"), "llm-d")])
def test_another_engine_than_was_simulated_is_refused(config, target):
    with pytest.raises(InputError, match=f"simulated with {config['backend']}"):
        export_candidate(config, GOAL, target)


@pytest.mark.parametrize("target", ["vllm", "compose", "kubernetes"])
def test_what_a_target_cannot_say_is_loud_in_its_files(target):
    tiers = {"num_g2_blocks": 10, "kv_bytes_per_token": 100, "num_g3_blocks": 20, "g3_scope": "worker_local"}
    config = agg(**{**KV_ROUTER, **PLANNER, **tiers, "active_decode_blocks_threshold": 0.5, "novelty": 3})
    export = export_candidate(config, GOAL, target)
    loud = [line for text in export.files.values() for line in text.splitlines() if "NOT EXPRESSED" in line]
    for word in (
        "overlap_score_credit 0.5, prefill_load_scale 4.0",
        "planner hybrid_180_5",
        "num_g3_blocks 20",
        "active_decode_blocks_threshold 0.5",
        "novelty 3: not known to this export",
    ):
        assert any(word in line for line in loud), word
    assert len(loud) >= len(export.remarks)


def test_every_field_of_a_sample_is_known():
    """A new field of samples must be placed in report/export/coverage.py, or it is told as unknown."""
    for config in CASES.values():
        full = {name: 1 if value is None else value for name, value in config.items()} | {"num_g2_blocks": 0}
        assert not [remark for remark in unexpressed(deployment_of(full, None), ()) if "not known" in remark]
    assert set(BASE) <= set(CASES["vllm dense"])


EXPORTS = """
from test_export_targets import GOAL, KV_ROUTER, PLANNER, TARGETS, agg, export_candidate
for target in TARGETS:
    config = agg(target if target in ("sglang", "trtllm") else "vllm", **KV_ROUTER, **PLANNER)
    print(target, export_candidate(config, GOAL, target))
"""


def test_the_same_candidate_gives_the_same_bytes():
    """In processes that order the members of sets differently."""
    texts = [
        subprocess.run(
            [sys.executable, "-c", EXPORTS],
            cwd=Path(__file__).parent,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts[0].count("files=") == len(TARGETS)
    assert texts[0] == texts[1]
