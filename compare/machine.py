"""Detection of other programs' use of the machine during a measurement, for the programs in this
folder."""
import os
import re
import resource
import time

PROBE_BYTES = 256 << 20


def add_limits(parser):
    """Add the flags that Machine reads."""
    parser.add_argument("--keep", action="store_true", help="count a round even if other programs used the machine")
    parser.add_argument("--max-steal", type=float, default=0.01, help="maximum stolen part of the processors' time (default 0.01)")
    parser.add_argument("--max-others", type=float, default=0.03, help="maximum part of other processes in the processors' time (default 0.03)")
    parser.add_argument("--min-bandwidth", type=float, default=0.85, help="minimum part of the best copying rate (default 0.85)")


def cpu_ticks():
    """Return (ticks of all processors, stolen ticks, busy ticks) since the start."""
    with open("/proc/stat") as f:
        v = [int(x) for x in f.readline().split()[1:9]]
    user, nice, system, idle, iowait, irq, softirq, steal = v
    return sum(v), steal, user + nice + system + irq + softirq


def own_seconds(running=()):
    """Return the processor time of this program, of its finished children, and of the processes
    `running`."""
    both = resource.getrusage(resource.RUSAGE_CHILDREN), resource.getrusage(resource.RUSAGE_SELF)
    seconds = sum(u.ru_utime + u.ru_stime for u in both)
    for pid in running:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def copy_rate(source, target):
    """Return GB/s of one thread copying memory (read and written bytes), the best of three."""
    best = 0
    for _ in range(3):
        start = time.perf_counter()
        target[:] = source
        best = max(best, 2 * len(source) / (time.perf_counter() - start) / 1e9)
    return best


class Machine:
    """Watch a round. Call begin(), then end(), which returns the faults, or an empty list if none.
    `running`: processes of this program that continue."""

    def __init__(self, limits, running=()):
        self.limits, self.running = limits, running
        self.source, self.target = memoryview(bytearray(PROBE_BYTES)), memoryview(bytearray(PROBE_BYTES))
        self.best_rate = copy_rate(self.source, self.target)

    def probe(self):
        rate = copy_rate(self.source, self.target)
        self.best_rate = max(self.best_rate, rate)
        return rate

    def begin(self):
        self.rate = self.probe()
        self.ticks, self.own = cpu_ticks(), own_seconds(self.running)

    def end(self):
        total, steal, busy = (b - a for a, b in zip(self.ticks, cpu_ticks()))
        own = (own_seconds(self.running) - self.own) * os.sysconf("SC_CLK_TCK")
        others = max(0, busy - own) / max(1, total)
        steal /= max(1, total)
        rate = min(self.rate, self.probe()) / self.best_rate
        wrong = []
        if steal > self.limits.max_steal:
            wrong.append(f"{steal:.1%} of the processors' time was stolen by the host")
        if others > self.limits.max_others:
            wrong.append(f"other processes took {others:.1%} of the processors")
        if rate < self.limits.min_bandwidth:
            wrong.append(f"memory was copied at {rate:.0%} of the best rate")
        return wrong


def processor():
    with open("/proc/cpuinfo") as f:
        names = re.findall(r"model name\s*: (.*)", f.read())
    return names[0] if names else "unknown processor"
