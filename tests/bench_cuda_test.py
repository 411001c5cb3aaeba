#!/usr/bin/env python3
"""The benchmark's worker with device cuda (on the CPU shim), its step as it is and as one CUDA graph: the same bits.

    tests/bench_cuda_test.py WORKER      with the standard library alone
"""

import array
import os
import random
import shutil
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "bench"))

import protocol  # noqa: E402
import tensors  # noqa: E402

ROWS, BATCH, STEPS = 32, 4, 12
LAYERS = {"fc1": (256, 784), "fc2": (128, 256), "fc3": (10, 128)}
worker_path = sys.argv.pop(1) if len(sys.argv) > 1 else ""


class Captured(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        r = random.Random(4)
        draw = lambda n, size: array.array("f", (r.gauss(0, size) for _ in range(n)))  # noqa: E731
        self.spec = {"model": "mlp", "batch": BATCH, "device": "cuda"}
        x, y = draw(ROWS * 784, 1), array.array("q", (r.randrange(10) for _ in range(ROWS)))
        order = array.array("q", (r.randrange(ROWS) for _ in range(STEPS * BATCH)))
        files = {"x": (x, [ROWS, 784]), "y": (y, [ROWS]), "order": (order, [STEPS, BATCH])}
        files.update(eval_x=(x[: 8 * 784], [8, 784]), eval_y=(y[:8], [8]))
        for name, (values, sizes) in files.items():
            with open(self.path(name), "wb") as f:
                f.write(values.tobytes())
            dtype = "f32" if values.typecode == "f" else "i64"
            self.spec[name] = {"path": self.path(name), "dtype": dtype, "sizes": sizes}
        weights = {}
        for name, (out, width) in LAYERS.items():
            weights[name + ".weight"] = ("F32", [out, width], draw(out * width, width**-0.5).tobytes())
            weights[name + ".bias"] = ("F32", [out], draw(out, 0.1).tobytes())
        self.spec["init"] = self.path("init")
        tensors.write(self.spec["init"], weights)

    def path(self, name):
        return os.path.join(self.folder, name)

    def worker(self, **spec):
        w = protocol.Worker("worker", [worker_path], timeout=60).wait_ready()
        self.addCleanup(w.quit)
        w.ask("INIT", spec=dict(self.spec, **spec))
        return w

    def train(self, precision, captured):
        """Everything that a worker says of a training in several turns, with gradients asked for in between, and a
        batch overwritten as the driver does it."""
        w, told = self.worker(precision=precision, captured=captured), []
        with open(self.path("x"), "rb") as f:
            before = f.read()
        for turn, steps in enumerate((1, 2, 3, 4)):
            if turn == 3:
                with open(self.path("x"), "r+b") as f:
                    f.write(bytes(len(before)))
            answer = w.ask("RUN", steps=steps)
            told.append([answer[k] for k in ("losses", "indices", "labels", "step")])
            if turn == 1:
                told.append(w.ask("GRADIENTS", step=0, path=self.path("gradients"))["loss"])
                told.append(w.ask("EVAL"))
        with open(self.path("x"), "wb") as f:
            f.write(before)
        w.ask("SNAPSHOT", path=self.path("after"))
        named = {n: bytes(t[2]) for n, t in tensors.read(self.path("after")).items()}
        return told, named, answer["replays"], w.ask("MEMORY")

    def test_the_same_bits(self):
        for precision in ("f32", "bf16"):
            with self.subTest(precision):
                told, named, replays, memory = self.train(precision, False)
                told_graph, named_graph, replays_graph, memory_graph = self.train(precision, True)
                self.assertEqual(told, told_graph)
                self.assertEqual(sorted(named), sorted(named_graph))
                self.assertEqual([n for n in named if named[n] != named_graph[n]], [])
                self.assertEqual(replays, 0)
                self.assertEqual(replays_graph, 8)  # 10 steps: one as it is, one that is recorded
                steps = [array.array("q", t)[0] for n, t in named.items() if n.endswith(".step") and len(t) == 8]
                self.assertTrue(all(s == 10 for s in steps), steps)
                for m in (memory, memory_graph):
                    self.assertGreaterEqual(m["peak_reserved"], m["peak_allocated"])
                    self.assertGreater(m["peak_allocated"], 4 * 3 * 784 * 256)  # weights and moments

    def test_no_capture_on_the_cpu(self):
        with self.assertRaisesRegex(protocol.WorkerError, "a captured step needs the device cuda"):
            self.worker(precision="f32", captured=True, device="cpu")


if __name__ == "__main__":
    unittest.main()
