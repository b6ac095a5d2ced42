/* SPDX-License-Identifier: MIT */
#include "base/outside.h"

const struct gy_inside *_Atomic gy_inside_ops;
