/* Modular powers and products of eight numbers at a time, by the 52-bit multiplications of AVX-512 IFMA.

A number is a row of 52-bit digits, lowest first; eight numbers lie side by side, digit by digit, in 512-bit registers.
One step of Montgomery's multiplication, for a digit b of one factor (Montgomery 1985; digits as in S. Gueron,
V. Krasnov, "Software implementation of modular exponentiation, using advanced vector instructions", WAIFI 2012):

    acc  =  (acc + a b + m q) / 2^52        q = -(acc + a b) / m mod 2^52

With a factor of d digits the product is a b / 2^(52 d) mod m, below 2 m as long as b < 2^(52 d - 2) and m < 2^(52 l - 2)
for m of l digits: so a short factor costs a short reduction, and results need not be reduced between steps. A sum in
acc has at most 4 (d + l) terms below 2^52, and fits 64 bits up to l = d = 512.

Not protected against who can measure time or cache, like all big-number arithmetic of Tacit. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 5
#define MOST_DIGITS 256

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define LANES __attribute__((target("avx512f,avx512ifma")))

typedef __m512i lane;
static const uint64_t MASK = ((uint64_t)1 << 52) - 1;

typedef struct {
    int l;                       /* digits of m */
    uint64_t inverse;            /* -1 / m mod 2^52 */
    uint64_t digits[MOST_DIGITS];
} modulus;

/* The first `count` 52-bit digits of `size` bytes, lowest first. */
static void digits_of(uint64_t *digits, int count, const uint8_t *bytes, int size)
{
    for (int i = 0; i < count; i++) {
        uint64_t value = 0;
        int first = 52 * i / 8, shift = 52 * i % 8;
        for (int k = 0; k < 8; k++)
            if (first + k < size)
                value |= (uint64_t)bytes[first + k] << (8 * k);
        digits[i] = value >> shift & MASK;
    }
}

static void bytes_of(uint8_t *bytes, int size, const uint64_t *digits, int count)
{
    memset(bytes, 0, size);
    for (int i = 0; i < count; i++)
        for (int bit = 0; bit < 52; bit += 4) {
            int at = 52 * i + bit;
            if (at / 8 < size)
                bytes[at / 8] |= (uint8_t)((digits[i] >> bit & 15) << at % 8);
        }
}

static int modulus_of(modulus *m, const uint8_t *bytes, int size)
{
    m->l = (8 * size + 2 + 51) / 52;
    if (m->l > MOST_DIGITS || !(bytes[0] & 1))
        return 0;
    digits_of(m->digits, m->l, bytes, size);
    uint64_t inverse = 1;
    for (int i = 0; i < 6; i++) /* Newton's iteration: each doubles the number of right bits */
        inverse *= 2 - m->digits[0] * inverse;
    m->inverse = -inverse & MASK;
    return 1;
}

/* out = a b / 2^(52 d) mod m, below 2 m; digit i of the eight b is at b + 8 i if they lie side by side (`table` is
   NULL), else at table + at[lane] + i. out may be a. */
LANES static void multiply(lane *out, const lane *a, const lane *b, const uint64_t *table, lane at, int d,
                           const modulus *m)
{
    lane sums[2 * MOST_DIGITS + 1];
    const int l = m->l;
    const lane zero = _mm512_setzero_si512(), inverse = _mm512_set1_epi64((long long)m->inverse);
    const lane mask = _mm512_set1_epi64((long long)MASK);
    for (int j = 0; j <= l + d; j++)
        sums[j] = zero;
    for (int i = 0; i < d; i++) {
        lane *acc = sums + i;
        const lane digit = table ? _mm512_i64gather_epi64(at, table + i, 8) : b[i];
        lane low = _mm512_madd52lo_epu64(acc[0], a[0], digit);
        const lane q = _mm512_madd52lo_epu64(zero, low, inverse);
        lane a_j = a[0], m_j = _mm512_set1_epi64((long long)m->digits[0]);
        low = _mm512_madd52lo_epu64(low, m_j, q);
        lane carry = _mm512_srli_epi64(low, 52);
        for (int j = 1; j < l; j++) {
            lane left = _mm512_madd52hi_epu64(acc[j], a_j, digit), right = _mm512_madd52hi_epu64(carry, m_j, q);
            carry = zero;
            a_j = a[j];
            m_j = _mm512_set1_epi64((long long)m->digits[j]);
            left = _mm512_madd52lo_epu64(left, a_j, digit);
            right = _mm512_madd52lo_epu64(right, m_j, q);
            acc[j] = _mm512_add_epi64(left, right);
        }
        acc[l] = _mm512_add_epi64(_mm512_madd52hi_epu64(acc[l], a_j, digit), _mm512_madd52hi_epu64(carry, m_j, q));
    }
    lane carry = zero;
    for (int j = 0; j < l; j++) {
        const lane sum = _mm512_add_epi64(sums[d + j], carry);
        out[j] = _mm512_and_si512(sum, mask);
        carry = _mm512_srli_epi64(sum, 52);
    }
}

LANES static void load(lane *to, int l, const uint8_t *numbers, int count, int size)
{
    uint64_t digits[MOST_DIGITS], *words = (uint64_t *)to;
    memset(to, 0, (size_t)l * sizeof(lane));
    for (int k = 0; k < count; k++) {
        digits_of(digits, l, numbers + (size_t)k * size, size);
        for (int i = 0; i < l; i++)
            words[8 * i + k] = digits[i];
    }
}

LANES static void store(uint8_t *numbers, int count, int size, const lane *from, int l)
{
    uint64_t digits[MOST_DIGITS];
    const uint64_t *words = (const uint64_t *)from;
    for (int k = 0; k < count; k++) {
        for (int i = 0; i < l; i++)
            digits[i] = words[8 * i + k];
        bytes_of(numbers + (size_t)k * size, size, digits, l);
    }
}

static int bits_at(const uint8_t *exponent, long at, int width)
{
    int found = 0;
    for (int k = width - 1; k >= 0; k--)
        found = 2 * found + (exponent[(at + k) / 8] >> (at + k) % 8 & 1);
    return found;
}

LANES static int powers(const uint8_t *bases, int count, const uint8_t *one, const uint8_t *square, const modulus *m,
                        int size, const uint8_t *exponent, long bits, uint8_t *out, int out_size)
{
    const int l = m->l;
    const lane none = _mm512_setzero_si512();
    lane *table = aligned_alloc(64, sizeof(lane) * l * ((1 << WINDOW) + 2));
    if (!table)
        return 0;
    lane *result = table + (l << WINDOW), *factor = result + l;
    uint64_t digits[MOST_DIGITS];
    for (int first = 0; first < count; first += 8) {
        const int here = count - first < 8 ? count - first : 8;
        digits_of(digits, l, one, size);
        for (int i = 0; i < l; i++)
            table[i] = _mm512_set1_epi64((long long)digits[i]);
        digits_of(digits, l, square, size);
        for (int i = 0; i < l; i++)
            factor[i] = _mm512_set1_epi64((long long)digits[i]);
        load(result, l, bases + (size_t)first * size, here, size);
        multiply(table + l, result, factor, NULL, none, l, m);
        for (int k = 2; k < 1 << WINDOW; k++)
            multiply(table + k * l, table + (k - 1) * l, table + l, NULL, none, l, m);
        long at = (bits - 1) / WINDOW * WINDOW;
        memcpy(result, table + l * bits_at(exponent, at, (int)(bits - at)), sizeof(lane) * l);
        while ((at -= WINDOW) >= 0) {
            for (int k = 0; k < WINDOW; k++)
                multiply(result, result, result, NULL, none, l, m);
            const int digit = bits_at(exponent, at, WINDOW);
            if (digit)
                multiply(result, result, table + l * digit, NULL, none, l, m);
        }
        for (int i = 0; i < l; i++)
            factor[i] = none;
        factor[0] = _mm512_set1_epi64(1);
        multiply(result, result, factor, NULL, none, l, m);
        store(out + (size_t)first * out_size, here, out_size, result, l);
    }
    memset(table, 0, sizeof(lane) * l * ((1 << WINDOW) + 2));
    free(table);
    return 1;
}

LANES static int products(const uint8_t *entries, int number, int entry_size, const int32_t *indices, int rows,
                          int columns, int blocks, const modulus *m, uint8_t *out, int out_size)
{
    const int l = m->l, d = (8 * entry_size + 2 + 51) / 52;
    uint64_t *table = malloc(sizeof(uint64_t) * ((size_t)number * d + 1));
    lane *result = aligned_alloc(64, sizeof(lane) * l);
    if (!table || !result || d > MOST_DIGITS) {
        free(table);
        free(result);
        return 0;
    }
    for (int k = 0; k < number; k++)
        digits_of(table + (size_t)k * d, d, entries + (size_t)k * entry_size, entry_size);
    for (int first = 0; first < rows; first += 8) {
        const int here = rows - first < 8 ? rows - first : 8;
        for (int i = 0; i < l; i++)
            result[i] = _mm512_setzero_si512();
        result[0] = _mm512_set1_epi64(1);
        for (int column = 0; column < columns; column++) {
            if (column)
                multiply(result, result, result, NULL, _mm512_setzero_si512(), l, m);
            for (int block = 0; block < blocks; block++) {
                long long at[8];
                for (int k = 0; k < 8; k++) {
                    const size_t row = first + (k < here ? k : 0);
                    at[k] = (long long)indices[(row * columns + column) * blocks + block] * d;
                }
                multiply(result, result, NULL, table, _mm512_loadu_si512(at), d, m);
            }
        }
        store(out + (size_t)first * out_size, here, out_size, result, l);
    }
    free(table);
    free(result);
    return 1;
}

int tacit_eightfold(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512ifma");
}

/* bases[k]^exponent mod m, below 2 m, for `count` numbers of `size` bytes; one = 2^(52 l) mod m and square = its square.
   Returns 0 where that is not possible. */
int tacit_powers(const uint8_t *bases, int count, const uint8_t *one, const uint8_t *square, const uint8_t *modulo,
                 int size, const uint8_t *exponent, long bits, uint8_t *out, int out_size)
{
    modulus m;
    return bits > 0 && modulus_of(&m, modulo, size) &&
           powers(bases, count, one, square, &m, size, exponent, bits, out, out_size);
}

/* For each row, through its columns: square the result, then multiply it by the entry at each of its indices. Each
   multiplication divides by 2^(52 d) mod m, d digits of an entry, each squaring by 2^(52 l). Results are below 2 m. */
int tacit_products(const uint8_t *entries, int number, int entry_size, const int32_t *indices, int rows, int columns,
                   int blocks, const uint8_t *modulo, int size, uint8_t *out, int out_size)
{
    modulus m;
    return modulus_of(&m, modulo, size) &&
           products(entries, number, entry_size, indices, rows, columns, blocks, &m, out, out_size);
}

#else
int tacit_eightfold(void) { return 0; }
#endif
