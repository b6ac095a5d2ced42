/* SPDX-License-Identifier: MIT */
/* The name that a mistyped word may have meant. */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

/* Names are offered one by one; the nearest is kept. */
struct cli_suggestion {
    const char *word; /* as typed */
    const char *name; /* NULL: none is near */
    int mistakes;     /* letters in which they differ */
};

/* `name` lives as long as the suggestion.  Near is what begins with the word (two letters at least); what the
 * word begins with (three letters at least), where at most four letters follow; a name in "y" whose plural
 * the word is; or what differs from it in at most a third of the letters: one left out, too many or other, or
 * two swapped. */
void cli_suggest(struct cli_suggestion *suggestion, const char *name);

/* "; did you mean 'info'?", or "" when no name is near.  `out` has CLI_SUGGESTION_BYTES; it is returned. */
#define CLI_SUGGESTION_BYTES 96
const char *cli_suggestion_text(const struct cli_suggestion *suggestion, const char *dashes, char *out);

#endif
