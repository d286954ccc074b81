"""Showing something that changes until it ends: in place in Jupyter and Colab, line by line elsewhere."""

import sys
import time

from . import page


def in_notebook():
    """Whether this runs in a kernel that shows HTML: Jupyter's or Colab's, not IPython's shell in a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


class Screen:
    """Where something is shown again and again."""

    def __init__(self):
        self.notebook, self.handle, self.last = in_notebook(), None, None

    def show(self, html, text, line):
        """html and text are the whole, line what is new: a notebook shows the whole in place of the last, others the line if it is another."""
        if not self.notebook:
            if line != self.last:
                print(line, flush=True)
            self.last = line
            return
        from IPython.display import display
        both = {"text/html": html, "text/plain": text}
        if self.handle is None:
            self.handle = display(both, raw=True, display_id=True)
        else:
            self.handle.update(both, raw=True)


def watch(status, interval, timeout):
    """Shows what status() returns until its state is no longer running, and returns the last. Ends early after timeout seconds (None: never)
    and at an interrupt: whoever watches may stop watching."""
    end = None if timeout is None else time.monotonic() + timeout
    screen, now = Screen(), status()
    try:
        while True:
            screen.show(page.html(now), page.text(now), _news(now, now["state"] != "running"))
            if now["state"] != "running" or (end is not None and time.monotonic() >= end):
                return now
            time.sleep(interval)
            now = status()
    except KeyboardInterrupt:
        print("No longer watching; {} goes on. Its stop() ends it.".format(now["run"]))
        return now


def _news(status, over):
    """The line of a round; what changes within it (the times) is no news."""
    if over:
        return page.line(status)
    return page.line(dict(status, elapsed_seconds=None, eta_seconds=None, cost=None))
