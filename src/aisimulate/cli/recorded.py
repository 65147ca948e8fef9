"""How commands name and read a recorded search."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from aisimulate.cli.run_files import find_run
from aisimulate.core.errors import InputError
from aisimulate.spica.candidate_payload import candidate_payload, replayable_config
from aisimulate.spica.ledger import Ledger
from aisimulate.spica.recorded_run import read_run
from aisimulate.spica.reported import was_short
from aisimulate.spica.run_facts import changed_inputs

if TYPE_CHECKING:
    import argparse

    from aisimulate.spica.config import Candidate, SmartSearchConfig
    from aisimulate.spica.recorded_run import RecordedRun

_BEST = "best"


def add_run_argument(parser: argparse.ArgumentParser) -> None:
    """Let a command take a RUN, as `arguments.run_name`."""
    parser.add_argument("run_name", metavar="RUN", help="a name of `runs list`, a file, or `last`")


def named_run(name: str) -> RecordedRun:
    """Read a run by its name, its file, or `last`. Raises InputError when there is none."""
    return run_of(find_run(name))


def run_of(path: Path) -> RecordedRun:
    """Read the run in a file. Raises InputError when it is none."""
    with Ledger.open_ledger(path) as ledger:
        return read_run(ledger)


def input_files(run: RecordedRun) -> list[Path]:
    """List the files that a recorded search rests on, which no output may replace: record, trace, model."""
    return [run.path, *search_inputs(replayable_config(run))]


def search_inputs(config: SmartSearchConfig) -> list[Path]:
    """List the files that a search reads: its trace, and the `config.json` of a model in a folder."""
    trace = config.workload.trace_path
    return [
        *([] if trace is None else [Path(trace)]),
        Path(config.search_space.model_name) / "config.json",
    ]


def unchanged_config(run: RecordedRun) -> SmartSearchConfig:
    """Give what a recorded run is replayed with. Raises InputError when its trace or model was changed."""
    config = replayable_config(run)
    for change in changed_inputs(config, run.facts):
        raise InputError(f"{change} ({run.path})")
    return config


def find_candidate(run: RecordedRun, name: str) -> tuple[int, Candidate]:
    """Find a candidate by the number of its attempt, or the first of the ranking as `best`.

    Raises InputError for one that is not there, or has no result.
    """
    if name == _BEST:
        if not run.candidates:
            raise InputError(f"{run.name}: has no feasible candidate")
        return ranked_candidates(run)[0]
    number = int(name) if name.isascii() and name.isdecimal() and len(name) < 10 else 0
    attempt = next((attempt for attempt in run.attempts if attempt.number == number), None)
    if attempt is None:
        raise InputError(
            f"{run.name}: there is no candidate {name!r}; give `best` or 1 to {len(run.attempts)}"
        )
    if attempt.outcome.candidate is None:
        raise InputError(f"{run.name}: candidate {name} has no result: {attempt.outcome.reason}")
    return number, attempt.outcome.candidate


def payload_of(run: RecordedRun, name: str) -> dict[str, Any]:
    """Build the payload that replays a candidate, named as for `find_candidate`.

    Raises like that, and InputError for one that was replayed in part, or by another version.
    """
    number, candidate = find_candidate(run, name)
    if was_short(candidate):
        raise InputError(f"{run.name}: candidate {number} was replayed in part, which no payload says")
    try:
        return candidate_payload(unchanged_config(run), candidate)
    except InputError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{run.name}: was recorded by another version: {error}") from None


def ranked_candidates(run: RecordedRun) -> list[tuple[int, Candidate]]:
    """Give the ranking, or the front, with the numbers of the attempts."""
    numbers = {id(candidate): attempt.number for attempt, candidate in run.measured}
    return [(numbers[id(candidate)], candidate) for candidate in run.candidates]
