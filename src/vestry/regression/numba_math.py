"""The arithmetic of a derivative on single numbers, for compiled loops."""

from math import erfc, exp, expm1, log, log1p, sqrt, tanh

from numpy import absolute, maximum, minimum, where

__all__ = ["absolute", "erfc", "exp", "expm1", "log", "log1p", "maximum", "minimum", "sqrt", "tanh", "where"]
