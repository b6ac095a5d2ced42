/* SPDX-License-Identifier: MIT */
/**
 * @file surface.h
 * Images in kernels that are written in the dialect of <gantry/kernel.h>, in all its three forms.
 *
 *   gantry_surface                          an image, as gantry_shared_image_surface() gives it
 *   gantry_surface_read<T>(image, x, y)     the texel at column x of row y
 *   gantry_surface_write(image, value, x, y)
 *
 * T is as large as a texel, 1, 2, 4, 8 or 16 bytes, and trivially copyable: uint8_t for one channel of
 * GANTRY_IMAGE_U8, uint32_t or a struct of four bytes for four of them, float4 for four of GANTRY_IMAGE_F32.
 * Bits are read and written as they are, whatever the format.  Outside of the image 0 is read, and what is
 * written is dropped.  A kernel that reads what it has written itself may see the old value: images are
 * cached. */
#ifndef GANTRY_KERNEL_SURFACE_H
#define GANTRY_KERNEL_SURFACE_H

#include <stdint.h>

/** What a surface's number points to: where the rows of an image are, for kernels that the host runs. */
struct gantry_host_surface {
    unsigned char *bytes; /* of the first row */
    uint64_t pitch;       /* from one row to the next, in bytes */
    uint32_t row_bytes;   /* of a row that are the image's */
    uint32_t rows;
};

#ifdef __cplusplus

#include <gantry/kernel.h>

/** An image that kernels read and write, see gantry_shared_image_surface(). */
typedef unsigned long long gantry_surface;

#if GANTRY_KERNEL_FORM_DEVICE

template <int Bytes> struct gantry_texel;

#define GANTRY_TEXEL(bytes, type, letter, ptx)                                                           \
    template <> struct gantry_texel<bytes> {                                                             \
        type bits;                                                                                       \
        static __device__ __forceinline__ gantry_texel read(gantry_surface image, int x, int y)          \
        {                                                                                                \
            gantry_texel t;                                                                              \
            asm volatile("suld.b.2d." ptx ".zero %0, [%1, {%2, %3}];"                                    \
                         : "=" letter(t.bits)                                                            \
                         : "l"(image), "r"(x), "r"(y)                                                    \
                         : "memory");                                                                    \
            return t;                                                                                    \
        }                                                                                                \
        static __device__ __forceinline__ void write(gantry_surface image, gantry_texel t, int x, int y) \
        {                                                                                                \
            asm volatile("sust.b.2d." ptx ".zero [%0, {%1, %2}], %3;" ::"l"(image), "r"(x), "r"(y),      \
                         letter(t.bits)                                                                  \
                         : "memory");                                                                    \
        }                                                                                                \
    };
GANTRY_TEXEL(2, unsigned short, "h", "b16")
GANTRY_TEXEL(4, unsigned int, "r", "b32")
GANTRY_TEXEL(8, unsigned long long, "l", "b64")
#undef GANTRY_TEXEL

/* No register has 8 bits. */
template <> struct gantry_texel<1> {
    unsigned char bits;
    static __device__ __forceinline__ gantry_texel read(gantry_surface image, int x, int y)
    {
        unsigned short wide;
        asm volatile("suld.b.2d.b8.zero %0, [%1, {%2, %3}];"
                     : "=h"(wide)
                     : "l"(image), "r"(x), "r"(y)
                     : "memory");
        gantry_texel t;
        t.bits = (unsigned char)wide;
        return t;
    }
    static __device__ __forceinline__ void write(gantry_surface image, gantry_texel t, int x, int y)
    {
        unsigned short wide = t.bits;
        asm volatile("sust.b.2d.b8.zero [%0, {%1, %2}], %3;" ::"l"(image), "r"(x), "r"(y), "h"(wide)
                     : "memory");
    }
};

template <> struct gantry_texel<16> {
    uint4 bits;
    static __device__ __forceinline__ gantry_texel read(gantry_surface image, int x, int y)
    {
        gantry_texel t;
        asm volatile("suld.b.2d.v4.b32.zero {%0, %1, %2, %3}, [%4, {%5, %6}];"
                     : "=r"(t.bits.x), "=r"(t.bits.y), "=r"(t.bits.z), "=r"(t.bits.w)
                     : "l"(image), "r"(x), "r"(y)
                     : "memory");
        return t;
    }
    static __device__ __forceinline__ void write(gantry_surface image, gantry_texel t, int x, int y)
    {
        asm volatile("sust.b.2d.v4.b32.zero [%0, {%1, %2}], {%3, %4, %5, %6};" ::"l"(image), "r"(x), "r"(y),
                     "r"(t.bits.x), "r"(t.bits.y), "r"(t.bits.z), "r"(t.bits.w)
                     : "memory");
    }
};

/** The texel at column x of row y; 0 outside of the image. */
template <typename T>
static __device__ __forceinline__ T gantry_surface_read(gantry_surface image, uint32_t x, uint32_t y)
{
    gantry_texel<sizeof(T)> texel =
        gantry_texel<sizeof(T)>::read(image, (int)(x * (uint32_t)sizeof(T)), (int)y);
    T value;
    __builtin_memcpy(&value, &texel, sizeof(T));
    return value;
}

/** Write the texel at column x of row y; nothing outside of the image. */
template <typename T>
static __device__ __forceinline__ void gantry_surface_write(gantry_surface image, T value, uint32_t x,
                                                            uint32_t y)
{
    gantry_texel<sizeof(T)> texel;
    __builtin_memcpy(&texel, &value, sizeof(T));
    gantry_texel<sizeof(T)>::write(image, texel, (int)(x * (uint32_t)sizeof(T)), (int)y);
}

#else

/* The place of a texel; NULL: it is outside of the image. */
template <typename T>
GANTRY_KERNEL_FUNCTION unsigned char *gantry_texel(gantry_surface image, uint32_t x, uint32_t y)
{
    static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16,
                  "a texel has 1, 2, 4, 8 or 16 bytes");
    const struct gantry_host_surface *s = reinterpret_cast<const struct gantry_host_surface *>(image);
    const uint64_t first = (uint64_t)x * sizeof(T);
    return y < s->rows && first + sizeof(T) <= s->row_bytes ? s->bytes + y * s->pitch + first : nullptr;
}

/** The texel at column x of row y; 0 outside of the image. */
template <typename T>
GANTRY_KERNEL_FUNCTION T gantry_surface_read(gantry_surface image, uint32_t x, uint32_t y)
{
    T value{};
    const unsigned char *from = gantry_texel<T>(image, x, y);
    if (from != nullptr) {
        memcpy(static_cast<void *>(&value), from, sizeof(T));
    }
    return value;
}

/** Write the texel at column x of row y; nothing outside of the image. */
template <typename T>
GANTRY_KERNEL_FUNCTION void gantry_surface_write(gantry_surface image, T value, uint32_t x, uint32_t y)
{
    unsigned char *to = gantry_texel<T>(image, x, y);
    if (to != nullptr) {
        memcpy(to, static_cast<const void *>(&value), sizeof(T));
    }
}

#endif

#endif /* __cplusplus */
#endif
