/* Ctrl-C while a command works: what is done so far stays, nothing half-written does, exit status 130. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

/* From now on Ctrl-C is waited for by a thread of its own, which ends the process.  Called before other
 * threads are made; does nothing where Ctrl-C is ignored. */
void cli_interrupts_end_us(void);

#endif
