"""What is exported, read back, is what was simulated; and every option is one that its engine has."""

from __future__ import annotations

import shlex

import pytest
import yaml
from engine_arguments import parsed, read_sglang, read_trtllm, read_vllm, recorded
from exported_cases import CASES, agg, disagg

from aisimulate.perf.data_slots import data_slots
from aisimulate.report.export.targets import export_candidate
from aisimulate.report.launch import launch_lines
from aisimulate.spica.config import OptimizationGoal
from aisimulate.spica.deploy import build_deployment

GOAL = OptimizationGoal.model_validate({"target": "goodput", "sla": {"ttft_ms": 1000, "itl_ms": 30}})
READERS = {"vllm": read_vllm, "sglang": read_sglang}
PROGRAMS = {
    "vllm": (["vllm", "serve"], []),
    "sglang": (["python", "-m", "sglang.launch_server"], ["--model-path"]),
    "trtllm": (["trtllm-serve"], []),
}


def planned(config, role):
    """What the simulator was told of a role, in the names of its plan."""
    plan = build_deployment(
        config,
        backend_version="1.2.3",
        optimization_target="sla",
        planner_sla={"ttft_ms": 1.0, "itl_ms": 1.0},
    )
    arguments = getattr(plan, f"{role}_engine_args")
    names = ("aic_tp_size", "aic_attention_dp_size", "max_num_batched_tokens", "max_num_seqs", "block_size")
    more = ("gpu_memory_utilization", "enable_prefix_caching", "worker_type")
    return {
        **{name: arguments[name] for name in (*names, *more)},
        "moe_ep": arguments.get("aic_moe_ep_size", 1),
        "max_model_len": plan.max_model_len,
        "aic_nextn": arguments.get("aic_nextn"),
    }


def read_back(backend, argv, files):
    program, model_option = PROGRAMS[backend]
    assert argv[: len(program)] == program
    rest = argv[len(program) :]
    assert rest[: len(model_option) + 1] == [*model_option, "acme/some-model"]
    arguments = rest[len(model_option) + 1 :]
    if backend == "trtllm":
        return read_trtllm(arguments, files)
    return READERS[backend](arguments)


def roles(config):
    return ("agg",) if config["deployment_mode"] == "agg" else ("prefill", "decode")


@pytest.mark.parametrize("name", CASES)
def test_scripts_read_back_are_the_plan(name):
    config = CASES[name]
    backend = config["backend"]
    export = export_candidate(config, GOAL, backend)
    for role in roles(config):
        script = export.files[f"{role}.sh"]
        command = script.splitlines()[-1]
        argv = shlex.split(command.removeprefix("exec ").removesuffix(' "$@"'))
        expected = planned(config, role)
        if backend == "sglang":
            tokens = expected.pop("max_num_batched_tokens")
            expected["max_num_batched_tokens"] = None
            told = any(f"max_num_batched_tokens {tokens}" in remark for remark in export.remarks)
            assert told is (tokens != 8192)
        assert read_back(backend, argv, export.files) == expected


@pytest.mark.parametrize("name", CASES)
def test_the_terminal_shows_the_commands_that_are_exported(name):
    config = CASES[name]
    export = export_candidate(config, GOAL, config["backend"])
    shown = [line for text in launch_lines(config) for line in text.splitlines() if not line.startswith("#")]
    scripts = [export.files[f"{role}.sh"].splitlines()[-1] for role in roles(config)]
    assert scripts == [f'exec {line} "$@"' for line in shown]


@pytest.mark.parametrize("target", ["compose", "kubernetes", "dynamo"])
@pytest.mark.parametrize("name", CASES)
def test_containers_start_the_same_engines(name, target):
    config = CASES[name]
    backend = config["backend"]
    export = export_candidate(config, GOAL, target)
    commands = {"compose": of_compose, "kubernetes": of_kubernetes, "dynamo": of_dynamo}[target](
        export, config
    )
    assert set(commands) == set(roles(config))
    for role, (argv, count) in commands.items():
        prefix = "" if role == "agg" else f"{role}_"
        assert count == config[f"{prefix}replicas"]
        if target == "dynamo":
            check_dynamo_worker(backend, role, argv, export, config)
            continue
        tail = ["--host", "0.0.0.0", "--port", "8000"]
        assert argv[-4:] == tail
        argv = [item.removeprefix("/aisimulate/") for item in argv[:-4]]
        expected = planned(config, role)
        if backend == "sglang":
            expected["max_num_batched_tokens"] = None
        assert read_back(backend, argv, files_of(export, target)) == expected


def documents(export, name):
    return list(yaml.safe_load_all(export.files[name]))


def files_of(export, target):
    if target != "kubernetes":
        return export.files
    first = documents(export, "kubernetes.yaml")[0]
    return first["data"] if first["kind"] == "ConfigMap" else {}


def of_compose(export, config):
    services = documents(export, "compose.yaml")[0]["services"]
    found = {}
    gpus = []
    for name, service in services.items():
        if name == "front":
            continue
        role = name.rpartition("-")[0]
        found[role] = (service["command"], found.get(role, (None, 0))[1] + 1)
        gpus += service["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
    assert gpus == [str(number) for number in range(config["used_gpus"])], "every GPU belongs to one worker"
    return found


def of_kubernetes(export, config):
    found = {}
    for document in documents(export, "kubernetes.yaml"):
        if document["kind"] == "Deployment":
            [container] = document["spec"]["template"]["spec"]["containers"]
            role = document["metadata"]["labels"]["app.kubernetes.io/component"]
            if role == "front":
                continue
            assert document["spec"]["selector"]["matchLabels"] == document["metadata"]["labels"]
            found[role] = (container["command"], document["spec"]["replicas"])
            prefix = "" if role == "agg" else f"{role}_"
            gpus = config[f"{prefix}tp"] * config[f"{prefix}attention_dp"]
            assert container["resources"]["limits"] == {"nvidia.com/gpu": str(gpus)}
    return found


def of_dynamo(export, config):
    graph = documents(export, "dynamo.yaml")[-1]
    assert (graph["apiVersion"], graph["kind"]) == ("nvidia.com/v1beta1", "DynamoGraphDeployment")
    found = {}
    for component in graph["spec"]["components"]:
        if component["type"] in ("worker", "prefill", "decode"):
            [container] = component["podTemplate"]["spec"]["containers"]
            found[component["name"]] = (container["args"], component["replicas"])
    return found


def check_dynamo_worker(backend, role, argv, export, config):
    own = recorded("dynamo")[backend]
    expected = planned(config, role)
    if backend == "trtllm":
        options = parsed(argv, own)
        dp = config["attention_dp" if role == "agg" else f"{role}_attention_dp"]
        assert int(options["--tensor-parallel-size"]) == expected["aic_tp_size"] * dp
        assert options.get("--enable-attention-dp", False) is (dp > 1)
        assert int(options["--expert-parallel-size"]) == expected["moe_ep"]
        assert int(options["--max-num-tokens"]) == expected["max_num_batched_tokens"]
        assert int(options["--max-batch-size"]) == expected["max_num_seqs"]
        assert int(options["--kv-block-size"]) == expected["block_size"]
        data = documents(export, "dynamo.yaml")[0]["data"]
        extra = yaml.safe_load(data[options["--extra-engine-args"].removeprefix("/aisimulate/")])
        assert extra["kv_cache_config"]["enable_block_reuse"] is expected["enable_prefix_caching"]
        return
    record = recorded(backend)
    options = parsed(argv, {*record["flags"], *own, "--model"}, record["negatable"])
    assert options.pop("--model" if backend == "vllm" else "--model-path") == "acme/some-model"
    mode = options.pop("--disaggregation-mode", None) if backend == "vllm" else None
    assert mode == (None if role == "agg" or backend == "sglang" else role)
    routed = config["router_mode"] == "kv_router" and expected["enable_prefix_caching"]
    assert (options.pop("--kv-events-config", None) is not None) is routed
    arguments = [
        part for name, value in options.items() for part in ([name] if value is True else [name, value])
    ]
    if backend == "sglang":
        expected["max_num_batched_tokens"] = None
    assert READERS[backend](arguments) == expected


def test_a_command_survives_any_name():
    name = "acme/a model; rm -rf ~ $(id) 'x'"
    [text] = launch_lines(agg(model_name=name))
    assert shlex.split(text.splitlines()[1])[2] == name
    export = export_candidate(disagg(model_name=name), GOAL, "dynamo")
    graph = documents(export, "dynamo.yaml")[-1]
    args = graph["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["args"]
    assert args[:2] == ["--model", name]
    assert graph["metadata"]["name"] == "aisim-a-model-rm-rf-id-x"


def test_options_of_tensorrt_llm_are_older_than_its_oldest_data():
    """The list of 1.0.0 itself is not recorded; documents before and of it name all that is written."""
    known = set(recorded("trtllm")["before"]["flags"])
    for config in CASES.values():
        if config["backend"] == "trtllm":
            files = export_candidate(config, GOAL, "trtllm").files
            words = [word for text in files.values() for word in text.split() if word.startswith("--")]
            assert words
            assert set(words) <= known


@pytest.mark.parametrize("backend", ["vllm", "sglang"])
def test_every_version_with_measurements_has_the_options(backend):
    """The commands are the same for all versions that have data, so each of them must know every option."""
    record = recorded(backend)
    measured = {
        version
        for backends in data_slots().values()
        for name, slots in backends.items()
        if name == backend
        for version in slots.values()
    }
    assert measured <= {record["version"], *record["missing_in"]}, "record the options of the new version"
    used = {
        word
        for name, config in CASES.items()
        if name.startswith(backend)
        for text in launch_lines(config)
        for word in shlex.split(text.splitlines()[1])
        if word.startswith("--") and not word.startswith("--no-")
    }
    assert "--kv-transfer-config" in used or "--disaggregation-mode" in used
    for version, missing in record["missing_in"].items():
        assert used.isdisjoint(missing), version
