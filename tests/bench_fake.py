#!/usr/bin/env python3
"""A worker of the benchmark without a framework: logistic regression by gradient descent. Told to, it cheats.

tests/bench_fake.py [CHEAT]      CHEATS: what it does wrong, and the proof that must notice
"""

import array
import json
import math
import mmap
import os
import sys
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench"))

import protocol  # noqa: E402
import tensors  # noqa: E402

CHEATS = {
    "weights": 1,  # starts from weights of its own
    "order": 1,  # has another order
    "rate": 2,  # learns at another rate
    "final": 3,  # says that it evaluates better
    "stale": 4,  # copies the data at the start and never looks again (but sums what lies there)
    "late": 4,  # skips the updates of a turn, after the first steps
    "labels": 5,  # does not read the labels of every step
    "skip": 5,  # does half of the steps and says so
    "count": 5,  # its optimizer counts other steps
    "frozen": 4,  # trains, and gives back the weights it had
    "gradients": 7,  # has other gradients than it trains with
}
RATE, FEATURES = 0.1, 4
SECONDS_PER_STEP = 2e-4  # said, not measured: however busy the machine is, turns have the same number of steps


def mapped(spec, kind):
    with open(spec["path"], "r+b") as f:
        return memoryview(mmap.mmap(f.fileno(), 0)).cast(kind)


class Data:
    def __init__(self, spec):
        self.x, self.y, self.order = mapped(spec["x"], "f"), mapped(spec["y"], "q"), mapped(spec["order"], "q")
        self.batch = spec["batch"]

    def indices(self, step):
        return list(self.order[step * self.batch : (step + 1) * self.batch])

    def picture(self, row):
        return list(self.x[row * FEATURES : (row + 1) * FEATURES])


class Model:
    def __init__(self, spec, cheat=""):
        self.data, self.cheat, self.step, self.rate = Data(spec), cheat, 0, RATE
        self.held = list(self.data.x) if cheat == "stale" else None
        if cheat == "rate":
            self.rate = 0.11
        self.restore(spec["init"])
        self.first = list(self.w)
        if cheat == "weights":
            self.w[0] += 1e-3

    def restore(self, path):
        named = tensors.read(path)
        self.w = array.array("f", bytes(named["w"][2]))
        if "optim.w.step" in named:
            self.step = array.array("q", bytes(named["optim.w.step"][2]))[0]
        return self

    def rows(self, step):
        for row in self.data.indices(step):
            x = self.held[row * FEATURES : (row + 1) * FEATURES] if self.held else self.data.picture(row)
            yield x, self.data.y[row]

    def pass_over(self, rows):
        """(mean loss, gradient)."""
        loss, g, n = 0.0, [0.0] * FEATURES, 0
        for x, y in rows:
            z = sum(a * b for a, b in zip(self.w, x))
            loss += math.log1p(math.exp(-abs(z))) + max(z, 0) - y * z
            p = 1 / (1 + math.exp(-z)) - y
            g = [a + p * b for a, b in zip(g, x)]
            n += 1
        return loss / n, [a / n for a in g]

    def gradient(self, step):
        return self.pass_over(self.rows(step))[1]

    def run(self, count):
        losses, labels, first = [], [], self.step
        done = count // 2 if self.cheat == "skip" and count > 1 else count
        for _ in range(done):
            loss, g = self.pass_over(self.rows(self.step))
            losses.append(loss)
            labels.append(0 if self.cheat == "labels" else sum(self.data.y[i] for i in self.data.indices(self.step)))
            if not (self.cheat == "late" and first > 50 and self.step % 2):
                self.w = array.array("f", (a - self.rate * b for a, b in zip(self.w, g)))
            self.step += 1
        seconds = count * SECONDS_PER_STEP
        indices = [sum(self.data.indices(s)) for s in range(first, first + done)]
        found = {"seconds": seconds, "losses": losses, "labels": labels, "indices": indices, "step": self.step}
        return dict(found, cpu=0.0, involuntary=0)

    def evaluate(self):
        rows = [(self.data.picture(i), y) for i, y in enumerate(self.data.y)]
        right = sum((sum(a * b for a, b in zip(self.w, x)) > 0) == (y == 1) for x, y in rows)
        loss = self.pass_over(rows)[0]
        return {"loss": loss * (0.9 if self.cheat == "final" else 1), "accuracy": right / len(rows)}

    def snapshot(self, path):
        w = array.array("f", self.first) if self.cheat == "frozen" else self.w
        tensors.write(
            path,
            {
                "w": ("F32", [FEATURES], w.tobytes()),
                "optim.w.step": ("I64", [1], array.array("q", [self.step + (self.cheat == "count")]).tobytes()),
            },
        )
        return {"step": self.step}

    def gradients(self, step, path):
        g = [a * (1.1 if self.cheat == "gradients" else 1) for a in self.gradient(step)]
        tensors.write(path, {"w": ("F32", [FEATURES], array.array("f", g).tobytes())})
        return {"loss": 0.0}

    def description(self):
        order = zlib.crc32(bytes(self.data.order))
        return {
            "parameters": ["w"],
            "elements": FEATURES,
            "weights": zlib.crc32(self.w.tobytes()),
            "order": order + (self.cheat == "order"),
        }


def main():
    cheat, model, turns = sys.argv[1] if len(sys.argv) > 1 else "", None, 0

    def answer(request):
        nonlocal model, turns
        what = request["do"]
        if cheat == "hang":
            time.sleep(100)
        if what == "INIT":
            model = Model(request["spec"], cheat)
            return model.description()
        if what in ("RUN", "WARM"):
            turns += 1
            if turns == 4:
                if cheat == "die":
                    os._exit(7)
                if cheat == "nonsense":
                    print("Segmentation fault? Not quite.", flush=True)
                if cheat == "error":
                    raise RuntimeError("out of memory")
            return model.run(request["steps"])
        if what == "EVAL":
            return model.evaluate()
        if what == "GRADIENTS":
            return model.gradients(request["step"], request["path"])
        if what in ("SNAPSHOT", "DUMP"):
            return model.snapshot(request["path"])
        raise RuntimeError(f"no request is called {what}")

    protocol.serve(json.loads('{"ready": true, "rss": 0}'), answer)


if __name__ == "__main__":
    main()
