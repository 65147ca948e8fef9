"""Stands for a study of Vizier: draws values at random, remembers what it was told, fails on demand."""

from __future__ import annotations

import random

from aisimulate.spica.samplers.guarded import GuardTripped


class FakeStudies:
    """Opens studies; `trouble` maps the number of a call to `suggest` (from 1) to its failure."""

    def __init__(self, trouble=None):
        self.trouble = trouble or {}
        self.asks = 0
        self.opened = []

    def open(self, request, history, limits):
        self.opened.append(FakeStudy(self, request, history, limits))
        return self.opened[-1]


class FakeStudy:
    def __init__(self, studies, request, history, limits):
        self.studies, self.request, self.history, self.limits = studies, request, list(history), limits
        self.completed = {}
        self.added = []
        self.closed = False
        self._rng = random.Random(request.seed)
        self._number = 0

    def call(self, method, *arguments):
        return getattr(self, method)(*arguments)

    def close(self):
        self.closed = True

    def suggest(self, count):
        self.studies.asks += 1
        if self.studies.asks in self.studies.trouble:
            raise GuardTripped(self.studies.trouble[self.studies.asks])
        return [self._trial() for _ in range(count)]

    def complete(self, number, told):
        self.completed[number] = told

    def add(self, told):
        self.added.append(told)

    def _trial(self):
        self._number += 1
        return self._number, {
            parameter.name: (
                self._rng.uniform(*parameter.bounds)
                if parameter.kind == "float"
                else self._rng.choice(parameter.values)
            )
            for parameter in self.request.parameters
        }
