"""How a page writes numbers: three significant digits, a real minus sign, thin spaces in thousands.

A number that has a spread is written to the digits that its spread allows: 103.45 with a standard deviation of 0.12,
and 103.4 with one of 0.5. What bounds an attacker is rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal

DIGITS = 3
# No-break spaces, narrow and of full width.
_THIN, _SPACE = "\u202f", "\u00a0"
# Fewer decimals than any number asks for.
_NONE = -400
# A spread whose digits begin below this is written with two of them.
_TWO_DIGITS = 3.55
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float) -> str:
    """Write a number by itself."""
    if value != 0 and not 1e-5 <= abs(value) < 1e7:
        return _scientific(value, ROUND_HALF_EVEN)
    return _plain(value, _decimals(value, DIGITS), ROUND_HALF_EVEN)


@dataclass(frozen=True)
class Digits:
    """How the numbers of one row are written: to the digits that their spread allows, and so lined up.

    Two significant digits of the spread where they are below 35, else one: the rule of the Particle Data Group, by
    which rounding changes a number by less than a sixth of its spread.

    Attributes
    ----------
    spread
        A standard deviation.
    percent
        Whether numbers are written in percent.
    """

    spread: float
    percent: bool = False

    def __call__(self, value: float) -> str:
        """Write one number of the row."""
        return f"{self.bare(value)}{_SPACE}%" if self.percent else self.bare(value)

    def bare(self, value: float) -> str:
        """Write one number without its percent sign."""
        factor = 100 if self.percent else 1
        spread = factor * self.spread
        if not 1e-9 < spread < 1e12:
            return number(factor * value)
        mantissa, _, exponent = f"{spread:.2e}".partition("e")
        return _plain(factor * value, (1 if float(mantissa) < _TWO_DIGITS else 0) - int(exponent), ROUND_HALF_EVEN)

    def interval(self, low: float, high: float) -> str:
        """Write both ends."""
        return f"{self(low)} to {self(high)}"


def upward(value: float, *, beyond: float = math.inf) -> str:
    """Write a bound, rounded up at the third significant digit, or at the second of the part that matters."""
    if value != 0 and not 1e-5 <= abs(value) < 1e7:
        return _scientific(value, ROUND_CEILING)
    return _plain(value, max(_decimals(value, DIGITS), _decimals(beyond, DIGITS - 1)), ROUND_CEILING)


def roughly(share: float, *, digits: int = 2) -> str:
    """Write a share as a percentage of a few significant digits."""
    return f"{_plain(100 * share, _decimals(100 * share, digits), ROUND_HALF_EVEN)}{_SPACE}%"


def percent_up(share: float) -> str:
    """Write the bound of a probability as a percentage, rounded up; near 100 % by two digits of what is missing."""
    return f"{upward(100 * share, beyond=100 * (1 - share))}{_SPACE}%"


def whole(value: int) -> str:
    """Write every digit of a whole number."""
    return f"{value:,}".replace(",", _THIN).replace("-", "−")


def probability(share: float) -> str:
    """Write a probability that was counted in draws: three decimals, and never quite 0 or 1."""
    if share < 0.001:
        return "under 0.001"
    return "over 0.999" if share > 0.999 else f"{share:.3f}"


def _decimals(value: float, digits: int) -> int:
    """Return how many decimals show this many significant digits."""
    if value == 0 or not math.isfinite(value):
        return 0 if value == 0 else _NONE
    return digits - 1 - int(f"{abs(value):.{digits - 1}e}".partition("e")[2])


def _plain(value: float, decimals: int, rounding: str) -> str:
    """Write to so many decimals; a negative number of them rounds whole digits away."""
    rounded = _read(value).quantize(Decimal(1).scaleb(-decimals), rounding=rounding)
    text = f"{rounded.quantize(Decimal(1).scaleb(-max(0, decimals))):,}".replace(",", _THIN)
    return (text if rounded else text.lstrip("-")).replace("-", "−")


def _read(value: float) -> Decimal:
    """Read a float as the decimal that it prints as: 0.1, rounded up, is 0.100 and not 0.101."""
    return Decimal(repr(float(value)))


def _scientific(value: float, rounding: str) -> str:
    exponent = math.floor(math.log10(abs(value)))
    mantissa = _read(value).scaleb(-exponent).quantize(Decimal(1).scaleb(1 - DIGITS), rounding=rounding)
    if abs(mantissa) >= 10:
        mantissa, exponent = mantissa / 10, exponent + 1
        mantissa = mantissa.quantize(Decimal(1).scaleb(1 - DIGITS))
    return f"{mantissa}{_SPACE}×{_SPACE}10{str(exponent).translate(SUPERSCRIPT)}".replace("-", "−")
