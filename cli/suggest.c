/* SPDX-License-Identifier: MIT */
#include "cli/suggest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LONGEST 40 /* the longest name that is compared */

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* How many letters differ: left out, too many, other, or two neighbours swapped. */
static int count_mistakes(const char *a, int a_bytes, const char *b, int b_bytes)
{
    int table[LONGEST + 1][LONGEST + 1]; /* [i][j]: of the first i letters and the first j */
    for (int i = 0; i <= a_bytes; i++) {
        for (int j = 0; j <= b_bytes; j++) {
            if (i == 0 || j == 0) {
                table[i][j] = i + j;
                continue;
            }
            int other = table[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            table[i][j] = least(other, least(table[i - 1][j], table[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                table[i][j] = least(table[i][j], table[i - 2][j - 2] + 1);
            }
        }
    }
    return table[a_bytes][b_bytes];
}

/* The word is the name with an ending: "runs", "running"; "copies" of "copy". */
static bool has_ending(const char *word, size_t word_bytes, const char *name, size_t name_bytes)
{
    if (name_bytes < 3 || word_bytes <= name_bytes || word_bytes > name_bytes + 4) {
        return false;
    }
    size_t stem = name_bytes - 1;
    return strncmp(word, name, stem) == 0 &&
           (word[stem] == name[stem] || (name[stem] == 'y' && strcmp(word + stem, "ies") == 0));
}

void cli_suggest(struct cli_suggestion *suggestion, const char *name)
{
    size_t word = strlen(suggestion->word), bytes = strlen(name);
    if (word > LONGEST || bytes > LONGEST) {
        return;
    }
    size_t longer = word > bytes ? word : bytes;
    int mistakes = count_mistakes(suggestion->word, (int)word, name, (int)bytes);
    bool is_beginning = word >= 2 && strncmp(suggestion->word, name, word) == 0;
    if (is_beginning) { /* a word that is the begin of a name is near, whatever is missing behind it */
        mistakes = 1;
    }
    bool is_longer = has_ending(suggestion->word, word, name, bytes);
    if (is_longer) {
        mistakes = least(mistakes, 2);
    }
    bool is_near = is_beginning || is_longer || (mistakes > 0 && 3 * (size_t)mistakes <= longer);
    if (is_near && (suggestion->name == NULL || mistakes < suggestion->mistakes)) {
        suggestion->name = name;
        suggestion->mistakes = mistakes;
    }
}

const char *cli_suggestion_text(const struct cli_suggestion *suggestion, const char *dashes, char *out)
{
    out[0] = '\0';
    if (suggestion->name != NULL) {
        snprintf(out, CLI_SUGGESTION_BYTES, "; did you mean '%s%s'?", dashes, suggestion->name);
    }
    return out;
}
