#!/usr/bin/env python3
"""Draws the admissions of `tidegate-bench windows`: units in the last minute against the limit.

    cargo run --profile dist -p tidegate-bench --features rivals -- windows > docs/pictures/data/over-admission.json
    python3 crates/tidegate-bench/pictures/over_admission.py docs/pictures/data/over-admission.json docs/pictures/over-admission.svg
"""

import sys

import chart

# Limiters that admit the same are one line. Drawn in this order.
LINES = [
    ("l4", "f4", ["throttlecrab 0.4"], "throttlecrab 0.4: burst of 100; a key that returns gets two bursts"),
    ("l2", "f2", ["Tidegate rate", "governor 0.10"], "Tidegate rate, governor 0.10: burst of 100 (the same curve)"),
    ("l1", "f1", ["Tidegate rolling"], "Tidegate rolling: never over the limit"),
    ("l3 dashes", "f3", ["envoyproxy/ratelimit, simulated"], "envoyproxy/ratelimit: one counter for each minute (its algorithm, simulated)"),
]
WIDTH, LEFT, TOP, HEIGHT, GAP = 940, 56, 152, 170, 74


def shares(admitted, window, limit):
    """By the second, the units of the last window in per cent of the limit."""
    return [(second + 1, 100 * sum(admitted[max(0, second + 1 - window):second + 1]) / limit) for second in range(len(admitted))]


def draw(report):
    out, y = [], 22
    for _, kind, _, words in [*reversed(LINES[:-1]), LINES[-1]]:
        out += chart.legend(LEFT, y, [(kind, words)])
        y += 20
    out.append(chart.text(LEFT, y + 6, f"Units admitted in the last {report['window_s']} s, in per cent of a limit of {report['limit']} a minute; seconds", "s"))
    for row, caller in enumerate(report["callers"]):
        top = TOP + row * (HEIGHT + GAP)
        admitted = {limiter["name"]: limiter["admitted"] for limiter in caller["limiters"]}
        panel = chart.Panel(LEFT, top, WIDTH - LEFT - 24, HEIGHT, len(next(iter(admitted.values()))), 220)
        out.append(chart.text(LEFT, top - 10, f"A caller that sends {caller['name']}", "b"))
        out += panel.axes(60, (0, 50, 100, 150, 200), " %")
        out.append(f'<line class="limit" x1="{panel.left}" y1="{panel.y(100):.1f}" x2="{panel.left + panel.width}" y2="{panel.y(100):.1f}"/>')
        for line, _, names, _ in LINES:
            first, *others = [admitted[name] for name in names]
            for other in others:
                assert all(abs(one - two) <= 1 for one, two in zip(first, other)), f"{names} are not one line"
            out.append(panel.line(shares(first, report["window_s"], report["limit"]), line))
    height = TOP + len(report["callers"]) * (HEIGHT + GAP) - 30
    description = (
        "Two callers ask for more than 100 units a minute. In the last minute, a rolling limit of Tidegate admits at most 100 per cent of the "
        "limit. Buckets with a burst of 100 admit up to 199 per cent after a pause, and 116 per cent around the boundaries. throttlecrab admits 200 per cent to a key that returns. A counter for each minute admits "
        "200 per cent around each boundary.")
    return chart.document(WIDTH, height, "Admitted units against the limit", description, out)


if __name__ == "__main__":
    chart.redraw(draw, *sys.argv[1:])
