"""Privacy's own randomness: operating-system entropy and exact discrete noise, without a seed."""

from vestry.noise.source import Noise
from vestry.noise.system import SystemNoise

__all__ = ["Noise", "SystemNoise"]
