"""The seam of privacy's randomness: what it refuses, what it hides, what it never repeats."""

from __future__ import annotations

import copy
import inspect
import math
import os
import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from randomgen import AESCounter
from seeded_noise import SeededNoise

import vestry.noise
from vestry.errors import InvalidParameter, NoiseNotReproducible, NoiseUnavailable, VestryError
from vestry.noise import NoiseSource, SystemNoise, exact_sampling
from vestry.noise.bits import BLOCK_BYTES, Bits
from vestry.noise.system_noise import _draw, check_scale

SAMPLERS = {
    "discrete_laplace": lambda noise, values, scale: noise.discrete_laplace(values, scale=scale),
    "discrete_gaussian": lambda noise, values, scale: noise.discrete_gaussian(values, scale=scale),
    "rounded_gaussian": lambda noise, values, scale: noise.rounded_gaussian(values, scale=scale),
    "lattice_gaussian": lambda noise, values, scale: noise.lattice_gaussian(values, scale=scale, exponent=0),
}
SOURCES = {"system": SystemNoise, "seeded": lambda: SeededNoise(20)}
LARGEST = sys.float_info.max
TINY = 1e-30  # so small a scale that, but for a chance below exp(-1e30), the noise is 0

each_sampler = pytest.mark.parametrize("sample", SAMPLERS.values(), ids=SAMPLERS)
each_source = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)


# What is refused


@each_source
@each_sampler
@pytest.mark.parametrize(
    "scale",
    [0, 0.0, -1, -1e-300, math.nan, math.inf, -math.inf, "1", True, None, 1j, [1.0], np.bool_(True), 10**400],
    ids=str,
)
def test_scale_must_be_a_finite_number_above_zero(source, sample, scale):
    with pytest.raises(InvalidParameter, match=r"^scale must be a number above 0 and finite, not .*; write .*\.$"):
        sample(source(), [1, 2], scale)


@pytest.mark.parametrize(
    ("scale", "double"),
    [(7, 7.0), (0.25, 0.25), (np.float64(3.5), 3.5), (np.float32(0.1), float(np.float32(0.1))), (np.int64(7), 7.0)],
    ids=repr,
)
def test_scale_that_is_a_double_is_kept(scale, double):
    checked = check_scale(scale)
    assert type(checked) is float
    assert checked == double


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2, 3), 2**60 + 1, 2**60 - 1, Fraction(1, 10**400)])
def test_scale_between_two_doubles_takes_the_upper_one(scale):
    checked = check_scale(scale)
    assert math.nextafter(checked, 0) < scale < checked


@each_source
@pytest.mark.parametrize("exponent", [-1075, 1024, 0.0, 1.5, "0", True, None, math.nan], ids=repr)
def test_exponent_must_be_that_of_a_double(source, exponent):
    with pytest.raises(InvalidParameter, match="exponent must be a whole number from -1074 to 1023"):
        source().lattice_gaussian([0.0], scale=1.0, exponent=exponent)


@each_source
@pytest.mark.parametrize("count", [-1, 1.0, "1", True, None], ids=repr)
def test_count_of_bytes_must_be_a_whole_number(source, count):
    with pytest.raises(InvalidParameter, match="count must be a whole number of at least 0"):
        source().random_bytes(count)


@each_source
@each_sampler
@pytest.mark.parametrize("values", [["8675309"], [1, None], "8675309", 8675309, [[8675309]], [8675309 + 1j]], ids=repr)
def test_value_of_the_wrong_type_is_refused_and_not_shown(source, sample, values):
    with pytest.raises(InvalidParameter, match="values must be a sequence of") as caught:
        sample(source(), values, 1.0)
    assert "8675309" not in f"{caught.value} {caught.value!r} {vars(caught.value)}"


@each_source
@pytest.mark.parametrize("method", ["discrete_laplace", "discrete_gaussian", "rounded_gaussian"])
def test_integer_noise_refuses_fractions_and_does_not_show_them(source, method):
    with pytest.raises(InvalidParameter, match="sequence of integers, not <class 'float'>") as caught:
        getattr(source(), method)([8675309.25], scale=1.0)
    assert "8675309" not in f"{caught.value} {caught.value!r} {vars(caught.value)}"


def test_failure_inside_a_sampler_is_replaced_without_a_trace():
    def broken(values):
        raise ValueError(f"{values} is not representable")

    with pytest.raises(NoiseUnavailable, match="no noise could be drawn") as caught:
        _draw(broken, [8675309])
    assert "8675309" not in f"{caught.value} {caught.value!r} {vars(caught.value)}"
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


# What never fails: any value, at any scale


@each_source
@pytest.mark.parametrize("method", ["discrete_laplace", "discrete_gaussian", "rounded_gaussian"])
def test_integers_are_clipped_to_64_bits(source, method):
    draw = getattr(source(), method)
    ends = [-(2**63), 2**63 - 1]
    assert draw([-(2**63), 2**63 - 1, -(10**30), 10**30], scale=TINY) == ends * 2
    assert draw(np.array([-3, 0, 4]), scale=TINY) == [-3, 0, 4]
    saturated = draw(ends * 50, scale=9.0)  # all on one side: a chance of 1e-15
    assert min(saturated) == ends[0]
    assert max(saturated) == ends[1]


@pytest.mark.parametrize("scale", [5e-324, 1e-30, 1e30, LARGEST])
@each_sampler
def test_extreme_scales_are_drawn(sample, scale):
    noisy = sample(SystemNoise(), [0] * 40, scale)
    assert all(value == 0 for value in noisy) == (scale < 1)
    assert {value > 0 for value in noisy} == ({False} if scale < 1 else {False, True})
    assert all(abs(value) <= LARGEST for value in noisy)


@each_source
@each_sampler
def test_no_values_get_no_noise(source, sample):
    assert sample(source(), [], 1.0) == []


@each_source
def test_lattice_rounds_halves_up(source):
    values = [0.3, 0.125, -0.125, 0.375, -0.375, 5.0, 7]
    expected = [0.25, 0.25, 0.0, 0.5, -0.25, 5.0, 7.0]
    assert source().lattice_gaussian(values, scale=TINY, exponent=-2) == expected


@each_source
def test_lattice_clips_to_the_finite_doubles(source):
    values = [math.inf, -math.inf, math.nan, 10**400, -(10**400), LARGEST]
    expected = [LARGEST, -LARGEST, 0.0, LARGEST, -LARGEST, LARGEST]
    assert source().lattice_gaussian(values, scale=TINY, exponent=0) == expected
    # At this exponent the lattice point nearest to the largest double is 2^1024, which no double holds.
    assert source().lattice_gaussian([LARGEST, -LARGEST], scale=TINY, exponent=1023) == [LARGEST, -LARGEST]


@each_source
@pytest.mark.parametrize("exponent", [-1074, -40, 0, 3, 1023])
def test_lattice_noise_stays_on_the_lattice(source, exponent):
    noisy = source().lattice_gaussian([0.1, 1e3, -7.7], scale=2.0, exponent=exponent)
    assert all((Fraction(value) / Fraction(2) ** exponent).denominator == 1 for value in noisy)


@each_source
def test_bytes_have_the_length_asked_and_differ(source):
    noise = source()
    first, second = noise.random_bytes(32), noise.random_bytes(32)
    assert (len(first), len(second), noise.random_bytes(0)) == (32, 32, b"")
    assert first != second


# The seam


@pytest.mark.parametrize("implementation", [SystemNoise, SeededNoise])
def test_implementation_has_the_signatures_of_the_protocol(implementation):
    methods = {
        name: method for name, method in vars(NoiseSource).items() if inspect.isfunction(method) and name[0] != "_"
    }
    assert set(methods) == {*SAMPLERS, "stream", "random_bytes"}
    for name, method in methods.items():
        assert inspect.signature(getattr(implementation, name)) == inspect.signature(method)
        assert getattr(implementation, name) is not method


def test_no_signature_of_the_package_takes_a_seed():
    from vestry.noise.secure_generator import Stream

    functions = [
        SystemNoise,
        Stream,
        *(getattr(SystemNoise, name) for name in vars(SystemNoise) if not name.startswith("_")),
    ]
    names = {name for function in functions for name in inspect.signature(function).parameters}
    assert names == {"self", "values", "scale", "exponent", "count"}
    with pytest.raises(TypeError, match="takes no arguments"):
        SystemNoise(1)
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        Stream(1)


def test_seeded_noise_repeats_and_system_noise_does_not():
    def everything(noise):
        drawn = [sample(noise, [0] * 20, 1e6) for sample in SAMPLERS.values()]
        return drawn, noise.stream().integers(2**60, size=4).tolist(), noise.random_bytes(16)

    assert everything(SeededNoise(3)) == everything(SeededNoise(3))
    for first, second in zip(everything(SystemNoise()), everything(SystemNoise()), strict=True):
        assert first != second


def test_package_exports_the_seam_and_its_one_implementation():
    assert vestry.noise.__all__ == ["NoiseSource", "SystemNoise"]


def test_import_leaves_the_heavy_libraries_alone():
    heavy = ["opendp", "randomgen", "scipy", "numpy"]
    check = f"import sys, vestry.noise; print([name for name in {heavy} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


# What is hidden


def hidden_objects():
    return {"noise": SystemNoise(), "stream": SystemNoise().stream()}


@pytest.mark.parametrize("name", ["noise", "stream"])
@pytest.mark.parametrize(
    "attempt",
    [
        *(
            lambda thing, protocol=protocol: pickle.dumps(thing, protocol)
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
        ),
        copy.copy,
        copy.deepcopy,
        lambda thing: thing.__reduce__(),
        lambda thing: copy.deepcopy({"inside": [thing]}),
    ],
)
def test_neither_pickled_nor_copied(name, attempt):
    with pytest.raises(NoiseNotReproducible, match="cannot be copied or pickled") as caught:
        attempt(hidden_objects()[name])
    assert isinstance(caught.value, VestryError)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("attempt", "refused"),
    [
        (lambda stream: stream.bit_generator, "opened at its bit generator"),
        (lambda stream: stream._bit_generator, "opened at its bit generator"),
        (lambda stream: stream.spawn(2), "spawned"),
        (lambda stream: stream.__getstate__(), "copied or pickled"),
        (lambda stream: stream.__setstate__(np.random.PCG64(1)), "given a state"),
    ],
)
def test_stream_keeps_its_state_to_itself(attempt, refused):
    with pytest.raises(NoiseNotReproducible, match=f"a noise stream cannot be {refused}: [^.]*\\.$"):
        attempt(SystemNoise().stream())


def test_repr_and_str_show_no_state():
    assert {repr(SystemNoise()), str(SystemNoise())} == {"SystemNoise()"}
    stream = SystemNoise().stream()
    assert {repr(stream), str(stream), f"{stream}"} == {"Stream()"}
    for thing in (SystemNoise(), stream):
        assert not hasattr(thing, "__dict__")


def test_stream_is_a_numpy_generator():
    stream = SystemNoise().stream()
    assert np.random.default_rng(stream) is stream
    assert stream.permutation(5).sum() == 10


def test_bulk_bits_are_aes():
    # FIPS 197, appendix C.1: the block of this plaintext under this key. Counter and key are little-endian.
    key = int.from_bytes(bytes(range(16)), "little")
    plaintext = int.from_bytes(bytes.fromhex("00112233445566778899aabbccddeeff"), "little")
    block = AESCounter(key=key, counter=plaintext).random_raw(2).astype("<u8").tobytes()
    assert block.hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"


def test_stream_is_keyed_by_the_operating_system(monkeypatch):
    key = bytes(range(16))
    asked = []
    monkeypatch.setattr(os, "urandom", lambda count: asked.append(count) or key)
    stream = SystemNoise().stream()
    twin = np.random.Generator(AESCounter(key=int.from_bytes(key, "little")))
    assert asked == [16]
    assert stream.integers(2**63, size=8).tolist() == twin.integers(2**63, size=8).tolist()


# Forked processes

forking = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # of Python 3.12, where threads run


def in_parent_and_child(draw):
    """Fork, draw in both, and return both results."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, repr(draw()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    ours = repr(draw())
    with os.fdopen(reader) as pipe:
        theirs = pipe.read()
    os.waitpid(child, 0)
    return ours, theirs


@forking
def test_fork_repeats_an_ordinary_generator():
    stream = np.random.Generator(AESCounter(key=1))
    ours, theirs = in_parent_and_child(lambda: stream.integers(2**60, size=4).tolist())
    assert ours == theirs


@forking
@pytest.mark.parametrize("warm", [0, 1, 3])
def test_fork_gives_the_child_its_own_stream(warm):
    streams = [SystemNoise().stream() for _ in range(2)]
    for stream in streams:
        stream.integers(2**31, size=warm, dtype=np.uint32)  # an odd count leaves half a word in the buffer
    ours, theirs = in_parent_and_child(lambda: [s.integers(2**31, size=4, dtype=np.uint32).tolist() for s in streams])
    assert len(theirs) > 40
    assert not set(eval(ours)[0] + eval(ours)[1]) & set(eval(theirs)[0] + eval(theirs)[1])


@forking
@each_sampler
def test_fork_gives_the_child_its_own_noise(sample):
    noise = SystemNoise()
    sample(noise, [0], 1e15)
    ours, theirs = in_parent_and_child(lambda: sample(noise, [0] * 4, 1e15))
    assert len(eval(theirs)) == 4
    assert not set(eval(ours)) & set(eval(theirs))


@forking
@pytest.mark.parametrize("used", [0, 1, 60, 8 * BLOCK_BYTES])
def test_fork_gives_the_child_its_own_bits(used):
    several = [Bits(SystemNoise()) for _ in range(2)]
    for bits in several:
        bits.take(used)
    ours, theirs = in_parent_and_child(lambda: [bits.take(60) for bits in several for _ in range(4)])
    assert len(eval(theirs)) == 8
    assert not set(eval(ours)) & set(eval(theirs))


@forking
def test_fork_gives_the_child_its_own_exact_draws():
    bits = Bits(SystemNoise())
    exact_sampling.normal(bits, 0.0, 1.0, grid=2.0**-60)
    ours, theirs = in_parent_and_child(lambda: exact_sampling.normal(bits, 0.0, 1.0, grid=2.0**-60, size=4))
    assert not set(eval(ours)) & set(eval(theirs))


@forking
def test_fork_ends_a_child_that_cannot_take_a_key(monkeypatch, capfd):
    stream = SystemNoise().stream()

    def no_entropy(count):
        raise OSError("no entropy")

    monkeypatch.setattr(os, "urandom", no_entropy)
    child = os.fork()
    if child == 0:
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert "could not take new noise keys" in capfd.readouterr().err
    assert stream.integers(2) in (0, 1)


def test_a_stream_no_longer_used_is_forgotten():
    from vestry.noise.after_fork import _LIVE

    stream = SystemNoise().stream()
    assert stream in _LIVE
    before = len(_LIVE)
    del stream
    assert len(_LIVE) == before - 1
