/* SPDX-License-Identifier: MIT */
/* The graph as Graphviz text.  It is written without the manager's lock: tasks and edges do not move or
 * vanish before the reset, and what is read here is atomic or immutable. */
#include "taskman/graph/dump.h"

#include "base/file_name.h"
#include "base/status.h"

#include <stdlib.h>

struct dump {
    FILE *file;
    struct gy_graph_view view;
    const struct gy_data_edge *edges; /* sorted */
    size_t edge_count;
};

static const char *colour_of(gantry_task_state state)
{
    switch (state) {
    case GANTRY_TASK_STATE_PLACEHOLDER:
        return "white";
    case GANTRY_TASK_STATE_HELD:
        return "lightgrey";
    case GANTRY_TASK_STATE_READY:
        return "khaki";
    case GANTRY_TASK_STATE_RUNNING:
        return "lightskyblue";
    case GANTRY_TASK_STATE_AWAITED:
        return "plum";
    case GANTRY_TASK_STATE_DONE:
        return "palegreen";
    case GANTRY_TASK_STATE_FAILED:
        return "tomato";
    }
    return "white";
}

static const char *shape_of(const gantry_task *task)
{
    if (!gy_task_has(task, GY_TASK_FILLED)) {
        return "invhouse"; /* a name without a task */
    }
    if (gy_task_has(task, GY_TASK_LIGHT)) {
        return "oval";
    }
    if (gy_task_is_condition(task)) {
        return "hexagon";
    }
    switch (gantry_task_get_kind(task)) {
    case GANTRY_TASK_CPU:
        return "ellipse";
    case GANTRY_TASK_SYNC_POINT:
        return "diamond";
    case GANTRY_TASK_HTOD:
        return "house";
    case GANTRY_TASK_KERNEL:
        return "box";
    case GANTRY_TASK_DTOH:
        return "invtrapezium";
    }
    return "plain";
}

/* Inside a quoted string of the dot language only the quote and the backslash are special; control
 * characters would be shown as they are, so they become spaces. */
static void put_escaped(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            fputc('\\', file);
        }
        fputc(c < 0x20 || c == 0x7f ? ' ' : c, file);
    }
}

static void put_task(void *user, gantry_task *task)
{
    struct dump *dump = user;
    gantry_task_state state = gantry_task_get_state(task);
    fprintf(dump->file, "  t%u [label=\"", (unsigned)task->index);
    put_escaped(dump->file, gantry_task_label(task));
    fprintf(dump->file, "\", tooltip=\"%s, %d references", gy_task_state_name(state),
            gantry_task_references(task));
    uint64_t context_id = gantry_task_context_id(task);
    if (context_id != 0) { /* what tells tasks with one label apart */
        fprintf(dump->file, ", context %llu", (unsigned long long)context_id);
    }
    fprintf(dump->file, "\", shape=%s, style=\"filled%s\", fillcolor=%s];\n", shape_of(task),
            gy_task_has(task, GY_TASK_FILLED) ? "" : ",dashed", colour_of(state));
}

static int compare(const void *a, const void *b)
{
    const struct gy_data_edge *one = a, *other = b;
    const uint64_t left = (uint64_t)one->from << 32 | one->to,
                   right = (uint64_t)other->from << 32 | other->to;
    return left < right ? -1 : left > right;
}

/* What made the edge, if that is data; as attributes. */
static void put_cause(const struct dump *dump, const gantry_task *task, const gantry_task *successor)
{
    const struct gy_data_edge wanted = {.from = task->index, .to = successor->index};
    const struct gy_data_edge *found =
        dump->edge_count == 0 ? NULL
                              : bsearch(&wanted, dump->edges, dump->edge_count, sizeof(wanted), compare);
    if (found != NULL && found->rows > 1) {
        fprintf(dump->file, " [color=steelblue, tooltip=\"%zu rows of %zu bytes at %#llx\"]", found->rows,
                found->bytes, (unsigned long long)found->at);
    } else if (found != NULL) {
        fprintf(dump->file, " [color=steelblue, tooltip=\"%zu bytes at %#llx\"]", found->bytes,
                (unsigned long long)found->at);
    }
}

static void put_edges(void *user, gantry_task *task)
{
    struct dump *dump = user;
    for (struct gy_edge *edge = gy_edge_at(&task->edges); edge != NULL; edge = gy_edge_at(&edge->next)) {
        if (gy_edge_successor(edge)->index < dump->view.tasks) { /* younger ones were not written as nodes */
            fprintf(dump->file, "  t%u -> t%u%s", (unsigned)task->index,
                    (unsigned)gy_edge_successor(edge)->index,
                    gy_task_is_condition(task) ? " [style=dashed]" : "");
            put_cause(dump, task, gy_edge_successor(edge));
            fputs(";\n", dump->file);
        }
    }
}

gantry_status gy_graph_dump(const struct gy_graph_view *view, struct gy_data_edge *edges, size_t count,
                            FILE *file)
{
    struct dump dump = {.file = file, .view = *view, .edges = edges, .edge_count = count};
    if (count != 0) {
        qsort(edges, count, sizeof(*edges), compare);
    }
    fputs("digraph gantry {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n", file);
    gy_graph_each(&dump.view, put_task, &dump);
    gy_graph_each(&dump.view, put_edges, &dump);
    fputs("}\n", file);
    if (fflush(file) != 0 || ferror(file)) {
        return GY_FAIL(GANTRY_ERR_IO, "graph dump: the file cannot be written: %s", gy_file_failure(file));
    }
    return GANTRY_OK;
}
