"""Looks up every torch name that the engine uses in the installed torch, because code for CUDA uses names
that a CPU never calls.
"""

import ast
import glob
import os

import pytest
import torch

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])

# Names that some supported torch lacks, with the first version that has them. The code uses hasattr or
# getattr for each. Names below torch.cuda, torch._C and torch.backends.cuda may be missing from any build
# without CUDA.
SINCE = {
    "torch.cuda.OutOfMemoryError": (1, 13),
    "torch.nn.functional.scaled_dot_product_attention": (2, 0),
    "torch.utils.deterministic": (2, 2),
    "torch.nn.functional.rms_norm": (2, 4),
    "torch.backends.cuda.enable_cudnn_sdp": (2, 5),
    "torch._C._host_emptyCache": (2, 6),
}
CUDAS = ("torch.cuda.", "torch._C.", "torch.backends.cuda.")


def sources():
    return sorted(glob.glob(os.path.join(FOLDER, "*.py")))


def parse(path):
    with open(path, encoding="utf-8") as file:
        return ast.parse(file.read(), path)


def dotted(node, aliases):
    """The dotted name of an expression, such as torch.cuda.init; None for other expressions."""
    if isinstance(node, ast.Name):
        return aliases.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value, aliases)
        return owner and f"{owner}.{node.attr}"
    return None


def imported(tree):
    """The torch names behind a file's names: {"F": "torch.nn.functional", ...}."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "torch":
                    found[alias.asname or "torch"] = alias.name if alias.asname else "torch"
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == "torch":
            found.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = dotted(node.value, found)
            if name and name.count(".") == 1:  # distributed = torch.distributed
                found[node.targets[0].id] = name
    return found


def uses(tree):
    """(torch names, those of them that are accessed by hasattr or getattr)."""
    aliases, asked = imported(tree), set()
    names = set(aliases.values())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            names.add(dotted(node, aliases))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("hasattr", "getattr"):
            owner, name = dotted(node.args[0], aliases), node.args[1]
            if owner and isinstance(name, ast.Constant):
                asked.add(f"{owner}.{name.value}")
    return (names | asked) - {None}, asked



def resolves(name):
    found = torch
    for part in name.split(".")[1:]:
        try:
            found = getattr(found, part)
        except AttributeError:
            return False
    return True


def missing(tree, version=VERSION, cuda=torch.version.cuda is not None):
    """The names that this torch lacks and that may not be missing."""
    names, asked = uses(tree)
    wrong = []
    for name in sorted(names):
        if resolves(name):
            continue
        listed = next((known for known in SINCE if name == known or name.startswith(known + ".")), None)
        excused = listed and (version < SINCE[listed] or (not cuda and name.startswith(CUDAS)))
        if not excused or listed not in asked:
            wrong.append(name)
    return wrong


@pytest.mark.parametrize("path", sources(), ids=os.path.basename)
def test_every_name_is_there_or_known_not_to_be(path):
    assert missing(parse(path)) == []


def test_a_listed_name_is_asked_for_before_it_is_used():
    for path in sources():
        names, asked = uses(parse(path))
        assert names & set(SINCE) <= asked, path


def test_the_names_of_cards_are_among_those_looked_up():
    names = set().union(*(uses(parse(path))[0] for path in sources()))
    assert {"torch.cuda.CUDAGraph", "torch.cuda.set_per_process_memory_fraction", "torch._C._host_emptyCache", "torch._fused_adam_"} <= names
    assert {"torch.ops.aten.native_layer_norm_backward", "torch.backends.mkl.is_available", "torch.nn.functional.rms_norm"} <= names


@pytest.mark.parametrize(
    "text, wrong",
    [
        ("import torch\ntorch.cuda.no_such_thing()", ["torch.cuda.no_such_thing"]),
        ("import torch\nif hasattr(torch._C, '_no_such_thing'):\n    torch._C._no_such_thing()", ["torch._C._no_such_thing"]),
        ("import torch.nn.functional as F\nF.no_such_thing(1)", ["torch.nn.functional.no_such_thing"]),
        ("from torch.utils import no_such_thing", ["torch.utils.no_such_thing"]),
        ("import torch\nc = torch.cuda\nc.no_such_thing()", ["torch.cuda.no_such_thing"]),
        ("import torch\ntorch.cuda.current_stream(0).no_such_thing()", []),
    ],
)
def test_an_unknown_name_is_found(text, wrong):
    assert missing(ast.parse(text)) == wrong


def test_a_listed_name_is_excused_where_torch_is_older_only(monkeypatch):
    monkeypatch.setitem(SINCE, "torch._C._later", (2, 6))
    asked = ast.parse("import torch\nif hasattr(torch._C, '_later'):\n    torch._C._later()")
    assert missing(asked, (2, 5), True) == [] == missing(asked, (2, 9), False)
    assert missing(asked, (2, 6), True) == ["torch._C._later"]
    assert missing(ast.parse("import torch\ntorch._C._later()"), (2, 5), True) == ["torch._C._later"]


def keywords(path, name):
    """The keywords of the calls of a name in a file of the engine."""
    tree = parse(os.path.join(FOLDER, path))
    aliases = imported(tree)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and dotted(node.func, aliases) == name]
    assert calls, f"{path} does not call {name}"
    return [{keyword.arg for keyword in call.keywords} for call in calls]


def test_the_fused_step_takes_the_arguments_it_is_given():
    known = [{argument.name for argument in schema.arguments} for schema in torch._C._jit_get_schemas_for_operator("aten::_fused_adam_")]
    for given in keywords("adam.py", "torch._fused_adam_"):
        assert any(given <= names for names in known), (given, known)
