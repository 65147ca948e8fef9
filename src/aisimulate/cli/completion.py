"""The `completion` command: a static script, made from the options of every command.

To complete starts no Python: the script holds everything.
"""

from __future__ import annotations

import argparse
import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aisimulate.cli.exit_codes import DONE
from aisimulate.cli.main import COMMANDS
from aisimulate.cli.output import show
from aisimulate.cli.parser import OneLineParser
from aisimulate.cli.ranges import OneOf

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PROG = "aisimulate completion"
_SHELLS = ("bash", "zsh", "fish")


@dataclass(slots=True)
class Words:
    """What may follow a command: its options with their help, the values of some, and its own commands."""

    options: dict[str, str] = field(default_factory=dict)
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    actions: tuple[str, ...] = ()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0."""
    arguments = _parser().parse_args(argv)
    words = {name: _words_of(name) for name in COMMANDS}
    write = {"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell]
    return show(_PROG, write(words), DONE)


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog=_PROG,
        description="Print a completion script.",
        epilog='bash: eval "$(aisimulate completion bash)"; fish: aisimulate completion fish | source',
    )
    parser.add_argument("shell", choices=_SHELLS, metavar="SHELL", help=", ".join(_SHELLS))
    return parser


def _words_of(name: str) -> Words:
    module = importlib.import_module(COMMANDS[name][0])
    words = Words()
    for parser in _with_actions(module._parser()):
        for action in parser._actions:
            _add(words, action)
    return words


def _with_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


def _add(words: Words, action: argparse.Action) -> None:
    legal = tuple(action.type.legal) if isinstance(action.type, OneOf) else tuple(action.choices or ())
    if not action.option_strings:
        words.actions += legal
        return
    for option in action.option_strings:
        if option.startswith("--"):
            words.options.setdefault(option, (action.help or "").partition("(")[0].strip().replace("%", ""))
            if legal:
                words.values[option] = legal


def _bash(words: dict[str, Words]) -> str:
    lines = [
        "_aisimulate() {",
        '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" choices=""',
        "  COMPREPLY=()",
        '  if [ "$COMP_CWORD" -eq 1 ]; then',
        f'    COMPREPLY=($(compgen -W "{" ".join(words)} --help --version" -- "$word"))',
        "    return",
        "  fi",
        '  case "${COMP_WORDS[1]} $before" in',
    ]
    for name, known in words.items():
        lines += [
            f'    "{name} {option}") choices="{" ".join(legal)}" ;;' for option, legal in known.values.items()
        ]
    lines += ["  esac", '  if [ -z "$choices" ]; then', '    case "${COMP_WORDS[1]}" in']
    for name, known in words.items():
        shown = " ".join((*known.actions, *known.options))
        lines.append(f'      {name}) choices="{shown}" ;;')
    lines += [
        "    esac",
        "  fi",
        '  [ -n "$choices" ] && COMPREPLY=($(compgen -W "$choices" -- "$word"))',
        '  [ ${#COMPREPLY[@]} -eq 0 ] && COMPREPLY=($(compgen -f -- "$word"))',
        "}",
        "complete -o filenames -F _aisimulate aisimulate",
        "",
    ]
    return "\n".join(lines)


def _zsh(words: dict[str, Words]) -> str:
    return f"autoload -U +X bashcompinit && bashcompinit\n{_bash(words)}"


def _fish(words: dict[str, Words]) -> str:
    lines = ["complete -c aisimulate -e"]
    for name, known in words.items():
        text = COMMANDS[name][1].replace("'", "")
        lines.append(f"complete -c aisimulate -n __fish_use_subcommand -f -a {name} -d '{text}'")
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        lines += [f"complete -c aisimulate {seen} -f -a {action}" for action in known.actions]
        for option, text in known.options.items():
            legal = known.values.get(option)
            values = f" -x -a '{' '.join(legal)}'" if legal else ""
            shown = text.replace("\\", "").replace("'", "")
            lines.append(f"complete -c aisimulate {seen} -l {option[2:]}{values} -d '{shown}'")
    return "\n".join([*lines, ""])
