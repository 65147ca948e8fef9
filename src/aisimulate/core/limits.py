"""Largest sizes that are accepted: far beyond any real deployment, and small enough to be simulated."""

from __future__ import annotations

MAX_WORKERS = 100_000
"""Workers of one pool."""

MAX_DP_SIZE = 4096
"""Attention-DP ranks of one worker."""

MAX_RANKS = 100_000
"""Ranks of one pool: workers times ranks of each."""

MAX_TP_SIZE = 65_536
"""GPUs that one rank is sharded over."""

MAX_REQUESTS = 10_000_000
"""Requests of one replay: sessions times turns."""

MAX_LENGTH_TOKENS = 10_000_000
"""Prompt or output of a synthetic request."""

MAX_BLOCK_TOKENS = 65_536
"""One KV block."""

MAX_BLOCKS = 2**31
"""KV blocks of one rank."""

MAX_GPUS = 16_384
"""GPU budget of a search."""

MAX_PAIRS = 5_000_000
"""Pairs of a prefill and a decode pool that a search may choose from."""

MIN_RATIO, MAX_RATIO = 1e-6, 1e6
"""Speed-up ratios other than 0, and the product of two."""

MAX_INTERVAL = 1_000_000
"""Tokens of a chunk that a client sees at once; passes between two looks for new requests."""
