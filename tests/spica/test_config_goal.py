"""Goals, SLAs, sweep effort and YAML files (spec 05 sections 1.1, 1.7)."""

import pytest
import yaml
from pydantic import ValidationError
from spica_configs import SPACE, SYNTHETIC, TOKEN_SLA, make_config

from aisimulate.config.messages import one_line
from aisimulate.spica.config import (
    Candidate,
    OptimizationGoal,
    OptimizationTarget,
    SmartSearchConfig,
    SweepConfig,
)

T = OptimizationTarget


def refusal(model, **fields):
    with pytest.raises(ValidationError) as caught:
        model(**fields)
    return str(caught.value)


def test_directions():
    assert {target.value: target.maximize for target in T if target is not T.PARETO} == {
        "throughput": True,
        "throughput_per_gpu": True,
        "throughput_per_user": True,
        "e2e_latency": False,
        "ttft": False,
        "itl": False,
        "goodput": True,
        "goodput_per_gpu": True,
        "min_gpus": False,
    }
    with pytest.raises(ValueError, match="no scalar direction"):
        _ = T.PARETO.maximize


def test_planner_targets():
    assert {target.value: target.planner_optimization_target for target in T} == {
        "throughput": "throughput",
        "throughput_per_gpu": "throughput",
        "throughput_per_user": "throughput",
        "e2e_latency": "latency",
        "ttft": "latency",
        "itl": "latency",
        "goodput": "sla",
        "goodput_per_gpu": "sla",
        "min_gpus": "sla",
        "pareto": "throughput",
    }


@pytest.mark.parametrize(
    ("objectives", "sla", "planner"),
    [
        (["goodput", "goodput_per_gpu"], TOKEN_SLA, "sla"),
        (["goodput", "goodput_per_gpu"], {"e2e_ms": 9}, "throughput"),
        (["goodput", "throughput"], TOKEN_SLA, "throughput"),
        (None, TOKEN_SLA, "throughput"),
    ],
)
def test_a_front_of_goodputs_scales_for_its_sla(objectives, sla, planner):
    goal = OptimizationGoal(target="pareto", pareto_objectives=objectives, sla=sla)
    assert goal.planner_optimization_target == planner


def test_pareto_defaults():
    goal = OptimizationGoal(target="pareto")
    assert goal.is_pareto
    assert goal.resolved_pareto_objectives == [T.THROUGHPUT_PER_GPU, T.THROUGHPUT_PER_USER]
    assert not OptimizationGoal().is_pareto


@pytest.mark.parametrize(
    ("objectives", "words"),
    [
        ([], "at least 2 objectives"),
        (["throughput"], "at least 2 objectives"),
        (["throughput", "throughput"], "distinct"),
        (["throughput", "pareto"], "cannot contain 'pareto'"),
    ],
)
def test_pareto_objective_rules(objectives, words):
    assert words in refusal(OptimizationGoal, target="pareto", pareto_objectives=objectives)


@pytest.mark.parametrize("target", ["goodput", "goodput_per_gpu"])
@pytest.mark.parametrize("sla", [None, {}])
def test_goodput_requires_an_sla(target, sla):
    message = refusal(OptimizationGoal, target=target, sla=sla)
    assert f"targets like {target} require an SLA" in message


@pytest.mark.parametrize("target", ["goodput", "goodput_per_gpu"])
def test_one_bound_of_two_is_refused_where_planners_scale(target):
    with pytest.raises(ValidationError) as caught:
        make_config(goal={"target": target, "sla": {"itl_ms": 5}})
    assert f"targets like {target} require an SLA" in str(caught.value)


def test_a_goodput_objective_requires_an_sla():
    objectives = ["throughput", "goodput"]
    message = refusal(OptimizationGoal, target="pareto", pareto_objectives=objectives)
    assert "goodput require an SLA" in message
    OptimizationGoal(target="pareto", pareto_objectives=objectives, sla=TOKEN_SLA)


@pytest.mark.parametrize("sla", [TOKEN_SLA, {"e2e_ms": 5}])
def test_a_sufficient_sla(sla):
    assert OptimizationGoal(target="goodput", sla=sla).sla.bounds


@pytest.mark.parametrize("target", [["throughput"], {"a": 1}, 3, None])
def test_any_type_of_target_gives_an_error_with_a_path(target):
    with pytest.raises(ValidationError) as caught:
        make_config(goal={"target": target})
    assert "goal.target" in str(caught.value)


def test_the_nearest_target_is_named():
    with pytest.raises(ValidationError) as caught:
        make_config(goal={"target": "godput"})
    text = one_line(caught.value, "", SmartSearchConfig)
    assert text.startswith("goal.target: ") and "did you mean 'goodput'?" in text


def test_sweep_defaults():
    sweep = SweepConfig()
    assert (sweep.max_rounds, sweep.parallel_evals, sweep.random_seed) == (20, 16, 1)
    assert (sweep.candidates_per_round, sweep.max_eval_seconds, sweep.sampler) == (None, 600.0, "auto")
    assert sweep.per_round == 16
    assert SweepConfig(candidates_per_round=3).per_round == 3


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_rounds", 0),
        ("parallel_evals", 0),
        ("candidates_per_round", 0),
        ("max_eval_seconds", 0),
        ("random_seed", True),
        ("sampler", "gird"),
    ],
)
def test_sweep_bounds(field, value):
    assert field in refusal(SweepConfig, **{field: value})


def test_candidate_refuses_unknown_keys():
    assert "extra" in refusal(Candidate, config={}, used_gpus=1, score=0, metrics={}, extra=1)
    assert Candidate(config={}, used_gpus=1, score=float("-inf"), metrics={}).objectives is None


def test_models_are_immutable():
    with pytest.raises(ValidationError, match="frozen"):
        make_config().sweep.max_rounds = 3


def write(tmp_path, text):
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    return path


def test_from_yaml(tmp_path):
    text = yaml.safe_dump({"search_space": SPACE, "workload": SYNTHETIC, "sweep": {"max_rounds": 3}})
    config = SmartSearchConfig.from_yaml(write(tmp_path, text))
    assert config.sweep.max_rounds == 3
    assert config == SmartSearchConfig.from_yaml(str(tmp_path / "sweep.yaml"))


@pytest.mark.parametrize("text", ["", "# only a comment\n", "null\n"])
def test_an_empty_yaml_file_says_so(tmp_path, text):
    path = write(tmp_path, text)
    with pytest.raises(ValidationError) as caught:
        SmartSearchConfig.from_yaml(path)
    line = one_line(caught.value, "", SmartSearchConfig)
    assert line == "the file is empty: it must be a mapping with search_space and workload"


def test_a_config_knows_its_folder_but_equals_one_from_elsewhere(tmp_path):
    text = yaml.safe_dump({"search_space": SPACE, "workload": SYNTHETIC})
    read = SmartSearchConfig.from_yaml(write(tmp_path, text))
    given = SmartSearchConfig.model_validate(yaml.safe_load(text))
    assert (read.folder, given.folder) == (tmp_path, None)
    assert read == given
    assert read.model_copy().folder == tmp_path
    assert read.model_dump() == given.model_dump()


@pytest.mark.parametrize("text", ["- 1\n", "word\n"])
def test_yaml_that_is_no_mapping(tmp_path, text):
    with pytest.raises(ValidationError, match="valid dictionary"):
        SmartSearchConfig.from_yaml(write(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        "a: [1\n",
        "!!python/object/apply:os.system ['true']\n",
        "a: 1\n---\nb: 2\n",
        "workload: {isl: 1, isl: 2}\n",
        "? [a]\n: 1\n",
    ],
)
def test_yaml_problems(tmp_path, text):
    with pytest.raises(yaml.YAMLError):
        SmartSearchConfig.from_yaml(write(tmp_path, text))


def test_a_repeated_key_is_named(tmp_path):
    with pytest.raises(yaml.YAMLError, match="'isl' appears twice"):
        SmartSearchConfig.from_yaml(write(tmp_path, "workload: {isl: 1, isl: 2}\n"))


def test_yaml_merge_keys_work(tmp_path):
    text = "b: &base {isl: 1}\nworkload:\n  <<: *base\n  isl: 2\n"
    with pytest.raises(ValidationError) as caught:
        SmartSearchConfig.from_yaml(write(tmp_path, text))
    assert "b\n" in str(caught.value), "the mapping was read; only the anchor's own key is unknown"


@pytest.mark.parametrize("name", ["absent.yaml", "."])
def test_unreadable_files(tmp_path, name):
    with pytest.raises(OSError):
        SmartSearchConfig.from_yaml(tmp_path / name)
