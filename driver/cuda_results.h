/* SPDX-License-Identifier: MIT */
/* The CUDA results that Gantry tells apart, as a list; the enum is in driver/cuda_abi.h. */
#ifndef DRIVER_CUDA_RESULTS_H
#define DRIVER_CUDA_RESULTS_H

/* X(name without CUDA_, value, what it means) */
#define GY_CUDA_RESULTS(X)                                                                \
    X(SUCCESS, 0, "no error")                                                             \
    X(ERROR_INVALID_VALUE, 1, "an argument is out of range")                              \
    X(ERROR_OUT_OF_MEMORY, 2, "not enough memory")                                        \
    X(ERROR_NOT_INITIALIZED, 3, "cuInit was not called, or before a fork")                \
    X(ERROR_DEINITIALIZED, 4, "the driver is shutting down")                              \
    X(ERROR_STUB_LIBRARY, 34, "a stub library was loaded instead of the driver")          \
    X(ERROR_DEVICE_UNAVAILABLE, 46, "the device is busy or cannot be used now")           \
    X(ERROR_NO_DEVICE, 100, "there is no CUDA device")                                    \
    X(ERROR_INVALID_DEVICE, 101, "no such device")                                        \
    X(ERROR_DEVICE_NOT_LICENSED, 102, "the device lacks a licence")                       \
    X(ERROR_INVALID_IMAGE, 200, "the kernel image is damaged")                            \
    X(ERROR_INVALID_CONTEXT, 201, "no context is current, or it is not valid")            \
    X(ERROR_MAP_FAILED, 205, "mapping failed")                                            \
    X(ERROR_UNMAP_FAILED, 206, "unmapping failed")                                        \
    X(ERROR_ALREADY_MAPPED, 208, "it is mapped already")                                  \
    X(ERROR_NO_BINARY_FOR_GPU, 209, "the image has no code for this device")              \
    X(ERROR_NOT_MAPPED, 211, "it is not mapped")                                          \
    X(ERROR_ECC_UNCORRECTABLE, 214, "an uncorrectable memory error happened")             \
    X(ERROR_UNSUPPORTED_LIMIT, 215, "the device does not support this limit")             \
    X(ERROR_PEER_ACCESS_UNSUPPORTED, 217, "the device does not reach the other one")      \
    X(ERROR_INVALID_PTX, 218, "compiling the PTX failed")                                 \
    X(ERROR_NVLINK_UNCORRECTABLE, 220, "an uncorrectable NVLink error happened")          \
    X(ERROR_JIT_COMPILER_NOT_FOUND, 221, "the PTX compiler library is missing")           \
    X(ERROR_UNSUPPORTED_PTX_VERSION, 222, "the PTX is newer than the driver")             \
    X(ERROR_JIT_COMPILATION_DISABLED, 223, "compiling PTX is switched off")               \
    X(ERROR_CONTAINED, 226, "a contained memory error ended the process's GPU work")      \
    X(ERROR_INVALID_SOURCE, 300, "the kernel source is invalid")                          \
    X(ERROR_FILE_NOT_FOUND, 301, "file not found")                                        \
    X(ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, 302, "a symbol of a library is missing")      \
    X(ERROR_SHARED_OBJECT_INIT_FAILED, 303, "a library did not initialise")               \
    X(ERROR_OPERATING_SYSTEM, 304, "an operating system call failed")                     \
    X(ERROR_INVALID_HANDLE, 400, "the handle is not valid")                               \
    X(ERROR_ILLEGAL_STATE, 401, "the object's state forbids the call")                    \
    X(ERROR_NOT_FOUND, 500, "no such named symbol")                                       \
    X(ERROR_NOT_READY, 600, "earlier work is not done yet")                               \
    X(ERROR_ILLEGAL_ADDRESS, 700, "a kernel accessed memory it must not")                 \
    X(ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "the launch needs more than the device has")    \
    X(ERROR_LAUNCH_TIMEOUT, 702, "a kernel ran too long")                                 \
    X(ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, 703, "incompatible texturing mode")            \
    X(ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, "access to the context is enabled already") \
    X(ERROR_PEER_ACCESS_NOT_ENABLED, 705, "access to the context is not enabled")         \
    X(ERROR_PRIMARY_CONTEXT_ACTIVE, 708, "the primary context is in use")                 \
    X(ERROR_CONTEXT_IS_DESTROYED, 709, "the context was destroyed")                       \
    X(ERROR_ASSERT, 710, "an assertion in a kernel failed")                               \
    X(ERROR_TOO_MANY_PEERS, 711, "access to no more contexts is possible")                \
    X(ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712, "the memory is registered already")      \
    X(ERROR_HOST_MEMORY_NOT_REGISTERED, 713, "the memory is not registered")              \
    X(ERROR_HARDWARE_STACK_ERROR, 714, "a kernel's call stack is broken")                 \
    X(ERROR_ILLEGAL_INSTRUCTION, 715, "a kernel ran an illegal instruction")              \
    X(ERROR_MISALIGNED_ADDRESS, 716, "a kernel accessed a misaligned address")            \
    X(ERROR_INVALID_ADDRESS_SPACE, 717, "a kernel used the wrong address space")          \
    X(ERROR_INVALID_PC, 718, "a kernel's program counter left its code")                  \
    X(ERROR_LAUNCH_FAILED, 719, "a kernel ended with an exception")                       \
    X(ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720, "the cooperative grid does not fit")       \
    X(ERROR_TENSOR_MEMORY_LEAK, 721, "a kernel ended without freeing tensor memory")      \
    X(ERROR_NOT_PERMITTED, 800, "the call is not permitted here")                         \
    X(ERROR_NOT_SUPPORTED, 801, "driver or device does not support the call")             \
    X(ERROR_SYSTEM_NOT_READY, 802, "the system's drivers are not ready")                  \
    X(ERROR_SYSTEM_DRIVER_MISMATCH, 803, "display and CUDA driver do not fit")            \
    X(ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, "not allowed while a stream is captured")    \
    X(ERROR_STREAM_CAPTURE_INVALIDATED, 901, "an earlier error ended the capture")        \
    X(ERROR_STREAM_CAPTURE_MERGE, 902, "two captures would be merged")                    \
    X(ERROR_STREAM_CAPTURE_UNMATCHED, 903, "the capture did not begin on this stream")    \
    X(ERROR_STREAM_CAPTURE_UNJOINED, 904, "a stream forked in the capture is not joined") \
    X(ERROR_STREAM_CAPTURE_ISOLATION, 905, "a dependency would cross the capture's edge") \
    X(ERROR_STREAM_CAPTURE_IMPLICIT, 906, "implicit dependency on a capturing stream")    \
    X(ERROR_CAPTURED_EVENT, 907, "the event was recorded in a capture")                   \
    X(ERROR_STREAM_CAPTURE_WRONG_THREAD, 908, "the capture began on another thread")      \
    X(ERROR_TIMEOUT, 909, "the time is up")                                               \
    X(ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910, "the graph cannot be updated in place")       \
    X(ERROR_EXTERNAL_DEVICE, 911, "a device outside CUDA failed")                         \
    X(ERROR_INVALID_CLUSTER_SIZE, 912, "the cluster size is not possible")                \
    X(ERROR_FUNCTION_NOT_LOADED, 913, "the kernel is not loaded")                         \
    X(ERROR_INVALID_RESOURCE_TYPE, 914, "wrong type of device resource")                  \
    X(ERROR_INVALID_RESOURCE_CONFIGURATION, 915, "the device resources do not fit")       \
    X(ERROR_UNKNOWN, 999, "unknown error")

#endif
