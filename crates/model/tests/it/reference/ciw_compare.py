"""The simulator against ciw, an independent one: what it finds, and how fast.

    pip install ciw
    cargo build --profile dist -p tamarisk-model --example speed
    python3 crates/model/tests/it/reference/ciw_compare.py [--write]

Prints the events a second of both on one core, and ciw's mean waits with 99.9 %
confidence intervals over ten runs; --write puts the latter into ciw.json, which the
test `mean_waits_agree_with_the_independent_simulators` holds the simulator to.
The scenarios are those of that test and, ten times as fast, of the example.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import ciw

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[3]
RUNS = 10
# Student's t for a central share of 0.999 and nine degrees of freedom.
T_OF_NINE = 4.781
WARM_UP_SECONDS, MEASURED_SECONDS = 10, 60


def exponential(rate):
    return ciw.dists.Exponential(rate=rate)


SCENARIOS = {
    "M/M/1": dict(
        arrival_distributions=[exponential(700.0)],
        service_distributions=[exponential(1000.0)],
        number_of_servers=[1],
    ),
    "three stages": dict(
        arrival_distributions=[exponential(420.0), None, None],
        service_distributions=[exponential(1000.0), exponential(500.0), exponential(1000.0)],
        number_of_servers=[1, 2, 1],
        routing=[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.3, 0.0, 0.0]],
    ),
}
# The example's names of the same networks.
EXAMPLES = {"M/M/1": "M/M/1 at 0.7", "three stages": "three stages"}


def run(parameters, seed):
    """The mean wait at each stage, and the events a second of processor time."""
    ciw.seed(seed)
    simulation = ciw.Simulation(ciw.create_network(**parameters))
    began = time.process_time()
    end = WARM_UP_SECONDS + MEASURED_SECONDS
    simulation.simulate_until_max_time(end)
    took = time.process_time() - began
    records = simulation.get_all_records()
    waits = [[] for _ in parameters["number_of_servers"]]
    for record in records:
        if record.service_start_date >= WARM_UP_SECONDS:
            waits[record.node - 1].append(record.waiting_time)
    return [statistics.fmean(wait) for wait in waits], 2 * len(records) / took


def estimate(values):
    half_width = T_OF_NINE * statistics.stdev(values) / len(values) ** 0.5
    return {"mean_seconds": statistics.fmean(values), "half_width_seconds": half_width}


def ours(name):
    """The median, least and greatest million events a second that the example prints."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    speed = target / "dist" / "examples" / "speed"
    text = subprocess.run([speed, EXAMPLES[name]], check=True, capture_output=True, text=True)
    numbers = text.stdout.splitlines()[1].removeprefix(EXAMPLES[name]).split()
    return float(numbers[0]), text.stdout.splitlines()[1].split("[")[1].rstrip("]")


def main():
    found = {}
    for name, parameters in SCENARIOS.items():
        runs = [run(parameters, seed) for seed in range(1, RUNS + 1)]
        found[name] = {"waits": [estimate(waits) for waits in zip(*(means for means, _ in runs))]}
        speeds = sorted(speed for _, speed in runs)
        theirs = statistics.median(speeds)
        median, spread = ours(name)
        print(f"{name}: {median} M events/s [{spread}]; ciw {theirs / 1e6:.4f} M")
        print(f"  [{speeds[0] / 1e6:.4f} to {speeds[-1] / 1e6:.4f}]: {median * 1e6 / theirs:.0f} times")
        for wait in found[name]["waits"]:
            print(f"  ciw waits {wait['mean_seconds']:.6f} s ± {wait['half_width_seconds']:.6f}")
    if "--write" in sys.argv[1:]:
        reference = {"package": f"ciw {ciw.__version__}", "confidence": 0.999, "scenarios": found}
        (HERE / "ciw.json").write_text(json.dumps(reference, indent=2) + "\n")


if __name__ == "__main__":
    main()
