/* SPDX-License-Identifier: MIT */
"use strict";
/* Tests of what the page does without a browser.  They run behind the page's scripts, in node or in a browser;
 * testParts() gives what failed. */

const failures = [];
function same(what, found, expected) {
    const [a, b] = [JSON.stringify(found), JSON.stringify(expected)];
    if (a !== b) failures.push(`${what}: ${a} instead of ${b}`);
}

function digitsOf(...numbers) {
    const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let text = "";
    for (let n of numbers) {
        for (; n > 31; n = Math.floor(n / 32)) text += digits[n % 32 + 32];
        text += digits[n];
    }
    return text.replace(/.{7}/g, "$&\n");
}

const changeOf = (from, to) => to >= from ? (to - from) * 2 : (from - to) * 2 + 1;

/* A recording of slices [track, name, begin, end, id, category, flows]; tracks [name, group, kind, rank]. */
function recordingOf(tracks, slices, blocks = [], gaps = [], gapGpus = []) {
    const names = [""], index = name => names.includes(name) ? names.indexOf(name) : names.push(name) - 1;
    const numbers = [slices.length + blocks.length];
    const runs = (list, put) => {
        const byTrack = [...groupBy(list, s => s[0])];
        numbers.push(byTrack.length);
        for (const [track, run] of byTrack) {
            let before = [0, "", 0, 0, 0];
            numbers.push(track, run.length);
            for (const slice of run.sort((a, b) => a[2] - b[2] || b[3] - a[3])) {
                put(slice, before);
                before = slice;
            }
        }
    };
    runs(slices, ([, name, begin, end, id, category, flows], before) =>
        numbers.push(begin - before[2], end - begin, index(name), id, index(category), flows.length, ...flows));
    runs(blocks, ([, name, begin, end, id], [, old, from, to, number]) => numbers.push(changeOf(to, begin),
        changeOf(to - from, end - begin), changeOf(number, id) * 2 + (name !== old), ...(name !== old ? [index(name)] : [])));
    numbers.push(gaps.length, ...gaps.flat(), 0);
    const head = {file: "x", complete: true, emulated: false, left: 0, tracks, names, gapGpus, tenants: [],
                  causes: ["waiting for a host task", "waiting for memory", "dispatcher busy", "nothing ready"]};
    return readRecording(JSON.stringify(head) + "\n" + digitsOf(...numbers));
}

const TRACKS = [["", "", 0, 0], ["worker", "host threads", THREAD, 1], ["GD", "host threads", THREAD, 2],
                ["GDB", "host threads", THREAD, 3], ["stream 0", "GPU 0", QUEUE, 0], ["stream 1", "GPU 0", QUEUE, 1],
                ["SM 0", "GPU 0, SMs", BLOCKS, 0], ["stream 0: kernels", "GPU 0", TRACK, 0]];
/* A CPU task, two GPU tasks of which the second waits for the first, and a CPU task that waits for that; beside them a
 * short task that nothing waits for. */
const STORY = [[1, "load", 0, 100, 1, "task", [11]], [1, "submit a", 101, 105, 1, "submit", [11, 12]],
               [1, "save", 960, 1000, 1, "task", [13]], [1, "idle talk", 300, 310, 9, "task", []],
               [2, "batch", 108, 170, 0, "batch", []], [2, "a", 110, 120, 1, "launch", [12]],
               [2, "submit b", 121, 125, 1, "submit", [14]], [2, "b", 130, 140, 2, "launch", [14, 13]],
               [3, "wait", 140, 950, 0, "wait", []], [3, "complete b", 951, 955, 1, "wait", [13]],
               [4, "a", 150, 500, 1, "gpu", []], [5, "b", 510, 940, 2, "gpu", []],
               [7, "k", 160, 490, 1, "kernel", [12]]];
const named = (r, slices) => slices.map(i => kindText(r, i) + " " + nameOf(r, i));
const sliceNamed = (r, text) => [...Array(r.count).keys()].find(i => kindText(r, i) + " " + nameOf(r, i) === text);

function testContrast() {
    const colours = [...Object.values(CATEGORIES), ...Object.values(PHASES), ...BY_NAME, ...LIGHT.causes, ...DARK.causes, LIGHT.faded, DARK.faded];
    const contrast = (a, b) => (Math.max(lightOf(a), lightOf(b)) + 0.05) / (Math.min(lightOf(a), lightOf(b)) + 0.05);
    same("the contrast of white and black", contrast("#ffffff", "#000000"), 21);
    same("each name has a colour", [..."abcdefghijklmnop"].map(c => BY_NAME[colourNumber(c.repeat(9))] !== undefined).includes(false), false);
    same("text on bars", colours.filter(colour => contrast(inkOn(colour), colour) < 4.5), []);
    for (const look of [LIGHT, DARK]) {
        same("text beside them", ["paper", "side", "title"].filter(paper => contrast(look.ink, look[paper]) < 4.5), []);
    }
}

function testFoldedRows() {
    const r = recordingOf(TRACKS, [[1, "load", 0, 1000, 1, "task", []]], [[6, "k", 100, 200, 1]]), items = listItems(r, {count: 0});
    const row = items.find(item => item.isBlocks), whole = row.height;
    same("nothing in it", [foldRows(r, items, 300, 900), row.height], [true, FOLDED]);
    same("nothing new", foldRows(r, items, 400, 900), false);
    same("something", [foldRows(r, items, 150, 900), row.height], [true, whole]);
}

function testScales() {
    const track = name => ({name}), counter = (n, most) => ({track: n, most});
    const r = {tracks: ["", "GPU 0: us of a", "GPU 1: us of b", "Heap device bytes"].map(track), counters: [counter(1, 5), counter(2, 9), counter(3, 100)]};
    setScales(r);
    same("one scale of GPU time", r.counters.map(c => c.most), [9, 9, 100]);
}

function testNumbers() {
    const wanted = [0, 1, 31, 32, 127, 128, 300, 2 ** 31, 2 ** 32 + 5, 2 ** 53 - 1], numbers = new NumberReader(digitsOf(...wanted));
    same("numbers", wanted.map(() => numbers.next()), wanted);
    const steps = [0, 7, 3, 2 ** 40, 5], changes = new NumberReader(digitsOf(...steps.map((n, i) => changeOf(i === 0 ? 0 : steps[i - 1], n))));
    let at = 0;
    same("changes", steps.map(() => at += changes.change()), steps);
}

function testLanes() {
    const r = recordingOf(TRACKS, [[1, "outer", 0, 100, 1, "task", []], [1, "inner", 10, 20, 2, "wait", [7]],
                                   [1, "inner 2", 20, 30, 3, "wait", []], [1, "later", 150, 160, 4, "task", []]]);
    same("lanes", r.lanes.map(l => named(r, [...Array(l.last - l.first).keys()].map(i => i + l.first))),
         [["CPU task outer", "CPU task later"], ["wait inner", "wait inner 2"]]);
    same("its flow moved along", r.flows.slice(r.flowFirst[2], r.flowFirst[2] + r.flowCount[2]), [7]);
    same("the lane of each", [0, 1, 2, 3].map(i => laneOf(r, i).depth), [0, 0, 1, 1]);
}

function testLinks() {
    const r = recordingOf(TRACKS, STORY, [[6, "k", 200, 210, 5]]), links = findLinks(r);
    const before = text => named(r, waitedFor(r, links, sliceNamed(r, text)));
    const after = text => named(r, waitersOf(r, links, sliceNamed(r, text)));
    same("a submission", [before("submission submit a"), after("submission submit a")], [["CPU task load"], ["launch call a"]]);
    same("a launch", [before("launch call a"), after("launch call a")], [["submission submit a"], ["GPU task a", "kernel k"]]);
    same("a GPU task", [before("GPU task a"), after("GPU task a")], [["launch call a"], ["GPU task b"]]);
    same("the next", [before("GPU task b"), after("GPU task b")], [["launch call b", "GPU task a"], ["wait complete b"]]);
    same("a completion", [before("wait complete b"), after("wait complete b")], [["GPU task b", "launch call b"], ["CPU task save"]]);
    same("a block", [before("block k"), after("block k")], [["kernel k"], []]);
    const twice = recordingOf(TRACKS, [...STORY, [2, "b", 142, 150, 2, "launch", [13]]]), more = findLinks(twice);
    same("a task with two launches", named(twice, waitedFor(twice, more, sliceNamed(twice, "GPU task b"))), ["launch call b", "GPU task a"]);
    same("its completion", named(twice, waitersOf(twice, more, sliceNamed(twice, "GPU task b"))), ["wait complete b"]);
    same("a submission of the dispatcher", before("submission submit b"), ["launch call a"]);
}

function testPath() {
    const r = recordingOf(TRACKS, STORY), path = criticalPath(r, findLinks(r));
    same("path", named(r, path.slices), ["CPU task load", "submission submit a", "launch call a", "GPU task a", "GPU task b",
                                         "wait complete b", "CPU task save"]);
    same("its times", [...path.begin].map((b, i) => path.end[i] - b), [100, 4, 10, 350, 430, 4, 40]);
    same("by name", pathByName(r, path).slice(0, 2), [["b", 430], ["a", 360]]);
    same("of nothing", criticalPath(recordingOf(TRACKS, []), findLinks(recordingOf(TRACKS, []))).count, 0);
}

function testVisible() {
    const columns = {begin: [], end: []}, found = (from, to, pixel) => {
        const list = [];
        visitVisible(columns, 0, columns.begin.length, from, to, pixel, i => list.push(i));
        return list;
    };
    for (let i = 0; i < 100000; i++) {
        columns.begin.push(10 * i);
        columns.end.push(10 * i + 5);
    }
    same("near, all of them", found(100, 150, 0.1), [10, 11, 12, 13, 14]);
    same("far, no more than pixels", found(0, 1e6, 1000).length <= 1001, true);
    same("far, in each pixel one", new Set(found(0, 1e6, 1000).map(i => Math.floor(columns.begin[i] / 1000))).size, 1000);
    same("what began before", found(12, 14, 0.1), [1]);
    same("between two", found(6, 9, 0.1), []);
    same("at a time", [intervalAt(columns, 0, 100000, 12, 0), intervalAt(columns, 0, 100000, 17, 1), intervalAt(columns, 0, 100000, 16, 1)], [1, -1, 1]);
}

function testLevels() {
    const columns = {begin: [], end: [], name: []};
    for (let i = 0; i < 1000; i++) {
        columns.begin.push(100 * (i % 500));
        columns.end.push(100 * (i % 500) + 50);
        columns.name.push(i < 500 ? 1 : 2);
    }
    columns.end[999] = 50000;
    const levels = buildLevels(columns, [{first: 0, last: 500}, {first: 500, last: 1000}], 50000);
    const sum = level => level.time.reduce((a, b) => a + b, 0);
    same("bins", levels.map(l => l.time.length), [1024, 512, 256, 128, 64]);
    same("no time is lost", levels.map(l => Math.round(sum(l))), levels.map(() => 50050));
    same("half of the time two at once", Math.abs(binsBetween(levels[4], 10000, 20000).value - 1) < 0.05, true);
    same("the longest gives the name", binsBetween(levels[0], 49960, 50000).name, 2);
    same("a level as fine as a pixel", [levelFor(levels, 1), levelFor(levels, 100), levelFor(levels, 1e9)].map(l => levels.indexOf(l)), [0, 1, 4]);
}

function testSearch() {
    const r = recordingOf(TRACKS, STORY);
    const first = nextFound(r, slicesFound(r, "SUBMIT"), -1, 1), second = nextFound(r, slicesFound(r, "submit"), first, 1);
    same("in the order of time", named(r, [first, second]), ["submission submit a", "submission submit b"]);
    same("behind the last the first", nextFound(r, slicesFound(r, "submit"), second, 1), first);
    same("backwards", nextFound(r, slicesFound(r, "submit"), second, -1), first);
    same("a number", named(r, slicesFound(r, "#2")).sort(), ["GPU task b", "launch call b"]);
    same("nothing", [slicesFound(r, " "), slicesFound(r, "no such")], [[], []]);
}

function testSums() {
    const before = recordingOf(TRACKS, STORY), after = recordingOf(TRACKS, [...STORY.slice(1), [1, "load", 0, 90, 1, "task", []],
                                                                                  [4, "new", 500, 509, 3, "gpu", []]]);
    const rows = compareSums(before, after).filter(row => row.before.time !== row.after.time);
    same("what differs", rows.map(row => [row.key, row.before.time, row.after.time]), [["task load", 100, 90], ["GPU task new", 0, 9]]);
    const idle = recordingOf(TRACKS, [[1, "slow", 0, 50, 1, "task", []]], [], [[10, 30, 0, 1], [5, 7, 3, 0]]);
    same("idle", idleByCause(idle), [["waiting for a host task: slow", 30], ["nothing ready", 7]]);
}

/* Two GPUs run tasks of one name at once; the second one's `b` waits for the first one's `a` by an event. */
const PAIR = [["", "", 0, 0], ["GD", "host threads", THREAD, 1], ["GD 1", "host threads", THREAD, 2],
              ["GPU 0: x", "", TRACK, 0], ["GPU 1: x", "", TRACK, 0],
              ["stream 0", "GPU 0: x", QUEUE, 0], ["stream 0", "GPU 1: x", QUEUE, 0]];
const PAIR_STORY = [[1, "a", 0, 10, 0, "launch", [21]], [1, "event for other GPUs", 12, 13, 0, "across", [21, 22]],
                    [1, "submit b", 14, 15, 1, "submit", [23]], [2, "a", 1, 11, 0, "launch", [24]],
                    [2, "after GPU 0", 20, 21, 0, "across", [22, 23]], [2, "b", 22, 30, 0, "launch", [23]],
                    [5, "a", 60, 100, 0, "gpu", []], [6, "a", 15, 40, 0, "gpu", []], [6, "b", 105, 120, 0, "gpu", []]];

function testSeveralGpus() {
    const gaps = [[10, 5, 3, 0], [40, 65, OTHER_GPU, 3]], r = recordingOf(PAIR, PAIR_STORY, [], gaps, [[3, 1], [4, 1]]);
    const links = findLinks(r), b = sliceNamed(r, "GPU task b"), trackName = i => trackOf(r, i).group;
    same("what b waited for", waitedFor(r, links, b).map(i => kindText(r, i) + " " + nameOf(r, i) + (trackOf(r, i).kind === QUEUE ? " of " + trackName(i) : "")),
         ["launch call b", "GPU task a of GPU 0: x"]);
    const a = waitedFor(r, links, b)[1];
    same("what waited for a", waitersOf(r, links, a), [b]);
    same("its own launch, not the other's", trackOf(r, links.launchOf.get(a)).name, "GD");
    same("gaps of each", r.gaps.parts, [{track: 3, first: 0, last: 1}, {track: 4, first: 1, last: 2}]);
    same("from the begin again", [...r.gaps.begin], [10, 40]);
    same("who was waited for", [gapText(r, 0), gapText(r, 1)], ["nothing ready", "waiting for GPU 0: x"]);
    same("a row for each", listItems(r, {count: 0}).filter(item => item.type === "gaps").map(item => [item.group, item.part.first]),
         [["GPU 0: x", 0], ["GPU 1: x", 1]]);
}

function testOrderOfGpus() {
    const groups = ["GPU 10: x", "GPU 9: x", "host threads", "GPU 0: x"];
    const tracks = groups.map((group, i) => ["row", group, group === "host threads" ? THREAD : QUEUE, i]);
    const r = recordingOf(tracks, groups.map((_, i) => [i, "a", i, i + 1, i, "gpu", []]));
    same("order", listItems(r, {count: 0}).filter(item => item.type === "title").map(item => item.name),
         ["host threads", "GPU 0: x", "GPU 9: x", "GPU 10: x"]);
}

function testWords() {
    same("times", [0, 999, 1500, 2.5e6, 3e9].map(timeText), ["0 ns", "999 ns", "1.50 µs", "2.500 ms", "3.000 s"]);
    same("steps", [7, 80, 1e9].map(span => roundStep(span, 8)), [1, 10, 2e8]);
    same("a pixel", pixelOf("#102030").toString(16), "ff302010");
    same("counters have their units", ["resident CTAs", "lost CTAs", "HtoD tasks waiting", "Tasks waiting for memory", "Raises of the bandwidth gate",
                                       "GPU 0: us of tenant", "Heap device bytes", "GPU 0: bytes between GPUs by engines"].map(name => countText(name, 1500)),
         ["1500 blocks", "1500 blocks", "1500 tasks", "1500 tasks", "1500 raises", "1.500 ms", "1.5 KiB", "1.5 KiB"]);
    same("sizes", [0, 1023, 1024, 3 * 2 ** 30, 2 ** 52].map(bytesText), ["0 bytes", "1023 bytes", "1.0 KiB", "3.0 GiB", "4096.0 TiB"]);
    same("one, and a name without a unit", [countText("lost CTAs", 1), countText("mine", 7)], ["1 block", "7"]);
    const items = listItems(recordingOf(TRACKS, STORY, [[6, "k", 200, 210, 5]]), {count: 0});
    same("rows", items.map(item => item.name), ["host threads", "worker", "GD", "GDB", "GPU 0", "stream 0", "stream 0: kernels",
                                               "stream 1", "heat: blocks per SM", "1 SMs", "GPU 0, SMs", "SM 0"]);
    const threads = ["gantry worker 10", "gantry worker 3", "GD", "gantry worker 2", "GD 1"].map((name, rank) => ({name, rank}));
    sortThreads(threads);
    same("workers side by side", threads.map(t => t.name), ["gantry worker 2", "gantry worker 3", "gantry worker 10", "GD", "GD 1"]);
    const all = placeItems(items, new Set()), less = placeItems(items, new Set(["host threads"]));
    same("closed groups take no place", all - less, 4 * ROW + 3 * SPACE);
}

function testParts() {
    for (const test of [testContrast, testFoldedRows, testScales, testNumbers, testLanes, testLinks, testPath, testVisible, testLevels, testSearch, testSums, testSeveralGpus, testOrderOfGpus, testWords]) {
        try {
            test();
        } catch (error) {
            failures.push(`${test.name}: ${error.stack}`);
        }
    }
    return failures;
}
