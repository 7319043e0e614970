"""The density of `vestry.regression.gram_sampler`, compiled, so that thousands of simulated studies end the same day.

`use()` puts it in the place of the library's own, which needs no compiler; `check()` compares the two at random points.
The formulas are those of `GramTarget`, one point at a time.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from scipy.special import digamma, gammaln

from vestry.numerics import Array
from vestry.regression.gram_sampler import _LOG2, _STEP, GramTarget

OWN = GramTarget.__call__


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _points(x, log_n, matrix, mask, fixed, f, tau, spread, laplace, powers):  # type: ignore[no-untyped-def]
    """Return all of the log density but the residuals' part, and the gradient with g's and log n's last two apart."""
    size, d = len(x), len(matrix) - 1
    pairs = d * (d - 1) // 2
    at_v, at_a = d - fixed, d - fixed + pairs
    at_e = at_a + d
    at_rho = at_e + d
    value, gradient, by_n = np.zeros(size), np.zeros((size, at_rho + 2)), np.zeros(size)
    m, low, t = np.ones(d), np.zeros((d, d)), np.zeros((d, d))
    before, of_l, slope = np.zeros((d, d)), np.zeros((d, d)), np.zeros((d + 1, d + 1))
    c, of_c = np.zeros(d), np.zeros(d)
    for p in range(size):
        total, n = 0.0, math.exp(log_n[p])
        for j in range(fixed, d):
            z = x[p, j - fixed]
            m[j] = 1 / (1 + math.exp(-z))
            total -= abs(z) + 2 * math.log1p(math.exp(-abs(z)))
        at = at_v
        for j in range(d):
            rest = 1.0
            for k in range(j):
                v = x[p, at]
                t[j, k], before[j, k] = math.tanh(v), rest
                low[j, k] = math.sqrt(m[j]) * rest * t[j, k]
                rest *= math.sqrt(1 - t[j, k] ** 2)
                total += 2 * powers[at - at_v] * (_LOG2 - abs(v) - math.log1p(math.exp(-2 * abs(v))))
                at += 1
            before[j, j] = rest
            low[j, j] = math.sqrt(m[j]) * rest
        rho, h = x[p, at_rho], math.sqrt(2 / f) * x[p, at_rho + 1]
        share = math.exp(h / 2) / math.sqrt(f)
        ratio, moved = rho * share, rho**2
        for k in range(d):
            c[k] = ratio * x[p, at_e + k]
            for i in range(k, d):
                c[k] += tau * low[i, k] * x[p, at_a + i]
            moved += c[k] ** 2
            total -= 0.5 * (x[p, at_a + k] ** 2 + x[p, at_e + k] ** 2)
        of_n = 0.0
        for i in range(d + 1):
            for j in range(i, d + 1):
                entry = 0.0
                if i == d:
                    entry = moved
                elif j == d:
                    for k in range(i + 1):
                        entry += low[i, k] * c[k]
                else:
                    for k in range(i + 1):
                        entry += low[i, k] * low[j, k]
                gap = (matrix[i, j] - n * entry) * mask[i, j]
                if laplace:
                    scale = spread / math.sqrt(2)
                    total -= abs(gap) / scale
                    slope[i, j] = np.sign(gap) / scale
                else:
                    slope[i, j] = gap / spread**2
                    total -= 0.5 * gap * slope[i, j]
                of_n += slope[i, j] * entry
        beyond = (moved - 1) / _STEP
        total -= max(beyond, 0.0) + math.log1p(math.exp(-abs(beyond)))
        of_w = n * slope[d, d] - 1 / (1 + math.exp(min(-beyond, 500.0))) / _STEP
        for k in range(d):
            of_c[k] = 2 * of_w * c[k]
            for i in range(k, d):
                of_c[k] += n * low[i, k] * slope[i, d]
        of_ratio = 0.0
        for k in range(d):
            of_ratio += x[p, at_e + k] * of_c[k]
            gradient[p, at_e + k] = ratio * of_c[k] - x[p, at_e + k]
        at = at_v
        for i in range(d):
            gained = 0.0
            for k in range(i + 1):
                gained += low[i, k] * of_c[k]
                found = slope[i, d] * c[k]
                for j in range(k, d):
                    found += (slope[min(i, j), max(i, j)] * (2.0 if i == j else 1.0)) * low[j, k]
                of_l[i, k] = n * found + tau * x[p, at_a + i] * of_c[k]
            gradient[p, at_a + i] = tau * gained - x[p, at_a + i]
            after = 0.0
            for k in range(i, -1, -1):
                if k < i:
                    own = of_l[i, k] * math.sqrt(m[i]) * before[i, k] * (1 - t[i, k] ** 2)
                    place = at + k
                    gradient[p, place] = own - t[i, k] * after - 2 * powers[place - at_v] * t[i, k]
                after += of_l[i, k] * low[i, k]
            at += i
            if i >= fixed:
                gradient[p, i - fixed] = 0.5 * after * (1 - m[i]) + 1 - 2 * m[i]
        gradient[p, at_rho] = 2 * of_w * rho + of_ratio * share
        gradient[p, at_rho + 1] = math.sqrt(2 / f) * (of_ratio * ratio / 2 + 0.5)
        value[p], by_n[p] = total + log_n[p] / 2 + h / 2, of_n
    return value, gradient, by_n


def density(target: GramTarget, x: Array) -> tuple[Array, Array]:
    """Return log density and gradient at points, as `GramTarget` does."""
    noisy, x = target.noisy, np.ascontiguousarray(x)
    last = target.dimension - 1
    log_n = x[:, last] if noisy.private else np.full(len(x), math.log(noisy.count))
    g = x[:, last - noisy.private]
    f, tau = noisy.freedom, math.sqrt(target.prior_variance)
    laplace = noisy.laplace and not target.smooth
    value, gradient, of_n = _points(
        x, log_n, noisy.matrix, target._mask, int(noisy.intercept), f, tau, noisy.deviation, laplace, target._powers
    )
    h, n = math.sqrt(2 / f) * g, np.exp(log_n)
    nu = np.maximum(n - target.d, 1.0) if noisy.private else np.full_like(h, f)
    value = value + nu / 2 * (math.log(f / 2) - h) - f / 2 * np.exp(-h) - gammaln(nu / 2)
    gradient[:, -1] += math.sqrt(2 / f) * (-nu / 2 + f / 2 * np.exp(-h))
    if noisy.private:
        by_n = of_n + 0.5 * (math.log(f / 2) - h - digamma(nu / 2))
        return value + log_n, np.column_stack([gradient, n * by_n + 1.5])
    return value, gradient


def check(target: GramTarget, rng: np.random.Generator) -> None:
    """Stop if the two densities, or their gradients, differ at fifty points around the start."""
    x = target.start() + 0.3 * rng.normal(size=(50, target.dimension))
    ours, own = density(target, x), OWN(target, x)
    if not all(np.allclose(a, b, rtol=1e-9, atol=1e-9 * np.abs(b).max()) for a, b in zip(ours, own, strict=True)):
        raise AssertionError("the compiled density is not the library's")


def use() -> None:
    """Let the sampler use the compiled density."""
    GramTarget.__call__ = density  # type: ignore[method-assign]
