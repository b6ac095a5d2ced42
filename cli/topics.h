/* SPDX-License-Identifier: MIT */
/* What `gantry help TOPIC` explains beside the commands. */
#ifndef CLI_TOPICS_H
#define CLI_TOPICS_H

#include <stdbool.h>
#include <stdio.h>

/* Print the topics with what each is about. */
void cli_topics_list(FILE *file);
void cli_topics_each(void (*each)(void *user, const char *name), void *user);
/* Print a topic; false: there is none of that name. */
bool cli_topic_help(const char *name);

#endif
