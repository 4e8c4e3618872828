"""Bars with a label before and a text behind them, as SVG: what the programs that draw measurements have in common."""
from xml.sax.saxutils import escape

ROW, LABEL, WIDTH, TEXT = 26, 190, 380, 120
OURS, OTHERS = "#1f6f8b", "#b0b7bf"


def number(value):
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def heading(text, y=20):
    return f'<text x="8" y="{y}" font-weight="bold">{escape(text)}</text>'


def bar(y, label, begin, length, text, color, label_width=LABEL):
    """begin and length in pixels, from where all bars begin."""
    x = label_width + begin
    return (f'<text x="{label_width - 8}" y="{y + 15}" text-anchor="end">{escape(label)}</text>'
            f'<rect x="{x:.0f}" y="{y + 3}" width="{max(1, length):.0f}" height="{ROW - 8}" fill="{color}"/>'
            f'<text x="{x + max(1, length) + 6:.0f}" y="{y + 15}">{escape(text)}</text>')


def picture(title, width, height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img" '
            f'font-family="sans-serif" font-size="13"><title>{escape(title)}</title>'
            f'<rect width="100%" height="100%" fill="white"/>' + "".join(parts) + "</svg>\n")
