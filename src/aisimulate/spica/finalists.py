"""The last step of a search: what it reports is replayed in full (spec 08 section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.spica.short_replays import finalists, in_full

if TYPE_CHECKING:
    from aisimulate.spica.config import SmartSearchConfig
    from aisimulate.spica.executor import EvaluationPool
    from aisimulate.spica.loop import SearchState
    from aisimulate.spica.observer import Observer

_BRANCH = "finalists"  # where a ledger has branches


def replay_finalists(
    config: SmartSearchConfig, state: SearchState, pool: EvaluationPool, observer: Observer
) -> bool:
    """Replay the best of those that were replayed in part; their outcomes join the others.

    Tell whether the time was enough for all.
    """
    chosen = finalists(state.candidates, config)
    if not chosen:
        return True
    tasks = [in_full(state.short[id(candidate)]) for candidate in chosen]
    state.progress.total += len(tasks)
    observer.phase(_BRANCH, state.progress)
    done = 0
    for task, outcome in zip(tasks, pool.run(tasks), strict=False):
        done += 1
        state.outcomes.append(outcome)
        state.progress.add(outcome, cached=False)
        if state.ledger is not None:
            state.ledger.add_attempt(_BRANCH, state.rounds + 1, task.key, outcome, cached=False)
        observer.settled(outcome, cached=False, progress=state.progress)
        if done % config.sweep.per_round == 0 and done < len(tasks):
            observer.phase(f"{_BRANCH}: {done} of {len(tasks)} replayed in full", state.progress)
    if state.ledger is not None:
        state.ledger.commit()
    if done < len(tasks):
        limit = f"{state.time_budget.seconds:g} s of sweep.max_seconds"
        observer.note(f"{_BRANCH}: stopped after {limit}, {done} of {len(tasks)} replayed in full")
    if done:
        observer.note(
            f"{done} of {len(state.short)} candidates replayed in part were then replayed in full; only "
            "those are reported"
        )
    return done == len(tasks)
