#!/usr/bin/env python3
"""PyTorch's side of the benchmark on another device than the CPU, as far as that shows without one: on PyTorch's device
"meta", whose tensors have no memory.

    tests/bench_torch_test.py      needs PyTorch
"""

import os
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "bench"))

import bench_data  # noqa: E402
import models  # noqa: E402
import torch_session  # noqa: E402
import torch_tensors  # noqa: E402


class OnADevice(unittest.TestCase):
    def session(self, folder, device):
        """Of the MLP, by an optimizer that takes any device (fused ones do not take "meta")."""
        spec = {"model": "mlp", "batch": 4, "device": device, "init": os.path.join(folder, "init")}
        x, y, order = np.ones((8, 784), np.float32), np.arange(8), np.arange(8).reshape(2, 4)
        for name, array in (("x", x), ("y", y), ("order", order), ("eval_x", x), ("eval_y", y)):
            spec[name] = bench_data.file_of(folder, name, array.astype(array.dtype if name.endswith("x") else np.int64))
        torch_tensors.save(spec["init"], models.MODELS["mlp"]().state_dict())
        make = lambda model, parameters, captured: (torch.optim.Adam(parameters), 0)  # noqa: E731
        with mock.patch.object(models, "make_optimizer", make):
            return torch_session.Session(spec, "eager")

    def test_a_snapshot_goes_where_the_parameters_are(self):
        with tempfile.TemporaryDirectory() as folder:
            trained, path = self.session(folder, "cpu"), os.path.join(folder, "snapshot")
            trained.run(2)
            trained.snapshot(path)
            restored = self.session(folder, "meta")
            self.assertEqual(restored.restore(path, 2), [2] * 6)
            states = restored.optimizer.state
            self.assertEqual(len(states), 6)
            for p, state in states.items():
                self.assertEqual(p.device.type, "meta")
                self.assertEqual({k: t.device.type for k, t in state.items()},
                                 dict.fromkeys(("step", "exp_avg", "exp_avg_sq"), "meta"))  # fmt: skip

    def test_f32_is_f32(self):
        self.assertFalse(torch.backends.cudnn.allow_tf32)
        self.assertFalse(torch.backends.cuda.matmul.allow_tf32)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
