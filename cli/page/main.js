/* SPDX-License-Identifier: MIT */
"use strict";
/* The page: panes, and what hands do with them. */

const $ = id => document.getElementById(id);

class Page {
    constructor(recordings) {
        this.look = {word: "", showsPath: true, closed: new Set(), colours: LIGHT};
        this.view = {from: 0, span: 1, end: 1};
        this.panes = [];
        this.active = 0;
        for (const recording of recordings) this.add(recording);
        this.setTheme(matchMedia("(prefers-color-scheme: dark)").matches);
        this.fit();
    }

    /* ---- panes ---- */

    add(recording) {
        if (this.panes.length === 2) this.panes.pop().canvas.parentElement.remove();
        const canvas = element("canvas", {tabIndex: 0});
        canvas.setAttribute("role", "application");
        canvas.setAttribute("aria-label", `timeline of ${recording.file}; press ? for the keys`);
        $("stage").append(element("div", {className: "pane"}, canvas));
        const pane = new Pane(recording, this.view, this.look, canvas);
        pane.pick(-1);
        this.panes.push(pane);
        this.view.end = Math.max(...this.panes.map(p => p.r.end_ns));
        listenTo(this, pane);
        $("beside").hidden = this.panes.length < 2;
        this.tellNote();
        this.listKey();
        this.listGroups();
    }

    tellNote() {
        const notes = this.panes.map(p => noteOf(p.r)).filter((note, i, all) => note !== "" && all.indexOf(note) === i);
        $("note").replaceChildren(element("b", {textContent: notes.join(" ")}));
        $("note").hidden = notes.length === 0;
    }

    async addFile(file) {
        const recordings = recordingsInPage(await file.text());
        if (recordings.length === 0) {
            $("found").textContent = "no page of gantry report";
            return;
        }
        this.add({...recordings[0], file: recordings[0].file === this.panes[0].r.file ? file.name : recordings[0].file});
        this.fit();
    }

    /* ---- looks ---- */

    setTheme(isDark) {
        this.look.colours = isDark ? DARK : LIGHT;
        document.documentElement.classList.toggle("dark", isDark);
        $("theme").textContent = isDark ? "light" : "dark";
        this.listKey();
        this.draw();
    }

    /* Of the causes of idle times those that the recordings have. */
    listKey() {
        const had = new Map(this.panes.flatMap(p => [...new Set(p.r.gaps.cause)].map(cause => [cause, p.r.causes[cause]])));
        const causes = [...had].sort((a, b) => a[0] - b[0]).map(([cause, text]) => ["idle: " + text, this.look.colours.causes[cause]]);
        $("key").replaceChildren(...[...LEGEND, ...causes].map(([text, colour]) => {
            const dot = element("i", {});
            dot.style.background = colour;
            return element("span", {}, dot, text);
        }));
    }

    listGroups() {
        const titles = new Map(this.panes.flatMap(p => p.items.filter(item => item.type === "title").map(t => [t.group, t.name])));
        $("grouplist").replaceChildren(...[...titles].map(([group, name]) => element("label", {},
            element("input", {type: "checkbox", checked: !this.look.closed.has(group), onchange: () => this.toggleGroup(group)}), name)));
    }

    toggleGroup(group) {
        if (!this.look.closed.delete(group)) this.look.closed.add(group);
        for (const pane of this.panes) pane.place();
        this.listGroups();
        this.draw();
    }

    /* Once per frame, whatever happened until then. */
    draw() {
        if (this.isAsked) return;
        this.isAsked = true;
        requestAnimationFrame(() => {
            this.isAsked = false;
            this.drawNow();
        });
    }

    drawNow() {
        for (const pane of this.panes) {
            pane.clamp();
            pane.draw();
        }
        const sum = key => this.panes.reduce((n, pane) => n + pane[key], 0);
        document.title = `Gantry timeline: ${sum("drawn")} drawn of ${this.panes.reduce((n, p) => n + p.r.count, 0)} slices`;
    }

    /* ---- where one looks ---- */

    show(from, span) {
        this.view.span = Math.min(Math.max(span, LEAST_SPAN), this.view.end);
        this.view.from = Math.min(Math.max(from, 0), this.view.end - this.view.span);
        this.draw();
    }
    fit() {
        this.show(0, this.view.end);
        showDetails(this, $("details"));
    }
    zoom(factor, at) {
        const part = (at - this.view.from) / this.view.span, span = Math.min(Math.max(this.view.span * factor, LEAST_SPAN), this.view.end);
        this.show(at - part * span, span);
    }
    zoomBy(factor) {
        this.zoom(factor, this.view.from + this.view.span / 2);
    }
    zoomToPicked() {
        const pane = this.panes[this.active], i = pane.picked;
        if (i < 0) return;
        const length = Math.max(pane.r.end[i] - pane.r.begin[i], 10);
        this.show(pane.r.begin[i] - length * 2, length * 5);
    }

    pick(pane, slice, gap = -1) {
        for (const p of this.panes) p.pick(-1);
        pane.pick(slice);
        pane.pickedGap = gap;
        this.active = this.panes.indexOf(pane);
        showDetails(this, $("details"));
        this.draw();
    }

    /* Pick a slice and bring it into the view. */
    goTo(pane, slice) {
        const {begin, end} = pane.r, {from, span} = this.view, length = end[slice] - begin[slice];
        this.pick(pane, slice);
        pane.reveal(slice);
        if (length < pane.pixel * 3 && span > length * 40) this.show(begin[slice] - length * 20, Math.max(length * 40, LEAST_SPAN));
        else if (begin[slice] < from || end[slice] > from + span) this.show(begin[slice] + length / 2 - span / 2, span);
        pane.canvas.focus();
    }

    /* ---- finding ---- */

    find(text) {
        this.look.word = text.trim();
        for (const pane of this.panes) pane.found = slicesFound(pane.r, text);
        const counts = this.panes.map(pane => pane.found.length);
        $("found").textContent = this.look.word === "" ? "" : counts.join(" and ") + " found";
        this.draw();
    }
    findNext(step) {
        const pane = this.panes[this.active].found.length > 0 ? this.panes[this.active] : this.panes.find(p => p.found.length > 0);
        if (pane === undefined) return;
        this.goTo(pane, nextFound(pane.r, pane.found, pane.picked, step));
        $("find").focus();
    }
}

/* ---- the neighbours of a slice ------------------------------------------------------------------- */

function nearestInRow(r, row, time) {
    let best = -1;
    for (const lane of row.lanes) {
        const i = intervalAt(r, lane.first, lane.last, time, Infinity);
        if (i >= 0 && (best < 0 || Math.abs(r.begin[i] - time) < Math.abs(r.begin[best] - time))) best = i;
    }
    return best;
}

function neighbour(pane, dx, dy) {
    const rows = pane.items.filter(item => item.type === "row" && item.isShown), r = pane.r;
    if (rows.length === 0) return -1;
    if (pane.picked < 0) return nearestInRow(r, rows[0], pane.view.from);
    const lane = laneOf(r, pane.picked);
    if (dx !== 0) return Math.min(Math.max(pane.picked + dx, lane.first), lane.last - 1);
    const row = rows[Math.min(Math.max(rows.indexOf(lane.row) + dy, 0), rows.length - 1)];
    return nearestInRow(r, row, r.begin[pane.picked]);
}

/* ---- hands --------------------------------------------------------------------------------------- */

function tipText(pane, {slice, gap, sm, value}) {
    const r = pane.r;
    if (slice !== undefined) return `${nameOf(r, slice)}\n${kindText(r, slice)} ${r.id[slice]}: ${timeText(r.end[slice] - r.begin[slice])} from ${timeText(r.begin[slice])}`;
    if (gap !== undefined) return `GPU idle for ${timeText(r.gaps.end[gap] - r.gaps.begin[gap])}\n${gapText(r, gap)}`;
    return sm !== undefined ? `${sm}: ${value.toFixed(1)} blocks` : "";
}

function showTip(pane, event) {
    const text = tipText(pane, pane.thingAt(event.offsetX, event.offsetY)), tip = $("tip");
    tip.style.display = text === "" ? "none" : "block";
    tip.textContent = text;
    tip.style.left = Math.max(0, Math.min(event.clientX + 14, innerWidth - 260)) + "px";
    tip.style.top = event.clientY + 14 + "px";
}

function onWheel(page, pane, event) {
    event.preventDefault();
    const move = event.deltaX || (event.shiftKey ? event.deltaY : 0);
    if (event.ctrlKey || event.offsetX < SIDE) {
        pane.scroll += event.deltaY;
        page.draw();
    } else if (move !== 0) page.show(page.view.from + move * pane.pixel, page.view.span);
    else page.zoom(event.deltaY > 0 ? 1.25 : 0.8, pane.timeAt(event.offsetX));
}

function onClick(page, pane, event) {
    const item = pane.itemAt(event.offsetY), {slice, gap} = pane.thingAt(event.offsetX, event.offsetY);
    if (item && item.type === "title") page.toggleGroup(item.group);
    else if (item && item.isBlocks && event.offsetX < SIDE) spread(page, pane, item);
    else page.pick(pane, slice === undefined ? -1 : slice, gap === undefined ? -1 : gap);
}

/* On the map at the top: the middle of what is shown goes where the pointer is. */
function moveOnMap(page, pane, event) {
    page.show((event.offsetX - SIDE) / (pane.width - SIDE) * page.view.end - page.view.span / 2, page.view.span);
}

/* Of two fingers: the place between them, from the canvas's left side, and how far apart they are. */
function spreadOf(pane, fingers) {
    const [a, b] = [...fingers.values()], left = pane.canvas.getBoundingClientRect().left;
    return {middle: (a.clientX + b.clientX) / 2 - left, apart: Math.max(Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY), 1)};
}

function beginPinch(page, pane, fingers) {
    const {middle, apart} = spreadOf(pane, fingers);
    return {time: pane.timeAt(middle), apart, span: page.view.span};
}

/* The time that was between the fingers stays there. */
function movePinch(page, pane, pinch, fingers) {
    const {middle, apart} = spreadOf(pane, fingers);
    const span = Math.min(Math.max(pinch.span * pinch.apart / apart, LEAST_SPAN), page.view.end);
    page.show(pinch.time - (middle - SIDE) / Math.max(pane.width - SIDE, 1) * span, span);
}

function listenTo(page, pane) {
    const canvas = pane.canvas, fingers = new Map();
    let drag = null, pinch = null;
    const beginDrag = (event, moved) => {
        drag = {x: event.clientX, y: event.clientY, from: page.view.from, scroll: pane.scroll, moved, map: event.offsetY < MAP};
    };
    canvas.addEventListener("wheel", event => onWheel(page, pane, event), {passive: false});
    canvas.onpointerdown = event => {
        fingers.set(event.pointerId, event);
        canvas.setPointerCapture(event.pointerId);
        page.active = page.panes.indexOf(pane);
        beginDrag(event, false);
        pinch = fingers.size === 2 ? beginPinch(page, pane, fingers) : null;
        if (drag.map && pinch === null) moveOnMap(page, pane, event);
    };
    canvas.onpointerup = canvas.onpointercancel = event => {
        fingers.delete(event.pointerId);
        if (event.type === "pointerup" && drag && !drag.moved && !drag.map && pinch === null) onClick(page, pane, event);
        drag = pinch = null;
        for (const finger of fingers.values()) beginDrag(finger, true); /* of a pinch one goes on */
    };
    canvas.onpointermove = event => {
        if (fingers.has(event.pointerId)) fingers.set(event.pointerId, event);
        if (pinch) movePinch(page, pane, pinch, fingers);
        else if (!drag) showTip(pane, event);
        else if (drag.map) moveOnMap(page, pane, event);
        else {
            drag.moved = drag.moved || Math.abs(event.clientX - drag.x) + Math.abs(event.clientY - drag.y) > 3;
            pane.scroll = drag.scroll - (event.clientY - drag.y);
            page.show(drag.from - (event.clientX - drag.x) * pane.pixel, page.view.span);
        }
    };
    canvas.onpointerleave = () => { $("tip").style.display = "none"; };
    canvas.onfocus = () => { page.active = page.panes.indexOf(pane); };
}

function toggle(button, panel) {
    panel.hidden = !panel.hidden;
    button.setAttribute("aria-expanded", String(!panel.hidden));
}

function togglePath(page) {
    page.look.showsPath = !page.look.showsPath;
    $("path").setAttribute("aria-pressed", String(page.look.showsPath));
    page.draw();
}

function toggleBeside(page) {
    const isAbove = $("stage").classList.toggle("above");
    $("beside").textContent = isAbove ? "beside each other" : "one above the other";
    page.draw();
}

function letGo(page) {
    for (const id of ["keys", "grouplist"]) $(id).hidden = true;
    $("help").setAttribute("aria-expanded", "false");
    $("groups").setAttribute("aria-expanded", "false");
    page.pick(page.panes[page.active], -1);
}

function step(page, dx, dy) {
    const pane = page.panes[page.active], next = neighbour(pane, dx, dy);
    if (next >= 0) page.goTo(pane, next);
}

function follow(page, list) {
    const pane = page.panes[page.active];
    if (pane.picked >= 0 && pane[list].length > 0) page.goTo(pane, pane[list][0]);
}

/* Show each line of an SM's blocks as high as a task, or low again. */
function spread(page, pane, row) {
    row.isSpread = !row.isSpread;
    setRowHeight(row);
    pane.place();
    page.draw();
}

function spreadPicked(page) {
    const pane = page.panes[page.active], row = pane.picked < 0 ? undefined : laneOf(pane.r, pane.picked).row;
    if (row !== undefined && row.isBlocks) spread(page, pane, row);
}

function scrollBy(page, pixels) {
    page.panes[page.active].scroll += pixels;
    page.draw();
}

/* What each key does. */
const KEYS = {
    w: page => page.zoomBy(0.8), s: page => page.zoomBy(1.25),
    a: page => page.show(page.view.from - page.view.span * 0.15, page.view.span),
    d: page => page.show(page.view.from + page.view.span * 0.15, page.view.span),
    r: page => scrollBy(page, -120), v: page => scrollBy(page, 120),
    arrowleft: page => step(page, -1, 0), arrowright: page => step(page, 1, 0),
    arrowup: page => step(page, 0, -1), arrowdown: page => step(page, 0, 1),
    "[": page => follow(page, "before"), "]": page => follow(page, "after"),
    z: page => page.zoomToPicked(), x: spreadPicked, f: page => page.fit(), c: togglePath,
    g: () => toggle($("groups"), $("grouplist")), o: () => $("file").click(), b: toggleBeside,
    t: page => page.setTheme(page.look.colours === LIGHT), "?": () => toggle($("help"), $("keys")),
    "/": () => $("find").focus(), escape: letGo,
};

function onKey(page, event) {
    if (event.target.tagName === "INPUT" && event.key !== "Escape") {
        if (event.target === $("find") && event.key === "Enter") page.findNext(event.shiftKey ? -1 : 1);
        return;
    }
    const action = event.ctrlKey || event.altKey || event.metaKey ? undefined : KEYS[event.key.toLowerCase()];
    if (action === undefined) return;
    event.preventDefault();
    if (event.key === "Escape" && event.target === $("find")) page.panes[page.active].canvas.focus();
    action(page);
}

/* Zoom in and out and move, a step per frame: {frame: ns between frames, draw: ms that drawing took}, for those who
 * want to know how fluent it is. */
async function measureFrames(page, steps) {
    const frames = [], draws = [], end = page.view.end;
    let last;
    for (let i = 0; i <= steps; i++) {
        const now = await new Promise(requestAnimationFrame), phase = i / steps * 4 * Math.PI;
        if (last !== undefined) frames.push(now - last);
        last = now;
        const span = end * Math.pow(1e-3, (1 - Math.cos(phase)) / 2);
        page.view.span = span;
        page.view.from = (end - span) * (0.5 + 0.4 * Math.sin(phase / 2));
        page.panes[0].scroll = page.panes[0].tall * 0.5 * (1 + Math.sin(phase / 4));
        const begin = performance.now();
        page.drawNow();
        draws.push(performance.now() - begin);
    }
    return {frames, draws};
}

function start() {
    const page = new Page([...document.querySelectorAll('script[type="text/x-gantry-recording-2"]')].map(s => readRecording(s.textContent)));
    $("find").oninput = event => page.find(event.target.value);
    $("nearer").onclick = () => page.zoomBy(0.5);
    $("farther").onclick = () => page.zoomBy(2);
    $("fit").onclick = () => page.fit();
    $("path").onclick = () => togglePath(page);
    $("groups").onclick = () => toggle($("groups"), $("grouplist"));
    $("help").onclick = () => toggle($("help"), $("keys"));
    $("other").onclick = () => $("file").click();
    $("beside").onclick = () => toggleBeside(page);
    $("theme").onclick = () => page.setTheme(page.look.colours === LIGHT);
    $("file").onchange = event => event.target.files.length > 0 && page.addFile(event.target.files[0]);
    addEventListener("keydown", event => onKey(page, event));
    addEventListener("resize", () => page.draw());
    page.drawNow();
    const name = decodeURIComponent(location.hash.slice(1)); /* page.html#name: the first slice of that name */
    const pane = page.panes[0], wanted = name === "" ? [] : slicesFound(pane.r, name).filter(i => nameOf(pane.r, i) === name);
    if (wanted.length > 0) page.goTo(pane, wanted.find(i => pane.r.flowCount[i] > 0) ?? wanted[0]);
    return page;
}
