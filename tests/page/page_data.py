"""What a page of `gantry report` holds, read without its scripts."""
import base64
import json
import re


class Numbers:
    def __init__(self, data):
        self.data, self.at = data, 0

    def next(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def run(self, has_details):
        """Slices of one track: (track, name, begin, duration, id, category, flows)."""
        track, time = self.next(), 0
        for _ in range(self.next()):
            time += self.next()
            duration, name, number = self.next(), self.next(), self.next()
            category = self.next() if has_details else 0
            flows = [self.next() for _ in range(self.next())] if has_details else []
            yield track, name, time, duration, number, category, flows


def read(text):
    """The head of one recording, with its slices, gaps [(begin, end, cause, task)] and counters {name: [(time, value)]}."""
    line, data = text.split("\n", 1)
    head, numbers = json.loads(line), Numbers(base64.b64decode(data))
    count = numbers.next()
    head["slices"] = [s for has_details in (True, False) for _ in range(numbers.next()) for s in numbers.run(has_details)]
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
    return [read(text) for text in re.findall(r'<script type="text/x-gantry-recording">([^<]*)</script>', page)]
