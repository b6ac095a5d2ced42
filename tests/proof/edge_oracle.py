# SPDX-License-Identifier: MIT
"""The oracle: from what a program has declared and touched (edge_oracle.c), which of its edges order bytes.

A node is what a task does on the host, or has enqueued on the device, in one step; or what a thread has seen.  Each link
between two nodes carries the edge that has made it, so that the graph without that edge can be asked what is ordered
still.  Rules are those of docs/guides/edges.md, said again from the program's side.  Sets of nodes are whole numbers:
node n is bit n, and links go from lower numbers to higher ones.
"""
import bisect

SYNC_POINT, FIRST_GPU = 1, 2
READ, ADD = "1", "4"  # modes of accesses


class Task:
    def __init__(self, manager, kind, independent, label):
        self.manager, self.label = manager, label
        self.is_sync, self.is_gpu, self.is_independent = kind == SYNC_POINT, kind >= FIRST_GPU, independent
        self.before = []  # (task, is it about the GPU's end, edge)
        self.step = self.host = self.device = None  # the newest nodes, and the step that they are of
        self.given = []  # (node, edge): what has given back references since
        self.declared = []  # (number, mode, from, to)


class Manager:
    def __init__(self, independent):
        self.independent = independent
        self.step = 0
        self.base = self.gpu_before = self.gpu_two_before = None
        self.hosts, self.devices = [], []  # of this step
        self.syncs = []  # tasks
        self.accesses = []  # (task, mode, from, to), in the order in which they were declared


class Run:
    """A trace, as a graph and the bytes of each node.  `spoiled`: "out7" or "half7", an access that is declared otherwise."""

    def __init__(self, lines, spoiled=None):
        self.spoiled = spoiled
        self.accesses = {}  # number -> (label of the task, how many it has before, mode)
        self.owners = {}  # of a task's nodes
        self.links = []  # of each node: (lower node, edge or None)
        self.names = []  # of each node
        self.tasks, self.managers, self.edges = {}, {}, {}
        self.seen, self.frames, self.works = {}, {}, {}
        self.all_devices = []
        self.ranges = {}  # generation -> [(from, to, node, how)]
        self.starts, self.generations, self.newest = [0], [0], 0  # addresses, whose generation begins there
        self.is_whole = False
        for line in lines:
            words = line.split(maxsplit=4 if line.startswith("access") else 5)
            getattr(self, "on_" + words[0])(*words[1:])

    # ---- nodes

    def node(self, name, links):
        self.names.append(name)
        self.links.append([link for link in links if link[0] is not None])
        return len(self.names) - 1

    def here(self, thread):
        """The node that the thread's calls come after."""
        frames = self.frames.get(thread)
        if frames:
            return frames[-1].host
        return self.seen.get(thread)

    def sees(self, thread, nodes):
        if not self.frames.get(thread):
            self.seen[thread] = self.node("", [(n, None) for n in nodes] + [(self.seen.get(thread), None)])

    def begin(self, task):
        """The task's nodes of this step: all of its predecessors have theirs, but for those that have no body."""
        manager = task.manager
        host = [(manager.base, None)] + task.given
        device = []
        task.given = []
        for other, is_done, edge in task.before:
            if other.step != manager.step:
                if not other.is_sync:
                    continue  # a condition has not chosen it, or the edge goes round a loop
                self.begin(other)
            host.append((other.host, edge))
            device.append((other.device, edge))
            if is_done and not task.is_gpu:
                host.append((other.device, edge))
        task.host = self.node(task.label, host)
        device.append((task.host, None))
        if task.is_gpu:
            if not manager.independent:
                device.append((manager.gpu_two_before if task.is_independent else manager.gpu_before, None))
        task.device = self.node(task.label, device)
        self.owners[task.host] = self.owners[task.device] = task
        task.step = manager.step
        manager.hosts.append(task.host)
        if task.is_gpu:
            manager.devices.append(task.device)
            self.all_devices.append(task.device)

    # ---- events

    def on_manager(self, manager, independent):
        self.managers[manager] = Manager(independent == "1")

    def on_task(self, manager, task, kind, independent, label=""):
        self.tasks[task] = Task(self.managers[manager], int(kind), independent == "1", label.strip())
        if self.tasks[task].is_sync:
            self.managers[manager].syncs.append(self.tasks[task])

    def on_reset(self, manager):
        self.managers[manager].syncs = []
        self.managers[manager].accesses = []

    def on_access(self, number, task, mode, words):
        """It comes after all that has declared the same bytes before, but for two that read, or two that add."""
        task, (begin, end) = self.tasks[task], (int(word, 16) for word in words.split())
        if begin != end:
            self.accesses.setdefault(number, (task.label, len({n for n, _, _, _ in task.declared}), mode))
        end = begin if self.spoiled == "out" + number else begin + (end - begin) // 2 if self.spoiled == "half" + number else end
        if begin == end:
            return
        task.declared.append((number, mode, begin, end))
        for other, other_mode, other_begin, other_end in task.manager.accesses:
            is_beside = mode == other_mode and mode in (READ, ADD)
            if other is not task and not is_beside and begin < other_end and other_begin < end:
                task.before.append((other, True, None))
        task.manager.accesses.append((task, mode, begin, end))

    def on_edge(self, kind, number, successor, predecessor):
        task, other = self.tasks[successor], self.tasks[predecessor]
        if kind == "library":
            task.before.append((other, True, None))
            return
        edge = ("c" if kind.startswith("completion") else "") + number
        self.edges[edge] = (other.label, task.label)
        if kind == "completion":
            task.given.append((other.device, edge))
        elif kind == "completion_of_all":
            task.given += [(device, edge) for device in self.all_devices]
        else:
            task.before.append((other, kind == "done", edge))

    def on_has_ended(self, successor, predecessor):
        if successor in self.tasks and predecessor in self.tasks:
            self.tasks[successor].given.append((self.tasks[predecessor].host, None))

    def on_start(self, thread, manager):
        manager = self.managers[manager]
        ended = [(n, None) for n in manager.hosts]
        manager.gpu_two_before = manager.gpu_before
        manager.gpu_before = self.node("", [(n, None) for n in manager.devices] + [(manager.gpu_before, None)])
        manager.base = self.node("", ended + [(manager.base, None), (self.here(thread), None)])
        manager.hosts, manager.devices = [], []
        manager.step += 1

    def on_wait(self, thread, manager):
        manager = self.managers[manager]
        for task in manager.syncs:
            if task.step != manager.step:
                self.begin(task)
        self.sees(thread, manager.hosts)

    def on_synchronized(self, thread):
        self.sees(thread, self.all_devices)

    def on_let_go(self, thread, task):
        if task in self.tasks:
            self.tasks[task].given.append((self.here(thread), None))

    def on_begin(self, thread, task, share, *label):
        if task not in self.tasks:  # a light task
            self.tasks[task] = Task(Manager(False), 0, False, " ".join(label))
        task = self.tasks[task]
        frames = self.frames.setdefault(thread, [])
        if task.is_gpu and task.step == task.manager.step and self.is_again(task):
            frames.append(task)  # a callback that is called again
            return
        self.begin(task)
        frames.append(task)
        self.works[share] = task.host

    def is_again(self, task):
        """In a loop the task begins a new turn: something that it comes after has newer nodes."""
        return not any(other.step == task.step and other.host is not None and other.host > task.host
                       for other, _, _ in task.before)

    def on_end(self, thread=None):
        if thread is not None:
            self.frames[thread].pop()
        else:
            self.is_whole = True

    def on_enqueue(self, thread, work):
        self.works[work] = self.frames[thread][-1].device

    def on_new(self, begin, end):
        """Memory has a new owner: nobody has touched it."""
        begin, end = int(begin, 16), int(end, 16)
        first, last = bisect.bisect_left(self.starts, begin), bisect.bisect_right(self.starts, end)
        after = self.generations[last - 1]
        self.newest += 1
        self.starts[first:last] = [begin, end]
        self.generations[first:last] = [self.newest, after]

    def on_touch(self, thread, work, how, begin, end):
        node = self.works[work] if work != "0" else self.frames[thread][-1].host
        begin, end = int(begin, 16), int(end, 16)
        at = bisect.bisect_right(self.starts, begin) - 1
        while begin < end:
            stop = min(end, self.starts[at + 1]) if at + 1 < len(self.starts) else end
            self.ranges.setdefault(self.generations[at], []).append((begin, stop, node, how))
            begin, at = stop, at + 1

    # ---- the judgement

    def conflicts(self):
        """Of each node, the lower ones that touch a byte of it, one of the two writing."""
        found = [0] * len(self.names)
        for ranges in self.ranges.values():
            edges = sorted([(r[0], 1, r) for r in ranges] + [(r[1], 0, r) for r in ranges], key=lambda e: e[:2])
            active, judged, at = {}, set(), None
            for place, is_begin, (_, _, node, how) in edges:
                if place != at and active:
                    self.judge(active, found, judged)
                at = place
                active[node, how] = active.get((node, how), 0) + (1 if is_begin else -1)
                if active[node, how] == 0:
                    del active[node, how]
        return found

    @staticmethod
    def judge(active, found, judged):
        key = frozenset(active)
        if key in judged:
            return
        judged.add(key)
        for node, how in active:
            for other, other_how in active:
                both_atomic = how.startswith("atomic") and other_how.startswith("atomic")
                if other < node and not both_atomic and (how.endswith("write") or other_how.endswith("write")):
                    found[node] |= 1 << other

    def pasts(self, without=None):
        """Of each node, all that come before it, itself too."""
        pasts = []
        for number, links in enumerate(self.links):
            past = 1 << number
            for other, edge in links:
                if edge is None or edge != without:
                    past |= pasts[other]
            pasts.append(past)
        return pasts

    def pairs(self, conflicts, pasts, among=None):
        """The labels of conflicting nodes that are not ordered."""
        found = set()
        for node, others in enumerate(conflicts):
            left = others & ~pasts[node] & (among[node] if among else -1)
            while left:
                low = left & -left
                found.add((self.names[low.bit_length() - 1], self.names[node]))
                left ^= low
        return found

    def undeclared(self):
        """The labels of tasks that declare accesses and touch other bytes, or write where they declare that they read."""
        found = set()
        for ranges in self.ranges.values():
            for begin, end, node, how in ranges:
                task = self.owners.get(node)
                if task is None or not task.declared or task.label in found:
                    continue
                for _, mode, first, behind in sorted(task.declared, key=lambda access: access[2]):
                    if first <= begin < behind and (mode != READ or how.endswith("read")):
                        begin = behind
                if begin < end:
                    found.add(task.label)
        return found
