"""`vestry convert`: between privacy definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from vestry.cli.output import Json, emit, examples
from vestry.errors import ConversionError, InvalidParameter

if TYPE_CHECKING:
    from vestry.privacy.guarantee import Guarantee

EXAMPLES = examples(
    "vestry convert mu=0.5 --to delta=1e-5",
    "vestry convert epsilon=1 --to rho --json",
    "vestry convert order=10,epsilon=0.1 --to delta=1e-6",
    "vestry convert epsilon=1,delta=1e-5 --to mu --meet",
    "vestry convert epsilon=0.5 --neighbours add-remove --to-neighbours replace",
)


# What may follow --to, and what the guarantees without a bound on the privacy loss turn into.
_TARGETS = "delta=1e-5, epsilon=1, order=10, epsilon, rho or mu, for example vestry convert rho=0.5 --to delta=1e-5"
_LEADS = {
    "ApproxDP": "a larger delta or epsilon",
    "RenyiDP": "delta=1e-5, epsilon=1 (gives delta) or a lower order",
    "ZCDP": "delta=1e-5, epsilon=1 (gives delta) or order=10",
}


def convert(
    guarantee: Annotated[str, Argument(metavar="GUARANTEE", help="For example epsilon=1,delta=1e-6, rho=0.5 or mu=1.")],
    to: Annotated[str | None, Option(help="delta=1e-5, epsilon=1 (gives delta), order=10, epsilon, rho or mu.")] = None,
    meet: Annotated[bool, Option("--meet", help="The other way: the most that implies GUARANTEE.")] = False,
    group: Annotated[int, Option(help="First turn it into a guarantee for a group of this many units.")] = 1,
    neighbours: Annotated[str | None, Option(help="Which change GUARANTEE protects: replace or add-remove.")] = None,
    to_neighbours: Annotated[str | None, Option(help="replace: turn add-remove into replace first.")] = None,
    json: Json = False,
) -> None:
    """Turn a guarantee into another privacy definition.

    The result is what a theorem allows, rounded up. Where none does, the reason is given.

    Pure epsilon turns into everything; mu into rho, order and delta; rho into order and delta; order into a lower
    order and delta; epsilon,delta into a larger delta or epsilon.
    """
    from vestry.privacy.accountant import largest_parameter
    from vestry.privacy.group import group as for_group
    from vestry.privacy.group import to_replace
    from vestry.privacy.guarantee import Guarantee
    from vestry.privacy.neighbours import Neighbours
    from vestry.privacy.pricing import event_of_guarantee

    if meet and to is None:
        raise InvalidParameter("--to", None, "given beside --meet", "for example --to mu --meet")
    given = Guarantee.parse(guarantee, neighbours=neighbours)
    start = for_group(given, group) if group != 1 else given
    if to_neighbours is not None:
        start = (
            to_replace(start) if Neighbours.parse(to_neighbours) is Neighbours.REPLACE else start.under(to_neighbours)
        )
    if to is None:
        fields = start.to_dict()
    elif meet:
        like = _read_target(to)
        fields = like.at(largest_parameter(lambda x: event_of_guarantee(like.at(x)), start)).to_dict()
    else:
        fields = _convert(start, to)
    relation = None if start.neighbours is None else str(start.neighbours)
    numbers = {key: value for key, value in fields.items() if key != "neighbours"}
    record = {"given": given.to_dict(), "to": to, "guarantee": numbers, "neighbours": relation, **numbers}
    emit(record, _format(numbers, meet), as_json=json)


def _convert(start: Guarantee, to: str) -> dict[str, Any]:
    from vestry.privacy import accountant
    from vestry.privacy.guarantee import number, read_decimal
    from vestry.privacy.pricing import event_of_guarantee

    key, equals, value = (part.strip() for part in to.partition("="))
    if key == "epsilon" and equals:
        epsilon = number("epsilon", read_decimal("epsilon", value))
        return {"epsilon": epsilon, "delta": accountant.delta(event_of_guarantee(start), epsilon)}
    try:
        return accountant.convert(start, _read_target(to)).to_dict()
    except ConversionError as error:
        leads = _LEADS.get(type(start).__name__)
        if leads is None or "ask for" in error.reason:  # which says what to write
            raise
        reason = f"{error.reason}; it turns into {leads}; --meet looks for the most {error.target} that implies it"
        raise ConversionError(error.source, error.target, reason) from None


def _read_target(to: str) -> Guarantee:
    """Read a target as a guarantee whose amount does not matter."""
    from vestry.privacy.guarantee import ZCDP, ApproxDP, GaussianDP, PureDP, RenyiDP, read_decimal

    key, equals, value = (part.strip() for part in to.partition("="))
    bare = {"epsilon": PureDP, "rho": ZCDP, "mu": GaussianDP}
    if key in bare and not equals:
        return bare[key](1.0)
    if key == "delta" and equals:
        return ApproxDP(1.0, read_decimal("delta", value))
    if key == "order" and equals:
        return RenyiDP(read_decimal("order", value), 1.0)
    raise InvalidParameter("--to", to, "a privacy definition", _TARGETS)


def _format(numbers: dict[str, Any], meet: bool) -> str:
    """Write the result with ten digits, rounded to the side that is safe to rely on."""
    from decimal import ROUND_DOWN, ROUND_UP, Context, Decimal

    from vestry.privacy.guarantee import decimal

    context = Context(prec=10, rounding=ROUND_DOWN if meet else ROUND_UP)
    rounded = {key: float(context.create_decimal(Decimal(repr(value)))) for key, value in numbers.items()}
    return ",".join(f"{key}={decimal(numbers[key] if key == 'order' else rounded[key])}" for key in numbers)
