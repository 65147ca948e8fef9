"""All kinds of random replays against the reference, one line of counts each.

    python -m tools.parity.suite --peer PYTHON [--peer-standalone PYTHON] [--share 0.1] [--seed N]

`--peer` has ai-dynamo-runtime, `--peer-standalone` the stand-alone `aisimulate` wheel, which runs pairs of
pools but those of SGLang. Kinds whose interpreter is not given are named as not run. 1 if anything differs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

FUZZ = Path(__file__).with_name("fuzz_pair.py")
FUZZ_SCALING = Path(__file__).with_name("fuzz_scaling.py")
SCALED = "scaled"  # pools that scale by a script, and what its policy is shown; the kind says how many pools


@dataclass(frozen=True, slots=True)
class Part:
    """`number` random replays of a kind. `limit_s`: the reference never returns from some of them.

    `within_ns`: its clock has fractions of a ns where ours has none, so that times may differ by that.
    """

    kind: str
    number: int
    topology: str = "aggregated"
    limit_s: float = 10.0
    within_ns: int = 0


PARTS = (
    Part("vllm", 10_000),
    Part("trtllm", 5_000),
    Part("sglang", 3_000, limit_s=1.0),
    Part("vllm", 2_000, "disaggregated"),
    Part("vllm-g2", 1_000),
    Part("vllm-g2-dp", 500),
    Part("vllm-g2-dp-slow", 300),
    Part("vllm-g2-g3", 300, within_ns=2),
    Part("vllm-g2-shared", 500, within_ns=4),
    Part("vllm-g2-shared-dp", 200, within_ns=4),
    Part("vllm-g2-shared-slow", 200, within_ns=4),
    Part("vllm-g2-g3-shared", 200, within_ns=4),
    Part("vllm-g2", 300, "disaggregated"),
    Part("vllm-g2-both", 500, "disaggregated"),
    Part("vllm-g2-shared", 300, "disaggregated", within_ns=4),
    Part("vllm-g2-shared-both", 300, "disaggregated", within_ns=4),
    Part("trtllm", 1_000, "disaggregated"),
    Part("sglang", 1_000, "disaggregated", limit_s=1.0),
    Part("vllm-dp", 1_000),
    Part("trtllm-dp", 500),
    Part("vllm-mtp", 500),
    Part("trtllm-mtp", 500),
    Part("sglang-mtp", 500, limit_s=1.0),
    Part("vllm-dp", 500, "disaggregated", limit_s=1.0),
    Part("vllm-mtp", 500, "disaggregated", limit_s=1.0),
    Part("vllm-mtp-dp", 300, "disaggregated", limit_s=1.0),
    Part("trtllm-mtp", 500, "disaggregated"),
    Part("sglang-mtp", 500, "disaggregated", limit_s=1.0),
    Part("vllm", 300, SCALED),
    Part("trtllm", 200, SCALED),
    Part("sglang", 300, SCALED, limit_s=3.0),
    Part("vllm-pair", 500, SCALED),
    Part("trtllm-pair", 300, SCALED),
    Part("sglang-pair", 500, SCALED, limit_s=3.0),
    Part("vllm-crowded", 200, SCALED),
    Part("sglang-crowded", 200, SCALED, limit_s=3.0),
    Part("vllm-pair-crowded", 300, SCALED),
    Part("sglang-pair-crowded", 300, SCALED, limit_s=3.0),
    Part("vllm-mtp", 200, SCALED, limit_s=3.0),
    Part("sglang-mtp", 200, SCALED, limit_s=3.0),
    Part("vllm-pair-mtp", 200, SCALED, limit_s=3.0),
    Part("trtllm-pair-mtp", 200, SCALED, limit_s=3.0),
    Part("sglang-pair-mtp", 200, SCALED, limit_s=3.0),
)


def run_part(part: Part, peer: str, share: float, seed: int, folder: Path) -> int:
    """Run one part through both interpreters and print its counts; 1 if anything differs."""
    instances, ours, theirs = folder / "instances", folder / "ours", folder / "theirs"
    number = max(1, round(part.number * share))
    script, where, within = FUZZ, ["--topology", part.topology], ["--within", part.within_ns]
    if part.topology == SCALED:
        script, where, within = FUZZ_SCALING, [], []
    fuzz = partial(_fuzz, script)
    fuzz(sys.executable, "gen", part.kind, number, seed, instances, *where)
    fuzz(sys.executable, "run", instances, ours)
    fuzz(peer, "run", instances, theirs, "--limit", part.limit_s)
    print(f"{part.kind} {part.topology}: ", end="", flush=True)
    diff = [sys.executable, script, "diff", ours, theirs, *within]
    return subprocess.run(list(map(str, diff)), check=False).returncode


def _fuzz(script: Path, python: str, *arguments: object) -> None:
    subprocess.run([python, str(script), *map(str, arguments)], check=True, stderr=subprocess.DEVNULL)


def main() -> int:
    """Run every part for which there is a reference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--peer-standalone")
    parser.add_argument("--share", type=float, default=1.0, help="share of the replays of each kind")
    parser.add_argument("--seed", type=int, default=None, help="first seed, else the time")
    args = parser.parse_args()
    seed = int(time.time()) if args.seed is None else args.seed
    print(f"seeds from {seed}")
    differs = 0
    for part in PARTS:
        # The stand-alone peer takes pairs of pools from a payload, but follows another revision of SGLang.
        # It lets vLLM's first token out before drafts are verified, too.
        follows = "sglang" in part.kind or "mtp" in part.kind
        alone = part.topology == "disaggregated" and not follows
        peer = args.peer_standalone if alone else args.peer
        if peer is None:
            print(f"{part.kind} {part.topology}: not run, no stand-alone peer given")
            continue
        with tempfile.TemporaryDirectory() as folder:
            differs |= run_part(part, peer, args.share, seed, Path(folder))
    return differs


if __name__ == "__main__":
    sys.exit(main())
