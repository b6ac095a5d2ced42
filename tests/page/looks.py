# SPDX-License-Identifier: MIT
"""What is wrong with how a page looks in a browser: scripts that failed, what does not fit into the window, pictures that
are missing, text that one can hardly read (WCAG AA: a contrast of 4.5, of large text 3)."""

SIZES = ((1440, 900), (390, 844))

# Text lies on the nearest colour behind it; where that is a picture nothing is said.
SCRIPT = r"""(() => {
    const wrong = [], root = document.scrollingElement;
    if (root.scrollWidth > innerWidth) wrong.push(`it is ${root.scrollWidth} wide in a window of ${innerWidth}`);
    for (const image of document.images) if (image.complete && image.naturalWidth === 0) wrong.push("no picture " + image.src);
    const parts = text => { const n = (text.match(/[\d.]+/g) || []).map(Number); return n.length === 3 ? [...n, 1] : n; };
    const over = (a, b) => [0, 1, 2].map(k => a[k] * a[3] + b[k] * (1 - a[3])).concat(1);
    const light = c => [0.2126, 0.7152, 0.0722].reduce((sum, part, k) => {
        const v = c[k] / 255;
        return sum + part * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    }, 0);
    const behind = node => {
        const layers = [];
        for (let n = node; n; n = n.parentElement) {
            const style = getComputedStyle(n), colour = parts(style.backgroundColor);
            if (style.backgroundImage !== "none") return null;
            if (colour[3] > 0) layers.push(colour);
            if (colour[3] === 1) break;
        }
        const paper = matchMedia("(prefers-color-scheme: dark)").matches && getComputedStyle(document.documentElement).colorScheme === "dark" ? 18 : 255;
        return layers.reverse().reduce((under, layer) => over(layer, under), [paper, paper, paper, 1]);
    };
    const seen = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text = walker.nextNode(); text; text = walker.nextNode()) {
        const node = text.parentElement, style = getComputedStyle(node);
        if (!text.data.trim() || node.closest("script, style, noscript, svg") || !node.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
        if (node.getBoundingClientRect().width <= 1) continue; /* for readers aloud alone */
        const paper = behind(node);
        if (paper === null || node.closest(":disabled")) continue;
        const ink = over(parts(style.color), paper), [a, b] = [light(ink), light(paper)].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize), isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
        const what = `${ratio.toFixed(2)} of ${style.color} on ${paper.slice(0, 3).map(Math.round)}`;
        if (ratio < (isLarge ? 3 : 4.5) && !seen.has(what)) {
            seen.add(what);
            wrong.push(`contrast ${what}: "${text.data.trim().slice(0, 40)}" in <${node.tagName.toLowerCase()} class="${node.className}">`);
        }
    }
    return wrong;
})()"""


def problems(web, path, fragment=""):
    """Of a file, in both sizes, light and dark: lines that say where and what."""
    wrong = []
    for width, height in SIZES:
        web.resize(width, height)
        for dark in (False, True):
            web.errors.clear()
            web.set_dark(dark)
            web.open(path, fragment)
            web.frame()
            for line in web.errors + web.evaluate(SCRIPT):
                wrong.append(f"{path} at {width}, {'dark' if dark else 'light'}: {line}")
    web.errors.clear()
    return wrong
