/* SPDX-License-Identifier: MIT */
/* What operations draw. */
#include "tests/conformance/differential/ops.h"

static bool stream_is_there;
static int pointers; /* that the operation has asked about */
static bool is_wild;
static bool is_in_slot; /* the latest place: nothing hashed lies behind its end */

void df_draw_null(void)
{
    pointers = 0;
    df_null_at = df_one_in(24) ? (int)df_below(3) : -1;
    if (df_null_at >= 0) {
        df_shape("nul%d", df_null_at);
    }
}

void *df_or_null(void *pointer)
{
    return pointers++ == df_null_at ? NULL : pointer;
}

static CUstream pick(CUstream stream, bool is_there)
{
    w.picked = stream;
    w.picks_stream = stream_is_there = is_there;
    return stream;
}

CUstream df_stream(void)
{
    uint32_t number = df_below(20);
    if (number >= 16) {
        df_shape("s%c", "NLPN"[number - 16]);
        return pick((CUstream)(uintptr_t)(number == 17 ? 1 : number == 18 ? 2 : 0), true);
    }
    static const unsigned slots[16] = {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 3, 3, 3, 3, 2, 2};
    CUstream stream = w.streams[slots[number]];
    df_shape("s%u", slots[number]);
    return pick(stream, stream != NULL);
}

bool df_stream_is_there(void)
{
    return stream_is_there;
}

CUstream df_stream_of_slot(int *slot)
{
    *slot = df_slot("s", DF_STREAMS);
    return pick(w.streams[*slot], w.streams[*slot] != NULL);
}

CUevent df_event(void)
{
    return w.events[df_slot("e", DF_EVENTS)];
}

CUcontext df_context(void)
{
    uint32_t number = df_below(9);
    df_shape("c%c", number < 5 ? 'a' : number == 8 ? '0' : w.has_other ? 'b' : 'a');
    return number < 5 ? w.primary : number == 8 ? NULL : w.has_other ? w.other : w.primary;
}

int df_slot(const char *what, int end)
{
    return (int)df_choice(what, (uint32_t)end);
}

static const uint32_t offsets[] = {0, 0, 1, 2, 4, 8, 16, 256, 1023, 1024, 2044, 2046, 2047};

CUdeviceptr df_place_in(int arena, size_t *room)
{
    uint32_t offset = offsets[df_below(sizeof(offsets) / sizeof(offsets[0]))];
    df_shape("%c%u", "abp"[arena], offset);
    *room = DF_ARENA - offset;
    is_in_slot = false;
    return w.arena[arena] + offset;
}

/* 'b': work of the picked stream runs on the second device. */
char df_home(void)
{
    CUcontext current = NULL;
    for (int i = 0; i < DF_STREAMS; i++) {
        if (w.picked != NULL && w.picked == w.streams[i]) {
            return w.is_of_second[i] ? 'b' : 'a';
        }
    }
    return cu->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == w.other && w.has_second ? 'b' : 'a';
}

bool df_is_foreign(char home, CUdeviceptr address)
{
    const CUdeviceptr arena = w.arena[DF_ARENA_B] - DF_ARENA / 2;
    bool is_of_second = address >= arena && address < arena + 2u * DF_ARENA;
    for (int i = 0; i < DF_BLOCKS; i++) {
        const struct df_block *block = &w.blocks[i];
        is_of_second |=
            block->is_of_second && address >= block->address && address - block->address < block->bytes;
    }
    const CUdeviceptr of_host = w.arena[DF_ARENA_PINNED] - DF_ARENA / 2;
    bool is_of_host = address >= of_host && address < of_host + 2u * DF_ARENA;
    return w.has_second && !is_of_host && is_of_second != (home == 'b');
}

CUdeviceptr df_place(size_t *room)
{
    return df_place_in((int)df_below(DF_ARENAS), room);
}

/* Memory of a slot; a graph never refers to it, as it goes. */
static CUdeviceptr place_in_slot(size_t *room)
{
    uint32_t kind = df_below(4), number = df_below(6), offset = offsets[df_below(4)];
    CUdeviceptr address = 0;
    *room = 0;
    if (kind < 2) {
        address = w.blocks[number % DF_BLOCKS].address;
        *room = w.blocks[number % DF_BLOCKS].bytes;
    } else if (kind == 2) {
        const struct df_range *range = &w.ranges[number % DF_RANGES];
        address = range->is_usable[number / 2] ? range->address + (CUdeviceptr)(number / 2) * DF_GRANULE : 0;
        *room = DF_GRANULE;
    } else {
        uint32_t page = number % DF_PAGES;
        address = w.is_registered[page] ? (CUdeviceptr)(uintptr_t)w.pages + page * (CUdeviceptr)DF_PAGE : 0;
        *room = DF_PAGE;
    }
    df_shape("k%u.%u+%u%s", kind, number, offset, address == 0 ? "E" : "");
    is_in_slot = true;
    *room = address != 0 && *room >= offset ? *room - offset : 0;
    return address != 0 ? address + offset : 0;
}

static const CUdeviceptr wild[] = {0, 1, 4, 0x1000, 0x7000000000000000, 0xfffffffffffffffc};

CUdeviceptr df_place_or_wild(size_t *room)
{
    uint32_t kind = df_below(32), arena = df_below(DF_ARENAS), number = df_below(6);
    const bool may_leave = !w.picks_stream || (df_stream_is_there() && !df_is_capturing(w.picked));
    is_wild = kind == 0 && may_leave;
    if (is_wild) {
        df_shape("wild%u", number);
        *room = 64;
        return wild[number];
    }
    if (kind < 7 && may_leave) {
        return place_in_slot(room);
    }
    return df_place_in((int)arena, room);
}

bool df_is_wild(void)
{
    return is_wild;
}

void *df_host(size_t *room)
{
    bool is_pinned = df_below(2) != 0;
    uint32_t offset = offsets[df_below(sizeof(offsets) / sizeof(offsets[0]))];
    df_shape("%c%u", "hp"[is_pinned], offset);
    *room = DF_ARENA - offset;
    return (is_pinned ? (unsigned char *)w.pinned : w.pageable) + offset;
}

size_t df_count(size_t room, size_t size)
{
    static const size_t some[] = {0, 1, 1, 2, 3, 4, 5, 8, 16, 17, 64, 100};
    uint32_t number = df_below(40), far = df_below(4);
    size_t full = room / size;
    if (number < 12) {
        df_shape("n%zu", some[number] <= full ? some[number] : full);
        return some[number] <= full ? some[number] : full;
    }
    if (number == 12 && w.picks_stream && df_stream_is_there() && !df_is_capturing(w.picked)) {
        /* Counts that no address has are no error on every device: its context is lost, or its driver
         * crashes. */
        const size_t beyond[] = {is_in_slot ? full + 1 : full, is_in_slot ? full + 2 : full, full,
                                 (size_t)1 << 40};
        df_shape("far%u", far);
        return beyond[far];
    }
    if (number < 30) {
        df_shape("full");
        return full;
    }
    df_shape("half");
    return full / 2;
}

/* A kernel that touches what it has no access to ends all contexts.  Access may end before a graph is
 * launched. */
static bool may_touch(int home, int arena)
{
    const bool is_at_once = w.picks_stream && df_stream_is_there() && !df_is_capturing(w.picked);
    return !w.has_second || arena == DF_ARENA_PINNED || arena == home || (is_at_once && w.reaches[home]);
}

CUfunction df_function(void *params[3], bool is_of_one_dimension)
{
    static CUdeviceptr data, seen;
    static uint32_t count, value;
    static const uint32_t places[] = {0, 4, 256, 1024};
    const uint32_t is_other = df_one_in(w.has_second ? 2 : 8) ? 1 : 0;
    uint32_t which = (is_of_one_dimension ? 2 * df_below(2) : 2) + is_other, arena = df_below(DF_ARENAS),
             at = df_below(4);
    if (!may_touch((int)is_other, (int)arena)) {
        arena = is_other;
    }
    data = w.arena[arena] + places[at];
    count = df_below(3) == 0 ? 0 : df_below((DF_ARENA - places[at]) / 4);
    value = df_below(1000);
    df_shape("f%u%c%u", which, "abp"[arena], at);
    if (which >= 2) {
        seen = data;
        data = w.arena[arena] + DF_ARENA - 4;
        params[0] = &data;
        params[1] = &seen;
        return w.look[which - 2];
    }
    params[0] = &data;
    params[1] = &count;
    params[2] = &value;
    return w.add[which];
}
