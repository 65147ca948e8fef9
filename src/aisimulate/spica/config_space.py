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
    in GB/s, block sizes in tokens. `context_length` None means the model's own maximum; `min_endpoint` is
    the planner's floor of replicas per role. `include_single_gpu_moe` also tries one-GPU workers of a mixture
    of experts (D19); `allow_model_download` lets the configuration of an unbundled model be fetched;
    `timing_mode` says whether aggregated workers time a mixed pass as two forwards, as one or by the mean;
    `scheduling_look_ahead` how many passes (0 or 1) before it begins one is planned.
    `agg_num_gpu_blocks` and the like give the KV blocks of a rank instead of estimating them.
    `backend_version` names the version of the timing data per backend; `custom_choices` lets lists hold
    values off their grid; `aic_nextn_choices` and `num_g2_blocks_choices` search what is pinned otherwise.
    Repeated choices are dropped and reported in `notes`.
    """

    model_name: Text
    hardware_sku: Text
    gpu_budget: PositiveInt = 32
    min_gpu_budget: Integer | None = None
    min_endpoint: NaturalInt | None = None
    context_length: PositiveInt | None = None
    startup_time: NaturalNumber | None = None
    aic_nextn: Integer | None = None
    aic_nextn_choices: list[Integer] = Field(default_factory=list)
    backend_version: dict[str, Text] = Field(default_factory=dict)
    custom_choices: bool = False
    include_single_gpu_moe: bool = False
    allow_model_download: bool = False
    timing_mode: Literal["additive", "fused", "half"] = "additive"
    scheduling_look_ahead: NaturalInt = 0

    prefill_block_size: PositiveInt = 64
    decode_block_size: PositiveInt = 64
    agg_block_size: PositiveInt = 64
    prefill_gpu_memory_utilization: Utilization = 0.9
    decode_gpu_memory_utilization: Utilization = 0.9
    agg_gpu_memory_utilization: Utilization = 0.9
    prefill_num_gpu_blocks: PositiveInt | None = None
    decode_num_gpu_blocks: PositiveInt | None = None
    agg_num_gpu_blocks: PositiveInt | None = None
    prefill_enable_prefix_caching: bool = True
    decode_enable_prefix_caching: bool = False
    agg_enable_prefix_caching: bool = True

    num_g2_blocks: NaturalInt = 0
    num_g2_blocks_choices: list[NaturalInt] = Field(default_factory=list)
    kv_bytes_per_token: PositiveInt | None = None
    bandwidth_g1_to_g2_gbps: PositiveNumber | None = None
    bandwidth_g2_to_g1_gbps: PositiveNumber | None = None
    offload_batch_size: PositiveInt | None = None
    num_g3_blocks: NaturalInt = 0
    g3_scope: Literal["worker_local", "cluster_shared"] = "worker_local"
    bandwidth_g2_to_g3_gbps: PositiveNumber | None = None
    bandwidth_g3_to_g2_gbps: PositiveNumber | None = None
    shared_bandwidth_g2_to_g3_gbps: PositiveNumber | None = None
    shared_bandwidth_g3_to_g2_gbps: PositiveNumber | None = None
    g3_latency_ms: NaturalNumber | None = None

    active_decode_blocks_threshold: NaturalNumber | None = None
    active_prefill_tokens_threshold: NaturalInt | None = None
    active_prefill_tokens_threshold_frac: NaturalNumber | None = None
    no_admission_control: bool = False

    deployment_mode: Knob = Field(default_factory=_default("deployment_mode"))
    backend: Knob = Field(default_factory=_default("backend"))
    prefill_max_num_batched_tokens: Knob = Field(default_factory=_default("prefill_max_num_batched_tokens"))
    prefill_max_num_seqs: Knob = Field(default_factory=_default("prefill_max_num_seqs"))
    decode_max_num_batched_tokens: Knob = Field(default_factory=_default("decode_max_num_batched_tokens"))
    decode_max_num_seqs: Knob = Field(default_factory=_default("decode_max_num_seqs"))
    agg_max_num_batched_tokens: Knob = Field(default_factory=_default("agg_max_num_batched_tokens"))
    agg_max_num_seqs: Knob = Field(default_factory=_default("agg_max_num_seqs"))
    router_mode: Knob = Field(default_factory=_default("router_mode"))
    overlap_score_credit: Knob = Field(default_factory=_default("overlap_score_credit"))
    prefill_load_scale: Knob = Field(default_factory=_default("prefill_load_scale"))
    host_cache_hit_weight: Knob = Field(default_factory=_default("host_cache_hit_weight"))
    disk_cache_hit_weight: Knob = Field(default_factory=_default("disk_cache_hit_weight"))
    router_temperature: Knob = Field(default_factory=_default("router_temperature"))
    planner_scaling_policy: Knob = Field(default_factory=_default("planner_scaling_policy"))
    planner_fpm_sampling: Knob = Field(default_factory=_default("planner_fpm_sampling"))
    planner_load_sensitivity: Knob = Field(default_factory=_default("planner_load_sensitivity"))
    load_predictor_candidates: Knob = Field(default_factory=_default("load_predictor_candidates"))

    parallel_configs: list[Any] = Field(default_factory=list)

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
