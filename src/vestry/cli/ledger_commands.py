"""`vestry ledger`: make a ledger, charge it, look at it, check it."""

from __future__ import annotations

import json as codec
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from vestry.cli.output import Commands, Json, columns, emit, examples, working
from vestry.errors import InvalidParameter, LedgerCorrupt, LedgerUnavailable, VestryError, printable
from vestry.files import write_new
from vestry.validation import require_whole

if TYPE_CHECKING:
    from rich.table import Table

    from vestry.ledger import Ledger
    from vestry.ledger.entry import Entry

_SHOWN, _PAGE = 50, 500

app = typer.Typer(
    help="The budget of one dataset: what was spent, what remains, and the proof that nobody changed it.",
    epilog=examples("vestry ledger show patients.ledger"),
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
)

Address = Annotated[str, Argument(metavar="URL", help="A path, or postgresql://USER:${VARIABLE}@HOST/DATABASE.")]
Who = Annotated[str | None, Option(help="The name that is written down; your user name if omitted.")]


@app.command(
    epilog=examples(
        "vestry ledger create patients.ledger --dataset patients --unit row --neighbours add-remove"
        " --budget epsilon=1,delta=1e-6",
        "vestry ledger create visits.ledger --dataset visits --unit person=patient_id,rows=3 --neighbours replace"
        " --budget rho=0.5",
    )
)
def create(
    url: Address,
    dataset: Annotated[str, Option(help="The dataset's name.")],
    unit: Annotated[str, Option(help="Whose privacy is protected: row, or person=COLUMN,rows=K.")],
    neighbours: Annotated[str, Option(help="Which change is protected: replace or add-remove.")],
    budget: Annotated[str, Option(help="What may be spent in all, for example epsilon=1,delta=1e-6.")],
    orders: Annotated[
        str | None, Option(help="Renyi orders to follow, for example 8,16,32; chosen if omitted.")
    ] = None,
    accept_unproved: Annotated[
        bool, Option("--accept-unproved", help="Accept charges that rest on an unproved assumption.")
    ] = False,
    who: Who = None,
    json: Json = False,
) -> None:
    """Create a ledger. Nothing is ever overwritten."""
    from vestry.ledger import Ledger

    ledger = Ledger.create(
        url,
        dataset=dataset,
        unit=unit,
        neighbours=neighbours,
        budget=budget,
        orders=_orders(orders),
        accepts_unproved=accept_unproved,
        who=who,
    )
    record = {"ledger": ledger.address, "budget": budget, "head": ledger.head()}
    emit(record, f"created {ledger.address} with the budget {budget}\nhead {record['head']}", as_json=json)


@app.command(epilog=examples('vestry ledger charge patients.ledger epsilon=0.3 --purpose "readmissions by ward"'))
def charge(
    url: Address,
    guarantee: Annotated[str, Argument(metavar="GUARANTEE", help="What to charge, for example epsilon=0.3.")],
    purpose: Annotated[str, Option(help="Why; it is written into the ledger.")],
    unit: Annotated[str | None, Option(help="Refuse unless the ledger protects this unit.")] = None,
    neighbours: Annotated[str | None, Option(help="Refuse unless the ledger protects this change.")] = None,
    done: Annotated[bool, Option("--done", help="The work was done before, so its output may have been seen.")] = False,
    who: Who = None,
    json: Json = False,
) -> None:
    """Charge the budget, before noise is drawn; exit code 3 if it does not fit. A charge cannot be taken back."""
    ledger = _open(url)
    ledger.require(unit=unit, neighbours=neighbours)
    charge = ledger.charge(guarantee, purpose=purpose, who=who, done=done)
    state = ledger.state()
    remaining, left = state.filter.remaining(state.spent), state.filter.left(state.spent)
    record = {"entry": charge.sequence, "charged": guarantee, "remaining": remaining, "head": charge.entry.hash}
    emit(record, f"charged {guarantee} as entry {charge.sequence}\nremaining: {left}", as_json=json)


@app.command(
    epilog=examples('vestry ledger amend patients.ledger --budget epsilon=2,delta=1e-6 --reason "second wave"')
)
def amend(
    url: Address,
    budget: Annotated[str, Option(help="The new, larger budget, in the same privacy definition.")],
    reason: Annotated[str, Option(help="Why; it is written into the ledger.")],
    who: Who = None,
    json: Json = False,
) -> None:
    """Raise the budget. The guarantee weakens for everything that was or will be released."""
    ledger = _open(url)
    entry = ledger.amend(budget, reason=reason, who=who)
    record = {"entry": entry.sequence, "budget": budget, "head": entry.hash}
    emit(record, f"raised the budget to {budget} as entry {entry.sequence}", as_json=json)


@app.command(
    epilog=examples(
        "vestry ledger show patients.ledger",
        "vestry ledger show patients.ledger --last 200",
        "vestry ledger show patients.ledger --json",
    )
)
def show(
    url: Address,
    last: Annotated[
        int | None, Option(help="How many of the latest charges to list: 50 if omitted, all with --json.")
    ] = None,
    json: Json = False,
) -> None:
    """Print the dataset's terms, what is spent and what remains, and the latest charges."""
    if last is not None:
        require_whole("--last", last, "for example --last 50", least=0)
    ledger = _open(url)
    shown = _SHOWN if last is None and not json else last
    try:
        record = _summary(ledger)
        charges = _start(map(_describe, ledger.charges(newest=shown)))
        if json:
            for piece in _object_pieces(record, "charges", charges):
                typer.echo(piece, nl=False)
        else:
            _print(record, charges, shown or 0)
    except VestryError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise LedgerCorrupt("a line cannot be read") from None


@app.command(
    epilog=examples(
        "vestry ledger verify patients.ledger",
        "vestry ledger verify patients.ledger --head 9f2c... (a hash kept elsewhere)",
    )
)
def verify(
    url: Address,
    head: Annotated[str | None, Option(help="A head hash that you kept elsewhere; it must be in the chain.")] = None,
    json: Json = False,
) -> None:
    """Verify every page, hash and total. Any changed byte is found; with --head also lost entries at the end."""
    if head is not None and (len(head) != 64 or set(head) - set("0123456789abcdef")):
        raise InvalidParameter(
            "--head", head, "a hash of 64 hexadecimal digits", "the head that create or verify printed"
        )
    ledger = _open(url)
    with working("checking the chain"):
        verified = ledger.verify(head=head)
    record = {"verified": True, "entries": verified.entries, "head": verified.head}
    emit(record, f"{verified.entries} entries verified\nhead {verified.head}", as_json=json)


@app.command(epilog=examples("vestry ledger export patients.ledger --output patients.jsonl"))
def export(
    url: Address,
    output: Annotated[Path | None, Option(metavar="FILE", help="Write to this file, not to standard output.")] = None,
    json: Json = False,
) -> None:
    """Write every entry as a line of JSON. The key that chooses rows stays in the ledger."""
    lines = _start(entry.to_dict() for entry in _open(url).entries())
    pieces = _object_pieces({}, "entries", lines) if json else (codec.dumps(line) + "\n" for line in lines)
    if output is None:
        for piece in pieces:
            typer.echo(piece, nl=False)
        return
    try:
        write_new(output, (piece.encode() for piece in pieces))
    except OSError as error:
        raise LedgerUnavailable(f"{output} cannot be written ({error.strerror}); name a new file.") from None


@app.command(epilog=examples("vestry ledger backup patients.ledger patients-copy.ledger"))
def backup(
    url: Address,
    file: Annotated[Path, Argument(metavar="FILE", help="A new file; nothing is overwritten.")],
    json: Json = False,
) -> None:
    """Write a verified copy into a new file, also from a server. A copy can be shown and verified, but not charged."""
    with working("copying the ledger"):
        verified = _open(url).backup(file)
    record = {"copy": str(file), "entries": verified.entries, "head": verified.head}
    emit(record, f"copied {verified.entries} entries to {file}, and verified them\nhead {verified.head}", as_json=json)


@app.command(
    epilog=examples(
        "vestry ledger restore patients-copy.ledger restored.ledger --lost epsilon=0.3"
        ' --reason "disk crash; one release since the copy"'
    )
)
def restore(
    copy: Annotated[str, Argument(metavar="COPY", help="A file that `vestry ledger backup` wrote.")],
    url: Address,
    lost: Annotated[str, Option(metavar="GUARANTEE", help="A bound on all charges made after the copy, or nothing.")],
    reason: Annotated[str, Option(help="Why; it is written into the ledger.")],
    who: Who = None,
    json: Json = False,
) -> None:
    """Create a ledger from a copy, after the ledger itself was lost. What the copy may lack is charged."""
    from vestry.ledger import Ledger

    ledger = Ledger.restore(copy, url, lost=None if lost == "nothing" else lost, reason=reason, who=who)
    state = ledger.state()
    left = state.filter.left(state.spent)
    record = {"ledger": ledger.address, "lost": lost, "left": left, "head": ledger.head()}
    emit(record, f"restored {ledger.address} from {copy}\nremaining: {left}\nhead {record['head']}", as_json=json)


def _open(url: str) -> Ledger:
    from vestry.ledger import Ledger

    return Ledger.open(url)


def _orders(text: str | None) -> tuple[float, ...] | None:
    from vestry.privacy.guarantee import read_decimal

    return None if text is None else tuple(read_decimal("order", part) for part in text.split(","))


def _summary(ledger: Ledger) -> dict[str, Any]:
    """Say what the ledger owns and what is spent, from its head alone."""
    now = ledger.summary()
    state = now.state
    alternatives = [
        {**row, "spent": spent}
        for row, spent in zip(state.filter.to_dict()["alternatives"], state.spent.totals, strict=True)
    ]
    return {
        "ledger": ledger.address,
        **ledger.terms.to_dict(),
        "copy": now.is_copy,
        "budget": str(state.filter.budget),
        "remaining": state.filter.remaining(state.spent),
        "left": state.filter.left(state.spent),
        "shares": state.filter.sharing(),
        "alternatives": alternatives,
        "failure": {"limit": state.filter.failure_limit, "spent": state.spent.failure},
        "entries": now.entries,
        "head": now.head,
    }


def _describe(charge: tuple[Entry, frozenset[str]]) -> dict[str, Any]:
    """Write a charge with its state, without the versions that made it."""
    entry, followed = charge
    state = "released" if "release" in followed else "opened" if "open" in followed else "charged"
    facts = {key: value for key, value in entry.facts.items() if key != "versions"}
    return {"entry": entry.sequence, "state": state, **facts}


def _object_pieces(record: dict[str, Any], name: str, rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield one JSON object piece by piece: the record, and under a last name rows that need not be in memory."""
    written = codec.dumps(record, indent=2).removesuffix("}").rstrip()
    yield f'{written}{"," if record else ""}\n  "{name}": ['
    for number, row in enumerate(rows):
        yield ("," if number else "") + "\n    " + codec.dumps(row)
    yield "\n  ]\n}\n"


def _start(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Read the first page before anything is printed, so that a line that cannot be read is said alone."""
    return chain(list(islice(rows, _PAGE)), rows)


def _print(record: dict[str, Any], charges: Iterator[dict[str, Any]], shown: int) -> None:
    from rich.console import Console

    page = list(islice(charges, _PAGE))
    table = _table(page, record["alternatives"], heading=True)
    unproved = "accepted" if record["accepts_unproved"] else "refused"
    facts = {"unproved samplers": unproved, **record, "remaining": record["left"]}
    names = ["ledger", "dataset", "unit", "neighbours", "unproved samplers", "budget", "remaining", "shares"]
    names += ["entries", "head"]
    typer.echo("\n".join(columns([(name, printable(str(facts[name]))) for name in names])))
    if record["copy"]:
        typer.echo("this is a copy: it can be shown and verified, but not charged")
    if page:
        typer.echo()
    listed, first = 0, None
    while page:
        Console().print(table)
        listed, first = listed + len(page), first or page[0]["entry"]
        page = list(islice(charges, _PAGE))
        table = _table(page, record["alternatives"], heading=False)
    if listed and listed == shown and first != 1:
        typer.echo(f"\nthe latest {listed} charges; --last N lists more, and `vestry ledger export` every entry")


def _table(rows: list[dict[str, Any]], alternatives: list[dict[str, Any]], *, heading: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=heading)
    for name, width in (("entry", 5), ("state", 8), ("charged", 16), ("purpose", 16), ("when (UTC)", 16)):
        table.add_column(name, overflow="fold", min_width=width)
    for row in rows:
        when = row["when"][:16].replace("T", " ")
        price = _price(row["price"], alternatives)
        cells = str(row["entry"]), row["state"], price, row["purpose"], when
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _price(price: dict[str, Any], alternatives: list[dict[str, Any]]) -> str:
    """Write a price in the first definition that has one: pure, then rho, then mu, then Renyi; and its delta."""
    from vestry.ledger.privacy_filter import FAILURE_UNITS, UNITS
    from vestry.numerics import format_up, root

    amounts = {"pure": "epsilon", "zcdp": "rho", "gdp": "mu", "renyi": "epsilon"}
    known = [(row, total) for row, total in zip(alternatives, price["totals"], strict=True) if total is not None]
    pairs = [(row, total) for row, total in known if row["currency"] in amounts]
    delta = [f"delta={format_up(Fraction(price['failure'], FAILURE_UNITS), digits=4)}"] if price["failure"] else []
    if not pairs:
        return ",".join(delta) or "without bound"
    row, total = min(pairs, key=lambda pair: list(amounts).index(pair[0]["currency"]))
    amount = root(Fraction(total, UNITS)) if row["currency"] == "gdp" else Fraction(total, UNITS)
    order = [f"order={row['order']:g}"] if "order" in row else []
    return ",".join([*order, f"{amounts[row['currency']]}={format_up(amount, digits=4)}", *delta])
