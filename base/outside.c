#include "base/outside.h"

_Thread_local unsigned char gy_place GY_TLS_HOT;
const struct gy_inside *_Atomic gy_inside_ops;
