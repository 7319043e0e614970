"""Gradients on the GPU in one kernel that reads the rows once: a Pallas kernel, compiled through Triton.

Plain XLA reads the rows twice, and writes them out as doubles if they are stored as float32. Here each program of the
grid takes a run of tiles of rows; a tile is loaded once, gives its predictors, derivatives and share of the gradient
from registers, and the program writes one row of sums. These are added afterwards. Rows are stored with their length
padded to whole lines of 128 bytes, without which loads take twice the traffic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.losses import xla
from vestry.losses.loss import Loss
from vestry.losses.rounding import SPARE, additions

# Losses whose functions the kernel's compiler has in doubles; erfc is not among them.
_SUPPORTED = frozenset(
    {"logistic", "huber", "pseudo-huber", "log-cosh", "smooth-hinge", "softplus-hinge", "smooth-quantile",
     "complementary-log-log"}
)  # fmt: skip
_LINE = 128


@dataclass(frozen=True)
class Layout:
    """How the kernel cuts its work.

    Attributes
    ----------
    tile
        Rows of a tile, a power of two; None: so many that a tile has about `numbers` numbers.
    numbers
        Numbers of a tile, padded columns counted.
    programs
        Programs of the grid, each with a run of tiles; fewer if there are fewer tiles.
    warps, stages
        Of the compiler: groups of 32 threads of a program, and loads in flight.
    """

    tile: int | None = None
    numbers: int = 8192
    programs: int = 1056
    warps: int = 8
    stages: int = 2

    def rows(self, width: int) -> int:
        """Return the rows of a tile whose columns are padded to `width`."""
        return self.tile or max(1, min(256, self.numbers // width))


def supports(loss: Loss) -> bool:
    """Say whether the kernel can compute a loss: one predictor, and functions that its compiler has."""
    return loss.predictors == 1 and loss.name in _SUPPORTED


def gradient(
    loss: Loss,
    blocks: Iterable[tuple[Any, Any]],
    *,
    layout: Layout = Layout(),  # noqa: B008 - frozen
    platform: str | None = "gpu",
    interpret: bool = False,
) -> xla.Traced:
    """Return the gradient over blocks of rows.

    Parameters
    ----------
    layout
        How the work is cut; its numbers change the speed, and the result only by rounding.
    interpret
        Run the kernel step by step on any platform, to check it.
    """
    if not supports(loss):
        raise InvalidParameter("loss", loss.name, f"one of {', '.join(sorted(_SUPPORTED))}", "the gradient by XLA")
    jax = xla._jax()
    device = jax.devices(platform)[0]
    data, features = [], 0
    with jax.enable_x64(True):
        for rows, outcomes in blocks:
            features = np.shape(rows)[1]
            # A row of zeros adds nothing, and the kernel needs a row.
            some = np.shape(rows)[0] > 0
            pair = (
                aligned(np.asarray(rows) if some else np.zeros((1, features))),
                np.asarray(outcomes if some else [1.0], float),
            )
            data.append(tuple(jax.device_put(each, device) for each in pair))
    return xla.Traced(_programs(loss, layout, interpret), tuple(data), (features,))


def aligned(rows: np.ndarray) -> np.ndarray:
    """Return the rows with zero columns up to a whole number of lines of memory."""
    rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
    extra = -rows.shape[1] % (_LINE // rows.dtype.itemsize)
    return np.pad(rows, ((0, 0), (0, extra))) if extra else rows


def cut(rows: int, stored: int, layout: Layout) -> tuple[int, int, int, int]:
    """Return (width, tile, tiles of a program, programs) such that the sums keep to `rounding.additions`."""
    width = 1 << (stored - 1).bit_length()
    tile = layout.rows(width)
    number = -(-rows // tile)
    programs = max(1, min(layout.programs, number))
    share = -(-number // programs)
    programs = -(-number // share)
    most = additions(rows) - SPARE
    if tile + share + programs > most:
        allowed = f"a layout with fewer additions: {tile} + {share} + {programs} exceed {most}"
        raise InvalidParameter("layout", layout, allowed, "Layout()")
    return width, tile, share, programs


@cache
def _programs(loss: Loss, layout: Layout, interpret: bool) -> xla.Programs:
    from jax import numpy as jnp

    def block(theta: Any, pair: tuple[Any, Any]) -> Any:
        rows, y = pair
        features, (count, stored) = theta.shape[0], rows.shape
        sums = _sums(loss, layout, interpret, count, stored, features)
        return sums(rows, y, jnp.pad(theta, (0, stored - features)))[:features]

    return xla.programs(block)


def _sums(loss: Loss, layout: Layout, interpret: bool, count: int, stored: int, features: int) -> Any:
    """Return the kernel for a block of `count` rows of `stored` columns, `features` of which are not padding."""
    import jax
    from jax import lax
    from jax import numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    from vestry.losses import accelerated

    derivative = loss.derivative(accelerated)
    width, tile, share, programs = cut(count, stored, layout)

    def kernel(rows: Any, y: Any, theta: Any, out: Any) -> None:
        columns = jnp.arange(width, dtype=jnp.int32)
        inside = columns < features
        at = triton.load(theta.at[pl.ds(0, width)], mask=inside, other=0.0)
        begin = pl.program_id(0) * (share * tile)

        def one(t: Any, total: Any) -> Any:
            first = begin + t.astype(jnp.int32) * tile
            there = first + jnp.arange(tile, dtype=jnp.int32) < count
            values = triton.load(
                rows.at[pl.ds(first, tile), pl.ds(0, width)], mask=there[:, None] & inside[None, :], other=0.0
            ).astype(jnp.float64)
            outcomes = triton.load(y.at[pl.ds(first, tile)], mask=there, other=1.0)
            weight = derivative(jnp.sum(values * at[None, :], axis=1), outcomes)
            return total + jnp.sum(values * weight[:, None], axis=0)

        total = lax.fori_loop(0, share, one, jnp.zeros(width, jnp.float64))
        out[...] = total[None, :]

    call = pl.pallas_call(
        kernel,
        grid=(programs,),
        out_shape=jax.ShapeDtypeStruct((programs, width), jnp.float64),
        out_specs=pl.BlockSpec((1, width), lambda i: (i, 0)),
        compiler_params=triton.CompilerParams(num_warps=layout.warps, num_stages=layout.stages),
        interpret=interpret,
    )
    return lambda rows, y, theta: call(rows, y, theta).sum(axis=0)
