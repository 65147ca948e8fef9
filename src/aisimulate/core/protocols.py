"""Extension points that have more than one implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt


class PassTimer(Protocol):
    """Prices the passes of one rank in whole ns, speed-up ratios already applied.

    `batch` is a number of requests on one rank. `context_tokens` is the sum over the decode group of
    sequence lengths (prompt plus generated so far, the last sampled token included). In a *run* of
    pure decode passes every sequence grows by one token per pass, so pass i (0, 1, ...) of a run has
    `context_tokens + i * batch`; all methods that take `passes` speak of such a run.
    A timer is stateless apart from caches, so ranks and candidates share it.
    """

    @property
    def rises(self) -> bool:
        """Whether no pass gets shorter when batch and context grow, or when prompts are computed beside."""
        ...

    def prefill_ns(self, batch: int, mean_isl: int, mean_prefix: int) -> int:
        """Duration of a prefill forward; 0 when the batch is empty or `mean_isl <= mean_prefix`."""
        ...

    def decode_ns(self, batch: int, context_tokens: int) -> int:
        """Duration of one decode forward of a batch >= 1."""
        ...

    def beside_ns(self, batch: int, context_tokens: int) -> int:
        """What a decode batch >= 1 adds to a pass that is priced as a prefill forward, too."""
        ...

    def fused_ns(self, spans: Sequence[tuple[int, int]], batch: int, context_tokens: int) -> int:
        """Duration of one forward over prefill chunks and a decode batch together.

        Each of `spans` (at least one) is a request's known length computed before and after the pass, which
        is more. `batch` 0 means that nobody decodes.
        """
        ...

    def run_ns(self, batch: int, context_tokens: int, passes: int) -> int:
        """Exact duration of a run: the sum of its passes' `decode_ns`."""
        ...

    def run_floor_ns(self, batch: int, context_tokens: int, passes: int) -> int:
        """Give a cheap lower bound of `run_ns`; equal to it where that costs no more."""
        ...

    def passes_until(self, batch: int, context_tokens: int, passes: int, elapsed_ns: int) -> tuple[int, int]:
        """Find the smallest k <= passes whose `run_ns(.., k) >= elapsed_ns`, else `passes`; with its ns."""
        ...

    def durations_ns(self, batch: int, context_tokens: int, passes: int) -> list[int]:
        """List the duration of each pass of a run, in order."""
        ...

    def forwards_ns(self, batch: int, contexts: list[int]) -> list[int]:
        """List `decode_ns` of forwards of one batch whose contexts (at least one) never decrease."""
        ...

    def decodes_ns(
        self, batches: npt.NDArray[np.int64], contexts: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """`decode_ns` of many forwards."""
        ...

    def tally_ns(
        self,
        batches: npt.NDArray[np.int64],
        contexts: npt.NDArray[np.int64],
        passes: npt.NDArray[np.int64],
        weights: npt.NDArray[np.int64],
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Durations of the passes of many runs, each pass counted `weight` times: (durations, counts).

        Equal durations may be put together; the order means nothing.
        """
        ...


class TimingModel(Protocol):
    """A source of pass times (fixed, polynomial, measured data), independent of any one engine."""

    def timer(self, total_kv_tokens: int, prefill_speedup: float, decode_speedup: float) -> PassTimer:
        """Bind to a rank: its KV capacity in tokens and its speed-up ratios (1 or 0 = unscaled)."""
        ...
