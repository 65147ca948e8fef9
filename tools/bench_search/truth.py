"""Find the best possible score of every problem and store it (some minutes).

python -m tools.bench_search.truth [NAME ...]
"""

from __future__ import annotations

import json
import sys

from tools.bench_search.problems import PROBLEMS, TRUTH


def main() -> int:
    """Work the named problems out, all by default."""
    known = json.loads(TRUTH.read_text()) if TRUTH.exists() else {}
    for name in sys.argv[1:] or PROBLEMS:
        known[name] = PROBLEMS[name]().exhaustive()
        print(f"{name}: {known[name]:.6g}", flush=True)
        TRUTH.write_text(json.dumps(known, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
