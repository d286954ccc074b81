"""swarm from notebooks and from Python: start a swarm, watch it, read what it recorded, plot it, and let one's own trainer take part.

    import swarm_bridge
    run = swarm_bridge.up(config="4loc4ext", nodes="auto")
    run.watch()
    run.plot_rewards()

Runs live in processes of their own: a kernel that restarts finds them again with attach(). Everything is read from the database (mode=ro) or
asked of the swarm program; no statistic is computed here. The standard library is enough but for frame() (pandas) and plots (matplotlib).
"""

from .company import Workers, invite, join, workers
from .comparison import Comparison, compare, plan
from .database import TABLES, frame, rows
from .errors import NothingHere, SwarmError
from .node import Node, Stopped
from .plots import curves, plot_memory, plot_rewards
from .program import find_program
from .run import Run, attach, runs, up
from .sweeps import Sweep, sweep
from .version import VERSION as __version__  # noqa: F401

__all__ = [
    "Comparison", "Node", "NothingHere", "Run", "Stopped", "SwarmError", "Sweep", "TABLES", "Workers", "attach", "compare", "curves", "find_program",
    "frame", "invite", "join", "plan", "plot_memory", "plot_rewards", "rows", "runs", "sweep", "up", "workers",
]
