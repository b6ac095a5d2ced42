/* SPDX-License-Identifier: MIT */
/* The descriptors lie in six rooms of memory of every kind.  Half of the inputs are descriptors that are
 * right by construction, so that much is copied; the others may be anything.  The expected result is
 * computed here by other means, by comparing each descriptor with each. */
#include "tests/copykernel/fuzz_batch.h"

#include "copykernel/copier.h"
#include "driver/context.h"
#include "emulator/gantry_emu.h"
#include "heap/heap.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_BYTES = 24 * 1024, MOST = 96, PATTERNS = 64 };

enum room_kind { HEAP_DEVICE, OWN_DEVICE, HEAP_PINNED, HEAP_COMBINED, REGISTERED, PAGEABLE, ROOMS };

static struct {
    struct gy_context *context;
    gantry_heap *heap;
    struct gy_copier *copier;
    gantry_copy_queue *queue;
    CUstream stream;
    struct gantry_emu_control emu;
    uint8_t *rooms[ROOMS], *models[ROOMS];
    uint8_t *patterns;
    struct fuzz_counts counts;
} all;

static _Noreturn void GANTRY_PRINTF(1, 2) wrong(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("fuzz_copy: ", stderr);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\nlast error: %s\n", gantry_last_error());
    va_end(args);
    abort();
}

#define MUST(call)                     \
    do {                               \
        if ((call) != GANTRY_OK) {     \
            wrong("%s failed", #call); \
        }                              \
    } while (0)

/* ---- memory ---- */

static uint8_t *heap_block(gantry_memory_kind kind)
{
    void *block = NULL;
    MUST(gantry_heap_alloc(all.heap, kind, ROOM_BYTES, 0, GANTRY_ALLOC_SITE("fuzz"), &block));
    return block;
}

static void open_rooms(void)
{
    CUdeviceptr own = 0;
    all.rooms[HEAP_DEVICE] = heap_block(GANTRY_MEMORY_DEVICE);
    all.rooms[HEAP_PINNED] = heap_block(GANTRY_MEMORY_PINNED);
    all.rooms[HEAP_COMBINED] = heap_block(GANTRY_MEMORY_WRITE_COMBINED);
    MUST(GY_CALL(all.context, cuMemAlloc(&own, ROOM_BYTES)));
    all.rooms[OWN_DEVICE] = (uint8_t *)(uintptr_t)own;
    all.rooms[REGISTERED] = aligned_alloc(4096, ROOM_BYTES);
    all.rooms[PAGEABLE] = malloc(ROOM_BYTES);
    all.patterns = malloc(PATTERNS);
    if (all.rooms[REGISTERED] == NULL || all.rooms[PAGEABLE] == NULL || all.patterns == NULL) {
        wrong("out of memory");
    }
    MUST(GY_CALL(all.context,
                 cuMemHostRegister(all.rooms[REGISTERED], ROOM_BYTES, CU_MEMHOSTREGISTER_DEVICEMAP)));
    for (uint32_t r = 0; r < ROOMS; r++) {
        all.models[r] = malloc(ROOM_BYTES);
        if (all.models[r] == NULL) {
            wrong("out of memory");
        }
        for (uint32_t i = 0; i < ROOM_BYTES; i++) {
            all.models[r][i] = (uint8_t)(i * 31 + i / 251 + r * 77);
        }
        if (r == HEAP_DEVICE || r == OWN_DEVICE) {
            MUST(GY_CALL(all.context, cuMemcpyHtoD((uintptr_t)all.rooms[r], all.models[r], ROOM_BYTES)));
            MUST(GY_CALL(all.context, cuStreamSynchronize(NULL)));
        } else {
            memcpy(all.rooms[r], all.models[r], ROOM_BYTES);
        }
    }
}

static void open_all(void)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = GANTRY_DRIVER_EMULATED;
    setenv("GANTRY_EMU_PROFILE", "b200", 1); /* on a device where blocks steal others */
    MUST(gy_context_open(&options, &all.context));
    MUST(gy_context_push(all.context));
    MUST(gy_heap_create(all.context, NULL, &all.heap));
    MUST(gy_copier_create(all.context, all.heap, &all.copier));
    MUST(gantry_copy_queue_create(0, &all.queue));
    MUST(GY_CALL(all.context, cuStreamCreate(&all.stream, CU_STREAM_NON_BLOCKING)));
#define FIND(result, name, parameters) \
    *(void **)&all.emu.name = dlsym(all.context->driver->library, "gantry_emu_" #name);
    GANTRY_EMU_CONTROLS(FIND)
#undef FIND
    open_rooms();
}

void fuzz_end(void)
{
    if (all.context == NULL) {
        return;
    }
    all.emu.reset();
    MUST(GY_CALL(all.context, cuMemHostUnregister(all.rooms[REGISTERED])));
    MUST(GY_CALL(all.context, cuMemFree((uintptr_t)all.rooms[OWN_DEVICE])));
    MUST(gantry_heap_free(all.heap, all.rooms[HEAP_DEVICE]));
    MUST(gantry_heap_free(all.heap, all.rooms[HEAP_PINNED]));
    MUST(gantry_heap_free(all.heap, all.rooms[HEAP_COMBINED]));
    free(all.rooms[REGISTERED]);
    free(all.rooms[PAGEABLE]);
    free(all.patterns);
    for (uint32_t r = 0; r < ROOMS; r++) {
        free(all.models[r]);
    }
    MUST(GY_CALL(all.context, cuStreamDestroy(all.stream)));
    gantry_copy_queue_destroy(all.queue);
    gy_copier_destroy(all.copier);
    gy_heap_destroy(all.heap);
    MUST(gy_context_pop(all.context));
    gy_context_close(all.context);
    all.context = NULL;
}

/* Every byte of every room is as in the model. */
static void compare(void)
{
    static uint8_t got[ROOM_BYTES];
    MUST(GY_CALL(all.context, cuStreamSynchronize(all.stream)));
    for (uint32_t r = 0; r < ROOMS; r++) {
        if (r == HEAP_DEVICE || r == OWN_DEVICE) {
            MUST(GY_CALL(all.context, cuMemcpyDtoH(got, (uintptr_t)all.rooms[r], ROOM_BYTES)));
        } else {
            memcpy(got, all.rooms[r], ROOM_BYTES);
        }
        for (uint32_t i = 0; i < ROOM_BYTES; i++) {
            if (got[i] != all.models[r][i]) {
                wrong("room %u, byte %u is 0x%02x, not 0x%02x", r, i, got[i], all.models[r][i]);
            }
        }
    }
}

/* ---- input ---- */

struct input {
    const uint8_t *data;
    size_t left;
};

/* The next bytes; zeros when there are none left. */
static uint32_t take(struct input *in, uint32_t bytes)
{
    uint32_t value = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        value |= in->left > 0 ? (uint32_t)*in->data << 8 * i : 0;
        in->data += in->left > 0 ? 1 : 0;
        in->left -= in->left > 0 ? 1 : 0;
    }
    return value;
}

static void take_pattern(struct input *in, gantry_copy_desc *desc)
{
    static const uint32_t sizes[] = {1, 2, 4, 8, 16};
    desc->pattern_bytes = sizes[take(in, 1) % 5];
    desc->pattern = take(in, 4);
    if (desc->pattern_bytes > 4) {
        desc->source = all.patterns + desc->pattern % (PATTERNS - 16);
    }
}

static uint8_t *pick(struct input *in, const enum room_kind *rooms, uint32_t count)
{
    return all.rooms[rooms[take(in, 1) % count]];
}

static const enum room_kind device_rooms[] = {HEAP_DEVICE, OWN_DEVICE},
                            host_rooms[] = {HEAP_PINNED, HEAP_COMBINED, REGISTERED};

/* A copy from the lower half of a room to the upper half of one, behind the copies before it. */
static bool right_desc(struct input *in, uint32_t *cursor, gantry_copy_desc *desc)
{
    enum { HALF = ROOM_BYTES / 2 };
    *desc = (gantry_copy_desc){.type = (gantry_copy_type)(take(in, 1) % 4)};
    uint32_t most = take(in, 1) % 4 == 0 ? HALF : 300, length = take(in, 2) % most, gap = take(in, 1) % 20;
    if (*cursor + gap + length > HALF) {
        return false;
    }
    bool to_host = desc->type == GANTRY_COPY_DTOH || (desc->type == GANTRY_COPY_FILL && take(in, 1) % 2 == 0);
    uint8_t *dest = to_host ? pick(in, host_rooms, 3) : pick(in, device_rooms, 2);
    desc->dest = dest + HALF + *cursor + gap;
    desc->bytes = length;
    *cursor += gap + length;
    if (desc->type == GANTRY_COPY_FILL) {
        take_pattern(in, desc);
        return true;
    }
    const uint8_t *source =
        desc->type == GANTRY_COPY_HTOD ? pick(in, host_rooms, 3) : pick(in, device_rooms, 2);
    desc->source = source + take(in, 2) % (HALF - length);
    return true;
}

/* An address mostly inside a room, now and then anywhere. */
static uint8_t *any_address(struct input *in)
{
    uint32_t kind = take(in, 1) % 64, offset = take(in, 2) % (ROOM_BYTES + 8);
    if (kind == 60) {
        return NULL;
    }
    if (kind == 61) { /* it belongs to nobody */
        return (uint8_t *)(uintptr_t)(4096 + offset);
    }
    if (kind == 62) { /* more than a descriptor can hold */
        return (uint8_t *)(uintptr_t)(((uint64_t)1 << 48) - 4 + offset);
    }
    return all.rooms[kind < 8 ? PAGEABLE : kind % PAGEABLE] + offset;
}

static void any_desc(struct input *in, gantry_copy_desc *desc)
{
    static const uint32_t sizes[] = {1, 2, 4, 8, 16, 0, 3, 32};
    uint32_t type = take(in, 1) % 32, how = take(in, 1) % 32;
    *desc = (gantry_copy_desc){.type = (gantry_copy_type)(type == 31 ? 4 : type % 4)};
    desc->dest = any_address(in);
    desc->source = any_address(in);
    desc->bytes = how == 0 ? 0 : how == 1 ? UINT64_MAX - take(in, 1) : how < 6 ? take(in, 2) : take(in, 1);
    uint32_t size = take(in, 1) % 64;
    if (desc->type == GANTRY_COPY_FILL) {
        take_pattern(in, desc);
        desc->pattern_bytes = size < 8 ? sizes[size] : desc->pattern_bytes;
        if (desc->pattern_bytes > 4) { /* the device would read it: it must be there, or NULL */
            desc->source = size == 9 ? NULL : all.patterns + desc->pattern % (PATTERNS - 16);
        }
    }
}

static uint32_t take_descs(struct input *in, gantry_copy_desc *descs)
{
    bool right = take(in, 1) % 2 == 0;
    uint32_t count = 0, cursor = 0, most = take(in, 1) % 4 == 0 || !right ? 6 : MOST;
    while (count < most && in->left > 0) {
        if (!right) {
            any_desc(in, &descs[count]);
        } else if (!right_desc(in, &cursor, &descs[count])) {
            break;
        }
        count++;
    }
    return count;
}

/* ---- what must come of it ---- */

struct verdict {
    bool refused;
    uint32_t index;
    const char *field;
};

static struct verdict refuse(uint32_t index, const char *field)
{
    return (struct verdict){true, index, field};
}

static bool beyond(const void *address, uint64_t bytes)
{
    uint64_t top = (uint64_t)1 << 48, at = (uintptr_t)address;
    return address == NULL || at >= top || bytes > top - at;
}

/* These checks are made whatever the addresses mean. */
static struct verdict judge_alone(const gantry_copy_desc *d, uint32_t i)
{
    bool fill = d->type == GANTRY_COPY_FILL;
    if ((unsigned)d->type > 3) {
        return refuse(i, "type");
    }
    uint32_t size = d->pattern_bytes;
    if (fill && size != 1 && size != 2 && size != 4 && size != 8 && size != 16) {
        return refuse(i, "pattern_bytes");
    }
    if (fill && size > 4 && d->source == NULL) {
        return refuse(i, "source");
    }
    if (d->bytes != 0 && beyond(d->dest, d->bytes)) {
        return refuse(i, "dest");
    }
    return d->bytes != 0 && !fill && beyond(d->source, d->bytes) ? refuse(i, "source") : (struct verdict){0};
}

/* The room that holds all of it; ROOMS: none does. */
static uint32_t room_of(const void *address, uint64_t bytes)
{
    for (uint32_t r = 0; r < ROOMS; r++) {
        uint64_t offset = (uintptr_t)address - (uintptr_t)all.rooms[r];
        if (offset < ROOM_BYTES && bytes <= ROOM_BYTES - offset) {
            return r;
        }
    }
    return ROOMS;
}

static bool is_device(uint32_t room)
{
    return room == HEAP_DEVICE || room == OWN_DEVICE;
}

static struct verdict judge_memory(const gantry_copy_desc *d, uint32_t i)
{
    if (d->bytes == 0) {
        return (struct verdict){0};
    }
    uint32_t dest = room_of(d->dest, d->bytes);
    bool any = d->type == GANTRY_COPY_FILL;
    if (dest >= PAGEABLE || (!any && is_device(dest) != (d->type != GANTRY_COPY_DTOH))) {
        return refuse(i, "dest");
    }
    if (any) {
        return (struct verdict){0};
    }
    uint32_t source = room_of(d->source, d->bytes);
    return source >= PAGEABLE || is_device(source) != (d->type != GANTRY_COPY_HTOD) ? refuse(i, "source")
                                                                                    : (struct verdict){0};
}

static bool touch(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    return a_bytes != 0 && b_bytes != 0 && (uintptr_t)a < (uintptr_t)b + b_bytes &&
           (uintptr_t)b < (uintptr_t)a + a_bytes;
}

/* Does j write anything that i writes or reads? */
static bool conflict(const gantry_copy_desc *descs, uint32_t i, uint32_t j, bool source)
{
    if (source) {
        return descs[i].type != GANTRY_COPY_FILL &&
               touch(descs[i].source, descs[i].bytes, descs[j].dest, descs[j].bytes);
    }
    return i != j && touch(descs[i].dest, descs[i].bytes, descs[j].dest, descs[j].bytes);
}

static bool any_conflict(const gantry_copy_desc *descs, uint32_t count, bool only_selves)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < count; j++) {
            if ((i == j || !only_selves) && (conflict(descs, i, j, true) || conflict(descs, i, j, false))) {
                return true;
            }
        }
    }
    return false;
}

/* The first mistake in any of them alone, and then with its memory. */
static struct verdict judge(const gantry_copy_desc *descs, uint32_t count)
{
    for (uint32_t i = 0; i < 2 * count; i++) {
        struct verdict v = i < count ? judge_alone(&descs[i], i) : judge_memory(&descs[i - count], i - count);
        if (v.refused) {
            return v;
        }
    }
    return (struct verdict){0};
}

static void do_model(const gantry_copy_desc *d)
{
    uint8_t pattern[16];
    if (d->bytes == 0) {
        return;
    }
    uint32_t dest = room_of(d->dest, d->bytes);
    uint8_t *to = all.models[dest] + ((uintptr_t)d->dest - (uintptr_t)all.rooms[dest]);
    if (d->type == GANTRY_COPY_FILL) {
        memcpy(pattern, d->pattern_bytes > 4 ? d->source : &d->pattern, d->pattern_bytes);
        for (uint64_t i = 0; i < d->bytes; i++) {
            to[i] = pattern[i % d->pattern_bytes];
        }
        return;
    }
    uint32_t source = room_of(d->source, d->bytes);
    memcpy(to, all.models[source] + ((uintptr_t)d->source - (uintptr_t)all.rooms[source]), d->bytes);
}

/* ---- both ---- */

static void expect_named(const struct verdict *v)
{
    char start[64];
    snprintf(start, sizeof(start), "copy descriptor %u: ", v->index);
    if (strstr(gantry_last_error(), start) == NULL || strstr(gantry_last_error(), v->field) == NULL) {
        wrong("should be \"%s... %s ...\"", start, v->field);
    }
}

/* The message names two descriptors that really overlap. */
static void expect_conflict_named(const gantry_copy_desc *descs, uint32_t count)
{
    unsigned i = 0, j = 0;
    const char *text = strstr(gantry_last_error(), "copy descriptor");
    bool source = text != NULL &&
                  sscanf(text, "copy descriptor %u: source overlaps dest of descriptor %u", &i, &j) == 2;
    bool both = text != NULL && sscanf(text, "copy descriptors %u and %u: their dest", &i, &j) == 2;
    if ((!source && !both) || i >= count || j >= count || !conflict(descs, i, j, source)) {
        wrong("%u and %u do not conflict", i, j);
    }
}

/* Compare the result with the verdict; returns whether the copies are to be in the memory now. */
static bool expect(gantry_status status, const gantry_copy_desc *descs, uint32_t count, bool only_selves)
{
    struct verdict v = judge(descs, count);
    bool conflicts = !v.refused && any_conflict(descs, count, only_selves);
    gantry_status expected = v.refused || conflicts ? GANTRY_ERR_INVALID_ARGUMENT : GANTRY_OK;
    if (status != expected) {
        wrong("status %d instead of %d", (int)status, (int)expected);
    }
    if (v.refused) {
        expect_named(&v);
    } else if (conflicts) {
        expect_conflict_named(descs, count);
    }
    all.counts.refused += status != GANTRY_OK;
    all.counts.done += status == GANTRY_OK;
    all.counts.copies += status == GANTRY_OK ? count : 0;
    return status == GANTRY_OK;
}

static uint32_t enqueue_all(gantry_copy_desc *descs, uint32_t count)
{
    uint32_t queued = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct verdict v = judge_alone(&descs[i], 0);
        gantry_status status = gantry_copy_queue_enqueue(all.queue, &descs[i]);
        if (status != (v.refused ? GANTRY_ERR_INVALID_ARGUMENT : GANTRY_OK)) {
            wrong("enqueue of %u: status %d", i, (int)status);
        }
        if (v.refused) {
            expect_named(&v);
        } else {
            descs[queued++] = descs[i];
        }
    }
    return queued;
}

static void choose_tuning(struct input *in)
{
    gantry_copy_tuning tuning = gy_copier_tuning(all.copier);
    uint32_t bits = take(in, 1);
    memset(tuning.engine_up_to, bits % 8 == 7 ? 0xff : 0, sizeof(tuning.engine_up_to));
    tuning.host_blocks = 1 + bits / 8 % 4;
    tuning.dtoh_blocks = 1 + bits / 32 % 2;
    tuning.device_blocks = bits / 64 % 2 == 0 ? 0 : 2;
    tuning.host_threads = bits / 128 % 2 == 0 ? 64 : 1024;
    MUST(gy_copier_set_tuning(all.copier, &tuning));
    all.emu.refuse_steals(take(in, 1) % 5);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    static gantry_copy_desc descs[MOST];
    struct input in = {data, size};
    if (all.context == NULL) {
        open_all();
    }
    choose_tuning(&in);
    bool queued = take(&in, 1) % 3 == 0;
    uint32_t first = take(&in, 1);
    for (uint32_t i = 0; i < PATTERNS; i++) {
        all.patterns[i] = (uint8_t)(first + 37 * i);
    }
    uint32_t count = take_descs(&in, descs);
    const struct gy_copy_target target = {.stream = all.stream};
    const gantry_copy_options low = {.struct_size = sizeof(low), .priority = GANTRY_COPY_PRIORITY_LOW};
    gantry_status status;
    if (queued) {
        count = enqueue_all(descs, count);
        status = gy_copier_flush(all.copier, &target, all.queue, &low);
        if (gantry_copy_queue_count(all.queue) != (status == GANTRY_OK ? 0 : count)) {
            wrong("%zu left in the queue of %u", gantry_copy_queue_count(all.queue), count);
        }
        gantry_copy_queue_clear(all.queue);
    } else {
        status = gy_copier_launch(all.copier, &target, descs, count, NULL);
    }
    if (expect(status, descs, count, queued)) {
        for (uint32_t i = 0; i < count; i++) {
            do_model(&descs[i]);
        }
    }
    compare();
}

struct fuzz_counts fuzz_counts(void)
{
    return all.counts;
}
