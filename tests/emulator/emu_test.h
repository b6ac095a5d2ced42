/* SPDX-License-Identifier: MIT */
/* What the emulator's own tests share: the driver, its control interface, and a few kernels. */
#ifndef TESTS_EMULATOR_EMU_TEST_H
#define TESTS_EMULATOR_EMU_TEST_H

#include "driver/driver.h"
#include "emulator/gantry_emu.h"
#include "tests/support/cmocka_c11.h"

#include <stdatomic.h>

extern const struct gy_driver *cu;
extern struct gantry_emu_control emu;

/* Check that the call has this result. */
#define cu_is(expected, call) et_expect((expected), cu->call, #call, __FILE__, __LINE__)
#define cu_ok(call) cu_is(CUDA_SUCCESS, call)
void et_expect(CUresult expected, CUresult result, const char *call, const char *file, int line);

/* Make a context of the test's own and make it current.  Everything in it is destroyed with it, and the
 * control interface is reset. */
extern CUcontext et_context;
extern CUmodule et_module;
/* Load the kernels below into the current context. */
CUresult et_load(CUmodule *module);
int et_open(void **state);
int et_close(void **state);
#define ET_TEST(name) cmocka_unit_test_setup_teardown(name, et_open, et_close)

/* Kernels, as functions of et_module.
 *   add(data, count, value)   data[i] += value for one thread per word
 *   where(sms)                sms[block] = %smid
 *   trap(result)              ends with that result
 *   gate(gate)                runs until *gate is not 0 */
CUfunction et_function(const char *name);
CUresult et_add(CUstream stream, CUdeviceptr data, uint32_t count, uint32_t value);
CUresult et_trap(CUstream stream, int result);
CUresult et_gate(CUstream stream, atomic_uint *gate);

CUstream et_stream(void); /* non-blocking */
CUdeviceptr et_words(uint32_t count, uint32_t value);
uint32_t et_word(CUdeviceptr address);

#endif
