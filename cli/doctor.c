/* SPDX-License-Identifier: MIT */
/* `gantry doctor`: what of a GPU and of tools is found on this machine, what is missing, and how to get it.
 */
#include "cli/doctor.h"

#include "cli/command.h"
#include "cli/options.h"
#include "cli/terminal.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const state_names[] = {
    [FINDING_OK] = "ok", [FINDING_ABSENT] = "absent", [FINDING_FAULT] = "fault"};

static bool has_fault(const struct findings *findings)
{
    for (int i = 0; i < findings->count; i++) {
        if (findings->at[i].state == FINDING_FAULT) {
            return true;
        }
    }
    return false;
}

static const char *conclusion(const struct findings *f)
{
    if (has_fault(f)) {
        return f->has_cuda || !f->has_device
                   ? "Something is wrong: see the lines marked 'fault'."
                   : "There is a GPU, but programs cannot use it: see the lines marked 'fault'.";
    }
    return f->has_cuda
               ? "All is well: programs run on the GPU."
               : "All is well without a GPU: programs run on the emulated driver, whose results are right "
                 "and whose times say nothing about a GPU.";
}

static void print_text(const struct findings *findings)
{
    static const char *const colours[] = {
        [FINDING_OK] = "32", [FINDING_ABSENT] = "33", [FINDING_FAULT] = "1;31"};
    bool has_colour = cli_has_colour(stdout);
    printf("gantry %s\n\n", gantry_version());
    for (int i = 0; i < findings->count; i++) {
        const struct finding *one = &findings->at[i];
        if (has_colour) {
            printf("\033[%sm%-6s\033[0m  %-20s ", colours[one->state], state_names[one->state], one->name);
        } else {
            printf("%-6s  %-20s ", state_names[one->state], one->name);
        }
        cli_print_text(stdout, one->found, 0, CLI_ANY_LENGTH);
        printf("\n");
        if (one->advice[0] != '\0') {
            printf("%-28s -> %s\n", "", one->advice);
        }
    }
    printf("\n");
    char last[256];
    snprintf(last, sizeof(last), "%s\n", conclusion(findings));
    cli_print_help(stdout, last);
}

static void print_json(const struct findings *findings)
{
    printf("{\"version\":\"%s\",\"ok\":%s,\"driver\":", gantry_version(),
           has_fault(findings) ? "false" : "true");
    printf("%s", findings->has_cuda ? "\"cuda\"" : findings->has_emulator ? "\"emulated\"" : "null");
    printf(",\"findings\":[");
    for (int i = 0; i < findings->count; i++) {
        const struct finding *one = &findings->at[i];
        printf("%s{\"name\":", i == 0 ? "" : ",");
        cli_json_string(stdout, one->name);
        printf(",\"state\":\"%s\",\"found\":", state_names[one->state]);
        cli_json_string(stdout, one->found);
        printf(",\"advice\":");
        if (one->advice[0] != '\0') {
            cli_json_string(stdout, one->advice);
        } else {
            printf("null");
        }
        printf("}");
    }
    printf("]}\n");
}

/* A driver that works needs nothing more, even where this command believes that something is missing. */
static void forgive(struct findings *findings)
{
    for (int i = 0; i < findings->count && findings->has_cuda; i++) {
        if (findings->at[i].state == FINDING_FAULT) {
            findings->at[i].state = FINDING_ABSENT;
            findings->at[i].advice[0] = '\0';
        }
    }
}

/* What fails here, and which driver is taken, is a finding, not an error or a note of the command. */
static void swallow_findings(void *user, gantry_log_level level, const char *line)
{
    if (level == GANTRY_LOG_WARNING || cli_log_level == GANTRY_LOG_DEBUG) {
        cli_log_to_stderr(user, level, line);
    }
}

static int doctor_main(int argc, char **argv)
{
    bool json = false;
    static struct findings findings;
    const char *root = "";
    const struct cli_option table[] = {
        {.name = "json", .flag = &json}, {.name = "root", .text = &root}, {.name = NULL}};
    int status = cli_read_options(argc, argv, table, 0);
    if (status >= 0) {
        return status;
    }
    findings.root = root;
    (void)unsetenv("GANTRY_PROFILE"); /* an empty recording must not replace an earlier one */
    gantry_set_log(swallow_findings, NULL, cli_log_level);
    cli_doctor_devices(&findings);
    cli_doctor_drivers(&findings);
    forgive(&findings);
    cli_doctor_tools(&findings);
    gantry_set_log(cli_log_to_stderr, NULL, cli_log_level);
    if (json) {
        print_json(&findings);
    } else {
        print_text(&findings);
    }
    return has_fault(&findings) ? 1 : 0;
}

const struct cli_command cli_doctor = {
    .name = "doctor",
    .arguments = "[--json] [--root DIR]",
    .summary = "say what is missing on this machine, and how to get it",
    .help = "Looks for a GPU, its driver, the permission to use it, the emulated driver, compilers and "
            "tools, and\n"
            "says of what is missing which Debian package has it.\n"
            "  --json       one JSON object\n"
            "  --root DIR   look for devices in DIR/dev, DIR/proc and DIR/sys\n"
            "\n"
            "  ok           it is there and works\n"
            "  absent       it is not there, and need not be\n"
            "  fault        programs do not run as they could; the exit status is 1 then, else 0\n",
    .main = doctor_main,
};
