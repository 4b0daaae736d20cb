"""Parts of the charts in the documents: colours for a light and a dark page, text, axes and steps.

A chart is SVG without a script. Its style sheet has both sets of colours, and the page's colour scheme selects one.
"""

import json
import sys

STYLE = """
  svg { color-scheme: light dark }
  text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2328 }
  .b { font-weight: 600 } .s { font-size: 11px; fill: #59636e }
  .m { text-anchor: middle } .e { text-anchor: end }
  .paper { fill: #ffffff } .frame { fill: none; stroke: #818b98 } .grid { stroke: #d1d9e0 } .mark { stroke: #1f2328; stroke-dasharray: 2 3 }
  .limit { stroke: #1f2328; stroke-width: 1.5; stroke-dasharray: 6 4; fill: none }
  .shade { fill: #e6dfcc } .ok { fill: #54aeff } .no { fill: #cf222e } .away { fill: #d4a72c } .odd { fill: #59636e }
  .line { fill: none; stroke-width: 2 } .dashes { stroke-dasharray: 8 5 } .l1 { stroke: #0969da } .l2 { stroke: #bc4c00 } .l3 { stroke: #1a7f37 } .l4 { stroke: #8250df }
  .f1 { fill: #0969da } .f2 { fill: #bc4c00 } .f3 { fill: #1a7f37 } .f4 { fill: #8250df }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .s { fill: #9198a1 } .paper { fill: #0d1117 } .frame { stroke: #656c76 } .grid { stroke: #30363d }
    .mark, .limit { stroke: #f0f6fc } .shade { fill: #3d3622 } .ok { fill: #316dca } .no { fill: #ff7b72 } .away { fill: #e3b341 } .odd { fill: #b1bac4 }
    .l1 { stroke: #58a6ff } .l2 { stroke: #f0883e } .l3 { stroke: #3fb950 } .l4 { stroke: #bc8cff }
    .f1 { fill: #58a6ff } .f2 { fill: #f0883e } .f3 { fill: #3fb950 } .f4 { fill: #bc8cff }
  }
"""


def escaped(words):
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def text(x, y, words, kind=""):
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{kind}>{escaped(words)}</text>'


def document(width, height, title, description, parts):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        'aria-labelledby="t d">',
        f'<title id="t">{escaped(title)}</title>',
        f'<desc id="d">{escaped(description)}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
        *parts,
        "</svg>",
    ]) + "\n"


def round_up(value):
    """The next of 1, 2, 5 times a power of ten."""
    step = 1
    while True:
        for times in (1, 2, 5):
            if value <= step * times:
                return step * times
        step *= 10


class Panel:
    """A frame with a scale of seconds and one of values."""

    def __init__(self, left, top, width, height, seconds, highest):
        self.left, self.top, self.width, self.height = left, top, width, height
        self.seconds, self.highest = seconds, highest

    def x(self, second):
        return self.left + self.width * second / self.seconds

    def y(self, value):
        return self.top + self.height * (1 - value / self.highest)

    def axes(self, every, values, unit=""):
        """The frame, a number at each of `values`, and one at every so many seconds."""
        out = []
        for value in values:
            y = self.y(value)
            if 0 < value < self.highest:
                out.append(f'<line class="grid" x1="{self.left:.1f}" y1="{y:.1f}" x2="{self.left + self.width:.1f}" y2="{y:.1f}"/>')
            out.append(text(self.left - 6, y + 4, f"{value:g}{unit}", "s e"))
        for second in range(0, int(self.seconds) + 1, every):
            out.append(text(self.x(second), self.top + self.height + 15, str(second), "s m"))
        out.append(
            f'<rect class="frame" x="{self.left:.1f}" y="{self.top:.1f}" width="{self.width:.1f}" height="{self.height:.1f}"/>')
        return out

    def line(self, points, kind):
        path = " ".join(f"{self.x(second):.1f},{self.y(value):.1f}" for second, value in points)
        return f'<polyline class="line {kind}" points="{path}"/>'

    def between(self, below, above, kind):
        """The area between two lines."""
        path = " ".join(f"{self.x(second):.1f},{self.y(value):.1f}" for second, value in [*above, *reversed(below)])
        return f'<polygon class="{kind}" points="{path}"/>'

    def shade(self, begin, end):
        width = max(3.0, self.x(end) - self.x(begin))
        return f'<rect class="shade" x="{self.x(begin):.1f}" y="{self.top:.1f}" width="{width:.1f}" height="{self.height:.1f}"/>'

    def area(self, values, kind):
        """The area below a series, a step a second, in seconds and in units of the series."""
        path, level, run = "M0,0", 0, 0
        for value in [*values, 0]:
            if value != level:
                path += (f"h{run}" if run else "") + f"V{value:g}"
                level, run = value, 0
            run += 1
        path += (f"h{run - 1}" if run > 1 else "") + "Z"
        scale = f"translate({self.left:.1f},{self.top + self.height:.1f}) scale({self.width / self.seconds:.4f},{-self.height / self.highest:.4f})"
        return f'<path class="{kind}" transform="{scale}" d="{path}"/>'

    def stack(self, layers):
        """Series on top of each other, each with its class; drawn from the top down, so that each needs its upper edge only."""
        out = []
        for depth in range(len(layers), 0, -1):
            if any(layers[depth - 1][0]):
                edge = [sum(counts) for counts in zip(*(values for values, _ in layers[:depth]))]
                out.append(self.area(edge, layers[depth - 1][1]))
        return out


def carry_out(measure, draw):
    """Carries out `measure SOURCE DATA` or `draw DATA PICTURE` of the command line."""
    command, source, target = sys.argv[1:]
    if command == "measure":
        measure(source, target)
    else:
        redraw(draw, source, target)


def redraw(draw, source, target):
    """Draws the picture of the data in a file."""
    with open(source) as file:
        report = json.load(file)
    with open(target, "w") as file:
        file.write(draw(report))


def legend(x, y, entries):
    """Squares with their meanings, from left to right."""
    out = []
    for kind, words in entries:
        out.append(f'<rect class="{kind}" x="{x:.1f}" y="{y - 10}" width="14" height="12"/>')
        out.append(text(x + 20, y, words))
        x += 44 + 6.7 * len(words)
    return out
