#include "dispatcher/loop/current.h"

_Thread_local struct gantry_dispatcher *gy_gd_current __attribute__((tls_model("initial-exec")));
_Thread_local bool gy_is_completion_thread;
_Thread_local struct gy_gpu_guest *gy_guest_current;
