"""Data for the benchmark: real where this machine has it, else drawn. Raw files that every process maps.

Looked for in $MANTISSA_DATA, ../shared/data beside the project, the folder that scripts/download.sh fills, and Debian's
dataset-fashion-mnist.
"""

import gzip
import os
import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS, EVAL_ROWS = 4096, 1000


def folders():
    named = [
        os.environ.get("MANTISSA_DATA"),
        ROOT.parent / "shared/data",
        ROOT.parent.parent / "shared/data",
        pathlib.Path(os.environ.get("XDG_DATA_HOME", pathlib.Path.home() / ".local/share")) / "mantissa/datasets",
    ]
    return [pathlib.Path(p) for p in named if p]


def find(*names):
    for folder in folders() + [pathlib.Path("/usr/share/datasets")]:
        for name in names:
            if (folder / name).exists():
                return folder / name
    return None


def idx(path):
    data = gzip.decompress(path.read_bytes())
    sizes = np.frombuffer(data, ">i4", data[3], 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(sizes)


def normalised(images):
    x = images.astype(np.float32) / 255
    return ((x - x.mean()) / x.std()).astype(np.float32)


def drawn(r, sizes):
    """Ten prototypes and noise: learnable, with losses that fall."""
    y = r.integers(0, 10, ROWS + EVAL_ROWS)
    x = r.standard_normal((10, *sizes), np.float32)[y] * 0.5 + r.standard_normal((len(y), *sizes), np.float32)
    return x, y.astype(np.int64)


def mnist(r):
    for name, folder in (("MNIST", find("mnist")), ("Fashion-MNIST", find("fashion-mnist"))):
        if folder and (folder / "train-images-idx3-ubyte.gz").exists():
            x, y = idx(folder / "train-images-idx3-ubyte.gz"), idx(folder / "train-labels-idx1-ubyte.gz")
            n = ROWS + EVAL_ROWS
            return normalised(x[:n])[:, None], y[:n].astype(np.int64), name
    return *drawn(r, (1, 28, 28)), "drawn digits"


def cifar(r):
    path = find("cifar-10-batches-bin/data_batch_1.bin", "cifar10/cifar-10-batches-bin/data_batch_1.bin")
    if path:
        raw = np.fromfile(path, np.uint8).reshape(-1, 3073)[: ROWS + EVAL_ROWS]
        return normalised(raw[:, 1:].reshape(-1, 3, 32, 32)), raw[:, 0].astype(np.int64), "CIFAR-10"
    return *drawn(r, (3, 32, 32)), "drawn pictures"


def characters():
    path = find("tinyshakespeare/input.txt", "tinyshakespeare.txt")
    if path:
        found = np.frombuffer(path.read_bytes(), np.uint8)
        return np.searchsorted(np.unique(found), found).astype(np.int64), "tinyshakespeare"
    return None, None


def cycle(r, size):
    """Tokens in a cycle, with noise."""
    n = 1 << 19
    return np.where(r.random(n) < 0.2, r.integers(0, size, n), np.arange(n) * 7 % size).astype(np.int64)


def windows(r, tokens, context, rows):
    first = r.integers(0, len(tokens) - context - 1, rows)[:, None] + np.arange(context)
    return tokens[first], tokens[first + 1]


def text(r, context=128):
    tokens, source = characters()
    if tokens is None:
        tokens, source = cycle(r, 65), "drawn characters"
    return *windows(r, tokens, context, ROWS + 64), source


def pairs(r, context=1024, vocabulary=50304):
    """Tokens of a large vocabulary: pairs of characters, spread over all of it."""
    tokens, source = characters()
    if tokens is None:
        return *windows(r, cycle(r, vocabulary), context, ROWS + 64), "drawn tokens"
    tokens = tokens[: len(tokens) // 2 * 2].reshape(-1, 2)
    size = int(tokens.max()) + 1
    tokens = (tokens[:, 0] * size + tokens[:, 1]) * (vocabulary // size**2)
    return *windows(r, tokens, context, ROWS + 64), f"pairs of characters of {source}"


MAKERS = {"mnist": mnist, "cifar": cifar, "text": text, "pairs": pairs}


def file_of(folder, name, array):
    array.tofile(os.path.join(folder, name))
    return {
        "path": os.path.join(folder, name),
        "dtype": "i64" if array.dtype == np.int64 else "f32",
        "sizes": list(array.shape),
    }


def prepare(folder, workload, seed, steps):
    """Writes data and order; returns the part of the INIT spec that describes them, and where the data comes from."""
    r = np.random.default_rng(seed)
    x, y, source = MAKERS[workload["data"]](r)
    if workload["model"] == "mlp":
        x = x.reshape(len(x), -1)
    batch, last = workload["batch"], ROWS + workload.get("eval", EVAL_ROWS)
    epochs = -(-steps * batch // ROWS)
    order = (
        np.concatenate([r.permutation(ROWS) for _ in range(epochs)])[: steps * batch]
        .reshape(steps, batch)
        .astype(np.int64)
    )
    spec = {
        "model": workload["model"],
        "batch": batch,
        "x": file_of(folder, "x", x[:ROWS]),
        "y": file_of(folder, "y", y[:ROWS]),
        "order": file_of(folder, "order", order),
        "eval_x": file_of(folder, "eval_x", x[ROWS:last]),
        "eval_y": file_of(folder, "eval_y", y[ROWS:last]),
    }
    return spec, source


class Salt:
    """Overwrites batches in the files that all processes map, and puts them back."""

    def __init__(self, spec, seed):
        self.r = np.random.default_rng(seed)
        self.x, self.y, self.order = (
            np.memmap(
                spec[k]["path"],
                np.int64 if spec[k]["dtype"] == "i64" else np.float32,
                "r+",
                shape=tuple(spec[k]["sizes"]),
            )
            for k in ("x", "y", "order")
        )
        self.classes = int(self.y.max()) + 1
        self.saved = []

    def put(self, step):
        rows = self.order[step]
        self.saved.append((rows, self.x[rows].copy(), self.y[rows].copy()))
        if self.x.dtype == np.int64:
            self.x[rows] = self.r.integers(0, self.classes, self.x[rows].shape)
        else:
            self.x[rows] = self.r.standard_normal(self.x[rows].shape, np.float32)
        self.y[rows] = self.r.integers(0, self.classes, self.y[rows].shape)

    def restore(self):
        for rows, x, y in reversed(self.saved):
            self.x[rows], self.y[rows] = x, y
        self.saved.clear()

    def sums(self, first, count):
        """What each step must say it has consumed: the sums of its indices and of its labels."""
        order = self.order[first : first + count]
        return order.sum(1).tolist(), [int(self.y[rows].sum()) for rows in order]
