/* SPDX-License-Identifier: MIT */
/* Work that ends later: files are read by a thread of the program's own.  The task that asks for a read ends
 * when that thread says so, and keeps no worker meanwhile. */
#include <gantry/gantry.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct file {
    const char *path;
    char line[64];
    gantry_detached task; /* what waits for it */
};

static int asked[2]; /* a pipe of pointers to what is to be read */

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

static void *reader(void *unused)
{
    for (struct file *next; read(asked[0], &next, sizeof(next)) == sizeof(next);) {
        FILE *file = fopen(next->path, "r");
        int is_read = file != NULL && fgets(next->line, sizeof(next->line), file) != NULL;
        must(gantry_task_complete(next->task, is_read ? GANTRY_OK : GANTRY_ERR_IO,
                                  is_read ? NULL : "the reader finds no such file"));
        (void)(file != NULL && fclose(file));
    }
    return unused;
}

static gantry_status ask(gantry_task *task, void *arg)
{
    struct file *file = arg;
    gantry_status status = gantry_task_detach(task, &file->task);
    /* once it is asked, the reader may complete the task, even before we return */
    int is_lost = status == GANTRY_OK && write(asked[1], &file, sizeof(file)) != sizeof(file);
    return is_lost ? GANTRY_ERR_IO : status;
}

static gantry_status show(gantry_task *task, void *arg)
{
    (void)task;
    printf("read: %s", ((struct file *)arg)->line);
    return GANTRY_OK;
}

static void run(gantry_taskman *graph, struct file *file)
{
    gantry_task_desc chain[] = {{sizeof(*chain), GANTRY_TASK_CPU, .label = "ask", .run = ask, .arg = file},
                                {sizeof(*chain), GANTRY_TASK_CPU, .label = "show", .run = show, .arg = file}};
    must(gantry_taskman_submit_chain(graph, chain, 2, NULL));
    if (gantry_taskman_start(graph) != GANTRY_OK || gantry_taskman_stop(graph) != GANTRY_OK) {
        printf("%s\n", gantry_last_error());
    }
    must(gantry_taskman_reset(graph));
}

int main(void)
{
    pthread_t thread;
    gantry_taskman *graph;
    struct file there = {.path = "/proc/self/comm"}, missing = {.path = "/no/such/file"};
    if (pipe(asked) != 0 || pthread_create(&thread, NULL, reader, NULL) != 0) {
        return EXIT_FAILURE;
    }
    must(gantry_taskman_create(&(gantry_taskman_options)GANTRY_TASKMAN_OPTIONS_INIT, &graph));
    run(graph, &there);
    run(graph, &missing);
    close(asked[1]); /* the reader ends */
    pthread_join(thread, NULL);
    gantry_taskman_destroy(graph);
    return EXIT_SUCCESS;
}
