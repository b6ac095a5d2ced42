/* SPDX-License-Identifier: MIT */
"use strict";
/* What there is from top to bottom: a list of items, each with its place and its height in pixels.  A row has the
 * lanes of the tracks of one name in one group. */

const ROW = 18, TITLE = 22, SPACE = 3, HEAT_LINE = 3, COUNTER_HEIGHT = 34;

/* The rows of slices, by group; a row's lanes lie below each other. */
function rowsByGroup(r) {
    const groups = new Map();
    for (const lane of r.lanes) {
        const track = r.tracks[lane.track];
        if (!groups.has(track.group)) groups.set(track.group, {name: track.group, rows: new Map()});
        const rows = groups.get(track.group).rows;
        if (!rows.has(track.name)) {
            rows.set(track.name, {type: "row", name: track.name, kind: track.kind, rank: track.rank, lanes: [], group: track.group});
        }
        rows.get(track.name).lanes.push(lane);
    }
    return [...groups.values()].map(group => ({name: group.name, rows: [...group.rows.values()].sort(
        (a, b) => a.rank - b.rank || b.kind - a.kind || (a.name < b.name ? -1 : 1))}));
}

/* Threads in the order in which they were first seen, but those that differ in a number alone beside each other. */
function sortThreads(rows) {
    const stem = row => row.name.replace(/\d+$/, ""), number = row => Number((/\d+$/.exec(row.name) || [0])[0]), first = new Map();
    for (const row of rows) first.set(stem(row), Math.min(row.rank, first.get(stem(row)) ?? Infinity));
    rows.sort((a, b) => first.get(stem(a)) - first.get(stem(b)) || number(a) - number(b));
}

const groupOrder = group => group.name === "host threads" ? 0 : group.rows[0].kind === BLOCKS ? 2 : 1;

/* "GPU 10: ..." comes behind "GPU 9: ...", whichever began first. */
const ordinalOf = group => Number((/^GPU (\d+)/.exec(group.name) || [0, 0])[1]);

const FOLDED = 3; /* of the row of an SM that ran nothing in the time that is shown */

/* Rows of blocks are low unless they are spread. */
function setRowHeight(row) {
    row.height = row.isEmpty ? FOLDED : row.isBlocks && !row.isSpread ? Math.max(10, Math.min(ROW + 6, row.lanes.length * 4)) : row.lanes.length * ROW;
}

function finishRow(r, row) {
    row.isBlocks = row.kind === BLOCKS;
    row.lanes.forEach((lane, depth) => { lane.row = row; lane.line = depth; });
    row.isSpread = row.isEmpty = false;
    setRowHeight(row);
    if (row.isBlocks) row.levels = buildLevels(r, row.lanes, r.end_ns);
}

/* Fold the rows of SMs without a block between `from` and `to`, unfold the others; true when any has changed. */
function foldRows(r, items, from, to) {
    let hasChanged = false;
    for (const row of items) {
        if (row.type !== "row" || !row.isBlocks) continue;
        const isEmpty = row.lanes.every(lane => {
            const i = firstAbove(r.end, lane.first, lane.last, from);
            return i === lane.last || r.begin[i] >= to;
        });
        if (isEmpty === row.isEmpty) continue;
        row.isEmpty = isEmpty;
        setRowHeight(row);
        hasChanged = true;
    }
    return hasChanged;
}

/* All items of a recording, without their places. */
function listItems(r, path) {
    const items = [];
    if (path.count > 0) items.push({type: "title", name: "critical path", group: "critical path"},
                                   {type: "path", name: "what the run waited for", height: ROW, group: "critical path"});
    const groups = rowsByGroup(r).sort((a, b) => groupOrder(a) - groupOrder(b) || ordinalOf(a) - ordinalOf(b));
    let is_told = false;
    for (const group of groups) {
        if (group.name === "host threads") sortThreads(group.rows);
        for (const row of group.rows) finishRow(r, row);
        const isBlocks = group.rows[0].kind === BLOCKS;
        if (isBlocks) {
            for (const row of group.rows) row.rows = group.rows;
            items.push({type: "title", name: "heat: blocks per SM", group: "heat " + group.name},
                       {type: "heat", name: group.rows.length + " SMs", rows: group.rows, group: "heat " + group.name,
                        height: group.rows.length * HEAT_LINE});
        }
        items.push({type: "title", name: group.name, group: group.name});
        const part = r.gaps.parts.find(p => p.track === 0 ? groupOrder(group) === 1 && !is_told : r.tracks[p.track].name === group.name);
        if (part !== undefined && part.last > part.first) {
            items.push({type: "gaps", name: "idle, by cause", part, height: ROW, group: group.name});
            is_told = true;
        }
        items.push(...group.rows);
    }
    if (r.counters.length > 0) items.push({type: "title", name: "counters", group: "counters"});
    for (const counter of r.counters) {
        items.push({type: "counter", name: r.tracks[counter.track].name, counter, height: COUNTER_HEIGHT, group: "counters"});
    }
    return items;
}

/* Give each item its place; `closed` are the groups of which only the title is shown.  Returns the height of all. */
function placeItems(items, closed) {
    let y = 0;
    for (const item of items) {
        item.isShown = item.type === "title" || !closed.has(item.group);
        item.height = item.type === "title" ? TITLE : item.height;
        item.y = y;
        if (item.isShown) y += item.height + SPACE;
    }
    return y;
}
