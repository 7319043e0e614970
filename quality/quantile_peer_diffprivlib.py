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
        found[name] = []
        for _ in range(runs):
            try:
                answer = quantile(values, quantiles, epsilon=epsilon, bounds=tuple(bounds))
            except RuntimeError:  # its probabilities are not numbers where epsilon x records is large
                continue
            found[name].append(np.atleast_1d(answer).tolist())
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]))
