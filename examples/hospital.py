"""Make up a hospital: one row an admission, written as Parquet. Nobody in it exists."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

WARDS = ("surgery", "medicine", "maternity", "paediatrics")
TYPES = ("emergency", "planned", "transfer")


def admissions(size: int = 8000, seed: int = 7) -> pa.Table:
    """Return a table of fictional admissions; most patients have one or two, some more than three."""
    rng = np.random.default_rng(seed)
    patients = max(1, size * 5 // 8)
    patient = rng.choice(patients, size, p=rng.dirichlet(np.full(patients, 4.0)))
    ward = rng.choice(4, size, p=[0.3, 0.4, 0.2, 0.1])
    type_ = rng.choice(3, size, p=[0.55, 0.38, 0.07])
    readmitted = rng.random(size) < np.array([0.14, 0.22, 0.05, 0.09])[ward]
    infection = rng.random(size) < np.array([0.06, 0.04, 0.02, 0.03])[ward]
    stay = np.minimum(rng.gamma(2.0, np.array([3.5, 4.5, 1.8, 2.2])[ward]), 90.0)
    gaps = rng.random(size) < 0.02
    return pa.table(
        {
            "patient_id": pa.array([f"P{number:06d}" for number in patient]),
            "ward": pa.array([None if gap else WARDS[each] for each, gap in zip(ward, gaps, strict=True)]),
            "type": pa.array([TYPES[each] for each in type_]),
            "readmitted": pa.array(np.where(readmitted, "yes", "no").tolist()),
            "infection": pa.array(np.where(infection, "yes", "no").tolist()),
            "stay_days": pa.array(np.round(stay, 1)),
        }
    )


def main() -> None:
    """Write the table to the path that is named."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "patients.parquet")
    parquet.write_table(admissions(), path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
