"""Privacy's own randomness: operating-system entropy, exact discrete noise and exact draws, without a seed."""

from vestry.noise.source import Noise
from vestry.noise.system import SystemNoise

__all__ = ["Noise", "SystemNoise"]
