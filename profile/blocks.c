/* SPDX-License-Identifier: MIT */
/* A batch in four steps:
 *   1. the writer reads each record once, deals it out as a key to its shard, and lets the buffer go;
 *   2. a job for each shard sorts its keys by SM and start, gives each block a line and encodes its slice;
 *   3. chunks of all jobs go into the file in order (profile/outlet.h);
 *   4. when its slot is wanted again, or at the end, the batch is finished: its summary is written. Step 4
 * depends on the order of batches and not on time, so that the file is the same however the threads run. With
 * SLOTS batches between 1 and 4 the writer has something to do while others encode.
 *
 * A shard's keys come into pieces of one array, since their number is not known before.
 *
 * The memory is SLOTS times the keys of a batch of LARGE blocks, twice; a larger batch is alone in it. */
#include "profile/blocks.h"

#include "base/alloc.h"
#include "profile/kernel_names.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS 4u
#define SMALL 4096u        /* a batch of fewer blocks is not worth a job */
#define LARGE (256u << 10) /* a batch of more blocks is alone in memory */
#define PIECE 512u         /* keys in a piece */
#define PLACE_BITS 24u     /* of a key: a buffer has up to 2^24 records */
#define SMS_OF_SHARD (GY_SMS / GY_BLOCK_SHARDS)

struct key {
    uint64_t start_ns; /* GPU time */
    uint32_t duration_ns;
    uint32_t
        place; /* the place of its record in the batch; in the bits above, the number among the shard's SMs */
};
_Static_assert(SMS_OF_SHARD << PLACE_BITS == 0, "a key has room for both");

/* A shard's keys.  While they are dealt out, `count` covers the full pieces only. */
struct bin {
    struct key *at, *end; /* where the next key goes; where its piece ends; NULL: there is none yet */
    uint32_t count;
    uint32_t first_piece, last_piece;
};

struct part {
    uint32_t first, kernel; /* of the launch */
};

struct batch_slot;

struct shard_job {
    struct gy_job job; /* first */
    struct batch_slot *slot;
    uint32_t shard;
    uint64_t ticket;
    uint64_t lost; /* blocks */
};

/* A batch between its buffer and the file.  It is the writer's; while it has jobs left, they read it. */
struct batch_slot {
    struct gy_blocks *blocks;
    struct gy_block_gpu *gpu; /* NULL: the slot is empty */
    struct gy_block_info info;
    struct key *dealt;    /* pieces of keys; each piece belongs to one shard */
    uint32_t *next_piece; /* the next piece of the same shard, by piece */
    struct key *sorted;   /* room for the keys of one shard after the other; their job writes it */
    struct part *parts;
    uint32_t key_room, part_room, part_count;
    uint32_t pieces;  /* pieces that are begun */
    uint32_t records; /* records of blocks in the batch */
    uint64_t floor;   /* the floor of the GPU's residents */
    struct bin bins[GY_BLOCK_SHARDS];
    bool seen[GY_SMS]; /* SMs that have keys */
    uint64_t met[GY_SMS /
                 64]; /* set of the SMs whose keys can be written: later batches may add lines to the GPU */
    uint32_t left;    /* guarded by the encoders' lock: jobs that are not done */
    struct shard_job jobs[GY_BLOCK_SHARDS];
};

struct gy_blocks {
    struct gy_pftrace *trace;
    bool numbered;
    gy_blocks_finished_fn *finished;
    void *user;
    struct gy_encoders encoders;
    uint32_t sms;   /* SMs seen in all */
    uint64_t added; /* batches that got a slot: the next batch's is slots[added % SLOTS] */
    struct batch_slot slots[SLOTS];
};

struct gy_blocks *gy_blocks_create(struct gy_pftrace *trace, bool numbered, uint32_t threads,
                                   gy_blocks_finished_fn *finished, void *user)
{
    struct gy_blocks *blocks = gy_zalloc(sizeof(*blocks));
    if (blocks == NULL || gy_encoders_init(&blocks->encoders, threads) != GANTRY_OK) {
        gy_free(blocks);
        return NULL;
    }
    blocks->trace = trace;
    blocks->numbered = numbered;
    blocks->finished = finished;
    blocks->user = user;
    for (uint32_t i = 0; i < SLOTS; i++) {
        blocks->slots[i].blocks = blocks;
    }
    return blocks;
}

/* ---- encoding ---------------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* Blocks start nearly in the order of their numbers: this is an insertion sort, unless a block has to move
 * too far. */
static void sort_keys(struct key *keys, uint32_t count)
{
    uint64_t moves = 0;
    for (uint32_t i = 1; i < count; i++) {
        struct key key = keys[i];
        uint32_t at = i;
        for (; at > 0 && keys[at - 1].start_ns > key.start_ns; at--, moves++) {
            keys[at] = keys[at - 1];
        }
        keys[at] = key;
        if (moves > 8 * (uint64_t)count) {
            qsort(keys, count, sizeof(*keys), compare_keys);
            return;
        }
    }
}

/* Find the launch of a record. */
static const struct part *part_of(const struct batch_slot *slot, uint32_t place)
{
    uint32_t low = 0, high = slot->part_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        *(slot->parts[middle].first <= place ? &low : &high) = middle;
    }
    return &slot->parts[low];
}

/* The host time of a GPU time.  `line` is that of the time before: nearly all times have the same. */
static inline uint64_t host_time(const struct batch_slot *slot, struct gy_gpu_line *line, uint64_t gpu_ns)
{
    if (__builtin_expect(gpu_ns < line->from || gpu_ns >= line->to, 0)) {
        *line = gy_gpu_clock_line(&slot->info.clock, gpu_ns);
        line->host_ns += (uint64_t)slot->info.shift_ns;
    }
    return gy_gpu_line_host(line, gpu_ns);
}

/* Write the blocks of one SM, in order of start; returns how many could not be written. */
static uint64_t write_sm(const struct batch_slot *slot, struct gy_sm_lanes *sm, const struct key *keys,
                         uint32_t count, struct gy_sink *sink, struct gy_resident_sums *sums)
{
    uint64_t lost = 0;
    struct gy_gpu_line line = {0}; /* a line that holds for no time */
    struct part part = {0};
    uint32_t part_end = 0; /* [part.first, part_end) are places of the same launch */
    gy_sm_lanes_rebase(sm, host_time(slot, &line, keys[0].start_ns));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = keys[i].place;
        uint64_t start_ns = host_time(slot, &line, keys[i].start_ns);
        uint64_t end_ns = host_time(slot, &line, keys[i].start_ns + keys[i].duration_ns);
        if (sink->end - sink->at < GY_SINK_ROOM) {
            sink->more(sink);
        }
        uint32_t index = gy_sm_lanes_free(sm, gy_sm_lanes_near(sm, start_ns));
        if (index >= sm->count && !gy_sm_lanes_open(sm, sink, start_ns, &index)) {
            lost++;
            continue;
        }
        struct gy_dense *lane = &sm->lanes[index];
        if (place < part.first || place >= part_end) {
            const struct part *found = part_of(slot, place);
            part = *found;
            part_end = found + 1 < slot->parts + slot->part_count ? found[1].first : UINT32_MAX;
        }
        if (lane->named != part.kernel) {
            sink->at = gy_dense_name(sink->at, lane, part.kernel, gy_kernel_name(part.kernel));
        }
        gy_sm_lanes_take(sm, index, end_ns);
        sink->at = gy_dense_add(sink->at, lane, start_ns, end_ns, place - part.first);
        gy_resident_sums_add(sums, start_ns, end_ns);
    }
    return lost;
}

/* Sort a shard's keys by SM, into `sorted`; `ends` gets the end of each SM's keys. */
static void sort_by_sm(const struct batch_slot *slot, const struct bin *bin, struct key *sorted,
                       uint32_t ends[SMS_OF_SHARD])
{
    uint32_t at = 0;
    memset(ends, 0, SMS_OF_SHARD * sizeof(*ends));
    for (uint32_t pass = 0; pass < 2; pass++) { /* count, then move */
        uint32_t left = bin->count;
        for (uint32_t piece = bin->first_piece; left != 0; piece = slot->next_piece[piece]) {
            const struct key *keys = &slot->dealt[(size_t)piece * PIECE];
            uint32_t count = left < PIECE ? left : PIECE;
            for (uint32_t i = 0; i < count; i++) {
                uint32_t *end = &ends[keys[i].place >> PLACE_BITS];
                if (pass == 1) {
                    sorted[*end] = keys[i];
                    sorted[*end].place &= (1u << PLACE_BITS) - 1;
                }
                ++*end;
            }
            left -= count;
        }
        for (uint32_t sm = 0; sm < SMS_OF_SHARD && pass == 0; sm++) { /* the place of its first key */
            uint32_t count = ends[sm];
            ends[sm] = at;
            at += count;
        }
    }
}

/* Write the SMs of one shard; returns how many blocks could not be written. */
static uint64_t write_shard(const struct batch_slot *slot, uint32_t shard, struct gy_sink *sink)
{
    uint64_t lost = 0;
    uint32_t ends[SMS_OF_SHARD];
    struct key *keys = slot->sorted;
    for (uint32_t s = 0; s < shard; s++) {
        keys += slot->bins[s].count;
    }
    sort_by_sm(slot, &slot->bins[shard], keys, ends);
    struct gy_resident_sums sums;
    gy_resident_sums_init(&sums, &slot->gpu->residents, slot->floor, slot->info.begin_ns);
    for (uint32_t i = 0; i < SMS_OF_SHARD; i++) {
        uint32_t sm = i * GY_BLOCK_SHARDS + shard;
        uint32_t first = i != 0 ? ends[i - 1] : 0, count = ends[i] - first;
        if (count != 0 && (slot->met[sm / 64] >> sm % 64 & 1) != 0) {
            sort_keys(keys + first, count);
            lost += write_sm(slot, slot->gpu->sms[sm], keys + first, count, sink, &sums);
        } else {
            lost += count;
        }
    }
    gy_resident_sums_flush(&sums);
    return lost;
}

/* ---- jobs -------------------------------------------------------------------------------------- */

struct chunk_sink {
    struct gy_sink sink; /* first */
    struct gy_outlet *outlet;
    uint64_t ticket;
    struct gy_outlet_chunk *chunk;
};

static void take_chunk(struct chunk_sink *to)
{
    to->chunk = gy_outlet_take(to->outlet, to->ticket);
    to->sink.at = to->chunk->bytes;
    to->sink.end = to->chunk->bytes + sizeof(to->chunk->bytes);
}

static void put_chunk(struct chunk_sink *to, bool last)
{
    to->chunk->used = (size_t)(to->sink.at - to->chunk->bytes);
    gy_outlet_put(to->outlet, to->ticket, to->chunk, last);
}

static void next_chunk(struct gy_sink *sink)
{
    struct chunk_sink *to = (struct chunk_sink *)sink; /* its first member */
    put_chunk(to, false);
    take_chunk(to);
}

static void run_shard(struct gy_job *job)
{
    struct shard_job *mine = (struct shard_job *)job; /* its first member */
    struct chunk_sink to = {.sink.more = next_chunk,
                            .outlet = gy_pftrace_outlet(mine->slot->blocks->trace),
                            .ticket = mine->ticket};
    take_chunk(&to);
    mine->lost = write_shard(mine->slot, mine->shard, &to.sink);
    put_chunk(&to, true);
}

static void add_jobs(struct gy_blocks *blocks, struct batch_slot *slot)
{
    gy_pftrace_flush(blocks->trace);
    for (uint32_t s = 0; s < GY_BLOCK_SHARDS; s++) {
        struct shard_job *mine = &slot->jobs[s];
        *mine =
            (struct shard_job){.job = {.run = run_shard, .turns = &slot->gpu->shards[s], .left = &slot->left},
                               .slot = slot,
                               .shard = s,
                               .ticket = gy_outlet_ticket(gy_pftrace_outlet(blocks->trace))};
        gy_encoders_add(&blocks->encoders, &mine->job);
    }
}

/* The writer's own sink: it writes into the writer's current chunk. */
struct trace_sink {
    struct gy_sink sink; /* first */
    struct gy_pftrace *trace;
};

static void take_room(struct trace_sink *to)
{
    to->sink.at = gy_pftrace_room(to->trace, 2 * GY_SINK_ROOM);
    to->sink.end = to->sink.at + 2 * GY_SINK_ROOM;
}

static void next_room(struct gy_sink *sink)
{
    struct trace_sink *to = (struct trace_sink *)sink; /* its first member */
    gy_pftrace_used(to->trace, sink->at);
    take_room(to);
}

static void write_small(struct gy_blocks *blocks, struct batch_slot *slot)
{
    struct trace_sink to = {.sink.more = next_room, .trace = blocks->trace};
    take_room(&to);
    for (uint32_t s = 0; s < GY_BLOCK_SHARDS; s++) {
        slot->jobs[s].lost = write_shard(slot, s, &to.sink);
    }
    gy_pftrace_used(to.trace, to.sink.at);
}

/* ---- batches ----------------------------------------------------------------------------------- */

static void free_keys(struct batch_slot *slot)
{
    gy_free(slot->dealt);
    gy_free(slot->next_piece);
    gy_free(slot->sorted);
    slot->dealt = slot->sorted = NULL;
    slot->next_piece = NULL;
    slot->key_room = 0;
}

/* Step 4: the batch of the slot is finished. */
static void finish(struct gy_blocks *blocks, struct batch_slot *slot)
{
    struct gy_block_gpu *gpu = slot->gpu;
    if (gpu == NULL) {
        return;
    }
    gy_encoders_wait(&blocks->encoders, &slot->left);
    for (uint32_t s = 0; s < GY_BLOCK_SHARDS; s++) {
        slot->info.lost += slot->jobs[s].lost;
        slot->info.valid -= slot->jobs[s].lost;
    }
    gy_residents_write(&gpu->residents, blocks->trace, slot->floor);
    blocks->finished(blocks->user, gpu, &slot->info);
    slot->gpu = NULL;
    if (slot->key_room > LARGE) {
        free_keys(slot);
    }
}

void gy_blocks_finish(struct gy_blocks *blocks)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        finish(blocks, &blocks->slots[(blocks->added + i) % SLOTS]);
    }
}

/* Make room for this many records, and for a piece of each shard that is not full. */
static bool make_room(struct batch_slot *slot, uint32_t keys, uint32_t parts)
{
    if (slot->key_room < keys) {
        size_t pieces = (size_t)keys / PIECE + GY_BLOCK_SHARDS;
        free_keys(slot);
        slot->dealt = gy_alloc_aligned(pieces * PIECE * sizeof(*slot->dealt), 64);
        slot->next_piece = gy_zalloc_array(pieces, sizeof(*slot->next_piece));
        slot->sorted = gy_alloc_aligned((size_t)keys * sizeof(*slot->sorted), 64);
        slot->key_room = keys;
        if (slot->dealt == NULL || slot->next_piece == NULL || slot->sorted == NULL) {
            free_keys(slot);
        }
    }
    if (slot->part_room < parts) {
        gy_free(slot->parts);
        slot->parts = gy_zalloc_array(parts, sizeof(*slot->parts));
        slot->part_room = slot->parts != NULL ? parts : 0;
    }
    return slot->key_room >= keys && slot->part_room >= parts;
}

/* Make sure that the SM has its lines.  False: there is no memory, or there are too many SMs. */
static bool meet_sm(struct gy_blocks *blocks, struct gy_block_gpu *gpu, uint32_t number)
{
    struct gy_sm_lanes *sm = blocks->sms < GY_SMS_OF_TRACE ? gy_zalloc(sizeof(*sm)) : NULL;
    if (sm == NULL) {
        return false;
    }
    if (gpu->sms_track == 0) {
        gpu->sms_track = gy_pftrace_add_track(blocks->trace, gpu->track, "SMs", GY_BLOCK_RANK_SMS);
    }
    *sm =
        (struct gy_sm_lanes){.number = number,
                             .rank = blocks->sms++,
                             .numbered = blocks->numbered,
                             .first = gy_pftrace_reserve_tracks(blocks->trace, GY_SM_LOW_LANES),
                             .parent = gpu->sms_track,
                             .first_sequence = gy_pftrace_reserve_sequences(blocks->trace, GY_SM_LOW_LANES)};
    gpu->sms[number] = sm;
    return true;
}

static struct batch_slot *next_slot(struct gy_blocks *blocks)
{
    return &blocks->slots[blocks->added % SLOTS];
}

bool gy_blocks_open(struct gy_blocks *blocks, const struct gy_cta_batch *batch)
{
    if (batch->blocks < SMALL || batch->blocks > LARGE) { /* the batch is alone */
        gy_blocks_finish(blocks);
    }
    struct batch_slot *slot = next_slot(blocks);
    finish(blocks, slot);
    if (!make_room(slot, batch->blocks, batch->launch_count)) {
        return false;
    }
    slot->records = batch->blocks;
    slot->part_count = slot->pieces = 0;
    memset(slot->bins, 0, sizeof(slot->bins));
    memset(slot->seen, 0, sizeof(slot->seen));
    return true;
}

/* Begin the next piece of a shard. */
static void begin_piece(struct batch_slot *slot, struct bin *bin)
{
    uint32_t piece = slot->pieces++;
    if (bin->at == NULL) {
        bin->first_piece = piece;
    } else {
        slot->next_piece[bin->last_piece] = piece;
        bin->count += PIECE;
    }
    bin->last_piece = piece;
    bin->at = &slot->dealt[(size_t)piece * PIECE];
    bin->end = bin->at + PIECE;
}

struct gy_block_extent gy_blocks_put(struct gy_blocks *blocks, const struct gy_cta_batch *batch,
                                     const struct gy_cta_launch *launch, uint64_t of_sm[GY_SMS])
{
    struct batch_slot *slot = next_slot(blocks);
    struct bin *bins = slot->bins;
    struct gy_block_extent extent = {UINT64_MAX, 0, 0, 0};
    uint32_t kernel = launch->kernel, place = launch->first;
    const gantry_cta_record *record = batch->records + place, *end = record + launch->count;
    slot->parts[slot->part_count++] = (struct part){place, kernel};
    for (; record < end; record++, place++) { /* the speed of this loop limits a recording's rate */
        if (!gy_block_is_valid(record, kernel)) {
            extent.taken += gy_block_is_taken(record);
            continue;
        }
        gy_block_extend(&extent, record, of_sm);
        uint32_t sm = record->origin & (GY_SMS - 1);
        struct bin *bin = &bins[sm % GY_BLOCK_SHARDS];
        if (__builtin_expect(bin->at == bin->end, 0)) {
            begin_piece(slot, bin);
        }
        slot->seen[sm] = true;
        *bin->at++ =
            (struct key){record->start_ns, record->duration_ns, place | sm / GY_BLOCK_SHARDS << PLACE_BITS};
    }
    return extent;
}

/* All keys are dealt out: count the shards' keys, and make sure that the SMs have lines. */
static void close_bins(struct gy_blocks *blocks, struct batch_slot *slot)
{
    for (uint32_t s = 0; s < GY_BLOCK_SHARDS; s++) {
        struct bin *bin = &slot->bins[s];
        bin->count += bin->at != NULL ? PIECE - (uint32_t)(bin->end - bin->at) : 0;
    }
    memset(slot->met, 0, sizeof(slot->met));
    for (uint32_t sm = 0; sm < GY_SMS; sm++) {
        if (slot->seen[sm] && (slot->gpu->sms[sm] != NULL || meet_sm(blocks, slot->gpu, sm))) {
            slot->met[sm / 64] |= UINT64_C(1) << sm % 64;
        }
    }
}

void gy_blocks_add(struct gy_blocks *blocks, struct gy_block_gpu *gpu, const struct gy_block_info *info)
{
    struct gy_residents *residents = &gpu->residents;
    struct batch_slot *slot = next_slot(blocks);
    bool has_room = gy_residents_have_room(residents, info->end_ns);
    if (!has_room) {
        gy_blocks_finish(blocks); /* finish all but this one, which has no GPU yet */
    }
    slot->gpu = gpu;
    slot->info = *info;
    slot->floor = gy_residents_begin(residents, blocks->trace, gpu->track, info->begin_ns, info->end_ns);
    if (!has_room) {
        gy_residents_write(residents, blocks->trace, slot->floor);
    }
    close_bins(blocks, slot);
    if (slot->records < SMALL) {
        write_small(blocks, slot);
        finish(blocks, slot);
        return;
    }
    blocks->added++;
    add_jobs(blocks, slot);
    if (!gy_encoders_have_threads(&blocks->encoders)) {
        gy_encoders_wait(&blocks->encoders, &slot->left);
    }
    if (slot->records > LARGE) {
        gy_blocks_finish(blocks);
    }
}

void gy_blocks_destroy(struct gy_blocks *blocks)
{
    if (blocks == NULL) {
        return;
    }
    gy_encoders_fini(&blocks->encoders);
    for (uint32_t i = 0; i < SLOTS; i++) {
        free_keys(&blocks->slots[i]);
        gy_free(blocks->slots[i].parts);
    }
    gy_free(blocks);
}

void gy_block_gpu_fini(struct gy_block_gpu *gpu, struct gy_pftrace *trace)
{
    gy_residents_finish(&gpu->residents, trace);
    for (uint32_t sm = 0; sm < GY_SMS; sm++) {
        if (gpu->sms[sm] != NULL) {
            gy_sm_lanes_fini(gpu->sms[sm]);
            gy_free(gpu->sms[sm]);
        }
    }
}
