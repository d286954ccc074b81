"""swarm from notebooks and Python: start a swarm, watch it, read its records, plot them, and run your own trainer as
a node.

    import swarm_bridge
    run = swarm_bridge.up(config="4loc4ext", nodes="auto")
    run.watch()
    run.plot_rewards()

Runs are separate processes: after a kernel restart, attach() finds them. The package reads the database (mode=ro) or
calls the swarm program. It computes no statistics itself. It needs only the standard library, except for frame()
(pandas) and plots (matplotlib).

For trainers that manage their own memory it has the guides' functions: find_best_device, retry_on_oom, OOMHandler,
adaptive_batch_training, get_gpu_info …
"""

from .company import Workers, invite, join, workers
from .comparison import Comparison, compare, plan
from .database import TABLES, frame, rows
from .errors import NothingHere, SwarmError
from .gpumemory import (
    clear_gpu_cache, clear_gpu_memory, find_best_device, get_gpu_info, get_gpu_memory_info, get_optimal_batch_size, memory_summary,
    print_memory_summary, wait_for_device, wrap_model_for_multi_gpu,
)
from .node import Node, Stopped
from .oom import OOMHandler, adaptive_batch_training, handle_cuda_oom, retry_on_oom
from .plots import curves, plot_memory, plot_rewards
from .program import find_program
from .run import Run, attach, runs, up
from .shortage import out_of_memory
from .sweeps import Sweep, sweep
from .version import VERSION as __version__  # noqa: F401

__all__ = [
    "Comparison", "Node", "NothingHere", "OOMHandler", "Run", "Stopped", "SwarmError", "Sweep", "TABLES", "Workers", "adaptive_batch_training",
    "attach", "clear_gpu_cache", "clear_gpu_memory", "compare", "curves", "find_best_device", "find_program", "frame", "get_gpu_info",
    "get_gpu_memory_info", "get_optimal_batch_size", "handle_cuda_oom", "invite", "join", "memory_summary", "out_of_memory", "plan", "plot_memory",
    "plot_rewards", "print_memory_summary", "retry_on_oom", "rows", "runs", "sweep", "up", "wait_for_device", "workers", "wrap_model_for_multi_gpu",
]
