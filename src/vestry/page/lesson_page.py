"""Learning by doing: what one record more or less changes, on fictional patients. Nothing here is private.

Two wards differ in one patient. The answer to a question is her count plus noise, and the two pictures show how likely
each answer is with her and without her: the nearer they are, the less an answer tells of her.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from starlette.responses import HTMLResponse, Response

from vestry.display.formatting import percent_up
from vestry.page.budget_page import STEPS, amount_at, step_at
from vestry.page.visit import Visit

# The fictional ward: how many came back without her, and with her.
WITHOUT, WITH = 23, 24
_LOW, _HIGH, _ANSWERS = 3, 44, 12
_WIDTH, _HEIGHT = 600.0, 150.0


@dataclass(frozen=True)
class Lesson:
    """What is shown at one epsilon.

    Attributes
    ----------
    epsilon, factor, guess
        What is spent, the factor between the two probabilities, and how often a guess is right at most.
    bars
        Of each answer: its place, its width, and the heights without and with the patient.
    answers
        Answers that were drawn, without and with her.
    """

    epsilon: str
    factor: str
    guess: str
    bars: list[tuple[str, str, str, str]]
    answers: tuple[list[int], list[int]]


def learn(visit: Visit) -> Response:
    """Show the lesson."""
    step = step_at(0.5)
    return visit.page("learn.html", lesson=lesson(amount_at(step)), step=step, top=STEPS, without=WITHOUT, present=WITH,
                      width=_WIDTH, height=_HEIGHT, low=_LOW, high=_HIGH, here="/learn")  # fmt: skip


def learn_turn(visit: Visit) -> Response:
    """Answer a turned slider."""
    text = visit.query_field("step")
    step = int(text) if text.isdecimal() and len(text) <= 3 and int(text) <= STEPS else step_at(0.5)
    facts = {"width": _WIDTH, "height": _HEIGHT, "low": _LOW, "high": _HIGH, "without": WITHOUT, "present": WITH}
    return HTMLResponse(visit.markup("lesson.html", lesson=lesson(amount_at(step)), **facts))


def probability(answer: int, count: int, epsilon: float) -> float:
    """Return how likely an answer is: the count plus discrete Laplace noise of scale 1/epsilon."""
    ratio = math.exp(-epsilon)
    return (1 - ratio) / (1 + ratio) * ratio ** abs(answer - count)


def lesson(epsilon: float) -> Lesson:
    """Return what is shown at one epsilon; answers are drawn anew, since they are fictional."""
    places = range(_LOW, _HIGH + 1)
    most = probability(WITH, WITH, epsilon)
    each = _WIDTH / len(places)
    bars = [
        (f"{(place - _LOW) * each:.1f}", f"{0.45 * each:.1f}",
         f"{_HEIGHT * probability(place, WITHOUT, epsilon) / most:.1f}",
         f"{_HEIGHT * probability(place, WITH, epsilon) / most:.1f}")
        for place in places
    ]  # fmt: skip
    rng = np.random.default_rng()
    chance = -math.expm1(-epsilon)
    answers = [
        (count + rng.geometric(chance, _ANSWERS) - rng.geometric(chance, _ANSWERS)).tolist()
        for count in (WITHOUT, WITH)
    ]
    guess = 1 / (1 + math.exp(-epsilon))
    return Lesson(f"{epsilon:g}", f"{math.exp(epsilon):.3g}", percent_up(guess), bars, (answers[0], answers[1]))
