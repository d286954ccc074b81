"""A status as HTML, with all text escaped, and as plain text."""

from html import escape

STYLE = "text-align:left;padding:2px 10px;border-bottom:1px solid #8884;white-space:nowrap"
COLUMNS = ("node", "state", "rounds", "last 10", "cumulative", "memory", "peak", "restarts", "note")


def size(count):
    """Formats bytes in the guides' unit: GB of 10^9."""
    if not count:
        return "–"
    return "{:.0f} MB".format(count / 1e6) if count < 1e9 else "{:.1f} GB".format(count / 1e9)


def duration(seconds):
    """Formats seconds: 8.2 s, 1m52s, 3h05m."""
    if seconds is None:
        return "–"
    if seconds < 60:
        return "{:.1f} s".format(seconds)
    minutes, rest = divmod(int(round(seconds)), 60)
    if minutes < 60:
        return "{}m{:02d}s".format(minutes, rest)
    return "{}h{:02d}m".format(*divmod(minutes, 60))


def number(value):
    return "–" if value is None else "{:.3f}".format(value)


def money(amount, currency=""):
    """Formats an amount like the program: $4.10, 4.10 EUR. Amounts below a cent keep two significant digits."""
    two = float("{:.1e}".format(amount))
    if 0 < amount < 1e-6:
        return "<" + money(1e-6, currency).replace("0.0000010", "0.000001")
    text = "{:.{}f}".format(two, -int("{:.1e}".format(two).partition("e")[2]) + 1) if 0 < two < 0.01 else "{:.2f}".format(amount)
    return text + " " + currency if currency[:1].isalpha() else currency + text


def line(status):
    """Formats a run's status in one line."""
    parts = [status["run"], status["state"], "round {}/{}".format(status["round"], status["rounds"])]
    if status.get("reward") is not None:
        parts.append("reward " + number(status["reward"]))
    planned = status.get("nodes_planned", 0)
    parts.append("{}/{} nodes".format(status.get("nodes_alive", 0), planned) if status["state"] == "running"
                 else "{} node{}".format(planned, "" if planned == 1 else "s"))
    if status.get("elapsed_seconds") is not None:
        parts.append("elapsed " + duration(status["elapsed_seconds"]))
    if status.get("eta_seconds") is not None:
        parts.append("eta " + duration(status["eta_seconds"]))
    if status.get("cost") is not None:
        parts.append("cost " + money(status["cost"], status.get("price_currency", "")))
    if status.get("message"):
        parts.append(" ".join(status["message"].split()))
    return " · ".join(parts)


def cells(node):
    note = ": ".join(part for part in (node.get("cause"), node.get("message")) if part)
    return (node["id"], node["state"], str(node["round"]), number(node.get("recent_reward")), "{:.2f}".format(node["cumulative_reward"]),
            size(node["memory_bytes"]), size(node["peak_memory_bytes"]), str(node["restarts"]), " ".join(note.split()))


def nodes(status):
    """Returns the columns of a run's nodes and their rows, with the worker's name if other hosts take part."""
    if not any(n.get("worker") for n in status["nodes"]):
        return COLUMNS, [cells(n) for n in status["nodes"]]
    return COLUMNS + ("worker",), [cells(n) + (n.get("worker", ""),) for n in status["nodes"]]


def text(status):
    """Formats a run's status for a terminal: the line, and a table of its nodes."""
    return line(status) + "\n" + text_table(*nodes(status))


def html(status):
    """Formats a run's status for a notebook. All its text is escaped."""
    share = 100.0 * status["round"] / status["rounds"] if status["rounds"] else 0.0
    bar = ('<div style="background:#8883;height:6px;max-width:40em;margin:4px 0"><div style="background:#0072b2;height:6px;width:{:.1f}%">'
           "</div></div>").format(min(100.0, max(0.0, share)))
    return "<div><strong>{}</strong>{}{}</div>".format(escape(line(status)), bar, html_table(*nodes(status)))


def text_table(columns, rows):
    widths = [max(len(str(row[i])) for row in [columns] + list(rows)) for i in range(len(columns))]
    return "\n".join("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [columns] + list(rows))


def html_table(columns, rows):
    head = "".join('<th style="{}">{}</th>'.format(STYLE, escape(str(c))) for c in columns)
    body = "".join("<tr>{}</tr>".format("".join('<td style="{}">{}</td>'.format(STYLE, escape(str(c))) for c in row)) for row in rows)
    table = '<table style="border-collapse:collapse"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>'.format(head, body)
    return '<div style="overflow-x:auto">{}</div>'.format(table)
