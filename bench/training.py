"""One workload: all sides train in turns, and every proof is asked for. No PyTorch here, so that tests can run it
with a fake reference and workers that cheat (tests/bench_test.py)."""

import contextlib
import math
import os
import random
import time

import proofs
import schedule
import stats
import tensors
from protocol import WorkerError

SETTLE = 0.01  # seconds between turns, in which a worker's idle threads stop spinning
LEAST_BLOCKS = 8  # however slow the workload
MOST_LOSSES = 400  # kept in the result


def precision_of(side):
    return "bf16" if "bf16" in side or "amp" in side else "f32"


def ours(side):
    return side.startswith("mantissa")


def captured(side):
    """Whether Mantissa's step is one CUDA graph (jit::capture)."""
    return ours(side) and "graph" in side


class Training:
    """workers: {side: Worker}; reference: bench/reference.py; salt: bench_data.Salt; gate: gate.Gate; spec: of INIT.

    peer_device, if in settings: where PyTorch computes, else where Mantissa does.
    settings: blocks, seconds (after which no further block begins), turn (seconds), redo (blocks that may be
    repeated), proofs (of 2 to 7, those to ask for beyond 1 and 5), ceilings (bench/ceilings.h).
    """

    def __init__(self, workers, reference, salt, gate, spec, settings, seed, folder, say=print):
        self.workers, self.reference, self.salt, self.gate = dict(workers), reference, salt, gate
        self.spec, self.settings, self.folder, self.say = spec, settings, folder, say
        self.r = random.Random(seed)
        self.seed = seed
        self.losses = {s: [] for s in workers}
        self.proven = {s: {} for s in workers}
        self.failed, self.first_step, self.gradient_errors, self.share = {}, {}, {}, {}
        self.left_out, self.work, self.warmed = {}, None, False
        self.blocks, self.loads, self.step, self.turn = [], [], 0, 1
        self.unsalted, self.moved, self.redone, self.unproven = None, None, 0, None

    # --- what can go wrong with a side: it is left out from then on, and said so in one line ---
    def fail(self, side, error):
        self.failed[side] = str(error)
        self.say(f"  {error}")
        self.workers.pop(side, None)

    @contextlib.contextmanager
    def judged(self, side):
        """What fails in it costs the side its result. What fails in the reference, as where a GPU's memory runs out,
        is not the side's fault and costs the workload a proof."""
        try:
            yield
        except (WorkerError, proofs.Failed) as e:
            self.fail(side, e)
        except Exception as e:
            self.unproven = self.unproven or f"{type(e).__name__}: {e}".splitlines()[0]
            self.say(f"  {side}: {self.unproven}")

    def each(self, action):
        for side in list(self.workers):
            with self.judged(side):
                action(side)

    def file(self, name):
        return os.path.join(self.folder, name)

    # --- the phases ---
    def start(self, side):
        spec = dict(self.spec, precision=precision_of(side), init=self.reference.spec["init"])
        spec["captured"] = captured(side)
        if not ours(side):
            spec["device"] = self.settings.get("peer_device", spec.get("device"))
        got = self.workers[side].ask("INIT", 120, spec=spec)
        self.names = got["parameters"]
        self.proven[side]["1"] = proofs.same_start(side, got, self.reference.weights, self.reference.order)

    def gradients(self, when):
        """Proof 7: of one batch, against f64, and PyTorch's own error in the same precision beside it."""
        step, known = self.r.randrange(self.step + 1), {}
        for side in [s for s in self.workers if ours(s)]:
            with self.judged(side):
                self.gradients_of(side, precision_of(side), when, step, known)

    def gradients_of(self, side, precision, when, step, known):
        """known: what PyTorch has computed of this step. In the beginning all sides have the same weights."""
        path, weights = self.file("gradients"), None
        if when == "end":
            known, weights = {}, self.file("weights")
            self.workers[side].ask("SNAPSHOT", 120, path=weights)
        self.workers[side].ask("GRADIENTS", 300, step=step, path=path)
        if "f64" not in known:
            known["f64"] = self.reference.gradients64(weights, step)
        if precision not in known:
            peers = self.reference.gradients(precision, weights, step)
            known[precision] = self.reference.errors(peers, known["f64"])
        found, peer = self.reference.errors(path, known["f64"]), known[precision]
        self.gradient_errors.setdefault(side, {})[when] = {n: [found[n], peer[n]] for n in found}  # ours, PyTorch's
        self.proven[side][f"7 {when}"] = proofs.same_gradients(side, found, peer, precision)

    def run(self, side, count, timeout):
        """A turn: its seconds, whether the machine was quiet, and the losses. Checks what was consumed."""
        time.sleep(SETTLE)
        indices, labels = self.salt.sums(self.step, count)
        self.gate.begin(self.workers[side].process.pid)
        answer = self.workers[side].ask("RUN", timeout, steps=count)
        quiet, share, switches = self.gate.verdict(answer["involuntary"])
        proofs.conserved(side, answer, self.step, indices, labels)
        losses = [math.nan if loss is None else loss for loss in answer["losses"]]  # JSON has no NaN
        self.losses[side] += losses
        self.loads.append((share, switches))
        return answer["seconds"], quiet, losses

    def warm(self):
        """The first step (which compiles), a few more, and from their time the length of a turn."""
        self.each(lambda side: self.first_step.__setitem__(side, self.run(side, 1, 900)[0]))
        self.step += 1
        probe, times = 2, {}
        for attempt in range(6):  # the least of two or more: what is slow at first only is not slow
            found = {}
            self.each(lambda side: found.__setitem__(side, self.run(side, probe, 300)[0] / probe))
            self.step += probe
            times = {s: min(t, times.get(s, t)) for s, t in found.items()}
            if attempt > 0 and (not times or max(times.values()) * probe > 0.02 or self.step > 200):
                break
            if max(times.values(), default=1) * probe < 0.02:
                probe *= 4
        self.leave_out_slow(times)
        slow = [t for s, t in times.items() if not ours(s)] or list(times.values()) or [1]
        self.turn = schedule.steps_per_turn(min(slow), self.settings["turn"])
        room = self.spec["order"]["sizes"][0] - self.step
        most = 2 * (self.settings["blocks"] + 1 + self.settings["redo"])
        self.turn = max(1, min(self.turn, room // most))

    def leave_out_slow(self, times):
        """A mode of PyTorch that takes over twice as long as another one will not be its fastest: its time is kept, and
        the minutes that its turns would take are saved."""
        for precision in ("f32", "bf16"):
            theirs = {s: t for s, t in times.items() if not ours(s) and precision_of(s) == precision}
            known = ("eager", "amp")  # they are always measured
            for side in [
                s for s, t in theirs.items() if s not in known and t > 2 * min(theirs.values()) and t > 0.005
            ]:
                self.left_out[side] = times[side]
                del self.workers[side]

    def block(self, probe_side):
        """Two turns of every side. probe_side: its first turn is salted, and repeated by the reference from a
        snapshot."""
        order = schedule.block_order(self.workers, self.r)
        first, seconds, quiet = self.step, {s: [] for s in order}, True
        salted = (
            [first + self.r.randrange(min(self.turn, 20))]
            if probe_side
            else schedule.salted_steps(first, self.turn, self.r)
        )
        salted += schedule.salted_steps(first + self.turn, self.turn, self.r)
        if not self.warmed:  # the first block is left without, so that losses can be compared for a while
            self.warmed, salted = True, []
        for step in salted:
            self.salt.put(step)
        if salted and self.unsalted is None:
            self.unsalted = first  # its rows may be in any batch of this block
        for i, side in enumerate(order):
            self.step = first if i < len(order) // 2 else first + self.turn
            if side not in self.workers:
                continue
            with self.judged(side):
                if side == probe_side and self.step == first:
                    self.workers[side].ask("SNAPSHOT", 120, path=self.file("before"))
                t, good, losses = self.run(side, self.turn, max(30, 40 * self.settings["turn"] + 20 * self.slowest()))
                seconds[side].append([t, good])
                quiet = quiet and good
                if side == probe_side and self.step == first:
                    self.repeat(side, first, losses, salted)
        self.step = first + 2 * self.turn
        self.salt.restore()
        return {s: t for s, t in seconds.items() if t}, quiet

    def slowest(self):
        return max(self.first_step.values(), default=1)

    def repeat(self, side, first, losses, salted):
        """Proof 4, and from the same snapshots proof 5."""
        self.workers[side].ask("SNAPSHOT", 120, path=self.file("after"))
        positions = [s - first for s in salted if s < first + self.turn]
        count = min(self.turn, max(positions) + 1)
        replayed, counted = self.reference.replay(precision_of(side), self.file("before"), first, count)
        self.proven[side]["4"] = proofs.same_salted_turn(
            side, losses[:count], replayed, positions, precision_of(side)
        )
        before, after = (self.reference.parameters(self.file(f), self.names) for f in ("before", "after"))
        self.proven[side]["5"] = proofs.parameters_moved(side, before, after, (counted, first))

    def end(self, side):
        """Proof 3: the final weights, evaluated by PyTorch."""
        if not ours(side):
            return
        worker, path = self.workers[side], self.file("final")
        worker.ask("DUMP", 120, path=path)
        own, other = worker.ask("EVAL", 300), self.reference.evaluate(precision_of(side), path)
        own["loss"] = math.nan if own["loss"] is None else own["loss"]
        self.proven[side]["3"] = proofs.same_evaluation(side, own, other, precision_of(side))

    def compare_losses(self, side):
        """Proof 2: ours against eager PyTorch of the same precision, and eager PyTorch's kin among themselves."""
        precision = precision_of(side)
        peers = [s for s in self.losses if not ours(s) and precision_of(s) == precision and self.losses[s]]
        if not peers or not ours(side):
            return
        peer = self.losses[peers[0]]
        if precision == "f32":
            kin = [self.losses[s] for s in peers[1:] if s not in self.left_out] + [self.perturbed(peer)]
            limit = proofs.loss_limit(self.counted_work())
            self.proven[side]["2"] = proofs.same_losses(side, self.losses[side], peer, limit=limit, kin=kin)
        else:
            kin = [self.losses[s] for s in self.losses if not ours(s) and s != peers[0]]
            self.proven[side]["2"] = proofs.same_curve(side, self.losses[side], peer, kin)

    def perturbed(self, peer):
        """The losses of PyTorch when it starts a few roundings away: the steps before the first salt, which is gone."""
        if self.moved is None:
            steps = min(proofs.LOSS_STEPS, self.unsalted or len(peer))
            self.moved = self.reference.perturbed("f32", steps)
        return self.moved

    def all(self):
        asked = self.settings["proofs"]
        self.each(self.start)
        if 7 in asked:
            self.gradients("start")
            self.each(lambda side: ours(side) and self.start(side))  # gradients have moved statistics of batch norms
        self.warm()
        sides = [s for s in self.workers if ours(s)] + (
            [s for s in self.workers if not ours(s)] if self.settings.get("probe_all") else []
        )
        probes = {1 + i: s for i, s in enumerate(self.r.sample(sides, len(sides)))} if 4 in asked else {}
        number, begin = 0, time.monotonic()
        while (number < self.settings["blocks"] + 1 or probes) and self.workers:
            if (
                number > max(LEAST_BLOCKS, len(probes))
                and time.monotonic() - begin > self.settings["seconds"]
                and not probes
            ):
                break
            seconds, quiet = self.block(probes.pop(number, None))
            if number > 0:  # the first one warms up
                self.blocks.append(seconds)
            if quiet or number == 0 or self.redone >= self.settings["redo"]:
                number += 1
            else:
                self.redone += 1
        if 3 in asked:
            self.each(self.end)
        if 2 in asked:
            self.each(self.compare_losses)
        if 7 in asked:
            self.gradients("end")
        if 6 in asked:
            self.each(self.roof)
        return self.result()

    def counted_work(self):
        self.work = self.work or self.reference.work()
        return self.work

    def roof(self, side):
        """Proof 6, and for PyTorch the same numbers."""
        work, ceiling, precision = self.counted_work(), self.settings["ceilings"], precision_of(side)
        ms = stats.times(stats.chosen(self.blocks)[0], side, self.turn)
        if not ms:
            return
        copy = proofs.copy_ceiling(ceiling["copies"], work["bytes"])
        line, share = proofs.below_roof(side, ms["min"] / 1e3, work, ceiling[precision], copy)
        self.proven[side]["6"], self.share[side] = line, share

    def result(self):
        blocks, busy = stats.chosen(self.blocks)
        sides = {}
        for side in self.losses:
            sides[side] = {
                "ms": stats.times(blocks, side, self.turn),
                "first_step": self.first_step.get(side),
                "failed": self.failed.get(side),
                "proofs": self.proven[side],
                "share_of_peak": self.share.get(side),
                "losses": self.losses[side][:MOST_LOSSES],
            }
        ratios = {}
        for precision in ("f32", "bf16"):
            for mine in (s for s in sides if ours(s) and precision_of(s) == precision):
                if self.failed.get(mine) or not sides[mine]["ms"]:
                    continue
                for side in sides:
                    if side != mine and not captured(side) and not self.failed.get(side):
                        ratio = stats.summary(blocks, mine, side, self.seed)
                        if ratio:
                            ratios[f"{mine} / {side}"] = ratio
        missing = [s for s in sides if s not in self.left_out and (self.failed.get(s) or not sides[s]["ms"])]
        unproven = {"unproven": self.unproven} if self.unproven else {}
        return {
            **unproven,
            "steps_per_turn": self.turn,
            "sides": sides,
            "ratios": ratios,
            "blocks": self.blocks,
            "redone": self.redone,
            "busy": busy,
            "loads": [[round(a, 4), b] for a, b in self.loads],
            "missing": missing,
            "left_out": self.left_out,
            "gradient_errors": self.gradient_errors,
            "seed": self.seed,
        }


def best_peer(result, precision):
    """PyTorch's fastest mode in this precision by median: its name, or None."""
    sides = {
        s: v["ms"]["median"]
        for s, v in result["sides"].items()
        if not ours(s) and precision_of(s) == precision and v["ms"] and not v["failed"]
    }
    return min(sides, key=sides.get) if sides else None
