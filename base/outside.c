#include "base/outside.h"

_Thread_local const struct gy_inside *gy_inside_now GY_TLS_HOT;
