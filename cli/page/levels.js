/* SPDX-License-Identifier: MIT */
"use strict";
/* Less of what cannot be seen: of many slices within one pixel the first is drawn, and blocks are added up in bins,
 * each level of which has half as many as the one before. */

/* The first index in [low, high) whose number is greater than `limit`; the numbers never fall.  `high`: there is none. */
function firstAbove(numbers, low, high, limit) {
    while (low < high) {
        const middle = (low + high) >> 1;
        if (numbers[middle] > limit) high = middle; else low = middle + 1;
    }
    return low;
}

/* The same from `low` on, for an answer that is near: twice as far with each step. */
function firstAboveNear(numbers, low, high, limit) {
    let step = 1;
    while (low + step < high && numbers[low + step] <= limit) step *= 2;
    return firstAbove(numbers, low, Math.min(low + step + 1, high), limit);
}

/* Call visit(i) for what is to be drawn between `from` and `to` of intervals [first, last) that do not overlap: what
 * ends in a pixel of its own. `pixel` is what one of them stands for. */
function visitVisible({begin, end}, first, last, from, to, pixel, visit) {
    let i = firstAbove(end, first, last, from);
    while (i < last && begin[i] < to) {
        visit(i);
        const edge = from + Math.ceil((end[i] - from) / pixel) * pixel;
        i++;
        if (i < last && end[i] <= edge) i = firstAboveNear(end, i, last, edge);
    }
}

const MOST_BINS = 1 << 18, LEAST_BINS = 64;

/* Add a slice's time to the bins that it lies in; a bin takes the name of what lies in it longest. */
function addToBins(level, begin, end, name) {
    const {width, time, longest, names} = level;
    const last = Math.min(Math.floor(end / width), time.length - 1);
    for (let b = Math.floor(begin / width); b <= last; b++) {
        const part = Math.min(end, (b + 1) * width) - Math.max(begin, b * width);
        time[b] += part;
        if (part > longest[b]) {
            longest[b] = part;
            names[b] = name;
        }
    }
}

function emptyLevel(bins, width) {
    return {width, time: new Float32Array(bins), longest: new Float32Array(bins), names: new Uint32Array(bins)};
}

function halvedLevel(fine) {
    const coarse = emptyLevel(fine.time.length / 2, fine.width * 2);
    for (let b = 0; b < coarse.time.length; b++) {
        const left = 2 * b, longer = fine.longest[left] >= fine.longest[left + 1] ? left : left + 1;
        coarse.time[b] = fine.time[left] + fine.time[left + 1];
        coarse.longest[b] = fine.longest[longer];
        coarse.names[b] = fine.names[longer];
    }
    return coarse;
}

/* All levels of what lies in `lanes`, the finest first; `most` of a level is the greatest number of slices at once,
 * averaged over a bin. */
function buildLevels(columns, lanes, end_ns) {
    let slices = 0, bins = LEAST_BINS;
    for (const lane of lanes) slices += lane.last - lane.first;
    while (bins < slices && bins < MOST_BINS) bins *= 2;
    const levels = [emptyLevel(bins, end_ns / bins)];
    for (const lane of lanes) {
        for (let i = lane.first; i < lane.last; i++) addToBins(levels[0], columns.begin[i], columns.end[i], columns.name[i]);
    }
    while (levels[levels.length - 1].time.length > LEAST_BINS) levels.push(halvedLevel(levels[levels.length - 1]));
    for (const level of levels) level.most = level.time.reduce((most, time) => Math.max(most, time), 0) / level.width;
    return levels;
}

/* The coarsest level that is still as fine as a pixel; the finest where none is. */
function levelFor(levels, pixel) {
    let found = 0;
    while (found + 1 < levels.length && levels[found + 1].width <= pixel) found++;
    return levels[found];
}

/* How many slices there were at once in [from, to), on average over the bins that lie there, and whose. */
function binsBetween(level, from, to) {
    const first = Math.max(0, Math.floor(from / level.width));
    const last = Math.min(level.time.length, Math.max(first + 1, Math.floor(to / level.width)));
    let sum = 0, longest = first;
    for (let b = first; b < last; b++) {
        sum += level.time[b];
        if (level.longest[b] > level.longest[longest]) longest = b;
    }
    return last > first ? {value: sum / ((last - first) * level.width), name: level.names[longest]} : {value: 0, name: 0};
}
