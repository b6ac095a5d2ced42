/* SPDX-License-Identifier: MIT */
"use strict";
/* What waited for what.
 *
 * Slices with a flow in common are links of a chain, in the order of their begins: a CPU task, the submission of what
 * it made ready, the launch, its kernels, the completion, and the task that waited for that.  GPU tasks have no flows:
 * the launch of the same task leads to them.  What the dispatcher submits right behind a launch waits, on the GPU,
 * for the task that was launched.  What waits for another GPU does so by an event, whose record and wait are slices. */

function chainsOfFlows(r) {
    const chains = new Map();
    for (let i = 0; i < r.count; i++) {
        for (let f = 0; f < r.flowCount[i]; f++) {
            const flow = r.flows[r.flowFirst[i] + f];
            if (chains.has(flow)) chains.get(flow).push(i); else chains.set(flow, [i]);
        }
    }
    for (const chain of chains.values()) chain.sort((a, b) => r.begin[a] - r.begin[b]);
    return chains;
}

/* Numbers of slices per track of a kind, or with a category, in the order of their begins. */
function slicesWhere(r, wanted) {
    const found = [];
    for (const lane of r.lanes) {
        if (r.tracks[lane.track].kind === BLOCKS) continue;
        for (let i = lane.first; i < lane.last; i++) if (wanted(i, lane)) found.push(i);
    }
    return found.sort((a, b) => r.begin[a] - r.begin[b]);
}

function groupBy(list, key) {
    const groups = new Map();
    for (const item of list) {
        const k = key(item);
        if (groups.has(k)) groups.get(k).push(item); else groups.set(k, [item]);
    }
    return groups;
}

/* The last of `list`, which is sorted by begin, that begins at `time` or before; undefined: none does. */
function lastBefore(r, list, time) {
    let low = 0, high = list.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (r.begin[list[middle]] <= time) low = middle + 1; else high = middle;
    }
    return low > 0 ? list[low - 1] : undefined;
}

/* A task's callback may be called several times: the first of these calls, which have a flow in common. */
function firstLaunch(r, links, launch) {
    let first = launch;
    for (let f = 0; f < r.flowCount[launch]; f++) {
        const chain = links.chains.get(r.flows[r.flowFirst[launch] + f]);
        const other = chain.find(i => r.name[i] === r.name[launch] && categoryOf(r, i) === "launch");
        if (r.begin[other] < r.begin[first]) first = other;
    }
    return first;
}

/* The number of the GPU whose stream or dispatcher's thread a slice is on; "" where there is one GPU. */
function gpuNumber(r, i) {
    const track = trackOf(r, i), found = (track.kind === QUEUE ? /^GPU (\d+):/ : /^GD ?(\d*)$/).exec(track.kind === QUEUE ? track.group : track.name);
    return r.gaps.parts.length < 2 ? "" : found === null ? "none" : String(Number(found[1]));
}

/* Launches and the GPU tasks that they made: of one name, one id and one GPU, the first with the first, and so on. */
function pairGpuTasks(r, links) {
    const key = i => r.name[i] + "/" + r.id[i] + "/" + gpuNumber(r, i), firstOf = new Map(links.launches.map(i => [i, firstLaunch(r, links, i)]));
    const launches = groupBy(links.launches.filter(i => firstOf.get(i) === i), key);
    for (const [k, tasks] of groupBy(slicesWhere(r, (i, lane) => r.tracks[lane.track].kind === QUEUE), key)) {
        const made = launches.get(k) || [];
        tasks.forEach((task, n) => {
            const launch = made.length === tasks.length ? made[n] : lastBefore(r, made, r.begin[task]);
            if (launch === undefined) return;
            links.launchOf.set(task, launch);
            links.gpuOf.set(launch, task);
        });
    }
    for (const [launch, first] of firstOf) if (links.gpuOf.has(first)) links.gpuOf.set(launch, links.gpuOf.get(first));
}

/* Submissions of the dispatcher, and the launch right before each. */
function pairSubmissions(r, links) {
    const byTrack = groupBy(links.launches, i => laneOf(r, i).track);
    for (const i of slicesWhere(r, i => categoryOf(r, i) === "submit")) {
        const launch = lastBefore(r, byTrack.get(laneOf(r, i).track) || [], r.begin[i]);
        if (launch !== undefined) links.launchBefore.set(i, launch);
    }
}

/* The GPU tasks whose launches are in a chain with a slice. */
function gpuTasksWith(r, links, i) {
    const found = [];
    for (let f = 0; f < r.flowCount[i]; f++) {
        const launch = links.chains.get(r.flows[r.flowFirst[i] + f]).find(k => links.gpuOf.has(k));
        if (launch !== undefined) found.push(links.gpuOf.get(launch));
    }
    return found;
}

/* Tasks of several GPUs: an event behind some, which others wait for.  Both calls are slices of their own, and in a
 * chain that has no other slices. */
function pairAcross(r, links) {
    const add = (map, key, value) => map.has(key) ? map.get(key).push(value) : map.set(key, [value]);
    for (const chain of links.chains.values()) {
        if (chain.some(i => categoryOf(r, i) !== "across")) continue;
        for (const before of gpuTasksWith(r, links, chain[0])) {
            for (const behind of chain.slice(1).flatMap(i => gpuTasksWith(r, links, i))) {
                if (before === behind) continue;
                add(links.acrossBefore, behind, before);
                add(links.acrossBehind, before, behind);
            }
        }
    }
}

function findLinks(r) {
    const links = {acrossBefore: new Map(), acrossBehind: new Map(),
                   chains: chainsOfFlows(r), launches: slicesWhere(r, i => categoryOf(r, i) === "launch"),
                   launchOf: new Map(), gpuOf: new Map(), launchBefore: new Map(),
                   kernels: groupBy(slicesWhere(r, i => categoryOf(r, i) === "kernel"), i => r.name[i])};
    pairGpuTasks(r, links);
    pairSubmissions(r, links);
    pairAcross(r, links);
    return links;
}

/* What stands before and behind a slice in its chains. */
function flowNeighbours(r, links, i, step) {
    const found = [];
    for (let f = 0; f < r.flowCount[i]; f++) {
        const chain = links.chains.get(r.flows[r.flowFirst[i] + f]), other = chain[chain.indexOf(i) + step];
        if (other !== undefined) found.push(other);
    }
    return found;
}

/* The kernel that a block belongs to; undefined when the recording has none. */
function kernelOf(r, links, block) {
    return (links.kernels.get(r.name[block]) || []).find(k => r.begin[k] <= r.begin[block] && r.end[block] <= r.end[k]);
}

/* What stands before a launch in its chains, but for waits for other GPUs. */
function submissionsOf(r, links, launch) {
    const found = [];
    for (let f = 0; f < r.flowCount[launch]; f++) {
        const chain = links.chains.get(r.flows[r.flowFirst[launch] + f]);
        const before = chain.slice(0, chain.indexOf(launch)).reverse().find(i => categoryOf(r, i) !== "across");
        if (before !== undefined) found.push(before);
    }
    return found;
}

function gpuTaskBefore(r, links, task) {
    const launch = links.launchOf.get(task), found = [...links.acrossBefore.get(task) || []];
    for (const submit of launch === undefined ? [] : submissionsOf(r, links, launch)) {
        const before = links.gpuOf.get(links.launchBefore.get(submit));
        if (before !== undefined && before !== task) found.push(before);
    }
    return found;
}

function gpuTasksBehind(r, links, task) {
    const found = [...links.acrossBehind.get(task) || []];
    for (const [submit, launch] of links.launchBefore) {
        if (links.gpuOf.get(launch) !== task) continue;
        for (const next of flowNeighbours(r, links, submit, 1)) {
            if (links.gpuOf.has(next) && links.gpuOf.get(next) !== task) found.push(links.gpuOf.get(next));
        }
    }
    return found;
}

/* Completions of a launch: what its chains have behind it that is no launch, no kernel and no event for another GPU. */
function completionsOf(r, links, launch) {
    const found = [];
    for (let f = 0; f < r.flowCount[launch]; f++) {
        const chain = links.chains.get(r.flows[r.flowFirst[launch] + f]);
        const next = chain.slice(chain.indexOf(launch) + 1).find(i => !["kernel", "launch", "across"].includes(categoryOf(r, i)));
        if (next !== undefined) found.push(next);
    }
    return found;
}

/* The GPU tasks whose end a completion tells. */
function gpuTasksCompleted(r, links, completion) {
    const found = [];
    for (let f = 0; categoryOf(r, completion) === "wait" && f < r.flowCount[completion]; f++) {
        const chain = links.chains.get(r.flows[r.flowFirst[completion] + f]);
        const launch = chain.slice(0, chain.indexOf(completion)).reverse().find(i => links.gpuOf.has(i));
        if (launch !== undefined) found.push(links.gpuOf.get(launch));
    }
    return found;
}

const distinct = list => [...new Set(list)];

/* What a slice waited for. */
function waitedFor(r, links, i) {
    const kind = trackOf(r, i).kind;
    if (kind === BLOCKS) return [kernelOf(r, links, i)].filter(k => k !== undefined);
    if (kind === QUEUE) return distinct([links.launchOf.get(i), ...gpuTaskBefore(r, links, i)].filter(k => k !== undefined));
    const found = [...gpuTasksCompleted(r, links, i), ...flowNeighbours(r, links, i, -1)];
    return distinct(found.length === 0 && links.launchBefore.has(i) ? [links.launchBefore.get(i)] : found);
}

/* What waited for a slice. */
function waitersOf(r, links, i) {
    const kind = trackOf(r, i).kind;
    if (kind === BLOCKS) return [];
    if (kind === QUEUE) {
        const launch = links.launchOf.get(i);
        return distinct([...gpuTasksBehind(r, links, i), ...(launch === undefined ? [] : completionsOf(r, links, launch))]);
    }
    const found = flowNeighbours(r, links, i, 1);
    return distinct(links.gpuOf.has(i) ? [links.gpuOf.get(i), ...found] : found);
}

/* ---- the critical path -------------------------------------------------------------------------- */

/* May a slice be on the path?  What only holds others (batches, phases), and what only waits, may not. */
function isWork(r, i, lane) {
    const category = categoryOf(r, i);
    return r.tracks[lane.track].kind === QUEUE || category === "task" || category === "launch" || category === "submit" ||
           (category === "wait" && r.flowCount[i] > 0);
}

/* What ended last before slice i among what it waited for and what its thread or stream did before it.  A completion
 * waits for the GPU, not for the completion that was told before it. */
function lastCause(r, links, i, workOfTrack) {
    const candidates = waitedFor(r, links, i).filter(k => r.begin[k] < r.begin[i] && categoryOf(r, k) !== "kernel");
    const work = workOfTrack.get(laneOf(r, i).track) || [];
    const own = categoryOf(r, i) === "wait" ? undefined : work[firstAbove(work.ends, 0, work.length, r.begin[i]) - 1];
    if (own !== undefined && r.begin[own] < r.begin[i]) candidates.push(own);
    let best, reached = -1;
    for (const k of candidates) {
        const end = Math.min(r.end[k], r.begin[i]);
        if (end > reached) {
            best = k;
            reached = end;
        }
    }
    return best;
}

function workByTrack(r, work) {
    const tracks = groupBy(work, i => laneOf(r, i).track);
    for (const list of tracks.values()) {
        list.sort((a, b) => r.end[a] - r.end[b]);
        list.ends = Float64Array.from(list, i => r.end[i]);
    }
    return tracks;
}

/* From the work that ended last, back to what it waited for last, and so on: slices in the order of time, with the
 * times for which each of them was what the run waited for. */
function criticalPath(r, links) {
    const work = slicesWhere(r, (i, lane) => isWork(r, i, lane)), tracks = workByTrack(r, work), path = [];
    let at;
    for (const i of work) if (at === undefined || r.end[i] > r.end[at]) at = i;
    for (let until = at === undefined ? 0 : r.end[at]; at !== undefined;) {
        path.push({slice: at, begin: r.begin[at], end: Math.min(r.end[at], until)});
        until = r.begin[at];
        at = lastCause(r, links, at, tracks);
    }
    path.reverse();
    return {slices: path.map(p => p.slice), count: path.length, begin: Float64Array.from(path, p => p.begin),
            end: Float64Array.from(path, p => p.end), has: new Set(path.map(p => p.slice))};
}
