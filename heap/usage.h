/* SPDX-License-Identifier: MIT */
/* Sums over the blocks of one kind, in all and per allocation site.
 *
 * Peaks are never above what was in use, although threads hold numbers back.  A thread that finds what looks
 * like a new peak asks usage->exact, which first adds up all that the tallies have ever counted as allocated,
 * and afterwards all that they have counted as freed.
 *
 * The shared sums (struct gy_usage) are atomic, and threads that touched them for every block would contend
 * for their cache lines.  So blocks are first noted in a tally, which has few writers, and move to the shared
 * sums when they have come to some size: peaks may miss that much per tally.  The size doubles, up to 32
 * times, while another tally was the last to move some, and halves again when it was the same one.
 *
 * A tally that for some time was the only one to move anything becomes the lone tally: it keeps everything to
 * itself, and whoever looks for a peak adds what it has.  It ceases to be the lone tally when it sees that
 * another one has moved something; if it does nothing any more, the other tally ends this
 * (gy_tally_depose()). */
#ifndef HEAP_USAGE_H
#define HEAP_USAGE_H

#include "base/hints.h"

#include <gantry/base.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define GY_SITE_SUMS_BITS 8
#define GY_SITE_SUMS ((uint32_t)1 << GY_SITE_SUMS_BITS)
#define GY_SITE_SUMS_BLOCKS ((uint32_t)1 << (18 - GY_SITE_SUMS_BITS)) /* 18: GY_SITE_BITS of chunk.h */
#define GY_TALLY_SITES 16
/* The bytes that the lone tally may hold back. */
#define GY_TALLY_HOLD_ALL (INT64_MAX / 2)

/* The sums of one site. */
struct gy_site_sums {
    _Atomic(int64_t)
        bytes; /* atomic; requested bytes of its live blocks, less the bytes that tallies hold back */
    _Atomic(int64_t) peak;  /* atomic; the most of `bytes` */
    _Atomic(int64_t) count; /* atomic; live blocks */
};

struct gy_usage {
    /* immutable: gets what is in use, or a little less; false: it cannot be told now.  NULL: only the tally
     * that is moving something holds anything back. */
    bool (*exact)(void *user, int64_t *out);
    /* immutable: gets the same for a site, except for what other threads do at this moment; NULL likewise. */
    bool (*exact_site)(void *user, uint32_t site, int64_t *out);
    void *exact_user;                                          /* immutable */
    _Atomic(struct gy_site_sums *) sites[GY_SITE_SUMS_BLOCKS]; /* atomic; NULL, then one block for ever */
    /* What follows is written by all threads, what is above is read by all of them. */
    char apart[GY_CACHE_LINE];
    _Atomic(uint64_t) allocated;  /* atomic; bytes in all, noted without a tally or in one that has ended */
    _Atomic(uint64_t) freed;      /* atomic; likewise */
    _Atomic(int64_t) former_peak; /* atomic; the highest peak before gy_usage_reset_peaks() */
    _Atomic(int64_t) used; /* atomic; requested bytes of live blocks, less the bytes that tallies hold back */
    _Atomic(int64_t) peak; /* atomic; the most of `used` so far */
    _Atomic(uint64_t) allocs;          /* atomic; noted without a tally or in one that has ended */
    _Atomic(uint64_t) frees;           /* atomic; likewise */
    _Atomic(struct gy_tally *) latest; /* atomic; the tally that last moved something; only compared */
    _Atomic(struct gy_tally *) lone;   /* atomic; the lone tally; NULL: none; its writer replaces NULL */
    char apart_from_next[GY_CACHE_LINE];
};

/* Blocks that come and go.  One writer at a time notes them, and anybody may read. */
struct gy_tally {
    int64_t hold;          /* the writer only; bytes that may be held back now */
    int64_t least_hold;    /* immutable */
    bool may_be_lone;      /* immutable; a lock guards the writer's place, so that others can take it */
    bool has_idle_rival;   /* the writer only; the lone one seems to do nothing: depose it */
    uint32_t streak;       /* the writer only; moves in a row that no other tally interrupted */
    uint64_t rival_blocks; /* the writer only; the blocks that the lone tally had counted at the last look */
    int64_t used;          /* the writer only; of the lone tally: usage->used when it last looked at peaks */
    int64_t high; /* the writer only; of the lone tally: the most that was held back when it looked */
    _Atomic(int64_t) held_back; /* atomic; bytes that are not yet in usage->used */
    _Atomic(int64_t) moved;     /* atomic; bytes that were moved there */
    _Atomic(uint32_t) moves;    /* atomic; odd: bytes are being moved, and both numbers change */
    _Atomic(uint64_t) freed;    /* atomic; all bytes ever freed; only grows */
    _Atomic(uint64_t) allocs;   /* atomic; never moved while the tally lives */
    _Atomic(uint64_t) frees;    /* atomic; likewise */
    struct {
        _Atomic(uint32_t) site; /* atomic */
        _Atomic(int32_t) count; /* atomic; blocks that are not yet in the site's sums */
        _Atomic(int64_t) bytes; /* atomic; likewise */
        int64_t high;           /* the writer only; likewise, of `bytes` */
    } sites[GY_TALLY_SITES];
};

/* A sum over tallies and the shared part. */
struct gy_sums {
    int64_t used;
    uint64_t allocs;
    uint64_t frees;
};

GANTRY_MUST_CHECK bool gy_usage_make_site_slow(struct gy_usage *usage, uint32_t site);
/* Make room for the sums of `site`, before its first block is noted.  False: out of host memory. */
GANTRY_MUST_CHECK static inline bool gy_usage_make_site(struct gy_usage *usage, uint32_t site)
{
    return __builtin_expect(
               atomic_load_explicit(&usage->sites[site >> GY_SITE_SUMS_BITS], memory_order_acquire) != NULL,
               1) ||
           gy_usage_make_site_slow(usage, site);
}
void gy_usage_fini(struct gy_usage *usage);

/* Note one block more (count 1), one less (-1), or another size (0), without a tally. */
void gy_usage_note(struct gy_usage *usage, uint32_t site, int64_t bytes, int count);

/* Make an empty tally, which holds back at most `hold` > 0 bytes while no other tally does so.
 * `may_be_lone`: other threads can take the writer's place. */
void gy_tally_init(struct gy_tally *tally, int64_t hold, bool may_be_lone);
/* Move the bytes that the tally holds back to `usage`.  To be called by its writer only. */
void gy_tally_settle(struct gy_tally *tally, struct gy_usage *usage);
/* Move the bytes and the counts: the tally ends. */
void gy_tally_end(struct gy_tally *tally, struct gy_usage *usage);
/* The bytes that the tally has ever counted as allocated, or a little less; and as freed, or a little more,
 * if that is read afterwards.  False: they cannot be told now. */
GANTRY_MUST_CHECK bool gy_tally_allocated(const struct gy_tally *tally, uint64_t *out);
static inline uint64_t gy_tally_freed(const struct gy_tally *tally)
{
    return atomic_load_explicit(&tally->freed, memory_order_acquire);
}
/* Add the tally to `sums`. */
void gy_tally_collect(struct gy_tally *tally, struct gy_sums *sums);
/* Add the bytes and blocks of a site that the tally holds back. */
void gy_tally_collect_site(struct gy_tally *tally, uint32_t site, int64_t *bytes, int64_t *count);

/* The lone tally that has_idle_rival wants deposed, or NULL. */
struct gy_tally *gy_tally_rival(struct gy_usage *usage);
/* The caller has taken the place of `lone`'s writer and acts for the writer of `by`: `lone` ceases to be the
 * lone tally if it has done nothing since `by` looked. */
void gy_tally_depose(struct gy_tally *lone, struct gy_usage *usage, struct gy_tally *by);

/* Raise the peaks, also that of the site in `slot`, to what is in use now.  To be called by the lone tally's
 * writer only. */
void gy_tally_look(struct gy_tally *tally, struct gy_usage *usage, unsigned slot);
/* Add to the shared sums the bytes that the tally may not hold back.  To be called by its writer only. */
void gy_tally_pass(struct gy_tally *tally, struct gy_usage *usage, uint32_t site, int64_t bytes);

/* Make `peak` at least `used`. */
void gy_usage_raise_peak(_Atomic(int64_t) *peak, int64_t used);
/* Start the peaks anew with what is in use now; the peaks of sites in tallies are left out
 * (gy_tally_forget()). */
void gy_usage_reset_peaks(struct gy_usage *usage, int64_t used);
/* The caller has taken the place of the tally's writer: the tally will look for peaks again. */
void gy_tally_forget(struct gy_tally *tally);

static inline struct gy_site_sums *gy_usage_site(struct gy_usage *usage, uint32_t site)
{
    struct gy_site_sums *block =
        atomic_load_explicit(&usage->sites[site >> GY_SITE_SUMS_BITS], memory_order_acquire);
    return block != NULL ? &block[site & (GY_SITE_SUMS - 1)] : NULL;
}

/* The writer calls this after it has taken the bytes out of those that the tally holds back or has moved: a
 * thread that sees them as freed sees that, too. */
static inline void gy_tally_count_freed(struct gy_tally *tally, int64_t bytes)
{
    atomic_store_explicit(&tally->freed,
                          atomic_load_explicit(&tally->freed, memory_order_relaxed) + (uint64_t)bytes,
                          memory_order_release);
}

/* As gy_usage_note(), called by the tally's writer.  `may_be_lone` is the value that gy_tally_init() got, as
 * a constant. */
__attribute__((always_inline)) static inline void gy_tally_note(struct gy_tally *tally,
                                                                struct gy_usage *usage, uint32_t site,
                                                                int64_t bytes, int count, bool may_be_lone)
{
    int64_t hold = tally->hold;
    /* There is one writer, so no read-modify-write is needed. */
    _Atomic(uint64_t) *counter = count > 0 ? &tally->allocs : &tally->frees;
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + (count != 0),
                          memory_order_relaxed);
    unsigned slot = site % GY_TALLY_SITES;
    if (__builtin_expect(atomic_load_explicit(&tally->sites[slot].site, memory_order_relaxed) != site, 0)) {
        gy_tally_settle(tally, usage);
        atomic_store_explicit(&tally->sites[slot].site, site, memory_order_relaxed);
        tally->sites[slot].high = INT64_MIN / 2;
    }
    if (bytes >= hold || bytes <= -hold) {
        gy_tally_pass(tally, usage, site, bytes);
        bytes = 0;
    }
    int64_t of_site = atomic_load_explicit(&tally->sites[slot].bytes, memory_order_relaxed) + bytes;
    int32_t blocks = atomic_load_explicit(&tally->sites[slot].count, memory_order_relaxed) + count;
    int64_t held = atomic_load_explicit(&tally->held_back, memory_order_relaxed) + bytes;
    /* This is a release: a thread that reads the bytes and then the site finds the right site. */
    atomic_store_explicit(&tally->sites[slot].bytes, of_site, memory_order_release);
    atomic_store_explicit(&tally->sites[slot].count, blocks, memory_order_release);
    atomic_store_explicit(&tally->held_back, held, memory_order_relaxed);
    if (count < 0 || (count == 0 && bytes < 0)) {
        gy_tally_count_freed(tally, -bytes);
    }
    if (__builtin_expect(held >= hold || held <= -hold || of_site >= hold || of_site <= -hold, 0)) {
        gy_tally_settle(tally, usage);
    } else if (may_be_lone && hold == GY_TALLY_HOLD_ALL &&
               (held - tally->high >= tally->least_hold ||
                of_site - tally->sites[slot].high >= tally->least_hold ||
                atomic_load_explicit(&usage->used, memory_order_relaxed) != tally->used)) {
        gy_tally_look(tally, usage, slot);
    }
}

#endif
