/* SPDX-License-Identifier: MIT */
/* Sphinx puts this before its own search: Scorer.score() gives a result its rank, as rank() of tools/site/search.py does. */
const RANKS = TABLE_OF_WORDS;
const FACTORS = RANK_FACTORS;

function rankOf(docname, query) {
  const number = RANKS.pages.findIndex((page) => page[0] === docname);
  if (number < 0) return 0;
  const { k1, b } = FACTORS, count = RANKS.pages.length, stems = new Stemmer();
  const mean = RANKS.pages.reduce((sum, page) => sum + page[2], 0) / count;
  const words = new Set((query.toLowerCase().match(/[a-z0-9_]+/g) || []).filter((word) => !stopwords.includes(word)).map((word) => stems.stemWord(word)));
  let score = 0;
  for (const word of words) {
    const has = Object.hasOwn(RANKS.words, word) ? RANKS.words[word] : {}, pages = Object.keys(has).length, times = has[number] || 0;
    score += Math.log(1 + (count - pages + 0.5) / (pages + 0.5)) * times * (k1 + 1) / (times + k1 * (1 - b + b * RANKS.pages[number][2] / mean));
  }
  return score * RANKS.pages[number][1];
}

var Scorer = {
  /* A function comes first when all of its name was asked for; otherwise functions and pages of headers come after pages. */
  score: ([docname, title, , description, score]) => {
    const query = new URLSearchParams(window.location.search).get("q") || "";
    if (description !== null) return title.toLowerCase() === query.trim().toLowerCase() ? 1000 : score / 1000;
    return rankOf(docname, query) || score / 1000;
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
