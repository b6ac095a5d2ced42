/* What operations work on: two contexts of one device, memory that stays, and slots. */
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
    DF_GRANULE = 2 << 20,
    DF_RANGE_GRANULES = 3,
};

/* Memory that stays as long as the process: graphs may refer to it at any time. */
enum df_arena { DF_ARENA_A, DF_ARENA_B, DF_ARENA_PINNED, DF_ARENAS };

struct df_block {
    CUdeviceptr address; /* 0: the slot is empty */
    size_t bytes;
    bool is_of_pool;
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
    CUcontext primary, other; /* contexts A and B; B is made by the first sequence that has it */
    bool has_other;           /* of each four sequences one has B: to make it takes long on a device */
    CUmodule modules[2];      /* as the functions: of A and B, or both of A */
    CUfunction add[2], look[2], cluster; /* of A and B */
    const void *image;
    CUdeviceptr arena[DF_ARENAS];
    CUdeviceptr arena_of_a, arena_of_b; /* what may be the second arena */
    void *pinned;
    unsigned char *pageable, *pages; /* DF_ARENA bytes; DF_PAGES pages */
    CUstream own;                    /* for looking at memory, which no operation uses */
    CUdeviceptr waits;               /* 64 words that nothing writes: 65 and so on */

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
    bool is_racy;  /* what memory holds depends on an order that is left open: it is not looked at any more */
    CUstream busy; /* what was enqueued last may still run there; NULL: all is done */
};

extern struct df_world w;

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
/* Give new memory its first contents. */
void df_fill(CUdeviceptr address, size_t bytes);
/* Note a hash of the arenas. */
void df_look(void);

/* The thread's capture mode and current context for calls that are no part of the sequence. */
void df_aside_begin(void);
void df_aside_end(void);
/* The letter of a context: a, b, 0 for NULL, ? for any other. */
char df_context_letter(CUcontext context);
bool df_is_capturing(CUstream stream);
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
/* As df_place(), seldom a wild address. */
CUdeviceptr df_place_or_wild(size_t *room);
/* Host memory: page-locked or pageable. */
void *df_host(size_t *room);
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
void df_forget_nodes(int graph);
void df_put_node(int graph, CUgraphNode node);

#endif
