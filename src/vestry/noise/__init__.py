"""Privacy's own randomness: operating-system entropy, exact discrete noise and exact draws, without a seed."""

from vestry.noise.noise_source import NoiseSource
from vestry.noise.system_noise import SystemNoise

__all__ = ["NoiseSource", "SystemNoise"]
