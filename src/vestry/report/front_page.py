"""The first page of a report: what is protected, what was spent, the answers, and what may not be concluded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vestry.display.formatting import percent_up
from vestry.posterior.reader import NOT_CALIBRATED
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.releases import Draws
from vestry.report.content import ReportContent, Result
from vestry.report.guarantee_section import Promise, protected

_UNSTATED = "not stated"


def facts_of(content: ReportContent) -> list[tuple[str, str]]:
    """Return who issues the report, whom to ask, when, why, and about which data."""
    said = {"Issued by": content.issuer, "Contact": content.contact, "Date": content.date, "Purpose": content.purpose}
    return [*((name, text or _UNSTATED) for name, text in said.items()), ("Dataset", content.dataset)]


def promise_of(content: ReportContent) -> Promise:
    """Return what is guaranteed of everything that is ever released within the budget."""
    neighbours = Neighbours.parse(content.neighbours)
    budget = Guarantee.parse(content.budget, neighbours=neighbours)
    return Promise(budget, None, Unit.parse(content.unit), neighbours, "everything released within the budget")


def protection(promise: Promise) -> str:
    """Say in one sentence what is protected, and how well."""
    share, thing = promise.best_guess(), "person" if promise.unit.person is not None else "row"
    known = f"no more than {percent_up(share)} of the time" if share < 1 else "with a probability that is not bounded"
    return (
        f"Protected is {protected(promise.unit, promise.neighbours)}: someone who knows everything about all others,"
        f" reads all that is ever released within the budget and guesses about one {thing} at even odds is right"
        f" {known}, where a coin is right half of the time."
    )


def spent_words(content: ReportContent) -> str:
    """Say what was spent and what remains."""
    spends = ", ".join(f"{result.spent} on {result.name}" for result in content.results) or "nothing yet"
    return f"Of {content.budget} for all releases from these data: spent {spends}; remaining {content.remaining}."


def limits(content: ReportContent, answers: Sequence[str]) -> list[str]:
    """Return what a reader may not conclude, given the answers of the releases."""
    results, person = content.results, Unit.parse(content.unit).person is not None
    loose = [each.name for each, said in zip(results, answers, strict=True) if NOT_CALIBRATED in said]
    return [*_about_intervals(results, loose), *_always("person" if person else "row"), *_about_values(results)]


def _about_intervals(results: Sequence[Result], loose: list[str]) -> Iterable[str]:
    drawn = [each.name for each in results if any(isinstance(c, Draws) for c in each.release.contents.values())]
    if len(drawn) < len(results):
        yield (
            "That a value lies inside its interval for sure: of ten 90\u00a0% credible intervals one is expected to"
            " miss, if the model is right."
        )
    if any(each.release.by is not None for each in results):
        yield "That two groups differ, unless the interval of their difference leaves out 0."
    if loose:
        yield f"That the intervals of {', '.join(loose)} are right nine times in ten: they are not calibrated."
    if drawn:
        yield f"How far {', '.join(drawn)} may be from the truth: draws have no interval."


def _always(thing: str) -> Iterable[str]:
    others = "families or other groups" if thing == "person" else "several rows of one person"
    yield f"Anything about one {thing} in particular; nor that the promise holds for {others} as for one {thing}."
    yield "That one thing causes another, or that the results hold for people whom the data do not describe."


def _about_values(results: Sequence[Result]) -> Iterable[str]:
    if not any(each.release.family.get("name") == "quality" for each in results):
        yield (
            "That the records fit what was declared of them: values outside were moved to the nearest end or counted as"
            " declared, and how many is not told here."
        )
