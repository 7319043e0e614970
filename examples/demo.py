"""The main job, with the commands a user would type: a table, a study, four releases, a refusal and a report."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path("demo-output")
HERE = Path(__file__).parent
STORY = [
    ("A hospital fixes what may ever be spent on its patients' records.", 0,
     "ledger create patients.ledger --dataset patients --unit person=patient_id,rows=3 --neighbours add-remove"
     " --budget epsilon=2,delta=1e-6"),
    ("The study file says what each column may contain and what is asked. What would it cost?", 0, "check study.toml"),
    ("What would each mechanism give? Nothing is spent and no record is read.", 0, "plan study.toml readmission stay"),
    ("Four releases: by ward, a mean, a histogram, and three posterior draws.", 0,
     "release study.toml readmission stay type infection --yes"),
    ("A fifth does not fit the budget, and is refused (exit code 3).", 3, "release study.toml everything --yes"),
    ("Anyone can check that no line of the ledger was changed.", 0, "ledger verify patients.ledger"),
    ("Another interval of an old release costs nothing.", 0, "posterior readmission/release.json --prob 0.5"),
]  # fmt: skip


def main() -> None:
    """Run each command of the story and check its exit code."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    print("A fictional hospital.")
    run([sys.executable, str((HERE / "hospital.py").absolute()), "patients.parquet"], 0)
    shutil.copy(HERE / "study.toml", FOLDER / "study.toml")
    vestry = Path(sys.executable).parent.absolute() / "vestry"
    for sentence, expected, command in STORY:
        print(f"\n{sentence}\n  $ vestry {command}", flush=True)
        run([str(vestry), *shlex.split(command)], expected)
    print(f"\nThe report is {(FOLDER / 'report.html').absolute()}")


def run(command: list[str], expected: int) -> None:
    """Run a command in the demo's folder and show what it prints."""
    done = subprocess.run(
        command, cwd=FOLDER, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )  # fmt: skip
    print("".join(f"    {line}\n" for line in done.stdout.splitlines()), end="")
    if done.returncode != expected:
        sys.exit(f"the demo expected exit code {expected} and got {done.returncode}")


if __name__ == "__main__":
    main()
