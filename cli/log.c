/* SPDX-License-Identifier: MIT */
/* The receiver of the library's log: its lines as messages of the command. */
#include "cli/command.h"

#include <stdatomic.h>
#include <string.h>

gantry_log_level cli_log_level = GANTRY_LOG_INFO;

/* The library's levels as the command's kinds of messages. */
void cli_log_to_stderr(void *user, gantry_log_level level, const char *line)
{
    static const enum cli_message_kind kinds[] = {[GANTRY_LOG_ERROR] = CLI_ERROR,
                                                  [GANTRY_LOG_WARNING] = CLI_WARNING,
                                                  [GANTRY_LOG_INFO] = CLI_NOTE,
                                                  [GANTRY_LOG_DEBUG] = CLI_DEBUG};
    static atomic_bool is_told; /* atomic: the hint is printed once */
    (void)user;
    cli_message(kinds[level], "%s", line);
    if (level == GANTRY_LOG_ERROR && strstr(line, "[GANTRY_ERR_NO_DRIVER") != NULL &&
        !atomic_exchange(&is_told, true)) {
        cli_note("'gantry doctor' says what is missing, and how to get it");
    }
}
