"""One certified draw from a logistic posterior, against NUTS with 500 warm-up steps, both in doubles.

Synthetic records of the shape of Abalone, Adult and MNIST 3 v 8, of norm 1; (1, 1e-6) under add-remove, the prior's
precision raised until an untempered draw meets it (algorithm 4). Compilation is not counted on either side: each runs
once before; but for NUTS on the shape of MNIST, where it is a few seconds of minutes. Slice sampling is timed over
fewer sweeps and scaled up.
"""

import time

import numpy as np

from vestry.noise import SystemNoise
from vestry.privacy.guarantee import ApproxDP
from vestry.privacy.neighbours import Adjacency
from vestry.regression.langevin import concentrated_posterior
from vestry.regression.losses import Logistic
from vestry.regression.problem import LinearProblem

WARM_UP, SWEEPS = 500, 1000
# Rows, features, the least speed-up, and over how many sweeps slice sampling is timed.
SHAPES = {
    "Abalone": (4_177, 10, 10.0, 20),
    "Adult": (32_561, 105, 3.0, 1),
    "MNIST 3 v 8": (11_982, 785, None, 0),
}


def run(quick: bool = False) -> list[dict]:
    rows = []
    for name, (n, d, least, sweeps) in list(SHAPES.items())[: 1 if quick else 3]:
        features, outcomes = made(n, d)
        problem = LinearProblem(Logistic(), d, 1.0, Adjacency("add-remove"), n)
        draw = concentrated_posterior(problem, ApproxDP(1, 1e-6), prior_precision=1.0)
        block = [(features.astype(np.float32), outcomes)]
        draw.draw(block, SystemNoise())
        own = min(timed(lambda block=block, draw=draw: draw.draw(block, SystemNoise())) for _ in range(3))
        steps = sum(draw.schedule.steps)
        rows.append({"name": f"certified draw, {name} shape ({steps} steps)", "value": 1e3 * own, "unit": "ms"})
        other = nuts(features, outcomes, draw.prior_precision, again=least is not None)
        ratio = other / own
        row = {"name": f"NUTS, {WARM_UP} warm-up steps, {name} shape", "value": 1e3 * other, "unit": "ms",
               "speedup": ratio, "peer": f"a certified draw is {ratio:.3g} times faster"}  # fmt: skip
        if least is not None:
            row |= {"ratio": least / ratio, "limit": 1.0, "peer": f"{row['peer']}; at least {least:g}"}
        rows.append(row)
        if sweeps:
            other = slices(features, outcomes, draw.prior_precision, sweeps)
            rows.append({"name": f"slice sampling, {SWEEPS} sweeps, {name} shape", "value": 1e3 * other, "unit": "ms",
                         "peer": f"a certified draw is {other / own:.3g} times faster"})  # fmt: skip
    return rows


def made(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    features = rng.normal(size=(n, d))
    features /= np.linalg.norm(features, axis=1, keepdims=True) * (1 + 1e-6)
    truth = rng.normal(size=d) * 3
    return features, np.where(rng.random(n) < 1 / (1 + np.exp(-features @ truth)), 1.0, -1.0)


def timed(action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def nuts(features: np.ndarray, outcomes: np.ndarray, precision: float, *, again: bool) -> float:
    """Return the seconds of NUTS with 500 warm-up steps and one draw; `again`: after a run that compiled it."""
    import jax
    import numpyro
    from numpyro import distributions
    from numpyro.infer import MCMC, NUTS

    with jax.enable_x64(True):
        signed = jax.numpy.asarray(features * outcomes[:, None])

        def model() -> None:
            scale = 1 / np.sqrt(precision)
            theta = numpyro.sample("theta", distributions.Normal(0.0, scale).expand([signed.shape[1]]).to_event(1))
            numpyro.factor("likelihood", jax.nn.log_sigmoid(signed @ theta).sum())

        sampler = MCMC(NUTS(model), num_warmup=WARM_UP, num_samples=1, progress_bar=False)

        def drawn() -> None:
            sampler.run(jax.random.key(1))
            sampler.get_samples()["theta"].block_until_ready()

        return min(timed(drawn) for _ in range(2 if again else 1))


def slices(features: np.ndarray, outcomes: np.ndarray, precision: float, sweeps: int) -> float:
    """Return the seconds of 1,000 sweeps of coordinate slice sampling, scaled up from as many as are run."""
    from vestry.mcmc.slice_sampler import slice_logistic

    def drawn() -> None:
        slice_logistic(np.random.default_rng(0), features, outcomes, prior_precision=precision, draws=1, burn=sweeps,
                       assume_converged=True)  # fmt: skip

    drawn()  # compiles
    return timed(drawn) * SWEEPS / sweeps


if __name__ == "__main__":
    for each in run():
        print(each)
