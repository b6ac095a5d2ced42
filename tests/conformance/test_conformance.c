/* The conformance suite: all groups, on the driver that $GANTRY_TEST_DRIVER names. */
#define GROUPS(X) X(contexts) X(memory) X(streams) X(modules) X(graphs) X(green) X(virtual_memory)

#define X(group) int cf_run_##group(void);
GROUPS(X)
#undef X

int main(void)
{
    int failed = 0;
#define X(group) failed += cf_run_##group();
    GROUPS(X)
#undef X
    return failed != 0;
}
