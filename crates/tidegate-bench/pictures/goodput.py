#!/usr/bin/env python3
"""Simulates and draws goodput by class over the offered load, of the same service without Tidegate and with Tidegate.

    cargo build --release -p tidegate-lab
    python3 crates/tidegate-bench/pictures/goodput.py measure target/release/lab docs/pictures/data/goodput.json   # ten seconds
    python3 crates/tidegate-bench/pictures/goodput.py draw docs/pictures/data/goodput.json docs/pictures/goodput.svg

The service has 10 workers and exponential service times of 10 ms, so a capacity of 1 000 requests a second. Clients are an open loop and leave
after 500 ms. The class `critical` asks for 300 requests a second at every load that is high enough; the two lower classes ask for the rest in
equal parts. Each figure is the median of five seeds. Time is simulated, so every machine gets the same figures.
"""

import json
import subprocess
import sys

import chart

WORKERS, SERVICE_MS, DEADLINE_MS, SECONDS, SEEDS = 10, 10, 500, 30, 5
CAPACITY = 1000 * WORKERS // SERVICE_MS
CRITICAL = 300
LOADS = [0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4, 5, 6, 7, 8]
# A class, its tenants, and its colour.
CLASSES = [("critical", 100, "f1"), ("sheddable_plus", 1000, "f3"), ("sheddable", 1000, "f2")]
DESIGNS = [("none", "Without Tidegate"), ("tidegate", f"With Tidegate, concurrency: {WORKERS}")]


def offered(load):
    """Requests a second of each class."""
    rest = load * CAPACITY - CRITICAL
    return [CRITICAL, rest / 2, rest / 2]


def scenario(load):
    clients = [{"name": name, "class": name, "rate": rate, "tenants": tenants, "deadline_ms": DEADLINE_MS}
               for (name, tenants, _), rate in zip(CLASSES, offered(load))]
    service = {"name": "app", "workers": WORKERS, "mean_ms": SERVICE_MS}
    return json.dumps({"seconds": SECONDS, "services": [service], "clients": clients})


def measure(lab, output):
    loads = []
    for load in LOADS:
        designs = ",".join(design for design, _ in DESIGNS)
        command = [lab, "overload", "--scenario", "-", "--design", designs, "--seeds", str(SEEDS), "--json"]
        answer = subprocess.run(command, input=scenario(load), capture_output=True, text=True, check=True).stdout
        rates, answered, p99_ms = offered(load), {}, {}
        for design in json.loads(answer)["variants"][0]["designs"]:
            answered[design["design"]] = [round(rate * client["success"], 1) for rate, client in zip(rates, design["clients"])]
            p99_ms[design["design"]] = [client["p99_ms"] if client["success"] else None for client in design["clients"]]
        print(f"{load:g}x: {answered} {p99_ms}", file=sys.stderr)
        loads.append({"load": load, "offered": rates, "answered": answered, "p99_ms": p99_ms})
    report = {"capacity": CAPACITY, "classes": [name for name, *_ in CLASSES], "seeds": SEEDS, "seconds": SECONDS, "loads": loads}
    with open(output, "w") as file:
        file.write(json.dumps(report, separators=(",", ":")) + "\n")


WIDTH, LEFT, TOP, HEIGHT, BETWEEN = 940, 56, 88, 220, 64
HIGHEST = 1200


def draw(report):
    width = (WIDTH - LEFT - 24 - BETWEEN) / 2
    loads = report["loads"]
    out = chart.legend(LEFT, 24, [(kind, name) for name, _, kind in CLASSES])
    for column, (design, title) in enumerate(DESIGNS):
        panel = chart.Panel(LEFT + column * (width + BETWEEN), TOP, width, HEIGHT, loads[-1]["load"], HIGHEST)
        out.append(chart.text(panel.left, TOP - 26, title, "b"))
        out.append(chart.text(panel.left, TOP - 9, f"requests answered within {DEADLINE_MS} ms, a second; dashed: the capacity", "s"))
        out += panel.axes(1, (0, 500, 1000))
        below = [(one["load"], 0) for one in loads]
        for place, (_, _, kind) in enumerate(CLASSES):
            above = [(one["load"], sum(one["answered"][design][:place + 1])) for one in loads]
            out.append(panel.between(below, above, kind))
            below = above
        if not any(below[-1][1:]):
            middle = panel.x(loads[-1]["load"] / 2 + 0.5)
            for line, words in enumerate(("Above the capacity the service works on requests", "whose clients have left: no answer is in time.")):
                out.append(chart.text(middle, panel.y(650) + 17 * line, words, "m"))
        y = panel.y(report["capacity"])
        out.append(f'<line class="limit" x1="{panel.left:.1f}" y1="{y:.1f}" x2="{panel.left + width:.1f}" y2="{y:.1f}"/>')
        out.append(chart.text(panel.left + width / 2, TOP + HEIGHT + 33, "offered load, in multiples of the capacity", "s m"))
    description = (
        f"Goodput by class over the offered load, 0.5 to 8 times the capacity of {report['capacity']} requests a second. Without Tidegate, "
        "goodput falls to nothing above the capacity, in every class. With Tidegate, all critical requests are answered in time at every "
        "load, and the lower classes divide the rest of the capacity.")
    return chart.document(WIDTH, TOP + HEIGHT + 48, "Goodput by class over the offered load", description, out)


if __name__ == "__main__":
    chart.carry_out(measure, draw)
