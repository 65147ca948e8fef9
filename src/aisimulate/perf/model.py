"""`PerfModel`: one engine, and every question the performance model can answer about it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import InputError
from aisimulate.core.shown import show
from aisimulate.core.units import to_ms
from aisimulate.perf.quality import data_quality
from aisimulate.perf.results import Capacity, Latency, MixedLatency, Provenance
from aisimulate.replay.capacity import aic_engine_key, unused_aic_fields
from aisimulate.timing.aic.engine import compile_engine_spec, load_engine
from aisimulate.timing.aic.health import Confidence, engine_confidence
from aisimulate.timing.aic.memory import memory_estimate, num_gpu_blocks
from aisimulate.timing.aic.operations import decode_operations, prefill_operations
from aisimulate.timing.aic.quant import resolve_modes
from aisimulate.timing.aic.sdk import sdk_call
from aisimulate.timing.aic.surface import MAX_BATCH, MAX_CONTEXT_TOKENS, AicTiming
from aisimulate.timing.aic.tables import decode_axes, prefill_axes, table_sources
from aisimulate.timing.aic.version import version_slots

if TYPE_CHECKING:
    from aisimulate.config.aic import AicConfig
    from aisimulate.timing.aic.surface import AicTimer
    from aisimulate.timing.aic.tables import Axis

DEFAULT_MAX_NUM_BATCHED_TOKENS = 8192


class PerfModel:
    """One engine: a model on a kind of GPU, served by a backend in a parallel shape.

    Takes the settings of the replay's `aic` timing provider by their names and with their defaults (`tp`
    defaults to 1, `backend` to vllm): model, system, backend, backend_version, tp, pp, attention_dp,
    moe_tp_size, moe_ep_size, gemm_dtype, moe_dtype, fmha_dtype, kv_cache_dtype, comm_dtype, nextn,
    kv_block_size, the backend's memory fraction, systems_path, allow_model_download.

    `notes` name settings that cannot act. Raises `InputError` for unknown or contradictory settings, and
    `TimingError` when the model cannot be cut into the shape. That it can be timed is only known once asked.
    """

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - validated by AicConfig
        from aisimulate.config.aic import AicConfig  # noqa: PLC0415 - pydantic costs start-up time
        from aisimulate.config.messages import parse_model  # noqa: PLC0415 - as above

        self.config: AicConfig = parse_model(AicConfig, {"tp": 1, "backend": "vllm", **settings}, "")
        self.config.check()
        for name in self.config.unused_fractions:
            problem = f"no effect on {self.config.backend}; set {self.config.fraction_name}"
            raise InputError(f"{name}: {problem}")
        unused = unused_aic_fields(self.config, explicit=False)
        self.notes = tuple(f"{name}: no effect {reason}" for name, reason in unused)
        self._key = aic_engine_key(self.config)
        self._blob = compile_engine_spec(self._key)

    @cached_property
    def _timer(self) -> AicTimer:
        return AicTiming(self._blob, self.config.nextn, exact=True).timer(0, 1.0, 1.0)

    @property
    def verified(self) -> int:
        """Tokens per decoding request and pass: the last one and its drafts."""
        return self.config.nextn + 1

    @property
    def prefill_axes(self) -> tuple[Axis, ...]:
        """The axes of the tables that prefill forwards move along."""
        return prefill_axes(self._key)

    @property
    def decode_axes(self) -> tuple[Axis, ...]:
        """The axes of the tables that decode forwards move along."""
        return decode_axes(self._key)

    def prefill(self, isl: int, *, batch: int = 1, prefix: int = 0) -> Latency:
        """Time a forward that computes the last `isl - prefix` tokens of `batch` prompts of `isl` tokens.

        Raises `InputError` for a value outside its range, `TimingError` when there are no data.
        """
        _check("batch", batch, 1, MAX_BATCH)
        _check("isl", isl, 1, MAX_CONTEXT_TOKENS)
        _check("prefix", prefix, 0, isl - 1)
        ms = to_ms(self._timer.prefill_ns(batch, isl, prefix))
        engine = load_engine(self._blob)
        with sdk_call(str(self._key)):
            operations = tuple(prefill_operations(engine, batch, isl, prefix))
            transfer = engine.last_provenance()
        tokens = batch * (isl - prefix)
        point = {"tokens": tokens, "batch": batch, "length": isl}
        axes = self.prefill_axes
        data = data_quality(axes, point, operations, transfer, tokens * self.config.attention_dp)
        return Latency("prefill", batch, isl, prefix, ms, data, operations)

    def decode(self, context: int, *, batch: int = 1) -> Latency:
        """Time a forward that gives each of `batch` sequences of `context` tokens its next one.

        With `nextn` it verifies that many drafts besides. Raises like `prefill`.
        """
        _check("batch", batch, 1, MAX_BATCH)
        _check("context", context, 1, MAX_CONTEXT_TOKENS)
        ms = to_ms(self._timer.decode_ns(batch, context * batch))
        engine = load_engine(self._blob)
        tokens = batch * self.verified
        with sdk_call(str(self._key)):
            operations = tuple(decode_operations(engine, tokens, context))
            transfer = engine.last_provenance()
        point = {"tokens": tokens, "batch": tokens, "length": context + 1}
        axes = self.decode_axes
        data = data_quality(axes, point, operations, transfer, tokens * self.config.attention_dp)
        return Latency("decode", batch, context, 0, ms, data, operations)

    def mixed(
        self, isl: int, context: int, *, batch: int = 1, prefix: int = 0, prefill_batch: int = 1
    ) -> MixedLatency:
        """Time a pass with the work of `prefill(isl, batch=prefill_batch, ..)` and `decode(context, ..)`.

        Raises like `prefill`.
        """
        prefill = self.prefill(isl, batch=prefill_batch, prefix=prefix)
        decode = self.decode(context, batch=batch)
        fused_ns = self._timer.fused_ns([(prefix, isl)] * prefill_batch, batch, batch * context)
        return MixedLatency(prefill, decode, to_ms(fused_ns))

    def capacity(
        self, *, block_size: int | None = None, max_num_batched_tokens: int = DEFAULT_MAX_NUM_BATCHED_TOKENS
    ) -> Capacity:
        """Estimate the KV cache of a rank. `block_size` None stands for the backend's default.

        Raises `InputError` for a value outside its range, `TimingError` when the engine does not fit the GPU.
        """
        from aisimulate.config.rank import DEFAULT_BLOCK_TOKENS  # noqa: PLC0415 - pydantic costs time

        tokens = block_size or self.config.kv_block_size or DEFAULT_BLOCK_TOKENS[self.config.backend]
        _check("block_size", tokens if block_size is None else block_size, 1, MAX_CONTEXT_TOKENS)
        _check("max_num_batched_tokens", max_num_batched_tokens, 1, MAX_CONTEXT_TOKENS)
        kind, fraction = self.config.resolved_memory_fraction()
        budget: dict[str, Any] = {
            "max_num_tokens": max_num_batched_tokens,
            "memory_fraction_kind": kind,
            "memory_fraction": fraction,
        }
        memory = memory_estimate(self._key, **budget)
        return Capacity(
            tokens=memory.kv_tokens,
            blocks=num_gpu_blocks(self._key, tokens, **budget),
            block_size=tokens,
            ranks=self.config.attention_dp,
            max_num_batched_tokens=max_num_batched_tokens,
            memory_fraction=fraction,
            memory_fraction_kind=kind,
            capacity_bytes=memory.capacity_bytes,
            weights_bytes=memory.weights_bytes,
            activations_bytes=memory.activations_bytes,
            runtime_bytes=memory.runtime_bytes,
            communication_bytes=memory.communication_bytes,
            kv_bytes=memory.kv_bytes,
            kv_bytes_per_token=memory.kv_bytes_per_token,
        )

    def confidence(
        self, *, max_num_batched_tokens: int = DEFAULT_MAX_NUM_BATCHED_TOKENS, longest_tokens: int = 0
    ) -> Confidence:
        """Judge the data for forwards of up to so many tokens and, if it is known, the longest sequence.

        Raises `TimingError` when the engine cannot be timed.
        """
        return engine_confidence(self._key, max_num_batched_tokens, longest_tokens)

    def provenance(self) -> Provenance:
        """Tell which version and tables the figures stand on."""
        key = self._key
        slots = version_slots(key.system, key.backend, key.systems_path)
        slot = next((alias for alias, literal in slots.items() if literal == key.backend_version), None)
        return Provenance(
            backend_version=key.backend_version,
            slot=slot,
            slots=slots,
            dtypes=dict(resolve_modes(key).effective),
            tables=table_sources(key),
            advisories=self._blob.advisories,
        )


def _check(name: str, value: int, low: int, high: int) -> None:
    """Hold a size against its range: AI Configurator extrapolates without limit and without a word."""
    if type(value) is not int or not low <= value <= high:
        raise InputError(f"{name}: {show(value)} is not a whole number from {low} to {high}")
