/* SPDX-License-Identifier: MIT */
"use strict";
/* A recording: as text in the page, and as arrays of numbers.
 *
 * The text is a line of JSON, and behind it whole numbers, each of as many digits of base64 as it needs (five bits
 * per digit, the lowest first; the sixth bit says that more follow).  cli/report_page.c writes both.  All times are
 * nanoseconds from the begin of the recording. */

const TRACK = 0, THREAD = 1, COUNTER = 2, QUEUE = 3, BLOCKS = 4; /* kinds of tracks; cli/trace.h has them, too */

const DIGITS = new Uint8Array(128).fill(64);
[..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].forEach((c, i) => { DIGITS[c.charCodeAt(0)] = i; });

/* Reads one number after the other. */
class NumberReader {
    constructor(text) {
        this.text = text;
        this.at = 0;
    }
    digit() {
        let digit = 64; /* a line's end */
        while (digit > 63 && this.at < this.text.length) digit = DIGITS[this.text.charCodeAt(this.at++)];
        return digit & 63;
    }
    next() {
        let digit = this.digit(), value = digit & 31, scale = 32;
        while (digit > 31) {
            digit = this.digit();
            value += (digit & 31) * scale;
            scale *= 32;
        }
        return value;
    }
    change() {
        const twice = this.next();
        return twice % 2 === 0 ? twice / 2 : -(twice - 1) / 2;
    }
}

function emptyColumns(count) {
    return {begin: new Float64Array(count), end: new Float64Array(count), name: new Uint32Array(count),
            category: new Uint32Array(count), id: new Float64Array(count), flowFirst: new Uint32Array(count),
            flowCount: new Uint32Array(count)};
}

/* One track's slices, in the order of their begins. */
function readRun(numbers, recording, first, count) {
    const r = recording;
    let time = 0;
    for (let i = first; i < first + count; i++) {
        time += numbers.next();
        r.begin[i] = time;
        r.end[i] = time + numbers.next();
        r.name[i] = numbers.next();
        r.id[i] = numbers.next();
        r.category[i] = numbers.next();
        r.flowCount[i] = numbers.next();
        r.flowFirst[i] = r.flows.length;
        for (let f = 0; f < r.flowCount[i]; f++) r.flows.push(numbers.next());
    }
}

/* One track's blocks: each is told by what differs from the one before. */
function readBlocks(numbers, recording, first, count) {
    const r = recording;
    let end = 0, length = 0, id = 0, name = 0;
    for (let i = first; i < first + count; i++) {
        r.begin[i] = end + numbers.change();
        r.end[i] = end = r.begin[i] + (length += numbers.change());
        const change = numbers.next(), half = Math.floor(change / 2);
        r.id[i] = id += half % 2 === 0 ? half / 2 : -(half - 1) / 2;
        r.name[i] = name = change % 2 === 1 ? numbers.next() : name;
    }
}

/* How deep each slice of a run lies: below what it lies in, and below what it overlaps. */
function depthsOfRun(begin, end, first, count) {
    const ends = [], depths = new Uint32Array(count);
    for (let i = 0; i < count; i++) {
        let depth = 0;
        while (depth < ends.length && ends[depth] > begin[first + i]) depth++;
        ends[depth] = end[first + i];
        depths[i] = depth;
    }
    return {depths, deep: ends.length};
}

/* Put slices of one depth side by side; returns how many there are of each. */
function sortByDepth(recording, first, count, {depths, deep}) {
    const counts = new Array(deep).fill(0), places = new Uint32Array(count);
    for (const depth of depths) counts[depth]++;
    if (deep < 2) return counts;
    let sum = 0;
    const next = counts.map(n => (sum += n) - n);
    for (let i = 0; i < count; i++) places[i] = next[depths[i]]++;
    for (const key of ["begin", "end", "name", "category", "id", "flowFirst", "flowCount"]) {
        const old = recording[key].slice(first, first + count);
        for (let i = 0; i < count; i++) recording[key][first + places[i]] = old[i];
    }
    return counts;
}

/* Runs of slices of one track; each becomes lanes, in which nothing overlaps. */
function readSlices(numbers, recording, first, readOne) {
    for (let runs = numbers.next(); runs > 0; runs--) {
        const track = numbers.next(), count = numbers.next();
        readOne(numbers, recording, first, count);
        const depths = depthsOfRun(recording.begin, recording.end, first, count);
        sortByDepth(recording, first, count, depths).forEach((part, depth) => {
            recording.lanes.push({track, depth, first, last: first + part});
            first += part;
        });
    }
    return first;
}

/* Idle times: of each GPU where there are several, one after the other, else of the one. */
function readGaps(numbers, gpus) {
    const count = numbers.next(), gaps = {begin: new Float64Array(count), end: new Float64Array(count),
                                          cause: new Uint8Array(count), task: new Uint32Array(count), count, parts: []};
    for (const [track, gapsOfIt] of gpus && gpus.length > 0 ? gpus : [[0, count]]) {
        const first = gaps.parts.length > 0 ? gaps.parts[gaps.parts.length - 1].last : 0;
        gaps.parts.push({track, first, last: first + gapsOfIt});
    }
    const firsts = new Set(gaps.parts.map(part => part.first));
    let time = 0;
    for (let i = 0; i < count; i++) {
        if (firsts.has(i)) time = 0;
        gaps.begin[i] = time += numbers.next();
        gaps.end[i] = time += numbers.next();
        gaps.cause[i] = numbers.next();
        gaps.task[i] = numbers.next();
    }
    return gaps;
}

function readCounters(numbers) {
    const counters = [];
    for (let n = numbers.next(); n > 0; n--) {
        const track = numbers.next(), count = numbers.next();
        const counter = {track, count, most: 0, time: new Float64Array(count), value: new Float64Array(count)};
        let time = 0;
        for (let i = 0; i < count; i++) {
            counter.time[i] = time += numbers.next();
            counter.value[i] = numbers.next();
            counter.most = Math.max(counter.most, counter.value[i]);
        }
        counters.push(counter);
    }
    return counters;
}

/* Times of the GPU that shares were charged have one scale, so that one can compare them. */
function setScales(r) {
    const charged = r.counters.filter(c => /^GPU \d+: us of /.test(r.tracks[c.track].name));
    const most = charged.reduce((m, c) => Math.max(m, c.most), 0);
    for (const counter of charged) counter.most = most;
}

/* What the rest of the page works on: columns of slices in the order of their lanes, and what the JSON says:
 * file, complete, emulated, left (blocks that are not here), tracks [name, group, kind, rank], names, causes,
 * tenants. */
function readRecording(text) {
    const start = text.indexOf("{"), line = text.indexOf("\n", start);
    const head = JSON.parse(text.slice(start, line));
    const numbers = new NumberReader(text.slice(line));
    const count = numbers.next();
    const r = {...head, ...emptyColumns(count), count, lanes: [], flows: [], end_ns: 1};
    r.tracks = head.tracks.map(t => ({name: t[0], group: t[1], kind: t[2], rank: t[3]}));
    readSlices(numbers, r, readSlices(numbers, r, 0, readRun), readBlocks);
    r.colours = r.names.map(colourNumber);
    r.gaps = readGaps(numbers, r.gapGpus);
    r.counters = readCounters(numbers);
    setScales(r);
    for (let i = 0; i < count; i++) r.end_ns = Math.max(r.end_ns, r.end[i]);
    return r;
}

/* The recordings in the text of a page that `gantry report` wrote. */
function recordingsInPage(text) {
    const found = [...text.matchAll(/<script type="text\/x-gantry-recording-2">([^<]*)<\/script>/g)];
    return found.map(match => readRecording(match[1]));
}

/* The lane that a slice lies in. */
function laneOf(recording, slice) {
    let low = 0, high = recording.lanes.length - 1;
    while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (recording.lanes[middle].first <= slice) low = middle; else high = middle - 1;
    }
    return recording.lanes[low];
}

const trackOf = (recording, slice) => recording.tracks[laneOf(recording, slice).track];
const nameOf = (recording, slice) => recording.names[recording.name[slice]];
const categoryOf = (recording, slice) => recording.names[recording.category[slice]];
