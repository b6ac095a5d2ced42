/* SPDX-License-Identifier: MIT */
"use strict";
/* Finding slices, and adding them up by name. */

/* "#12" is a task's number; anything else is part of a name, in whatever case. */
function slicesFound(r, text) {
    const word = text.trim().toLowerCase(), found = [];
    if (word === "") return found;
    if (/^#\d+$/.test(word)) {
        const id = Number(word.slice(1));
        for (let i = 0; i < r.count; i++) if (r.id[i] === id) found.push(i);
        return found;
    }
    const fits = r.names.map(name => name.toLowerCase().includes(word));
    for (let i = 0; i < r.count; i++) if (fits[r.name[i]]) found.push(i);
    return found;
}

/* Of what was found the slice that begins next after `current` (-1: the first of all; `step` -1: the one before);
 * behind the last comes the first. */
function nextFound(r, found, current, step) {
    const order = (a, b) => ((r.begin[a] - r.begin[b]) || (a - b)) * step;
    let best = -1, first = -1;
    for (const i of found) {
        if (current >= 0 && order(i, current) > 0 && (best < 0 || order(i, best) < 0)) best = i;
        if (first < 0 || order(i, first) < 0) first = i;
    }
    return best >= 0 ? best : first;
}

/* By name, tasks of the host and of the GPU and kernels apart: how many, and how long together; the longest first. */
function sumsByName(r) {
    const sums = new Map();
    for (const lane of r.lanes) {
        const kind = r.tracks[lane.track].kind;
        for (let i = lane.first; kind !== BLOCKS && i < lane.last; i++) {
            const what = kind === QUEUE ? "GPU task" : categoryOf(r, i);
            if (what !== "GPU task" && what !== "task" && what !== "kernel" && what !== "memory") continue;
            const key = what + " " + nameOf(r, i);
            const sum = sums.get(key) || {key, what, name: nameOf(r, i), count: 0, time: 0};
            sum.count++;
            sum.time += r.end[i] - r.begin[i];
            sums.set(key, sum);
        }
    }
    return [...sums.values()].sort((a, b) => b.time - a.time);
}

/* Two recordings name by name, what differs most first. */
function compareSums(before, after) {
    const rows = new Map();
    for (const sum of sumsByName(before)) rows.set(sum.key, {...sum, before: sum, after: {count: 0, time: 0}});
    for (const sum of sumsByName(after)) {
        const row = rows.get(sum.key);
        if (row) row.after = sum; else rows.set(sum.key, {...sum, before: {count: 0, time: 0}, after: sum});
    }
    const change = row => Math.abs(row.after.time - row.before.time);
    return [...rows.values()].sort((a, b) => change(b) - change(a));
}

/* Idle time of the GPU by cause, and the path's time by name; each [text, ns], the longest first. */
function sumList(pairs) {
    const sums = new Map();
    for (const [text, ns] of pairs) sums.set(text, (sums.get(text) || 0) + ns);
    return [...sums].sort((a, b) => b[1] - a[1]);
}
function idleByCause(r) {
    return sumList([...r.gaps.begin].map((begin, i) => [gapText(r, i), r.gaps.end[i] - begin]));
}
function pathByName(r, path) {
    return sumList(path.slices.map((slice, i) => [nameOf(r, slice), path.end[i] - path.begin[i]]));
}
const OTHER_GPU = 9; /* cli/report_stats.h has the causes, too */
function gapText(r, i) {
    const cause = r.gaps.cause[i], what = r.gaps.task[i];
    if (cause === OTHER_GPU) return "waiting for " + r.tracks[what].name;
    return r.causes[cause] + (cause === 0 ? ": " + r.names[what] : "");
}
