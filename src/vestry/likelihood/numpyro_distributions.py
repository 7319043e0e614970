"""Distributions of noisy numbers for NumPyro, with the true ones summed out.

    numpyro.sample("release", NoisyBinomial(likelihood, logits=eta), obs=likelihood.values)

They have a log probability at what was released, and no draws: what a release would be at other parameters is drawn by
a model of records. NumPyro must count in doubles: `numpyro.enable_x64()` before anything else.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

import jax
import numpy as np
from numpyro.distributions import Distribution, constraints

import vestry.likelihood.jax_trees  # noqa: F401 - likelihoods become arguments of compiled functions
from vestry.errors import InvalidParameter
from vestry.likelihood.release_likelihood import (
    BinomialLikelihood,
    GramLikelihood,
    Likelihood,
    MultinomialLikelihood,
    PoissonLikelihood,
)


class _NoisyNumbers(Distribution):  # type: ignore[misc]
    """What the distributions have in common.

    Attributes
    ----------
    likelihood
        That of a release.
    parameters
        What it is evaluated at, by name.
    of, dimensions
        The kind of likelihood, and how many dimensions of the first parameter belong to one group.
    """

    of: ClassVar[type[Likelihood]]
    dimensions: ClassVar[int]

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = constraints.real_vector
    pytree_data_fields = ("likelihood", "parameters")

    def __init__(self, likelihood: Any, parameters: dict[str, Any], validate_args: Any) -> None:
        if not isinstance(likelihood, self.of):
            given = likelihood.kind if isinstance(likelihood, Likelihood) else type(likelihood).__name__
            raise InvalidParameter("a likelihood", given, f"one of {self.of.kind} numbers", _INSTEAD)
        self.likelihood = likelihood
        self.parameters = {name: each for name, each in parameters.items() if each is not None}
        shapes = [np.shape(each)[: np.ndim(each) - self.dimensions] for each in list(self.parameters.values())[:1]]
        batch = np.broadcast_shapes(likelihood.batch_shape, *shapes)
        super().__init__(batch, (len(likelihood.names),), validate_args=validate_args)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> NoReturn:
        """Refuse: the distribution is there for what was released."""
        raise InvalidParameter("obs", None, "the released numbers", "obs=likelihood.values")

    def log_prob(self, value: Any) -> Any:
        """Return log p(noisy | parameters), by group; `value` is what was released."""
        own = self.likelihood.values
        known = not any(isinstance(each, jax.core.Tracer) for each in (value, own))
        if np.shape(value) != np.shape(own) or (known and not np.array_equal(value, own)):
            raise InvalidParameter("obs", "other numbers", "those of the release", "obs=likelihood.values")
        return self.likelihood.log_likelihood(**{name: jax.numpy.asarray(x) for name, x in self.parameters.items()})


_INSTEAD = "release.likelihood() of a model that has them"


class _NoisyCounts(_NoisyNumbers):
    def __init__(
        self,
        likelihood: Any,
        logits: Any = None,
        *,
        probs: Any = None,
        total_mean: Any = None,
        total_shape: Any = None,
        validate_args: Any = None,
    ) -> None:
        given = {"logits": logits, "probs": probs, "total_mean": total_mean, "total_shape": total_shape}
        super().__init__(likelihood, given, validate_args)


class NoisyBinomial(_NoisyCounts):
    """Noisy successes among records; see `BinomialLikelihood.log_likelihood` for the parameters."""

    of, dimensions = BinomialLikelihood, 0


class NoisyMultinomial(_NoisyCounts):
    """Noisy counts of levels; see `MultinomialLikelihood.log_likelihood` for the parameters."""

    of, dimensions = MultinomialLikelihood, 1


class NoisyPoisson(_NoisyNumbers):
    """Noisy sums of counts; see `PoissonLikelihood.log_likelihood` for the parameters."""

    of, dimensions = PoissonLikelihood, 0

    def __init__(self, likelihood: Any, rate: Any = None, *, log_rate: Any = None, validate_args: Any = None) -> None:
        super().__init__(likelihood, {"rate": rate, "log_rate": log_rate}, validate_args)


class NoisyGram(_NoisyNumbers):
    """A noisy Gram matrix, given the true one; see `GramLikelihood`."""

    of, dimensions = GramLikelihood, 2

    def __init__(self, likelihood: Any, gram: Any, *, validate_args: Any = None) -> None:
        super().__init__(likelihood, {"gram": gram}, validate_args)
