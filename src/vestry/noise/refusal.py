"""What noise refuses: to be repeated, and to go on without entropy."""

from __future__ import annotations

from vestry.errors import VestryError


class Unrepeatable(VestryError, TypeError):  # noqa: N818 - the name is the fact
    """Privacy's randomness was asked for something that could repeat it."""

    def __init__(self, owner: str, asked: str, instead: str) -> None:
        super().__init__(f"{owner} cannot be {asked}: noise that can be repeated hides nothing; {instead}.")
        self.owner, self.asked, self.instead = owner, asked, instead


class NoiseUnavailable(VestryError, RuntimeError):  # noqa: N818
    """No noise could be drawn."""

    def __init__(self) -> None:
        super().__init__("no noise could be drawn, so nothing was released; check the system's entropy.")
