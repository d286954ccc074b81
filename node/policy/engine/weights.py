"""Reads and writes safetensors files without the safetensors package, and loads a model's weights from
its directory.

Format: 8 bytes little-endian header length, a JSON header name -> {dtype, shape, data_offsets}, then the
tensors' bytes without gaps (github.com/huggingface/safetensors). Every length and offset is checked before
any data is used, because the file may be truncated, corrupt or hostile. Raises FormatError with one line that
names the file and the fault.
"""

import ctypes
import hashlib
import json
import math
import os
from typing import NamedTuple, Tuple

import torch

from .aside import Aside
from .protocol import MODEL, UNREADABLE, EngineError

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "U8": torch.uint8,
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_FLOATS = ("F64", "F32", "F16", "BF16")
# Bytes of an element. A file may also hold tensors that this module does not read, such as attention masks.
# node/model/safetensors.go has the same table.
_BYTES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64"), 8),
}
_MAX_HEADER = 100 << 20  # the limit of the safetensors package
_PIECE = 1 << 22  # elements converted at a time
_BLOCK = 8 << 20  # bytes written at a time
_INDEX = "model.safetensors.index.json"


class FormatError(ValueError):
    """An invalid file."""


class Entry(NamedTuple):
    dtype: str
    shape: Tuple[int, ...]
    begin: int  # offset in the file
    end: int


class File:
    """An open safetensors file: `entries` by name, `metadata`, and `read` to fill a tensor. A context
    manager.
    """

    def __init__(self, path):
        self.path = path
        try:
            self._file = open(path, "rb", buffering=0)
        except FileNotFoundError as error:
            raise FormatError(f"{path}: {error.strerror}") from None
        try:
            self.size = os.fstat(self._file.fileno()).st_size
            self.entries, self.metadata = self._read_header()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def sha256(self):
        """Hashes the whole file, which also proves that it is readable."""
        digest = hashlib.sha256()
        self._file.seek(0)
        while True:
            block = self._file.read(1 << 20)
            if not block:
                return digest.hexdigest()
            digest.update(block)

    @torch.no_grad()
    def read(self, name, tensor):
        """Fills tensor, which must be contiguous and have the entry's shape. Converts between dtypes
        piece by piece.
        """
        entry = self.entries[name]
        if tuple(tensor.shape) != entry.shape:
            raise FormatError(f"{self.path}: {name} has shape {list(entry.shape)}, expected {list(tensor.shape)}")
        dtype, flat = DTYPES[entry.dtype], tensor.view(-1)
        self._file.seek(entry.begin)
        if tensor.dtype == dtype and tensor.device.type == "cpu":
            self._fill(flat, name)
            return
        buffer = torch.empty(min(len(flat), _PIECE), dtype=dtype)
        for at in range(0, len(flat), _PIECE):
            piece = buffer[: len(flat) - at]
            self._fill(piece, name)
            flat[at : at + _PIECE].copy_(piece)

    def _fill(self, tensor, name):
        view, at = bytes_of(tensor), 0
        while at < len(view):
            count = self._file.readinto(view[at:])
            if not count:
                raise FormatError(f"{self.path}: ends inside {name}")
            at += count

    def _fail(self, text):
        return FormatError(f"{self.path}: {text}")

    def _read_exactly(self, size):
        data = bytearray()
        while len(data) < size:
            block = self._file.read(size - len(data))
            if not block:
                raise self._fail("the file is truncated")
            data += block
        return bytes(data)

    def _read_header(self):
        if self.size < 10:
            raise self._fail("too short for a safetensors file")
        length = int.from_bytes(self._read_exactly(8), "little")
        if length > min(_MAX_HEADER, self.size - 8):
            raise self._fail(f"header of {length} bytes does not fit a file of {self.size} bytes")
        try:
            header = json.loads(self._read_exactly(length), object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            raise self._fail(f"broken header: {error}") from None
        if not isinstance(header, dict):
            raise self._fail("broken header: not a JSON object")
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise self._fail("broken header: __metadata__ is not an object of strings")
        start = 8 + length
        entries = {name: self._entry(name, value, start) for name, value in header.items()}
        end = start
        for name, entry in sorted(entries.items(), key=lambda item: item[1][2:]):
            if entry.begin != end:
                raise self._fail(f"{name} overlaps another tensor or leaves a hole")
            end = entry.end
        if end != self.size:
            raise self._fail(f"holds {self.size} bytes where its header describes {end}: truncated or corrupt")
        return entries, metadata

    def _entry(self, name, value, start):
        try:
            dtype, shape, (begin, end) = value["dtype"], value["shape"], value["data_offsets"]
        except (TypeError, KeyError, ValueError):
            raise self._fail(f"broken header entry {name!r}") from None
        numbers = [begin, end, *shape] if isinstance(shape, list) else [None]
        if not all(type(n) is int and 0 <= n < 1 << 53 for n in numbers):
            raise self._fail(f"broken header entry {name!r}")
        if not isinstance(dtype, str) or dtype not in _BYTES:
            raise self._fail(f"{name} has dtype {dtype!r}, which is not supported")
        if end - begin != math.prod(shape) * _BYTES[dtype]:
            raise self._fail(f"{name} has shape {shape} but {end - begin} bytes of {dtype}")
        return Entry(dtype, tuple(shape), start + begin, start + end)


def _unique(pairs):
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name occurs twice")
    return result


def _size(dtype):
    return torch.empty((), dtype=dtype).element_size()


def bytes_of(tensor):
    """A writable view of a contiguous CPU tensor's bytes. The tensor must outlive it."""
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return memoryview(b"")
    return memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())).cast("B")


def write(path, tensors, metadata, dtype=None):
    """Writes {name: tensor} as a safetensors file, floats as dtype if given. Returns (bytes, sha256 hex).

    The content is on disk when this returns. The caller must sync the file's name. It needs memory for two
    tensors if the tensors must be converted or copied from a device, else none. Hashing runs parallel to
    writing, because both release the interpreter's lock.
    """
    stored = {name: dtype if dtype and t.is_floating_point() else t.dtype for name, t in tensors.items()}
    # Tensors of wider elements first, so that every tensor is aligned to its element size.
    names = sorted(tensors, key=lambda name: (-_size(stored[name]), name))
    header, at = {"__metadata__": metadata}, 0
    for name in names:
        size = tensors[name].numel() * _size(stored[name])
        shape = list(tensors[name].shape)
        header[name] = {"dtype": _NAMES[stored[name]], "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    text = len(text).to_bytes(8, "little") + text
    digest, size = hashlib.sha256(text), len(text)
    with open(path, "wb", buffering=0) as file, Aside() as aside:
        _write_all(file, memoryview(text))
        hashed = None
        for name in names:
            source = tensors[name].detach()
            if hashed is not None and (source.device.type != "cpu" or source.dtype != stored[name]):
                hashed.result()  # at most one copy waits to be hashed
            tensor = source.to("cpu", stored[name]).contiguous()
            hashed = aside.do(_hash, digest, tensor)
            size += _write_all(file, bytes_of(tensor))
        os.fsync(file.fileno())
    return size, digest.hexdigest()


def _hash(digest, tensor):
    digest.update(bytes_of(tensor))


def _write_all(file, data):
    """Writes data to an unbuffered file. Returns its length."""
    at = 0
    while at < len(data):
        at += file.write(data[at : at + _BLOCK])
    return at


def weight_hash(tensors):
    """sha256 over the bytes of a model's weights {name: tensor}, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().to("cpu").contiguous()
        digest.update(bytes_of(tensor))
    return digest.hexdigest()


def load(model, directory):
    """Fills the model from directory's safetensors, single or sharded. Raises EngineError("model") if they are
    missing or invalid, and EngineError("unreadable") if reading them fails.
    """
    try:
        plan = _locate(model.config, model.shapes, directory)
        for path, names in plan.items():
            with File(path) as file:
                for stored, name in names:
                    file.read(stored, model.tensors[name])
    except FormatError as error:
        raise EngineError(MODEL, str(error)) from None
    except OSError as error:
        raise EngineError(UNREADABLE, f"{error.filename or directory}: {error.strerror or error}") from None


def _locate(config, shapes, directory):
    """Checks all headers against shapes. Returns path -> [(name in the file, name in the model)].

    node/model/architecture.go checks the same before a run. The tests of both read node/model/testdata/weights.json.
    """
    plan, found = {}, set()
    for path in _files(directory):
        plan[path] = []
        with File(path) as file:
            for stored, entry in file.entries.items():
                name = config.name_of(stored)
                if name is None:
                    continue
                if name not in shapes:
                    raise FormatError(f"{path}: {stored} is not a tensor of this {config.architecture} model")
                if name in found:
                    raise FormatError(f"{path}: {stored} occurs twice in the model")
                if entry.dtype not in _FLOATS:
                    raise FormatError(f"{path}: {stored} has dtype {entry.dtype}, not a float")
                if entry.shape != shapes[name]:
                    expected = list(shapes[name])
                    raise FormatError(f"{path}: {stored} has shape {list(entry.shape)}, config.json says {expected}")
                found.add(name)
                plan[path].append((stored, name))
    for name in shapes:
        if name not in found:
            raise FormatError(f"{directory}: {name} is missing")
    return plan


def _files(directory):
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FormatError(f"{directory}: {error.strerror}") from None
    if "model.safetensors" in names:
        return [os.path.join(directory, "model.safetensors")]
    index = os.path.join(directory, _INDEX)
    if _INDEX not in names:
        others = [name for name in names if name.endswith(".safetensors")]
        if len(others) != 1:
            raise FormatError(f"{directory}: no model.safetensors and no {_INDEX}")
        return [os.path.join(directory, others[0])]
    try:
        with open(index, encoding="utf-8") as file:
            shards = set(json.load(file)["weight_map"].values())
    except (FileNotFoundError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{index}: broken index: {error}") from None
    if not all(isinstance(shard, str) and shard == os.path.basename(shard) and shard for shard in shards):
        raise FormatError(f"{index}: a shard is not a plain file name")
    return [os.path.join(directory, shard) for shard in sorted(shards)]
