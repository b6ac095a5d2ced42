/* SPDX-License-Identifier: MIT */
#include "cli/plan_json.h"

#include "cli/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef GANTRY_HAVE_CJSON

#include "cli/json_file.h"

#define MOST_BYTES ((size_t)64 << 10)

enum kind { TEXT, NUMBER, SWITCH, CHOICE };

/* The meaning of a key of a request. */
struct field {
    const char *key;
    enum kind kind;
    size_t offset;
    const char *choices[3]; /* values 0, 1, 2 */
};

#define FIELD(key, kind, member)                               \
    {                                                          \
        key, kind, offsetof(gantry_partition_request, member), \
        {                                                      \
            NULL, NULL, NULL                                   \
        }                                                      \
    }

static const struct field fields[] = {
    FIELD("name", TEXT, name),
    {"size", CHOICE, offsetof(gantry_partition_request, size), {"exact", "at_least", "rest"}},
    FIELD("sm_count", NUMBER, sm_count),
    FIELD("cluster_size", NUMBER, cluster_size),
    FIELD("preferred_cluster_size", NUMBER, preferred_cluster_size),
    FIELD("backfill", SWITCH, backfill),
    FIELD("ignore_coscheduling", SWITCH, ignore_coscheduling),
    FIELD("overlaps", TEXT, overlaps),
    FIELD("overlap_sms", NUMBER, overlap_sms),
    FIELD("default", SWITCH, is_default),
    FIELD("borrows", TEXT, borrows),
    FIELD("priority", NUMBER, priority),
    FIELD("workqueue_limit", NUMBER, workqueue_limit),
    {"workqueue_scope",
     CHOICE,
     offsetof(gantry_partition_request, workqueue_scope),
     {"shared", "balanced", NULL}},
    FIELD("workqueues_of", TEXT, workqueues_of),
};

static bool refuse(const char *path, const char *where, const char *why)
{
    cli_error("%s: \"%s\": %s", path, where, why);
    return false;
}

/* Refuses an object in which a key occurs twice. */
static bool check_keys(const char *path, const cJSON *object)
{
    for (const cJSON *item = object->child; item != NULL; item = item->next) {
        for (const cJSON *other = item->next; other != NULL; other = other->next) {
            if (strcmp(item->string, other->string) == 0) {
                return refuse(path, item->string, "twice in one object");
            }
        }
    }
    return true;
}

static bool read_choice(const cJSON *item, const char *const *choices, int *out)
{
    for (int i = 0; cJSON_IsString(item) && i < 3 && choices[i] != NULL; i++) {
        if (strcmp(item->valuestring, choices[i]) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

static bool read_field(const cJSON *item, const struct field *field, gantry_partition_request *request)
{
    char *at = (char *)request + field->offset;
    int number = item->valueint;
    switch (field->kind) {
    case TEXT:
        if (cJSON_IsString(item)) {
            *(const char **)(void *)at = item->valuestring;
        }
        return cJSON_IsString(item);
    case NUMBER:
        if (!cJSON_IsNumber(item) || item->valuedouble != (double)number ||
            (number < 0 && strcmp(field->key, "priority") != 0)) {
            return false;
        }
        break;
    case SWITCH:
        number = cJSON_IsTrue(item);
        if (!cJSON_IsBool(item)) {
            return false;
        }
        break;
    case CHOICE:
        if (!read_choice(item, field->choices, &number)) {
            return false;
        }
        break;
    }
    memcpy(at, &number, sizeof(number));
    return true;
}

static bool read_share(const char *path, const cJSON *object, gantry_share *share)
{
    for (const cJSON *item = object->child; item != NULL; item = item->next) {
        if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble > UINT32_MAX) {
            return refuse(path, item->string, "not a number from 0 to 4294967295");
        }
        if (strcmp(item->string, "percent") == 0) {
            share->percent = item->valuedouble;
        } else if (strcmp(item->string, "burst_us") == 0) {
            share->burst_ns = (uint64_t)(item->valuedouble * 1000);
        } else if (strcmp(item->string, "in_flight") == 0) {
            share->in_flight = (uint32_t)item->valuedouble;
        } else if (strcmp(item->string, "group_us") == 0) {
            share->group_us = (uint32_t)item->valuedouble;
        } else {
            return refuse(path, item->string, "a share has no such key");
        }
    }
    return true;
}

static bool read_request(const char *path, const cJSON *object, gantry_partition_request *request,
                         gantry_share *share)
{
    *request = (gantry_partition_request){.struct_size = sizeof(*request)};
    *share = (gantry_share)GANTRY_SHARE_INIT;
    for (const cJSON *item = object->child; item != NULL; item = item->next) {
        const struct field *field = NULL;
        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
            field = strcmp(fields[i].key, item->string) == 0 ? &fields[i] : field;
        }
        if (strcmp(item->string, "share") == 0) {
            if (!cJSON_IsObject(item)) {
                return refuse(path, item->string, "not an object like {\"percent\": 25}");
            }
            if (!check_keys(path, item) || !read_share(path, item, share)) {
                return false;
            }
            request->share = share;
        } else if (field == NULL) {
            return refuse(path, item->string, "a partition has no such key");
        } else if (!read_field(item, field, request)) {
            return refuse(path, item->string, "a value that it cannot have");
        }
    }
    return true;
}

static bool read_document(const char *path, const cJSON *document, struct cli_plan *out)
{
    static const char *const fallbacks[] = {"none", "priority", NULL};
    static const char *const shortfalls[] = {"error", "warning", NULL};
    const cJSON *item;
    int choice;
    out->options = (gantry_partition_options)GANTRY_PARTITION_OPTIONS_INIT;
    out->options.requests = out->requests;
    if (!check_keys(path, document)) {
        return false;
    }
    for (item = document->child; item != NULL; item = item->next) {
        if (strcmp(item->string, "fallback") == 0 && read_choice(item, fallbacks, &choice)) {
            out->options.fallback = (gantry_partition_fallback)choice;
        } else if (strcmp(item->string, "shortfall") == 0 && read_choice(item, shortfalls, &choice)) {
            out->options.shortfall = (gantry_partition_shortfall)choice;
        } else if (strcmp(item->string, "partitions") != 0 || !cJSON_IsArray(item)) {
            return refuse(path, item->string, "a plan has no such key or value");
        }
    }
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(document, "partitions"))
    {
        if (!cJSON_IsObject(item) || out->options.count == GANTRY_PARTITIONS_MAX) {
            return refuse(path, "partitions", "not a list of at most 16 objects");
        }
        const uint32_t index = out->options.count++;
        if (!check_keys(path, item) ||
            !read_request(path, item, &out->requests[index], &out->shares[index])) {
            return false;
        }
    }
    return true;
}

bool cli_plan_read(const char *path, struct cli_plan *out)
{
    memset(out, 0, sizeof(*out));
    cJSON *document = cli_json_read(path, MOST_BYTES, NULL);
    if (document == NULL || !read_document(path, document, out)) {
        cJSON_Delete(document);
        return false;
    }
    out->document = document;
    return true;
}

void cli_plan_free(struct cli_plan *plan)
{
    cJSON_Delete(plan->document);
    plan->document = NULL;
}

#else

bool cli_plan_read(const char *path, struct cli_plan *out)
{
    (void)out;
    cli_error("%s: this build reads no plans: cJSON (package libcjson-dev) was missing", path);
    return false;
}

void cli_plan_free(struct cli_plan *plan)
{
    (void)plan;
}

#endif
