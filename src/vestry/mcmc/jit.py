"""Compiled functions that count in 64-bit floats, whatever the process's own settings of JAX."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import numpy as np


def compiled(*, static: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function of arrays; `static` names the arguments that are part of the program."""

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        fast = jax.jit(function, static_argnames=static)

        @wraps(function)
        def called(*arguments: Any, **named: Any) -> Any:
            with jax.enable_x64(True):
                return fast(*arguments, **named)

        return called

    return wrapped


def key(rng: np.random.Generator) -> Any:
    """Return a key of JAX from an ordinary generator."""
    with jax.enable_x64(True):
        return jax.random.key(int(rng.integers(2**63)))
