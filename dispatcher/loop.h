/* The dispatcher thread (GD): a machine that walks HtoD → Kernel → DtoH → HtoD … over bins of ready tasks.
 *
 * Within a phase every running task's launch callback is called once per pass, in order, until all have
 * ended.  When one ends it is released at once; dependents of the same flavour that became ready by it join
 * the same pass, others wait in their bin.  So three kernel tasks in a row launch exactly what one task with
 * three launches does.  One walk that launches something is a batch.
 *
 * After each pass the inbox is looked at, and a phase is left after so many passes, whoever still has
 * something to launch: then completions are flushed, other flavours have their turn, and the rest goes on in
 * the next walk.  So a callback that returns AGAIN for ever holds nobody up.
 *
 * Completions asked for on the way are flushed when DtoH turns into HtoD, and when nothing is left to do:
 * then somebody may be waiting for them alone.
 *
 * Failure: once the context is lost, everything in the bins and everything that still arrives is released
 * as FAILED, in order of arrival; releasing makes dependents ready, which arrive in turn, until the graph
 * has drained.  Completions already asked for are failed by the completion thread. */
#ifndef DISPATCHER_LOOP_H
#define DISPATCHER_LOOP_H

/* GD's body. */
void gy_gd_main(void *dispatcher);

#endif
