"""Draws the probability that FedCT's consensus changes after a round, and Proposition 1's bound on it.

python docs/convergence.py                      into convergence.svg, as the paper's Figure 5: |U| = 10,000
python docs/convergence.py --points 1 --out FILE

Needs matplotlib, the extra `plots`.
"""

import argparse
from pathlib import Path

from tacit.protocols.privacy.convergence import bound, probabilities

CLIENTS = (5, 10, 50, 100)
RATES = (1.0, 2.0, 10.0)
FIRST, LAST = 20, 50_000
HORIZON = 500_000
"""The last round that the probability counts; later ones would not change the picture visibly."""


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Draw Proposition 1.")
    parser.add_argument("--points", type=int, default=10_000, help="public points, |U|")
    parser.add_argument("--out", type=Path, default=Path("convergence.svg"))
    return parser.parse_args()


def main() -> None:
    """Draw the picture, and print a table for t0 = 1000."""
    options = arguments()
    try:
        from matplotlib import rcParams
        from matplotlib.figure import Figure
    except ImportError:
        raise SystemExit("a plot needs matplotlib: pip install 'tacit-fl[plots]'") from None
    rcParams["svg.hashsalt"] = "tacit"  # the same picture has the same bytes
    rounds = [round(FIRST * (LAST / FIRST) ** (i / 40)) for i in range(41)]
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    panels = figure.subplots(1, len(RATES), sharey=True)
    for panel, rate in zip(panels, RATES, strict=True):
        for place, clients in enumerate(CLIENTS):
            bounds = [min(1.0, bound(options.points, clients, rate, t)) for t in rounds]
            exact = probabilities(options.points, clients, rate, rounds, HORIZON)
            panel.plot(rounds, bounds, color=f"C{place}", label=f"m = {clients}")
            panel.plot(rounds, exact, color=f"C{place}", linestyle=":")
        panel.set(xscale="log", xlabel="round $t_0$", title=f"c = {rate:g}")
    panels[0].set_ylabel(f"probability of a change, |U| = {options.points:,}")
    panels[0].legend(title="bound; dotted: exact", fontsize=8, title_fontsize=8)
    figure.savefig(options.out, metadata={"Date": None} if options.out.suffix == ".svg" else None)
    print("clients  c     bound at 1000   exact    (above 1 the bound says nothing)")
    for clients in CLIENTS:
        for rate in RATES:
            (exact,) = probabilities(options.points, clients, rate, [1000], HORIZON)
            print(f"{clients:7d}  {rate:<4g}  {bound(options.points, clients, rate, 1000):13.3g}   {exact:.3g}")
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
