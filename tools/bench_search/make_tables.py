"""Make the table of step times of a model on a SKU from AI Configurator's performance data.

python -m tools.bench_search.make_tables MODEL SKU ISL OSL NAME     writes data/NAME.npz
"""

from __future__ import annotations

import json
import sys

import numpy as np

from aisimulate.core.errors import AISimulateError
from aisimulate.core.units import to_ms
from aisimulate.spica.kv_estimate import estimate_kv_tokens, resolve_backend_version, shape_engine_key
from aisimulate.spica.parallel_enum import BACKENDS, ParallelShape, enumerate_worker_shapes
from aisimulate.timing.aic.surface import AicTiming
from tools.bench_search.step_tables import DATA

WORKER_GPUS = (2, 4, 8, 16)
BATCHES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
CHUNKS = (256, 1024, 4096, 8192, 16384, 32768)
PROMPTS = (1, 2, 4, 8, 16, 32)
BUDGETS = (8192, 16384, 32768)


def main() -> int:
    """Ask for every shape of every backend, and leave out those that cannot run."""
    model, sku, isl, osl, name = sys.argv[1:]
    rows = []
    for backend in BACKENDS:
        version = resolve_backend_version(sku, backend)
        engine = {"model_name": model, "hardware_sku": sku, "backend": backend, "backend_version": version}
        for gpus in WORKER_GPUS:
            for shape in enumerate_worker_shapes(is_moe=True, backend=backend, gpus_per_worker=gpus):
                try:
                    row = _row(shape, engine, int(isl), int(osl))
                except AISimulateError as error:
                    print(f"{backend} {shape}: {error}", file=sys.stderr)
                    continue
                if row is not None:
                    rows.append(row)
    keys, decode, prefill, mixed, kv = (np.array(column) for column in zip(*rows, strict=True))
    meta = json.dumps({"model": model, "sku": sku, "isl": int(isl), "osl": int(osl)})
    grids = {"bgrid": BATCHES, "cgrid": CHUNKS, "mbt": BUDGETS}
    tables = {"keys": keys, "dec": decode, "pre": prefill, "mix": mixed, "kv": kv}
    np.savez_compressed(DATA / f"{name}.npz", meta=np.array(meta), **grids, **tables)
    return 0


def _row(shape: ParallelShape, engine: dict[str, str], isl: int, osl: int) -> tuple[object, ...] | None:
    """Return a key, then what the tables hold: ms of decode, prefill and mixed passes, and KV tokens."""
    kv = [[estimate_kv_tokens(shape, **engine, max_num_tokens=budget) or 0] for budget in BUDGETS]
    if kv[0][0] <= isl + osl:
        return None
    timer = AicTiming(shape_engine_key(shape, **engine), exact=True).timer(0, 1.0, 1.0)
    context = isl + osl // 2
    decode = [to_ms(timer.decode_ns(batch, batch * context)) for batch in BATCHES]
    prefill = [to_ms(timer.prefill_ns(prompts, isl, 0)) for prompts in PROMPTS]
    # A chunk is priced as so many whole prompts, at least a part of one.
    chunks = [(max(1, chunk // isl), min(chunk, isl)) for chunk in CHUNKS]
    mixed = [
        [to_ms(timer.prefill_ns(prompts, length, 0)) + step for step in decode] for prompts, length in chunks
    ]
    sizes = (shape.tp, shape.dp, shape.moe_tp, shape.moe_ep)
    return "|".join([engine["backend"], *map(str, sizes)]), decode, prefill, mixed, kv


if __name__ == "__main__":
    raise SystemExit(main())
