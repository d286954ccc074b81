"""The NVIDIA GPUs that this process may use, and their free memory, from nvidia-smi, which does not start CUDA, or
else from torch.

torch is optional and imported if it is installed. A GPU's index is CUDA's: the N of `cuda:N` in this process, under
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
TIMEOUT = 10.0  # seconds; a driver that hangs counts as absent
MIB = 1 << 20


@dataclass(frozen=True)
class Card:
    """A GPU visible to this process. total and free are in bytes. free is the driver's figure, whichever process
    holds the rest.
    """

    index: int
    uuid: str
    name: str
    total: int
    free: int


def torch_if_there():
    """Returns torch, imported if it is installed; None if it isn't installed or its import fails."""
    if "torch" not in sys.modules and importlib.util.find_spec("torch") is None:
        return None
    try:
        import torch
        torch.cuda.is_available  # a torch that is still being imported, or an unrelated folder, has no such attribute
        return torch
    except (ImportError, OSError, AttributeError) as error:
        logger.warning("torch can't be used: %s", error)
        return None


def cuda_in_use():
    """Returns torch.cuda if this process has started CUDA, else None. It never imports torch or starts CUDA."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    try:
        return cuda if cuda is not None and cuda.is_initialized() else None
    except AttributeError:
        return None


def cards():
    """Returns the Cards visible to this process, and the reason if there are none (else "")."""
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
    """Returns all GPUs of the host in nvidia-smi's order, and the reason if there are none (else "")."""
    try:
        done = subprocess.run(["nvidia-smi", QUERY, "--format=csv,noheader,nounits"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=TIMEOUT)
    except FileNotFoundError:
        return [], "nvidia-smi is not installed"
    except subprocess.TimeoutExpired:
        return [], "nvidia-smi did not answer within {:.0f} s".format(TIMEOUT)
    except OSError as error:
        return [], "nvidia-smi can't be started: {}".format(error.strerror or error)
    text = done.stdout.decode("utf-8", "replace")
    found = [card for card in map(_card, text.splitlines()) if card]
    if found:
        return found, ""
    said = " ".join((text + " " + done.stderr.decode("utf-8", "replace")).split())[:200]
    return [], "nvidia-smi reports no GPU{}".format(": " + said if said else "")


def _card(line):
    """Parses one line of nvidia-smi. Returns None for other text, or for a GPU without memory figures ("[N/A]")."""
    fields = [field.strip() for field in line.split(",", 4)]
    try:
        index, uuid, total, free, name = int(fields[0]), fields[1], int(fields[2]), int(fields[3]), fields[4]
    except (ValueError, IndexError):
        return None
    return Card(index, uuid, name, total * MIB, free * MIB)


def visible(listed, setting):
    """Returns the Cards that CUDA_VISIBLE_DEVICES=setting leaves (None: not set), numbered like CUDA.

    CUDA keeps the setting's order, up to the first entry that names no GPU. If a GPU is named twice, CUDA sees none.
    An entry is an index or the beginning of a UUID.
    """
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
    """Tells whether CUDA numbers these GPUs like nvidia-smi. By default CUDA puts the fastest first, which makes no
    difference for equal cards.
    """
    return os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({c.name for c in listed}) <= 1


def ask_torch(torch):
    """Returns the Cards from torch. This starts CUDA on each of them, some hundred MB per GPU. Only torch reports
    ROCm and MIG devices.
    """
    seen = []
    for i in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(i)
        free, total = torch.cuda.mem_get_info(i)
        seen.append(Card(i, str(getattr(properties, "uuid", "")), properties.name, total, free))
    return seen
