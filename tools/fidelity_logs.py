"""Scores calibration on logs of real runs: fitted on the first requests, scored on the others.

    python -m tools.fidelity_logs DIR [--fit-requests 60] [--look-ahead 0|1|best]

DIR holds pairs NAME.requests.jsonl and NAME.meta.json as LLMServingSim's benchmark writes them (vLLM's clocks
and engine arguments), and optionally token ids (*tokenids*.jsonl[.gz]), which belong to a log when all
lengths agree. A run on a GPU that AI Configurator has data for is fitted by two factors, any other by a step
model. Exit code 1 when a bound of spec 07 (G2, G3) is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from aisimulate.config.payload import Execution
from aisimulate.core.errors import AISimulateError, InputError
from aisimulate.fidelity.calibrate.calibration import Options, Outcome, calibrate
from aisimulate.fidelity.calibrate.look_ahead import CHOICES
from aisimulate.fidelity.calibrate.loss import Errors
from aisimulate.fidelity.calibrate.prompts import has_prompts, with_prompts
from aisimulate.fidelity.calibrate.request_log import RequestLog, read_log
from aisimulate.fidelity.calibrate.settings import settings_of
from aisimulate.report.columns import aligned

# Of the means over the requests that were not fitted: each run, and all runs with tables on average.
BOUNDS = {"ttft": 0.04, "tpot": 0.02, "e2e": 0.02, "throughput": 0.03}
MEAN_BOUNDS = {"ttft": 0.025, "tpot": 0.015}
# A run without tables is held to the first two.
TABLE_FREE_BOUNDS = {"ttft": 0.04, "tpot": 0.02}

SYSTEMS = {"RTXPRO6000": "rtx_pro_6000_server"}
# Gated or renamed on Hugging Face; the data know them by another name.
MODELS = {"meta-llama/Llama-3.1-8B": "meta-llama/Meta-Llama-3.1-8B"}
BLOCK_TOKENS = 16


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fit-requests", type=int, default=60)
    parser.add_argument("--evaluations", type=int, default=40)
    parser.add_argument("--look-ahead", choices=CHOICES, default="best", help="0, 1, or what fits best")
    parser.add_argument("--only", default="", help="only runs whose name has this in it")
    arguments = parser.parse_args(argv)
    names = sorted(
        path.name.removesuffix(".requests.jsonl") for path in arguments.folder.glob("*.requests.jsonl")
    )
    names = [name for name in names if arguments.only in name]
    if not names:
        print(f"{arguments.folder}: no *.requests.jsonl")
        return 2
    rows, with_tables, failed = [], [], False
    for name in names:
        try:
            outcome = score(arguments.folder, name, arguments)
        except AISimulateError as error:
            print(f"{name}: {error}")
            failed = True
            continue
        held_out = outcome.after[1]
        assert held_out is not None, "nothing is held out"
        table_free = outcome.calibration.step_model is not None
        missed = missed_bounds(held_out, TABLE_FREE_BOUNDS if table_free else BOUNDS)
        failed |= bool(missed)
        if not table_free:
            with_tables.append(held_out)
        rows += rows_of(name, outcome, missed)
    print("\n".join(aligned([["run", "what", "requests", *BOUNDS, "missed"], *rows])))
    for metric, bound in MEAN_BOUNDS.items():
        values = [abs(getattr(item, metric)) for item in with_tables]
        if values:
            mean = sum(values) / len(values)
            failed |= mean > bound
            print(f"mean |{metric}| of {len(values)} runs with tables: {mean:.2%} (bound {bound:.1%})")
    return int(failed)


def score(folder: Path, name: str, arguments: argparse.Namespace) -> Outcome:
    meta = json.loads((folder / f"{name}.meta.json").read_text())
    execution, table_free = settings(name, meta)
    path = folder / f"{name}.requests.jsonl"
    log = with_known_prompts(read_log(path), path, folder)
    options = Options(
        fit_requests=arguments.fit_requests,
        look_ahead=arguments.look_ahead,
        table_free=table_free,
        evaluations=arguments.evaluations,
        engine_version=meta.get("vllm_version"),
    )
    return calibrate(log, execution, options)


def settings(name: str, meta: dict) -> tuple[Execution, bool]:
    """Turn vLLM's engine arguments into settings; tell whether there are no tables for the GPU."""
    arguments = meta["engine_kwargs"]
    tp, dp = arguments["tensor_parallel_size"], arguments["data_parallel_size"]
    system = next((system for prefix, system in SYSTEMS.items() if name.startswith(prefix)), None)
    rank = {
        "backend": "vllm",
        "block_size": BLOCK_TOKENS,
        "max_num_seqs": arguments["max_num_seqs"],
        "max_num_batched_tokens": arguments["max_num_batched_tokens"],
    }
    if arguments.get("max_model_len"):
        rank["max_model_len"] = arguments["max_model_len"]
    blocks = meta.get("kv_cache", {}).get("num_gpu_blocks")
    if blocks:
        rank["num_gpu_blocks"] = blocks
    if system is not None:
        model = MODELS.get(meta["model"], meta["model"])
        config = {"model": model, "backend": "vllm", "system": system, "tp": tp, "attention_dp": dp}
        if tp * dp > 1:
            experts = (1, tp * dp) if arguments.get("enable_expert_parallel") else (tp * dp, 1)
            config |= dict(zip(("moe_tp_size", "moe_ep_size"), experts, strict=True))
        rank["timing_model"] = {"type": "external", "provider": "aic", "config": config}
    engine = {"tensor_parallel_size": tp, "dp_size": dp, "rank": rank}
    return settings_of({"engine": engine}, table_free=system is None), system is None


def with_known_prompts(log: RequestLog, path: Path, folder: Path) -> RequestLog:
    """Add the content of the prompts: from the log, or from the file of token ids whose lengths agree."""
    candidates = [path] if has_prompts(path) else sorted(folder.glob("*tokenids*"))
    for candidate in candidates:
        try:
            return with_prompts(log, candidate, BLOCK_TOKENS)
        except InputError:
            continue
    return log


def missed_bounds(errors: Errors, bounds: dict[str, float]) -> list[str]:
    return [name for name, bound in bounds.items() if abs(getattr(errors, name)) > bound]


def rows_of(name: str, outcome: Outcome, missed: list[str]) -> list[list[str]]:
    calibration = outcome.calibration
    what = f"{calibration.timing_mode} x {calibration.prefill_scale:.3f} / {calibration.decode_scale:.3f}"
    if calibration.step_model is not None:
        what = "step model"
    what += f", look-ahead {calibration.scheduling_look_ahead}"
    rows = []
    if outcome.before is not None and outcome.before[1] is not None:
        rows.append([name, "uncalibrated", "held out", *cells(outcome.before[1]), ""])
    rows.append([name, what, "fitted", *cells(outcome.after[0]), ""])
    if outcome.after[1] is not None:
        rows.append([name, what, "held out", *cells(outcome.after[1]), ", ".join(missed) or "-"])
    return rows


def cells(errors: Errors) -> list[str]:
    return [f"{getattr(errors, name):+.2%}" for name in BOUNDS]


if __name__ == "__main__":
    sys.exit(main())
