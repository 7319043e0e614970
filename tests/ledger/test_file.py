"""One ledger, one file: other names, other files, old copies, other formats, logs, read-only places, copies."""

from __future__ import annotations

import builtins
import errno
import fcntl
import gc
import io
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import weakref
from contextlib import closing
from pathlib import Path

import pytest
from ledger_processes import asked, work

from vestry.errors import (
    BudgetExceeded,
    InvalidParameter,
    LedgerCorrupt,
    LedgerExists,
    LedgerMissing,
    LedgerStateError,
    LedgerUnavailable,
)
from vestry.ledger import Ledger, sqlite
from vestry.ledger import database as database_module
from vestry.ledger import ledger as journal_module


def uses(ledger: Ledger) -> list:
    """Every way to write: each must be refused, and alone."""
    return [
        lambda: ledger.charge("epsilon=0.01", purpose="x"),
        lambda: ledger.amend("epsilon=2,delta=1e-6", reason="x"),
        lambda: ledger.resume(1).open(),
    ]


def copy_over(source: Path, target: Path) -> None:
    """Copy from another process: opening a ledger's file in this one would drop SQLite's locks."""
    subprocess.run(["cp", str(source), str(target)], check=True)


@pytest.mark.long
def test_a_ledger_that_is_no_longer_used_closes_its_file(make):
    """An engine that held its ledger was never closed: a process that opened many ran out of files."""
    address = make().address
    kept = weakref.ref(Ledger.open(address)._database)
    gc.collect()
    assert kept() is None


# Other names


def test_a_second_name_is_refused_under_both(make, tmp_path):
    ledger = make()
    ledger.charge("epsilon=0.1", purpose="one")
    os.link(ledger.address, tmp_path / "second.ledger")
    for handle in (ledger, Ledger.open(ledger.address), Ledger.open(tmp_path / "second.ledger")):
        for use in uses(handle):
            with pytest.raises(
                LedgerUnavailable, match=r"has 2 names \(hard links\), .*find FOLDER -samefile .* lists"
            ):
                use()
    assert ledger.verify().entries == 2
    (tmp_path / "second.ledger").unlink()
    ledger.charge("epsilon=0.1", purpose="two")
    assert ledger.verify().entries == 3


def test_what_a_killed_creation_left_is_named(make, tmp_path):
    ledger = make()
    left = tmp_path / f".{Path(ledger.address).name}.abc.new"
    os.link(ledger.address, left)
    with pytest.raises(LedgerUnavailable, match=rf"; remove {left}, which was left as its creation was killed\.$"):
        ledger.charge("epsilon=0.1", purpose="x")
    left.unlink()
    ledger.charge("epsilon=0.1", purpose="x")


def test_symbolic_links_are_other_names_of_one_ledger(make, tmp_path):
    ledger, other = make("epsilon=0.3"), make()
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "link.ledger"
    link.symlink_to(ledger.address)
    linked = Ledger.open(link)
    for number, handle in enumerate((ledger, linked, ledger), start=1):
        assert handle.charge("epsilon=0.1", purpose="x").sequence == number
    with pytest.raises(BudgetExceeded, match=r"^Budget exceeded"):
        linked.charge("epsilon=0.1", purpose="x")
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["link.ledger"]  # no journal of its own
    link.unlink()
    link.symlink_to(other.address)
    with pytest.raises(LedgerUnavailable, match=r"was replaced by another file while it was open"):
        linked.charge("epsilon=0.1", purpose="x")


def test_a_file_that_is_itself_mounted_is_refused(make, tmp_path, monkeypatch):
    ledger = make(address=tmp_path / "a b.ledger")
    table = tmp_path / "mountinfo"
    place = ledger.address.replace(" ", "\\040")
    table.write_text(f"36 35 98:0 / / rw - ext4 /dev/root rw\n37 36 98:0 /x {place} rw shared:1 - ext4 /dev/root rw\n")
    monkeypatch.setattr(sqlite, "_MOUNTS", str(table))
    for use in uses(ledger)[:2]:
        with pytest.raises(
            LedgerUnavailable, match=r"is itself mounted there.*; mount the folder that holds it instead"
        ):
            use()
    table.write_text("36 35 98:0 / / rw - ext4 /dev/root rw\n")
    ledger.charge("epsilon=0.1", purpose="x")
    monkeypatch.setattr(sqlite, "_MOUNTS", str(tmp_path / "nowhere"))  # a system without such a table
    ledger.charge("epsilon=0.1", purpose="x")


@pytest.mark.long
def test_a_real_mount_of_the_file_is_refused(make, tmp_path):
    """The kernel's own table, in a mount namespace of its own."""
    ledger = make()
    script = (
        "import sys; from vestry.ledger import Ledger; from vestry.errors import LedgerUnavailable\n"
        "try: Ledger.open(sys.argv[1]).charge('epsilon=0.1', purpose='x')\n"
        "except LedgerUnavailable as error: print(error)"
    )
    mounted = tmp_path / "mounted.ledger"
    mounted.touch()
    steps = f'mount --bind "$1" "$2" 2>/dev/null || exit 77; exec "{sys.executable}" -c "$3" "$2"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", steps, "sh", ledger.address, str(mounted), script],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this user cannot mount")
    assert "is itself mounted there" in done.stdout, done
    assert ledger.verify().entries == 1


# Other files


@pytest.mark.parametrize("how", ["deleted", "moved"])
def test_a_lost_file_is_noticed_by_an_open_handle(make, tmp_path, how):
    ledger = make()
    charge = ledger.charge("epsilon=0.1", purpose="one")
    path = Path(ledger.address)
    path.unlink() if how == "deleted" else path.rename(tmp_path / "elsewhere.ledger")
    for use in (*uses(ledger), ledger.state, ledger.verify, charge.open):
        with pytest.raises(
            LedgerMissing, match=r"was moved or deleted while it was open, .*put it back and open it again"
        ):
            use()
    assert not path.exists()


def test_a_replaced_file_is_noticed_by_an_open_handle(make, tmp_path):
    ledger, other = make(), make()
    ledger.charge("epsilon=0.1", purpose="one")
    before = other.head()
    os.replace(other.address, ledger.address)
    for use in (*uses(ledger), ledger.state):
        with pytest.raises(LedgerUnavailable, match=r"was replaced by another file while it was open, and nothing was"):
            use()
    assert Ledger.open(ledger.address).verify().head == before


def test_an_old_copy_put_back_is_noticed_by_an_open_handle(make, tmp_path):
    """Copied over the ledger it has the same inode; the handle misses a line."""
    ledger = make()
    ledger.charge("epsilon=0.1", purpose="one")
    copy_over(Path(ledger.address), tmp_path / "old")
    charge = ledger.charge("epsilon=0.1", purpose="two")
    inode = os.stat(ledger.address).st_ino
    copy_over(tmp_path / "old", Path(ledger.address))
    assert os.stat(ledger.address).st_ino == inode
    for use in (*uses(ledger), ledger.state, ledger.verify, charge.open):
        with pytest.raises(LedgerCorrupt, match=r"at entry 2: it lacks a line that was there before, so an older copy"):
            use()
    Ledger.open(ledger.address).charge("epsilon=0.2", purpose="another two")  # a new handle cannot know
    with pytest.raises(LedgerCorrupt, match=r"at entry 2: it lacks a line that was there before"):
        ledger.charge("epsilon=0.1", purpose="three")


def test_certificates_name_what_an_old_copy_lacks(make, tmp_path):
    ledger = make()
    first = ledger.charge("epsilon=0.1", purpose="one")
    sha = first.open().released(b"one").facts["release_sha256"]
    copy_over(Path(ledger.address), tmp_path / "old")
    second = ledger.charge("epsilon=0.1", purpose="two")
    last = second.open().released(b"two").facts["release_sha256"]
    named = {first.sequence: sha, second.sequence: last}
    ledger.require_entries({})
    ledger.require_entries(named)
    ledger.require_entries({first.sequence: None})
    for wrong in ({first.sequence: last}, {2: sha}, {2: None}, {99: None}, {0: None}):
        with pytest.raises(
            LedgerCorrupt, match=rf"a certificate names charge {next(iter(wrong))} with its release, and"
        ):
            ledger.require_entries(wrong)
    copy_over(tmp_path / "old", Path(ledger.address))
    with pytest.raises(LedgerCorrupt, match=r"an older copy was put back or the ledger was made again"):
        Ledger.open(ledger.address).require_entries(named)


# What is in the one file after a kill


@pytest.mark.long
def test_what_was_acknowledged_is_in_the_file_and_its_journal_after_kills(make, tmp_path):
    """Copied as they lie after each kill, the file and its journal hold every charge that was acknowledged."""
    ledger = make("epsilon=0.1")
    releases = tmp_path / "releases"
    releases.mkdir()
    facts = work("copied", ledger.address, releases, 15, 20260)
    assert [fact for fact in facts if "error" in fact] == []
    assert len(facts) == 15
    assert all(fact["lost"] == [] for fact in facts)
    assert facts[-1]["entries"] > 15
    assert not Path(f"{ledger.address}-wal").exists()
    # The journal is hot only if the kill fell into a commit: nearly always the file alone holds everything.
    alone = [fact["alone"] for fact in facts]
    assert all(fact["alone"] or fact["hot"] for fact in facts)
    assert sum(alone) > 7


# Other formats, and logs of other programs


def versions(path: Path) -> bytes:
    """The two bytes of the header that say whether a write-ahead log is used (2) or not (1)."""
    return subprocess.run(["dd", f"if={path}", "bs=1", "skip=18", "count=2"], capture_output=True, check=True).stdout


def give_log(path: Path) -> sqlite3.Connection:
    """Give a file a write-ahead log that holds something, and keep it open."""
    other = sqlite3.connect(path, isolation_level=None)
    assert other.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
    (key,) = other.execute("SELECT row_key FROM vestry_head").fetchone()
    for text in ("another", key):  # what is as it was before is not written
        other.execute("UPDATE vestry_head SET row_key = ?", (text,))
    return other


def test_an_earlier_format_is_refused_by_both_formats_and_left_alone(make):
    """As version 0.1.0 left its ledgers: format 1, with a write-ahead log."""
    path = Path(make().address)
    with closing(give_log(path)) as other:
        other.execute("UPDATE vestry_head SET format = 1")
    before = path.read_bytes()
    for use in (lambda: Ledger.open(path), lambda: Ledger.restore(path, f"{path}.new", lost=None, reason="x")):
        with pytest.raises(
            LedgerUnavailable,
            match=r"has format 1, and this version of vestry reads format 2; open it with the version that wrote it\.$",
        ):
            use()
    assert path.read_bytes() == before
    assert not Path(f"{path}.new").exists()


def test_a_ledger_that_another_program_holds_with_a_log_is_read_and_not_written(make):
    path = Path(make().address)
    with closing(give_log(path)):
        ledger = Ledger.open(path)
        assert ledger.verify().entries == 1
        for use in uses(ledger)[:2]:
            with pytest.raises(LedgerUnavailable, match=r"a write-ahead log, and has it open; end that program"):
                use()
        assert Ledger.open(path).verify().entries == 1
    ledger.charge("epsilon=0.1", purpose="now")
    assert versions(path) == b"\1\1"


def test_a_log_made_by_another_program_is_undone(make):
    ledger = make()
    with closing(sqlite3.connect(ledger.address)) as other:
        assert other.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
    ledger.charge("epsilon=0.1", purpose="x")
    assert versions(Path(ledger.address)) == b"\1\1"


# Where nothing can be written


@pytest.fixture
def shelf():
    """A folder that every user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="vestry-shelf-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def by_a_reader(path: Path, work) -> object:
    """Run `work(path)` as a user who can read the file and write neither it nor its folder."""

    def reading(tell):
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        tell(work(path))

    for file in path.parent.iterdir():
        file.chmod(0o444)
    path.parent.chmod(0o555)
    (found,) = asked(reading)
    return found


def looked(path: Path) -> dict:
    ledger = Ledger.open(path)
    charges = [entry.sequence for entry, _ in ledger.charges(newest=2)]
    stages = [ledger.journal().stage(number) for number in charges]
    try:
        ledger.charge("epsilon=0.01", purpose="x")
    except LedgerUnavailable as error:
        refused = str(error)
    entries = ledger.verify().entries
    return {"entries": entries, "head": ledger.head(), "charges": charges, "stages": stages, "refused": refused}


def test_a_read_only_copy_is_shown_and_verified(make, shelf):
    ledger = make(address=shelf / "a.ledger")
    ledger.charge("epsilon=0.1", purpose="one").open()
    ledger.charge("epsilon=0.1", purpose="two")
    looked_at = by_a_reader(shelf / "a.ledger", looked)
    assert looked_at.pop("refused").endswith("is read-only here, so nothing was written; use it where its folder"
                                             " can be written.")  # fmt: skip
    assert looked_at == {"entries": 4, "head": ledger.head(), "charges": [1, 3], "stages": ["open", "charge"]}


@pytest.mark.parametrize("beside", ["-wal", "-journal"])
def test_a_read_only_copy_that_lacks_a_part_of_itself_is_refused(make, shelf, beside):
    path = shelf / "a.ledger"
    if beside == "-wal":
        with closing(give_log(Path(make().address))) as other:
            (file,) = [row[2] for row in other.execute("PRAGMA database_list")]
            copy_over(Path(file), path)
            copy_over(Path(f"{file}-wal"), Path(f"{path}-wal"))
    else:
        make(address=path)
        asked(lambda tell: interrupted(path))
    found = by_a_reader(path, looked)
    assert found["error"] == "LedgerUnavailable", found
    assert f"because a.ledger{beside} holds a part of it; copy both to a folder that you can write" in found["message"]


def interrupted(path: Path) -> None:
    """Leave a journal that must be rolled back, as a kill in the middle of a commit does."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA cache_size=1")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE vestry_head SET state = state || hex(zeroblob(200000))")
    os._exit(0)


def test_what_was_interrupted_is_rolled_back(make):
    ledger = make()
    ledger.charge("epsilon=0.1", purpose="one")
    head = ledger.head()
    asked(lambda tell: interrupted(Path(ledger.address)))
    assert any(Path(f"{ledger.address}-journal").read_bytes()[:28])
    assert Ledger.open(ledger.address).verify().head == head
    assert ledger.charge("epsilon=0.1", purpose="two").sequence == 2


# Where nothing can be locked


NO_LOCKS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#define REFUSE(name) int name(int file, int command, ...) { \
    va_list more; va_start(more, command); void *argument = va_arg(more, void *); va_end(more); \
    if (command == F_SETLK || command == F_SETLKW) { errno = ENOLCK; return -1; } \
    int (*real)(int, int, ...) = dlsym(RTLD_NEXT, #name); return real(file, command, argument); }
REFUSE(fcntl)
REFUSE(fcntl64)
"""


@pytest.mark.long
def test_a_missing_lock_service_is_not_in_use_and_is_said_at_once(make, tmp_path):
    """A process in which the operating system refuses every lock, as a file server without its lock service does."""
    ledger = make()
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no compiler here")
    source = tmp_path / "no_locks.c"
    source.write_text(NO_LOCKS)
    # The loader takes a space for the end of a name.
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    library = folder / "no_locks.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    script = (
        "import sys; from vestry.ledger import Ledger; from vestry.errors import VestryError\n"
        "terms = dict(dataset='x', unit='row', neighbours='replace', budget='epsilon=1')\n"
        "for use in (lambda: Ledger.open(sys.argv[1]), lambda: Ledger.create(sys.argv[1] + '.new', **terms)):\n"
        "    try: use()\n"
        "    except VestryError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, ledger.address],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True, text=True, check=True, timeout=50,
    )  # fmt: skip
    sentence = (
        f"no file can be locked in {tmp_path} (No locks available), so a ledger there could be charged twice at once;"
        " start the lock service of its file server, or keep the ledger on a local disk."
    )
    assert done.stdout.splitlines() == [sentence, sentence]
    assert not Path(f"{ledger.address}.new").exists()
    shutil.rmtree(folder)
    assert not list(tmp_path.glob(".*"))


def test_a_folder_without_locks_is_refused_by_name(make, monkeypatch):
    ledger = make()

    def refused(*given):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "lockf", refused)
    with pytest.raises(LedgerUnavailable, match=r"^no file can be locked in .*; start the lock service of its file"):
        Ledger.open(ledger.address)


# Copies


def test_a_copy_is_whole_and_cannot_be_charged(make, tmp_path):
    ledger = make(unit="person=patient_id,rows=3")
    ledger.charge("epsilon=0.1", purpose="one").open().released(b"x")
    verified = ledger.backup(tmp_path / "copy.ledger")
    assert (verified.entries, verified.head) == (4, ledger.head())
    copy = Ledger.open(tmp_path / "copy.ledger")
    assert list(copy.entries()) == list(ledger.entries())
    assert (copy.state(), copy.row_key(), copy.terms) == (ledger.state(), ledger.row_key(), ledger.terms)
    assert copy.summary().is_copy
    assert not ledger.summary().is_copy
    for use in uses(copy)[:2]:
        with pytest.raises(
            LedgerUnavailable, match=r"is a copy, and charging it would spend again .*ledger restore`\.$"
        ):
            use()
    assert copy.verify().entries == 4
    ledger.charge("epsilon=0.1", purpose="two")
    with pytest.raises(LedgerExists, match=r"already; nothing was changed"):
        ledger.backup(tmp_path / "copy.ledger")
    assert copy.verify().entries == 4


def test_a_damaged_ledger_gives_no_copy(make, tmp_path):
    ledger = make()
    ledger.charge("epsilon=0.1", purpose="one")
    with closing(sqlite3.connect(ledger.address, isolation_level=None)) as raw:
        raw.execute("UPDATE vestry_journal SET body = replace(body, 'one', 'two') WHERE sequence = 1")
    with pytest.raises(LedgerCorrupt, match=r"at entry 1: the line was changed"):
        ledger.backup(tmp_path / "copy.ledger")
    assert not (tmp_path / "copy.ledger").exists()
    with pytest.raises(InvalidParameter, match=r"^a copy must be a new file, not 'on a server'"):
        ledger.backup("postgresql://u@h/d")


def test_a_restored_ledger_has_paid_for_what_may_be_missing(make, tmp_path):
    ledger = make("epsilon=1")
    drawn = ledger.charge("epsilon=0.1", purpose="drawn")
    drawn.open().released(b"x")
    waiting = ledger.charge("epsilon=0.1", purpose="waits")
    ledger.backup(tmp_path / "copy.ledger")
    waiting.open().released(b"y")
    ledger.charge("epsilon=0.2", purpose="after the copy")
    Path(ledger.address).unlink()
    found = Ledger.restore(
        tmp_path / "copy.ledger", tmp_path / "new.ledger", lost="epsilon=0.25", reason="disk crash", who="Ann"
    )
    assert found.state().spent.totals[0] == 45 * 10**10
    assert [entry.action for entry in found.entries()][5:] == ["amend", "charge", "open"]
    assert list(found.entries())[5].facts["reason"] == "restored from a copy: disk crash"
    assert not found.summary().is_copy
    with pytest.raises(LedgerStateError, match=r"has its open already"):  # it may have been drawn since
        found.resume(waiting.sequence).open()
    found.charge("epsilon=0.55", purpose="the rest")
    with pytest.raises(BudgetExceeded, match=r"and nothing of epsilon=1 remains"):
        found.charge("epsilon=0.01", purpose="too much")
    assert found.verify().entries == 9


def test_a_restore_says_what_is_wrong_and_leaves_nothing(make, tmp_path):
    ledger = make("epsilon=1")
    ledger.charge("epsilon=0.5", purpose="x")
    copy, new = tmp_path / "copy.ledger", tmp_path / "new.ledger"
    ledger.backup(copy)
    with pytest.raises(BudgetExceeded, match=r"the charge needs epsilon=0\.6"):
        Ledger.restore(copy, new, lost="epsilon=0.6", reason="x")
    with pytest.raises(InvalidParameter, match=r"epsilon"):
        Ledger.restore(copy, new, lost="epsilon=-1", reason="x")
    with pytest.raises(LedgerExists, match=r"already; nothing was changed"):
        Ledger.restore(copy, ledger.address, lost=None, reason="x")
    assert not new.exists()
    assert Ledger.restore(copy, new, lost=None, reason="x").verify().entries == 4


def test_a_restore_that_is_killed_leaves_a_copy(make, tmp_path, monkeypatch):
    ledger = make("epsilon=1")
    ledger.backup(tmp_path / "copy.ledger")

    def killed(*args):
        raise KeyboardInterrupt("killed")

    with monkeypatch.context() as broken:
        broken.setattr(journal_module, "_append", killed)
        with pytest.raises(KeyboardInterrupt, match="killed"):
            Ledger.restore(tmp_path / "copy.ledger", tmp_path / "new.ledger", lost="epsilon=0.5", reason="x")
    with pytest.raises(LedgerUnavailable, match=r"is a copy"):
        Ledger.open(tmp_path / "new.ledger").charge("epsilon=1", purpose="x")


# In pages


def test_pages_are_one_moment_of_the_ledger(make, monkeypatch):
    monkeypatch.setattr(database_module, "PAGE", 3)
    ledger = make("epsilon=1")
    for number in range(7):
        charge = ledger.charge("epsilon=0.01", purpose=f"question {number}")
        if number % 2:
            charge.open()
    lines = ledger.entries()
    assert next(lines).sequence == 0
    ledger.charge("epsilon=0.01", purpose="later")
    assert [entry.sequence for entry in lines] == list(range(1, 11))
    found = [(entry.facts["purpose"], sorted(followed)) for entry, followed in ledger.charges()]
    assert found == [(f"question {n}", ["open"] if n % 2 else []) for n in range(7)] + [("later", [])]
    for count in (1, 3, 8, 100):
        assert list(ledger.charges(newest=count)) == list(ledger.charges())[-count:]
    assert list(ledger.charges(newest=0)) == []
    assert ledger.verify().entries == 12


def test_a_changed_schema_is_found(make):
    for change in (
        "CREATE TRIGGER t AFTER INSERT ON vestry_journal BEGIN DELETE FROM vestry_journal WHERE sequence = 9; END",
        "DROP INDEX vestry_journal_once",
        "CREATE TABLE other (x)",
    ):
        ledger = make()
        with closing(sqlite3.connect(ledger.address, isolation_level=None)) as raw:
            raw.execute(change)
        with pytest.raises(LedgerCorrupt, match=r"its schema was changed"):
            ledger.verify()


@pytest.mark.parametrize("bit", range(1, 8))
def test_a_changed_version_in_the_header_is_found(make, bit):
    """Byte 18 says who may write: SQLite only reads a file of another version, and every page is as before."""
    ledger = make()
    content = bytearray(Path(ledger.address).read_bytes())
    content[18] ^= 1 << bit
    Path(ledger.address).write_bytes(content)
    with pytest.raises(LedgerCorrupt, match=r"its header was changed"):
        Ledger.open(ledger.address).verify()


def test_nothing_but_sqlite_opens_the_file(make, monkeypatch):
    """A process that closes any handle of a file loses every lock it has on it, also those of SQLite."""
    ledger, opened = make(), list[str]()

    def record(module, name):
        own = getattr(module, name)

        def opening(file, *more, **named):
            opened.append(str(file))
            return own(file, *more, **named)

        monkeypatch.setattr(module, name, opening)

    for module in (io, builtins, os):
        record(module, "open")
    ledger.charge("epsilon=0.1", purpose="one").open()
    ledger.verify()
    ledger.summary()
    assert ledger.address not in opened
    with Path(ledger.address).open("rb"):
        assert ledger.address in opened


def test_a_changed_index_is_found_and_opens_nothing_again(make):
    """An index that no longer says that charge 1 was opened; the line itself is as before."""
    ledger = make()
    charge = ledger.charge("epsilon=0.1", purpose="one")
    charge.open()
    with closing(sqlite3.connect(ledger.address, isolation_level=None)) as raw:
        raw.execute("PRAGMA writable_schema=ON")
        row = raw.execute("SELECT rootpage, sql FROM sqlite_master WHERE name = 'vestry_journal_once'").fetchone()
        raw.execute("CREATE TABLE empty (x)")
        raw.execute("CREATE INDEX hollow ON empty (x)")
        (root,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'hollow'").fetchone()
        raw.execute("UPDATE sqlite_master SET rootpage = ? WHERE name = 'vestry_journal_once'", (root,))
        raw.execute("UPDATE sqlite_master SET rootpage = ? WHERE name = 'hollow'", (row[0],))
        raw.execute("DELETE FROM sqlite_master WHERE name IN ('empty', 'hollow')")
    fresh = Ledger.open(ledger.address)
    with pytest.raises(LedgerCorrupt, match=r"its pages or its index were changed"):
        fresh.verify()
    with pytest.raises(LedgerStateError, match=r"^charge 1 has its open already"):
        fresh.resume(charge.sequence).open()


@pytest.mark.parametrize("column", ["action", "body", "previous", "hash"])
def test_a_value_of_another_type_is_one_sentence_wherever_it_is_read(make, column):
    ledger = make()
    ledger.charge("epsilon=0.1", purpose="one").open()
    with closing(sqlite3.connect(ledger.address, isolation_level=None)) as raw:
        raw.execute(f"UPDATE vestry_journal SET {column} = CAST({column} AS BLOB) WHERE sequence = 2")
    for use in (
        ledger.verify,
        lambda: list(ledger.entries()),
        lambda: ledger.resume(2),
        lambda: ledger.resume(1).open(),
    ):
        with pytest.raises(LedgerCorrupt, match=r"^the ledger does not verify.* at entry 2: the line cannot be read;"):
            use()
