"""Whether the forwards of a replay lie on, between or beyond what was measured, without timing them again."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from aisimulate.perf.model import PerfModel
from aisimulate.perf.quality import data_quality

if TYPE_CHECKING:
    from aisimulate.perf.results import DataQuality

_CACHED = 1 << 16


class ForwardOrigins:
    """The data behind the forwards of one engine; made from the settings of its `aic` timing.

    Data that stand in for others (`transferred`) are told by one forward of each phase.
    Raises what `PerfModel` raises.
    """

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - validated by PerfModel
        self._model = PerfModel(**settings)
        self._prefill_transfer = self._model.prefill(1024).data.transfer
        self._decode_transfer = self._model.decode(1024).data.transfer
        self.prefill = lru_cache(maxsize=_CACHED)(self._prefill)
        self.decode = lru_cache(maxsize=_CACHED)(self._decode)

    def _prefill(self, tokens: int, batch: int, length: int) -> DataQuality:
        """Judge a forward of `tokens` new tokens of `batch` prompts of `length` tokens on average."""
        axes = self._model.prefill_axes
        return self._judged(axes, tokens, batch, length, self._prefill_transfer)

    def _decode(self, batch: int, context: int) -> DataQuality:
        """Judge a forward that gives each of `batch` sequences of `context` tokens its next one."""
        tokens = batch * self._model.verified
        return self._judged(self._model.decode_axes, tokens, tokens, context + 1, self._decode_transfer)

    def _judged(self, axes: Any, tokens: int, batch: int, length: int, transfer: str | None) -> DataQuality:  # noqa: ANN401
        point = {"tokens": tokens, "batch": batch, "length": length}
        return data_quality(axes, point, (), transfer, tokens * self._model.config.attention_dp)
