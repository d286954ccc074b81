"""Which NVIDIA GPUs this process may use, and how much of them is free: asked of nvidia-smi, which starts no CUDA, or else of torch.

torch is imported where it is installed and nothing else is needed. A GPU's index is CUDA's: what `cuda:0` means to this process, under
CUDA_VISIBLE_DEVICES.
"""

import importlib.util
import logging
import os
import subprocess
import sys
from dataclasses import dataclass

logger = logging.getLogger("swarm_bridge")

QUERY = "--query-gpu=index,uuid,memory.total,memory.free,name"
TIMEOUT = 10.0  # seconds; a driver that hangs is as good as none
MIB = 1 << 20


@dataclass(frozen=True)
class Card:
    """A GPU that this process sees; total and free in bytes, free as the driver tells, whoever holds the rest."""

    index: int
    uuid: str
    name: str
    total: int
    free: int


def torch_if_there():
    """torch, imported if it is installed; None where it isn't, or where importing it fails."""
    if "torch" not in sys.modules and importlib.util.find_spec("torch") is None:
        return None
    try:
        import torch
        torch.cuda.is_available  # a torch that is still being imported, or a folder of that name, has none
        return torch
    except (ImportError, OSError, AttributeError) as error:
        logger.warning("torch can't be used: %s", error)
        return None


def cuda_in_use():
    """torch.cuda if this process has started it, else None. It never imports torch, nor starts CUDA."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    try:
        return cuda if cuda is not None and cuda.is_initialized() else None
    except AttributeError:
        return None


def cards():
    """The Cards that this process sees, and why there are none ("" where there are)."""
    torch = torch_if_there()
    if torch is not None and not torch.cuda.is_available():
        return [], "torch {} sees no GPU".format(torch.__version__)
    listed, reason = ask_nvidia_smi()
    seen = visible(listed, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if torch is not None and (not seen or not _same_order(listed) or len(seen) != torch.cuda.device_count()):
        return ask_torch(torch), ""
    if listed and not seen:
        reason = "CUDA_VISIBLE_DEVICES={} leaves none of {} GPUs".format(os.environ.get("CUDA_VISIBLE_DEVICES"), len(listed))
    return seen, reason


def ask_nvidia_smi():
    """All GPUs of the host as nvidia-smi counts them, and why there are none ("" where there are)."""
    try:
        done = subprocess.run(["nvidia-smi", QUERY, "--format=csv,noheader,nounits"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=TIMEOUT)
    except FileNotFoundError:
        return [], "there is no nvidia-smi"
    except subprocess.TimeoutExpired:
        return [], "nvidia-smi gave no answer in {:.0f} s".format(TIMEOUT)
    except OSError as error:
        return [], "nvidia-smi can't be started: {}".format(error.strerror or error)
    text = done.stdout.decode("utf-8", "replace")
    found = [card for card in map(_card, text.splitlines()) if card]
    if found:
        return found, ""
    said = " ".join((text + " " + done.stderr.decode("utf-8", "replace")).split())[:200]
    return [], "nvidia-smi tells of no GPU{}".format(": " + said if said else "")


def _card(line):
    """One line of nvidia-smi's; None for what isn't one, or a GPU whose memory it doesn't tell ("[N/A]")."""
    fields = [field.strip() for field in line.split(",", 4)]
    try:
        index, uuid, total, free, name = int(fields[0]), fields[1], int(fields[2]), int(fields[3]), fields[4]
    except (ValueError, IndexError):
        return None
    return Card(index, uuid, name, total * MIB, free * MIB)


def visible(listed, setting):
    """Those of the listed Cards that CUDA_VISIBLE_DEVICES=setting (None: not set) leaves, numbered as CUDA then numbers them: in its order, up
    to the first entry that names no GPU; none at all where one is named twice. An entry is an index or the beginning of a UUID."""
    if setting is None:
        return listed
    seen = []
    for entry in (e.strip() for e in setting.split(",")):
        named = [c for c in listed if entry == str(c.index) or (entry.startswith("GPU-") and c.uuid.startswith(entry))]
        if len(named) != 1:
            break
        if any(named[0].uuid == c.uuid for c in seen):
            return []
        seen.append(Card(len(seen), named[0].uuid, named[0].name, named[0].total, named[0].free))
    return seen


def _same_order(listed):
    """Whether CUDA counts these as nvidia-smi does: it puts the fastest first unless told otherwise, which equal cards don't show."""
    return os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({c.name for c in listed}) <= 1


def ask_torch(torch):
    """The Cards as torch sees them. This starts CUDA on each of them, some hundred MB a GPU; ROCm's and MIG's are only told here."""
    seen = []
    for i in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(i)
        free, total = torch.cuda.mem_get_info(i)
        seen.append(Card(i, str(getattr(properties, "uuid", "")), properties.name, total, free))
    return seen
