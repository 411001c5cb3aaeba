"""Was the machine quiet during a turn? What every other program used of it, from /proc, and how often the worker lost
its core.

A sum over processes and not the first line of /proc/stat: that one samples with the clock tick, and is off by several
per cent over a tenth of a second where threads sleep and wake quickly. Time of children that ended is in their
parents', so that a compiler which came and went is counted as well.
"""

import os
import time

TICK = os.sysconf("SC_CLK_TCK")


def others_seconds(worker, root="/proc"):
    """Processor time of all processes but `worker` (a number) since they began, and what the host of this machine
    took."""
    total = 0
    for name in os.listdir(root):
        if not name.isdigit() or int(name) == worker:
            continue
        try:
            with open(f"{root}/{name}/stat", "rb") as f:
                fields = f.read().rsplit(b")", 1)[1].split()
        except OSError:  # it has ended
            continue
        total += sum(map(int, fields[11:15]))
    with open(f"{root}/stat") as f:
        total += int(f.readline().split()[8])  # stolen
    return total / TICK


class Gate:
    """share: of the machine that others may use, and always three ticks of the clock: what is counted is whole ticks
    of each.
    involuntary: times that the worker may be taken off a core, per second and core. (An idle machine's own threads do
    it 50 times; a program that competes, hundreds of times.)"""

    def __init__(
        self, share=0.05, involuntary=150, cores=os.cpu_count(), clock=time.monotonic, others=others_seconds
    ):
        self.share, self.involuntary, self.cores, self.clock, self.others = share, involuntary, cores, clock, others

    def begin(self, worker):
        self.worker, self.before, self.start = worker, self.others(worker), self.clock()

    def verdict(self, involuntary=0):
        """(quiet, share of the machine that others used, times that the worker was taken off its core)."""
        wall = max(self.clock() - self.start, 1e-9) * self.cores
        used = max(0.0, self.others(self.worker) - self.before)
        quiet = used <= max(self.share * wall, 3 / TICK) and involuntary <= max(5, self.involuntary * wall)
        return quiet, min(1.0, used / wall), involuntary  # a process may end between two looks and be seen twice
