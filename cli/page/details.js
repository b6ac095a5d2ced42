/* SPDX-License-Identifier: MIT */
"use strict";
/* The text beside the timeline: about what was picked, or about the whole run. */

function element(name, properties, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
}

function tableOf(rows) {
    return element("table", {}, ...rows.map(cells => element("tr", {}, ...cells.map(text => element("td", {textContent: text})))));
}

const heading = text => element("h2", {textContent: text});

/* Buttons that lead to other slices. */
function linkList(page, pane, title, slices, kind) {
    const buttons = slices.slice(0, 20).map(i => element("button", {className: "go " + kind, onclick: () => page.goTo(pane, i),
        textContent: `${kindText(pane.r, i)}: ${nameOf(pane.r, i)} (${timeText(pane.r.end[i] - pane.r.begin[i])})`}));
    return [heading(title), ...(buttons.length > 0 ? buttons : [element("div", {textContent: "nothing that is recorded"})])];
}

function sliceDetails(page, pane, i) {
    const r = pane.r, rows = [["from", timeText(r.begin[i])], ["takes", timeText(r.end[i] - r.begin[i])],
                              ["track", trackOf(r, i).name], ["number", String(r.id[i])]];
    if (pane.path.has.has(i)) rows.push(["critical path", "yes"]);
    return [heading(kindText(r, i) + ": " + nameOf(r, i)), tableOf(rows),
            ...linkList(page, pane, "waited for", pane.before, "before"),
            ...linkList(page, pane, "waited for it", pane.after, "after"), ...sameElsewhere(page, pane, i)];
}

/* How long what has this name takes, here and in the other recording. */
function sameElsewhere(page, pane, i) {
    if (page.panes.length < 2) return [];
    const name = nameOf(pane.r, i);
    const rows = page.panes.flatMap(p => sumsByName(p.r).filter(sum => sum.name === name)
        .map(sum => [`${p.r.file}: ${sum.count} × ${sum.what}`, timeText(sum.time / sum.count)]));
    return [heading("on average"), tableOf(rows)];
}

function gapDetails(pane, i) {
    const {begin, end} = pane.r.gaps;
    return [heading("the GPU was idle"), tableOf([["why", gapText(pane.r, i)], ["from", timeText(begin[i])],
                                                  ["for", timeText(end[i] - begin[i])]])];
}

const percent = (part, whole) => (100 * part / whole).toFixed(1) + " %";

/* Its name, with the GPU where another one has a partition of that name. */
const tenantName = (r, t) => r.tenants.some(other => other !== t && other.name === t.name) && t.gpu !== "" ? `${t.name}, ${t.gpu}` : t.name;

/* What each tenant was to get and what it got, and on which SMs its blocks ran. */
function tenantDetails(r) {
    const rows = r.tenants.flatMap(t => [
        [tenantName(r, t), `${t.tasks} tasks, p50 ${timeText(t.p50_ns)}, p99 ${timeText(t.p99_ns)}`],
        ...(t.target_ppm === 0 ? [] : [["share", `${percent(t.target_ppm, 1e6)}; got ${t.counted_us > 0 ? percent(t.charged_us, t.counted_us) : "?"}`],
                                       ["held back", timeText(t.held_ns)]]),
        ...(t.sms.length === 0 ? [] : [[`${t.blocks} blocks, ${t.strays} strays`,
                                        "SMs " + t.sms.map(([first, last]) => first === last ? first : `${first}-${last}`).join(", ")]])]);
    return rows.length === 0 ? [] : [heading("tenants"), tableOf(rows)];
}

function runDetails(pane) {
    const r = pane.r, path = pathByName(r, pane.path), idle = idleByCause(r), parts = [heading(r.file)];
    parts.push(tableOf([["length", timeText(r.end_ns)], ["slices", String(r.count)], ["idle times of the GPU", String(r.gaps.count)]]));
    if (path.length > 0) parts.push(heading("critical path, by name"), tableOf(path.slice(0, 10).map(([t, ns]) => [t, timeText(ns)])));
    if (idle.length > 0) parts.push(heading("GPU idle, by cause"), tableOf(idle.slice(0, 10).map(([t, ns]) => [t, timeText(ns)])));
    parts.push(...tenantDetails(r));
    return parts;
}

function compareDetails(before, after) {
    const rows = compareSums(before.r, after.r).slice(0, 25).map(row =>
        [`${row.name} (${row.what})`, timeText(row.before.time), timeText(row.after.time)]);
    return [heading("what differs most"), tableOf([["", "first", "second"], ...rows])];
}

function showDetails(page, aside) {
    const pane = page.panes.find(p => p.picked >= 0 || p.pickedGap >= 0);
    const parts = pane && pane.picked >= 0 ? sliceDetails(page, pane, pane.picked)
                : pane ? gapDetails(pane, pane.pickedGap)
                : [...(page.panes.length > 1 ? compareDetails(...page.panes) : []), ...page.panes.flatMap(runDetails)];
    aside.replaceChildren(...parts);
}

/* What one must know of the recordings before one believes them. */
function noteOf(r) {
    const parts = [];
    if (r.emulated) parts.push("The device was emulated: its times say nothing about a GPU.");
    if (!r.complete) parts.push("The recording was not ended: its last second may be missing.");
    if (r.left > 0) parts.push(`${r.left} blocks are not on this page.`);
    return parts.join(" ");
}
