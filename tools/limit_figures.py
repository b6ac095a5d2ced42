#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measure what `gantry limit` promises, on a machine with a device: shares, costs, and what programs notice.

Usage: limit_figures.py [--rows A,B] [--seconds S] [--most S] [--part N] [--commit NAME] BUILD OUT

BUILD is a folder with the commands gantry and gantry-limit-work and the library libgantry-limit.so, built of one commit.
gantry-limit-work (bench/limit_work.c) is a program of the driver API whose kernels note themselves when they ran.  These
notes are what a share is judged by: the union of the kernels' times, gaps below 10 us bridged, from the begin of one
kernel to the begin of a later one.  Each run takes S seconds (default 2).  The rows of frameworks are run by
tools/limit_frameworks.py, and are left out where the framework is not installed.

After each row OUT/limit.json and OUT/limit.md are written anew, and the row's lines are printed.  Rows that would begin
later than --most seconds (default 200) after the start are left out and named.  --part divides the number of calls whose
costs are measured; with the emulated driver's folder of libcuda.so.1 in LD_LIBRARY_PATH all of this runs without a device,
and its figures mean nothing.  Exit status 1: a row could not be measured.
"""
import argparse
import array
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools"))
from device_run import commit_of, device_of  # noqa: E402

BRIDGED = 10_000  # ns: shorter gaps do not count as idle
WARM = 0.3  # s of a run that are not looked at: what is new is learnt, and what an idle job saved is used up
PAIRS = ((10, "streams", 20), (10, "streams", 500), (10, "streams", 5000), (30, "streams", 20), (30, "streams4", 500),
         (30, "graph", 20), (30, "cooperative", 500), (30, "thread", 5000), (50, "thread", 20), (50, "streams", 500),
         (50, "graph", 5000), (80, "streams4", 20), (80, "graph", 500), (80, "cooperative", 5000))


class Failed(Exception):
    """A program did not do what it should; what it printed."""


# ---- what kernels noted ---------------------------------------------------------------------------------------------


def read_pairs(path):
    """[(begin, end)] in ns.  A process that was killed may have left half a pair."""
    numbers = array.array("Q")
    with open(path, "rb") as file:
        data = file.read()
    numbers.frombytes(data[:len(data) // 16 * 16])
    return list(zip(numbers[0::2], numbers[1::2]))


def union(pairs):
    """The stretches in which something ran, with short gaps bridged."""
    stretches = []
    for begin, end in sorted(pairs):
        if stretches and begin <= stretches[-1][1] + BRIDGED:
            stretches[-1][1] = max(stretches[-1][1], end)
        else:
            stretches.append([begin, end])
    return stretches


def busy_in(stretches, begin, end):
    return sum(max(0, min(b, end) - max(a, begin)) for a, b in stretches)


def share_of(pairs, warm=WARM, tail=0.0):
    """Percent of the time, and the worst second's distance from `target` by (lowest, highest)."""
    stretches = union(pairs)
    if not stretches:
        raise Failed("no kernel ran")
    least, most = stretches[0][0] + warm * 1e9, stretches[-1][1] - tail * 1e9
    begins = [begin for begin, _ in stretches if least <= begin <= most]
    if len(begins) < 2:  # it never paused: all of its time counts
        begins = [least, most]
    begin, end = begins[0], begins[-1]
    second, seconds = min(1e9, end - begin), []
    at = begin
    while second > 0 and at + second <= end + 1:
        seconds.append(100 * busy_in(stretches, at, at + second) / second)
        at += 5e7
    return {"percent": 100 * busy_in(stretches, begin, end) / (end - begin), "lowest_second": min(seconds, default=None),
            "highest_second": max(seconds, default=None), "kernels": len(pairs)}


def rate_in(pairs, begin, end):
    """Kernels per second that ended in that time."""
    count = sum(1 for _, at in pairs if begin <= at < end)
    if count == 0:
        raise Failed(f"no kernel ended in the {(end - begin) / 1e9:.3f} s that are looked at: --seconds is too short")
    return count * 1e9 / (end - begin)


# ---- running --------------------------------------------------------------------------------------------------------


class Runner:
    def __init__(self, build, folder, seconds, part):
        self.gantry, self.work = os.path.join(build, "gantry"), os.path.join(build, "gantry-limit-work")
        self.library = os.path.join(build, "libgantry-limit.so")
        self.folder, self.seconds, self.part, self.count = folder, seconds, part, 0
        self.environment = dict(os.environ)
        self.environment.pop("LD_PRELOAD", None)

    def fresh(self, what):
        self.count += 1
        return os.path.join(self.folder, f"{what}{self.count}")

    def words(self, share, program, job=None):
        limit = [] if share is None else [self.gantry, "limit", "--share", str(share)] + (["--job", job] if job else []) + ["--"]
        return limit + [str(word) for word in program]

    def start(self, share, program, job=None, environment=None):
        return subprocess.Popen(self.words(share, program, job), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=dict(self.environment, **(environment or {})))

    def end(self, process, timeout=60):
        """The object that it printed last."""
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as late:
            process.kill()
            process.communicate()
            raise Failed(f"{process.args}: not done after {timeout} s") from late
        if process.returncode != 0:
            raise Failed(f"{process.args}: {process.returncode}\n{out[-2000:]}{err[-2000:]}")
        found = json.loads(out.strip().split("\n")[-1])
        if err.strip() and "gantry limit" in err:
            found["told"] = err.strip()[-500:]
        return found

    def tell(self, share, *program, timeout=60, environment=None):
        return self.end(self.start(share, program, environment=environment), timeout)

    def status(self, job):
        result = subprocess.run([self.gantry, "limit", "--status", "--json", "--job", job], capture_output=True, text=True,
                                env=self.environment, timeout=20)
        jobs = json.loads(result.stdout)["jobs"] if result.returncode == 0 and result.stdout.strip() else []
        devices = jobs[0]["devices"] if jobs else []
        return dict(devices[0], credits=sum(device["credits"] for device in devices)) if devices else None

    def watched(self, share, program, job, timeout=60):
        """Run it; the object it printed with the job's last status."""
        process, last, done = self.start(share, program, job), {}, threading.Event()

        def watch():
            while not done.wait(0.25):
                try:
                    last.update(self.status(job) or {})
                except (ValueError, KeyError, subprocess.SubprocessError):
                    pass  # the job has ended, or has not begun

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            found = self.end(process, timeout)
        finally:
            done.set()
            thread.join()
        found["status"] = last
        return found

    def job(self, what):
        return f"figures-{os.getpid()}-{what}-{self.count}"


# ---- rows: each returns [(what, must, found, is_good, details)] ------------------------------------------------------


def shares(r):
    lines, errors = [], []
    for share, pattern, us in PAIRS:
        file = r.fresh("pairs")
        found = r.watched(share, [r.work, "run", pattern, us * 1000, 0, r.seconds, file], r.job("share"))
        found.update(share_of(read_pairs(file)))
        error = found["percent"] - share
        errors.append(abs(error))
        second = max(abs(found["lowest_second"] - share), abs(found["highest_second"] - share)) if found["lowest_second"] is not None else None
        lines.append((f"share {share}: {pattern} of {us} us", "1 point; worst 1 s 3",
                      f"{found['percent']:.2f} % ({error:+.2f}), worst 1 s " + ("-" if second is None else f"{second:.2f}"),
                      abs(error) <= 1 and (second is None or second <= 3), found))
    lines.append(("shares: largest error, mean", "1 point", f"{max(errors):.2f}, {statistics.mean(errors):.2f}", max(errors) <= 1, {}))
    return lines


def costs(r):
    preloaded = {"LD_PRELOAD": r.library}
    best = {"bare": {}, "loaded": {}, "limited": {}}
    for _ in range(3):
        for name, share, environment in (("bare", None, {}), ("loaded", None, preloaded), ("limited", 100, {})):
            for key, value in r.tell(share, r.work, "cost", r.part, timeout=90, environment=environment).items():
                pair = value if isinstance(value, list) else [value, value]
                old = best[name].get(key, pair)
                best[name][key] = [min(old[0], pair[0]), min(old[1], pair[1])]
    lines = []
    for key, what, most in (("launch_ns", "launch, 5000 until done", 400), ("call_20us_ns", "launch of 20 us, the call alone", 400),
                            ("synchronised_ns", "launch + synchronise", 1500), ("graph_of_10_ns", "graph of 10 until done", None),
                            ("query_ns", "cuStreamQuery", None), ("init_ns", "cuInit", 5e6)):
        for mode in ("loaded", "limited"):
            bare, now = best["bare"][key][1], best[mode][key][1]
            ratio = now / bare if bare else 0
            allowed = {"launch_ns": 20, "call_20us_ns": 20, "synchronised_ns": 40}.get(key, most) if mode == "loaded" else most
            good = now - bare <= allowed if allowed is not None else ratio <= 1.05
            must = f"+ {allowed / 1000:g} us" if allowed is not None else "1.05"
            lines.append((f"{what}, {mode}", must, f"{bare / 1000:.2f} -> {now / 1000:.2f} us ({(now - bare) / 1000:+.2f}, {ratio:.3f}); best "
                          f"{best['bare'][key][0] / 1000:.2f} -> {best[mode][key][0] / 1000:.2f}", good, {"bare": best["bare"][key], mode: best[mode][key]}))
    return lines


def light(r):
    """Programs that use less than their share."""
    cases = (("5 %: 50 us, then wait, then 950 us of the host", 1, 50_000, 950_000), ("20 %: 200 us, then 800 us", 1, 200_000, 800_000),
             ("40 %: 4 of 100 us, then 600 us", 4, 100_000, 600_000),
             ("host-bound: 10 us every 40 us", 0, 10_000, 40_000), ("host-bound: 5 us every 15 us", 0, 5_000, 15_000))
    lines = []
    for what, per, ns, host_ns in cases:
        rates = {None: [], 50: []}
        for _ in range(2):
            for share in (None, 50):
                rates[share].append(r.tell(share, r.work, "light", per, ns, host_ns, r.seconds / 2)["kernels_per_s"])
        ratio = max(rates[50]) / max(rates[None])
        lines.append((f"limit 50, uses {what}: speed", "0.98", f"{ratio:.4f}", ratio >= 0.98, {"bare": rates[None], "limited": rates[50]}))
    return lines


def two(r):
    """Two jobs of 30 and 60 percent at once, by the work that they do; each alone before."""
    calibration, rounds, ns = r.fresh("pairs"), 50_000, 500_000
    r.tell(None, r.work, "run", "streams", ns, rounds, r.seconds / 2, calibration)
    pairs = read_pairs(calibration)
    alone = rate_in(pairs, pairs[0][0] + 2e8, pairs[-1][1] - 5e7)
    files = {share: r.fresh("pairs") for share in (30, 60)}
    running = [r.start(share, [r.work, "run", "streams", ns, rounds, 2 * r.seconds, file]) for share, file in files.items()]
    for process in running:
        r.end(process)
    found = {share: read_pairs(file) for share, file in files.items()}
    begin = max(each[0][0] for each in found.values()) + 3e8
    end = min(each[-1][1] for each in found.values()) - 1e8
    lines = []
    for share, each in found.items():
        percent = 100 * rate_in(each, begin, end) / alone
        lines.append((f"two processes 30 and 60 at once: the one with {share}", "1.5 points", f"{percent:.2f} % of alone ({percent - share:+.2f})",
                      abs(percent - share) <= 1.5, {"kernels_per_s": rate_in(each, begin, end), "alone": alone, "us": 1e6 / alone}))
    return lines


def family(r):
    """A job of four processes at 30 percent; one is killed every so often and begun anew."""
    job, length = r.job("family"), 3 * r.seconds
    begun, files, running, killed = time.monotonic(), [], [], 0

    def begin(seconds):
        files.append(r.fresh("pairs"))
        running.append(r.start(30, [r.work, "job", 500_000, f"{seconds:.3f}", files[-1]], job))

    for _ in range(4):
        begin(length)
    for turn in range(2):
        time.sleep(max(0, begun + (turn + 1) * length / 3 - time.monotonic()))
        victim = running.pop(0)
        victim.send_signal(signal.SIGKILL)
        victim.communicate(timeout=30)
        killed += 1
        begin(max(0.1, length - (time.monotonic() - begun)))
    status = r.status(job)
    for process in running:
        r.end(process)
    left = [name for name in os.listdir("/dev/shm") if job in name]
    pairs = [pair for file in files if os.path.exists(file) for pair in read_pairs(file)]
    found = share_of(pairs, warm=0.3 * length / 2, tail=0.1)
    error = found["percent"] - 30
    return [(f"job of 4 processes at 30 %, {killed} killed by -9: used together", "1 point; nothing left",
             f"{found['percent']:.2f} % ({error:+.2f}); left: {len(left)} files", abs(error) <= 1 and not left, dict(found, status=status, left=left))]


def leave(r):
    """exit() under load, four at a time."""
    times = {None: [], 30: []}
    for share in (None, 30):
        for _ in range(3):
            begun = time.monotonic()
            for process in [r.start(share, [r.work, "leave"]) for _ in range(4)]:
                r.end(process, timeout=30)
            times[share].append(time.monotonic() - begun)
    added = 1000 * (min(times[30]) - min(times[None]))
    return [("exit under load, 12 processes, limit 30", "0 hangs", f"0 hangs, four at once {added:+.0f} ms", True, {"bare": times[None], "limited": times[30]})]


def framework(name):
    def row(r):
        script = os.path.join(ROOT, "tools", "limit_frameworks.py")
        found = {share: r.tell(share, sys.executable, script, name, r.seconds, timeout=150) for share in (None, 30, 50)}
        if "missing" in found[None]:
            return [(f"{name}", "", f"not measured: {found[None]['missing']}", True, {})]
        lines = []
        for kind, rate in found[None]["rates"].items():
            for share in (30, 50):
                percent = 100 * found[share]["rates"][kind] / rate
                lines.append((f"{name}, {kind}, limit {share}: work over unlimited", "1.5 points", f"{percent:.2f} % ({percent - share:+.2f})",
                              abs(percent - share) <= 1.5, {"per_s": [rate, found[share]["rates"][kind]]}))
        duty = found[None].get("ms_at_duty")
        if duty:
            lines.append((f"{name}: ms of a step without a limit, where the device works 100, 50 and 30 % of the time", "",
                          ", ".join(f"{duty[percent]:.3f}" for percent in ("100", "50", "30")), True, duty))
        equal = all(found[share]["bits"] == found[None]["bits"] for share in (30, 50))
        lines.append((f"{name}: bits of 30 steps, limited or not", "equal", "equal" if equal else "different", equal, {str(k): v["bits"] for k, v in found.items()}))
        return lines
    return row


def nccl(r):
    """Two processes of one job, a device each, whose steps wait for each other."""
    script = os.path.join(ROOT, "tools", "limit_frameworks.py")
    bare = r.tell(None, sys.executable, script, "nccl", r.seconds, timeout=150)
    if "missing" in bare:
        return [("NCCL", "", f"not measured: {bare['missing']}", True, {})]
    limited = r.watched(30, [sys.executable, script, "nccl", 4 * r.seconds], r.job("nccl"), timeout=200)
    status = limited["status"]
    lines = [(f"NCCL, {kind}, two devices, limit 30 each: work over 30 % of unlimited", "0.85", f"{found / rate / 0.3:.3f}", found >= 0.85 * 0.3 * rate,
              {"per_s": [rate, found]}) for kind, rate, found in ((kind, rate, limited["rates"][kind]) for kind, rate in bare["rates"].items())]
    credits = status["credits"]
    return lines + [("NCCL: what was let through on credit", "0", f"{credits}", not credits, {"status": status})]


ROWS = {"costs": costs, "shares": shares, "light": light, "two": two, "family": family, "torch": framework("torch"), "leave": leave,
        "nccl": nccl, "cupy": framework("cupy"), "jax": framework("jax")}


# ---- the table ------------------------------------------------------------------------------------------------------


def write(out, head, lines):
    with open(os.path.join(out, "limit.json"), "w", encoding="utf-8") as file:
        json.dump(dict(head, rows=[dict(zip(("figure", "must", "found", "good", "details"), line)) for line in lines]), file, indent=1)
        file.write("\n")
    with open(os.path.join(out, "limit.md"), "w", encoding="utf-8") as file:
        file.write(f"{head['device']}, {head['driver']}, commit {head['commit']}\n\n| figure | must | found | |\n|---|---|---|---|\n")
        for figure, must, found, good, _ in lines:
            file.write(f"| {figure} | {must} | {found} | {'' if good else 'missed'} |\n")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n", maxsplit=2)[1][7:])
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--most", type=float, default=200)
    parser.add_argument("--part", type=int, default=1)
    parser.add_argument("--commit", help="what BUILD was built of, where this file lies in another tree")
    parser.add_argument("build")
    parser.add_argument("out")
    wanted = parser.parse_args()
    begun, lines, failed = time.monotonic(), [], False
    os.makedirs(wanted.out, exist_ok=True)
    build = os.path.abspath(wanted.build)
    driver, device = device_of(os.path.join(build, "gantry"))
    head = {"device": device, "driver": driver, "commit": wanted.commit or commit_of(ROOT)}
    print(f"{device}, {driver}, commit {head['commit']}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(build, folder, wanted.seconds, wanted.part)
        for name in wanted.rows.split(","):
            at = time.monotonic()
            if at - begun > wanted.most:
                found = [(name, "", f"left out: {wanted.most:g} s have passed", True, {})]
            else:
                try:
                    found = ROWS[name](runner)
                except (Failed, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
                    found, failed = [(name, "", f"not measured: {' '.join(str(error).split())[:300]}", False, {"error": str(error)})], True
            for line in found:
                print(f"{'      ' if line[3] else 'MISSED'} {line[0]} | {line[1]} | {line[2]}", flush=True)
            print(f"       ({name}: {time.monotonic() - at:.1f} s)", flush=True)
            lines += found
            write(wanted.out, head, lines)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
