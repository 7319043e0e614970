"""Signals that are held back: each is delivered once, afterwards, to the handler that it was meant for."""

import signal
import threading

import pytest

from vestry.data.quiet_reading import quietly
from vestry.errors import VestryError
from vestry.interrupts import HELD_SIGNALS, HeldInterrupts, NotedInterrupt

FAILED = VestryError("the query could not be run.")


@pytest.fixture(autouse=True)
def _handlers_are_put_back():
    """Answer Ctrl-C as Python does: a shell lets what it runs in the background ignore it."""
    own = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = [signal.getsignal(number) for number in HELD_SIGNALS]
    yield
    assert [signal.getsignal(number) for number in HELD_SIGNALS] == before
    signal.signal(signal.SIGINT, own)


def test_an_interrupt_is_delivered_at_the_end():
    done = []

    def work():
        with HeldInterrupts():
            signal.raise_signal(signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        work()
    assert done == ["all of it"]


def test_a_handler_of_somebody_else_is_called_once():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with HeldInterrupts():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
            assert heard == []
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_held_twice_it_is_delivered_by_the_outer_one():
    reached = []

    def work():
        with HeldInterrupts():
            with HeldInterrupts():
                signal.raise_signal(signal.SIGINT)
            reached.append("between")

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        work()
    assert reached == ["between"]


def test_an_error_is_told_before_an_interrupt():
    def work():
        with HeldInterrupts():
            signal.raise_signal(signal.SIGINT)
            raise VestryError("no room")

    with pytest.raises(VestryError, match="no room"):
        work()


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with HeldInterrupts():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_handler_that_was_changed_meanwhile_stays():
    def other(number, frame):
        """Do nothing."""

    before = signal.getsignal(signal.SIGINT)
    try:
        with HeldInterrupts():
            signal.signal(signal.SIGINT, other)
        assert signal.getsignal(signal.SIGINT) is other
        with NotedInterrupt():
            signal.signal(signal.SIGINT, before)
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_another_thread_nothing_changes():
    seen = []

    def work():
        with HeldInterrupts(), NotedInterrupt() as interrupt:
            seen.append([signal.getsignal(number) for number in HELD_SIGNALS])
            seen.append(interrupt.raised)

    before = [signal.getsignal(number) for number in HELD_SIGNALS]
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before, None]


def test_an_engine_that_answers_an_interrupt_by_its_own_error_is_interrupted():
    def engine():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("Query interrupted") from None

    def ours():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise VestryError("no table") from None

    for action in (engine, ours):
        with pytest.raises(KeyboardInterrupt, match=r"^$") as error:
            quietly(action, FAILED)
        assert error.value.__cause__ is None


def test_an_error_without_an_interrupt_is_the_sentence():
    with pytest.raises(VestryError, match="could not be run"):
        quietly(lambda: 1 / 0, FAILED)
