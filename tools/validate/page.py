"""The page of the documentation: what the command prints, with what a reader needs to know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.validate.text import markdown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tools.validate.text import Table

_INTRODUCTION = """\
# How close it is to real servers

This page is written by `make validate`, which replays the public measured runs in `data/silicon` (their source and licence are beside them) and
takes a few minutes. Run it yourself; `.venv/bin/python -m tools.validate FILE` takes your own table of the same columns.

**Protocol.** Prompt and output lengths are uniform between 80 % and 100 % of the nominal ones (seed 0); 10 requests per slot and at least 20; all slots filled at
0 ms and refilled as requests end; `max_num_seqs` 256 or the concurrency if that is larger, 8,192 tokens per pass, prefix caching off, KV capacity
estimated, the current performance data. `fp8` and `fp4` stand for the published checkpoint of that precision. Nothing is fitted to the run that is scored.

**Reading.** Errors are simulated / measured - 1, of groups: mean of the sizes / median of the sizes / signed median. *TTFT* is the engine's. *TTFT at the client* adds what lies
between: a stream interval and an offset per backend, fitted on the runs of all other models. *Clean* leaves out what the health check of the data flags as not physical, and
aggregated workers of more than eight GPUs; it was defined after the data had been seen, so both lines are given. Runs of prefill and decode pools are a group of their own (their files do not say
how caches were transferred: here it takes no time).

*One row of the curve*: each run in turn calibrates all others that differ in nothing but the concurrency. *Two rows*: each two calibrate those between. *No simulator*: the measured
values themselves, interpolated along logarithms.

"""


def page_text(tables: Iterable[Table]) -> str:
    """Write the page."""
    return _INTRODUCTION + "\n".join(markdown(tables)).rstrip() + "\n"
