/* Oblivious transfer extension by the processor's AES instructions: the rows of columns, and the hash of rows.

What is computed, bit for bit, is in columns.py and iknp.py, whose numpy code gives the same bytes. Time and addresses do
not depend on keys, rows and messages; one address depends on a receiver's choice, which picks one of two masked messages.

* Columns: 1024 rows at a time, eight blocks of AES-128 in counter mode under each of the 128 keys.
* Transpose: 16 x 16 bytes by interleaving, then the top bits of 16 bytes at a time.

For x86-64 with AES-NI. Elsewhere, and with TACIT_PORTABLE, `tacit_transfers` returns 0, and nothing else is there. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(TACIT_PORTABLE)
#include <immintrin.h>

#define COLUMNS 128
#define BLOCKS 8 /* of 128 rows, computed together */
#define ROWS (BLOCKS * 128)

#define INLINE static inline __attribute__((always_inline))
#define AESNI __attribute__((target("aes,sse2")))

typedef struct {
    __m128i round[11];
} schedule;

AESNI INLINE __m128i next_key(__m128i key, __m128i assist)
{
    for (int i = 0; i < 3; i++)
        key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    return _mm_xor_si128(key, _mm_shuffle_epi32(assist, 0xff));
}

AESNI static void expand_key(schedule *keys, const uint8_t *bytes)
{
    __m128i *round = keys->round;
    round[0] = _mm_loadu_si128((const __m128i *)bytes);
#define NEXT(i, constant) round[i] = next_key(round[i - 1], _mm_aeskeygenassist_si128(round[i - 1], constant))
    NEXT(1, 0x01);
    NEXT(2, 0x02);
    NEXT(3, 0x04);
    NEXT(4, 0x08);
    NEXT(5, 0x10);
    NEXT(6, 0x20);
    NEXT(7, 0x40);
    NEXT(8, 0x80);
    NEXT(9, 0x1b);
    NEXT(10, 0x36);
#undef NEXT
}

/* Eight blocks: as many as hide the latency of an instruction. */
AESNI INLINE void encrypt(const schedule *keys, __m128i block[8])
{
    for (int i = 0; i < 8; i++)
        block[i] = _mm_xor_si128(block[i], keys->round[0]);
    for (int r = 1; r < 10; r++) {
        const __m128i round = keys->round[r];
        for (int i = 0; i < 8; i++)
            block[i] = _mm_aesenc_si128(block[i], round);
    }
    for (int i = 0; i < 8; i++)
        block[i] = _mm_aesenclast_si128(block[i], keys->round[10]);
}

/* Blocks first, ..., first + 7 of each column: columns[8 c + i]. */
AESNI static void eight_blocks(__m128i *columns, const schedule *keys, uint64_t first)
{
    for (int c = 0; c < COLUMNS; c++) {
        __m128i block[8];
        for (int i = 0; i < 8; i++)
            block[i] = _mm_set_epi64x(0, (long long)(first + i));
        encrypt(keys + c, block);
        for (int i = 0; i < 8; i++)
            columns[8 * c + i] = block[i];
    }
}

/* One block of each column: columns[8 c]. */
AESNI static void one_block(__m128i *columns, const schedule *keys, uint64_t number)
{
    for (int c = 0; c < COLUMNS; c += 8) {
        __m128i block[8];
        for (int i = 0; i < 8; i++)
            block[i] = _mm_xor_si128(_mm_set_epi64x(0, (long long)number), keys[c + i].round[0]);
        for (int r = 1; r < 10; r++)
            for (int i = 0; i < 8; i++)
                block[i] = _mm_aesenc_si128(block[i], keys[c + i].round[r]);
        for (int i = 0; i < 8; i++)
            columns[8 * (c + i)] = _mm_aesenclast_si128(block[i], keys[c + i].round[10]);
    }
}

/* The 128 rows of a block: bit c of row o is bit o of columns[8 c]. */
AESNI static void transpose(uint8_t *rows, const __m128i *columns)
{
    for (int group = 0; group < 8; group++) {
        __m128i x[16], y[16];
        for (int j = 0; j < 16; j++)
            x[j] = columns[8 * (16 * group + j)];
        /* Four times: interleaving the first half with the second turns the places of bytes by one bit. */
        for (int stage = 0; stage < 4; stage++) {
            for (int j = 0; j < 8; j++) {
                y[2 * j] = _mm_unpacklo_epi8(x[j], x[j + 8]);
                y[2 * j + 1] = _mm_unpackhi_epi8(x[j], x[j + 8]);
            }
            memcpy(x, y, sizeof x);
        }
        for (int k = 0; k < 16; k++) { /* x[k]: byte k of 16 columns, for rows 8 k to 8 k + 7 */
            __m128i bytes = x[k];
            for (int bit = 7; bit >= 0; bit--) {
                const uint16_t top = (uint16_t)_mm_movemask_epi8(bytes);
                memcpy(rows + 16 * (8 * k + bit) + 2 * group, &top, 2);
                bytes = _mm_add_epi8(bytes, bytes);
            }
        }
    }
}

/* The key schedules of all columns, each of 16 bytes. */
AESNI static void expand_keys(schedule *keys, const uint8_t *bytes)
{
    for (int c = 0; c < COLUMNS; c++)
        expand_key(keys + c, bytes + 16 * c);
}

/* The hash: see `tacit_pads`. */
AESNI static void pads(const schedule *pi, uint64_t use, const uint8_t *rows, const uint8_t *shift,
                               uint64_t first, size_t count, size_t size, const uint8_t *in, size_t in_stride,
                               const uint8_t *choices, uint8_t *out, size_t out_stride)
{
    const __m128i apart = shift ? _mm_loadu_si128((const __m128i *)shift) : _mm_setzero_si128();
    for (size_t row = 0; row < count; row += 8) {
        const size_t here = count - row < 8 ? count - row : 8;
        __m128i inner[8];
        for (size_t i = 0; i < 8; i++) {
            const __m128i one = _mm_loadu_si128((const __m128i *)(rows + 16 * (row + (i < here ? i : 0))));
            inner[i] = _mm_xor_si128(one, apart);
        }
        encrypt(pi, inner);
        for (size_t i = 0; i < 8; i++)
            inner[i] = _mm_xor_si128(inner[i], _mm_set_epi64x(0, (long long)(first + row + i)));
        for (size_t at = 0; at < size; at += 16) {
            const __m128i tweak = _mm_set_epi64x((long long)(use << 32 | at / 16), 0);
            const size_t left = size - at < 16 ? size - at : 16;
            __m128i block[8];
            for (size_t i = 0; i < 8; i++)
                block[i] = _mm_xor_si128(inner[i], tweak);
            encrypt(pi, block);
            for (size_t i = 0; i < here; i++) {
                const uint8_t *from = in ? in + (row + i) * in_stride + (choices && choices[row + i] ? size : 0) + at : NULL;
                uint8_t *to = out + (row + i) * out_stride + at;
                __m128i pad = _mm_xor_si128(block[i], _mm_xor_si128(inner[i], tweak));
                if (left == 16) {
                    if (from)
                        pad = _mm_xor_si128(pad, _mm_loadu_si128((const __m128i *)from));
                    _mm_storeu_si128((__m128i *)to, pad);
                } else {
                    uint8_t bytes[16];
                    _mm_storeu_si128((__m128i *)bytes, pad);
                    for (size_t k = 0; k < left; k++)
                        to[k] = (uint8_t)(from ? from[k] ^ bytes[k] : bytes[k]);
                }
            }
        }
    }
}

/* Overwrites what is secret, which the compiler must not leave out. */
static void forget(void *memory, size_t size)
{
    memset(memory, 0, size);
    __asm__ __volatile__("" : : "r"(memory) : "memory");
}

/* Bit o, for `from` <= o < `to`, is 1 if bytes[o - from] is not 0; the others are 0. */
AESNI static __m128i packed(const uint8_t *bytes, size_t from, size_t to)
{
    uint8_t all[128] = {0};
    uint16_t bits[8];
    memcpy(all + from, bytes, to - from);
    for (int i = 0; i < 8; i++) {
        const __m128i sixteen = _mm_loadu_si128((const __m128i *)(all + 16 * i));
        bits[i] = (uint16_t)~_mm_movemask_epi8(_mm_cmpeq_epi8(sixteen, _mm_setzero_si128()));
    }
    return _mm_loadu_si128((const __m128i *)bits);
}

/* The rows first, ..., first + count - 1 of the columns of `zero`, to `rows`. With `one`, their sum with those of `one`
   and, in all places, the choice of each row, goes to `sums`. With `sent`, the bits of each of its rows that are set in
   `select` are added to `rows`. */
AESNI static int fill_rows(const uint8_t *zero, const uint8_t *one, uint64_t first, size_t count,
                            const uint8_t *choices, const uint8_t *sent, const uint8_t *select, uint8_t *rows,
                            uint8_t *sums)
{
    if (!count)
        return 1;
    schedule keys[2][COLUMNS];
    __m128i columns[2][COLUMNS * BLOCKS];
    __m128i part[128];
    const __m128i chosen = select ? _mm_loadu_si128((const __m128i *)select) : _mm_setzero_si128();
    expand_keys(keys[0], zero);
    if (one)
        expand_keys(keys[1], one);
    const uint64_t last = first + count;
    for (uint64_t begin = first / 128; begin * 128 < last;) {
        const uint64_t blocks_left = (last - begin * 128 + 127) / 128;
        const int here = blocks_left >= BLOCKS ? BLOCKS : 1;
        for (int k = 0; k < (one ? 2 : 1); k++)
            if (here == BLOCKS)
                eight_blocks(columns[k], keys[k], begin);
            else
                one_block(columns[k], keys[k], begin);
        for (int i = 0; i < here; i++, begin++) {
            const uint64_t start = begin * 128;
            const size_t skipped = start < first ? (size_t)(first - start) : 0;
            const size_t end = last - start < 128 ? (size_t)(last - start) : 128;
            const size_t place = (size_t)(start + skipped - first); /* of the first of these rows */
            if (one) {
                const __m128i x = packed(choices + place, skipped, end);
                for (int c = 0; c < COLUMNS; c++) {
                    __m128i *other = &columns[1][BLOCKS * c + i];
                    *other = _mm_xor_si128(_mm_xor_si128(*other, x), columns[0][BLOCKS * c + i]);
                }
                transpose((uint8_t *)part, columns[1] + i);
                memcpy(sums + 16 * place, part + skipped, 16 * (end - skipped));
            }
            transpose((uint8_t *)part, columns[0] + i);
            if (!sent) {
                memcpy(rows + 16 * place, part + skipped, 16 * (end - skipped));
                continue;
            }
            for (size_t o = skipped; o < end; o++) {
                const size_t at = 16 * (place + o - skipped);
                const __m128i theirs = _mm_loadu_si128((const __m128i *)(sent + at));
                _mm_storeu_si128((__m128i *)(rows + at), _mm_xor_si128(part[o], _mm_and_si128(theirs, chosen)));
            }
        }
    }
    forget(keys, sizeof keys);
    forget(columns, sizeof columns);
    forget(part, sizeof part);
    return 1;
}

/* 1 if this processor has what the functions below need, else 0. */
int tacit_transfers(void)
{
    return __builtin_cpu_supports("aes") ? 1 : 0;
}

/* The rows first, ..., first + count - 1 of the columns under 128 keys of 16 bytes: 16 bytes each, to `rows`. With a
   message `sent` of as many rows, those of its bits that are set in the 16 bytes of `select` are added. */
int tacit_rows(const uint8_t *keys, uint64_t first, size_t count, const uint8_t *sent, const uint8_t *select,
               uint8_t *rows)
{
    return fill_rows(keys, NULL, first, count, NULL, sent, select, rows, NULL);
}

/* The same for two sets of keys: the rows of `zero`, and to `sums` both added up, with all bits of a row turned where
   its choice, a byte, is not 0. */
int tacit_extend(const uint8_t *zero, const uint8_t *one, uint64_t first, size_t count,
                 const uint8_t *choices, uint8_t *rows, uint8_t *sums)
{
    return fill_rows(zero, one, first, count, choices, NULL, NULL, rows, sums);
}

/* The pads of `size` bytes of `count` rows, the first being transfer `first`; `shift`, 16 bytes, is added to each row
   unless NULL. Pad k is added to what is at in + k in_stride, unless NULL, and written to out + k out_stride. With
   `choices`, a byte for each row, it is added to what lies `size` bytes further on where that is not 0. */
AESNI int tacit_pads(const uint8_t *key, uint64_t use, const uint8_t *rows, const uint8_t *shift, uint64_t first,
               size_t count, size_t size, const uint8_t *in, size_t in_stride, const uint8_t *choices, uint8_t *out,
               size_t out_stride)
{
    schedule pi; /* of a public key */
    expand_key(&pi, key);
    pads(&pi, use, rows, shift, first, count, size, in, in_stride, choices, out, out_stride);
    return 1;
}

#else
int tacit_transfers(void) { return 0; }
#endif

/* Its functions are called by ctypes. Where Python's headers are, it is an empty module besides, which can be imported. */
#ifdef __has_include
#if __has_include(<Python.h>)
#include <Python.h>

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_transfers", NULL, 0, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__transfers(void)
{
    return PyModule_Create(&module);
}
#endif
#endif
