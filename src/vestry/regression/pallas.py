"""Gradients on the GPU in one kernel that reads the rows once: a Pallas kernel, compiled through Triton.

Plain XLA reads the rows twice, and writes them out as doubles if they are stored as float32. Here each program of the
grid takes a run of tiles of rows; a tile is loaded once, gives its predictors, derivatives and share of the gradient
from registers, and the program writes one row of sums. These are added afterwards. Columns are cut into powers of two,
so that no load needs a mask.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.regression import xla
from vestry.regression.loss import Loss
from vestry.regression.rounding_error import SPARE, additions

# Losses whose functions the kernel's compiler has in doubles; erfc is not among them.
_SUPPORTED = frozenset(
    {"logistic", "huber", "pseudo-huber", "log-cosh", "smooth-hinge", "softplus-hinge", "smooth-quantile",
     "complementary-log-log"}
)  # fmt: skip
# Rows are stored in whole tiles of at most so many, and columns in multiples of 32 bytes.
_ROWS, _COLUMNS = 64, 8


@dataclass(frozen=True)
class TileLayout:
    """How the kernel cuts its work.

    Attributes
    ----------
    numbers
        About how many numbers a tile has; its rows are a power of two.
    programs
        Programs of the grid, each with a run of tiles; fewer if there are fewer tiles.
    warps, stages
        Of the compiler: groups of 32 threads of a program, and loads in flight.
    """

    numbers: int = 2048
    programs: int = 1056
    warps: int = 8
    stages: int = 1

    def rows(self, stored: int) -> int:
        """Return the rows of a tile of so many columns."""
        return min(_ROWS, 1 << max(0, (self.numbers // stored).bit_length() - 1))


def layout_for(stored: int) -> TileLayout:
    """Return the layout for rows of so many columns: longer rows take fewer threads, each with more of a row."""
    return TileLayout() if stored <= 64 else TileLayout(numbers=1024, warps=1)


def supports(loss: Loss) -> bool:
    """Say whether the kernel can compute a loss: one predictor, and functions that its compiler has."""
    return loss.predictors == 1 and loss.name in _SUPPORTED


def gradient(
    loss: Loss,
    blocks: Iterable[tuple[Any, Any]],
    *,
    layout: TileLayout | None = None,
    platform: str | None = "gpu",
    interpret: bool = False,
) -> xla.Traced:
    """Return the gradient over blocks of rows.

    Parameters
    ----------
    layout
        How the work is cut, which changes the speed, and the result only by rounding; None for what was fastest on an
        H200 for rows of this length.
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
            # A row of zeros adds nothing, and the kernel needs whole tiles, at least one.
            stored = pad_to_tiles(np.asarray(rows) if len(outcomes) else np.zeros((1, features)))
            y = np.ones(len(stored))
            y[: len(outcomes)] = outcomes
            data.append(tuple(jax.device_put(each, device) for each in (stored, y)))
    return xla.Traced(_programs(loss, layout, interpret), tuple(data), (features,))


def pad_to_tiles(rows: np.ndarray) -> np.ndarray:
    """Return the rows with zero columns up to a multiple of `_COLUMNS`, and zero rows up to whole tiles."""
    rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
    extra = (-rows.shape[0] % _ROWS, -rows.shape[1] % _COLUMNS)
    return np.pad(rows, ((0, extra[0]), (0, extra[1]))) if any(extra) else rows


def chunks(stored: int) -> list[tuple[int, int]]:
    """Cut the columns into powers of two, the compiler's only widths: (first, width) of each."""
    parts, first = [], 0
    for width in (1 << bit for bit in reversed(range(stored.bit_length()))):
        if stored & width:
            parts.append((first, width))
            first += width
    return parts


def tiling(rows: int, stored: int, layout: TileLayout) -> tuple[int, int, int, int]:
    """Return (tile, tiles, tiles of a program, programs) such that the sums keep to `rounding.additions`."""
    tile = layout.rows(stored)
    number = rows // tile
    programs = max(1, min(layout.programs, number))
    share = -(-number // programs)
    programs = -(-number // share)
    most = additions(rows) - SPARE
    if tile + share + programs > most:
        allowed = f"a layout with fewer additions: {tile} + {share} + {programs} exceed {most}"
        raise InvalidParameter("layout", layout, allowed, "Layout()")
    return tile, number, share, programs


@cache
def _programs(loss: Loss, layout: TileLayout | None, interpret: bool) -> xla.Programs:
    from jax import numpy as jnp

    def block(theta: Any, pair: tuple[Any, Any]) -> Any:
        rows, y = pair
        features, (count, stored) = theta.shape[0], rows.shape
        sums = _sums(loss, layout or layout_for(stored), interpret, count, stored)
        return sums(rows, y, jnp.pad(theta, (0, stored - features)))[:features]

    return xla.programs(block)


def _sums(loss: Loss, layout: TileLayout, interpret: bool, count: int, stored: int) -> Any:
    """Return the kernel for a block of `count` rows of `stored` columns, whole tiles of both."""
    import jax
    from jax import lax
    from jax import numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    from vestry.regression import jax_math

    derivative = loss.derivative(jax_math)
    tile, tiles, share, programs = tiling(count, stored, layout)
    parts = chunks(stored)

    def kernel(rows: Any, y: Any, theta: Any, out: Any) -> None:
        at = [theta[pl.ds(first, width)] for first, width in parts]
        begin = pl.program_id(0) * share
        end = jnp.minimum(begin + share, tiles)

        def loaded(t: Any) -> Any:
            first = t.astype(jnp.int32) * tile
            values = tuple(rows[pl.ds(first, tile), pl.ds(start, width)] for start, width in parts)
            return values, y[pl.ds(first, tile)]

        def one(t: Any, carried: Any) -> Any:
            (stored_values, outcomes), totals = carried
            following = loaded(jnp.minimum(t + 1, end - 1))  # on its way while this tile is worked on
            values = [x.astype(jnp.float64) for x in stored_values]
            eta = sum(jnp.sum(x * part[None, :], axis=1) for x, part in zip(values, at, strict=True))
            weight = derivative(eta, outcomes)
            return following, tuple(total + x * weight[:, None] for total, x in zip(totals, values, strict=True))

        # Each place of the tile has its own sum: nothing is exchanged between threads before the end.
        zeros = tuple(jnp.zeros((tile, width), jnp.float64) for _, width in parts)
        _, totals = lax.fori_loop(begin, end, one, (loaded(begin), zeros))
        for (start, width), total in zip(parts, totals, strict=True):
            out[0, pl.ds(start, width)] = jnp.sum(total, axis=0)

    call = pl.pallas_call(
        kernel,
        grid=(programs,),
        out_shape=jax.ShapeDtypeStruct((programs, stored), jnp.float64),
        out_specs=pl.BlockSpec((1, stored), lambda i: (i, 0)),
        compiler_params=triton.CompilerParams(num_warps=layout.warps, num_stages=layout.stages),
        interpret=interpret,
    )
    return lambda rows, y, theta: call(rows, y, theta).sum(axis=0)
