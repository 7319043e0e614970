"""diffprivlib's quantiles, in an environment with what it needs; called by `quantile_peers.py`, answers in JSON."""

import json
import sys
import warnings

import numpy as np


def main(runs: int) -> None:
    """Read what is asked, and print the answers of every run."""
    from diffprivlib.tools import quantile

    warnings.simplefilter("ignore")
    found = {}
    for name, (path, bounds, quantiles, epsilon) in json.load(sys.stdin).items():
        values = np.load(path)
        answers = [quantile(values, quantiles, epsilon=epsilon, bounds=tuple(bounds)) for _ in range(runs)]
        found[name] = [np.atleast_1d(each).tolist() for each in answers]
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]))
