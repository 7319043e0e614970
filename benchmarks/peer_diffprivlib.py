"""Test error and time of diffprivlib's logistic regression, in an environment with the scikit-learn that it needs.

Called by `estimators.py` with a file of arrays (train and test) and the norm of the rows; prints JSON.
"""

import json
import sys
import time
import warnings

import numpy as np


def main(path: str, norm: float, epsilon: float, runs: int) -> None:
    from diffprivlib.models import LogisticRegression

    warnings.simplefilter("ignore")
    data = np.load(path)
    errors, times = [], []
    for _ in range(runs):
        model = LogisticRegression(epsilon=epsilon, data_norm=norm, max_iter=1000)
        start = time.perf_counter()
        model.fit(data["x"], data["y"])
        times.append(time.perf_counter() - start)
        errors.append(float(np.mean(model.predict(data["test"]) != data["truth"])))
    spread = float(np.std(errors, ddof=1) / np.sqrt(runs)) if runs > 1 else 0.0
    print(json.dumps({"error": float(np.mean(errors)), "standard_error": spread, "seconds": float(np.median(times))}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
