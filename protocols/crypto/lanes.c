/* Sums and packed fields of integers in lanes of 8, 16 or 32 bits, which wrap: see fields.py and ot_hamming.py, whose
numpy code gives the same numbers. Plain C for any processor. Times and addresses do not depend on the numbers. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Steps are in bytes. A matrix begins on a multiple of its lanes' bytes, and rows of lanes have no gaps. */
#define ROW(type, start, step, i) ((type *)((char *)(start) + (step) * (ptrdiff_t)(i)))

#define FUNCTIONS(type)                                                                                                 \
    static void pack_##type(const char *values, ptrdiff_t group_step, ptrdiff_t row_step, size_t groups, size_t n,      \
                            int width, char *words, ptrdiff_t words_step, ptrdiff_t word_step)                         \
    {                                                                                                                  \
        const int bits = 8 * (int)sizeof(type);                                                                        \
        const type mask = (type)((type)~(type)0 >> (bits - width));                                                    \
        for (size_t g = 0; g < groups; g++) {                                                                          \
            char *out = words + words_step * (ptrdiff_t)g;                                                             \
            const char *in = values + group_step * (ptrdiff_t)g;                                                       \
            for (int row = 0; row < bits; row++) {                                                                     \
                const int word = row * width / bits, shift = row * width % bits;                                       \
                const type *restrict from = ROW(const type, in, row_step, row);                                        \
                type *restrict to = ROW(type, out, word_step, word);                                                   \
                if (shift == 0)                                                                                        \
                    for (size_t i = 0; i < n; i++)                                                                     \
                        to[i] = from[i] & mask;                                                                        \
                else                                                                                                   \
                    for (size_t i = 0; i < n; i++)                                                                     \
                        to[i] |= (type)((type)(from[i] & mask) << shift);                                              \
                if (shift + width > bits) {                                                                            \
                    type *restrict next = ROW(type, out, word_step, word + 1);                                         \
                    for (size_t i = 0; i < n; i++)                                                                     \
                        next[i] = (type)((type)(from[i] & mask) >> (bits - shift));                                    \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static void unpack_##type(const char *words, ptrdiff_t words_step, ptrdiff_t word_step, size_t groups, size_t n,    \
                              int width, char *values, ptrdiff_t group_step, ptrdiff_t row_step)                       \
    {                                                                                                                  \
        const int bits = 8 * (int)sizeof(type);                                                                        \
        const type mask = (type)((type)~(type)0 >> (bits - width));                                                    \
        for (size_t g = 0; g < groups; g++) {                                                                          \
            const char *in = words + words_step * (ptrdiff_t)g;                                                        \
            char *out = values + group_step * (ptrdiff_t)g;                                                            \
            for (int row = 0; row < bits; row++) {                                                                     \
                const int word = row * width / bits, shift = row * width % bits;                                       \
                const type *restrict from = ROW(const type, in, word_step, word);                                      \
                type *restrict to = ROW(type, out, row_step, row);                                                     \
                if (shift + width <= bits)                                                                             \
                    for (size_t i = 0; i < n; i++)                                                                     \
                        to[i] = (type)(from[i] >> shift) & mask;                                                       \
                else {                                                                                                 \
                    const type *restrict next = ROW(const type, in, word_step, word + 1);                              \
                    for (size_t i = 0; i < n; i++)                                                                     \
                        to[i] = (type)((type)(from[i] >> shift) | (type)(next[i] << (bits - shift))) & mask;           \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static void correct_##type(const char *zero, char *one, ptrdiff_t vector_step, ptrdiff_t row_step,                  \
                               const uint8_t *bits, size_t vectors, size_t rows, size_t n, type *sums)                 \
    {                                                                                                                  \
        for (size_t v = 0; v < vectors; v++)                                                                           \
            for (size_t row = 0; row < rows; row++) {                                                                  \
                const ptrdiff_t place = vector_step * (ptrdiff_t)v;                                                    \
                const type *restrict first = ROW(const type, zero + place, row_step, row);                             \
                type *restrict second = ROW(type, one + place, row_step, row);                                         \
                const uint8_t *restrict bit = bits + row * n;                                                          \
                type *restrict sum = sums + v * n;                                                                     \
                for (size_t i = 0; i < n; i++) {                                                                       \
                    const type b = bit[i];                                                                             \
                    sum[i] += (type)(first[i] - b);                                                                    \
                    second[i] = (type)(first[i] - second[i] + 1 - 2 * b);                                              \
                }                                                                                                      \
            }                                                                                                          \
    }                                                                                                                  \
                                                                                                                       \
    static void add_##type(const char *pads, ptrdiff_t vector_step, ptrdiff_t row_step, const type *more,               \
                           const uint8_t *choices, ptrdiff_t choices_step, size_t vectors, size_t rows, size_t n,      \
                           type *sums)                                                                                 \
    {                                                                                                                  \
        for (size_t v = 0; v < vectors; v++)                                                                           \
            for (size_t row = 0; row < rows; row++) {                                                                  \
                const type *restrict pad = ROW(const type, pads + vector_step * (ptrdiff_t)v, row_step, row);          \
                const type *restrict other = more + (v * rows + row) * n;                                              \
                const type chosen = (type)(0 - (choices[choices_step * (ptrdiff_t)v + (ptrdiff_t)row] & 1));           \
                type *restrict sum = sums + v * n;                                                                     \
                for (size_t i = 0; i < n; i++)                                                                         \
                    sum[i] += (type)(pad[i] + (other[i] & chosen));                                                    \
            }                                                                                                          \
    }

FUNCTIONS(uint8_t)
FUNCTIONS(uint16_t)
FUNCTIONS(uint32_t)

/* Calls the function for lanes of `bytes` bytes. Returns 0 for other lanes than those of 1, 2 or 4 bytes. */
#define CALL(name, ...)                                                                                                \
    switch (bytes) {                                                                                                   \
    case 1: name##_uint8_t(__VA_ARGS__); return 1;                                                                     \
    case 2: name##_uint16_t(__VA_ARGS__); return 1;                                                                    \
    case 4: name##_uint32_t(__VA_ARGS__); return 1;                                                                    \
    default: return 0;                                                                                                 \
    }

/* Packs groups of as many rows of values as a lane has bits into `width` rows of words. */
int tacit_pack(int bytes, const char *values, ptrdiff_t group_step, ptrdiff_t row_step, size_t groups, size_t n, int width,
               char *words, ptrdiff_t words_step, ptrdiff_t word_step)
{
    CALL(pack, values, group_step, row_step, groups, n, width, words, words_step, word_step)
}

/* The inverse of `tacit_pack`. */
int tacit_unpack(int bytes, const char *words, ptrdiff_t words_step, ptrdiff_t word_step, size_t groups, size_t n,
                 int width, char *values, ptrdiff_t group_step, ptrdiff_t row_step)
{
    CALL(unpack, words, words_step, word_step, groups, n, width, values, group_step, row_step)
}

/* For pads K0 in `zero` and K1 in `one`, and bits b, 0 or 1, of `rows` rows for every vector: adds the K0 - b of all rows
   to the sums of each vector, and replaces K1 by K0 - K1 + 1 - 2 b. */
int tacit_correct(int bytes, const char *zero, char *one, ptrdiff_t vector_step, ptrdiff_t row_step, const uint8_t *bits,
                  size_t vectors, size_t rows, size_t n, void *sums)
{
    CALL(correct, zero, one, vector_step, row_step, bits, vectors, rows, n, sums)
}

/* Adds all rows of pads, and those of `more` whose choice is 1, not 0, to the sums of each vector. */
int tacit_add(int bytes, const char *pads, ptrdiff_t vector_step, ptrdiff_t row_step, const void *more,
              const uint8_t *choices, ptrdiff_t choices_step, size_t vectors, size_t rows, size_t n, void *sums)
{
    CALL(add, pads, vector_step, row_step, more, choices, choices_step, vectors, rows, n, sums)
}

/* Fields, one after another, lowest bit first. */

#define FEW(type)                                                                                                       \
    static int packed_##type(const char *values, size_t count, int width, uint8_t *out)                                \
    {                                                                                                                  \
        uint64_t held = 0, every = 0;                                                                                  \
        int bits = 0;                                                                                                  \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const uint64_t value = ((const type *)values)[i];                                                          \
            every |= value;                                                                                            \
            held |= value << bits;                                                                                     \
            for (bits += width; bits >= 8; bits -= 8, held >>= 8)                                                      \
                *out++ = (uint8_t)held;                                                                                \
        }                                                                                                              \
        if (bits)                                                                                                      \
            *out = (uint8_t)held;                                                                                      \
        return every >> width == 0;                                                                                    \
    }                                                                                                                  \
                                                                                                                       \
    static void unpacked_##type(const uint8_t *data, size_t count, int width, char *values)                            \
    {                                                                                                                  \
        const uint64_t mask = ((uint64_t)1 << width) - 1;                                                              \
        uint64_t held = 0;                                                                                             \
        int bits = 0;                                                                                                  \
        for (size_t i = 0; i < count; i++) {                                                                           \
            for (; bits < width; bits += 8)                                                                            \
                held |= (uint64_t)*data++ << bits;                                                                     \
            ((type *)values)[i] = (type)(held & mask);                                                                 \
            held >>= width, bits -= width;                                                                             \
        }                                                                                                              \
    }

FEW(uint8_t)
FEW(uint16_t)
FEW(uint32_t)
FEW(uint64_t)

/* Packs `count` numbers of `bytes` bytes into fields of `width` bits, at most 32. Returns 1, 0 if a number does not fit into
   its field, and -1 for numbers of other sizes. */
int tacit_pack_few(int bytes, const char *values, size_t count, int width, uint8_t *out)
{
    switch (bytes) {
    case 1: return packed_uint8_t(values, count, width, out);
    case 2: return packed_uint16_t(values, count, width, out);
    case 4: return packed_uint32_t(values, count, width, out);
    case 8: return packed_uint64_t(values, count, width, out);
    default: return -1;
    }
}

/* The inverse. The numbers must have room for a field. Returns 0 for numbers of other sizes. */
int tacit_unpack_few(int bytes, const uint8_t *data, size_t count, int width, char *values)
{
    switch (bytes) {
    case 1: unpacked_uint8_t(data, count, width, values); return 1;
    case 2: unpacked_uint16_t(data, count, width, values); return 1;
    case 4: unpacked_uint32_t(data, count, width, values); return 1;
    case 8: unpacked_uint64_t(data, count, width, values); return 1;
    default: return 0;
    }
}

/* The inverse for blocks of fields: block i has `counts[i]` of them and begins with a byte of its own, and its numbers follow
   those of block i - 1. */
int tacit_unpack_blocks(int bytes, const uint8_t *data, const int64_t *counts, size_t blocks, int width, char *values)
{
    for (size_t i = 0; i < blocks; i++) {
        const size_t count = (size_t)counts[i];
        if (!tacit_unpack_few(bytes, data, count, width, values))
            return 0;
        data += (count * (size_t)width + 7) / 8;
        values += count * (size_t)bytes;
    }
    return 1;
}

/* Its functions are called by ctypes. Where Python's headers are, it is an empty module besides, which can be imported. */
#ifdef __has_include
#if __has_include(<Python.h>)
#include <Python.h>

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_lanes", NULL, 0, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__lanes(void)
{
    return PyModule_Create(&module);
}
#endif
#endif
