"""Values that came from records and leave through a mechanism alone."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, final

import numpy as np

from vestry.errors import PrivateValue


class Closed:
    """Nothing to print, compare, hash, iterate, convert, copy or pickle.

    The walls are against mistakes: code in the same process can reach anything.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise PrivateValue

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __iter__ = __len__ = __getitem__ = __contains__ = __bool__ = __int__ = __float__ = __index__ = _refuse
    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __getstate__ = __format__ = _refuse
    __array__ = _refuse


@final
class Private(Closed):
    """Holds integers that were summed over records. Only `vestry.mechanisms` opens it, by `reveal`."""

    __slots__ = ("__values",)

    def __init__(self, values: Sequence[int]) -> None:
        try:
            self.__values = tuple(operator.index(value) for value in values)
        except TypeError:
            pass
        else:
            return
        # Raised outside the handler, so that no context quotes a value.
        raise PrivateValue("is made of whole numbers: sums are counted in units of a grid")


# Features, one row per record, and outcomes.
Block = tuple[np.ndarray, np.ndarray]


class RemoteRows(ABC):
    """Records that stay where they are: a function is sent to them, and sums come back."""

    @abstractmethod
    def at_most(self, count: int) -> RemoteRows:
        """Return so many of them at most."""

    @abstractmethod
    def sums(self, function: Callable[[Iterator[Block]], np.ndarray]) -> list[np.ndarray]:
        """Return what the function makes of the blocks of each part of the records, in one pass over all of them."""


@final
class PrivateRows(Closed):
    """Holds records as features and outcomes, in blocks, or where they stay. Only `regression` opens it."""

    __slots__ = ("__rows",)

    def __init__(self, rows: Sequence[Block] | RemoteRows) -> None:
        self.__rows = rows if isinstance(rows, RemoteRows) else tuple(rows)


@final
class PrivateCounts(Closed):
    """Holds values that occur, as text, and how many hold each. Only `vestry.mechanisms` opens it."""

    __slots__ = ("__counts",)

    def __init__(self, counts: Iterable[tuple[str, int]]) -> None:
        self.__counts = dict(counts)


def reveal(private: Private) -> tuple[int, ...]:
    """Open a private value. A wall keeps every room but `mechanisms` from importing this."""
    return private._Private__values  # type: ignore[attr-defined, no-any-return]


def reveal_rows(private: PrivateRows) -> tuple[Block, ...] | RemoteRows:
    """Open private rows. The same wall stands around this."""
    return private._PrivateRows__rows  # type: ignore[attr-defined, no-any-return]


def reveal_counts(private: PrivateCounts) -> Iterator[tuple[str, int]]:
    """Open private counts of values. The same wall stands around this."""
    return iter(private._PrivateCounts__counts.items())  # type: ignore[attr-defined]
