#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How the site's search ranks pages, and what it finds.

Usage: search.py SITE_DIR QUERY...      prints the first pages for each query, as JSON (SITE_DIR is that of index.html)

Sphinx says which pages have all words of a query, and gives most of them one score.  conf.py replaces the scores: a page's
is BM25 over the stems of its words, in which a word of the title counts ten times and one of a heading three times, times
the weight of the page's folder.  Pages of Learn and Do weigh more than what one looks up or reads to understand.  scorer.js
computes in the browser what rank() computes here; both read the table that write() makes.
"""
import collections
import json
import math
import pathlib
import re
import sys

OF_TITLE, OF_HEADING, K1, B = 10, 3, 6, 0.5
WEIGHTS = [("docs/guides/porting-from-pxtask", 0.8), ("docs/tutorial/", 1.5), ("docs/guides/", 1.5), ("docs/install", 1.5), ("examples/", 1.2),
           ("samples/", 1), ("docs/glossary", 0.8), ("docs/reference/", 0.8), ("docs/results/", 0.5), ("docs/design/", 0.5), ("CHANGELOG", 0.2), ("index", 0.3), ("", 0.4)]
WORD = re.compile(r"[a-z0-9_]+")


def stemmer():
    """The stems that Sphinx uses, in Python and in the browser."""
    from sphinx.search.en import SearchEnglish
    language = SearchEnglish({})
    return lambda word: language.stem(word), frozenset(language.stopwords)


def counts(text, stem, ignored):
    """{stem: how often it is in a page of Markdown}."""
    found = collections.Counter()
    plain = re.sub(r"\]\([^)\s]*\)|^```\S*|<!--.*?-->", " ", text, flags=re.M)
    for line in plain.split("\n"):
        times = OF_TITLE if line.startswith("# ") else OF_HEADING if line.startswith("## ") or line.startswith("### ") else 1
        for word in WORD.findall(line.lower()):
            if word not in ignored:
                found[stem(word)] += times
    return found


def table(pages):
    """What is known of the pages (a folder of Markdown): {"pages": [[name, weight, length]], "words": {stem: {page: count}}}."""
    stem, ignored = stemmer()
    listed, words = [], collections.defaultdict(dict)
    for path in sorted(pages.glob("**/*.md")):
        name = path.relative_to(pages).with_suffix("").as_posix()
        found = counts(path.read_text(), stem, ignored)
        for word, times in found.items():
            words[word][len(listed)] = times
        listed.append([name, next(weight for begin, weight in WEIGHTS if name.startswith(begin)), sum(found.values())])
    return {"pages": listed, "words": words}


def scorer(pages, source):
    """The text of scorer.js: the source with the table in it."""
    return source.replace("TABLE_OF_WORDS", json.dumps(table(pages), separators=(",", ":"))).replace(
        "RANK_FACTORS", json.dumps({"k1": K1, "b": B}))


def rank(known, query, stem, ignored):
    """[(score, name of a page)] of the pages that have all words of a query, best first."""
    listed, words = known["pages"], known["words"]
    asked = {stem(word) for word in WORD.findall(query.lower()) if word not in ignored}
    mean = sum(length for *_, length in listed) / len(listed)
    scores = []
    for number, (name, weight, length) in enumerate(listed):
        score = 0
        for word in asked:
            has = words.get(word, {})
            times = has.get(str(number), 0)
            if not times and len(word) > 2:
                break
            score += math.log(1 + (len(listed) - len(has) + 0.5) / (len(has) + 0.5)) * times * (K1 + 1) / (times + K1 * (1 - B + B * length / mean))
        else:
            scores.append((weight * score, name))
    return sorted(scores, reverse=True)


def main(site, *queries):
    text = (pathlib.Path(site) / "_static/language_data.js").read_text()  # where Sphinx has put scorer.js
    known = json.loads(re.search(r"(?m)^const RANKS = (\{.*\});$", text)[1])
    stem, ignored = stemmer()
    print(json.dumps({query: [name for _, name in rank(known, query, stem, ignored)[:5]] for query in queries}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
