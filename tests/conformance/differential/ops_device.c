/* SPDX-License-Identifier: MIT */
/* The driver, its devices, contexts and peers. */
#include "tests/conformance/differential/ops.h"

#include <string.h>

static const int ordinals[] = {0, 0, 0, 0, -1, 1 << 20, 99};

static CUdevice device(void)
{
    uint32_t number = df_choice("d", sizeof(ordinals) / sizeof(ordinals[0]));
    return w.has_second && (number == 2 || number == 3) ? 1 : ordinals[number];
}

static void op_init(void)
{
    unsigned flags = (unsigned)DF_PICK("flags", 0, 0, 1, 0xffffffff);
    ask(cuInit, flags);
}

static void op_version(void)
{
    int version = 0;
    ask(cuDriverGetVersion, df_or_null(&version));
}

static void op_error_text(void)
{
    static const int codes[] = {0,   1,   2,   3,   4,   34,  46,  100, 101, 201,  208, 214,  217, 218,
                                226, 300, 304, 400, 401, 500, 600, 700, 701, 704,  705, 708,  709, 712,
                                713, 719, 720, 800, 801, 802, 900, 901, 906, 908,  909, 910,  911, 912,
                                914, 915, 999, 5,   37,  103, 399, 916, 998, 1000, -1,  12345};
    const char *text = NULL;
    CUresult code = (CUresult)codes[df_choice("code", sizeof(codes) / sizeof(codes[0]))];
    bool is_name = df_below(2) == 0;
    if (is_name) {
        if (ask(cuGetErrorName, code, &text) == CUDA_SUCCESS) {
            df_note("%s", text);
        }
    } else if (ask(cuGetErrorString, code, &text) == CUDA_SUCCESS) {
        df_note("%s", text != NULL ? "text" : "none");
    }
}

static void op_count(void)
{
    int count = 0;
    ask(cuDeviceGetCount, df_or_null(&count));
}

static void op_get(void)
{
    CUdevice got = 7, which = device();
    ask(cuDeviceGet, df_or_null(&got), which);
    df_note("%d", got);
}

static void op_name(void)
{
    char name[300] = "";
    int rooms[] = {3, 1, 2, 5, 256, -1}; /* a device's driver crashes at 0 */
    int room = rooms[df_choice("room", 6)];
    CUdevice which = device();
    if (ask(cuDeviceGetName, name, room, which) == CUDA_SUCCESS && room < 4) {
        df_note("%zu", strlen(name));
    }
}

static void op_attribute(void)
{
    static const int attributes[] = {1,  2,  3,  4,  5,  6,   7,   8,   10,  12,  13,  16, 17, 18,   19,
                                     20, 31, 33, 34, 36, 37,  38,  39,  40,  41,  50,  75, 76, 78,   81,
                                     82, 91, 95, 97, 99, 102, 106, 114, 115, 120, 133, 0,  -1, 9999, 100000};
    int value = -7, attribute = attributes[df_below(sizeof(attributes) / sizeof(attributes[0]))];
    bool is_of_the_machine = attribute == 13 || attribute == 33 || attribute == 34 || attribute == 36 ||
                             attribute == 50 || attribute == 133;
    df_shape("a%d", attribute);
    CUdevice which = device();
    CUresult result = ask(cuDeviceGetAttribute, df_or_null(&value), (CUdevice_attribute)attribute, which);
    if (result == CUDA_SUCCESS && !is_of_the_machine) {
        df_note("%d", value);
    }
}

static void op_total(void)
{
    size_t bytes = 0;
    CUdevice which = device();
    ask(cuDeviceTotalMem, df_or_null(&bytes), which);
}

static void op_uuid(void)
{
    CUuuid uuid;
    CUdevice which = device();
    ask(cuDeviceGetUuid, df_or_null(&uuid), which);
}

static void op_primary(void)
{
    CUcontext context = NULL;
    CUdevice which = device();
    unsigned flags = 0;
    int active = 0;
    switch (df_choice("op", 3)) {
    case 0:
        if (ask(cuDevicePrimaryCtxRetain, &context, which) == CUDA_SUCCESS) {
            df_note("%c", df_context_letter(context));
            df_shape("d0");
            ask(cuDevicePrimaryCtxRelease, which);
        }
        break;
    case 1:
        if (which != 0 && which != 1) {
            ask(cuDevicePrimaryCtxRelease, which);
            break;
        }
        df_skip(DF_cuDevicePrimaryCtxRelease);
        break;
    default:
        if (ask(cuDevicePrimaryCtxGetState, which, df_or_null(&flags), df_or_null(&active)) == CUDA_SUCCESS) {
            df_note("%u.%d", flags, active);
        }
    }
}

static void op_context(void)
{
    CUcontext context = NULL, popped = NULL;
    CUdevice which = device();
    if (!w.has_other || !df_one_in(40)) { /* making one takes long on a device */
        ask(cuCtxDestroy, NULL);
        return;
    }
    unsigned flags = (unsigned)DF_PICK("flags", 0, 1, 2, 4, 8, 3, 0x100, 0xffff);
    if (ask(cuCtxCreate, df_or_null(&context), flags, which) != CUDA_SUCCESS || context == NULL) {
        return;
    }
    if (df_choice("pop", 2) == 0) {
        ask(cuCtxPopCurrent, &popped);
        df_note("%d", popped == context);
    }
    ask(cuCtxDestroy, context);
    ask(cuCtxGetCurrent, &popped);
    df_note("%c", df_context_letter(popped));
}

static void op_push(void)
{
    CUcontext context = df_context();
    ask(cuCtxPushCurrent, context);
}

static void op_pop(void)
{
    CUcontext popped = NULL;
    if (ask(cuCtxPopCurrent, df_or_null(&popped)) == CUDA_SUCCESS) {
        df_note("%c", df_context_letter(popped));
    }
}

static void op_set_current(void)
{
    CUcontext context = df_context();
    ask(cuCtxSetCurrent, context);
}

/* So that most calls have a context. */
static void op_set_primary(void)
{
    ask(cuCtxSetCurrent, w.primary);
}

static void op_get_current(void)
{
    CUcontext context = NULL;
    if (ask(cuCtxGetCurrent, df_or_null(&context)) == CUDA_SUCCESS) {
        df_note("%c", df_context_letter(context));
    }
}

static void op_get_device(void)
{
    CUdevice got = -7;
    ask(cuCtxGetDevice, df_or_null(&got));
    df_note("%d", got);
}

static void op_get_id(void)
{
    unsigned long long id = 0;
    CUcontext context = df_context();
    ask(cuCtxGetId, context, df_or_null(&id));
}

static void op_synchronize(void)
{
    if (ask_without(cuCtxSynchronize) == CUDA_SUCCESS) {
        df_look();
    }
}

static void op_priorities(void)
{
    int least = 9, greatest = 9;
    ask(cuCtxGetStreamPriorityRange, df_or_null(&least), df_or_null(&greatest));
    df_note("%d.%d", least, greatest);
}

static void op_peer(void)
{
    int value = -7;
    CUcontext peer = df_context();
    unsigned flags = (unsigned)DF_PICK("flags", 0, 0, 1);
    static const int attributes[] = {1, 2, 3, 4, 0, 5, -1};
    int attribute = attributes[df_choice("a", 7)];
    CUdevice one = device(), two = device();
    switch (df_choice("op", 4)) {
    case 0:
        df_enable_peer(peer, flags);
        break;
    case 1:
        df_disable_peer(peer);
        break;
    case 2:
        ask(cuDeviceCanAccessPeer, df_or_null(&value), one, two);
        df_note("%d", value);
        break;
    default:
        ask(cuDeviceGetP2PAttribute, df_or_null(&value), (CUdevice_P2PAttribute)attribute, one, two);
        df_note("%d", value);
    }
}

static void told(void *data, CUlogLevel level, char *message, size_t length)
{
    (void)data;
    (void)level;
    (void)message;
    (void)length;
}

static void op_logs(void)
{
    CUlogsCallbackHandle handle = NULL;
    bool has_callback = !df_one_in(8);
    df_shape("f%d", has_callback);
    if (ask(cuLogsRegisterCallback, has_callback ? told : NULL, NULL, &handle) == CUDA_SUCCESS &&
        handle != NULL) {
        ask(cuLogsUnregisterCallback, handle);
    }
}

const struct df_op df_ops_device[] = {
    {1, op_init},        {1, op_version},    {4, op_error_text}, {1, op_count},       {2, op_get},
    {2, op_name},        {8, op_attribute},  {1, op_total},      {1, op_uuid},        {3, op_primary},
    {1, op_context},     {4, op_push},       {5, op_pop},        {4, op_set_current}, {6, op_set_primary},
    {3, op_get_current}, {2, op_get_device}, {2, op_get_id},     {4, op_synchronize}, {1, op_priorities},
    {4, op_peer},        {1, op_logs},       {0, NULL}};
