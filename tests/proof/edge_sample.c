/* SPDX-License-Identifier: MIT */
/* A sample as a program of its own, instrumented: what `gantry run` does with it. */
#include "cli/messages.h"
#include "cli/samples.h"

#define GLUE(a, b) a##b
#define SAMPLE(name) GLUE(gantry_sample_, name)

extern const struct gantry_sample SAMPLE(EDGE_SAMPLE);

int main(int argc, char **argv)
{
    return SAMPLE(EDGE_SAMPLE).main(argc, argv);
}
