"""What the optimizer needs of the configurations it searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from aisimulate.spica.pool_gp.doubt import Doubt

    Floats = NDArray[np.float64]

Key = TypeVar("Key", bound="Hashable")
_Seen = TypeVar("_Seen", bound="Hashable", contravariant=True)


class Calibration(Protocol[_Seen]):
    """Corrects a screen by what was measured, knowing how it may be wrong."""

    def fit(self, keys: Sequence[_Seen], logs: Floats) -> None:
        """Learn the logarithms of the objectives that were measured, one row each."""
        ...

    def logs(self, keys: Sequence[_Seen]) -> Floats:
        """Return the logarithms of the corrected objectives, one row each."""
        ...

    def pressure(self, keys: Sequence[_Seen]) -> Floats:
        """Return, as a logarithm, how near each is to the limit that passes from one label to another."""
        ...

    def limited(self, keys: Sequence[_Seen]) -> Floats:
        """Return how surely each is beyond that limit, in [0, 1]."""
        ...

    def doubt(self, keys: Sequence[_Seen]) -> Doubt:
        """Return what the corrections leave in doubt."""
        ...


class Pool(Protocol[Key]):
    """Configurations by key. Equal keys are the same configuration, different keys are different ones."""

    @property
    def calibration(self) -> Calibration[Key] | None:
        """What corrects the screen, if there is one and it is known how it may be wrong."""
        ...

    def draw(self, count: int, rng: np.random.Generator) -> list[Key]:
        """Draw `count` keys at random, repetitions allowed; fewer when the pool is exhausted."""
        ...

    def near(self, key: Key, count: int, rng: np.random.Generator) -> list[Key]:
        """Change one to three things of a configuration, about `count` times over."""
        ...

    def moved(self, key: Key, count: int, rng: np.random.Generator) -> list[Key]:
        """Keep the settings of a configuration, and run it on up to `count` other placements."""
        ...

    def features(self, keys: Sequence[Key]) -> Floats:
        """Describe configurations by numbers of about [0, 1], one row each."""
        ...

    def labels(self, keys: Sequence[Key]) -> NDArray[np.intp]:
        """Label what configurations share that numbers do not say, one row each; may have no columns."""
        ...

    def screen(self, keys: Sequence[Key]) -> Floats | None:
        """Estimate all objectives (positive, larger is better), one row each; None without a screen."""
        ...

    def likenesses(self, keys: Sequence[Key]) -> list[Hashable] | None:
        """Tell what configurations are hardly different from, equal values for such ones; None if unknown.

        Those that the screen holds for the same are alike, if nothing that it does not see tells them apart.
        """
        ...
