/* SPDX-License-Identifier: MIT */
"use strict";
/* Colours and words. */

const LIGHT = {paper: "#ffffff", side: "#f6f8fa", title: "#e9eef3", ink: "#1d2733", soft: "#5f6b78", line: "#dde3e9",
               faded: "#e3e7eb", mark: "#d6336c", before: "#c2410c", after: "#0e7490", path: "#d6336c",
               busy: "#8fb3dd", shade: "#1d273326", counter: "#9db8d6",
               causes: ["#b3a6da", "#8fbf7a", "#f08a7b", "#7cc0c0", "#d8c46c", "#8db4ea", "#a9b8ca", "#c3c9a0", "#e6b8bf", "#f2a33a"]};
const DARK = {paper: "#12181f", side: "#18202a", title: "#222d39", ink: "#e6ebf0", soft: "#9aa7b4", line: "#2a3542",
              faded: "#242d38", mark: "#ff6b9d", before: "#fb923c", after: "#22d3ee", path: "#ff6b9d",
              busy: "#3f6ea8", shade: "#ffffff2b", counter: "#3c5878",
              causes: ["#65569a", "#4c7a3a", "#a83a2b", "#23666c", "#6f5f12", "#2f62a8", "#4f6078", "#5c6136", "#7a4650", "#8f5a12"]};
const PHASES = {HtoD: "#f2a33a", Kernel: "#3b7ddd", DtoH: "#35a37c"};
const CATEGORIES = {task: "#8e7cc3", launch: "#6b9bdc", batch: "#8fa3ba", wait: "#9aa3ad", submit: "#d6336c",
                    memory: "#d94f3d", share: "#5f8f4a", exchange: "#2f8f8f", across: "#f2a33a", ctas: "#9aa88c", gpu_batch: "#8fa3ba"};
const BY_NAME = ["#4c9fb5", "#e07b53", "#7a9e4f", "#b06bb3", "#c7a33d", "#5b7fc7", "#c75b7a", "#4fae8d", "#9a7b5a", "#6d8ea0"];
const LEGEND = [["CPU task", CATEGORIES.task], ["submission", CATEGORIES.submit], ["launch call", CATEGORIES.launch],
                ["HtoD phase", PHASES.HtoD], ["Kernel phase", PHASES.Kernel], ["DtoH phase", PHASES.DtoH],
                ["wait for the GPU", CATEGORIES.wait], ["wait for memory", CATEGORIES.memory],
                ["held back by a share", CATEGORIES.share], ["wait for a renderer", CATEGORIES.exchange],
                ["GPU tasks, kernels, blocks: a colour per name", BY_NAME[0]]];

function colourOf(r, slice) {
    const category = categoryOf(r, slice);
    if (category === "phase") return PHASES[nameOf(r, slice).replace("GD ", "")] || CATEGORIES.batch;
    return CATEGORIES[category] || BY_NAME[r.colours[r.name[slice]]];
}
/* What one can read on the colour: black or white, whichever has the greater contrast. */
function lightOf(colour) {
    const n = parseInt(colour.slice(1), 16);
    return [[n >> 16, 0.2126], [n >> 8 & 255, 0.7152], [n & 255, 0.0722]].reduce((sum, [value, part]) =>
        sum + part * (value <= 10 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4), 0);
}
const INKS = new Map();
function inkOn(colour) {
    if (!INKS.has(colour)) INKS.set(colour, lightOf(colour) > 0.179 ? "#000000" : "#ffffff");
    return INKS.get(colour);
}

/* The same name has the same colour in every recording. */
function colourNumber(name) {
    let hash = 0;
    for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) >>> 0;
    return ((hash ^ (hash >>> 7)) >>> 0) % BY_NAME.length;
}

/* As a pixel of an image: red is the lowest byte. */
function pixelOf(colour, alpha = 255) {
    const n = parseInt(colour.slice(1), 16);
    return ((alpha << 24) | ((n & 255) << 16) | (n & 0xff00) | (n >> 16)) >>> 0;
}
const NAME_PIXELS = BY_NAME.map(colour => pixelOf(colour));

/* From cold to hot: 256 pixels. */
function heatRamp() {
    const stops = [[38, 52, 94], [33, 110, 142], [56, 166, 120], [172, 206, 62], [250, 226, 70], [246, 120, 48]];
    return Uint32Array.from({length: 256}, (_, i) => {
        const at = i / 255 * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2), part = at - low;
        const [red, green, blue] = stops[low].map((c, k) => Math.round(c + (stops[low + 1][k] - c) * part));
        return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
    });
}
const HEAT = heatRamp();

function timeText(ns) {
    if (ns >= 1e9) return (ns / 1e9).toFixed(3) + " s";
    if (ns >= 1e6) return (ns / 1e6).toFixed(3) + " ms";
    return ns >= 1e3 ? (ns / 1e3).toFixed(2) + " µs" : Math.round(ns) + " ns";
}

function bytesText(bytes) {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB"], k = bytes < 1024 ? 0 : Math.min(Math.floor(Math.log2(bytes) / 10), 4);
    return (k === 0 ? bytes : (bytes / 1024 ** k).toFixed(1)) + " " + units[k];
}

/* A counter's value with its unit, which its name tells. */
function countText(name, value) {
    if (/\bbytes\b/.test(name)) return bytesText(value);
    if (/\bus\b/.test(name)) return timeText(value * 1000);
    const unit = /\b(CTA|task|raise)s\b/i.exec(name);
    return unit === null ? String(value) : `${value} ${unit[1].toLowerCase().replace("cta", "block")}${value === 1 ? "" : "s"}`;
}

/* A round number of ns of which about `parts` make up `span`. */
function roundStep(span, parts) {
    const raw = span / parts, ten = Math.pow(10, Math.floor(Math.log10(raw)));
    return [1, 2, 5, 10].map(k => k * ten).find(k => k >= raw);
}

/* What a slice is, in words. */
function kindText(r, slice) {
    const kind = trackOf(r, slice).kind;
    if (kind === BLOCKS) return "block";
    if (kind === QUEUE) return "GPU task";
    return {task: "CPU task", launch: "launch call", submit: "submission", wait: "wait", memory: "wait for memory", share: "held back by a share",
            exchange: "wait for a renderer", kernel: "kernel", phase: "phase of a batch", batch: "batch", gpu_batch: "batch on the GPU", ctas: "records of blocks"}[categoryOf(r, slice)] || "slice";
}
