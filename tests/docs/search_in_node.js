/* SPDX-License-Identifier: MIT */
/* What the site's own search finds: node search_in_node.js SITE_DIR QUERY... prints the names of the first pages for each query, as JSON. */
"use strict";
const fs = require("fs"), path = require("path"), vm = require("vm");
const [site, ...queries] = process.argv.slice(2);
const found = {};
const nothing = () => ({ appendChild: nothing, set textContent(text) {}, get lastChild() { return null; } });
const page = {
  console, URLSearchParams, localStorage: { setItem() {} }, window: { location: { search: "" }, addEventListener() {} }, SPHINX_HIGHLIGHT_ENABLED: false,
  document: { getElementById: nothing, addEventListener() {}, createElement: nothing, querySelector: nothing }, DOCUMENTATION_OPTIONS: {},
  Documentation: { gettext: (text) => text }, _: (text) => text, _ready() {}, setTimeout() {},
};
vm.createContext(page);
/* What would show the results is replaced, hence no constant. */
const load = (name) => vm.runInContext(fs.readFileSync(path.join(site, name), "utf8").replace("const _displayNextItem", "var _displayNextItem"), page, { filename: name });
load("_static/searchtools.js");
load("_static/language_data.js");
load("searchindex.js");
page.take = (results) => { page.taken = results.map((result) => result[0]).reverse(); };
vm.runInContext("_displayNextItem = (results) => take(results)", page);
for (const query of queries) {
  page.window.location.search = "?q=" + encodeURIComponent(query);
  page.query = query;
  vm.runInContext("Search.query(query)", page);
  found[query] = [...new Set(page.taken)].slice(0, 5);
}
console.log(JSON.stringify(found));
