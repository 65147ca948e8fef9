"""Vizier itself, which the extra `vizier` brings: `make extra` runs this. It takes minutes."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from sampler_contract import SamplerContract, drain, identity, small_branch
from search_fakes import Notes, SeqsEvaluator, forget_the_model

from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.samplers.vizier_names import ALGORITHMS
from aisimulate.spica.samplers.vizier_sampler import AskLimits, VizierSampler
from aisimulate.spica.samplers.vizier_study import VizierStudy
from aisimulate.spica.search import run_search

SMART_SWEEP = Path(__file__).parents[2] / "examples/aisimulate/spica/configs/smart_sweep.yaml"
STUDIES = iter(range(1, 10_000))


class InProcess:
    """A study of Vizier in this process: the same one, without a process per test."""

    def __init__(self, request, history, limits):
        self.study = VizierStudy(request, history)

    def call(self, method, *arguments):
        return getattr(self.study, method)(*arguments)

    def close(self):
        pass


def make(branch, seed=1, algorithm="RANDOM_SEARCH", **options):
    return VizierSampler(
        branch,
        study_id=f"spica_test_{next(STUDIES)}",
        seed=seed,
        algorithm=algorithm,
        **({"open_study": InProcess} | options),
    )


class TestVizierRandomSearch(SamplerContract):
    finite = False

    def make(self, branch, seed=1):
        return make(branch, seed)


@pytest.mark.parametrize(
    "algorithm", [name for name in ALGORITHMS if not name.startswith(("GP", "GAUSS", "DEF"))]
)
def test_every_algorithm_suggests_learns_and_is_seeded(algorithm):
    runs = [[identity(s) for s in drain(make(small_branch(), 4, algorithm), 3, 3)] for _ in range(2)]
    assert runs[0] == runs[1]
    assert len(set(runs[0])) > 3 or algorithm == "GRID_SEARCH"  # whose first values are one deployment


def test_the_study_is_what_the_space_says():
    sampler = make(small_branch(float_ranges={"kv_load_ratio": (0.0, 0.8)}))
    sampler.suggest(1)
    config = sampler._study.study._study.materialize_study_config()
    parameters = {parameter.name: parameter for parameter in config.search_space.parameters}
    assert parameters["agg_num_gpus_per_engine_target"].scale_type.name == "LOG"
    assert parameters["agg_max_num_seqs"].scale_type.name == "LINEAR"
    assert parameters["kv_load_ratio"].bounds == (0.0, 0.8)
    assert parameters["kv_load_ratio"].default_value == pytest.approx(0.4)
    assert parameters["backend"].default_value == "vllm"
    assert config.algorithm == "RANDOM_SEARCH"


def test_trials_carry_what_was_projected():
    sampler = make(small_branch())
    good, bad = sampler.suggest(2)
    sampler.observe(good, {"objective": 1.0})
    sampler.observe_infeasible(bad, "broken")
    trials = list(sampler._study.study._study.trials().get())
    assert trials[0].final_measurement.metrics["objective"].value == 1.0
    assert '"actual_features"' in trials[0].metadata["spica_projection"]
    assert trials[1].infeasibility_reason == "broken"


def test_nothing_is_written_into_the_installed_package():
    vizier = pytest.importorskip("vizier")
    make(small_branch()).suggest(1)
    assert not list(Path(vizier.__file__).parent.rglob("vizier.db"))


@functools.cache
def smart_sweep():
    config = SmartSearchConfig.from_yaml(SMART_SWEEP).model_dump(mode="json")
    config["workload"]["trace_path"] = str(SMART_SWEEP.parents[4] / config["workload"]["trace_path"])
    config["sweep"] |= {
        "max_rounds": 3,
        "parallel_evals": 1,
        "candidates_per_round": 4,
        "max_eval_seconds": None,
    }
    config["sweep"]["sampler"] = "vizier"
    return config


class GoodputEvaluator(SeqsEvaluator):
    """Goodput grows with the sequences, and falls with the GPUs."""

    def evaluate(self, plan, *, concurrency_override=None):
        engine = plan.agg_engine_args or plan.decode_engine_args
        workers = plan.num_workers + plan.num_prefill_workers + plan.num_decode_workers
        return {
            "completed_requests": 8,
            "goodput_output_throughput_tok_s": float(engine["max_num_seqs"]),
            "gpu_hours": workers / 10,
            "duration_ms": 360_000.0,
        }


def search(**sweep):
    observer = Notes()
    config = smart_sweep() | {"sweep": smart_sweep()["sweep"] | sweep}
    result = run_search(
        SmartSearchConfig.model_validate(config), evaluator=GoodputEvaluator(), observer=observer
    )
    return result, [note for note in observer.notes if "vizier" in note]


@pytest.mark.slow
def test_the_published_sweep_for_three_rounds():
    """Real studies over the published space; what is measured is made up, for it is Vizier that is tested."""
    result, notes = search(max_suggest_seconds=900.0)
    assert notes == []
    assert [report.deployment_mode for report in result.branches] == ["disagg", "agg"]
    assert [report.rounds for report in result.branches] == [3, 3]
    assert len(result.candidates) == 24


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"max_suggest_seconds": 1.0}, "took longer than 1 s"),
        ({"max_suggest_mb": 150}, "took more than 150 MB"),
    ],
)
def test_the_guard_acts_and_the_sweep_goes_on(limits, reason):
    result, notes = search(**limits)
    assert len(result.candidates) == 24
    instead = f"vizier {reason}; suggestions were drawn quasi-randomly instead"
    assert notes == [
        f"smart-sweep {mode}: ask {number}: {instead}{end}"
        for mode in ("disagg", "agg")
        for number, end in ((1, ""), (2, ", as all later ones will be"))
    ]


def test_limits_have_defaults():
    assert AskLimits() == AskLimits(120.0, 4096.0)


@pytest.fixture(autouse=True)
def _no_model(monkeypatch):
    """Enumerate the branches with AIC, but check no capacity of candidates."""
    forget_the_model(monkeypatch)
