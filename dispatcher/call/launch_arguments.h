/* SPDX-License-Identifier: MIT */
/* Do the arguments of a launch fit the kernel's parameters?  GANTRY_CHECK=arguments. */
#ifndef DISPATCHER_CALL_LAUNCH_ARGUMENTS_H
#define DISPATCHER_CALL_LAUNCH_ARGUMENTS_H

#include "base/checking.h"
#include "driver/module.h"

/* What a call says of its arguments. */
struct gy_launch_arguments {
    void *const *values;   /* pointers to them */
    const uint32_t *bytes; /* their sizes; NULL: the call does not say them, nor how many they are */
    uint32_t count;
};

/* In launch scope; `what` is the name of the call.  A kernel that is NULL is for the call to refuse.
 * @retval GANTRY_OK                    they fit, as far as anybody can tell: a driver older than CUDA 12.4
 *                                      does not say what the parameters are
 * @retval GANTRY_ERR_INVALID_ARGUMENT  the message names the kernel, the argument, and both sizes
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_DRIVER */
GANTRY_MUST_CHECK GY_COLD gantry_status gy_launch_check_arguments(const char *what, gantry_kernel *kernel,
                                                                  const struct gy_launch_arguments *given);

/* The same, for a call that passes its `args` on; OK when the check is off. */
GANTRY_MUST_CHECK static inline gantry_status gy_launch_check_args(const char *what, gantry_kernel *kernel,
                                                                   void *const *args)
{
    if (!gy_check_is_on(GY_CHECK_ARGUMENTS)) {
        return GANTRY_OK;
    }
    const struct gy_launch_arguments given = {args, NULL, 0};
    return gy_launch_check_arguments(what, kernel, &given);
}

#endif
