# SPDX-License-Identifier: MIT
"""What a page of `gantry report` holds, read without its scripts."""
import json
import re


DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def signed(twice):
    return -(twice >> 1) if twice & 1 else twice >> 1


class Numbers:
    def __init__(self, text):
        self.data, self.at = [DIGITS.index(digit) for line in text.split() for digit in line], 0

    def next(self):
        value = shift = 0
        while True:
            digit = self.data[self.at]
            self.at += 1
            value |= (digit & 31) << shift
            shift += 5
            if digit < 32:
                return value

    def run(self):
        """Slices of one track: (track, name, begin, duration, id, category, flows)."""
        track, time = self.next(), 0
        for _ in range(self.next()):
            time += self.next()
            duration, name, number, category = self.next(), self.next(), self.next(), self.next()
            yield track, name, time, duration, number, category, [self.next() for _ in range(self.next())]

    def blocks(self):
        """The same of blocks, each told by what differs from the one before."""
        track, end, duration, number, name = self.next(), 0, 0, 0, 0
        for _ in range(self.next()):
            begin = end + signed(self.next())
            duration += signed(self.next())
            change, end = self.next(), begin + duration
            number += signed(change >> 1)
            name = self.next() if change & 1 else name
            yield track, name, begin, duration, number, 0, []


def read(text):
    """The head of one recording, with its slices, gaps [(begin, end, cause, task)] and counters {name: [(time, value)]}."""
    line, data = text.split("\n", 1)
    head, numbers = json.loads(line), Numbers(data)
    count = numbers.next()
    head["slices"] = [s for read_one in (numbers.run, numbers.blocks) for _ in range(numbers.next()) for s in read_one()]
    assert len(head["slices"]) == count
    head["gaps"], head["counters"] = [], {}
    gap_count = numbers.next()
    for _, of_gpu in head["gapGpus"] or [(0, gap_count)]:  # of each GPU where there are several
        time = 0
        for _ in range(of_gpu):
            begin = time + numbers.next()
            time = begin + numbers.next()
            cause, what = head["causes"][numbers.next()], numbers.next()
            name = head["tracks"][what][0] if cause == "waiting for another GPU" else head["names"][what]
            head["gaps"].append((begin, time, cause, name))
    assert len(head["gaps"]) == gap_count
    for _ in range(numbers.next()):
        track, time, values = numbers.next(), 0, []
        for _ in range(numbers.next()):
            time += numbers.next()
            values.append((time, numbers.next()))
        head["counters"][head["tracks"][track][0]] = values
    assert numbers.at == len(numbers.data)
    return head


def recordings(page):
    return [read(text) for text in re.findall(r'<script type="text/x-gantry-recording-2">([^<]*)</script>', page)]
