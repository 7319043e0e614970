"""What conversions and calibrations cost, against dp-accounting where it has the same one."""

import statistics
import time

from vestry.privacy.accountant import convert, epsilon, largest_parameter, smallest_parameter
from vestry.privacy.event import compose
from vestry.privacy.guarantee import ApproxDP, Guarantee
from vestry.privacy.pld import PLDAccountant
from vestry.privacy.pricing import event


def run(quick: bool = False) -> list[dict]:
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    target = ApproxDP(1, 1e-6)
    laplace = event("laplace", sensitivity=1, scale=20, count=50)
    gaussian = event("gaussian", sensitivity=1, scale=20, count=50)

    def peer_laplace() -> float:
        return RdpAccountant().compose(dp_accounting.LaplaceDpEvent(20), 50).get_epsilon(1e-6)

    def peer_calibration() -> float:
        return dp_accounting.calibrate_dp_mechanism(
            RdpAccountant, lambda x: dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(x), 50), 1, 1e-6
        )

    repeats = 5 if quick else 20
    ours = {
        "convert mu=0.5 to delta=1e-5": (lambda: convert(Guarantee.parse("mu=0.5"), ApproxDP(1, 1e-5)), None, None),
        "50 Laplace to (epsilon, delta)": (
            lambda: epsilon(laplace, 1e-6),
            peer_laplace,
            "dp-accounting, RDP accountant",
        ),
        "calibrate 50 Gaussians to (1, 1e-6)": (
            lambda: smallest_parameter(lambda s: event("gaussian", sensitivity=1, scale=s, count=50), target),
            peer_calibration,
            "dp-accounting, RDP accountant",
        ),
        "calibrate 50 exponential draws to (1, 1e-6)": (
            lambda: largest_parameter(lambda e: event("exponential", epsilon=e, count=50), target),
            None,
            None,
        ),
        "batch of 50 Laplace and 50 Gaussian by PLD": (
            lambda: PLDAccountant(compose(laplace, gaussian)).epsilon(1e-6),
            None,
            None,
        ),
    }
    rows = []
    for name, (action, peer, peer_name) in ours.items():
        seconds = median(action, repeats)
        ratio = seconds / median(peer, repeats) if peer else None
        rows.append({"name": name, "value": 1e3 * seconds, "unit": "ms", "ratio": ratio, "peer": peer_name})
    return rows


def median(action, repeats: int) -> float:
    action()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
