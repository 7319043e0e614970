"""Files are read whole up to a bound, and written whole or not at all; devices, pipes and links are not followed."""

from __future__ import annotations

import ast
import errno
import os
import signal
import socket
from pathlib import Path

import matplotlib.pyplot
import pytest

from vestry import files
from vestry.display.plotting import privacy_curve
from vestry.errors import InvalidParameter
from vestry.events import zcdp

SOURCE = Path(files.__file__).parent
FOR_CHILDREN = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def pipe(tmp_path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.fixture
def listening(tmp_path) -> Path:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    return path


# Reading


def test_a_file_is_read_whole_up_to_its_bound(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\rc\n")
    assert files.read_bytes(path, 11) == path.read_bytes()
    assert files.read_text(path, encoding="utf-8-sig") == "a\nb\nc\n"
    with pytest.raises(OSError, match="longer than"):
        files.read_bytes(path, 9)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty"])
def test_a_device_is_not_read(device):
    with pytest.raises(OSError, match=r"not a regular file|No such device or address"):
        files.read_bytes(Path(device))


def test_a_pipe_is_not_waited_for(pipe):
    with pytest.raises(OSError, match="not a regular file"):
        files.read_bytes(pipe)


def test_a_pipe_with_a_writer_is_not_read(pipe):
    held = os.open(pipe, os.O_RDWR)
    try:
        os.write(held, b"{}")
        with pytest.raises(OSError, match="not a regular file"):
            files.read_bytes(pipe)
    finally:
        os.close(held)


def test_a_socket_and_a_folder_are_not_read(listening, tmp_path):
    with pytest.raises(OSError, match="No such device or address"):
        files.read_bytes(listening)
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        files.read_bytes(tmp_path)


def test_what_was_opened_is_looked_at_and_not_its_name(tmp_path, pipe, monkeypatch):
    """The name leads to a file when it is looked at, and to a pipe when it is opened."""
    path = tmp_path / "file"
    path.write_text("plain")
    opened = os.open
    monkeypatch.setattr(os, "open", lambda name, *more: opened(pipe if name == path else name, *more))
    with pytest.raises(OSError, match="not a regular file"):
        files.read_bytes(path)


# Writing


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_link_is_replaced_and_not_followed(tmp_path):
    target = tmp_path / "target"
    target.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(target)
    files.write_over(link, [b"new"])
    assert target.read_text() == "mine"
    assert not link.is_symlink()
    assert link.read_text() == "new"
    assert names_in(tmp_path) == {"target", "link"}


def test_a_link_that_leads_nowhere_is_not_followed(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError, match="File exists"):
        files.write_new(link, [b"new"])
    files.write_over(link, [b"new"])
    assert not (tmp_path / "nowhere").exists()
    assert link.read_text() == "new"


def test_a_new_file_is_written_over_nothing(tmp_path):
    path = tmp_path / "file"
    files.write_new(path, [b"one ", b"two"])
    with pytest.raises(FileExistsError, match="File exists"):
        files.write_new(path, [b"three"])
    assert path.read_text() == "one two"
    assert names_in(tmp_path) == {"file"}


def test_a_pipe_a_socket_and_a_folder_are_not_replaced(tmp_path, pipe, listening):
    for path in (pipe, listening):
        with pytest.raises(OSError, match="not a regular file"):
            files.write_over(path, [b"new"])
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        files.write_over(folder, [b"new"])
    assert names_in(tmp_path) == {"pipe", "socket", "folder"}


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("old")

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write_over(path, [b"new"])
    assert path.read_text() == "old"
    assert names_in(tmp_path) == {"file"}


@FOR_CHILDREN
@pytest.mark.parametrize("write", [files.write_over, files.write_new])
def test_a_process_that_is_killed_leaves_what_was_there(tmp_path, write):
    path = tmp_path / "file"
    if write is files.write_over:
        path.write_text("old")
    child = os.fork()
    if child == 0:

        def pieces():
            yield b"half"
            os.kill(os.getpid(), signal.SIGKILL)

        write(path, pieces())
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    assert [name for name in names_in(tmp_path) if not name.endswith(files.PART)] == ["file"] * path.exists()
    assert not path.exists() or path.read_text() == "old"


# Pictures


def test_a_picture_replaces_a_link_and_what_was_there(tmp_path):
    target = tmp_path / "target.png"
    target.write_text("mine")
    link = tmp_path / "curve.png"
    link.symlink_to(target)
    privacy_curve(zcdp(rho=0.5), title="curve", path=link)
    assert target.read_text() == "mine"
    assert not link.is_symlink()
    assert link.read_bytes().startswith(b"\x89PNG")


def test_a_picture_is_not_drawn_into_a_pipe(pipe):
    path = pipe.rename(pipe.with_suffix(".png"))
    with pytest.raises(InvalidParameter, match=r"the plot's file must be one that can be written \(not a regular"):
        privacy_curve(zcdp(rho=0.5), title="curve", path=path)


def test_a_picture_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "curve.png"
    path.write_text("old")

    def half(figure, file, **options):
        file.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", half)
    with pytest.raises(InvalidParameter, match="No space left"):
        privacy_curve(zcdp(rho=0.5), title="curve", path=path)
    assert path.read_text() == "old"


@pytest.mark.parametrize(("name", "head"), [("a.pdf", b"%PDF"), ("a.svg", b"<?xml"), ("a", b"\x89PNG")])
def test_the_name_of_a_picture_says_its_form(tmp_path, name, head):
    privacy_curve(zcdp(rho=0.5), title="curve", path=tmp_path / name)
    (written,) = tmp_path.iterdir()
    assert written.read_bytes().startswith(head)
    assert written.suffix == (Path(name).suffix or ".png")


def test_a_form_that_nobody_knows_is_told(tmp_path):
    with pytest.raises(InvalidParameter, match="unknown kind of file"):
        privacy_curve(zcdp(rho=0.5), title="curve", path=tmp_path / "a.doc")


# No other door

# Who may open files otherwise, and why.
OTHER_DOORS = {
    "cli/__init__.py": "standard streams",
    "data/csv_reader.py": "reads in pieces, of what is_missing has found to be a file",
    "data/databases.py": "reads a header, of what is_missing has found to be a file",
    "data/parquet_files.py": "reads in pieces, of what is_missing has found to be a file",
    "data/dataframes.py": "reads six bytes, of what is_missing has found to be a file",
    "display/plotting.py": "draws into memory",
    "display/templates.py": "draws into memory",
    "ledger/index_file.py": "private to its owner, read only if no one else can write it",
    "ledger/sqlite.py": "SQLite's own files",
    "likelihood/stan_program.py": "a file of the package",
    "page/page_server.py": "a private file in a new folder of its own",
    "page/peer_user.py": "the kernel's table",
    "page/routes.py": "a file of the package",
    "pipeline.py": "made before the charge, and written into after it",
    "report/page.py": "a file of the package",
}
TOUCHES = {"read_text", "read_bytes", "write_text", "write_bytes", "savefig", "to_csv", "copyfile", "fdopen", "mkstemp"}
OPENERS = {"open"}
# What is opened by a method named `open` that is no file.
NOT_FILES = {"Ledger", "Study", "cls", "charge", "source", "webbrowser", "os", "files", "self"}


def doors(text: str) -> list[str]:
    """Return the calls of a module that read or write a file by themselves."""
    calls = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    found = []
    for function in calls:
        if isinstance(function, ast.Name) and function.id == "open":
            found.append("open")
        if isinstance(function, ast.Attribute):
            owner = ast.unparse(function.value)
            is_ours = owner == "files"
            opens_file = function.attr in OPENERS and owner not in NOT_FILES
            if (function.attr in TOUCHES and not is_ours) or opens_file:
                found.append(f"{owner}.{function.attr}")
    return found


def test_every_file_goes_through_the_door():
    others = {}
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        calls = doors(path.read_text())
        if calls and name != "files.py":
            others[name] = calls
    assert set(others) <= set(OTHER_DOORS), others


@pytest.mark.parametrize("line", ["Path(p).read_text()", "open(p)", "figure.savefig(p)", "(a / b).open('rb')"])
def test_a_door_of_its_own_is_seen(line):
    assert doors(line)
