"""Draw the pictures of docs/mechanisms: one command, from the code itself."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "docs" / "mechanisms"
BETA = ["--family", "beta-bernoulli", "--prior", "6,12", "--n", "100"]
PICTURES = {
    "laplace": ["--family", "beta-bernoulli", "--n", "100", "--at", "10"],
    "gaussian": ["--family", "beta-bernoulli", "--n", "100", "--at", "10"],
    "direct": BETA,
    "diffused": [*BETA, "--guarantee", "epsilon=1,delta=1e-5"],
    "concentrated": [*BETA, "--guarantee", "epsilon=1,delta=1e-5"],
    "ops": [*BETA, "--truncation", "0.2", "--guarantee", "epsilon=1"],
}


def main() -> None:
    """Run `vestry curve --plot` for each mechanism."""
    vestry = Path(sys.executable).parent / "vestry"
    for name, options in PICTURES.items():
        subprocess.run([vestry, "curve", name, *options, "--plot", FOLDER / f"{name}.png", "--json"],
                       check=True, stdout=subprocess.DEVNULL)  # fmt: skip
        print(FOLDER / f"{name}.png")


if __name__ == "__main__":
    main()
