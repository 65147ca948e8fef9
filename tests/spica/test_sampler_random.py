from __future__ import annotations

from sampler_contract import SMALL_SIZE, DrawnContract, drain, identity, ranged_branch, small_branch

from aisimulate.core.seeds import named_seed
from aisimulate.spica.parallel_enum import ParallelShape, ReplicaParallelConfig
from aisimulate.spica.samplers.random_sampler import RandomSampler


class TestRandomSampler(DrawnContract):
    def make(self, branch, seed=1):
        return RandomSampler(branch, seed=seed)

    def test_the_order_does_not_depend_on_how_it_is_asked(self):
        one = self.make(small_branch()).suggest(SMALL_SIZE)
        assert [identity(s) for s in one] == [identity(s) for s in drain(self.make(small_branch()), 5, 40)]

    def test_a_huge_space_is_not_materialised(self):
        configs = tuple(ReplicaParallelConfig(ParallelShape(1, 1, 1, 1), n) for n in range(1, 1001))
        choices = {f"knob_{i}": list(range(200)) for i in range(2)}
        branch = small_branch(
            parallel_configs=configs,
            supported_backends=dict.fromkeys(configs, frozenset({"vllm"})),
            knob_choices=choices | {"backend": ["vllm"]},
        )
        seen = drain(self.make(branch), 100, 5)
        assert len({identity(s) for s in seen}) == 500

    def test_low_loads_get_their_share(self):
        loads = [s.selection["kv_load_ratio"] for s in drain(self.make(ranged_branch()), 8, 50)]
        low = sum(load < 0.02 for load in loads)
        # Uniform draws alone would give 2 %; the log half gives another 20 %.
        assert 0.12 * len(loads) < low < 0.35 * len(loads)


def test_streams_of_one_seed_are_apart():
    seeds = {
        named_seed(seed, *names) for seed in (0, 1) for names in (("sampler", "agg"), ("sampler",), ("agg",))
    }
    assert len(seeds) == 6
    assert named_seed(1, "sampler", "agg") == named_seed(1, "sampler", "agg") < 2**64
