"""What others publish of their errors, to be read beside ours. None of it is on the same runs as ours."""

from __future__ import annotations

LINES = (
    (
        "LLMServingSim 2.0",
        "per-request logs of vLLM 0.19 on RTX PRO 6000 (three models), with layer profiles of that GPU: mean "
        "TTFT -4.0 / -13.6 / +1.3%, mean TPOT -1.0 / -1.7 / +0.8%",
        "github.com/casys-kaist/LLMServingSim, bench examples",
    ),
    (
        "inference-sim (BLIS)",
        "6.8% on its own runs of vLLM, with coefficients trained on such runs",
        "github.com/inference-sim/inference-sim",
    ),
    (
        "Dynamo's replay",
        "aisimulate 0.13.0.dev85 with its own tables, 140 distinct aggregated runs of the same file and this "
        "protocol: TTFT 55.7%, TPOT 29.6% MAPE; clean 54.4%, 17.4%; MiniMax FP8 on B200 with newer data",
        "measured by us, not published by its authors",
    ),
    (
        "AI Configurator",
        "static estimates of 87 aggregated runs of the same file: TTFT 60.8%, TPOT 31.2% MAPE",
        "measured by us, not published by its authors",
    ),
)
