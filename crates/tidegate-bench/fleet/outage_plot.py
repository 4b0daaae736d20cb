#!/usr/bin/env python3
"""Draws the runs of `outage.py`: first attempts by the second, admitted and refused, with what happened meanwhile.

    python3 crates/tidegate-bench/fleet/outage_plot.py outage.json outage.svg
"""

import json
import sys

WIDTH, LEFT, GAP, TOP, HEIGHT, ROW = 1200, 34, 38, 108, 64, 122
PANEL = (WIDTH - LEFT - 3 * GAP - 12) / 4
SHADE, INK, FAINT = "#d9d4c5", "#222222", "#888888"
# Stacked from the bottom up; attempts without an answer are drawn with the last one.
LAYERS = [("admitted", "#9ecae1", "admitted"), ("rate_exceeded", "#c0392b", "refused: rate_exceeded"),
          ("store_unavailable", "#f0a030", "refused: store_unavailable"), ("other", "#444444", "no answer, or another")]
GROUPS = [
    ("slow sticky", "4/m of 5/m, one daemon each"), ("slow drawn", "4/m of 5/m, any daemon"),
    ("fast sticky", "8/s of 10/s, one daemon each"), ("fast drawn", "8/s of 10/s, any daemon"),
]
BEGINS, ENDS = ("kill_store", "pause_store", "wipe_store"), ("start_store", "resume_store")


def text(x, y, words, size=12, anchor="start", colour=INK, more=""):
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{more}>{words}</text>'


def steps_path(values):
    """The area below a series, a step a second, in seconds and in units of the series."""
    path, level = "M0,0", 0
    run = 0
    for value in [*values, 0]:
        if value != level:
            path += (f"h{run}" if run else "") + f"V{value}"
            level, run = value, 0
        run += 1
    return path + (f"h{run - 1}" if run > 1 else "") + "Z"


def round_up(value):
    """The next of 1, 2, 5 times a power of ten."""
    step = 1
    while True:
        for times in (1, 2, 5):
            if value <= step * times:
                return step * times
        step *= 10


def panel(run, group, left, top):
    """One run and one group of callers."""
    series, seconds = dict(run["series"][group]["first"]), run["seconds"]
    series["other"] = [one + other for one, other in zip(series["other"], series.pop("no_answer"))]
    highest = round_up(1.05 * max(1, *(sum(counts) for counts in zip(*series.values()))))

    def x_of(second):
        return left + PANEL * second / seconds

    def y_of(value):
        return top + HEIGHT * (1 - value / highest)

    steps = dict(run["steps"])
    out = []
    begin = next((at for name, at in run["steps"] if name in BEGINS), None)
    if begin is not None:
        end = next((at for name, at in run["steps"] if name in ENDS), begin)
        width = max(3.0, x_of(end) - x_of(begin))
        out.append(f'<rect x="{x_of(begin):.1f}" y="{top}" width="{width:.1f}" height="{HEIGHT}" fill="{SHADE}"/>')
    # Drawn from the top of the stack down, so that each layer needs its upper edge only.
    scale = f"translate({left:.1f},{top + HEIGHT}) scale({PANEL / seconds:.4f},{-HEIGHT / highest:.4f})"
    for depth in range(len(LAYERS), 0, -1):
        stack = [series[answer] for answer, _, _ in LAYERS[:depth]]
        if any(stack[-1]):
            edge = [sum(counts) for counts in zip(*stack)]
            out.append(f'<path transform="{scale}" d="{steps_path(edge)}" fill="{LAYERS[depth - 1][1]}"/>')
    for name, mark in (("kill_member", "−"), ("start_member", "+")):
        if name in steps:
            x = x_of(steps[name])
            out.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{top + HEIGHT}" stroke="{INK}" stroke-dasharray="2 3"/>')
            anchor = "end" if name == "kill_member" else "start"
            out.append(text(x, top - 3, mark, 12, anchor))
    for value in (0, highest // 2, highest):
        out.append(text(left - 5, y_of(value) + 4, str(value), 10, "end", FAINT))
    for second in range(0, seconds + 1, 40):
        x = x_of(second)
        out.append(f'<line x1="{x:.1f}" y1="{top + HEIGHT}" x2="{x:.1f}" y2="{top + HEIGHT + 3}" stroke="{FAINT}"/>')
        out.append(text(x, top + HEIGHT + 14, str(second), 10, "middle", FAINT))
    out.append(f'<rect x="{left}" y="{top}" width="{PANEL:.1f}" height="{HEIGHT}" fill="none" stroke="{FAINT}"/>')
    return out


def draw(runs):
    """All runs, one below the other; a column for each group of callers."""
    height = TOP + ROW * len(runs) + 8
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="Helvetica, Arial, sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    x = LEFT
    for _, colour, words in [*LAYERS, (None, SHADE, "store away or wiped")]:
        out.append(f'<rect x="{x}" y="10" width="14" height="12" fill="{colour}" stroke="{FAINT}" stroke-width="0.5"/>')
        out.append(text(x + 20, 20, words))
        x += 44 + 6.6 * len(words)
    out.append(text(LEFT, 40, "First attempts in each second.  − a member killed, + a member started.  In per cent: first attempts admitted."))
    for column, (_, words) in enumerate(GROUPS):
        out.append(text(LEFT + column * (PANEL + GAP), 64, words, 12, more=' font-weight="bold"'))
    for row, run in enumerate(runs):
        top = TOP + ROW * row
        out.append(text(LEFT, top - 17, run["title"], 12))
        for column, (group, _) in enumerate(GROUPS):
            left = LEFT + column * (PANEL + GAP)
            out.append(text(left, top - 3, f"{100 * run['admitted'][group]:.1f} %", 11))
            out += panel(run, group, left, top)
    return "\n".join([*out, "</svg>"]) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        runs = [json.loads(line) for line in file if line.strip()]
    with open(sys.argv[2], "w") as file:
        file.write(draw([run for run in runs if run.get("part") == "outage"]))
