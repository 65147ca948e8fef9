"""Fronts as a small SVG: points that were measured, and steps along what no other beats."""

from __future__ import annotations

from dataclasses import dataclass

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 55
TICKS = 6


@dataclass(frozen=True)
class Series:
    """`measured` and `front` are points (tokens per second and user, per GPU)."""

    name: str
    colour: str
    measured: list[tuple[float, float]]
    front: list[tuple[float, float]]


def front_svg(series):
    """Draw all series on common axes that start at zero."""
    points = [point for one in series for point in (*one.measured, *one.front)]
    most = [_round_up(max(values)) for values in zip(*points, strict=True)]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        *_axes(most),
    ]
    for one in series:
        lines += _dots(one.measured, most, one.colour, 1.6, 0.35)
    for place, one in enumerate(series):
        lines.append(
            f'<path d="{_steps(one.front, most)}" fill="none" stroke="{one.colour}" stroke-width="2"/>'
        )
        lines += _dots(one.front, most, one.colour, 3, 1)
        x, y = WIDTH - RIGHT - 190, TOP + 18 * place
        lines.append(f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{one.colour}"/>')
        lines.append(f'<text x="{x + 10}" y="{y}">{one.name}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _round_up(value):
    step = 10 ** (len(str(int(value))) - 1) / 2
    return step * (int(value / step) + 1)


def _place(point, most):
    x = LEFT + point[0] / most[0] * (WIDTH - LEFT - RIGHT)
    y = HEIGHT - BOTTOM - point[1] / most[1] * (HEIGHT - TOP - BOTTOM)
    return round(x, 1), round(y, 1)


def _dots(points, most, colour, radius, opacity):
    for x, y in sorted({_place(point, most) for point in points}):
        yield f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{colour}" fill-opacity="{opacity}"/>'


def _steps(front, most):
    """Walk the edge of the area that a front dominates, from the fastest point to the cheapest."""
    path, level = [], 0.0
    for fast, cheap in sorted(front, reverse=True):
        for corner in ((fast, level), (fast, cheap)):
            x, y = _place(corner, most)
            path.append(f"{'L' if path else 'M'}{x} {y}")
        level = cheap
    x, y = _place((0.0, level), most)
    return " ".join([*path, f"L{x} {y}"])


def _axes(most):
    left, bottom = _place((0, 0), most)
    for tick in range(TICKS + 1):
        x, y = _place((most[0] * tick / TICKS, most[1] * tick / TICKS), most)
        yield f'<path d="M{x} {bottom} V{TOP} M{left} {y} H{WIDTH - RIGHT}" stroke="#ddd"/>'
        yield f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{most[0] * tick / TICKS:g}</text>'
        yield f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{most[1] * tick / TICKS:g}</text>'
    yield f'<path d="M{left} {TOP} V{bottom} H{WIDTH - RIGHT}" fill="none" stroke="#333"/>'
    yield f'<text x="{(left + WIDTH) / 2}" y="{HEIGHT - 12}" text-anchor="middle">tokens/s per user</text>'
    yield f'<text x="{left}" y="{TOP - 14}">output tokens/s per GPU</text>'
