"""Tests of the benchmark's harness: statistics, the order of turns, the protocol, and that every way of cheating is
caught.

    tests/bench_test.py [NAME...]      with the standard library alone

The workers here are tests/bench_fake.py: a logistic regression that trains honestly, or cheats in the way it is told.
"""

import array
import contextlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
import zlib
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.join(os.path.dirname(HERE), "bench")
sys.path[:0] = [BENCH, HERE]

import bench_fake  # noqa: E402
import driver  # noqa: E402
import gate  # noqa: E402
import proofs  # noqa: E402
import protocol  # noqa: E402
import report  # noqa: E402
import schedule  # noqa: E402
import stats  # noqa: E402
import tensors  # noqa: E402
import training  # noqa: E402

FAKE = os.path.join(HERE, "bench_fake.py")
ROWS, FEATURES, BATCH, STEPS = 64, 4, 4, 4000


class Statistics(unittest.TestCase):
    def test_percentile(self):
        self.assertEqual(stats.percentile([3, 1, 2], 50), 2)
        self.assertAlmostEqual(stats.percentile(list(range(11)), 90), 9)
        self.assertEqual(stats.percentile([5], 90), 5)

    def test_pairs_are_of_the_same_block(self):
        blocks = [{"a": [1, 2], "b": [2, 6]}, {"a": [None, 1], "b": [4, 5]}, {"a": [1, 1]}]
        self.assertEqual(stats.paired(blocks, "a", "b"), [2, 3, 5])
        self.assertIsNone(stats.summary([{"a": [1]}], "a", "b"))

    def test_drift_of_the_machine_cancels(self):
        """Both sides slow down together by a factor of ten: the paired ratio does not notice."""
        blocks = [{"a": [s, 1.01 * s], "b": [2 * s, 2.02 * s]} for s in (1 + i for i in range(10))]
        found = stats.summary(blocks, "a", "b")
        self.assertAlmostEqual(found["ratio"], 2)
        self.assertAlmostEqual(found["low"], 2)

    def test_interval_covers_the_truth(self):
        r, hits = random.Random(1), 0
        for trial in range(60):
            values = [r.gauss(2, 0.3) for _ in range(30)]
            low, high = stats.bootstrap(values, trial, draws=400)
            hits += low <= 2 <= high
        self.assertGreaterEqual(hits, 51)

    def test_same_seed_same_interval(self):
        values = [random.Random(2).random() for _ in range(30)]
        self.assertEqual(stats.bootstrap(values, 7), stats.bootstrap(values, 7))

    def test_disturbed_turns_are_left_out_unless_most_are(self):
        blocks, busy = stats.chosen([{"a": [[1, True], [9, False]], "b": [[2, True], [2, True]]}])
        self.assertEqual((blocks, busy), ([{"a": [1, None], "b": [2, 2]}], False))
        blocks, busy = stats.chosen([{"a": [[1, False], [9, False]], "b": [[2, True], [2, False]]}])
        self.assertEqual((blocks, busy), ([{"a": [1, 9], "b": [2, 2]}], True))


class Schedule(unittest.TestCase):
    def test_blocks_are_mirrored_and_random(self):
        r, seen = random.Random(1), set()
        for _ in range(200):
            order = schedule.block_order("abc", r)
            self.assertEqual(order, order[::-1])
            self.assertEqual(sorted(order[:3]), list("abc"))
            seen.add(tuple(order))
        self.assertEqual(len(seen), 6)

    def test_salt_stays_in_its_turn(self):
        r, salted = random.Random(1), []
        for _ in range(200):
            salted += schedule.salted_steps(100, 20, r)
        self.assertTrue(all(100 <= s < 120 for s in salted))
        self.assertTrue(60 < len(salted) < 140)
        self.assertEqual(len(set(salted)), 20)

    def test_turn_length(self):
        self.assertEqual(schedule.steps_per_turn(0.001, 0.25), 250)
        self.assertEqual(schedule.steps_per_turn(3, 0.25), 1)


class MachineLoad(unittest.TestCase):
    def verdict(self, used, wall, involuntary=0):
        clock, others = iter([0, wall]), iter([10, 10 + used])
        g = gate.Gate(cores=2, clock=lambda: next(clock), others=lambda _: next(others))
        g.begin(1)
        return g.verdict(involuntary)

    def test_quiet(self):
        self.assertTrue(self.verdict(0.09, 1)[0])
        self.assertFalse(self.verdict(0.11, 1)[0])
        self.assertTrue(self.verdict(0.02, 0.01)[0])  # ticks
        self.assertFalse(self.verdict(0, 1, involuntary=1000)[0])

    def test_others_are_seen(self):
        before = gate.others_seconds(0)
        subprocess.run(
            [
                sys.executable,
                "-c",
                "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass",
            ],
            check=True,
        )
        self.assertGreaterEqual(
            gate.others_seconds(0) - before, 0.15
        )  # it has ended: it is in this program's children

    def test_a_busy_machine_keeps_results_and_says_so(self):
        result = Fake().run({"mantissa": "", "eager": ""}, quiet=False)
        self.assertTrue(result["busy"])
        self.assertIn("mantissa / eager", result["ratios"])
        self.assertEqual(result["redone"], 1)


class Fake:
    """Everything that training.Training needs, with fake workers."""

    def __init__(self):
        self.lines = []

    def spec(self, folder):
        r = random.Random(3)
        labels = array.array("q", (r.randrange(2) for _ in range(ROWS)))
        pictures = array.array(
            "f", (r.gauss(0.5 if labels[i // FEATURES] else -0.5, 1) for i in range(ROWS * FEATURES))
        )
        order = array.array("q", (r.randrange(ROWS) for _ in range(STEPS * BATCH)))
        spec = {"model": "fake", "batch": BATCH, "device": "cpu"}
        x, y = (pictures, [ROWS, FEATURES]), (labels, [ROWS])
        files = {"x": x, "y": y, "eval_x": x, "eval_y": y, "order": (order, [STEPS, BATCH])}
        for name, (values, sizes) in files.items():
            path = os.path.join(folder, name)
            with open(path, "wb") as f:
                f.write(values.tobytes())
            spec[name] = {"path": path, "dtype": "f32" if values.typecode == "f" else "i64", "sizes": sizes}
        return spec

    def run(self, cheats, quiet=True, blocks=4, asked=(2, 3, 4, 5, 6, 7), peak=1e12, broken=()):
        """cheats: {side: how it cheats, "" for an honest one}. broken: methods of the reference that fail."""
        folder = tempfile.mkdtemp()
        workers = {}
        try:
            spec = self.spec(folder)
            for side, cheat in cheats.items():
                workers[side] = protocol.Worker(side, [sys.executable, FAKE, cheat], timeout=20).wait_ready()
            settings = {"blocks": blocks, "seconds": 60, "turn": 0.005, "redo": 1, "proofs": asked,
                        "ceilings": {"f32": peak, "bf16": peak, "copies": [[1e9, 1e12]]}}  # fmt: skip
            others = (lambda _: 0.0) if quiet else (lambda _, n=iter(range(1 << 30)): float(next(n)))
            g = gate.Gate(cores=2, others=others, involuntary=1e9)
            reference = Reference(spec, folder)
            for name in broken:
                setattr(reference, name, mock.Mock(side_effect=MemoryError("none left\non the GPU")))
            run = training.Training(
                workers, reference, Salt(spec), g, spec, settings, 5, folder, self.lines.append
            )
            return run.all()
        finally:
            for w in workers.values():
                w.quit()
            shutil.rmtree(folder)


class Reference:
    """bench/reference.py for the fake model."""

    def __init__(self, spec, folder):
        init = os.path.join(folder, "init")
        weights = array.array("f", [0.1, -0.2, 0.3, 0.05])
        tensors.write(init, {"w": ("F32", [FEATURES], weights.tobytes())})
        self.spec = dict(spec, init=init)
        self.weights = zlib.crc32(weights.tobytes())
        with open(spec["order"]["path"], "rb") as f:
            self.order = zlib.crc32(f.read())

    def model(self, path):
        model = bench_fake.Model(self.spec)
        return model.restore(path) if path else model

    def evaluate(self, _precision, path):
        return self.model(path).evaluate()

    def replay(self, _precision, path, step, count):
        model = self.model(path)
        counted, model.step = [model.step], step
        return model.run(count)["losses"], counted

    def perturbed(self, _precision, steps):
        return self.model(None).run(steps)["losses"]

    def gradients64(self, path, step):
        return {"w": self.model(path).gradient(step)}

    def gradients(self, _precision, path, step):
        return self.gradients64(path, step)

    @staticmethod
    def parameters(path, names):
        named = tensors.read(path)
        return {n: named[n][2] for n in names}

    @staticmethod
    def errors(found, true):
        if isinstance(found, str):
            found = {n: array.array("f", bytes(t[2])) for n, t in tensors.read(found).items()}
        return {n: max(abs(a - b) for a, b in zip(found[n], g)) / max(map(abs, g)) for n, g in true.items()}

    def work(self):
        return {"flops": 100, "least_flops": 100, "bytes": 64}


class Salt:
    """bench_data.Salt without NumPy."""

    def __init__(self, spec):
        self.r, self.saved = random.Random(9), []
        self.data = bench_fake.Data(spec)

    def put(self, step):
        for row in self.data.indices(step):
            self.saved.append((row, self.data.picture(row), self.data.y[row]))
            for i in range(FEATURES):
                self.data.x[row * FEATURES + i] = self.r.gauss(0, 1)
            self.data.y[row] = self.r.randrange(2)

    def restore(self):
        for row, picture, label in reversed(self.saved):
            for i in range(FEATURES):
                self.data.x[row * FEATURES + i] = picture[i]
            self.data.y[row] = label
        self.saved.clear()

    def sums(self, first, count):
        rows = [self.data.indices(s) for s in range(first, first + count)]
        return [sum(r) for r in rows], [sum(self.data.y[i] for i in r) for r in rows]


class Honesty(unittest.TestCase):
    def test_honest_workers_pass_every_proof(self):
        result = Fake().run({"mantissa": "", "eager": "", "eager-nhwc": ""})
        self.assertEqual(result["missing"], [])
        self.assertEqual(
            sorted(result["sides"]["mantissa"]["proofs"]), ["1", "2", "3", "4", "5", "6", "7 end", "7 start"]
        )
        self.assertIn("mantissa / eager", result["ratios"])
        self.assertEqual(len(result["blocks"]), 4)
        self.assertEqual(training.best_peer(result, "f32") in ("eager", "eager-nhwc"), True)

    def test_no_ratio_and_no_time_of_a_cheat(self):
        """Every proof has somebody who fails it, and whoever fails one has no ratio."""
        for cheat, proof in bench_fake.CHEATS.items():
            with self.subTest(cheat):
                fake = Fake()
                result = fake.run({"mantissa": cheat, "eager": ""}, blocks=6)
                self.assertEqual(result["missing"], ["mantissa"], cheat)
                self.assertEqual(result["ratios"], {}, cheat)
                self.assertIn(f"proof {proof} ", result["sides"]["mantissa"]["failed"], cheat)
                self.assertEqual(len(fake.lines), 1)

    def test_faster_than_the_machine(self):
        result = Fake().run({"mantissa": "", "eager": ""}, peak=10)
        self.assertIn("proof 6 (roof)", result["sides"]["mantissa"]["failed"])

    def test_winograd_is_allowed_and_named(self):
        line, share = proofs.below_roof("x", 1, {"flops": 200, "least_flops": 50, "bytes": 1}, 100, 100)
        self.assertIn("Winograd", line)
        self.assertEqual(share, 2)
        with self.assertRaises(proofs.Failed):
            proofs.below_roof("x", 1, {"flops": 1, "least_flops": 1, "bytes": 200}, 100, 100)

    def test_every_parameter_must_move(self):
        proofs.parameters_moved("x", {"a": b"1", "b": b"2"}, {"a": b"3", "b": b"4"}, ([5, 5], 5))
        with self.assertRaisesRegex(proofs.Failed, "left b as it was"):
            proofs.parameters_moved("x", {"a": b"1", "b": b"2"}, {"a": b"3", "b": b"2"}, ([5, 5], 5))

    def test_mixed_precision_curve(self):
        curve = [2 / (1 + i / 10) for i in range(50)]
        proofs.same_curve("x", [v * 1.005 for v in curve], curve)
        with self.assertRaises(proofs.Failed):
            proofs.same_curve("x", [v * 1.02 for v in curve], curve)
        proofs.same_curve("x", [v * 1.02 for v in curve], curve, [[v * 0.99 for v in curve]])

    def test_no_spread_excuses_everything(self):
        for spread in (float("inf"), float("nan"), 0.5):
            with self.assertRaises(proofs.Failed):
                proofs.same_losses("x", [1.2] * 9, [1.0] * 9, kin=[[1 + spread] * 9])
            with self.assertRaises(proofs.Failed):
                proofs.same_curve("x", [1.2], [1.0], [[1 + spread]])

    def test_chaos_ends_the_comparison(self):
        reference, kin = [1.0] * 20, [1.0] * 10 + [1.5] * 10
        self.assertIn("10 losses", proofs.same_losses("x", [1.0] * 10 + [2.0] * 10, reference, kin=[kin]))
        with self.assertRaisesRegex(proofs.Failed, "step 9"):
            proofs.same_losses("x", [1.0] * 9 + [2.0] * 11, reference, kin=[kin])

    def test_not_a_number_is_not_equal(self):
        for a, b in ((float("nan"), 1.0), (1.0, float("nan")), (float("nan"),) * 2):
            with self.assertRaises(proofs.Failed):
                proofs.same_losses("x", [a], [b])
        with self.assertRaises(proofs.Failed):
            proofs.same_gradients("x", {"w": float("nan")}, {"w": 0.0}, "f32")


class Accidents(unittest.TestCase):
    """A worker that dies, hangs or talks nonsense costs its own result and nothing else."""

    def test_one_side_is_lost_the_others_stay(self):
        for cheat in ("die", "nonsense", "error"):
            with self.subTest(cheat):
                fake = Fake()
                result = fake.run({"mantissa": "", "eager": "", "eager-nhwc": cheat})
                self.assertEqual(result["missing"], ["eager-nhwc"])
                self.assertIn("mantissa / eager", result["ratios"])
                self.assertEqual(len(fake.lines), 1, fake.lines)

    def test_a_reference_that_fails_costs_its_proof_alone(self):
        for broken in ("work", "replay", "gradients", "gradients64", "evaluate", "perturbed"):
            with self.subTest(broken):
                result = Fake().run({"mantissa": "", "eager": "", "eager-nhwc": ""}, broken=[broken])
                self.assertEqual(result["unproven"], "MemoryError: none left")
                self.assertEqual(result["missing"], [])
                self.assertEqual(len(result["blocks"]), 4)
                self.assertIn("mantissa / eager", result["ratios"])

    def test_hang(self):
        w = protocol.Worker("x", [sys.executable, FAKE, "hang"], timeout=20).wait_ready()
        with self.assertRaisesRegex(protocol.WorkerError, "no answer to EVAL in 0.2 s"):
            w.ask("EVAL", 0.2)
        self.assertFalse(w.alive())

    def test_no_such_program(self):
        with self.assertRaisesRegex(protocol.WorkerError, "cannot be started"):
            protocol.Worker("x", ["/nonexistent/worker"])

    def test_death_at_the_start(self):
        with self.assertRaisesRegex(protocol.WorkerError, "exit code 3"):
            protocol.Worker("x", [sys.executable, "-c", "raise SystemExit(3)"]).wait_ready()
        with self.assertRaisesRegex(protocol.WorkerError, "SIGKILL"):
            protocol.Worker("x", ["sh", "-c", "kill -9 $$"]).wait_ready()

    def test_not_json(self):
        with self.assertRaisesRegex(protocol.WorkerError, "not JSON"):
            protocol.Worker("x", ["sh", "-c", "echo hello"]).wait_ready()
        with self.assertRaisesRegex(protocol.WorkerError, "not JSON"):
            protocol.Worker("x", ["sh", "-c", "echo '[1]'"]).wait_ready()

    def test_serve_survives_bad_requests(self):
        sink = io.StringIO()
        protocol.serve(
            {"ready": True},
            lambda r: {"got": r["do"]},
            io.StringIO('nonsense\n{"x": 1}\n{"do": "A"}\n{"do": "QUIT"}\n{"do": "B"}\n'),
            sink,
        )
        lines = sink.getvalue().splitlines()
        self.assertEqual(len(lines), 4)
        self.assertIn("error", lines[1])
        self.assertIn("error", lines[2])
        self.assertEqual(lines[3], '{"got": "A"}')


class Interrupted(unittest.TestCase):
    """What was measured when the time ends, or a proof breaks off, is kept and called not proven."""

    def train(self, error, blocks=({"mantissa": [[1, True]]},)):
        bench = mock.Mock(parts=("workloads", "memory"), result={"workloads": {}})
        run = mock.Mock(blocks=list(blocks))
        run.all.side_effect, run.result.return_value = error, {"sides": {}}
        try:
            driver.Bench.train(bench, "mlp", run, {"title": "MLP"})
        finally:
            self.found = bench.result["workloads"].get("mlp")
            self.lacking = driver.Bench.lacking(bench, "mlp")
        bench.problem.assert_called_once()

    def test_the_end_of_the_time(self):
        with self.assertRaises(KeyboardInterrupt):
            self.train(KeyboardInterrupt)
        self.assertEqual(self.found, {"sides": {}, "title": "MLP", "unproven": "interrupted"})
        self.assertEqual(self.lacking, ["workloads", "memory"])

    def test_an_error(self):
        self.train(RuntimeError("out of memory\nin a kernel"))
        self.assertEqual(self.found["unproven"], "RuntimeError: out of memory")

    def test_nothing_was_measured_yet(self):
        with self.assertRaises(RuntimeError):
            self.train(RuntimeError("out of memory"), blocks=())
        self.assertIsNone(self.found)

    def test_proven_results_stay(self):
        bench = mock.Mock(parts=("workloads", "memory"), result={"workloads": {"mlp": {"sides": {}}}})
        self.assertEqual(driver.Bench.lacking(bench, "mlp"), ["memory"])

    def test_a_second_signal_does_not_end_the_saving(self):
        code = f"""if True:
            import os, signal, sys, time
            sys.path.insert(0, {BENCH!r})
            sys.argv = ["driver", "--worker", "x", "--out", os.devnull]
            import driver
            def stop(*_):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(9)
            def close(*_):
                os.kill(os.getpid(), signal.SIGTERM)
                print("closed")
            driver.Bench.everything, driver.Bench.close = stop, close
            sys.exit(driver.main())"""
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        self.assertEqual((found.returncode, found.stdout), (1, "closed\n"), found.stderr)


class Program(unittest.TestCase):
    """The command line: one line and an exit code."""

    def command(self, *args, **environment):
        return subprocess.run([sys.executable, os.path.join(BENCH, "driver.py"), *args], capture_output=True, text=True,
                              env=dict(os.environ, **environment), timeout=100)  # fmt: skip

    def folder(self, **modules):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        for name, text in modules.items():
            with open(os.path.join(folder, name + ".py"), "w") as f:
                f.write(text)
        return folder

    def test_pytorch_is_missing(self):
        path = self.folder(torch="raise ImportError('No module named torch')")
        found = self.command("--worker", "x", "--out", os.path.join(path, "out"), PYTHONPATH=path)
        self.assertEqual(found.returncode, 2)
        self.assertEqual(found.stderr.count("\n"), 1, found.stderr)
        self.assertIn("PyTorch cannot be used", found.stderr)

    def test_another_version_and_no_permission_to_pin(self):
        path = self.folder(
            torch="__version__ = '1.0'\ndef set_num_threads(n): pass\ndef set_flush_denormal(b): pass\n"
        )
        out = os.path.join(path, "out")
        found = self.command("--worker", "x", "--out", out, "--parts", "build", "--cores", "100000", PYTHONPATH=path)
        self.assertEqual(found.returncode, 1)
        self.assertIn("cannot pin", found.stderr)
        self.assertIn("PyTorch 1.0 is installed", found.stderr)
        self.assertTrue(os.path.exists(out))

    def test_two_gpus_do_not_make_one_result(self):
        path = self.folder(
            torch="__version__ = '1.0'\ndef set_num_threads(n): pass\ndef set_flush_denormal(b): pass\n"
            "class cuda:\n    is_available = staticmethod(lambda: True)\n"
            "    get_device_name = staticmethod(lambda i: 'GPU B')\n"
        )
        out = os.path.join(path, "out")
        before = json.dumps({"meta": {"gpu": "GPU A", "commit": ""}, "workloads": {}, "operators": {}})
        with open(out, "w") as f:
            f.write(before)
        arguments = ("--worker", "x", "--out", out, "--device", "cuda", "--parts", "build")
        found = self.command(*arguments, "--resume", PYTHONPATH=path)
        self.assertEqual((found.returncode, found.stderr.count("\n")), (2, 1), found.stderr)
        self.assertIn("was begun on GPU A, and this is GPU B", found.stderr)
        with open(out) as f:
            self.assertEqual(f.read(), before)
        self.command(*arguments, PYTHONPATH=path, MANTISSA_COMMIT="0123")
        with open(out) as f:
            self.assertEqual(json.load(f)["meta"]["gpu"], "GPU B")

    def test_the_script_without_python_or_pytorch(self):
        for python, line in (("/nonexistent/python", "no /nonexistent/python"), ("false", "has no PyTorch")):
            found = subprocess.run(["sh", os.path.join(BENCH, "run.sh")], capture_output=True, text=True,
                                   env=dict(os.environ, PYTHON=python))  # fmt: skip
            self.assertEqual(found.returncode, 2)
            self.assertEqual(found.stderr.count("\n"), 1, found.stderr)
            self.assertIn(line, found.stderr)

    def test_no_such_workload(self):
        found = self.command("--worker", "x", "--workload", "alexnet")
        self.assertEqual(found.returncode, 2)
        self.assertIn("no workload is called alexnet", found.stderr)


class Report(unittest.TestCase):
    def result(self):
        side = {"ms": {"median": 1.0, "min": 0.9, "p90": 1.2}, "failed": None}
        slow = {"ms": {"median": 2.5, "min": 2.4, "p90": 2.6}, "failed": None}
        ratio = {"ratio": 2.5, "low": 2.4, "high": 2.6}
        good = {"title": "good", "sides": {"mantissa": side, "eager": slow}, "ratios": {"mantissa / eager": ratio}}
        bad = {
            "title": "bad",
            "sides": {"mantissa": dict(side, failed="proof 4 (salt): x"), "eager": slow},
            "ratios": {},
        }
        meta = {
            "cpu": "C",
            "cores": [0, 1],
            "commit": "0123456789abcdef",
            "changed": False,
            "date": "2000-01-01",
            "quick": False,
        }
        return {"meta": meta, "workloads": {"good": good, "bad": bad}}

    def test_table(self):
        table = report.results(self.result())
        self.assertIn("| good | f32 | 1.000 | 2.500 | eager | **2.50x** [2.40, 2.60] |", table)
        self.assertIn("none: proof 4 (salt): x", table)

    def test_what_broke_off_has_no_times(self):
        result = self.result()
        result["workloads"]["good"]["unproven"] = "interrupted"
        table = report.results(report.only_proven(result))
        self.assertIn("| good | f32 |  |  |  | none: not proven (interrupted) |", table)

    def test_only_between_the_markers(self):
        page = "a\n" + report.BEGIN.format("results") + "old\n" + report.END.format("results") + "\nb\n"
        new = report.put(page, "results", "new\n")
        self.assertEqual(new, page.replace("old", "new"))
        self.assertEqual(report.put("no markers", "results", "new\n"), "no markers")


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        unittest.main()
