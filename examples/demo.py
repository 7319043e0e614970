"""Show a budget being created, charged, refused and verified, with the commands a user would type."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path("demo-output")
STORY = [
    ("A hospital fixes what may ever be spent on its patients' records.", 0,
     "ledger create patients.ledger --dataset patients --unit row --neighbours add-remove"
     " --budget epsilon=1,delta=1e-6"),
    ("Three analyses are paid for, each with pure epsilon 0.3.", 0,
     "ledger charge patients.ledger epsilon=0.3 --purpose 'readmissions by ward'"),
    ("", 0, "ledger charge patients.ledger epsilon=0.3 --purpose 'length of stay'"),
    ("", 0, "ledger charge patients.ledger epsilon=0.3 --purpose 'infections by month'"),
    ("A fourth does not fit, and is refused (exit code 3).", 3,
     "ledger charge patients.ledger epsilon=0.3 --purpose 'one more'"),
    ("What is left can still be spent.", 0,
     "ledger charge patients.ledger epsilon=0.1 --purpose 'age structure'"),
    ("Anyone can check that no line of the journal was changed.", 0, "ledger verify patients.ledger"),
    ("The ledger at a glance.", 0, "ledger show patients.ledger"),
    ("And what the budget means in another currency: the most Gaussian privacy that would keep it.", 0,
     "convert epsilon=1,delta=1e-6 --to mu --meet"),
]  # fmt: skip


def main() -> None:
    """Run each command of the story and check its exit code."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    vestry = Path(sys.executable).parent.absolute() / "vestry"
    for sentence, expected, command in STORY:
        if sentence:
            print(f"\n{sentence}")
        print(f"  $ vestry {command}", flush=True)
        done = subprocess.run([vestry, *shlex.split(command)], cwd=FOLDER, capture_output=True, text=True, check=False)
        print("".join(f"    {line}\n" for line in (done.stdout + done.stderr).splitlines()), end="")
        if done.returncode != expected:
            sys.exit(f"the demo expected exit code {expected} and got {done.returncode}")
    print(f"\nThe ledger is {FOLDER / 'patients.ledger'}.")
    print("The main job (a study from a table to a report) is not built yet; this demo will become it.")


if __name__ == "__main__":
    main()
