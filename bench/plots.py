"""Pictures for doc/, as SVG, without a library: text and rectangles on white, so that they look the same wherever they are shown."""
from html import escape

ROW = 26
OURS, OTHERS, FAINT = "#1f6f8b", "#b0b7bf", "#6b7280"


def number(value):
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def text(x, y, words, anchor="start", bold=False, color="black"):
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{color}"{weight}>{escape(words)}</text>'


def bar(y, left, name, begin, length, words, color):
    """begin and length in pixels; all bars of a picture begin behind the same left side, which has their names."""
    x, length = left + begin, max(1, length)
    return (text(left - 8, y + 15, name, anchor="end")
            + f'<rect x="{x:.1f}" y="{y + 3:.1f}" width="{length:.1f}" height="{ROW - 8}" fill="{color}"/>'
            + text(x + length + 6, y + 15, words))


def picture(title, width, height, parts):
    """The whole picture; its title is read aloud and stands above it."""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
            f'font-family="sans-serif" font-size="13"><title>{escape(title)}</title><rect width="100%" height="100%" fill="white"/>'
            + text(8, 20, title, bold=True) + "".join(parts) + "</svg>\n")


def bars(title, rows, left=190, length=380, right=250):
    """A bar for each (name, value or None, words beside it, is it ours)."""
    most = max((value for _, value, _, _ in rows if value is not None), default=0) or 1
    parts = []
    for i, (name, value, words, ours) in enumerate(rows):
        y = 34 + ROW * i
        if value is None:
            parts += [text(left - 8, y + 15, name, anchor="end"), text(left, y + 15, words, color=FAINT)]
        else:
            parts.append(bar(y, left, name, 0, length * value / most, words, OURS if ours else OTHERS))
    return picture(title, left + length + right, 40 + ROW * len(rows), parts)
