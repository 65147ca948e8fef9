"""`SearchSpace`: what is pinned and what is searched (spec 05 sections 1.2 to 1.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from aisimulate.core.errors import nearest
from aisimulate.core.shown import show_python
from aisimulate.spica.choices import SEARCH_CHOICES, checked_choices, default_choices
from aisimulate.spica.field_types import (
    Integer,
    NaturalInt,
    NaturalNumber,
    PositiveInt,
    PositiveNumber,
    SpicaModel,
    Text,
    Utilization,
)
from aisimulate.spica.limits import check_space_limits
from aisimulate.spica.parallel_pins import check_pins

ADMISSION_PINS = (
    "active_decode_blocks_threshold",
    "active_prefill_tokens_threshold",
    "active_prefill_tokens_threshold_frac",
    "no_admission_control",
)
MAX_NEXTN = 5
# Pinned fields that may be searched: `<name>_choices` lists their values.
LISTED_PINS = ("aic_nextn", "num_g2_blocks")


def _check_knob(value: list[Any], info: ValidationInfo) -> list[Any]:
    return checked_choices(str(info.field_name), value, custom=info.data.get("custom_choices", False))


Knob = Annotated[list[Any], AfterValidator(_check_knob)]


def _default(knob: str) -> Callable[[], list[Any]]:
    return lambda: default_choices(knob)


class SearchSpace(SpicaModel):
    """Deployments to choose from: scalars are pinned, lists are searched when they hold several choices.

    Every field name and default is fixed (spec 05 sections 1.2 and 1.3); times in seconds, bandwidths
    in GB/s, block sizes in tokens. Repeated choices are dropped and reported in `notes`.
    """

    model_name: Text
    """the model to serve; its shape decides memory and pass times :rule: a bundled name, or a folder that
    holds a `config.json` (start the path with `.`, `~` or `/`)"""
    hardware_sku: Text
    """the kind of GPU :rule: one of the names that the error lists, such as `h200_sxm`"""
    gpu_budget: PositiveInt = 32
    """the most GPUs a deployment may use :unit: GPUs"""
    min_gpu_budget: Integer | None = None
    """the fewest GPUs a deployment may use :unit: GPUs :rule: 1 to `gpu_budget`"""
    min_endpoint: NaturalInt | None = None
    """least workers per role that autoscaling keeps :unit: workers"""
    context_length: PositiveInt | None = None
    """the longest sequence to provide for; null is the model's own maximum. A worker whose KV cache does not
    hold more is left out, and longer prompts are rejected: set it when you serve shorter sequences :unit:
    tokens"""
    startup_time: NaturalNumber | None = None
    """time a new worker of an autoscaled pool takes :unit: s"""
    aic_nextn: Integer | None = None
    """tokens guessed ahead by speculative decoding, 0 or null is off; accepted with the default rates of
    `aic_nextn_accept_rates` :unit: tokens :rule: 0 to 5"""
    aic_nextn_choices: list[Integer] = Field(default_factory=list)
    """draft lengths to search, 0 for none :unit: tokens :rule: integers from 0 to 5; not beside `aic_nextn`
    """
    backend_version: dict[str, Text] = Field(default_factory=dict)
    """version of the timing data per backend; the current one where none is given :rule: a backend's name to
    a version (or `current`, `next`) that has timing data"""
    custom_choices: bool = False
    """lists of numbers may hold any: counts from 1, router weights from 0, shares from 0 to 1"""
    include_single_gpu_moe: bool = False
    """also try workers of one GPU for a mixture of experts; without it they have 2, 4, 8 or 16 GPUs.
    Recommended for models that fit one GPU :rule: a mixture of experts only"""
    allow_model_download: bool = False
    """fetch the `config.json` of a model that is neither bundled nor in a folder from Hugging Face; without
    it nothing uses the network"""
    timing_mode: Literal["additive", "fused", "half"] = "additive"
    """how aggregated workers time a pass that prefills and decodes: as [one forward after the other, as one,
    or the mean of both](#timing_mode); no effect on the backend sglang and on prefill or decode workers,
    which have no such pass"""
    scheduling_look_ahead: NaturalInt = 0
    """how many passes before it begins a pass is planned: [1](look-ahead.md) is asynchronous scheduling.
    Beside `aic_nextn` it leaves out disagg, with a note :unit: passes :rule: 0 or 1"""

    prefill_block_size: PositiveInt = 64
    """KV block of prefill workers :rule: equal to `decode_block_size`"""
    decode_block_size: PositiveInt = 64
    """KV block of decode workers :rule: equal to `prefill_block_size`"""
    agg_block_size: PositiveInt = 64
    """KV block of aggregated workers :rule: at least 2 for vllm and trtllm; vLLM itself takes 8, 16, 32, 64,
    128 or 256 (a note tells of others)"""
    prefill_gpu_memory_utilization: Utilization = 0.9
    """share of a GPU's memory for weights, activations and KV cache :unit: share"""
    decode_gpu_memory_utilization: Utilization = 0.9
    """the same for decode workers :unit: share"""
    agg_gpu_memory_utilization: Utilization = 0.9
    """the same for aggregated workers; the KV cache gets what weights and activations leave :unit: share"""
    prefill_num_gpu_blocks: PositiveInt | None = None
    """KV blocks of a rank of prefill workers, as the engine prints them when it starts; null estimates them
    from the model, the GPU and its memory share. One number for all layouts: pin them with it"""
    decode_num_gpu_blocks: PositiveInt | None = None
    """the same for decode workers"""
    agg_num_gpu_blocks: PositiveInt | None = None
    """the same for aggregated workers"""
    prefill_enable_prefix_caching: bool = True
    """keep KV blocks for later prompts that start alike"""
    decode_enable_prefix_caching: bool = False
    """the same for decode workers"""
    agg_enable_prefix_caching: bool = True
    """the same for aggregated workers"""

    num_g2_blocks: NaturalInt = 0
    """KV blocks in [host memory](#ranknative_host_offload) behind each attention-DP rank of aggregated and
    prefill workers; only vLLM :rule: above 0 needs `kv_bytes_per_token` and prefix caching of those
    roles, not beside `aic_nextn`"""
    num_g2_blocks_choices: list[NaturalInt] = Field(default_factory=list)
    """sizes of host memory to search, 0 for none; what needs host memory is required as for the largest
    :unit: blocks :rule: integers >= 0; not beside `num_g2_blocks`"""
    kv_bytes_per_token: PositiveInt | None = None
    """size of one token's KV on one tensor-parallel shard, as copied to host memory"""
    bandwidth_g1_to_g2_gbps: PositiveNumber | None = None
    """GPU to host; null is 32"""
    bandwidth_g2_to_g1_gbps: PositiveNumber | None = None
    """host to GPU; null is 32"""
    offload_batch_size: PositiveInt | None = None
    """blocks moved to the host at a time; without effect, because a pass stores all its blocks at once
    :unit: blocks"""
    num_g3_blocks: NaturalInt = 0
    """KV blocks on a [disk](#rankg3_offload) behind host memory; only aggregated, not with attention DP
    :rule: above 0 needs `num_g2_blocks`"""
    g3_scope: Literal["worker_local", "cluster_shared"] = "worker_local"
    """a disk for each worker, or one for all"""
    bandwidth_g2_to_g3_gbps: PositiveNumber | None = None
    """host to disk of a worker; null is 10"""
    bandwidth_g3_to_g2_gbps: PositiveNumber | None = None
    """disk to host of a worker; null is 10"""
    shared_bandwidth_g2_to_g3_gbps: PositiveNumber | None = None
    """hosts to disk of all workers; null is 80 :rule: with `cluster_shared`"""
    shared_bandwidth_g3_to_g2_gbps: PositiveNumber | None = None
    """disk to hosts of all workers; null is 80 :rule: with `cluster_shared`"""
    g3_latency_ms: NaturalNumber | None = None
    """wait before the first byte of a transfer; null is 0.1"""

    active_decode_blocks_threshold: NaturalNumber | None = None
    """admission control of the router; not simulated yet :unit: share :rule: not beside kv_router"""
    active_prefill_tokens_threshold: NaturalInt | None = None
    """admission control of the router; not simulated yet :unit: tokens :rule: not beside kv_router"""
    active_prefill_tokens_threshold_frac: NaturalNumber | None = None
    """admission control of the router; not simulated yet :unit: share :rule: not beside kv_router"""
    no_admission_control: bool = False
    """switch the router's admission control off; not simulated yet :rule: not beside kv_router"""

    deployment_mode: Knob = Field(default_factory=_default("deployment_mode"))
    """every worker does prefill and decode (agg), or separate pools do"""
    backend: Knob = Field(default_factory=_default("backend"))
    """the serving engine"""
    prefill_max_num_batched_tokens: Knob = Field(default_factory=_default("prefill_max_num_batched_tokens"))
    """token budget of one forward pass"""
    prefill_max_num_seqs: Knob = Field(default_factory=_default("prefill_max_num_seqs"))
    """sequences that may run at once on a rank"""
    decode_max_num_batched_tokens: Knob = Field(default_factory=_default("decode_max_num_batched_tokens"))
    """token budget of one forward pass"""
    decode_max_num_seqs: Knob = Field(default_factory=_default("decode_max_num_seqs"))
    """sequences that may run at once on a rank"""
    agg_max_num_batched_tokens: Knob = Field(default_factory=_default("agg_max_num_batched_tokens"))
    """token budget of one forward pass"""
    agg_max_num_seqs: Knob = Field(default_factory=_default("agg_max_num_seqs"))
    """sequences that may run at once on a rank"""
    router_mode: Knob = Field(default_factory=_default("router_mode"))
    """who gets a request: the workers in turn, or by [cache content and load](router.md)"""
    overlap_score_credit: Knob = Field(default_factory=_default("overlap_score_credit"))
    """kv_router: what a cached block takes off the cost"""
    prefill_load_scale: Knob = Field(default_factory=_default("prefill_load_scale"))
    """kv_router: weight of prefills against decodes"""
    host_cache_hit_weight: Knob = Field(default_factory=_default("host_cache_hit_weight"))
    """kv_router: worth of a block in host memory; acts with `num_g2_blocks`"""
    disk_cache_hit_weight: Knob = Field(default_factory=_default("disk_cache_hit_weight"))
    """kv_router: worth of a block on disk; acts with `num_g3_blocks`"""
    router_temperature: Knob = Field(default_factory=_default("router_temperature"))
    """kv_router: randomness of the choice"""
    planner_scaling_policy: Knob = Field(default_factory=_default("planner_scaling_policy"))
    """autoscaling loops ([docs/planner.md](planner.md)) :rule: or an object of four fields and maybe
    `planner_mode`"""
    planner_fpm_sampling: Knob = Field(default_factory=_default("planner_fpm_sampling"))
    """planner: how many forward passes it samples :rule: or an object of two fields"""
    planner_load_sensitivity: Knob = Field(default_factory=_default("planner_load_sensitivity"))
    """planner: how readily it scales down :rule: or an object of two fields"""
    load_predictor_candidates: Knob = Field(default_factory=_default("load_predictor_candidates"))
    """planner: forecasters to choose from ([forecasting.md](forecasting.md)) :rule: or an object with
    `load_predictor`"""

    parallel_configs: list[Any] = Field(default_factory=list)
    """the only layouts to try; empty tries every legal one :rule: see below; needs exactly one deployment
    mode"""

    _notes: tuple[str, ...] = PrivateAttr(default=())

    @property
    def notes(self) -> tuple[str, ...]:
        """What validation changed in the user's input, one line each."""
        return self._notes

    @field_validator("aic_nextn")
    @classmethod
    def _check_nextn(cls, value: int | None) -> int | None:
        if value is not None and not 0 <= value <= MAX_NEXTN:
            raise ValueError(f"aic_nextn must be 0 (off) or 1..{MAX_NEXTN} speculated tokens, got {value}")
        return value

    @field_validator("scheduling_look_ahead")
    @classmethod
    def _check_look_ahead(cls, value: int) -> int:
        if value > 1:
            raise ValueError(f"scheduling_look_ahead must be 0 or 1 passes, got {value}")
        return value

    @field_validator("aic_nextn_choices")
    @classmethod
    def _check_nextn_choices(cls, values: list[int]) -> list[int]:
        wrong = [value for value in values if not 0 <= value <= MAX_NEXTN]
        if wrong:
            raise ValueError(f"aic_nextn_choices must be 0 (off) or 1..{MAX_NEXTN}, got {wrong[0]}")
        return list(dict.fromkeys(values))

    @field_validator("num_g2_blocks_choices")
    @classmethod
    def _drop_repeated_sizes(cls, values: list[int]) -> list[int]:
        return list(dict.fromkeys(values))

    @field_validator("backend_version")
    @classmethod
    def _check_versions(cls, versions: dict[str, str]) -> dict[str, str]:
        for backend in versions:
            if backend not in SEARCH_CHOICES["backend"]:
                legal = SEARCH_CHOICES["backend"]
                problem = f"backend_version: {show_python(backend)} is not one of {', '.join(legal)}"
                raise ValueError(f"{problem}{nearest(backend, legal)}")
        return versions

    @model_validator(mode="wrap")
    @classmethod
    def _note_repeats(cls, data: object, handler: ModelWrapValidatorHandler[SearchSpace]) -> SearchSpace:
        space = handler(data)
        if isinstance(data, dict):
            space._notes = tuple(_repeat_notes(space, data))
        return space

    @model_validator(mode="after")
    def _check_together(self) -> SearchSpace:
        self._take_choices()
        check_space_limits(self)
        self._check_budget()
        self._check_offload()
        self._check_admission()
        if self.prefill_block_size != self.decode_block_size:
            raise ValueError(
                f"prefill_block_size ({self.prefill_block_size}) and decode_block_size "
                f"({self.decode_block_size}) must be equal: the two roles exchange KV blocks"
            )
        # The pins' integral floats become ints; the model is frozen for users, not for its own validator.
        self.__dict__["parallel_configs"] = check_pins(self.parallel_configs, self.deployment_mode)
        return self

    def _take_choices(self) -> None:
        """Set a pinned field that is searched instead to its largest choice, for which all rules hold."""
        for name in LISTED_PINS:
            choices = getattr(self, f"{name}_choices")
            if not choices:
                continue
            if name in self.model_fields_set and getattr(self, name) != max(choices):
                raise ValueError(f"{name} and {name}_choices: give one of them")
            self.__dict__[name] = max(choices)

    def _check_budget(self) -> None:
        minimum = self.min_gpu_budget
        if minimum is not None and not 0 < minimum <= self.gpu_budget:
            raise ValueError(
                f"min_gpu_budget must be above 0 and at most gpu_budget, got min_gpu_budget {minimum} "
                f"with gpu_budget {self.gpu_budget}"
            )

    def _check_offload(self) -> None:
        if self.num_g2_blocks > 0 and self.kv_bytes_per_token is None:
            raise ValueError(f"kv_bytes_per_token is required when num_g2_blocks is {self.num_g2_blocks}")
        for mode, role in (("agg", "agg"), ("disagg", "prefill")):
            caching = getattr(self, f"{role}_enable_prefix_caching")
            if self.num_g2_blocks > 0 and mode in self.deployment_mode and not caching:
                raise ValueError(f"num_g2_blocks {self.num_g2_blocks} needs {role}_enable_prefix_caching")
        if self.num_g3_blocks > 0 and self.num_g2_blocks == 0:
            raise ValueError(f"num_g3_blocks {self.num_g3_blocks} needs num_g2_blocks")
        if self.num_g2_blocks > 0 and self.aic_nextn:
            raise ValueError(f"num_g2_blocks {self.num_g2_blocks} may not be combined with aic_nextn")

    def _check_admission(self) -> None:
        pins = [name for name in ADMISSION_PINS if not _is_unset(getattr(self, name))]
        if pins and "kv_router" in self.router_mode:
            raise ValueError(
                f"{', '.join(pins)}: router admission control is not supported by the Dynamo replay API; "
                "remove it or search round_robin only"
            )


def _is_unset(pin: object) -> bool:
    # By identity: a threshold of 0 is a setting, although it equals False.
    return pin is None or pin is False


def _repeat_notes(space: SearchSpace, data: dict[str, Any]) -> list[str]:
    notes = []
    for knob in (*SEARCH_CHOICES, *(f"{name}_choices" for name in LISTED_PINS)):
        given = data.get(knob)
        dropped = len(given) - len(getattr(space, knob)) if isinstance(given, list | tuple) else 0
        if dropped:
            notes.append(f"{knob}: {dropped} repeated choice(s) dropped")
    return notes
