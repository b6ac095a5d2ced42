/* SPDX-License-Identifier: MIT */
"use strict";
/* One recording on a canvas.  `view` is what of the time is shown, from and span in ns; panes that are compared share
 * it.  `look` is what all panes have in common: theme, search, whether the critical path is shown, closed groups. */

const SIDE = typeof innerWidth === "number" && innerWidth < 600 ? 120 : 200, /* of the names */
      RULER = 24, MAP = 34, HEAD = MAP + RULER, LEAST_SPAN = 20;
const FONT = "11px system-ui, 'DejaVu Sans', sans-serif";

class Pane {
    constructor(recording, view, look, canvas) {
        Object.assign(this, {r: recording, view, look, canvas, scroll: 0, picked: -1, pickedGap: -1, found: [], drawn: 0});
        this.g = canvas.getContext("2d");
        this.layer = document.createElement("canvas");
        this.links = findLinks(recording);
        this.path = criticalPath(recording, this.links);
        this.items = listItems(recording, this.path);
        this.busy = busyTimes(recording);
        this.place();
    }

    place() {
        this.tall = placeItems(this.items, this.look.closed);
    }

    /* Where a time is, and which time is where. */
    x(time) {
        return SIDE + (time - this.view.from) / this.view.span * (this.width - SIDE);
    }
    timeAt(x) {
        return this.view.from + (x - SIDE) / (this.width - SIDE) * this.view.span;
    }
    get pixel() {
        return this.view.span / Math.max(this.width - SIDE, 1);
    }

    pick(slice) {
        this.picked = slice;
        this.pickedGap = -1;
        this.before = slice < 0 ? [] : waitedFor(this.r, this.links, slice);
        this.after = slice < 0 ? [] : waitersOf(this.r, this.links, slice);
    }

    clamp() {
        this.scroll = Math.max(0, Math.min(this.scroll, this.tall + HEAD + 20 - this.canvas.clientHeight));
    }

    /* Scroll so that a slice's row is there. */
    reveal(slice) {
        const row = laneOf(this.r, slice).row;
        const high = this.canvas.clientHeight;
        if (!row.isShown) {
            this.look.closed.delete(row.group);
            this.place();
        }
        if (row.y < this.scroll || row.y + row.height > this.scroll + high - HEAD) this.scroll = row.y - (high - HEAD) / 3;
        this.clamp();
    }

    /* ---- drawing ---- */

    draw() {
        const scale = window.devicePixelRatio || 1, g = this.g;
        this.width = this.canvas.clientWidth;
        this.height = this.canvas.clientHeight;
        if (this.canvas.width !== Math.round(this.width * scale) || this.canvas.height !== Math.round(this.height * scale)) {
            this.canvas.width = Math.round(this.width * scale);
            this.canvas.height = Math.round(this.height * scale);
        }
        g.setTransform(scale, 0, 0, scale, 0, 0);
        g.font = FONT;
        this.drawn = 0;
        if (foldRows(this.r, this.items, this.view.from, this.view.from + this.view.span)) {
            this.place();
            this.clamp();
        }
        g.fillStyle = this.look.colours.paper;
        g.fillRect(0, 0, this.width, this.height);
        this.visible = this.items.filter(item => item.isShown && item.y + item.height >= this.scroll &&
                                                 item.y - this.scroll + HEAD < this.height);
        this.drawShade();
        this.drawGrid();
        this.drawBins();
        for (const item of this.visible) this.drawItem(item, HEAD + item.y - this.scroll);
        this.drawArrows();
        this.drawNames();
        this.drawRuler();
    }

    drawItem(item, y) {
        if (item.type === "row" && !item.isBinned) for (const lane of item.lanes) this.drawLane(item, lane, y);
        if (item.type === "counter") this.drawCounter(item, y);
        if (item.type === "gaps") this.drawGaps(item, y);
        if (item.type === "path") this.drawPath(item, y);
        if (item.type === "row") this.drawFound(item, y);
    }

    bar(begin, end, y, height, colour, text) {
        const g = this.g, left = Math.max(this.x(begin), SIDE), width = Math.max(Math.min(this.x(end), this.width) - left, 1);
        g.fillStyle = colour;
        g.fillRect(left, y, width, height);
        this.drawn++;
        if (width > 30 && height >= 12) {
            g.fillStyle = inkOn(colour);
            g.fillText(text.slice(0, Math.floor((width - 6) / 5.7)), left + 4, y + height / 2 + 4);
        }
        return [left, width];
    }

    lineHeight(row) {
        return row.height / row.lanes.length;
    }

    drawLane(row, lane, y) {
        const {from, span} = this.view, r = this.r, h = this.lineHeight(row), top = y + lane.line * h, high = Math.max(h - 1, 1);
        const fades = this.look.word !== "", pathOnly = this.look.showsPath && this.path.count > 0;
        visitVisible(r, lane.first, lane.last, from, from + span, this.pixel, i => {
            this.bar(r.begin[i], r.end[i], top, high, fades ? this.look.colours.faded : colourOf(r, i), nameOf(r, i));
            if (pathOnly && this.path.has.has(i)) this.frame(i, top, high, this.look.colours.path, 1.5);
        });
        if (this.picked >= lane.first && this.picked < lane.last) this.frame(this.picked, top, high, this.look.colours.ink, 2);
    }

    frame(i, top, high, colour, width) {
        const left = Math.max(this.x(this.r.begin[i]), SIDE), right = Math.min(this.x(this.r.end[i]), this.width);
        if (right < SIDE || left > this.width) return;
        this.g.strokeStyle = colour;
        this.g.lineWidth = width;
        this.g.strokeRect(left, top, Math.max(right - left, 2), high);
    }

    /* What was found, upon what is drawn; blocks that are drawn as bins, too. */
    drawFound(row, y) {
        const {from, span} = this.view, r = this.r, h = this.lineHeight(row), found = this.found;
        for (const lane of found.length === 0 ? [] : row.lanes) {
            let at = firstAbove(found, 0, found.length, lane.first - 1), last = -1;
            at = Math.max(at, firstFoundAfter(found, r.end, at, firstAbove(found, at, found.length, lane.last - 1), from));
            for (; at < found.length && found[at] < lane.last && r.begin[found[at]] < from + span; at++) {
                const i = found[at], right = Math.ceil(this.x(r.end[i]));
                if (right <= last) continue;
                last = right;
                this.bar(r.begin[i], r.end[i], y + lane.line * h, Math.max(h - 1, 1), colourOf(r, i), nameOf(r, i));
            }
        }
    }

    drawGaps(item, y) {
        const {from, span} = this.view, gaps = this.r.gaps, colours = this.look.colours;
        visitVisible(gaps, item.part.first, item.part.last, from, from + span, this.pixel, i => {
            this.bar(gaps.begin[i], gaps.end[i], y, item.height - 1, colours.causes[gaps.cause[i]], gapText(this.r, i));
            if (i === this.pickedGap) {
                this.g.strokeStyle = colours.ink;
                this.g.lineWidth = 2;
                this.g.strokeRect(this.x(gaps.begin[i]), y, this.x(gaps.end[i]) - this.x(gaps.begin[i]), item.height - 1);
            }
        });
    }

    drawPath(item, y) {
        const {from, span} = this.view, path = this.path;
        visitVisible(path, 0, path.count, from, from + span, this.pixel, i => {
            const slice = path.slices[i];
            this.bar(path.begin[i], path.end[i], y, item.height - 1, colourOf(this.r, slice), nameOf(this.r, slice));
        });
    }

    /* A faint band over all rows where the GPU was idle; several GPUs are idle at different times. */
    drawShade() {
        const {from, span} = this.view, gaps = this.r.gaps, colours = this.look.colours;
        if (gaps.parts.length > 1) return;
        this.g.globalAlpha = 0.16;
        visitVisible(gaps, 0, gaps.count, from, from + span, this.pixel, i => {
            const left = Math.max(this.x(gaps.begin[i]), SIDE), right = Math.min(this.x(gaps.end[i]), this.width);
            this.g.fillStyle = colours.causes[gaps.cause[i]];
            if (right - left >= 0.5) this.g.fillRect(left, HEAD, right - left, this.height);
        });
        this.g.globalAlpha = 1;
    }

    drawGrid() {
        const {from, span} = this.view, step = roundStep(span, Math.max((this.width - SIDE) / 110, 1));
        this.g.fillStyle = this.look.colours.line;
        for (let t = Math.ceil(from / step) * step; t <= from + span; t += step) this.g.fillRect(this.x(t), HEAD - 6, 1, this.height);
    }

    drawCounter(item, y) {
        const {time, value, count, most} = item.counter, g = this.g, {from, span} = this.view;
        const level = v => y + item.height - (most ? v / most : 0) * (item.height - 4);
        let i = Math.max(firstAbove(time, 0, count, from) - 1, 0), at = i < count && time[i] <= from ? value[i] : 0;
        g.beginPath();
        g.moveTo(SIDE, y + item.height);
        g.lineTo(SIDE, level(at));
        while (i < count && time[i] < from + span) { /* of what lies within one pixel, the greatest */
            const px = Math.max(this.x(time[i]), SIDE), edge = time[i] + this.pixel;
            let greatest = value[i];
            g.lineTo(px, level(at));
            for (; i < count && time[i] <= edge; i++) {
                greatest = Math.max(greatest, value[i]);
                at = value[i];
            }
            g.lineTo(px, level(greatest));
            if (greatest !== at) g.lineTo(px, level(at));
        }
        g.lineTo(this.width, level(at));
        g.lineTo(this.width, y + item.height);
        g.fillStyle = this.look.colours.counter;
        g.fill();
    }

    /* ---- blocks, added up ---- */

    /* Would a row's blocks be too many to draw each? */
    hasTooMany(row) {
        const {from, span} = this.view, limit = Math.max((this.width - SIDE) / 3, 40);
        let count = 0;
        for (const lane of row.lanes) {
            const first = firstAbove(this.r.end, lane.first, lane.last, from);
            count += firstAbove(this.r.begin, first, lane.last, from + span) - first;
            if (count > limit) return true;
        }
        return false;
    }

    /* Heat, and the rows that have too many blocks, as one image below everything else. */
    drawBins() {
        const wide = Math.max(Math.floor(this.width - SIDE), 1), high = Math.max(Math.floor(this.height - HEAD), 1);
        for (const item of this.visible) if (item.isBlocks) item.isBinned = this.hasTooMany(item);
        const binned = this.visible.filter(item => item.type === "heat" || item.isBinned);
        if (binned.length === 0) return;
        const image = this.imageOf(wide, high), pixels = new Uint32Array(image.data.buffer);
        pixels.fill(0);
        let rows, most = 0;
        for (const item of binned) {
            if (item.rows !== rows) most = this.mostOf(item);
            rows = item.rows;
            const top = Math.floor(item.y - this.scroll);
            if (item.type === "heat") this.paintHeat(pixels, wide, high, top, item, most);
            else this.paintArea(pixels, wide, high, top, item, most);
        }
        const context = this.layer.getContext("2d");
        context.putImageData(image, 0, 0);
        this.g.drawImage(this.layer, SIDE, HEAD);
    }

    /* The most blocks at once of all SMs of an item, averaged over what a pixel stands for: the scale of its colours. */
    mostOf(item) {
        return item.rows.reduce((most, row) => Math.max(most, levelFor(row.levels, this.pixel).most), 0);
    }

    imageOf(wide, high) {
        if (!this.image || this.image.width !== wide || this.image.height !== high) {
            this.layer.width = wide;
            this.layer.height = high;
            this.image = this.layer.getContext("2d").createImageData(wide, high);
        }
        return this.image;
    }

    /* A line per SM: the colder, the fewer blocks. */
    paintHeat(pixels, wide, high, top, item, most) {
        item.rows.forEach((row, number) => {
            const first = Math.max(top + number * HEAT_LINE, 0), last = Math.min(top + (number + 1) * HEAT_LINE, high);
            if (first >= last) return;
            const level = levelFor(row.levels, this.pixel);
            for (let px = 0; px < wide; px++) {
                const time = this.view.from + px * this.pixel, {value} = binsBetween(level, time, time + this.pixel);
                const colour = value > 0 ? HEAT[Math.min(255, Math.round(value / most * 255))] : 0;
                for (let py = first; py < last; py++) pixels[py * wide + px] = colour;
            }
            this.drawn++;
        });
    }

    /* As high as there were blocks, in the colour of the kernel that had the longest of them. */
    paintArea(pixels, wide, high, top, row, most) {
        const level = levelFor(row.levels, this.pixel), bottom = top + row.height - 1, faded = pixelOf(this.look.colours.faded);
        for (let px = 0; px < wide; px++) {
            const time = this.view.from + px * this.pixel, {value, name} = binsBetween(level, time, time + this.pixel);
            if (value <= 0) continue;
            const tall = Math.max(1, Math.round(value / most * (row.height - 1)));
            const colour = this.look.word !== "" ? faded : NAME_PIXELS[this.r.colours[name]];
            for (let py = Math.max(bottom - tall, 0); py < Math.min(bottom, high); py++) pixels[py * wide + px] = colour;
        }
        this.drawn++;
    }

    /* ---- arrows, names, ruler ---- */

    middleOf(slice) {
        const lane = laneOf(this.r, slice), h = this.lineHeight(lane.row);
        return HEAD + lane.row.y - this.scroll + (lane.row.isShown ? (lane.line + 0.5) * h : 0);
    }

    arrow(from, to, colour) {
        const g = this.g, r = this.r;
        const ax = this.x(Math.min(r.end[from], Math.max(r.begin[from], r.begin[to]))), ay = this.middleOf(from);
        const bx = this.x(r.begin[to]), by = this.middleOf(to), bend = Math.max(20, Math.min(Math.abs(bx - ax) / 2, 200));
        g.strokeStyle = g.fillStyle = colour;
        g.lineWidth = 1.6;
        g.beginPath();
        g.moveTo(ax, ay);
        g.bezierCurveTo(ax + bend, ay, bx - bend, by, bx, by);
        g.stroke();
        g.beginPath();
        g.moveTo(bx, by);
        g.lineTo(bx - 7, by - 4);
        g.lineTo(bx - 7, by + 4);
        g.fill();
    }

    drawArrows() {
        const colours = this.look.colours;
        this.g.save();
        this.g.beginPath();
        this.g.rect(SIDE, HEAD, this.width, this.height);
        this.g.clip();
        if (this.look.showsPath) this.drawPathLine();
        if (this.picked >= 0) {
            for (const other of this.before) this.arrow(other, this.picked, colours.before);
            for (const other of this.after) this.arrow(this.picked, other, colours.after);
        }
        this.g.restore();
    }

    /* The path goes from the end of each slice to the begin of the next; of what is within a pixel one is enough. */
    drawPathLine() {
        const {from, span} = this.view, path = this.path, g = this.g;
        let last = -1;
        g.strokeStyle = this.look.colours.path;
        g.globalAlpha = 0.55;
        g.lineWidth = 1.2;
        g.beginPath();
        visitVisible(path, 0, path.count, from, from + span, this.pixel * 2, i => {
            const y = this.middleOf(path.slices[i]);
            if (last < 0) g.moveTo(this.x(path.begin[i]), y); else g.lineTo(this.x(path.begin[i]), y);
            g.lineTo(this.x(path.end[i]), y);
            last = i;
        });
        g.stroke();
        g.globalAlpha = 1;
    }

    drawNames() {
        const g = this.g, colours = this.look.colours;
        g.fillStyle = colours.side;
        g.fillRect(0, HEAD, SIDE, this.height);
        g.fillStyle = colours.line;
        g.fillRect(SIDE - 1, 0, 1, this.height);
        for (const item of this.visible) {
            const y = HEAD + item.y - this.scroll;
            if (item.type === "title") this.drawTitle(item, y);
            else {
                g.fillStyle = colours.ink;
                if (!item.isEmpty) g.fillText(item.name.slice(0, 30), 18, y + Math.min(item.height / 2 + 4, 13), SIDE - 26);
                if (item.type === "counter") g.fillText("0 to " + countText(item.name, item.counter.most), 18, y + 27, SIDE - 26);
                if (item.type === "heat") g.fillText("at most " + this.mostOf(item).toFixed(1) + " blocks", 18, y + 27, SIDE - 26);
            }
        }
    }

    drawTitle(item, y) {
        const g = this.g, colours = this.look.colours;
        g.fillStyle = colours.title;
        g.fillRect(0, y, this.width, TITLE - 3);
        g.fillStyle = colours.ink;
        g.font = "bold " + FONT;
        g.fillText((this.look.closed.has(item.group) ? "▸ " : "▾ ") + item.name, 6, y + 13);
        g.font = FONT;
    }

    drawRuler() {
        const g = this.g, colours = this.look.colours, {from, span} = this.view, wide = this.width - SIDE, end = this.view.end;
        const map = t => SIDE + t / end * wide;
        g.fillStyle = colours.paper;
        g.fillRect(0, 0, this.width, HEAD);
        g.fillStyle = colours.title;
        g.fillRect(SIDE, 4, wide, MAP - 8);
        g.fillStyle = colours.busy;
        visitVisible(this.busy, 0, this.busy.begin.length, 0, end, end / wide, i =>
            g.fillRect(map(this.busy.begin[i]), 4, Math.max(map(this.busy.end[i]) - map(this.busy.begin[i]), 0.5), MAP - 8));
        g.fillStyle = colours.shade;
        g.fillRect(map(from), 4, map(from + span) - map(from), MAP - 8);
        g.strokeStyle = colours.ink;
        g.lineWidth = 1;
        g.strokeRect(map(from), 4.5, Math.max(map(from + span) - map(from), 2), MAP - 9);
        g.fillStyle = colours.soft;
        g.fillText("GPU busy", 12, MAP / 2 + 4);
        g.fillText(this.r.file.slice(0, 30), 12, MAP + 14, SIDE - 20);
        const step = roundStep(span, Math.max(wide / 110, 1));
        for (let t = Math.ceil(from / step) * step; t <= from + span; t += step) {
            if (this.x(t) + 60 < this.width) g.fillText(timeText(t), this.x(t) + 4, HEAD - 8);
        }
    }

    /* ---- what is where ---- */

    itemAt(y) {
        const place = y - HEAD + this.scroll;
        return y < HEAD ? undefined : this.items.find(item => item.isShown && place >= item.y && place < item.y + item.height);
    }

    /* What is at a place: {slice}, {gap}, {sm, value}, or nothing. */
    thingAt(x, y) {
        const item = x > SIDE ? this.itemAt(y) : undefined, time = this.timeAt(x), place = y - HEAD + this.scroll;
        if (item === undefined) return {};
        if (item.type === "row") {
            const lane = item.lanes[Math.min(Math.floor((place - item.y) / this.lineHeight(item)), item.lanes.length - 1)];
            const slice = intervalAt(this.r, lane.first, lane.last, time, this.pixel * 2);
            return slice < 0 ? {} : {slice};
        }
        if (item.type === "heat") {
            const row = item.rows[Math.floor((place - item.y) / HEAT_LINE)], level = levelFor(row.levels, this.pixel);
            return {sm: row.name, value: binsBetween(level, time, time + this.pixel).value};
        }
        if (item.type === "gaps") {
            const gap = intervalAt(this.r.gaps, item.part.first, item.part.last, time, this.pixel * 2);
            return gap < 0 ? {} : {gap};
        }
        if (item.type === "path") {
            const at = intervalAt(this.path, 0, this.path.count, time, this.pixel * 2);
            return at < 0 ? {} : {slice: this.path.slices[at]};
        }
        return {};
    }
}

/* Of intervals that do not overlap the one at a time, or not farther from it than `near`; -1: none. */
function intervalAt({begin, end}, first, last, time, near) {
    const i = firstAbove(end, first, last, time);
    if (i < last && begin[i] <= time) return i;
    const before = i > first ? time - end[i - 1] : Infinity, after = i < last ? begin[i] - time : Infinity;
    if (Math.min(before, after) > near) return -1;
    return before < after ? i - 1 : i;
}

/* The first of found[low, high) whose end is behind a time. */
function firstFoundAfter(found, end, low, high, time) {
    while (low < high) {
        const middle = (low + high) >> 1;
        if (end[found[middle]] > time) high = middle; else low = middle + 1;
    }
    return low;
}

/* When at least one GPU task ran. */
function busyTimes(r) {
    const begin = [], end = [];
    for (const i of slicesWhere(r, (_, lane) => r.tracks[lane.track].kind === QUEUE)) {
        const last = end.length - 1;
        if (last >= 0 && r.begin[i] <= end[last]) end[last] = Math.max(end[last], r.end[i]);
        else {
            begin.push(r.begin[i]);
            end.push(r.end[i]);
        }
    }
    return {begin, end};
}
