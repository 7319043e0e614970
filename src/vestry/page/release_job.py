"""One run of releases at a time, in the background: however often it is asked for, it is begun once.

Each confirmation carries a key. A key begins one run and no other; the ledger charges a question once in any case.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from vestry.errors import refusal
from vestry.study import Study


@dataclass(frozen=True)
class Progress:
    """What became of a run.

    Attributes
    ----------
    status
        idle, running, done or failed.
    names, now
        What is released, and what is at work.
    outcomes
        What was done so far: release, and what became of it.
    sentence
        Why it failed.
    """

    status: str = "idle"
    names: tuple[str, ...] = ()
    now: str = ""
    outcomes: tuple[tuple[str, str], ...] = ()
    sentence: str = ""


@dataclass
class ReleaseJob:
    """What is being released, or was last."""

    progress: Progress = field(default_factory=Progress)
    _keys: set[str] = field(default_factory=set, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _thread: threading.Thread | None = field(default=None, repr=False)

    @property
    def running(self) -> bool:
        """Whether something is being released."""
        return self.progress.status == "running"

    def used(self, key: str) -> bool:
        """Tell whether a run was begun with this key."""
        return key in self._keys

    def begin(self, key: str, study: Study, names: Sequence[str]) -> bool:
        """Begin a run; not if one is running, nor twice with one key. Tell whether it was begun."""
        with self._lock:
            if self.running or key in self._keys:
                return False
            self._keys.add(key)
            self.progress = Progress("running", tuple(names))
            self._thread = threading.Thread(target=self._run, args=(study, tuple(names)), name="release")
        self._thread.start()
        return True

    def wait(self, timeout: float | None = None) -> None:
        """Wait until nothing is being released."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self, study: Study, names: tuple[str, ...]) -> None:
        try:
            study.release(
                *names,
                progress=lambda text: self._say(now=text),
                on_outcome=lambda each: self._say(outcomes=(*self.progress.outcomes, (each.name, each.done))),
                on_wait=lambda text: self._say(now=text),
            )
        except BaseException as error:  # whatever it is, the page tells it; nobody else is there to
            said = refusal(error) if isinstance(error, Exception) else "the release was interrupted."
            self._say(status="failed", sentence=said)
        else:
            self._say(status="done", now="")

    def _say(self, **news: object) -> None:
        self.progress = replace(self.progress, **news)  # type: ignore[arg-type]
