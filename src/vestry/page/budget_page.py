"""The budget: turn what a question may spend, and see its width and an attacker's guess move. No record is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from starlette.responses import HTMLResponse, Response

from vestry.display.formatting import percent_up
from vestry.errors import InvalidParameter, VestryError
from vestry.page.question_form import spend_from
from vestry.page.study_draft import StudyDraft
from vestry.page.visit import Visit
from vestry.pipeline import NEW
from vestry.planning import Forecast, forecast_at
from vestry.privacy.guarantee import Guarantee
from vestry.report.guarantee_section import Promise, protected
from vestry.study import Study
from vestry.study.config import ReleaseSpec
from vestry.study.wishes import fits_together

# A slider goes from 0.01 to 10, evenly in the logarithm.
STEPS, _LEAST, _PER_DECADE = 75, 0.01, 25
# Widths of the drawn bars, in units of the picture.
_BAR = 200.0


@dataclass(frozen=True)
class Dial:
    """One question at one spend.

    Attributes
    ----------
    name, question, spend
        The release, what it asks, and what it would spend.
    step, turnable
        Where the slider stands, and whether it may still be turned.
    state
        What the ledger says of it.
    width, without, what, note
        The expected width, the same without privacy, of what, and what to know of it.
    guess
        How often an attacker's guess is right at most.
    bar, bar_without, bar_guess
        The lengths of the drawn bars.
    """

    name: str
    question: str
    spend: str
    step: int
    turnable: bool
    state: str
    width: str
    without: str
    what: str
    note: str
    guess: str
    bar: float
    bar_without: float
    bar_guess: float


def budget(visit: Visit, error: str = "", status: int = 200) -> Response:
    """Show the sliders, or what is missing before there can be any."""
    draft = visit.draft()
    fault = draft.fault()
    given = draft.section("study").get("budget")
    total = {key: str(value).replace("e-0", "e-") for key, value in given.items()} if isinstance(given, Mapping) else {}
    facts: dict[str, Any] = {"total": total, "error": error, "seal": draft.seal, "here": "/budget"}
    if fault is not None:
        return visit.page("budget.html", status=status, fault=str(fault), dials=[], **facts, **_NOTHING)
    try:
        study = draft.study()
        return visit.page("budget.html", status=status, fault="", **facts, **_turned(draft, study, {}),
                          owned=study.has_ledger(), top=STEPS, rows=study.assumed,
                          declared=study.config.expected_rows is not None,
                          protects=protected(study.config.schema.unit, study.config.schema.neighbours))  # fmt: skip
    except VestryError as problem:
        return visit.page("budget.html", status=status, fault=str(problem), dials=[], **facts, **_NOTHING)


_NOTHING = {"fits": True, "remaining": "", "guess": "", "owned": False, "top": STEPS, "rows": 0, "declared": True,
            "protects": ""}  # fmt: skip


def turn(visit: Visit) -> Response:
    """Answer a turned slider: the pieces of the page that change."""
    draft = visit.draft()
    study = draft.study()
    return HTMLResponse(visit.markup("turned.html", **_turned(draft, study, _steps(visit.query))))


def save_budget(visit: Visit) -> Response:
    """Write the budget and the turned spends into the file."""
    draft = visit.draft()
    try:
        total = spend_from(visit.form, "total-")
        if not {"epsilon", "rho", "mu"} & set(total):
            raise InvalidParameter("epsilon", "nothing", "a number above 0", "for example 1")
        Guarantee.parse(total)
        changed = draft.with_value(("study",), "budget", total)
        steps, before = _steps(visit.form), _steps(visit.form, "was-")
        for name, step in steps.items():
            record = changed.section("release", name)
            spend = record.get("spend")
            if record and isinstance(spend, Mapping) and before.get(name) != step:
                key = _amount_key(spend)
                changed = changed.with_value(("release", name), "spend", {**spend, key: amount_at(step)})
        fault = changed.fault()
        if fault is not None and draft.fault() is None:
            raise fault
        changed.save(visit.given("seal"))
    except VestryError as error:
        return budget(visit, str(error), 422)
    return visit.go("/check" if visit.given("next") == "check" else "/budget", done="saved")


def amount_at(step: int) -> float:
    """Return what a slider's place means, to two digits."""
    return float(f"{_LEAST * 10 ** (step / _PER_DECADE):.2g}")


def step_at(amount: float) -> int:
    """Return the place that is nearest to an amount."""
    return min(STEPS, max(0, round(_PER_DECADE * math.log10(amount / _LEAST))))


def _turned(draft: StudyDraft, study: Study, steps: Mapping[str, int]) -> dict[str, Any]:
    """Return the dials at these steps, and whether all of them fit what remains."""
    config = study.config
    index, state = study.standing()
    specs = config.releases
    states = {spec.name: index.find_charge(spec.request.definition(config.schema)).state for spec in specs}
    turned = {
        spec.name: spec.request.guarantee.at(amount_at(steps[spec.name]))
        for spec in specs
        if spec.name in steps and steps[spec.name] != step_at(spec.request.guarantee.value)
    }
    dials = [_dial(draft.seal, study, spec, states[spec.name], turned.get(spec.name)) for spec in specs]
    new = [spec for spec in specs if states[spec.name] == NEW]
    promise = Promise(config.budget, None, config.schema.unit, config.schema.neighbours)
    return {
        "dials": dials,
        "fits": fits_together(config, new, turned, state) if new else True,
        "remaining": study.remaining(),
        "guess": _percent(promise.best_guess()),
    }


def _dial(seal: str, study: Study, spec: ReleaseSpec, state: str, turned: Guarantee | None) -> Dial:
    guarantee = turned or spec.request.guarantee
    forecast = _forecast(seal, spec.name, guarantee.value, _ForecastInputs(study, spec))
    config = study.config
    share = Promise(guarantee, None, config.schema.unit, config.schema.neighbours).best_guess()
    width, exact = forecast.width, forecast.exact_width
    scale = _BAR / (6 * exact) if exact else 0.0
    return Dial(
        spec.name, spec.request.model.question(), str(guarantee), step_at(guarantee.value), state == NEW,
        "" if state == NEW else state,
        "" if width is None else f"{width:.3g}", "" if exact is None else f"{exact:.3g}", forecast.what, forecast.note,
        _percent(share), min(_BAR, scale * width) if width else 0.0, min(_BAR, scale * exact) if exact else 0.0,
        _BAR * (2 * share - 1),
    )  # fmt: skip


class _ForecastInputs:
    """What a forecast is of; the file's hash and the amount stand for it among those that are remembered."""

    def __init__(self, study: Study, spec: ReleaseSpec) -> None:
        self.study, self.spec = study, spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ForecastInputs)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=512)
def _forecast(seal: str, name: str, amount: float, inputs: _ForecastInputs) -> Forecast:
    config = inputs.study.config
    try:
        return forecast_at(inputs.spec.request, config.schema, amount, expected_rows=config.expected_rows)
    except VestryError as error:
        return Forecast("", "", reason=str(error).rstrip("."))


def _steps(fields: list[tuple[str, str]], prefix: str = "step-") -> dict[str, int]:
    """Return where the sliders stand, by release."""
    steps = {}
    for key, value in fields:
        if key.startswith(prefix):
            if not value.isdecimal() or len(value) > 3 or int(value) > STEPS:
                raise InvalidParameter("a slider", value, f"a whole number from 0 to {STEPS}", "one of them")
            steps[key.removeprefix(prefix)] = int(value)
    return steps


def _amount_key(spend: Mapping[str, Any]) -> str:
    return next((key for key in ("rho", "mu") if key in spend), "epsilon")


def _percent(share: float) -> str:
    return percent_up(share) if share < 1 else "100 %"
