"""One set of formulas for arrays of NumPy, of JAX and of PyTensor: the names that they share, and what differs.

The library is told by the arrays themselves, so that nothing is imported that is not there already.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, log_ndtr

from vestry.errors import InvalidParameter

# A probability or a mean below this is taken for this one: its logarithm is finite.
_TINY = 1e-300
# 1 less the smallest step of a double.
_ALMOST = 1 - 2.0**-53


@dataclass(frozen=True)
class ArrayMath:
    """An array library.

    Attributes
    ----------
    xp
        Its functions, by NumPy's names.
    log_gamma
        The logarithm of the gamma function.
    log_normal_cdf
        The logarithm of the normal distribution function.
    freeze
        Hides a value from derivatives: for what cancels from the result.
    array
        Makes an array of NumPy's one of its own.
    """

    xp: Any
    log_gamma: Callable[[Any], Any]
    log_normal_cdf: Callable[[Any], Any]
    freeze: Callable[[Any], Any]
    array: Callable[[Any], Any]

    def log_sum(self, terms: Any, axis: int) -> Any:
        """Return log sum e^terms along an axis; the greatest term is taken out first, so that nothing overflows."""
        top = self.freeze(self.xp.max(terms, axis=axis, keepdims=True))
        return self.xp.log(self.xp.sum(self.xp.exp(terms - top), axis=axis)) + self.xp.sum(top, axis=axis)

    def log_expit(self, logit: Any) -> Any:
        """Return log 1/(1 + e^-x)."""
        return -self.xp.logaddexp(0.0, -logit)

    def log_softmax(self, logits: Any) -> Any:
        """Return the logarithms of probabilities, along the last axis."""
        return logits - self.xp.expand_dims(self.log_sum(logits, -1), -1)

    def log(self, positive: Any) -> Any:
        """Return the logarithm of what is not negative; of 0, that of 1e-300."""
        return self.xp.log(self.xp.maximum(positive, _TINY))

    def logit(self, probability: Any) -> Any:
        """Return log p/(1 - p), finite for 0 and 1."""
        p = self.xp.clip(probability, _TINY, _ALMOST)
        return self.xp.log(p) - self.xp.log1p(-p)


def _numpy() -> ArrayMath:
    return ArrayMath(np, gammaln, log_ndtr, lambda x: x, np.asarray)


def _jax() -> ArrayMath:
    import jax

    special = jax.scipy.special
    return ArrayMath(jax.numpy, special.gammaln, special.log_ndtr, jax.lax.stop_gradient, jax.numpy.asarray)


def _pytensor() -> ArrayMath:
    import pytensor.gradient
    import pytensor.tensor

    tensor = pytensor.tensor

    def log_normal_cdf(x: Any) -> Any:
        # Each side of the choice is finite where the other is taken, and so are their derivatives.
        low = tensor.minimum(x, 0.0)
        high = tensor.maximum(x, -1.0)
        scaled = tensor.erfcx(-low / math.sqrt(2))
        of_low = tensor.log(scaled / 2) - low**2 / 2
        beyond = tensor.erfc(high / math.sqrt(2)) / 2
        of_high = tensor.log1p(-beyond)
        return tensor.switch(x < -1.0, of_low, of_high)

    return ArrayMath(tensor, tensor.gammaln, log_normal_cdf, pytensor.gradient.disconnected_grad, tensor.as_tensor)


_LIBRARIES = {"jax": _jax, "jaxlib": _jax, "pytensor": _pytensor}


def math_of(*arrays: Any) -> ArrayMath:
    """Return the library of these arrays: NumPy's, unless one of them is of another.

    Single precision of JAX is refused: a log-likelihood is a sum of large terms that nearly cancel, and of a count of
    10,000 single precision keeps no more than one digit behind the point.
    """
    for array in arrays:
        top = type(array).__module__.partition(".")[0]
        if top in _LIBRARIES:
            if str(getattr(array, "dtype", "")) in ("float32", "float16", "bfloat16"):
                allowed = "double: noise is summed out over terms that nearly cancel"
                raise InvalidParameter("the precision of an array", str(array.dtype), allowed, _DOUBLE[top])
            return _LIBRARIES[top]()
    return _numpy()


_DOUBLE = dict.fromkeys(("jax", "jaxlib"), "numpyro.enable_x64(), or jax.config.update('jax_enable_x64', True), first")
_DOUBLE["pytensor"] = 'pytensor.config.floatX = "float64"'
