"""All kinds of random replays against the reference, one line of counts each.

    python -m tools.parity.suite --peer PYTHON [--peer-standalone PYTHON] [--share 0.1] [--seed N]

`--peer` has ai-dynamo-runtime, `--peer-standalone` the stand-alone `aisimulate` wheel. That runs pairs of
vLLM and TensorRT-LLM pools; without it ai-dynamo-runtime does, where handoffs have no latency of their own.
1 if anything differs.
The first six kinds are those of the project's goal; `--extra-share` is for all others.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

FUZZ = Path(__file__).with_name("fuzz_pair.py")
FUZZ_SCALING = Path(__file__).with_name("fuzz_scaling.py")
SCALED = "scaled"  # pools that scale by a script, and what its policy is shown; the kind says how many pools


@dataclass(frozen=True, slots=True)
class Part:
    """`number` random replays of a kind. `limit_s`: the reference never returns from some of them.

    `within_ns`: its clock has fractions of a ns where ours has none, so that times may differ by that.
    `by_content`: ours gives up blocks of host memory and disk in the reference's order (`content_order.py`).
    """

    kind: str
    number: int
    topology: str = "aggregated"
    limit_s: float = 10.0
    within_ns: int = 0
    by_content: bool = False

    @property
    def name(self) -> str:
        """Name it as its line does."""
        return f"{self.kind} {self.topology}"


@dataclass(frozen=True, slots=True)
class Counts:
    """What was run."""

    replays: int
    kinds_that_differ: int

    def __add__(self, other: Counts) -> Counts:
        """Add up."""
        return Counts(self.replays + other.replays, self.kinds_that_differ + other.kinds_that_differ)


MAIN_PARTS = (
    Part("vllm", 10_000),
    Part("trtllm", 5_000),
    Part("sglang", 3_000, limit_s=1.0),
    Part("vllm", 2_000, "disaggregated"),
    Part("vllm-dp", 1_000),
    Part("vllm-g2", 1_000),
)
MORE_PARTS = (
    Part("vllm-g2-dp", 500),
    Part("vllm-g2-dp-slow", 300),
    Part("vllm-g2-g3", 300, within_ns=2),
    Part("vllm-g2-shared", 500, within_ns=4),
    Part("vllm-g2-shared-dp", 200, within_ns=4),
    Part("vllm-g2-shared-slow", 200, within_ns=4),
    Part("vllm-g2-g3-shared", 200, within_ns=4),
    Part("vllm-g2-tight", 500, by_content=True),
    Part("vllm-g2-dp-tight", 200, by_content=True),
    Part("vllm-g2-g3-tight", 300, within_ns=2, by_content=True),
    Part("vllm-g2", 300, "disaggregated"),
    Part("vllm-g2-tight", 200, "disaggregated", by_content=True),
    Part("vllm-g2-both", 500, "disaggregated"),
    Part("vllm-g2-shared", 300, "disaggregated", within_ns=4),
    Part("vllm-g2-shared-both", 300, "disaggregated", within_ns=4),
    Part("trtllm", 1_000, "disaggregated"),
    Part("sglang", 1_000, "disaggregated", limit_s=1.0),
    Part("trtllm-dp", 500),
    Part("vllm-mtp", 500),
    Part("trtllm-mtp", 500),
    Part("sglang-mtp", 500, limit_s=1.0),
    Part("vllm-state", 1_000),
    Part("vllm-dp-state", 300),
    Part("vllm-mtp-state", 300),
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
    Part("vllm-state", 200, SCALED),
    Part("vllm-pair-mtp", 200, SCALED, limit_s=3.0),
    Part("trtllm-pair-mtp", 200, SCALED, limit_s=3.0),
    Part("sglang-pair-mtp", 200, SCALED, limit_s=3.0),
)


def run_part(part: Part, args: argparse.Namespace, share: float, seed: int) -> Counts:
    """Run one part through both interpreters, print its line, and count.

    What the reference aborted runs again without the requests that can never run, which gets a line too.
    """
    number = max(1, round(part.number * share))
    peer, latency = _peer_of(part, args)
    where = ["--topology", part.topology, *latency]
    with tempfile.TemporaryDirectory() as folder:
        names = ("instances", "ours", "theirs", "reduced")
        instances, ours, theirs, reduced = (Path(folder) / name for name in names)
        if part.topology == SCALED:
            _fuzz(FUZZ_SCALING, sys.executable, "gen", part.kind, number, seed, instances)
            differs = _differ(part, FUZZ_SCALING, peer, (instances, ours, theirs), part.name)
            return Counts(number, int(differs))
        _fuzz(FUZZ, sys.executable, "gen", part.kind, number, seed, instances, *where)
        differs = _differ(part, FUZZ, peer, (instances, ours, theirs), part.name)
        _fuzz(FUZZ, sys.executable, "reduce", instances, ours, theirs, reduced)
        if reduced.stat().st_size:
            again = "  again without what can never run"
            differs = _differ(part, FUZZ, peer, (reduced, ours, theirs), again) or differs
    return Counts(number, int(differs))


def _differ(part: Part, script: Path, peer: str, files: tuple[Path, Path, Path], title: str) -> bool:
    """Run instances on both sides and print what comes of it."""
    instances, ours, theirs = files
    order = ["--by-content"] if part.by_content else []
    within = [] if script is FUZZ_SCALING else ["--within", part.within_ns]
    _fuzz(script, sys.executable, "run", instances, ours, *order)
    _fuzz(script, peer, "run", instances, theirs, "--limit", part.limit_s)
    diff = [sys.executable, script, "diff", ours, theirs, *within]
    done = subprocess.run(list(map(str, diff)), check=False, stdout=subprocess.PIPE, text=True)
    print(f"{title}: {done.stdout}", end="", flush=True)
    return done.returncode != 0


def _fuzz(script: Path, python: str, *arguments: object) -> None:
    subprocess.run([python, str(script), *map(str, arguments)], check=True, stderr=subprocess.DEVNULL)


def _peer_of(part: Part, args: argparse.Namespace) -> tuple[str, list[str]]:
    """Choose who runs a part, and what its instances must do without.

    The stand-alone peer takes a latency of handoffs, but follows another revision of SGLang. It lets vLLM's
    first token out before drafts are verified, too.
    """
    if part.topology != "disaggregated" or "sglang" in part.kind or "mtp" in part.kind:
        return args.peer, []
    return (args.peer_standalone, []) if args.peer_standalone else (args.peer, ["--no-latency"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--peer-standalone")
    parser.add_argument("--share", type=float, default=1.0, help="share of the replays of each kind")
    parser.add_argument("--extra-share", type=float, help="the same of kinds beyond the first six")
    parser.add_argument("--seed", type=int, default=None, help="first seed, else the time")
    parser.add_argument(
        "--only", action="append", metavar="'KIND TOPOLOGY'", help="run only this kind; may be repeated"
    )
    return parser


def main() -> int:
    """Run every part for which there is a reference."""
    args = _parser().parse_args()
    seed = int(time.time()) if args.seed is None else args.seed
    extra_share = args.share if args.extra_share is None else args.extra_share
    names = [part.name for part in (*MAIN_PARTS, *MORE_PARTS)]
    if unknown := set(args.only or ()).difference(names):
        raise SystemExit(f"--only {unknown.pop()!r}: use one of {', '.join(names)}")
    print(f"seeds from {seed}")
    counts = Counts(0, 0)
    for part in (*MAIN_PARTS, *MORE_PARTS):
        share = args.share if part in MAIN_PARTS else extra_share
        if not share or (args.only and part.name not in args.only):
            continue
        counts += run_part(part, args, share, seed)
    print(f"{counts.replays:,} replays, {counts.kinds_that_differ} kinds with differences")
    return int(counts.kinds_that_differ > 0)


if __name__ == "__main__":
    sys.exit(main())
