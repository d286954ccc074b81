"""Shows a changing status until it ends: in place in Jupyter and Colab, line by line elsewhere."""

import sys
import time

from . import page


def in_notebook():
    """Tells whether this runs in a kernel that shows HTML: Jupyter's or Colab's, not IPython in a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


class Screen:
    """Output that is updated repeatedly."""

    def __init__(self):
        self.notebook, self.handle, self.last = in_notebook(), None, None

    def show(self, html, text, line):
        """html and text are the whole status, line is the news. A notebook replaces its output with the whole.
        Elsewhere the line is printed if it has changed.
        """
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
    """Shows status() until its state is no longer running, and returns the last status. Ends early after timeout
    seconds (None: never) and on an interrupt.
    """
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
        print("No longer watching. {} continues. Its stop() ends it.".format(now["run"]))
        return now


def _news(status, over):
    """Returns the line for a round. Changes within the round, such as times, don't change it."""
    if over:
        return page.line(status)
    return page.line(dict(status, elapsed_seconds=None, eta_seconds=None, cost=None))
