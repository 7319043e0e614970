"""Mutation testing of the laws and the calibrations: one small fault at a time, which some quick test must notice.

    python quality/mutate.py --sample 40                       # of every file of TABLE, the same for the same seed
    python quality/mutate.py privacy/gibbs_cost.py                  # every mutant of one file

No file is changed. The tests are collected once and timed once, with the functions that each one calls; each mutant is
then a fork of that process whose functions get the mutated code. It meets the tests that call its function, the
likeliest killers first. The first failure kills it; so does the time limit. What cannot be patched in is imported anew.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import random
import signal
import sys
import time
import types
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from _pytest.main import pytest_runtestloop as run_loop
from mutant import Mutant, mark, numbered

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "vestry"
LAWS = "privacy/test_privacy_properties.py::test_"
PRIVACY = (
    *("privacy/test_privacy_oracle.py", "privacy/test_guarantee.py", f"{LAWS}conversions_by_their_formulas"),
    *(f"{LAWS}conversion_is_granted_or_refused_with_its_reason", f"{LAWS}calibration_is_capped"),
    *(f"{LAWS}calibration_to_a_tolerance_stays_on_the_private_side", "privacy/test_privacy_edges.py"),
)
CONJUGATE = (
    *("mechanisms/test_mechanisms.py", "test_extensions.py", "mechanisms/test_mechanism_properties.py"),
    *(
        "mechanisms/test_mechanism_twins.py",
        "mechanisms/test_layout_sensitivity.py",
        "conjugate/test_count_sensitivity.py",
    ),
    *("mechanisms/test_grouped_draws.py", "conjugate/test_gamma_oracle.py", "mechanisms/test_mechanism_edges.py"),
    *("noise/test_cube.py", "data_quality/test_quality_sensitivity.py", "cli/test_calibrate.py"),
)
ACCURACY = "regression/test_langevin_accuracy.py::test_"
LINEAR = (
    *(
        "regression/test_regression_calibration.py",
        "privacy/test_gibbs_cost.py",
        "regression/test_certified_minimum.py",
    ),
    *(f"{ACCURACY}quadratics_are_as_near_as_stated", f"{ACCURACY}the_last_step_has_all_of_its_noise"),
    *(f"{ACCURACY}the_noise_on_top_of_a_minimum_has_its_scale", "privacy/test_objective_cost.py"),
    *(
        f"estimators/test_fit.py::test_the_rule_{x}"
        for x in ("gives_the_jacobian_a_quarter", "bounds_the_number_of_steps")
    ),
    "estimators/test_fit.py::test_the_rule_bounds_how_noise_on_coefficients_moves_a_predictor",
    *("regression/test_regression_model.py", "audit/test_regression_twins.py", "regression/test_langevin_kernel.py"),
)
# Which tests look at a file, under tests/.
TABLE = {
    "privacy/renyi.py": (*PRIVACY, "privacy/test_objective_cost.py"),
    "privacy/profile.py": (*PRIVACY, "privacy/test_objective_cost.py"),
    "privacy/pricing.py": (
        *(*PRIVACY, "privacy/test_gibbs_cost.py", "regression/test_regression_calibration.py"),
        *("privacy/test_discovery_cost.py", "privacy/test_events.py"),
    ),
    "privacy/gibbs_cost.py": (
        "privacy/test_gibbs_cost.py",
        "regression/test_regression_calibration.py",
        "regression/test_langevin_kernel.py",
        "privacy/test_privacy_edges.py",
    ),
    "privacy/objective_cost.py": (
        "privacy/test_privacy_edges.py",
        *LINEAR[:2],
        *PRIVACY,
        "privacy/test_objective_cost.py",
    ),
    "privacy/mcmc_cost.py": ("privacy/test_mcmc_cost.py", "privacy/test_privacy_edges.py"),
    "privacy/group.py": PRIVACY,
    "privacy/accountant.py": (*PRIVACY, "mechanisms/test_mechanisms.py"),
    "privacy/guarantee.py": PRIVACY,
    **{f"mechanisms/{name}.py": CONJUGATE
       for name in ("release", "additive_noise", "posterior_sample", "truncated_posterior")},
    **{f"regression/{name}.py": LINEAR
       for name in ("gibbs_calibration", "step_schedule", "langevin", "objective_perturbation",
                    "output_perturbation", "problem", "default_penalty")},
}  # fmt: skip
Tell = Callable[[Any], None]


def forked(work: Callable[[Tell], None], limit: float = 0) -> tuple[int, list[Any]]:
    """Run something in a child; return how it ended and what it told."""
    read, write = os.pipe()
    child = os.fork()

    def tell(told: Any) -> None:
        os.write(write, (json.dumps(told) + "\n").encode())

    if not child:
        signal.setitimer(signal.ITIMER_PROF, limit)
        try:
            work(tell)
            os._exit(0)
        except BaseException as fault:
            os.write(2, f"{fault!r}\n".encode())
            os._exit(3)
    os.close(write)
    with os.fdopen(read) as pipe:
        told = [json.loads(line) for line in pipe]
    return os.waitpid(child, 0)[1], told


class Timer:
    """Tells of each test how long it took, how it ended, and which functions of the files it called."""

    def __init__(self, tell: Tell, limit: float, files: Iterable[str]) -> None:
        self.tell, self.limit, self.called = tell, limit, dict[str, set[int]]()
        for name in files:
            mark(str(SOURCE / name), lambda path, line: self.called.setdefault(path, set()).add(line))

    def pytest_runtest_setup(self) -> None:
        """Start the clock."""
        self.called.clear()
        signal.signal(signal.SIGPROF, _too_slow)
        signal.setitimer(signal.ITIMER_PROF, self.limit)
        self.start = time.process_time()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Tell."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        if report.when == "call":
            called = {path.removeprefix(f"{SOURCE}/"): sorted(lines) for path, lines in self.called.items()}
            self.tell([report.nodeid, time.process_time() - self.start, report.outcome, called])


def _too_slow(*_: Any) -> None:
    raise TimeoutError


class Watch:
    """Tells the first failure and ends there; runs the tests that are named and no others."""

    def __init__(self, tell: Tell, only: list[str]) -> None:
        self.tell, self.only = tell, set(only)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leave out the others."""
        items[:] = [item for item in items if item.nodeid in self.only]

    def pytest_runtest_logreport(self, report: Any) -> None:
        """End at a failure."""
        if report.failed:
            self.tell(report.nodeid)
            os._exit(1)


class Renewed:
    """Imports one module from a mutated tree."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.name = ".".join(Path(mutant.path).relative_to(SOURCE.parent).with_suffix("").parts)

    def find_spec(self, name: str, *_: Any) -> Any:
        """Claim the module."""
        return importlib.util.spec_from_loader(name, self) if name == self.name else None  # type: ignore[arg-type]

    def create_module(self, _: Any) -> None:
        """Leave it to Python."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the mutated source."""
        exec(compile(self.mutant.tree, self.mutant.path, "exec"), module.__dict__)


class Campaign:
    """The mutants of one file, tried from inside a pytest that has collected the file's tests."""

    def __init__(self, name: str, given: argparse.Namespace, tell: Tell) -> None:
        self.name, self.given, self.tell, self.kills = name, given, tell, Counter[tuple[str, str]]()
        self.times = Path(given.times)
        self.times.parent.mkdir(parents=True, exist_ok=True)

    def pytest_runtestloop(self, session: Any) -> bool:
        """Time the tests that were not yet timed, then try every mutant."""
        for name in TABLE:  # a module that a test would import by itself could not be patched
            importlib.import_module("vestry." + name.removesuffix(".py").replace("/", "."))
        self.session = session
        known = json.loads(self.times.read_text()) if self.times.exists() else {}
        fresh = [item for item in session.items if item.nodeid not in known]
        _, told = forked(lambda tell: self.timed(fresh, tell))
        known |= {nodeid: (seconds, end, called) for nodeid, seconds, end, called in told}
        self.times.write_text(json.dumps(known))
        ends = {item.nodeid: known.get(item.nodeid, (0, "lost", {})) for item in session.items}
        self.tests = {
            x: (seconds, called[self.name])
            for x, (seconds, end, called) in ends.items()
            if end == "passed" and seconds < self.given.slowest and self.name in called
        }
        self.items = {item.nodeid: item for item in session.items if item.nodeid in self.tests}
        chosen = numbered((SOURCE / self.name).read_text())
        if 0 < self.given.sample < len(chosen):
            chosen = sorted(random.Random(self.given.seed).sample(chosen, self.given.sample))
        for number, which in chosen:
            mutant = Mutant(SOURCE / self.name, number, which)
            if not self.given.only or mutant.id in self.given.only:
                end = self.tried(mutant)
                self.tell(
                    {
                        "file": self.name,
                        "tests": len(self.tests),
                        "id": mutant.id,
                        "line": mutant.line,
                        "function": mutant.function,
                        "what": mutant.what,
                        "end": end,
                    }
                )
        return True

    def timed(self, items: list[Any], tell: Tell) -> None:
        """Run the tests on the code as it is."""
        timer, self.session.items = Timer(tell, 2 * self.given.slowest, TABLE), items
        self.session.config.pluginmanager.register(timer)
        run_loop(self.session)

    def tried(self, mutant: Mutant) -> str:
        """Return the test that kills a mutant, or `timeout`, or `survived`."""
        span = range(mutant.inside.lineno, mutant.inside.end_lineno + 1) if mutant.inside else range(10**6)
        mine = [x for x, (_, called) in self.tests.items() if any(line in span for line in called)]
        mine.sort(key=lambda x: (-self.kills[mutant.function, x], -self.kills["", x], self.tests[x][0]))
        if not mine:
            return "no test"
        room = self.given.patience
        limit = 4 + 2 * min(room, sum(self.tests[x][0] for x in mine))
        mine = [x for x in mine if (room := room - self.tests[x][0]) > 0]
        status, told = forked(lambda tell: self.run(mutant, mine, tell), limit)
        if told:
            self.kills[mutant.function, told[0]] += 1
            self.kills["", told[0]] += 1
            return str(told[0])
        return "survived" if not status else "timeout" if os.WIFSIGNALED(status) else "import"

    def run(self, mutant: Mutant, mine: list[str], tell: Tell) -> None:
        """Run the collected tests on patched functions; or import everything again from the mutated tree."""
        if mutant.patch():
            self.session.items = [self.items[x] for x in mine]
            self.session.config.pluginmanager.register(Watch(tell, mine))
            run_loop(self.session)
            return
        import_anew(mutant, mine, tell, ["-m", "not slow"])


def import_anew(mutant: Mutant, nodeids: list[str], tell: Tell, options: list[str]) -> None:
    """Import everything again from the mutated tree, run tests there, and end this process."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith((str(SOURCE), str(ROOT / "tests"))):
            del sys.modules[name]
    sys.meta_path.insert(0, Renewed(mutant))
    files = sorted({str(ROOT / nodeid.split("::")[0]) for nodeid in nodeids})
    os._exit(4 if pytest.main([*files, *OPTIONS, *options], plugins=[Watch(tell, nodeids)]) else 0)


OPTIONS = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", f"--rootdir={ROOT}", f"-c{ROOT / 'pyproject.toml'}"]
OPTIONS += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]


def campaign(name: str, given: argparse.Namespace, tell: Tell) -> None:
    """Try the mutants of one file; this process is used up afterwards."""
    from hypothesis import HealthCheck, Phase, settings

    # A failing example is enough: nothing is made smaller, nothing is remembered.
    calm: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutate", derandomize=True, max_examples=25, phases=phases, **calm)
    os.environ["HYPOTHESIS_PROFILE"] = "mutate"
    sys.path.insert(0, str(SOURCE.parent))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    pytest.main(
        [
            *(str(ROOT / "tests" / x) for x in TABLE[name] if (ROOT / "tests" / x.split("::")[0]).exists()),
            *OPTIONS,
            "-m",
            "not slow",
        ],
        plugins=[Campaign(name, given, tell)],
    )


def main() -> None:
    """Print the score of each file and every survivor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", default=list(TABLE), help="as in TABLE; all if none")
    parser.add_argument("--sample", type=int, default=0, help="so many mutants a file; all if 0")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], help="the ids of some mutants")
    parser.add_argument("--slowest", type=float, default=3.0, help="leave out tests that take more seconds than this")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds of tests for one mutant at most")
    parser.add_argument(
        "--times", default=str(ROOT / "build" / "test-times.json"), help="where the tests' times are kept"
    )
    parser.add_argument("--json", help="add every mutant and how it ended to this file")
    given = parser.parse_args()
    for name in given.files:
        _, tried = forked(lambda tell, name=name: campaign(name, given, tell))  # type: ignore[misc]
        left = [x for x in tried if x["end"] in ("survived", "no test")]
        share = 100 * (1 - len(left) / max(1, len(tried)))
        print(f"{name:32} {len(tried):4} mutants {len(left):4} survive {share:6.1f} %", flush=True)
        for x in left:
            print(f"    {x['id']} line {x['line']} {x['function']}: {x['what']}  [{x['end']}]", flush=True)
        if given.json:
            with Path(given.json).open("a") as file:
                file.writelines(json.dumps(x) + "\n" for x in tried)


if __name__ == "__main__":
    main()
