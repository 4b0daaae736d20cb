#!/usr/bin/env python3
"""Draws the runs of `tidegate-blackbox fleet outage`: first attempts by the second, admitted and refused, with what happened meanwhile.

    python3 crates/tidegate-bench/fleet/outage_plot.py docs/internals/data/fleet-outage.jsonl docs/internals/fleet-outage.svg
    python3 crates/tidegate-bench/fleet/outage_plot.py docs/internals/data/fleet-outage.jsonl docs/pictures/fleet-outage.svg --brief
"""

import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "pictures"))
import chart  # noqa: E402

# Stacked from the bottom up; attempts without an answer are drawn with the last one.
LAYERS = [("admitted", "ok", "admitted"), ("rate_exceeded", "no", "refused: rate_exceeded"),
          ("store_unavailable", "away", "refused: store_unavailable"), ("other", "odd", "no answer, or another")]
GROUPS = [
    ("slow sticky", "4/m of 5/m, one daemon each"), ("slow drawn", "4/m of 5/m, any daemon"),
    ("fast sticky", "8/s of 10/s, one daemon each"), ("fast drawn", "8/s of 10/s, any daemon"),
]
BRIEF_TITLES = ("Redis killed for 60 s", "FLUSHALL", "Redis restarted empty, 3 s")
BRIEF_GROUPS = ("slow drawn", "fast sticky", "fast drawn")
BEGINS, ENDS = ("kill_store", "pause_store", "wipe_store"), ("start_store", "resume_store")


def panel(run, group, left, top, width, height):
    """One run and one group of callers."""
    series, seconds = dict(run["series"][group]["first"]), run["seconds"]
    series["other"] = [one + other for one, other in zip(series["other"], series.pop("no_answer"))]
    highest = chart.round_up(1.05 * max(1, *(sum(counts) for counts in zip(*series.values()))))
    frame = chart.Panel(left, top, width, height, seconds, highest)
    steps = dict(run["steps"])
    out = []
    begin = next((at for name, at in run["steps"] if name in BEGINS), None)
    if begin is not None:
        out.append(frame.shade(begin, next((at for name, at in run["steps"] if name in ENDS), begin)))
    out += frame.stack([(series[answer], kind) for answer, kind, _ in LAYERS])
    for name, mark in (("kill_member", "−"), ("start_member", "+")):
        if name in steps:
            x = frame.x(steps[name])
            out.append(f'<line class="mark" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{top + height}"/>')
            out.append(chart.text(x, top - 3, mark, "e" if name == "kill_member" else ""))
    return out + frame.axes(40, (0, highest // 2, highest))


def draw(runs, is_brief=False):
    """All runs, one below the other; a column for each group of callers."""
    groups = [(group, words) for group, words in GROUPS if not is_brief or group in BRIEF_GROUPS]
    if is_brief:
        runs = [run for run in runs if run["title"] in BRIEF_TITLES]
    width, left, gap, top = (940 if is_brief else 1200), 38, 42, 112
    panel_width, panel_height = (width - left - (len(groups) - 1) * gap - 18) / len(groups), 84 if is_brief else 64
    row_height = panel_height + 58
    height = top + row_height * len(runs) - 24
    used = [(kind, words) for answer, kind, words in LAYERS
            if any(any(run["series"][group]["first"][answer]) for run in runs for group, _ in groups)]
    out = chart.legend(left, 22, [*used, ("shade", "store away or wiped")])
    out.append(chart.text(left, 44, "First attempts in each second.  − a member killed, + a member started.  In per cent: first attempts admitted, "
                          "but for users whose member was killed."))
    for column, (_, words) in enumerate(groups):
        out.append(chart.text(left + column * (panel_width + gap), 68, words, "b"))
    for row, run in enumerate(runs):
        y = top + row_height * row
        out.append(chart.text(left, y - 18, run["title"]))
        for column, (group, _) in enumerate(groups):
            x = left + column * (panel_width + gap)
            out.append(chart.text(x, y - 4, f"{100 * run['admitted'][group]:.1f} %", "s"))
            out += panel(run, group, x, y, panel_width, panel_height)
    description = (
        "For each run and each group of callers, the first attempts in each second. Callers within their limits are admitted while Redis "
        "is away; refusals are drawn on top.")
    return chart.document(width, height, "A fleet of ten daemons while Redis fails", description, out)


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        runs = [json.loads(line) for line in file if line.strip()]
    with open(sys.argv[2], "w") as file:
        file.write(draw([run for run in runs if run.get("part") == "outage"], "--brief" in sys.argv))
