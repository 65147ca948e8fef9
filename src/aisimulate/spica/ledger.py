"""The record of a search in one SQLite file, written as each candidate ends.

A search is repeatable, so an interrupted one is continued by running it again and looking up what was
replayed already: no replay is done twice, and the end is that of an unbroken search.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from aisimulate.core.errors import AISimulateError, InputError
from aisimulate.core.shown import cut
from aisimulate.spica.file_lock import lock_file
from aisimulate.spica.outcome_json import outcome_text, read_outcome
from aisimulate.spica.record_values import check_row, read_fact

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from aisimulate.spica.outcome import Outcome

# Marks the files of this program, as `file` and SQLite itself show it ("aisS").
_APPLICATION_ID = 0x61697353
_FORMAT_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS run (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS replay (
    key TEXT PRIMARY KEY,
    outcome TEXT NOT NULL,
    wall_s REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS attempt (
    number INTEGER PRIMARY KEY,
    branch TEXT NOT NULL,
    round INTEGER NOT NULL,
    key TEXT NOT NULL,
    cached INTEGER NOT NULL,
    outcome TEXT NOT NULL
);
"""
_SETUP = f"""
BEGIN;
PRAGMA application_id={_APPLICATION_ID};
PRAGMA user_version={_FORMAT_VERSION};
{_SCHEMA}
COMMIT;
"""


RUNNING = "running"
"""The status of a search that has not ended, which a killed one keeps."""


class LedgerError(AISimulateError, RuntimeError):
    """A ledger could not be read or written."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One suggestion and what became of it. `cached`: an earlier attempt had the same key."""

    number: int
    branch: str
    round: int
    key: str
    cached: bool
    outcome: Outcome


class Ledger:
    """One run. Made by `create` or `open_ledger`; use it as a context manager.

    The file of a new run whose search never began (its config was refused) is removed again.

    Every method raises `LedgerError`, with the name of the file, when the disk is full or fails, and
    `InputError` when the file is damaged. Those that store for good raise `LedgerError` when the file was
    deleted or replaced meanwhile: SQLite would go on writing into what nobody can open any more.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: TextIO | None) -> None:
        self.path = path
        self._connection = connection
        self._lock = lock
        self._identity = _identity(path)
        self._attempts = 0
        self._is_new = False

    @classmethod
    def create(cls, path: Path) -> Self:
        """Start a new run, in the file of one that never began if need be.

        Raises InputError when the file holds anything else, or its folder does not exist.
        """
        _refuse_existing(path)
        with _named(path):
            lock = _locked(path)
            connection = sqlite3.connect(path)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(_SETUP)
        ledger = cls(path, connection, lock)
        ledger._is_new = True
        return ledger

    @classmethod
    def open_ledger(cls, path: Path, *, writable: bool = False) -> Self:
        """Open a run. Raises InputError when there is none, or another process is writing it."""
        if not path.is_file():
            raise InputError(f"{path}: there is no such run")
        with _named(path):
            connection = _connected(path, writable=writable)
            found = connection.execute("PRAGMA application_id").fetchone()[0]
            version = connection.execute("PRAGMA user_version").fetchone()[0]
        if found != _APPLICATION_ID:
            raise InputError(f"{path}: is not the ledger of a search")
        if version != _FORMAT_VERSION:
            raise InputError(f"{path}: has format {version}, this program reads {_FORMAT_VERSION}")
        return cls(path, connection, _locked(path) if writable else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        never_began = self._is_new and self._is_empty()
        with suppress(sqlite3.Error):  # all was stored, or its failure told, before
            self._connection.close()
        if never_began:
            with suppress(OSError):
                self.path.unlink()
                _lock_path(self.path).unlink()
        if self._lock is not None:
            self._lock.close()

    def _is_empty(self) -> bool:
        """Whether nothing was stored; False where that cannot be told."""
        try:
            found = self._connection.execute("SELECT 1 FROM run UNION ALL SELECT 1 FROM replay LIMIT 1")
            return found.fetchone() is None
        except sqlite3.Error:
            return False

    # The run as a whole ---------------------------------------------------------------------------------

    @property
    def facts(self) -> dict[str, Any]:
        """What `describe` stored: config, versions, digests; empty for a run that never began."""
        with _named(self.path):
            rows = self._connection.execute("SELECT name, value FROM run ORDER BY name").fetchall()
        facts = {}
        for name, value in rows:
            with _named(self.path, f"run {cut(str(name))!r}: "):
                facts[name] = read_fact(name, value)
        return facts

    def describe(self, **facts: Any) -> None:  # noqa: ANN401 - anything JSON can hold
        """Store facts about the run by name, replacing those of the same name."""
        rows = [(name, json.dumps(value, sort_keys=True)) for name, value in facts.items()]
        with _named(self.path), self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO run VALUES (?, ?)", rows)
        self._check_there()

    def progress(self) -> dict[str, Any]:
        """Tell how many suggestions are stored and how the search stands, without reading any of them."""
        with _named(self.path):
            attempts = self._connection.execute("SELECT count(*) FROM attempt").fetchone()[0]
        return {"attempts": attempts, "status": self.facts.get("status", RUNNING)}

    # What happened --------------------------------------------------------------------------------------

    def replayed(self) -> dict[str, Outcome]:
        """Return the outcomes of all replays, by key."""
        with _named(self.path):
            rows = self._connection.execute("SELECT key, outcome FROM replay").fetchall()
        found = {}
        for place, (key, text) in enumerate(rows, 1):
            with _named(self.path, f"replay {place}: "):
                found[key] = read_outcome(text)
        return found

    def attempts(self) -> Iterator[Attempt]:
        """Walk through the suggestions in order."""
        with _named(self.path):
            for number, branch, round_, key, cached, text in self._connection.execute(
                "SELECT number, branch, round, key, cached, outcome FROM attempt ORDER BY number"
            ):
                with _named(self.path, f"attempt {number}: "):
                    check_row(branch=(branch, str), round=(round_, int), key=(key, str))
                    outcome = read_outcome(text)
                yield Attempt(number, branch, round_, key, bool(cached), outcome)

    def add_replay(self, key: str, outcome: Outcome, wall_s: float) -> None:
        """Store the outcome of a replay for good."""
        with _named(self.path), self._connection:
            self._connection.execute(
                "INSERT OR REPLACE INTO replay VALUES (?, ?, ?)", (key, outcome_text(outcome), wall_s)
            )
        self._check_there()

    def add_attempt(self, branch: str, round_: int, key: str, outcome: Outcome, *, cached: bool) -> None:
        """Note a suggestion; `commit` stores it."""
        self._attempts += 1
        row = (self._attempts, branch, round_, key, cached, outcome_text(outcome))
        with _named(self.path):
            self._connection.execute("INSERT OR REPLACE INTO attempt VALUES (?, ?, ?, ?, ?, ?)", row)

    def commit(self) -> None:
        """Store the noted attempts for good."""
        with _named(self.path):
            self._connection.commit()
        self._check_there()

    def _check_there(self) -> None:
        if _identity(self.path) != self._identity:
            raise LedgerError(f"{self.path}: was deleted or replaced while it was being written")


@contextmanager
def _named(path: Path, row: str = "") -> Iterator[None]:
    """Turn errors of the database, and of what it holds, into one line with its name and that of the row."""
    try:
        yield
    except AISimulateError:
        raise
    except sqlite3.Error as error:
        if _is_damage(error):
            raise InputError(f"{path}: is damaged, or not the ledger of a search: {error}") from error
        raise LedgerError(f"{path}: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: is damaged: {row}{_first_line(error)}") from error


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether a file is no database at all, a malformed one, or one without our tables."""
    return type(error) is sqlite3.DatabaseError or str(error).startswith(("no such table", "no such column"))


def _first_line(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return next(iter(str(error).splitlines()), type(error).__name__)


def _connected(path: Path, *, writable: bool) -> sqlite3.Connection:
    """Open the database of a run."""
    address = path.resolve().as_uri()
    connection = sqlite3.connect(f"{address}?mode={'rw' if writable else 'ro'}", uri=True)
    if writable:
        return connection
    try:
        connection.execute("PRAGMA schema_version")
    except sqlite3.OperationalError:
        # SQLite keeps notes beside a database even to read it; on a disk that is read-only it cannot, and may
        # be told that nobody else writes.
        connection.close()
        connection = sqlite3.connect(f"{address}?mode=ro&immutable=1", uri=True)
    return connection


def _identity(path: Path) -> tuple[int, int] | None:
    """Tell one file from another of the same name; None for no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _refuse_existing(path: Path) -> None:
    """Raise InputError for a file that is in use, or a path at which there can be none."""
    try:
        if path.exists() and not _never_began(path):
            raise InputError(f"--run {path}: exists already (--resume continues it)")
        if not path.parent.is_dir():
            raise InputError(f"--run {path}: {path.parent} is not a directory")
    except OSError as error:
        raise InputError(f"--run {path}: {error.strerror or error}") from error


def _never_began(path: Path) -> bool:
    """Whether a file holds nothing but what a search killed at its start leaves behind."""
    if not path.is_file():
        return False
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                return True
            found = connection.execute("PRAGMA application_id").fetchone()[0]
            return found == _APPLICATION_ID and not connection.execute("SELECT 1 FROM run").fetchone()
    except sqlite3.Error:
        return False


def _lock_path(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _locked(path: Path) -> TextIO:
    """Let one process write a run at a time. The lock goes with the process, however it ends."""
    try:
        lock = _lock_path(path).open("a", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
    try:
        lock_file(lock)
    except OSError:
        lock.close()
        raise InputError(f"{path}: another process is writing this run") from None
    return lock
