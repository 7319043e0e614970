"""What chains cost, against every neighbouring dataset of small discrete models, and against sums done by hand.

Laws of outputs are written out and divided; nothing of the library's prices is used for the truth. A charge must not be
below the loss that is found, and where a bound is said to be tight, not far above it.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest

from vestry.errors import DeclarationMismatch, GuaranteeUnreachable, InvalidParameter
from vestry.ledger import Ledger
from vestry.privacy import accountant
from vestry.privacy.annealing_cost import Ladder
from vestry.privacy.event import compose
from vestry.privacy.guarantee import ApproxDP, PureDP
from vestry.privacy.mcmc_cost import (
    Collapsed,
    barker_update,
    categorical_span,
    converged,
    gibbs_update,
    metropolis_update,
    moved_update,
    near,
    owned_scan,
    shared_scan,
    temperature_for,
)

pytestmark = pytest.mark.oracle

LEAST = 0.1
TABLES = [np.array(t) for t in ((0.1, 0.9), (0.9, 0.1), (0.5, 0.5), (0.3, 0.7))]  # probabilities of two levels
SPAN = math.log(0.9 / 0.1)


def loss(p: np.ndarray, q: np.ndarray) -> float:
    """The largest log ratio."""
    return float(np.abs(np.log(p) - np.log(q)).max())


def spread(p: np.ndarray, q: np.ndarray) -> float:
    """How far the log ratio spans."""
    ratio = np.log(p) - np.log(q)
    return float(ratio.max() - ratio.min())


def hockey(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def divergence(p: np.ndarray, q: np.ndarray, order: float) -> float:
    return float(np.log((p**order * q ** (1 - order)).sum()) / (order - 1))


def covered(event, p: np.ndarray, q: np.ndarray) -> None:
    """Every price of the event is at least what this pair loses."""
    for order in (1.5, 2.0, 10.0):
        assert divergence(p, q, order) <= float(accountant.renyi(event, order)) + 1e-12
    assert loss(p, q) <= float(accountant.pure(event)) + 1e-12
    for epsilon in (0.0, 0.2, 0.7):
        assert hockey(p, q, epsilon) <= accountant.delta(event, epsilon) + 1e-12


def normal(weights) -> np.ndarray:
    weights = np.asarray(weights, float)
    return weights / weights.sum()


def neighbours_of(records: tuple[int, ...], relation: str, levels: int = 2):
    """Every dataset that differs in one record; under add-remove, those with one record less."""
    for i in range(len(records)):
        if relation == "add-remove":
            yield i, records[:i] + records[i + 1 :]
        else:
            for x in range(levels):
                if x != records[i]:
                    yield i, (*records[:i], x, *records[i + 1 :])


# --- sums by hand -----------------------------------------------------------------------------------------------------


def test_the_temperature_and_the_span():
    assert categorical_span([2], [0.2]) == pytest.approx(math.log(4))
    assert temperature_for(math.log(4), epsilon=1, neighbours="replace") == pytest.approx(2.7725887, rel=1e-7)
    assert temperature_for(math.log(4), epsilon=1, neighbours="add-remove") == pytest.approx(1.3862944, rel=1e-7)
    assert temperature_for(math.log(4), epsilon=9, neighbours="replace") == 1
    # Two features of 2 and 5 levels: log(.8/.2) + log((1 - 4 .02)/.02)
    assert categorical_span([2, 5], [0.2, 0.02]) == pytest.approx(math.log(4) + math.log(46))


def test_four_hundred_updates_of_a_tenth():
    span = categorical_span([10, 30, 2], [0.01, 1 / 300, 0.05])
    hot = temperature_for(span, epsilon=0.1, neighbours="replace")
    chain = shared_scan(gibbs_update(span, temperature=hot, neighbours="replace"), updates=400)
    assert float(accountant.pure(chain)) == pytest.approx(40)
    assert float(accountant.rho(chain)) == pytest.approx(0.5)
    assert float(accountant.pure(chain)) <= 40
    # At delta 1e-5 the sum of epsilons is several times what the chain costs.
    assert accountant.epsilon(chain, 1e-5) < 6


def test_a_hidden_markov_sweep_is_two_updates():
    """The states, in parallel, and the tables as one block: 200 sweeps are the paper's 400 epsilon."""
    update = gibbs_update(SPAN, temperature=2 * SPAN / 0.5, neighbours="replace")
    sweep = compose(owned_scan(update, collapsed=Collapsed.LATENT_PRIOR), update)
    assert float(accountant.pure(sweep.times(200))) == pytest.approx(400 * 0.5)
    assert float(accountant.rho(sweep.times(200))) == pytest.approx(400 * 0.25 / 8)


# --- one update, both relations ---------------------------------------------------------------------------------------


def of_state(cell: tuple[int, ...], tables, prior, temperature: float) -> np.ndarray:
    """The distribution of a latent that a cell of records belongs to, the likelihood tempered."""
    return normal([p * math.prod(t[x] for x in cell) ** (1 / temperature) for p, t in zip(prior, tables, strict=True)])


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_a_gibbs_update_of_a_latent(relation):
    temperature, worst = 3.0, 0.0
    event = gibbs_update(SPAN, temperature=temperature, neighbours=relation)
    for tables in itertools.product(TABLES, repeat=2):
        for cell in itertools.product((0, 1), repeat=3):
            for _, other in neighbours_of(cell, relation):
                for prior in ((0.5, 0.5), (0.1, 0.9)):
                    p, q = (of_state(c, tables, prior, temperature) for c in (cell, other))
                    covered(event, p, q)
                    covered(event, q, p)
                    worst = max(worst, spread(p, q))
    assert worst == pytest.approx(float(accountant.pure(event)), rel=1e-6)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("prior_too", [False, True])
def test_a_gibbs_update_of_a_table(relation, prior_too):
    """A truncated Beta on a grid of the interval, its prior tempered or not."""
    theta = np.linspace(LEAST, 1 - LEAST, 401)
    temperature, worst = 4.0, 0.0
    event = gibbs_update(SPAN, temperature=temperature, neighbours=relation)
    prior = np.log(theta) * 2.0 + np.log(1 - theta) * 0.5

    def distribution(records):
        data = sum((np.log(theta if x else 1 - theta) for x in records), np.zeros_like(theta))
        return normal(np.exp((prior / temperature if prior_too else prior) + data / temperature))

    for records in itertools.product((0, 1), repeat=4):
        for _, other in neighbours_of(records, relation):
            covered(event, distribution(records), distribution(other))
            covered(event, distribution(other), distribution(records))
            worst = max(worst, spread(distribution(records), distribution(other)))
    assert worst == pytest.approx(float(accountant.pure(event)), rel=1e-6)


# --- scans ------------------------------------------------------------------------------------------------------------


def scan_distribution(records, start, update) -> np.ndarray:
    """The distribution of all latents after one scan from `start`; update(z, i, records) is that of latent i."""
    mass = []
    for end in itertools.product((0, 1), repeat=len(records)):
        chance = 1.0
        for i in range(len(records)):
            z = end[:i] + start[i:]
            chance *= update(z, i, records)[end[i]]
        mass.append(chance)
    return np.array(mass)


def drawn_parameters(tables, temperature):
    return lambda z, i, x: of_state((x[i],), tables, (0.5, 0.5), temperature)


def collapsed_prior(tables, temperature, alpha=0.3):
    """A Markov chain over the latents, its transition matrix integrated out: it depends on latents alone."""

    def update(z, i, x):
        def log_prior(path):
            moves = np.zeros((3, 2))
            for a, b in itertools.pairwise((2, *path)):
                moves[a, b] += 1
            return sum(
                math.lgamma(2 * alpha)
                - math.lgamma(2 * alpha + row.sum())
                + sum(math.lgamma(alpha + n) - math.lgamma(alpha) for n in row)
                for row in moves
            )

        prior = [math.exp(log_prior((*z[:i], k, *z[i + 1 :]))) for k in (0, 1)]
        return of_state((x[i],), tables, prior, temperature)

    return update


def collapsed_likelihood(temperature, beta):
    """The tables integrated out: each latent's distribution depends on every record."""

    def update(z, i, x):
        chances = []
        for k in (0, 1):
            same = [x[j] for j in range(len(x)) if j != i and z[j] == k]
            chances.append(((same.count(x[i]) + beta) / (len(same) + 2 * beta)) ** (1 / temperature))
        return normal(chances)

    return update


@pytest.mark.parametrize("collapsed", [Collapsed.NOTHING, Collapsed.LATENT_PRIOR])
@pytest.mark.long
def test_a_scan_over_owned_latents_costs_one_update(collapsed):
    temperature, worst = 2.5, 0.0
    event = owned_scan(gibbs_update(SPAN, temperature=temperature, neighbours="replace"), collapsed=collapsed)
    tables = TABLES[:2]
    make = drawn_parameters if collapsed is Collapsed.NOTHING else collapsed_prior
    update = make(tables, temperature)
    for records in itertools.product((0, 1), repeat=4):
        for start in ((0, 0, 0, 0), (0, 1, 1, 0)):
            for _, other in neighbours_of(records, "replace"):
                p, q = (scan_distribution(each, start, update) for each in (records, other))
                covered(event, p, q)
                worst = max(worst, spread(p, q))
    assert worst >= 0.99 * float(accountant.pure(event))


def test_a_scan_with_tables_integrated_out_loses_more_and_is_refused():
    """Charged 1, by the worst update of the latent whose record changed, one outcome of this scan loses more than 4.

    That record is alone in its state, and all the others, of one level, stay in theirs. Each of their updates sees
    whether the changed record has their level.
    """
    size, beta = 60, 0.1
    others = range(size)
    # The worst update of the own latent, over every way to put the other records into states and levels.
    odds = [
        abs(math.log((a + beta) / (a + b + 2 * beta)) - math.log((b + beta) / (a + b + 2 * beta)))
        for a in others
        for b in range(size - a)
    ]
    temperature = 2 * max(odds)  # state 0 gives those odds, and state 1 the reverse
    start = (0,) + (1,) * (size - 1)
    update = collapsed_likelihood(temperature, beta)

    def log_chance(records):
        return sum(math.log(update(start, i, records)[start[i]]) for i in range(size))

    records, other = (0,) * size, (1,) + (0,) * (size - 1)
    own = spread(update(start, 0, records), update(start, 0, other))
    assert own <= 1
    assert abs(log_chance(records) - log_chance(other)) > 4
    small = gibbs_update(1.0, temperature=2.0, neighbours="replace")
    with pytest.raises(InvalidParameter, match="shared_scan, which charges every update"):
        owned_scan(small, collapsed=Collapsed.LIKELIHOOD)
    with pytest.raises(InvalidParameter, match="collapsed must be"):
        owned_scan(small, collapsed="nothing")


def test_a_random_scan_is_not_cheaper_by_the_share_it_takes():
    """One of six latents at random: the paper's 4 D Q/(N T) is a third of the loss of a latent that moved."""
    temperature, size = 2.0, 6
    update = gibbs_update(SPAN, temperature=temperature, neighbours="replace")
    own = drawn_parameters(TABLES[:2], temperature)
    start, records, other = (0,) * size, (0,) * size, (1,) + (0,) * (size - 1)

    def distribution(x):
        mass = dict.fromkeys(itertools.product((0, 1), repeat=size), 0.0)
        for i in range(size):
            for k in (0, 1):
                mass[(*start[:i], k, *start[i + 1 :])] += own(start, i, x)[k] / size
        return np.array([m for m in mass.values() if m > 0])

    p, q = distribution(records), distribution(other)
    claimed = 2 * float(accountant.pure(update)) / size
    assert loss(p, q) > 1.4 * claimed
    assert max(hockey(p, q, claimed), hockey(q, p, claimed)) > 0.01
    covered(owned_scan(update, collapsed=Collapsed.NOTHING), p, q)
    assert float(accountant.pure(owned_scan(update, collapsed=Collapsed.NOTHING, visits=3))) == pytest.approx(
        3 * float(accountant.pure(update))
    )


def test_a_record_that_moves_between_cells():
    temperature, worst = 2.0, 0.0
    event = owned_scan(moved_update(SPAN, temperature=temperature), collapsed=Collapsed.LATENT_PRIOR)
    assert float(accountant.pure(event)) == pytest.approx(2 * SPAN / temperature)
    for tables in itertools.product(TABLES[:2], repeat=2):
        for x, y in itertools.product((0, 1), repeat=2):
            cells = (((0, x), (1,)), ((0,), (1, y)))  # a record x in the first cell becomes y in the second

            def distribution(first, second, tables=tables):
                one = of_state(first, tables, (0.5, 0.5), temperature)
                # The second latent's prior depends on the first, which is public.
                given = [of_state(second, tables, prior, temperature) for prior in ((0.9, 0.1), (0.2, 0.8))]
                return np.concatenate([one[k] * given[k] for k in (0, 1)])

            p, q = distribution(*cells[0]), distribution(*cells[1])
            covered(event, p, q)
            covered(event, q, p)
            worst = max(worst, loss(p, q))
    assert worst > 0.5 * float(accountant.pure(event))


def test_updates_that_follow_each_other_compose():
    """Two updates of one shared value and a latent, every state seen; the second depends on the first's outcome."""
    temperature = 3.0
    event = shared_scan(gibbs_update(SPAN, temperature=temperature, neighbours="replace"), updates=2)

    def distribution(records):
        first = of_state(records, TABLES[:2], (0.5, 0.5), temperature)
        second = [of_state(records, pair, (0.5, 0.5), temperature) for pair in (TABLES[:2], TABLES[1::-1])]
        return np.concatenate([first[k] * second[k] for k in (0, 1)])

    for records in itertools.product((0, 1), repeat=3):
        for _, other in neighbours_of(records, "replace"):
            covered(event, distribution(records), distribution(other))


# --- Metropolis and Barker --------------------------------------------------------------------------------------------

THETA = np.linspace(LEAST, 1 - LEAST, 5)


def log_posterior(records) -> np.ndarray:
    return sum((np.log(THETA if x else 1 - THETA) for x in records), np.zeros_like(THETA))


def step_law(records, current: int, temperature: float, accept) -> np.ndarray:
    """One step from a point of a ring: left or right with equal chance, kept or not."""
    logs = log_posterior(records)
    distribution = np.zeros(len(THETA))
    for ahead in (-1, 1):
        to = (current + ahead) % len(THETA)
        chance = 0.5 * accept((logs[to] - logs[current]) / temperature)
        distribution[to] += chance
        distribution[current] += 0.5 - chance
    return distribution


def metropolis_accept(rise: float) -> float:
    return min(1.0, math.exp(rise))


def barker_accept(rise: float) -> float:
    return 1 / (1 + math.exp(-rise))


@cache
def steps(relation: str):
    return [
        (records, other, current)
        for records in itertools.product((0, 1), repeat=3)
        for _, other in neighbours_of(records, relation)
        for current in range(len(THETA))
    ]


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_a_barker_step_has_a_bounded_range_and_no_delta(relation):
    temperature = 3.0
    event = barker_update(SPAN, temperature=temperature, neighbours=relation)
    for records, other, current in steps(relation):
        p, q = (step_law(x, current, temperature, barker_accept) for x in (records, other))
        seen = p > 0
        covered(event, p[seen], q[seen])
        covered(event, q[seen], p[seen])
    assert accountant.failure(event) == 0


def test_a_barker_step_reaches_its_range():
    """Between the two ends of the interval, one record replaced: the accept log odds move by 2 D/T."""
    temperature = 3.0

    def distribution(x):
        logs = np.log([LEAST if x else 1 - LEAST, 1 - LEAST if x else LEAST]) / temperature
        chance = barker_accept(logs[1] - logs[0])
        return np.array([1 - chance, chance])

    event = barker_update(SPAN, temperature=temperature, neighbours="replace")
    assert spread(distribution(0), distribution(1)) == pytest.approx(float(accountant.pure(event)), rel=1e-9)


def test_a_metropolis_step_has_no_pure_epsilon():
    """A rejection that can happen with one dataset and cannot with its neighbour: the claimed epsilon is refuted."""
    temperature = 3.0
    epsilon = 2 * SPAN / temperature
    refuted, worst = 0, 0.0
    for records, other, current in steps("replace"):
        p, q = (step_law(x, current, temperature, metropolis_accept) for x in (records, other))
        refuted += bool(((p > 1e-9) & (q < 1e-12)).any())
        worst = max(worst, hockey(p, q, epsilon))
    assert refuted > 0
    assert worst > 0.05
    with pytest.raises(GuaranteeUnreachable, match="certify rejection="):
        metropolis_update(SPAN, temperature=temperature, neighbours="replace")


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_a_metropolis_step_with_a_certified_rejection(relation):
    """The largest rejection over every dataset and state of this model certifies it; half of that would not."""
    temperature = 3.0
    distributions = [
        [step_law(x, current, temperature, metropolis_accept) for x in (records, other)]
        for records, other, current in steps(relation)
    ]
    stays = [p[current] for (p, _), (_, _, current) in zip(distributions, steps(relation), strict=True)]
    stays += [q[current] for (_, q), (_, _, current) in zip(distributions, steps(relation), strict=True)]
    event = metropolis_update(SPAN, temperature=temperature, neighbours=relation, rejection=max(stays))
    epsilon = float(accountant.pure(event))
    assert epsilon == pytest.approx((2 if relation == "replace" else 1) * SPAN / temperature)
    worst = max(max(hockey(p, q, epsilon), hockey(q, p, epsilon)) for p, q in distributions)
    assert worst <= float(accountant.failure(event)) + 1e-12
    assert worst > 0.1 * max(stays)
    with pytest.raises(InvalidParameter, match="rejection must be a number above 0 and below 1"):
        metropolis_update(SPAN, temperature=temperature, neighbours=relation, rejection=1.0)


# --- annealed importance sampling -------------------------------------------------------------------------------------

EPSILONS = (0.05, 0.2, 0.6)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_the_totals_of_annealing(relation):
    ladder = Ladder(SPAN, EPSILONS, relation)
    factor = 2 if relation == "replace" else 1
    assert ladder.powers == pytest.approx([e / (factor * SPAN) for e in EPSILONS])
    path = ladder.particle(updates=7)
    assert float(accountant.pure(path)) == pytest.approx(7 * 0.85)
    assert float(accountant.rho(path)) == pytest.approx(7 * (0.0025 + 0.04 + 0.36) / 8)
    assert float(accountant.pure(path.times(10))) == pytest.approx(70 * 0.85)
    owned = ladder.owned_particle(collapsed=Collapsed.LATENT_PRIOR)
    assert float(accountant.pure(owned)) == pytest.approx(0.85)
    with pytest.raises(InvalidParameter, match="collapsed must be"):
        ladder.owned_particle(collapsed=Collapsed.LIKELIHOOD)
    with pytest.raises(InvalidParameter, match="rising and above 0"):
        Ladder(SPAN, (0.2, 0.1), relation)
    with pytest.raises(InvalidParameter, match="where the power is 1"):
        Ladder(SPAN, (0.2, 5.0), relation)
    with pytest.raises(InvalidParameter, match="span must be a number above 0"):
        Ladder(0.0, EPSILONS, relation)


def annealed(records, powers):
    """The distribution of one particle's path over the points, and the log weight of each path."""
    logs = log_posterior(records)
    mass, weights = [], []
    rungs = [normal(np.exp(power * logs)) for power in powers]  # a draw of the one variable at each power
    for path in itertools.product(range(len(THETA)), repeat=len(powers)):
        first = np.full(len(THETA), 1 / len(THETA))  # at power 0
        for start in range(len(THETA)):
            places, before, log_weight = (start, *path), 0.0, 0.0
            for place, power in zip(places, powers, strict=False):
                log_weight += (power - before) * logs[place]
                before = power
            mass.append(first[start] * math.prod(rung[k] for rung, k in zip(rungs, path, strict=True)))
            weights.append(log_weight)
    return np.array(mass), np.array(weights)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_paths_and_weights_of_annealing(relation):
    ladder = Ladder(SPAN, EPSILONS, relation)
    event = ladder.particle(updates=1)
    found = 0.0
    for records in itertools.product((0, 1), repeat=2):
        for _, other in neighbours_of(records, relation):
            (p, w), (q, v) = (annealed(x, ladder.powers) for x in (records, other))
            covered(event, p, q)
            change = w - v
            found = max(found, float(change.max() - change.min()) / 2)
            # Two particles chosen to lose most: the resampled one, and the weights themselves.
            ends = [int(change.argmin()), int(change.argmax())]
            a, b = (normal(np.exp(x[ends])) for x in (w, v))
            assert loss(a, b) <= float(accountant.pure(ladder.resample())) + 1e-12
            assert np.abs(a - b).sum() <= ladder.weights_l1_sensitivity
    assert found <= ladder.log_weight_sensitivity * (1 + 1e-9)
    assert found > 0.99 * ladder.log_weight_sensitivity


def test_the_sensitivity_of_weights_is_reached_and_not_exceeded():
    ladder = Ladder(SPAN, EPSILONS, "replace")
    half = ladder.log_weight_sensitivity
    assert half == 0.3
    # Two particles, of log weights half/2 and -half/2, that change places: each log weight moves by half.
    a, b = (normal(np.exp([s * half / 2, -s * half / 2])) for s in (1, -1))
    assert np.abs(a - b).sum() == pytest.approx(ladder.weights_l1_sensitivity, rel=1e-9)
    assert ladder.weights_l1_sensitivity == pytest.approx(2 * math.tanh(0.6 / 4))
    rng = np.random.default_rng(0)
    for particles in (2, 3, 10):
        w = rng.normal(scale=3, size=(2000, particles))
        v = w + half * rng.choice([-1, 1], size=w.shape)
        a, b = (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) for x in (w, v))
        assert np.abs(a - b).sum(axis=1).max() <= ladder.weights_l1_sensitivity


def test_noisy_weights_and_a_resample_are_priced():
    ladder = Ladder(SPAN, EPSILONS, "replace")
    noisy = ladder.noisy_weights(scale=0.5)
    assert float(accountant.pure(noisy)) == pytest.approx(4 * math.tanh(0.15))
    assert float(accountant.pure(ladder.resample())) == 0.6
    whole = compose(ladder.particle(updates=3).times(20), ladder.resample())
    assert float(accountant.pure(whole)) == pytest.approx(60 * 0.85 + 0.6)


# --- draws that are nearly exact, or assumed to be --------------------------------------------------------------------


def test_a_distance_from_the_target_adds_to_delta():
    found = near(PureDP(1.0, neighbours="replace"), distance=1e-6)
    assert found == ApproxDP(1.0, found.delta, neighbours="replace")
    assert found.delta == pytest.approx((1 + math.e) * 1e-6)
    assert near(ApproxDP(1.0, 1e-5), distance=1e-6).delta == pytest.approx(1e-5 + (1 + math.e) * 1e-6)
    with pytest.raises(GuaranteeUnreachable, match="come nearer"):
        near(PureDP(3.0), distance=0.2)
    with pytest.raises(InvalidParameter, match="distance must be a number above 0 and below 1"):
        near(PureDP(3.0), distance=0.0)


def test_the_distance_is_what_mass_that_moves_can_do():
    """Randomised response with mass d moved the worst way on both sides: the bound is reached."""
    epsilon, d = 0.8, 0.01
    p = np.array([math.exp(epsilon), 1.0]) / (1 + math.exp(epsilon))
    q = p[::-1]
    bound = near(PureDP(epsilon), distance=d).delta
    move = np.array([1.0, -1.0])
    assert hockey(p + d * move, q - d * move, epsilon) == pytest.approx(bound, rel=1e-9)
    rng = np.random.default_rng(1)
    for _ in range(500):
        one, two = rng.uniform(-d, d, size=2)
        assert hockey(p + one * move, q + two * move, epsilon) <= bound


def test_a_converged_chain_is_charged_only_where_it_is_accepted(tmp_path):
    draw = gibbs_update(SPAN, temperature=2 * SPAN, neighbours="replace")
    with pytest.raises(GuaranteeUnreachable, match="assume_converged=True"):
        converged(draw, assume_converged=False)
    with pytest.raises(GuaranteeUnreachable, match="pay for every update"):
        converged(draw, assume_converged=1)
    cost = converged(draw, assume_converged=True)
    assert cost.event == draw
    assert "No bound on its distance" in cost.assumptions[0]
    terms = {"dataset": "logs", "unit": "row", "neighbours": "replace", "budget": "epsilon=2"}
    strict = Ledger.create(tmp_path / "strict.ledger", **terms)
    with pytest.raises(DeclarationMismatch, match="--accept-unproved"):
        strict.charge(cost.event, purpose="a chain's last state", assumptions=cost.assumptions)
    lax = Ledger.create(tmp_path / "lax.ledger", **terms, accepts_unproved=True)
    charge = lax.charge(cost.event, purpose="a chain's last state", assumptions=cost.assumptions)
    assert charge.entry.facts["assumptions"] == list(cost.assumptions)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gibbs_update(0.0, temperature=1.0, neighbours="replace"), "span must be a number above 0"),
        (lambda: gibbs_update(1.0, temperature=math.inf, neighbours="replace"), "temperature must be a number above 0"),
        (lambda: gibbs_update(1.0, temperature=1.0, neighbours="both"), "neighbours must be"),
        (lambda: temperature_for(1.0, epsilon=-1.0, neighbours="replace"), "epsilon must be a number above 0"),
        (lambda: categorical_span([2], []), "one number per feature"),
        (lambda: categorical_span([4], [0.25]), "below 1/levels"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(InvalidParameter, match=message):
        call()
