/* SPDX-License-Identifier: MIT */
/* What operations work on: two contexts of one device or of two, memory that stays, and slots. */
#ifndef TESTS_CONFORMANCE_DIFFERENTIAL_WORLD_H
#define TESTS_CONFORMANCE_DIFFERENTIAL_WORLD_H

#include "tests/conformance/differential/ask.h"

#include <stddef.h>

enum {
    DF_STREAMS = 4,
    DF_EVENTS = 5,
    DF_GRAPHS = 3,
    DF_NODES = 8,
    DF_EXECS = 3,
    DF_BLOCKS = 3,
    DF_REGIONS = 2,  /* of page-locked memory and of registered memory */
    DF_HANDLES = 2,  /* of cuMemCreate */
    DF_RANGES = 2,   /* of cuMemAddressReserve */
    DF_ARENA = 2048, /* bytes that operations may touch; the block behind has as many again */
    DF_PAGE = 4096,
    DF_PAGES = 4, /* that can be registered */
    DF_WORDS = 64,
    DF_GRANULE = 2 << 20,
    DF_NO_DEVICE = 64, /* an ordinal that no machine has */
    DF_RANGE_GRANULES = 3,
};

/* Memory that stays as long as the process: graphs may refer to it at any time. */
enum df_arena { DF_ARENA_A, DF_ARENA_B, DF_ARENA_PINNED, DF_ARENAS };

struct df_block {
    CUdeviceptr address; /* 0: the slot is empty */
    size_t bytes;
    bool is_of_pool, is_of_second;
};

struct df_graph {
    CUgraph graph;      /* NULL: the slot is empty */
    CUstream captured;  /* a stream is captured into it: it must not be destroyed */
    CUgraphNode last;   /* the node that was added last; NULL: none was */
    bool has_any_child; /* one whose nodes may run in any order */
};

struct df_node {
    CUgraphNode node; /* NULL: the slot is empty */
    int graph;        /* its slot */
};

struct df_range {
    CUdeviceptr address; /* 0: the slot is empty */
    bool is_mapped[DF_RANGE_GRANULES];
    bool is_usable[DF_RANGE_GRANULES];
};

struct df_world {
    CUdevice device;
    int devices;              /* of the machine; two are used, if there are */
    CUcontext primary, other; /* contexts A and B; B is NULL without `has_other` */
    bool has_other;           /* of each four sequences one has B: to make it takes long on a device */
    bool has_second;          /* B is the primary context of the second device */
    bool reaches[2];          /* access is enabled: of A to B's memory, of B to A's */
    bool is_of_second[DF_STREAMS];
    CUmodule modules[2];                 /* as the functions: of A and B, or both of A */
    CUfunction add[2], look[2], cluster; /* of A and B */
    const void *image;
    CUdeviceptr arena[DF_ARENAS];
    void *pinned;
    unsigned char *pageable, *pages; /* DF_ARENA bytes; DF_PAGES pages */
    CUdeviceptr waits;               /* DF_WORDS words that nothing writes: 65 and so on */

    CUstream streams[DF_STREAMS];
    CUevent events[DF_EVENTS];
    struct df_graph graphs[DF_GRAPHS];
    struct df_node nodes[DF_NODES];
    uint32_t turn; /* which of them gives way when all are full */
    CUgraphExec execs[DF_EXECS];
    bool is_unordered[DF_EXECS]; /* its nodes may run in any order */
    struct df_block blocks[DF_BLOCKS];
    void *regions[DF_REGIONS];
    bool is_registered[DF_PAGES];
    CUmemGenericAllocationHandle handles[DF_HANDLES];
    struct df_range ranges[DF_RANGES];
    bool has_graphs;   /* something was captured or added in this sequence: no stream or event is destroyed */
    CUstream picked;   /* of the operation that runs */
    bool picks_stream; /* it has one */
    bool has_foreign_fill; /* of a graph, which may be launched: memory of the other device */
    bool is_racy;  /* what memory holds depends on an order that is left open: it is not looked at any more */
    CUstream busy; /* what was enqueued last may still run there; NULL: all is done */
};

extern struct df_world w;

/* Sequences that a machine with one device leaves out: one of nine, by their numbers. */
bool df_needs_two_devices(uint32_t sequence);
/* The ordinal of the second device; without one, of none. */
CUdevice df_second_device(void);
/* Once per process. */
void df_world_open(const char *driver);
/* For each sequence. */
void df_world_begin(uint32_t sequence, bool has_graphs, bool has_ranges);
/* Each thread leaves it, the first one last: all objects go then. */
void df_world_leave_thread(bool is_last);

/* The calls of ask(). */
void df_world_before(enum df_entry entry);
void df_world_after(enum df_entry entry, CUresult result);
bool df_world_statuses(char statuses[DF_STREAMS + 2]);
/* Wait until all that was enqueued is done, whatever is captured. */
void df_settle(void);
/* Wait for a stream without a slot: which one it is depends on thread and context. */
void df_wait_for(CUstream stream);
/* Give new memory of a device its first contents. */
void df_fill(CUdeviceptr address, size_t bytes, bool is_of_second);
/* Put a block in its slot, and what was there before is freed. */
void df_put_block(int slot, struct df_block block);
/* Note a hash of the arenas. */
void df_look(void);

/* The thread's capture mode and current context for calls that are no part of the sequence. */
void df_aside_begin(void);
void df_aside_end(void);
/* The letter of a context: a, b, 0 for NULL, ? for any other. */
char df_context_letter(CUcontext context);
bool df_is_capturing(CUstream stream);
/* The thread has a current context: a device's driver crashes when a kernel node is made without one. */
bool df_has_context(void);
/* The nodes of the graph may run in more than one order. */
bool df_is_unordered(const struct df_graph *graph);

/* ---- what an operation draws; all of it goes into the shape ---- */

/* A stream; NULL: the slot is empty, unless df_stream_is_there(). */
CUstream df_stream(void);
bool df_stream_is_there(void);
/* A stream of a slot. */
CUstream df_stream_of_slot(int *slot);
CUevent df_event(void);
CUcontext df_context(void);
/* Memory of an arena, and how many bytes of it may be used from there. */
CUdeviceptr df_place(size_t *room);
CUdeviceptr df_place_in(int arena, size_t *room);
/* As df_place(), seldom a wild address. */
CUdeviceptr df_place_or_wild(size_t *room);
/* Host memory: page-locked or pageable. */
void *df_host(size_t *room);
/* The device of the picked stream: 'a', or 'b' for the second one. */
char df_home(void);
/* The memory is of the other device; that of the host is of both. */
bool df_is_foreign(char home, CUdeviceptr address);
/* The latest place is a wild address. */
bool df_is_wild(void);
/* How many elements of `size` bytes of `room`. */
size_t df_count(size_t room, size_t size);
/* A function that may be launched with any grid, or with any in one dimension; its parameters are `params`.
 */
CUfunction df_function(void *params[3], bool is_of_one_dimension);
/* A slot's number. */
int df_slot(const char *what, int end);
/* Put a graph in its slot, and what was there before goes. */
void df_put_graph(int slot, CUgraph graph);
/* A capture that went into a graph of a slot is over: no stream is captured into it any more.  When that
 * failed, nothing may be done with the graph: a device's driver has freed it. */
void df_forget_captured(CUstream stream, CUgraph graph, bool is_good);
void df_forget_nodes(int graph);
void df_put_node(int graph, CUgraphNode node);

#endif
