/* SPDX-License-Identifier: MIT */
/* The bytes are what a neighbour has written into a job's file, at places that they name themselves, and a
 * job's settings as text.  Whatever they are, every question is answered, what is taken as settings is within
 * its bounds, and a process that enters gets a slot of its own or is told why not. */
#include "tests/fuzz/fuzz.h"

#include "limit/job.h"
#include "limit/pace.h"
#include "limit/region.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char path[GY_REGION_PATH_BYTES], why[GY_REGION_TEXT_BYTES];
static const struct gy_region_settings settings = {.share = 300000, .devices = 1, .credit_ms = 1000};

static void demand(bool holds)
{
    if (!holds) {
        abort();
    }
}

/* A good file, with pieces of the input written over it: two bytes say where, in words, one how many words.
 */
static void write_file(const uint8_t *data, size_t size)
{
    struct gy_region_place place;
    bool absent;
    (void)unlink(path);
    demand(gy_region_enter(path, &settings, &place, why));
    demand(gy_region_device(place.region, 5, 1000) == 0);
    gy_region_drop(&place); /* as if it had been killed */
    demand(gy_region_look(path, &place, why, &absent));
    uint8_t *bytes = (uint8_t *)place.region;
    while (size >= 4) {
        const size_t at = (size_t)(data[0] | data[1] << 8) * 8 % sizeof(*place.region);
        size_t count = (size_t)(data[2] % 16 + 1) * 8;
        data += 3;
        size -= 3;
        count = count < size ? count : size;
        count = count < sizeof(*place.region) - at ? count : sizeof(*place.region) - at;
        memcpy(bytes + at, data, count);
        data += count;
        size -= count;
    }
    gy_region_drop(&place);
}

static void use(struct gy_region_place *place)
{
    demand(gy_region_settings_are_valid(&place->settings));
    demand(place->slot >= 0 && place->slot < GY_REGION_SLOTS);
    const int device = gy_region_device(place->region, 9, UINT64_C(1000000));
    demand(device >= -1 && device < GY_REGION_DEVICES);
    (void)gy_region_reclaim(place);
    for (int d = 0; d < GY_REGION_DEVICES; d++) {
        uint64_t ready = 0;
        (void)gy_pace_ask(place->region, d, &place->settings, UINT64_C(5000000000), &ready);
        gy_pace_reserve(place, d, 1000000);
        gy_pace_expect(place, d, 1000000, UINT64_C(5000000000));
        gy_pace_charge(place, d, 1000000, UINT64_C(5000000000));
        gy_pace_give_back(place, d, 1000000);
        demand(gy_pace_worst(&place->region->devices[d], 100, UINT64_C(9000000000)) >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gy_region_place place;
    struct gy_region_settings read;
    char text[256];
    snprintf(path, sizeof(path), "/tmp/gantry-fuzz-limit-%d", (int)getpid());
    snprintf(text, sizeof(text), "%.*s", (int)(size < 200 ? size : 200), (const char *)data);
    demand(!gy_job_parse(text, &read) || gy_region_settings_are_valid(&read));
    write_file(data, size);
    if (gy_region_enter(path, &settings, &place, why)) {
        use(&place);
        gy_region_leave(&place);
    }
    (void)gy_region_sweep(path);
    (void)unlink(path);
    return 0;
}
