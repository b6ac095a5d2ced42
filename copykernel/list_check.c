/* SPDX-License-Identifier: MIT */
/* Checks of lists that the device reads, by the device: what the host reads of a list are the copies that a
 * kernel suspects.
 *
 *        ┌──────────── memory that was found ◄──────────┐
 *        ▼                                              │
 *   a kernel looks at each copy ──► suspects ──► the host looks at these ──► the least index that is wrong
 *        │ none
 *        ▼
 *   dests are sorted, overlaps are looked for (list_check_kernels.h) */
#include "base/alloc.h"
#include "copykernel/address.h"
#include "copykernel/internal.h"
#include "copykernel/list.h"
#include "driver/module.h"

#include <stdio.h>
#include <string.h>

/* The kernels of the copier's module that check; none has a twin for recordings. */
enum check_form { CHECK_ARRAYS, CHECK_DESCS, CHECK_SORT, CHECK_OVERLAPS, CHECK_FORMS };

struct checked {
    struct gy_copier *copier;
    CUstream stream;
    struct gantry_kernel *kernels[CHECK_FORMS];
    bool is_arrays;
    struct gy_copy_list_view view;
    struct gy_copy_checking checking;
    struct gy_copy_known *known;     /* as the device has it */
    struct gy_copy_verdict *verdict; /* of the last pass */
    struct gy_copy_suspect wrong;    /* the least index that is wrong, while it is less than the count */
    size_t bytes;                    /* of the device memory that `checking` lies in */
    bool found_memory;               /* the last pass led to memory that was not known before */
};

static gantry_status find_kernels(struct checked *c)
{
    static const char *const names[CHECK_FORMS] = {"gantry_copy_check_arrays", "gantry_copy_check_descs",
                                                   "gantry_copy_sort_dests", "gantry_copy_find_overlaps"};
    gantry_status status = GANTRY_OK;
    for (int i = 0; i < CHECK_FORMS && status == GANTRY_OK; i++) {
        status = gy_module_kernel(c->copier->module, names[i], &c->kernels[i]);
    }
    return status;
}

/* ---- the device's part --------------------------------------------------------------------------- */

static gantry_status launch(const struct checked *c, enum check_form form, uint32_t threads, void **arguments)
{
    const uint32_t most = c->copier->context->driver->emulated ? 4 : 1024;
    const uint32_t blocks = threads / GY_COPY_BLOCK + 1 < most ? threads / GY_COPY_BLOCK + 1 : most;
    return GY_CALL(c->copier->context, cuLaunchKernel(c->kernels[form]->function, blocks, 1, 1, GY_COPY_BLOCK,
                                                      1, 1, 0, c->stream, arguments, NULL));
}

static gantry_status send(const struct checked *c, uint64_t to, const void *from, size_t bytes)
{
    return GY_CALL(c->copier->context, cuMemcpyHtoDAsync(to, from, bytes, c->stream));
}

/* Wait for the kernels, and read what they have found. */
static gantry_status read_verdict(struct checked *c, size_t bytes)
{
    gantry_status status =
        GY_CALL(c->copier->context, cuMemcpyDtoHAsync(c->verdict, c->checking.verdict, bytes, c->stream));
    return status == GANTRY_OK ? GY_CALL(c->copier->context, cuStreamSynchronize(c->stream)) : status;
}

static gantry_status begin_verdict(const struct checked *c)
{
    static const struct gy_copy_verdict none = {.dests = GY_COPY_NO_OVERLAP, .sources = GY_COPY_NO_OVERLAP};
    return send(c, c->checking.verdict, &none, offsetof(struct gy_copy_verdict, noted));
}

/* Let the kernel look at each copy. */
static gantry_status look_at_entries(struct checked *c)
{
    void *arguments[] = {&c->view, &c->checking};
    gantry_status status = begin_verdict(c);
    if (status == GANTRY_OK && c->checking.known_count != 0) {
        status = send(c, c->checking.known, c->known, c->checking.known_count * sizeof(*c->known));
    }
    if (status == GANTRY_OK) {
        status = launch(c, c->is_arrays ? CHECK_ARRAYS : CHECK_DESCS, c->checking.room, arguments);
    }
    return status == GANTRY_OK ? read_verdict(c, sizeof(*c->verdict)) : status;
}

static gantry_status sort_dests(const struct checked *c)
{
    gantry_status status = GANTRY_OK;
    struct gy_copy_checking checking = c->checking;
    for (uint32_t run = 2; run != 0 && run <= checking.room; run *= 2) {
        for (uint32_t step = run / 2; step != 0 && status == GANTRY_OK; step /= 2) {
            void *arguments[] = {&checking, &run, &step};
            status = launch(c, CHECK_SORT, checking.room / 2, arguments);
        }
    }
    return status;
}

static gantry_status look_for_overlaps(struct checked *c)
{
    uint32_t copies = c->view.most;
    void *arguments[] = {&c->checking, &copies};
    gantry_status status = c->verdict->unordered != 0 ? sort_dests(c) : GANTRY_OK;
    status = status == GANTRY_OK ? launch(c, CHECK_OVERLAPS, c->checking.room, arguments) : status;
    status = status == GANTRY_OK ? read_verdict(c, offsetof(struct gy_copy_verdict, noted)) : status;
    if (status != GANTRY_OK) {
        return status;
    }
    const bool is_source = c->verdict->dests == GY_COPY_NO_OVERLAP;
    const uint64_t pair = is_source ? c->verdict->sources : c->verdict->dests;
    return pair == GY_COPY_NO_OVERLAP
               ? GANTRY_OK
               : gy_copy_refuse_overlap((uint32_t)(pair >> 32), is_source, (uint32_t)pair);
}

/* ---- the host's part ----------------------------------------------------------------------------- */

/* Note memory in its place by address; what touches the same bytes becomes one.  There is room for two pieces
 * of each copy. */
static void note_memory(struct checked *c, const struct gy_copy_memory *memory)
{
    struct gy_copy_known one = {memory->begin, memory->end, memory->is_host, 0};
    uint32_t count = c->checking.known_count, at = 0;
    while (at < count && c->known[at].end <= one.begin) {
        at++;
    }
    uint32_t behind = at;
    for (; behind < count && c->known[behind].begin < one.end; behind++) {
        const struct gy_copy_known *same = &c->known[behind];
        if (same->begin <= one.begin && same->end >= one.end) {
            return;
        }
        one.begin = same->begin < one.begin ? same->begin : one.begin;
        one.end = same->end > one.end ? same->end : one.end;
    }
    memmove(c->known + at + 1, c->known + behind, (count - behind) * sizeof(one));
    c->known[at] = one;
    c->checking.known_count = count + 1 - (behind - at);
    c->found_memory = true;
}

/* The pattern of a fill must be where the device can read it. */
static gantry_status find_pattern(const struct checked *c, const gantry_copy_desc *desc, uint32_t index,
                                  struct gy_copy_memory *memory)
{
    char name[48];
    uint64_t ignored;
    (void)snprintf(name, sizeof(name), "the pattern of copy descriptor %u,", index);
    return gy_copy_find_list(c->copier->context, c->copier->heap, name, desc->source, desc->pattern_bytes,
                             memory, &ignored);
}

/* Is this copy right?  The memory that it lies in is noted. */
static gantry_status judge(struct checked *c, const struct gy_copy_suspect *suspect)
{
    gantry_copy_desc desc;
    struct gy_copy_memory found[3] = {{0}};
    _Static_assert(sizeof(desc) == sizeof(suspect->copy), "the kernels note the caller's descriptors");
    memcpy(&desc, &suspect->copy, sizeof(desc));
    gantry_status status = gy_copy_check_one(suspect->index, &desc);
    if (status == GANTRY_OK && desc.type == GANTRY_COPY_FILL && desc.bytes != 0 && desc.pattern_bytes > 4) {
        status = find_pattern(c, &desc, suspect->index, &found[2]);
    }
    if (status == GANTRY_OK) {
        status = gy_copy_resolve_one(c->copier->context, c->copier->heap, &desc, suspect->index, c->is_arrays,
                                     found);
    }
    for (int i = 0; i < 3 && status == GANTRY_OK; i++) {
        if (found[i].end != found[i].begin) {
            note_memory(c, &found[i]);
        }
    }
    return status;
}

/* Look at what the kernel has noted, and remember the least that is wrong. */
static gantry_status judge_suspects(struct checked *c)
{
    const uint32_t count = c->verdict->suspects;
    const uint32_t upto = c->checking.upto;
    c->found_memory = false;
    for (uint32_t i = 0; i < count && i < GY_COPY_SUSPECTS; i++) {
        const struct gy_copy_suspect *suspect = &c->verdict->noted[i];
        gantry_status status = suspect->index < c->checking.upto ? judge(c, suspect) : GANTRY_OK;
        if (status == GANTRY_ERR_INVALID_ARGUMENT) {
            c->wrong = *suspect;
            c->checking.upto = suspect->index;
        } else if (status != GANTRY_OK) {
            return status;
        }
    }
    if (count != 0 && !c->found_memory && c->checking.upto == upto) {
        return GY_FAIL(GANTRY_ERR_DRIVER,
                       "copy list: the check kernel suspects descriptor %u, which is right",
                       c->verdict->noted[0].index);
    }
    return GANTRY_OK;
}

/* Each pass finds memory that was not known, or a lesser index that is wrong. */
static gantry_status check_entries(struct checked *c)
{
    gantry_status status;
    do {
        status = look_at_entries(c);
        status = status == GANTRY_OK ? judge_suspects(c) : status;
    } while (status == GANTRY_OK && c->verdict->suspects != 0 && c->checking.upto != 0);
    return status == GANTRY_OK && c->checking.upto < c->view.most ? judge(c, &c->wrong) : status;
}

/* ---- a list -------------------------------------------------------------------------------------- */

/* Divide device memory among what the kernels need. */
static void *take_memory(struct checked *c, gantry_status *status)
{
    const uint64_t count = c->view.most;
    uint64_t room = 1;
    while (room < count) {
        room *= 2;
    }
    const uint64_t known = sizeof(struct gy_copy_verdict), dests = known + 2 * count * sizeof(*c->known);
    const uint64_t sources = dests + room * sizeof(struct gy_copy_span);
    void *memory = NULL;
    c->bytes = sources + count * sizeof(struct gy_copy_span);
    *status = room > UINT32_MAX / 2 ? GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                                              "copy list: %u copies are too many to check", c->view.most)
                                    : gy_heap_alloc_own(c->copier->heap, GANTRY_MEMORY_DEVICE, c->bytes,
                                                        GANTRY_ALLOC_SITE("copy checks"), &memory);
    const uint64_t at = (uintptr_t)memory;
    c->checking = (struct gy_copy_checking){.verdict = at,
                                            .known = at + known,
                                            .dests = at + dests,
                                            .sources = at + sources,
                                            .room = (uint32_t)room,
                                            .upto = c->view.most};
    return memory;
}

static gantry_status check_counted(struct checked *c)
{
    gantry_status status;
    void *memory = take_memory(c, &status);
    if (status != GANTRY_OK) {
        return status;
    }
    c->known = gy_zalloc_array(2 * (size_t)c->view.most, sizeof(*c->known));
    c->verdict = gy_zalloc(sizeof(*c->verdict));
    if (c->known == NULL || c->verdict == NULL) {
        status = GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "out of memory to check a list of %u copies",
                         c->view.most);
    } else {
        status = check_entries(c);
        status = status == GANTRY_OK ? look_for_overlaps(c) : status;
    }
    gy_free(c->verdict);
    gy_free(c->known);
    (void)GY_CALL(c->copier->context,
                  cuStreamSynchronize(c->stream)); /* after a failure kernels may be on their way */
    gy_heap_free_own(c->copier->heap, GANTRY_MEMORY_DEVICE, c->bytes, memory);
    return status;
}

gantry_status gy_copier_check_list(struct gy_copier *copier, CUstream stream, const gantry_copy_list *list)
{
    struct checked c = {.copier = copier, .stream = stream, .is_arrays = list->descs == NULL};
    if (list->most == 0) {
        return GANTRY_OK;
    }
    gantry_status status = find_kernels(&c);
    status = status == GANTRY_OK ? gy_copier_find_arrays(copier, list, &c.view) : status;
    uint32_t count = list->most;
    if (status == GANTRY_OK && c.view.count != 0) {
        status = GY_CALL(copier->context, cuMemcpyDtoHAsync(&count, c.view.count, sizeof(count), stream));
        status = status == GANTRY_OK ? GY_CALL(copier->context, cuStreamSynchronize(stream)) : status;
    }
    if (status != GANTRY_OK || count == 0) {
        return status;
    }
    if (count > list->most) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy list: the count is %u, more than the maximum %u",
                       count, list->most);
    }
    c.view.most = count;
    c.view.count = 0;
    return check_counted(&c);
}
