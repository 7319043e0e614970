"""The generator for draws in bulk: AES of a counter, keyed by the operating system, its state unseen."""

from __future__ import annotations

import os
from typing import Any, NoReturn, final

import numpy as np

from vestry.errors import NoiseNotReproducible
from vestry.noise.after_fork import renew_after_fork

KEY_BYTES = 16


@final
class Stream(np.random.Generator):
    """A numpy generator that cannot be seeded, copied, stored or read.

    The bits are AES-128 of a counter, under a key from the operating system. A child process made by
    `os.fork` takes new keys as it starts, so parent and child never share a stream.

    The walls are against mistakes. Code that reads this process's memory can read the key.
    """

    __slots__ = ("__weakref__",)

    def __init__(self) -> None:
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Take a new key from the operating system."""
        from randomgen import AESCounter

        # A new bit generator, not a new key in the old one: it has no buffered draws, and its lock is free
        # even if another thread of the parent held the old one while forking.
        super().__init__(AESCounter(key=int.from_bytes(os.urandom(KEY_BYTES), "little")))

    @property
    def bit_generator(self) -> NoReturn:
        """Refused: the bit generator holds the key."""
        raise NoiseNotReproducible("a noise stream", "opened at its bit generator", "draw from the stream itself")

    _bit_generator = bit_generator  # numpy's own name for it

    def spawn(self, n_children: int) -> NoReturn:
        """Refused: children would be seeded from one sequence."""
        raise NoiseNotReproducible("a noise stream", "spawned", "ask the noise for another stream()")

    def __reduce_ex__(self, *_: Any) -> NoReturn:
        raise NoiseNotReproducible("a noise stream", "copied or pickled", "ask the noise for another stream()")

    __reduce__ = __getstate__ = __copy__ = __deepcopy__ = __reduce_ex__

    def __setstate__(self, state: object) -> NoReturn:
        raise NoiseNotReproducible("a noise stream", "given a state", "ask the noise for another stream()")

    def __repr__(self) -> str:
        return "Stream()"

    __str__ = __repr__
