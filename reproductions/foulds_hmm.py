"""The case study: naive Bayes and a hidden Markov model on a log of events [FouldsGWC16, sec. 5, supplement E].

Replace-one entry, F features. **Laplace**: every count takes integer Laplace noise of scale 2 F/epsilon, is cut at 0,
and the sampler runs on that as long as it likes; for naive Bayes the counts are those of the whole training set.
**Laplace, noise-aware**, which is ours: the same noisy counts, uncut, with the noise summed out.
**OPS**: emission tables truncated at 1/(M K_d), the likelihood at temperature 2 D/epsilon, and the last sweep is
released. For naive Bayes that is an exact draw and costs epsilon. For the hidden Markov model it costs epsilon only if
the chain has converged, which nobody has proved; what its 400 updates do cost is reported beside it. **Paid by
update** is that chain at the temperature where all updates together cost (epsilon, 1e-6), by bounded range; then all
its draws are public and are used.

A score is the log predictive probability of the held-out cells, per entry; the multinomial coefficient is omitted.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq, linear_sum_assignment
from scipy.special import logsumexp

from reproductions.event_log import EventLog, data_folder, dense, events, sparse
from reproductions.event_log_picture import RELEASED, draw
from reproductions.experiment import Experiment, Numbers, claim, mean_and_error
from reproductions.proportion import discrete_noise
from vestry.posterior.discrete_noise import Laplace
from vestry.privacy import accountant
from vestry.privacy.event import Event, compose
from vestry.privacy.mcmc_cost import Collapsed, categorical_span, gibbs_update, owned_scan, temperature_for

Array = np.ndarray

DELTA = 1e-6
STATES, MULTIPLIERS = 10, (10, 100)
AWARE, LAPLACE = "Laplace, noise-aware", "Laplace"
METHODS = ("not private", AWARE, LAPLACE, "OPS, M = 10", "OPS, M = 100", "OPS, M = 10, paid by update")
CONVERGED, PAID = METHODS[3:5], METHODS[5:]
SHOWN_AT = 5.0
EPSILONS, QUICK_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0), (0.1, 1.0, 10.0)
SIZES, QUICK_SIZES = (100, 300, 1000, 3000, 10_000, 30_000), (300, 30_000)
MODELS = ("naive Bayes", "hidden Markov model")


def run(quick: bool, rng: np.random.Generator) -> Numbers:
    """Fit every model to every log: the two simulated ones, and the real one if its folder is named."""
    folder = data_folder()
    logs = [dense(rng), sparse(rng), *([events(folder)] if folder else [])]
    epsilons, splits, sweeps = (QUICK_EPSILONS, 2, 20) if quick else (EPSILONS, 10, 200)
    numbers = {
        "settings": {
            "held_out": 0.1, "splits": splits, "sweeps": sweeps, "burn_in": sweeps // 2, "states": STATES,
            "delta_of_the_chain": DELTA, "neighbours": "replace", "alpha": 1.0, "beta": 1.0,
        },
        "epsilons": list(epsilons),
        "ops_costs": [chain_cost(logs[0].levels, 10, epsilon, sweeps) for epsilon in epsilons],
        "studies": [study(log, rng, epsilons=epsilons, splits=splits, sweeps=sweeps) for log in logs],
        "sizes": sizes(rng, entries=QUICK_SIZES if quick else SIZES, splits=splits // 2, sweeps=sweeps),
        "without_categories": fewer_levels(logs[0], splits=max(2, splits // 2), sweeps=sweeps),
    }  # fmt: skip
    return {**numbers, "claims": _claims(numbers)}


def study(log: EventLog, rng: np.random.Generator, *, epsilons: tuple[float, ...], splits: int, sweeps: int) -> Numbers:
    """Score every method on one log, and map its states at epsilon 5."""
    masks = rng.random((splits, *log.entries.shape)) < 0.1
    masks[:, 0, 0] |= ~masks.any(axis=(1, 2))
    scores: dict[str, dict[str, list[Numbers]]] = {model: {method: [] for method in METHODS} for model in MODELS}
    for model, scored in zip(MODELS, (naive_bayes_scores, hidden_markov_scores), strict=True):
        plain = scored(log, masks, rng, "not private", 1.0, sweeps)
        for epsilon in epsilons:
            for method in METHODS:
                if model == MODELS[0] and method in (AWARE, *PAID):
                    continue  # the draw is exact, and noise is small next to counts of the whole log
                split_scores = plain if method == METHODS[0] else scored(log, masks, rng, method, epsilon, sweeps)
                scores[model][method].append(_summary(split_scores))
    return {
        "log": log.name,
        "entries": int(log.entries.sum()),
        "median_entries_a_cell": float(np.median(log.entries)),
        "levels": list(log.levels),
        "scores": scores,
        **maps(log, rng, sweeps),
    }


def _summary(split_scores: Array) -> Numbers:
    return dict(zip(("mean", "standard_error"), mean_and_error(split_scores), strict=True))


# --- maps -------------------------------------------------------------------------------------------------------------


def maps(log: EventLog, rng: np.random.Generator, sweeps: int) -> Numbers:
    """Fit as many states as are shown: the commonest in each cell, and their tables; the last draw too for OPS.

    States are named as the planted ones, or as those that are found without privacy, so that most cells agree.
    """
    nothing = np.zeros((1, *log.entries.shape), bool)
    state_maps: dict[str, Array] = {} if log.truth is None else {"planted": log.truth}
    used, tables, agree = {}, {}, {}
    for method in ("not private", "Laplace", "OPS, M = 100"):
        draws = fit(log, rng, method, SHOWN_AT, log.shown, sweeps, sweeps // 2, nothing)
        commonest = draws.marginals()[0].argmax(axis=-1)
        reference = next(iter(state_maps.values()), commonest)
        names = _names(commonest, reference, log.shown)
        state_maps[method] = names[commonest]
        tables[method] = [table.mean(axis=(0, 1))[np.argsort(names)].tolist() for table in draws.emissions]
        if "OPS" in method:
            state_maps[RELEASED] = names[draws.paths[-1, 0]]
        ten = fit(log, rng, method, SHOWN_AT, STATES, sweeps, sweeps // 2, nothing)
        shares = np.bincount(ten.marginals()[0].argmax(axis=-1).ravel(), minlength=STATES) / log.entries.size
        used[method] = int((shares > 0.05).sum())
        agree[method] = float((state_maps[method] == reference).mean())
    agree[RELEASED] = float((state_maps[RELEASED] == next(iter(state_maps.values()))).mean())
    return {
        "regions": list(log.regions),
        "months": list(log.months),
        "features": {name: list(names) for name, names in log.features.items()},
        "shown": log.shown,
        "maps": {name: each.tolist() for name, each in state_maps.items()},
        "agreement": agree,
        "tables": tables,
        "states_used_of_ten": used,
    }


def _names(commonest: Array, reference: Array, states: int) -> Array:
    """Return the new name of each state, such that as many cells as possible agree with the reference."""
    together = np.zeros((states, states))
    np.add.at(together, (commonest.ravel(), reference.ravel()), 1)
    return np.asarray(linear_sum_assignment(-together)[1])


# --- how large cells must be ------------------------------------------------------------------------------------------


def sizes(rng: np.random.Generator, *, entries: tuple[int, ...], splits: int, sweeps: int) -> Numbers:
    """Score the hidden Markov model at epsilon 1 on dense logs of more and more entries per cell."""
    scores: dict[str, list[Numbers]] = {method: [] for method in METHODS[2:5]}
    for size in entries:
        log = dense(np.random.default_rng(1), entries=size)
        masks = rng.random((splits, *log.entries.shape)) < 0.1
        plain = hidden_markov_scores(log, masks, rng, METHODS[0], 1.0, sweeps)
        for method, differences in scores.items():
            differences.append(_summary(hidden_markov_scores(log, masks, rng, method, 1.0, sweeps) - plain))
    return {"entries": list(entries), "epsilon": 1.0, "below_not_private": scores}


def fewer_levels(log: EventLog, *, splits: int, sweeps: int) -> Numbers:
    """Score the hidden Markov model without the feature that has the most levels, at a small epsilon and at 1."""
    rng, most = np.random.default_rng(2), int(np.argmax(log.levels))
    names = [name for place, name in enumerate(log.features) if place != most]
    counts = tuple(n for place, n in enumerate(log.counts) if place != most)
    short = replace(log, features={name: log.features[name] for name in names}, counts=counts)
    masks = rng.random((splits, *log.entries.shape)) < 0.1
    plain = hidden_markov_scores(short, masks, rng, METHODS[0], 1.0, sweeps)
    scores = {
        method: [_summary(hidden_markov_scores(short, masks, rng, method, each, sweeps) - plain) for each in (0.1, 1.0)]
        for method in METHODS[2:5]
    }
    return {"epsilons": [0.1, 1.0], "below_not_private": scores}


# --- naive Bayes ------------------------------------------------------------------------------------------------------


def naive_bayes_scores(
    log: EventLog, masks: Array, rng: np.random.Generator, method: str, epsilon: float, sweeps: int
) -> Array:
    """Return each split's score of one-state tables, from counts of the whole training set."""
    from vestry.mcmc import truncated_dirichlet

    splits = len(masks)
    ops = _multiplier(method)
    draws = 1 if ops else sweeps // 2
    logs = np.zeros((draws, splits, *log.entries.shape))
    for n, levels in zip(log.counts, log.levels, strict=True):
        total = np.einsum("srt,rtv->sv", ~masks, n)
        if ops:
            hot = temperature_for(_span(log.levels, ops), epsilon=epsilon, neighbours="replace")
            tables = truncated_dirichlet(rng, 1 + total / hot, low=1 / (ops * levels))[None]
        else:
            if method == LAPLACE:
                total = np.maximum(total + _noise(rng, log, epsilon, total.shape), 0)
            gammas = rng.standard_gamma(1 + total, (draws, *total.shape))
            tables = gammas / gammas.sum(axis=-1, keepdims=True)
        logs += np.einsum("rtv,dsv->dsrt", n, np.log(np.maximum(tables, 1e-300)))
    cells = logsumexp(logs, axis=0) - np.log(draws)
    return _per_entry(cells * masks, log, masks)


# --- the hidden Markov model ------------------------------------------------------------------------------------------


def hidden_markov_scores(
    log: EventLog, masks: Array, rng: np.random.Generator, method: str, epsilon: float, sweeps: int
) -> Array:
    """Return each split's score of a model of ten states."""
    from vestry.hmm import held_out_log_likelihood

    burn_in = sweeps - 1 if _multiplier(method) and "paid" not in method else sweeps // 2
    draws = fit(log, rng, method, epsilon, STATES, sweeps, burn_in, masks)
    return _per_entry(held_out_log_likelihood(draws, log.counts, masks), log, masks)


def fit(
    log: EventLog, rng: np.random.Generator, method: str, epsilon: float, states: int, sweeps: int, burn_in: int,
    masks: Array,
) -> Any:  # fmt: skip
    """Draw states and tables: from true counts, from noisy ones, or tempered and truncated.

    Noise-aware draws leave the generator as it is, so that the Laplace method after them has the same noisy counts.
    """
    from vestry.hmm import collapsed_gibbs, noise_aware_gibbs

    rng = deepcopy(rng) if method == AWARE else rng
    given: dict[str, Any] = {
        "states": states, "sweeps": sweeps, "burn_in": burn_in, "rng": rng, "held_out": masks,
    }  # fmt: skip
    sample = partial(collapsed_gibbs, **given)
    if method in (AWARE, LAPLACE):
        shapes = [(len(masks), *n.shape) for n in log.counts]
        noisy = [n + _noise(rng, log, epsilon, shape) for n, shape in zip(log.counts, shapes, strict=True)]
        if method == AWARE:
            return noise_aware_gibbs(noisy, noise=_laplace(log, epsilon), **given).states
        return sample(noisy)
    ops = _multiplier(method)
    if not ops:
        return sample(log.counts)
    if "paid" in method:
        epsilon = update_epsilon(log.levels, ops, epsilon, sweeps)
    hot = temperature_for(_span(log.levels, ops), epsilon=epsilon, neighbours="replace")
    return sample(log.counts, temperature=hot, truncation=[1 / (ops * levels) for levels in log.levels])


def _noise(rng: np.random.Generator, log: EventLog, epsilon: float, shape: tuple[int, ...]) -> Array:
    return discrete_noise(rng, _laplace(log, epsilon), int(np.prod(shape))).reshape(shape)


def _laplace(log: EventLog, epsilon: float) -> Laplace:
    return Laplace(2 * len(log.counts) / epsilon)


def _multiplier(method: str) -> int:
    """Return the M of an OPS method, 0 for the others."""
    return next((m for m in reversed(MULTIPLIERS) if f"M = {m}" in method), 0)


def _span(levels: tuple[int, ...], multiplier: int) -> float:
    return categorical_span(levels, [1 / (multiplier * k) for k in levels])


def _per_entry(cells: Array, log: EventLog, masks: Array) -> Array:
    return np.asarray(cells.sum(axis=(1, 2)) / (log.entries * masks).sum(axis=(1, 2)))


# --- what the chain costs ---------------------------------------------------------------------------------------------


def chain(levels: tuple[int, ...], multiplier: int, epsilon: float, sweeps: int) -> Event:
    """Record all updates of a chain, each of them of epsilon: the states in parallel, then the tables as one block."""
    span = _span(levels, multiplier)
    hot = temperature_for(span, epsilon=epsilon, neighbours="replace")
    update = gibbs_update(span, temperature=hot, neighbours="replace")
    return compose(owned_scan(update, collapsed=Collapsed.LATENT_PRIOR), update).times(sweeps)


def chain_cost(levels: tuple[int, ...], multiplier: int, epsilon: float, sweeps: int) -> Numbers:
    """Set what the converged chain is said to cost beside what its updates cost."""
    updates = chain(levels, multiplier, epsilon, sweeps)
    return {
        "claimed_if_converged": epsilon,
        "added_up": float(accountant.pure(updates)),
        "by_bounded_range": accountant.epsilon(updates, DELTA),
    }


def update_epsilon(levels: tuple[int, ...], multiplier: int, epsilon: float, sweeps: int) -> float:
    """Return what one update may cost if all together cost (epsilon, 1e-6)."""

    def excess(log_each: float) -> float:
        return accountant.epsilon(chain(levels, multiplier, float(np.exp(log_each)), sweeps), DELTA) - epsilon

    return 0.999 * float(np.exp(brentq(excess, np.log(epsilon / (4 * sweeps)), np.log(epsilon), xtol=1e-4)))


# --- what came out ----------------------------------------------------------------------------------------------------


def _claims(numbers: Numbers) -> list[dict[str, Any]]:
    thick, thin = numbers["studies"][:2]
    return [
        _found_states(thick, thin),
        _naive_bayes(numbers),
        _large_cells(numbers, thick),
        _small_cells(numbers, thin),
        _cost_of_updates(numbers, thick, thin),
        claim(
            "the one draw that OPS releases makes a noisier map than a hundred draws would, on the sparse log",
            f"{100 * thin['agreement'][RELEASED]:.1f} % of cells right, against"
            f" {100 * thin['agreement']['OPS, M = 100']:.1f} %",
            holds=thin["agreement"][RELEASED] < thin["agreement"]["OPS, M = 100"],
        ),
        _summed_out(numbers, thick, thin),
    ]


def _found_states(thick: Numbers, thin: Numbers) -> dict[str, Any]:
    dense, sparse = (100 * each["agreement"]["Laplace"] for each in (thick, thin))
    return claim(
        "the Laplace model at epsilon 5 finds the planted states of the dense log, at least 95 % of its cells",
        f"{dense:.1f} %; on the sparse log, of three states, {sparse:.1f} %",
        holds=dense >= 95,
    )


def _naive_bayes(numbers: Numbers) -> dict[str, Any]:
    count = len(numbers["epsilons"])
    ahead = [_ahead(each, MODELS[0], CONVERGED) for each in numbers["studies"]]
    named = [f"{each['log']} {at}" for each, at in zip(numbers["studies"], ahead, strict=True)]
    return claim(
        "naive Bayes: Laplace is superior to OPS, at every epsilon (held to the simulated logs)",
        f"ahead at so many of {count}: " + "; ".join(named),
        holds=ahead[:2] == [count, count],
    )


def _large_cells(numbers: Numbers, thick: Numbers) -> dict[str, Any]:
    count, ahead = len(numbers["epsilons"]), _ahead(thick, MODELS[1], CONVERGED)
    scan, rest = numbers["sizes"], numbers["without_categories"]["below_not_private"]
    wins = [
        size
        for place, size in enumerate(scan["entries"])
        if _rivals_behind(scan["below_not_private"], place) == len(CONVERGED)
    ]
    overtakes = f"from {wins[0]} entries a cell on" if wins else f"nowhere up to {scan['entries'][-1]}"
    small, large = (f"of {_rivals_behind(rest, place)} of 2 kinds of OPS" for place in range(2))
    return claim(
        "hidden Markov model, many entries a cell: Laplace outperforms OPS, most of all at small epsilon",
        f"ahead of OPS as if converged at {ahead} of {count} epsilons; at epsilon 1 it overtakes {overtakes}. The noise"
        f" on a hundred rare categories in each cell holds it back: without that feature it is ahead {large} at epsilon"
        f" 1, and {small} at 0.1",
        holds=ahead == count,
    )


def _summed_out(numbers: Numbers, thick: Numbers, thin: Numbers) -> dict[str, Any]:
    count = len(numbers["epsilons"])
    ahead, ahead_thin = (_ahead(each, MODELS[1], CONVERGED, AWARE) for each in (thick, thin))
    aware, plain = (thick["scores"][MODELS[1]][method] for method in (AWARE, LAPLACE))
    gains = {
        epsilon: ours["mean"] - theirs["mean"]
        for epsilon, ours, theirs in zip(numbers["epsilons"], aware, plain, strict=True)
    }
    gain_list = ", ".join(f"{gain:+.3f} at {epsilon:g}" for epsilon, gain in gains.items())
    comes_out = "comes out" if ahead == count else "does not come out with it either"
    return claim(
        "ours: with the noise summed out, Laplace gains on the dense log from epsilon 1 on",
        f"log-likelihood per entry against Laplace: {gain_list}. It is ahead of OPS as if converged at {ahead} (dense)"
        f" and {ahead_thin} (sparse) of {count} epsilons: the paper's claim {comes_out}",
        holds=all(gain > 0 for epsilon, gain in gains.items() if epsilon >= 1),
    )


def _small_cells(numbers: Numbers, thin: Numbers) -> dict[str, Any]:
    count, ahead = len(numbers["epsilons"]), _ahead(thin, MODELS[1], CONVERGED)
    return claim(
        "hidden Markov model, few entries a cell: OPS is competitive with Laplace",
        f"Laplace is ahead of OPS as if converged at {ahead} of {count} epsilons",
        holds=ahead < count,
    )


def _cost_of_updates(numbers: Numbers, thick: Numbers, thin: Numbers) -> dict[str, Any]:
    cost = numbers["ops_costs"][numbers["epsilons"].index(1.0)]
    return claim(
        f"unless it has converged, OPS costs {2 * numbers['settings']['sweeps']} times its epsilon, which is"
        " impractical",
        f"at epsilon 1: {cost['added_up']:.0f} added up, {cost['by_bounded_range']:.0f} at delta 1e-6 by bounded range."
        f" A chain that pays so for every update is behind Laplace at {_ahead(thick, MODELS[1], PAID)} (dense)"
        f" and {_ahead(thin, MODELS[1], PAID)} (sparse) of {len(numbers['epsilons'])} epsilons",
        holds=cost["by_bounded_range"] > 10,
    )


def _rivals_behind(scores: Numbers, place: int) -> int:
    return sum(scores[LAPLACE][place]["mean"] > scores[ops][place]["mean"] for ops in CONVERGED)


def _ahead(study: Numbers, model: str, rivals: tuple[str, ...], method: str = LAPLACE) -> int:
    """Count the epsilons at which a method has a better score than every rival."""
    scores = study["scores"][model]
    ours = np.array([each["mean"] for each in scores[method]])
    theirs = np.array([[each["mean"] for each in scores[rival]] for rival in rivals])
    return int((ours > theirs.max(axis=0)).sum())


EXPERIMENT = Experiment(
    "foulds-hmm", "FouldsGWC16", "Figures 3 to 7", 20165, run, draw,
    summary="A hidden Markov model of an event log: states, tables and held-out likelihood",
    erratum="Equation 48's denominators are wrong: the sampler's update is the one that enumeration confirms. One pass"
    " of truncated Betas does not draw a truncated Dirichlet: OPS draws it by rejection here.",
)  # fmt: skip
