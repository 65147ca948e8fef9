# %% [markdown]
# # Which deployment for this traffic?
# A notebook as a script: open it in an editor that knows `# %%` cells, or run it with `python`.
# It searches a few deployments of a small model, looks at the trade-off, and writes what starts the winner.

# %%
from pathlib import Path

import aisimulate

SEARCH = {
    "search_space": {
        "model_name": "meta-llama/Meta-Llama-3.1-8B",
        "hardware_sku": "h200_sxm",
        "gpu_budget": 2,
        "context_length": 4096,
        "deployment_mode": ["agg"],
        "router_mode": ["round_robin"],
        "planner_scaling_policy": ["disabled"],
        "agg_max_num_batched_tokens": [8192, 16384],
        "agg_max_num_seqs": [256],
    },
    "workload": {"isl": 512, "osl": 64, "request_rate": 8, "num_request_ratio": 10},
    "goal": {"target": "goodput_per_gpu", "sla": {"ttft_ms": 500, "itl_ms": 20}},
    "sweep": {"max_rounds": 1, "candidates_per_round": 6, "parallel_evals": 2, "random_seed": 1},
}


# %%
def main(folder: Path) -> None:
    """Search, look, and write the answer into `folder`."""
    found = aisimulate.recommend(SEARCH)
    print(found)  # in a notebook, `found` alone is a table

    # %% The same as a frame, best first
    frame = found.to_pandas()
    print(frame[["place", "deployment", "used_gpus", "p99_ttft_ms", "mean_tpot_ms"]].to_string(index=False))

    # %% Throughput per GPU over speed per user; `figure.show()` in a notebook
    figure = found.figure(across="throughput_per_user", up="throughput_per_gpu")
    print(f"{len(figure.data[0].x)} candidates in the figure")

    # %% One deployment by itself, request by request
    replay = aisimulate.simulate(
        {
            "spec": {
                "version": 1,
                "topology": {
                    "kind": "aggregated",
                    "workers": {"initial_workers": found.best.config["replicas"]},
                },
                "engine": {
                    "tensor_parallel_size": found.best.config["tp"],
                    "rank": {
                        "backend": "vllm",
                        "timing_model": {
                            "type": "external",
                            "provider": "aic",
                            "config": {
                                "model": "meta-llama/Meta-Llama-3.1-8B",
                                "backend": "vllm",
                                "system": "h200_sxm",
                                "tp": found.best.config["tp"],
                            },
                        },
                    },
                },
            },
            "traffic": {
                "source_type": "synthetic",
                "load_type": "poisson",
                "request_rate": 8,
                "isl": 512,
                "osl": 64,
                "request_count": 80,
            },
        }
    )
    slowest = replay.to_pandas().nlargest(3, "ttft_ms")
    print(slowest[["uuid", "arrival_time_ms", "ttft_ms", "e2e_latency_ms"]].to_string(index=False))

    # %% What to show to colleagues, and what to deploy
    (folder / "result.html").write_text(found.page(gpu_hour_price=2.5))
    for name, text in found.export("kubernetes").items():
        (folder / name).write_text(text)


# %%
if __name__ == "__main__":  # candidates are replayed in spawned processes
    main(Path())
