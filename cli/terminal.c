/* SPDX-License-Identifier: MIT */
#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LEAST_COLUMNS 20 /* in a narrower column the text would take too many lines */

bool cli_is_terminal(FILE *file)
{
    const char *term = secure_getenv("TERM");
    return isatty(fileno(file)) == 1 && (term == NULL || strcmp(term, "dumb") != 0);
}

bool cli_has_colour(FILE *file)
{
    const char *none = secure_getenv("NO_COLOR");
    return (none == NULL || none[0] == '\0') && cli_is_terminal(file);
}

unsigned cli_columns(FILE *file)
{
    if (isatty(fileno(file)) != 1) {
        return 0;
    }
    struct winsize size;
    if (ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col != 0) {
        return size.ws_col;
    }
    const char *columns = secure_getenv("COLUMNS");
    long told = columns != NULL ? strtol(columns, NULL, 10) : 0;
    return told > 0 && told < 10000 ? (unsigned)told : 0;
}

/* ---- help in fewer columns ---------------------------------------------------------------------- */

static size_t line_bytes(const char *line)
{
    return strcspn(line, "\n");
}

static size_t indent_of(const char *line)
{
    return strspn(line, " ");
}

static const char *next_line(const char *line)
{
    size_t bytes = line_bytes(line);
    return line + bytes + (line[bytes] != '\0');
}

/* Where the description of an option or a name begins; 0: the line is none of a list.  That is where the next
 * line goes on, or behind two spaces. */
static size_t description_of(const char *line)
{
    size_t bytes = line_bytes(line), indent = indent_of(line), next = indent_of(next_line(line));
    if (indent == 0) {
        return 0;
    }
    if (next > indent + 4 && next < bytes && line[next - 1] == ' ' && line[next] != ' ') {
        return next;
    }
    for (size_t i = indent; i + 2 < bytes; i++) {
        if (line[i] == ' ' && line[i + 1] == ' ') {
            return i + strspn(line + i, " ");
        }
    }
    return 0;
}

/* Words one after the other, as many per line as there is room for. */
struct flow {
    FILE *file;
    unsigned columns, hang; /* of the lines after the first */
    unsigned used;          /* columns of the line that is being filled */
    bool is_begun;          /* it has a word */
};

static void put_words(struct flow *flow, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        size_t gap = strspn(text + i, " ");
        i += gap < bytes - i ? gap : bytes - i;
        size_t word = 0;
        while (i + word < bytes && text[i + word] != ' ') {
            word++;
        }
        if (word == 0) {
            return;
        }
        if (flow->is_begun && flow->used + 1 + word > flow->columns) {
            fprintf(flow->file, "\n%*s", (int)flow->hang, "");
            flow->used = flow->hang;
            flow->is_begun = false;
        }
        fprintf(flow->file, "%s%.*s", flow->is_begun ? " " : "", (int)word, text + i);
        flow->used += (flow->is_begun ? 1 : 0) + (unsigned)word;
        flow->is_begun = true;
        i += word;
    }
}

static bool is_usage(const char *line)
{
    return strncmp(line, "usage: ", 7) == 0;
}

/* Does the line go on with what the block that began like this says? */
static bool goes_on(const char *first, size_t description, const char *line)
{
    size_t indent = indent_of(line);
    if (*line == '\0' || *line == '\n' || is_usage(line)) {
        return false;
    }
    if (is_usage(first)) {
        return indent > 0;
    }
    return description != 0 ? indent == description : indent == 0 && indent_of(first) == 0;
}

/* One entry of a list, or one paragraph; returns what is behind it. */
static const char *put_block(FILE *file, const char *line, unsigned columns)
{
    size_t indent = indent_of(line), description = description_of(line);
    size_t hang = description != 0 ? description : is_usage(line) ? strlen("usage: ") : indent;
    if (hang + LEAST_COLUMNS > columns) { /* nothing fits beside the names */
        hang = indent + 2;
    }
    size_t begin = description != 0 ? description : indent; /* the text before this place is not changed */
    struct flow flow = {file, columns, (unsigned)hang, (unsigned)begin, false};
    fprintf(file, "%.*s", (int)begin, line);
    put_words(&flow, line + begin, line_bytes(line) - begin);
    const char *first = line;
    for (line = next_line(line); goes_on(first, description, line); line = next_line(line)) {
        put_words(&flow, line + indent_of(line), line_bytes(line) - indent_of(line));
    }
    fputc('\n', file);
    return line;
}

void cli_wrap_help(FILE *file, const char *text, unsigned columns)
{
    if (columns == 0) {
        fputs(text, file);
        return;
    }
    columns = columns < 2 * LEAST_COLUMNS ? 2 * LEAST_COLUMNS : columns;
    while (*text != '\0') {
        if (*text == '\n') {
            fputc('\n', file);
            text++;
        } else {
            text = put_block(file, text, columns);
        }
    }
}

void cli_print_help(FILE *file, const char *text)
{
    unsigned columns = cli_columns(file);
    cli_wrap_help(file, text, columns < 100 ? columns : 0);
}

void cli_print_entry(FILE *file, unsigned width, const char *name, const char *summary)
{
    char line[256];
    snprintf(line, sizeof(line), "  %-*s  %s\n", (int)width, name, summary);
    cli_print_help(file, line);
}
