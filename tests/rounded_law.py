"""The law of rounded normal noise, written out for oracles: a difference of two values of the distribution function."""

import mpmath as mp
import numpy as np
from scipy.special import log_ndtr


def exact_mass(scale, k):
    """Return P(k) to the digits that mpmath works with; of the lower tail, as the upper one's difference is 0."""
    below = (abs(mp.mpf(k)) - mp.mpf(1) / 2) / mp.mpf(scale)
    above = (abs(mp.mpf(k)) + mp.mpf(1) / 2) / mp.mpf(scale)
    return (mp.erfc(below / mp.sqrt(2)) - mp.erfc(above / mp.sqrt(2))) / 2


def rounded_log_mass(scale, k):
    """Return log P(k) in doubles."""
    middle = -np.abs(np.asarray(k, float)) / scale
    upper = log_ndtr(middle + 0.5 / scale)
    lower = log_ndtr(middle - 0.5 / scale)
    return upper + np.log1p(-np.exp(lower - upper))
