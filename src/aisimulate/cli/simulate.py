"""The `simulate` command: replay the workload of one payload on its deployment."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aisimulate.cli.exit_codes import BAD_INPUT, DONE, FAILED, INTERRUPTED
from aisimulate.cli.output import fail, settle_stderr, show
from aisimulate.cli.overrides import add_set_option, with_overrides
from aisimulate.cli.parser import OneLineParser
from aisimulate.core.console import say
from aisimulate.core.errors import AISimulateError, InputError, TimingError
from aisimulate.replay.execute import execute
from aisimulate.replay.invariants.checker import InvariantChecker
from aisimulate.replay.observe.sinks import json_line
from aisimulate.replay.observe.telemetry import Telemetry
from aisimulate.replay.observe.timeline import Timeline
from aisimulate.report.files import WriteError, check_writable, write_file
from aisimulate.report.kv_sensitivity import kv_sensitivity_json, kv_sensitivity_text
from aisimulate.report.payload_file import read_payload
from aisimulate.report.replay_confidence import with_confidence
from aisimulate.report.replay_table import replay_text
from aisimulate.whatif.held import PeakHeld
from aisimulate.whatif.kv_sensitivity import kv_sensitivity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from aisimulate.replay.observe.hub import Observer

_PROG = "aisimulate simulate"
_OUTPUTS = ("per_request", "decisions", "telemetry", "timeline")
_RECORDS = ("per_request", "lifecycle_operations", "scaling_decisions")
"""What a report has with `record_per_request` alone."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 done, 1 failed, 2 bad input, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        say(f"{_PROG}: interrupted")
        return INTERRUPTED
    except (InputError, TimingError) as error:
        return fail(_PROG, error, BAD_INPUT)
    except (AISimulateError, OSError) as error:
        return fail(_PROG, error, FAILED)
    except MemoryError:
        return fail(_PROG, f"{arguments.payload}: needs more memory than there is", FAILED)
    finally:
        settle_stderr()


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=_PROG, description="Replay the workload of a payload on its deployment.")
    parser.add_argument(
        "--payload", required=True, type=Path, metavar="FILE", help="spec and traffic, as JSON or YAML"
    )
    add_set_option(parser)
    parser.add_argument(
        "--format", choices=("table", "json"), default="table", help="what to print (default: %(default)s)"
    )
    parser.add_argument("--per-request", type=Path, metavar="FILE", help="write a JSON line for each request")
    parser.add_argument(
        "--decisions", type=Path, metavar="FILE", help="write a JSON line for each decision of a planner"
    )
    parser.add_argument(
        "--telemetry", type=Path, metavar="FILE", help="write samples over time as JSON lines"
    )
    parser.add_argument(
        "--telemetry-interval-ms", type=float, metavar="MS", help="time between samples (default: 1000)"
    )
    parser.add_argument(
        "--timeline", type=Path, metavar="FILE", help="write a trace for the Perfetto UI (ui.perfetto.dev)"
    )
    parser.add_argument(
        "--kv-sensitivity",
        action="store_true",
        help="replay twice more, with a tenth fewer and more KV blocks, and tell what that changes",
    )
    parser.add_argument("--check", action="store_true", help="check the replay's invariants while it runs")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    if arguments.telemetry_interval_ms is not None and arguments.telemetry is None:
        raise InputError("--telemetry-interval-ms has no effect without --telemetry")
    payload = load_payload(arguments.payload, arguments.overrides)
    if arguments.decisions is not None and not _scales(payload):
        raise InputError("--decisions: has no effect without a policy in spec.adapters.scaling")
    _check_outputs(arguments, payload)
    samples: list[str] = []
    timeline = None if arguments.timeline is None else Timeline()
    observers: list[Observer] = [] if timeline is None else [timeline]
    if arguments.telemetry is not None:
        observers.append(_telemetry(arguments.telemetry_interval_ms, samples))
    if arguments.check:
        observers.append(InvariantChecker())
    held = PeakHeld() if arguments.kv_sensitivity else None
    if held is not None:
        observers.append(held)
    report = with_confidence(execute(_recording(payload, arguments), observers=observers), payload)
    records, decisions = report.get("per_request", []), report.get("scaling_decisions", [])
    if _records(payload) is False:
        for name in _RECORDS:
            report.pop(name, None)
    texts = {
        "per_request": _lines(records),
        "decisions": _lines(decisions),
        "telemetry": "".join(samples),
        "timeline": _timeline(timeline),
    }
    if arguments.format == "json":  # a table has them
        for note in report.get("notes", ()):
            say(f"note: {note}")
    return _deliver(arguments, texts, _text(arguments, payload, report, held))


def _text(
    arguments: argparse.Namespace,
    payload: Mapping[str, Any],
    report: dict[str, Any],
    held: PeakHeld | None,
) -> str:
    """Write the report, and what hangs on the KV capacity where that is asked for."""
    found = None if held is None else kv_sensitivity(payload, report, held.peaks)
    if arguments.format == "json":
        added = {} if found is None else {"kv_sensitivity": kv_sensitivity_json(found)}
        return json_line({**report, **added})
    return replay_text(report) + ("" if found is None else kv_sensitivity_text(found))


def load_payload(path: Path, overrides: Sequence[str] = ()) -> Mapping[str, Any]:
    """Read a payload: YAML when the file is named so, else JSON; with what `--set` replaces in it.

    Raises:
        InputError: one line that names the file and what is wrong with it.
    """
    value = read_payload(path)
    changed = with_overrides(value, overrides)
    return changed if isinstance(changed, Mapping) else value


def _check_outputs(arguments: argparse.Namespace, payload: Mapping[str, Any]) -> None:
    """Refuse, before anything runs, a file that cannot be written or that is read or written twice."""
    traces = [Path(path) for path in _traces(payload.get("traffic"))]
    taken: dict[Path, str] = {}
    for _, option, path in _outputs(arguments):
        check_writable(path, [arguments.payload, *traces], option)
        target = path.resolve()
        if target in taken:
            raise InputError(f"{option} {path}: is the file of {taken[target]} too")
        taken[target] = option


def _traces(traffic: object) -> Iterator[str]:
    """List the traces of a payload that nobody has checked yet."""
    if isinstance(traffic, Mapping):
        paths = traffic.get("trace_paths")
        for path in (traffic.get("trace_path"), *(paths if isinstance(paths, list) else ())):
            if isinstance(path, str):
                yield path


def _outputs(arguments: argparse.Namespace) -> Iterator[tuple[str, str, Path]]:
    """List the files to write: what goes there, the option that named it, its path."""
    for name in _OUTPUTS:
        path = getattr(arguments, name)
        if path is not None:
            yield name, f"--{name.replace('_', '-')}", path


def _scales(payload: Mapping[str, Any]) -> bool:
    """Whether anybody decides on workers; a payload that is wrong is left for the checks to refuse."""
    value: Any = payload.get("spec", payload)
    for name in ("adapters", "scaling"):
        value = value.get(name, {}) if isinstance(value, Mapping) else None
    return not isinstance(value, Mapping) or value.get("provider", "none") != "none"


def _records(payload: Mapping[str, Any]) -> object:
    """Whether the payload wants records in the report, as authored."""
    spec = payload.get("spec", payload)
    return spec.get("record_per_request", True) if isinstance(spec, Mapping) else None


def _recording(payload: Mapping[str, Any], arguments: argparse.Namespace) -> Mapping[str, Any]:
    """Ask for the records that go anywhere; anything but true or false is left for the checks to refuse."""
    if not isinstance(_records(payload), bool):
        return payload
    shown = arguments.format == "json" and _records(payload)
    setting = {"record_per_request": bool(shown or arguments.per_request or arguments.decisions)}
    if "spec" in payload:
        return {**payload, "spec": {**payload["spec"], **setting}}
    return {**payload, **setting}


def _lines(values: Iterable[object]) -> str:
    return "".join(map(json_line, values))


def _telemetry(interval_ms: float | None, lines: list[str]) -> Telemetry:
    """Keep each sample as its line, which takes less than half of its memory."""
    interval_ms = 1000.0 if interval_ms is None else interval_ms
    return Telemetry(
        interval_ms, lambda sample: lines.append(json_line(sample)), name="--telemetry-interval-ms"
    )


def _timeline(timeline: Timeline | None) -> str:
    return "" if timeline is None else json_line(timeline.document())


def _deliver(arguments: argparse.Namespace, texts: Mapping[str, str], text: str) -> int:
    """Write the files, then stdout; neither waits for the others to succeed."""
    problems = []
    for name, option, path in _outputs(arguments):
        try:
            write_file(path, texts[name], option)
        except WriteError as error:
            problems.append(str(error))
    code = show(_PROG, text, DONE)
    return fail(_PROG, "; ".join(problems), FAILED) if problems else code
