/* SPDX-License-Identifier: MIT */
#include "proof/report.h"

#include "base/alloc.h"
#include "base/environment.h"
#include "base/fast_lock.h"
#include "proof/marks.h"
#include "proof/names.h"
#include "proof/order.h"
#include "proof/places.h"
#include "proof/shadow.h"
#include "proof/trail.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_SLOTS = 1 << 14, MOST_KERNELS = 512, LINE_BYTES = 1400, WINDOW = 1 << 20 };

struct found {
    struct found *next;         /* immutable */
    const char *first, *second; /* immutable; labels, as gy_name_keep() gives them; or a key, twice */
};

struct owned_block {
    struct owned_block *next; /* in its slot */
    uintptr_t at;
    size_t bytes;
    gantry_alloc_site site;
    uint32_t by; /* the host part of the task that has allocated it; 0: none has */
    bool is_live, is_device;
};

struct seen_kernel {
    const char *name;
    bool is_seen; /* it has said what it touches */
};

static gy_fast_lock lock = {0, GY_RANK_LEAF}; /* guards all below */
static struct found *founds, **last_found = &founds;
static struct owned_block *blocks[BLOCK_SLOTS];
static struct seen_kernel kernels[MOST_KERNELS]; /* by hash */
static uint32_t unseen_kernels;
static bool has_lists; /* of copies, that the device reads */
static void (*tell_line)(gantry_log_level level, const char *line);
static unsigned asked;  /* GY_PROOF_NEEDLESS ... */
static pid_t opened_by; /* written once, before there is work */

void gy_report_open(void (*tell)(gantry_log_level level, const char *line), unsigned extras)
{
    gy_proof_take(&lock);
    tell_line = tell;
    asked = extras;
    opened_by = getpid();
    gy_proof_give(&lock);
}

/* ---- blocks --------------------------------------------------------------------------------------- */

/* Of the task that the thread carries out something of; 0: of none. */
static uint32_t host_part_of(const struct gy_access *access)
{
    const uint32_t part = access != NULL ? access->part : 0;
    return part != 0 && gy_part_of(part)->is_device ? gy_part_of(part)->host : part;
}

static struct owned_block **slot_of(uintptr_t at)
{
    return &blocks[(uint64_t)(at >> 8) * UINT64_C(0x9e3779b97f4a7c15) >> 50];
}

void gy_report_block(uintptr_t at, size_t bytes, gantry_alloc_site site, bool is_device)
{
    gy_proof_take(&lock);
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
        block->by = host_part_of(gy_access_now);
        block->is_live = true;
        block->is_device = is_device;
    }
    gy_proof_give(&lock);
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

/* What a work is: "in blur (block 3) at scene.cu:12"; `place`: gy_place_describe(). */
static void put_work(struct line_text *text, uint32_t work, uint32_t block, const char *place)
{
    const char *name = atomic_load_explicit(&gy_work_of(work)->name, memory_order_relaxed);
    const bool is_device = gy_part_of(gy_work_of(work)->part)->is_device;
    if (!is_device) {
        put(text, "on the host");
    } else if (name == NULL) {
        put(text, "on the device");
    } else {
        put(text, "in %s", name);
        if (block < GY_NO_BLOCK && atomic_load_explicit(&gy_work_of(work)->is_kernel, memory_order_relaxed)) {
            put(text, " (block %" PRIu32 ")", block);
        }
    }
    put(text, "%s", place);
}

static void put_bytes(struct line_text *text, uintptr_t first, uintptr_t last)
{
    if (first == last) {
        put(text, "byte %" PRIuPTR, first);
    } else {
        put(text, "bytes %" PRIuPTR " to %" PRIuPTR, first, last);
    }
}

static void put_block(struct line_text *text, const struct owned_block *block)
{
    put(text, "the block '%s' at 0x%" PRIxPTR " (%zu bytes",
        block->site.tag != NULL ? block->site.tag : "untagged", block->at, block->bytes);
    if (block->site.file != NULL) {
        put(text, ", from %s:%d", block->site.file, block->site.line);
    }
    put(text, ")");
}

/* Which bytes: by their place in the block, if it is the heap's. */
static void put_place(struct line_text *text, uintptr_t at, size_t bytes, const struct owned_block *block)
{
    const uintptr_t first = block != NULL ? at - block->at : at;
    put_bytes(text, first, first + bytes - 1);
    put(text, block != NULL ? " of " : " of memory that is no block of a heap");
    if (block != NULL) {
        put_block(text, block);
    }
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

/* The sentence that a person reads.  `places`: of the second and of the first. */
static void make_line(struct line_text *text, const struct gy_access *access, bool is_write,
                      const struct gy_conflict *conflict, const char *const places[2]) GY_REQUIRES(lock)
{
    const struct gy_part *first = gy_part_of(gy_work_of(conflict->work)->part);
    const struct gy_part *second = gy_part_of(access->part);
    put(text, "no edge leads from task '%.80s' to task '%.80s', which %s ", first->label, second->label,
        is_write ? "writes" : "reads");
    put_work(text, access->work, access->block, places[0]);
    put(text, " what '%.80s' %s ", first->label, conflict->was_write ? "has written" : "has read");
    put_work(text, conflict->work, conflict->is_known ? conflict->block : GY_NO_BLOCK, places[1]);
    put(text, ", ");
    put_place(text, conflict->at, conflict->bytes, block_at(conflict->at));
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
static void write_found(const char *key, const char *line)
{
    FILE *file = open_summary();
    if (file != NULL) {
        print_line(file, key, line);
        (void)fclose(file);
    }
}

/* In the summary, and to the library. */
static void hear(void (*tell)(gantry_log_level level, const char *line), gantry_log_level level,
                 const char *key, const char *line)
{
    struct gy_access *now = gy_access_now;
    gy_access_now = NULL; /* who hears it may be instrumented, too */
    write_found(key, line);
    tell(level, line);
    gy_access_now = now;
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

/* The first time for this pair, which is known from now on. */
static bool is_first(const char *first, const char *second) GY_REQUIRES(lock)
{
    struct found *found = is_known(first, second) ? NULL : gy_zalloc(sizeof(*found));
    if (found != NULL) {
        *found = (struct found){NULL, first, second};
        *last_found = found;
        last_found = &found->next;
    }
    return found != NULL;
}

void gy_report_conflict(struct gy_access *access, bool is_write, const struct gy_conflict *conflict)
{
    const char *first = gy_part_of(gy_work_of(conflict->work)->part)->label;
    const char *second = gy_part_of(access->part)->label;
    struct line_text text = {{0}, 0};
    gy_proof_take(&lock);
    void (*tell)(gantry_log_level level, const char *line) = is_first(first, second) ? tell_line : NULL;
    gy_proof_give(&lock);
    if (tell != NULL) {
        const char *const places[] = {gy_place_describe(access->place),
                                      gy_place_describe(conflict->is_known ? conflict->place : NULL)};
        gy_proof_take(&lock);
        make_line(&text, access, is_write, conflict, places);
        gy_proof_give(&lock);
        hear(tell, GANTRY_LOG_ERROR, "found\t", text.bytes);
    }
}

static bool has_unseen(void) GY_REQUIRES(lock)
{
    return has_lists || unseen_kernels != 0;
}

bool gy_report_has_unseen(void)
{
    gy_proof_take(&lock);
    const bool is_unseen = has_unseen();
    gy_proof_give(&lock);
    return is_unseen;
}

/* ---- what is told on request ------------------------------------------------------------------------ */

void gy_report_extra(enum gy_report_kind kind, const char *key, const char *line)
{
    static const char *const keys[] = {"needless\t", "unwritten\t", "unread\t", "undeclared\t"};
    const bool is_error = kind == GY_REPORT_UNWRITTEN || kind == GY_REPORT_UNDECLARED;
    const char *kept = gy_name_keep(key);
    gy_proof_take(&lock);
    void (*tell)(gantry_log_level level, const char *line) = is_first(kept, kept) ? tell_line : NULL;
    gy_proof_give(&lock);
    if (tell != NULL) {
        hear(tell, is_error ? GANTRY_LOG_ERROR : GANTRY_LOG_WARNING, keys[kind], line);
    }
}

/* What is the same for all blocks of one line of the program. */
static void put_key(struct line_text *key, const char *what, const struct owned_block *block)
{
    put(key, "%s: %s %s:%d", what, block->site.tag != NULL ? block->site.tag : "",
        block->site.file != NULL ? block->site.file : "", block->site.line);
}

/* The whole of a live block, or what lies around the byte between such blocks. */
static struct gy_span around(const struct owned_block *block, uintptr_t at) GY_REQUIRES(lock)
{
    uintptr_t from = at & ~(uintptr_t)(WINDOW - 1), end = from + WINDOW;
    if (block != NULL && block->is_live) {
        return (struct gy_span){block->at, block->bytes};
    }
    for (int i = 0; i < BLOCK_SLOTS; i++) {
        for (const struct owned_block *other = blocks[i]; other != NULL; other = other->next) {
            const uintptr_t behind = other->at + other->bytes;
            from = other->is_live && behind <= at && behind > from ? behind : from;
            end = other->is_live && other->at > at && other->at < end ? other->at : end;
        }
    }
    return (struct gy_span){from, end - from};
}

/* Other memory than live blocks of the device counts as written, so that it is asked for once.  A block that
 * comes to be there begins anew (gy_marks_forget()). */
static void judge_no_more(const struct owned_block *block, uintptr_t at) GY_REQUIRES(lock)
{
    const struct gy_span span = around(block, at);
    gy_marks_write(span.from, span.bytes);
}

bool gy_report_unwritten(struct gy_access *access, uintptr_t at)
{
    const char *label = gy_part_of(access->part)->label;
    struct line_text line = {{0}, 0}, key = {{0}, 0}, about = {{0}, 0}, missing = {{0}, 0};
    gy_proof_take(&lock);
    const bool is_asked = (asked & GY_PROOF_UNWRITTEN) != 0 && !has_unseen();
    const struct owned_block *block = is_asked ? block_at(at) : NULL;
    const bool is_judged = block != NULL && block->is_live && block->is_device;
    const uintptr_t begin = is_judged ? block->at : at;
    if (is_judged) {
        uintptr_t first = at, last = at;
        gy_marks_take_run(begin, begin + block->bytes, &first, &last);
        put_key(&key, label, block);
        put_block(&about, block);
        put_bytes(&missing, first - begin, last - begin);
    } else if (is_asked) {
        judge_no_more(block, at);
    }
    gy_proof_give(&lock);
    if (is_judged) {
        put(&line, "task '%.80s' reads ", label);
        put_work(&line, access->work, access->block, gy_place_describe(access->place));
        put(&line,
            " byte %" PRIuPTR " of %s, and nobody has written %s: fill them or copy to them in a task that "
            "'%.80s' starts after, or read less",
            at - begin, about.bytes, missing.bytes, label);
        gy_report_extra(GY_REPORT_UNWRITTEN, key.bytes, line.bytes);
    }
    return is_judged;
}

/* ---- what tasks have not declared -------------------------------------------------------------------- */

/* The line to add. */
static void put_declaration(struct line_text *text, const char *label, const struct gy_undeclared *undeclared,
                            const struct owned_block *block)
{
    const bool adds =
        (undeclared->touch & (GY_TOUCH_CHANGE | GY_TOUCH_ATOMIC)) == (GY_TOUCH_CHANGE | GY_TOUCH_ATOMIC);
    const char *mode = (undeclared->touch & GY_TOUCH_WRITE) == 0 ? "READ" : adds ? "ADD" : "WRITE";
    put(text, ": gantry_task_access(%s, &(gantry_access){.at = ", label);
    if (block == NULL || block->site.tag == NULL) {
        put(text, "(void *)0x%" PRIxPTR, undeclared->at);
    } else if (undeclared->at == block->at) {
        put(text, "%s", block->site.tag);
    } else {
        put(text, "(char *)%s + %" PRIuPTR, block->site.tag, undeclared->at - block->at);
    }
    put(text, ", .bytes = %zu, .mode = GANTRY_ACCESS_%s}, 1)", undeclared->bytes, mode);
}

/* `block`: the live one in which they lie; NULL: in none. */
static void tell_undeclared(struct gy_access *access, const struct gy_undeclared *undeclared,
                            const struct owned_block *block, const char *key)
{
    const char *label = gy_part_of(access->part)->label;
    struct line_text line = {{0}, 0};
    put(&line, "task '%.80s' %s ", label, (undeclared->touch & GY_TOUCH_WRITE) != 0 ? "writes" : "reads");
    put_work(&line, access->work, access->block, gy_place_describe(access->place));
    put(&line, " ");
    put_place(&line, undeclared->at, undeclared->bytes, block);
    put(&line, ", which it has %s",
        undeclared->is_read_only ? "declared as GANTRY_ACCESS_READ" : "not declared");
    put_declaration(&line, label, undeclared, block);
    gy_report_extra(GY_REPORT_UNDECLARED, key, line.bytes);
}

struct gy_span gy_report_undeclared(struct gy_access *access, const struct gy_undeclared *undeclared)
{
    struct gy_undeclared told = *undeclared;
    struct line_text key = {{0}, 0};
    gy_proof_take(&lock);
    const struct owned_block *found = block_at(told.at);
    const struct owned_block block =
        found != NULL && found->is_live ? *found : (struct owned_block){.is_live = false};
    const struct gy_span span = around(found, told.at);
    gy_proof_give(&lock);
    put_key(&key, gy_part_of(access->part)->label, &block);
    put(&key, " 0x%" PRIxPTR, span.from);
    const char *kept = gy_name_keep(key.bytes);
    gy_proof_take(&lock);
    const bool is_told = is_known(kept, kept);
    gy_proof_give(&lock);
    const bool is_own = block.by != 0 && block.by == host_part_of(access);
    const size_t left = span.from + span.bytes - told.at;
    told.bytes = told.bytes < left ? told.bytes : left;
    if (!is_told && !is_own) {
        tell_undeclared(access, &told, block.is_live ? &block : NULL, kept);
    }
    return span;
}

/* ---- blocks that are freed too early ----------------------------------------------------------------- */

const char *gy_report_name_of(uintptr_t at)
{
    struct line_text name = {{0}, 0};
    gy_proof_take(&lock);
    const struct owned_block *block = block_at(at);
    if (block != NULL) {
        put_block(&name, block);
    } else {
        put(&name, "memory at 0x%" PRIxPTR, at);
    }
    gy_proof_give(&lock);
    return gy_name_keep(name.bytes);
}

void gy_report_early_free(const char *label, const char *name)
{
    struct line_text line = {{0}, 0}, key = {{0}, 0};
    put(&line,
        "%s is freed before the end of task '%.80s', which has declared bytes of it: free it in a task that "
        "starts after '%.80s', or behind the step",
        name, label, label);
    put(&key, "freed %s: %s", label, name);
    gy_report_extra(GY_REPORT_UNDECLARED, key.bytes, line.bytes);
}

/* ---- blocks that nobody reads ------------------------------------------------------------------------ */

/* A block that nobody has read, whose end it is. */
static void describe_unread(struct line_text *line, const struct owned_block *block)
{
    const uint32_t writer = gy_shadow_writer(block->at);
    const bool is_written = gy_marks_is_written(block->at, block->bytes);
    put(line, is_written ? "nobody reads " : "nobody touches ");
    put_block(line, block);
    if (writer != 0) {
        put(line, ", which task '%.80s' writes", gy_part_of(gy_work_of(writer)->part)->label);
    }
    put(line, is_written
                  ? ": leave out the block and what writes it, or read it in a task that starts after that"
                  : ": leave it out");
}

void gy_report_freed(uintptr_t at, size_t bytes)
{
    struct line_text line, key;
    bool is_told = true;
    while (is_told && (asked & GY_PROOF_UNREAD) != 0 && gy_marks_kept()) {
        line.used = key.used = 0;
        is_told = false;
        gy_proof_take(&lock);
        for (int i = 0; i < BLOCK_SLOTS && !is_told; i++) {
            for (struct owned_block *block = blocks[i]; block != NULL && !is_told; block = block->next) {
                if (block->is_live && block->at >= at && block->at - at < bytes) {
                    block->is_live = false;
                    is_told = block->is_device && !has_unseen() && !gy_marks_is_read(block->at, block->bytes);
                    if (is_told) {
                        put_key(&key, "unread", block);
                        describe_unread(&line, block);
                    }
                }
            }
        }
        gy_proof_give(&lock);
        if (is_told) {
            gy_report_extra(GY_REPORT_UNREAD, key.bytes, line.bytes);
        }
    }
}

/* ---- kernels -------------------------------------------------------------------------------------- */

/* The library's own tell what they copy otherwise, but for these. */
static bool reads_list(const char *name)
{
    return strncmp(name, "gantry_copy_arrays", 18) == 0 || strncmp(name, "gantry_copy_descs", 17) == 0;
}

void gy_report_kernel(const char *name, uint64_t touches)
{
    if (name == NULL || (strncmp(name, "gantry_", 7) == 0 && !reads_list(name))) {
        return;
    }
    gy_proof_take(&lock);
    if (reads_list(name)) {
        has_lists = true;
        gy_proof_give(&lock);
        return;
    }
    uint32_t at = (uint32_t)((uint64_t)(uintptr_t)name * UINT64_C(0x9e3779b97f4a7c15) >> 55),
             left = MOST_KERNELS;
    for (; left > 0 && kernels[at].name != NULL && kernels[at].name != name; left--) {
        at = (at + 1) % MOST_KERNELS;
    }
    if (left > 0) {
        const bool was_unseen = kernels[at].name != NULL && !kernels[at].is_seen;
        kernels[at].name = name;
        kernels[at].is_seen |= touches != 0;
        unseen_kernels += (kernels[at].is_seen ? 0u : 1u) - (was_unseen ? 1u : 0u);
    }
    gy_proof_give(&lock);
}

/* The process ends.  Several processes may add to one file. */
__attribute__((destructor)) static void write_summary(void)
{
    FILE *file = NULL;
    if (tell_line != NULL && opened_by == getpid()) {
        gy_trail_judge();
        gy_report_freed(0, SIZE_MAX);
        file = open_summary();
    }
    if (file == NULL) {
        return;
    }
    const struct gy_order_counts counts = gy_order_counts();
    fprintf(file, "parts\t%" PRIu64 "\nworks\t%" PRIu64 "\n", counts.parts, counts.works);
    for (int i = 0; i < GY_WATCHED_KINDS; i++) {
        static const char *const names[] = {"blocks", "malloc"};
        if (atomic_load(&gy_watched[i].bytes) != 0) {
            print_line(file, "watched\t", names[i]);
        }
    }
    if (gy_order_lacks() != NULL) {
        print_line(file, "lacks\t", gy_order_lacks());
    }
    gy_proof_take(&lock);
    for (int i = 0; i < MOST_KERNELS; i++) {
        if (kernels[i].name != NULL && !kernels[i].is_seen) {
            print_line(file, "unseen\t", kernels[i].name);
        }
    }
    gy_proof_give(&lock);
    (void)fclose(file);
}
