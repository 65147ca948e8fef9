"""The SDK without pandas: most of its start-up time goes into tables that nobody asks for here."""

from __future__ import annotations

import importlib
import sys
import threading
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = "pandas"


class _PandasWhenUsed(ModuleType):
    """Stands for pandas in what was imported meanwhile; whatever is asked of it later is the real one's."""

    def __init__(self) -> None:
        super().__init__(_NAME)
        self._importer: int | None = threading.get_ident()
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever pandas holds
        if name == "DataFrame" and self._importer == threading.get_ident():
            return object  # in annotations
        self.leave()
        return getattr(importlib.import_module(_NAME), name)

    def leave(self) -> None:
        """Let later imports, and those of other threads, find the real one."""
        with self._lock:
            self._importer = None
            if sys.modules.get(_NAME) is self:
                del sys.modules[_NAME]


@contextmanager
def pandas_when_used() -> Iterator[None]:
    """Import pandas for what is imported inside only when it is used. One that is there already stays."""
    if _NAME in sys.modules:
        yield
        return
    ours = _PandasWhenUsed()
    sys.modules[_NAME] = ours
    try:
        yield
    finally:
        ours.leave()
