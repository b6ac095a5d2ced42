#include "proof/report.h"

#include "base/alloc.h"
#include "base/environment.h"
#include "base/fast_lock.h"
#include "proof/names.h"
#include "proof/order.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_SLOTS = 1 << 14, MOST_KERNELS = 512, LINE_BYTES = 1024 };

struct found {
    struct found *next;         /* immutable */
    const char *first, *second; /* immutable; labels, as gy_name_keep() gives them */
};

struct owned_block {
    struct owned_block *next; /* in its slot */
    uintptr_t at;
    size_t bytes;
    gantry_alloc_site site;
};

struct seen_kernel {
    const char *name;
    bool is_seen; /* it has said what it touches */
};

static gy_fast_lock lock = {0, GY_RANK_LEAF}; /* guards all below */
static struct found *founds, **last_found = &founds;
static uint64_t found_count;
static struct owned_block *blocks[BLOCK_SLOTS];
static struct seen_kernel kernels[MOST_KERNELS]; /* by hash */
static void (*tell_line)(const char *line);
static pid_t opened_by; /* written once, before there is work */

/* No function that takes the lock is called while this thread holds one of the proof's. */
static void take(void) GY_ACQUIRE(lock)
{
    gy_proof_is_inside = true;
    gy_fast_lock_take(&lock);
}

static void give(void) GY_RELEASE(lock)
{
    gy_fast_lock_give(&lock);
    gy_proof_is_inside = false;
}

void gy_report_open(void (*tell)(const char *line))
{
    take();
    tell_line = tell;
    opened_by = getpid();
    give();
}

/* ---- blocks --------------------------------------------------------------------------------------- */

static struct owned_block **slot_of(uintptr_t at)
{
    return &blocks[(uint64_t)(at >> 8) * UINT64_C(0x9e3779b97f4a7c15) >> 50];
}

void gy_report_block(uintptr_t at, size_t bytes, gantry_alloc_site site)
{
    take();
    struct owned_block *block = *slot_of(at);
    while (block != NULL && block->at != at) {
        block = block->next;
    }
    if (block == NULL && (block = gy_zalloc(sizeof(*block))) != NULL) {
        block->at = at;
        block->next = *slot_of(at);
        *slot_of(at) = block;
    }
    if (block != NULL) {
        block->bytes = bytes;
        block->site = site;
    }
    give();
}

/* The block in which an address lies: the nearest that begins before.  Those that were freed are still there,
 * but what lies in a live one lies nowhere else. */
static const struct owned_block *block_at(uintptr_t at) GY_REQUIRES(lock)
{
    const struct owned_block *best = NULL;
    for (int i = 0; i < BLOCK_SLOTS; i++) {
        for (const struct owned_block *block = blocks[i]; block != NULL; block = block->next) {
            if (block->at <= at && at - block->at < block->bytes && (best == NULL || block->at > best->at)) {
                best = block;
            }
        }
    }
    return best;
}

/* ---- lines ---------------------------------------------------------------------------------------- */

struct line_text {
    char bytes[LINE_BYTES];
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void put(struct line_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text->bytes + text->used, sizeof(text->bytes) - text->used, format, args);
    va_end(args);
    if (length > 0) {
        const size_t room = sizeof(text->bytes) - 1 - text->used;
        text->used += (size_t)length < room ? (size_t)length : room;
    }
}

/* What a work is: "its kernel blur (block 3)". */
static void put_work(struct line_text *text, uint32_t work, bool has_block, uint32_t block)
{
    const char *name = atomic_load_explicit(&gy_work_of(work)->name, memory_order_relaxed);
    const bool is_device = gy_part_of(gy_work_of(work)->part)->is_device;
    if (!is_device) {
        put(text, "on the host");
    } else if (name == NULL) {
        put(text, "on the device");
    } else {
        put(text, "in %s", name);
        if (has_block && atomic_load_explicit(&gy_work_of(work)->is_kernel, memory_order_relaxed)) {
            put(text, " (block %" PRIu32 ")", block);
        }
    }
}

/* Which bytes: by their place in the block, if it is the heap's. */
static void put_place(struct line_text *text, const struct gy_conflict *conflict) GY_REQUIRES(lock)
{
    const struct owned_block *block = block_at(conflict->at);
    const uintptr_t first = block != NULL ? conflict->at - block->at : conflict->at;
    if (conflict->bytes == 1) {
        put(text, "byte %" PRIuPTR, first);
    } else {
        put(text, "bytes %" PRIuPTR " to %" PRIuPTR, first, first + conflict->bytes - 1);
    }
    if (block == NULL) {
        put(text, " of memory that is no block of a heap");
        return;
    }
    put(text, " of the block '%s' at 0x%" PRIxPTR " (%zu bytes",
        block->site.tag != NULL ? block->site.tag : "untagged", block->at, block->bytes);
    if (block->site.file != NULL) {
        put(text, ", from %s:%d", block->site.file, block->site.line);
    }
    put(text, ")");
}

/* The line to add: whoever comes on the host after work of the device waits for its end. */
static void put_advice(struct line_text *text, const struct gy_part *first, const struct gy_part *second)
{
    if (first->label == second->label) {
        put(text, "; if these are one task in two steps, the steps are not ordered, else one starts after "
                  "the other");
        return;
    }
    const bool waits = first->is_device && !second->is_device;
    if (waits && second->is_callback) { /* an edge to it is behind the other's callback alone */
        put(text, ": put a CPU task that starts after '%.80s' is done before '%.80s'", first->label,
            second->label);
        return;
    }
    put(text, ": gantry_task_start_after%s(%s, %s)", waits ? "_done" : "", second->label, first->label);
}

/* The sentence that a person reads. */
static void make_line(struct line_text *text, const struct gy_access *access, bool is_write,
                      const struct gy_conflict *conflict) GY_REQUIRES(lock)
{
    const struct gy_part *first = gy_part_of(gy_work_of(conflict->work)->part);
    const struct gy_part *second = gy_part_of(access->part);
    put(text, "no edge leads from task '%.80s' to task '%.80s', which %s ", first->label, second->label,
        is_write ? "writes" : "reads");
    put_work(text, access->work, true, access->block);
    put(text, " what '%.80s' %s ", first->label, conflict->was_write ? "has written" : "has read");
    put_work(text, conflict->work, conflict->has_block, conflict->block);
    put(text, ", ");
    put_place(text, conflict);
    put_advice(text, first, second);
}

/* ---- the summary: lines of a key and a text, for who has asked for them (cli/check.c) --------------------
 */

/* Names of tasks are the program's: what would end a line or a word of the summary becomes a blank. */
static void print_word(FILE *file, const char *word)
{
    for (; *word != '\0'; word++) {
        fputc((unsigned char)*word < 0x20 ? ' ' : *word, file);
    }
}

static void print_line(FILE *file, const char *key, const char *text)
{
    fputs(key, file);
    print_word(file, text);
    fputc('\n', file);
}

/* NULL: nobody has asked, or the parent of a fork writes. */
static FILE *open_summary(void)
{
    const char *path = gy_environment("GANTRY_CHECK_REPORT");
    return path != NULL && opened_by == getpid() ? fopen(path, "ae") : NULL;
}

/* At once: the program may not come to its end. */
static void write_found(const char *line)
{
    FILE *file = open_summary();
    if (file != NULL) {
        print_line(file, "found\t", line);
        (void)fclose(file);
    }
}

/* In either order: with the one edge that is missing, both are gone. */
static bool is_known(const char *first, const char *second) GY_REQUIRES(lock)
{
    for (const struct found *found = founds; found != NULL; found = found->next) {
        if ((found->first == first && found->second == second) ||
            (found->first == second && found->second == first)) {
            return true;
        }
    }
    return false;
}

void gy_report_conflict(struct gy_access *access, bool is_write, const struct gy_conflict *conflict)
{
    const char *first = gy_part_of(gy_work_of(conflict->work)->part)->label;
    const char *second = gy_part_of(access->part)->label;
    struct line_text text = {{0}, 0};
    void (*tell)(const char *line) = NULL;
    take();
    struct found *found = is_known(first, second) ? NULL : gy_zalloc(sizeof(*found));
    if (found != NULL) {
        make_line(&text, access, is_write, conflict);
        *found = (struct found){NULL, first, second};
        *last_found = found;
        last_found = &found->next;
        found_count++;
        tell = tell_line;
    }
    give();
    if (tell != NULL) {
        struct gy_access *now = gy_access_now;
        gy_access_now = NULL; /* who hears it may be instrumented, too */
        write_found(text.bytes);
        tell(text.bytes);
        gy_access_now = now;
    }
}

/* ---- kernels -------------------------------------------------------------------------------------- */

void gy_report_kernel(const char *name, uint64_t touches)
{
    if (name == NULL ||
        strncmp(name, "gantry_", 7) == 0) { /* the library's own tell what they copy otherwise */
        return;
    }
    take();
    uint32_t at = (uint32_t)((uint64_t)(uintptr_t)name * UINT64_C(0x9e3779b97f4a7c15) >> 55),
             left = MOST_KERNELS;
    for (; left > 0 && kernels[at].name != NULL && kernels[at].name != name; left--) {
        at = (at + 1) % MOST_KERNELS;
    }
    if (left > 0) {
        kernels[at].name = name;
        kernels[at].is_seen |= touches != 0;
    }
    give();
}

/* The process ends.  Several processes may add to one file. */
__attribute__((destructor)) static void write_summary(void)
{
    FILE *file = tell_line != NULL ? open_summary() : NULL;
    if (file == NULL) {
        return;
    }
    const struct gy_order_counts counts = gy_order_counts();
    fprintf(file, "parts\t%" PRIu64 "\nworks\t%" PRIu64 "\n", counts.parts, counts.works);
    if (gy_order_lacks() != NULL) {
        print_line(file, "lacks\t", gy_order_lacks());
    }
    take();
    for (int i = 0; i < MOST_KERNELS; i++) {
        if (kernels[i].name != NULL && !kernels[i].is_seen) {
            print_line(file, "unseen\t", kernels[i].name);
        }
    }
    give();
    (void)fclose(file);
}
