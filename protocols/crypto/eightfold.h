/* Modular multiplications of eight numbers at a time, by the 52-bit ones of AVX-512 IFMA.

A number is a row of 52-bit digits, lowest first; eight numbers lie side by side, digit by digit, in 512-bit registers.
One step of Montgomery's multiplication, for a digit b of one factor (Montgomery 1985; digits as in S. Gueron,
V. Krasnov, "Software implementation of modular exponentiation, using advanced vector instructions", WAIFI 2012):

    acc  =  (acc + a b + m q) / 2^52        q = -(acc + a b) / m mod 2^52

With a factor of d digits the product is a b / 2^(52 d) mod m, below 2 m as long as b < 2^(52 d - 2) and m < 2^(52 l - 2)
for m of l digits: so a short factor costs a short reduction, and results need not be reduced between steps. A sum in
acc has at most 6 (d + l) terms below 2^52, and fits 64 bits up to l = d = 256.

**Modulo m^2** nothing longer than m is multiplied: a pair (a, b) stands for a - m b. With R = 2^(52 l) and the digits q
of the first reduction, a c + m q = r R exactly, so

    (a - m b) (c - m d) / R  =  r - m (a d + b c + q) / R        (mod m^2)

which takes 10 l^2 multiplications of digits and a squaring 7 l^2, where those of numbers of 2 l digits take 16 l^2.
Both halves stay below 2 m if m < 2^(52 l - 4).

With TACIT_PORTABLE defined the same functions are compiled for any processor, each register an array of eight words:
slow, and for tests alone. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DIGITS 256

#if defined(TACIT_PORTABLE)
#define LANES
typedef struct {
    uint64_t word[8];
} lane;
#elif defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define LANES __attribute__((target("avx512f,avx512ifma")))
typedef __m512i lane;
#endif

#ifdef LANES
static const uint64_t MASK = ((uint64_t)1 << 52) - 1;

/* The operations on eight words at a time. low and high add the lower and upper 52 bits of the products of the lower 52
   bits; pick is `entry` in the lanes where `digit` is k, else `chosen`. moved_down is words 1 to 7 of `a`, then the first
   of `next`; moved_up the last word of `before`, then words 0 to 6 of `a`. */
#ifdef TACIT_PORTABLE
#define EACH(expression)                                                                                                \
    lane out;                                                                                                          \
    for (int k_ = 0; k_ < 8; k_++)                                                                                     \
        out.word[k_] = (expression);                                                                                   \
    return out;
#define PRODUCT(a, b) ((unsigned __int128)((a).word[k_] & MASK) * ((b).word[k_] & MASK))
static lane spread(uint64_t value) { EACH(value) }
static lane add(lane a, lane b) { EACH(a.word[k_] + b.word[k_]) }
static lane both(lane a, lane b) { EACH(a.word[k_] & b.word[k_]) }
static lane less(lane a, lane b) { EACH(a.word[k_] - b.word[k_]) }
static lane down_signed(lane a, int bits) { EACH((uint64_t)((int64_t)a.word[k_] >> bits)) }
static lane up(lane a) { EACH(a.word[k_] << 1) }
static lane down(lane a, int bits) { EACH(a.word[k_] >> bits) }
static lane low(lane sum, lane a, lane b) { EACH(sum.word[k_] + ((uint64_t)PRODUCT(a, b) & MASK)) }
static lane high(lane sum, lane a, lane b) { EACH(sum.word[k_] + (uint64_t)(PRODUCT(a, b) >> 52)) }
static lane pick(lane chosen, lane digit, uint64_t k, lane entry)
{
    EACH(digit.word[k_] == k ? entry.word[k_] : chosen.word[k_])
}
static lane eight(const uint64_t *words) { EACH(words[k_]) }
static lane first_of(lane a) { EACH(a.word[0]) }
static lane only_first(lane a) { EACH(k_ ? 0 : a.word[k_]) }
static lane moved_down(lane a, lane next) { EACH(k_ < 7 ? a.word[k_ + 1] : next.word[0]) }
static lane moved_up(lane before, lane a) { EACH(k_ ? a.word[k_ - 1] : before.word[7]) }
static lane one_more(lane a, uint64_t where) { EACH(a.word[k_] + (where >> k_ & 1)) }
static uint64_t words_equal(lane a, uint64_t value)
{
    uint64_t found = 0;
    for (int k = 0; k < 8; k++)
        found |= (uint64_t)(a.word[k] == value) << k;
    return found;
}
static uint64_t words_above(lane a, uint64_t value)
{
    uint64_t found = 0;
    for (int k = 0; k < 8; k++)
        found |= (uint64_t)(a.word[k] > value) << k;
    return found;
}
#else
#define INLINE LANES static inline __attribute__((always_inline)) lane
INLINE spread(uint64_t value) { return _mm512_set1_epi64((long long)value); }
INLINE add(lane a, lane b) { return _mm512_add_epi64(a, b); }
INLINE both(lane a, lane b) { return _mm512_and_si512(a, b); }
INLINE less(lane a, lane b) { return _mm512_sub_epi64(a, b); }
INLINE down_signed(lane a, int bits) { return _mm512_srai_epi64(a, (unsigned)bits); }
INLINE up(lane a) { return _mm512_slli_epi64(a, 1); }
INLINE down(lane a, int bits) { return _mm512_srli_epi64(a, (unsigned)bits); }
INLINE low(lane sum, lane a, lane b) { return _mm512_madd52lo_epu64(sum, a, b); }
INLINE high(lane sum, lane a, lane b) { return _mm512_madd52hi_epu64(sum, a, b); }
INLINE pick(lane chosen, lane digit, uint64_t k, lane entry)
{
    return _mm512_mask_mov_epi64(chosen, _mm512_cmpeq_epi64_mask(digit, spread(k)), entry);
}
INLINE eight(const uint64_t *words) { return _mm512_loadu_si512(words); }
INLINE first_of(lane a) { return _mm512_broadcastq_epi64(_mm512_castsi512_si128(a)); }
INLINE only_first(lane a) { return _mm512_maskz_mov_epi64(1, a); }
INLINE moved_down(lane a, lane next) { return _mm512_alignr_epi64(next, a, 1); }
INLINE moved_up(lane before, lane a) { return _mm512_alignr_epi64(a, before, 7); }
INLINE one_more(lane a, uint64_t where) { return _mm512_mask_add_epi64(a, (__mmask8)where, a, spread(1)); }
LANES static inline uint64_t words_equal(lane a, uint64_t value)
{
    return _mm512_cmpeq_epu64_mask(a, spread(value));
}
LANES static inline uint64_t words_above(lane a, uint64_t value)
{
    return _mm512_cmpgt_epu64_mask(a, spread(value));
}
#endif

typedef struct {
    int l;                       /* digits of m */
    uint64_t inverse;            /* -1 / m mod 2^52 */
    uint64_t digits[MOST_DIGITS];
} modulus;

/* The first `count` 52-bit digits of `size` bytes, lowest first. */
static void digits_of(uint64_t *digits, int count, const uint8_t *bytes, int size)
{
    int i = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (; i < count && 52 * i / 8 + 8 <= size; i++) {
        uint64_t value;
        memcpy(&value, bytes + 52 * i / 8, 8);
        digits[i] = value >> 52 * i % 8 & MASK;
    }
#endif
    for (; i < count; i++) {
        uint64_t value = 0;
        const int first = 52 * i / 8, shift = 52 * i % 8, left = first < size ? size - first : 0;
        for (int k = 0; k < (left < 8 ? left : 8); k++)
            value |= (uint64_t)bytes[first + k] << (8 * k);
        digits[i] = value >> shift & MASK;
    }
}

static void bytes_of(uint8_t *bytes, int size, const uint64_t *digits, int count)
{
    int i = 0;
    memset(bytes, 0, size);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (uint8_t half = 0; i < count && 52 * i / 8 + 8 <= size; i++) { /* `half` a byte is begun by an even digit */
        const uint64_t value = digits[i] << 52 * i % 8 | half;
        memcpy(bytes + 52 * i / 8, &value, 8);
        half = i % 2 ? 0 : (uint8_t)(value >> 48);
    }
#endif
    for (; i < count; i++) {
        const int first = 52 * i / 8, left = first < size ? size - first : 0;
        const uint64_t value = digits[i] << 52 * i % 8;
        for (int k = 0; k < (left < 7 ? left : 7); k++)
            bytes[first + k] |= (uint8_t)(value >> (8 * k));
    }
}

/* The modulus of `size` bytes, below 2^(52 l - headroom). Returns 0 where it is too long, or even. */
static int modulus_of(modulus *m, const uint8_t *bytes, int size, int headroom)
{
    m->l = (8 * size + headroom + 51) / 52;
    if (m->l > MOST_DIGITS || !(bytes[0] & 1))
        return 0;
    digits_of(m->digits, m->l, bytes, size);
    uint64_t inverse = 1;
    for (int i = 0; i < 6; i++) /* Newton's iteration: each doubles the number of right bits */
        inverse *= 2 - m->digits[0] * inverse;
    m->inverse = -inverse & MASK;
    return 1;
}

/* The digits of sums[j + skip], carried, into out. */
LANES static inline void carried(lane *out, const lane *sums, int l)
{
    const lane mask = spread(MASK);
    lane carry = spread(0);
    for (int j = 0; j < l; j++) {
        const lane sum = add(sums[j], carry);
        out[j] = both(sum, mask);
        carry = down(sum, 52);
    }
}

/* out = a b / 2^(52 d) mod m, below 2 m, with d digits of b. out may be a. The d digits q of the reduction go to
   `quotient`, unless NULL. */
LANES static void multiply(lane *out, lane *quotient, const lane *a, const lane *b, int d, const modulus *m)
{
    lane sums[2 * MOST_DIGITS + 1];
    const int l = m->l;
    const lane zero = spread(0), inverse = spread(m->inverse);
    for (int j = 0; j <= l + d; j++)
        sums[j] = zero;
    for (int i = 0; i < d; i++) {
        lane *acc = sums + i;
        const lane digit = b[i];
        lane first = low(acc[0], a[0], digit);
        const lane q = low(zero, first, inverse);
        lane a_j = a[0], m_j = spread(m->digits[0]);
        first = low(first, m_j, q);
        lane carry = down(first, 52);
        if (quotient)
            quotient[i] = q;
        for (int j = 1; j < l; j++) {
            lane left = high(acc[j], a_j, digit), right = high(carry, m_j, q);
            carry = zero;
            a_j = a[j];
            m_j = spread(m->digits[j]);
            left = low(left, a_j, digit);
            right = low(right, m_j, q);
            acc[j] = add(left, right);
        }
        acc[l] = add(high(acc[l], a_j, digit), high(carry, m_j, q));
    }
    carried(out, sums + d, l);
}

/* The digits of 2 a, which has no more than a. */
LANES static void doubled(lane *out, const lane *a, int l)
{
    const lane mask = spread(MASK);
    lane carry = spread(0);
    for (int j = 0; j < l; j++) {
        const lane next = down(a[j], 51);
        out[j] = add(both(up(a[j]), mask), carry);
        carry = next;
    }
}

/* out = a^2 / R mod m like `multiply`, each product of two digits once; `twice` are the digits of 2 a. */
LANES static void square(lane *out, lane *quotient, const lane *a, const lane *twice, const modulus *m)
{
    lane sums[2 * MOST_DIGITS + 1];
    const int l = m->l;
    const lane zero = spread(0), mask = spread(MASK), inverse = spread(m->inverse);
    for (int j = 0; j <= 2 * l; j++)
        sums[j] = zero;
    for (int i = 0; i < l; i++) {
        lane *acc = sums + i;
        const lane digit = a[i];
        /* From a[i] on: itself, then twice those above, the carry of 2 a[i] left out. */
        lane a_j = digit;
        if (i == 0)
            acc[0] = low(acc[0], digit, digit);
        const lane q = low(zero, acc[0], inverse);
        lane m_j = spread(m->digits[0]);
        lane carry = down(low(acc[0], m_j, q), 52);
        if (quotient)
            quotient[i] = q;
        int j = 1;
        for (; j < i; j++) {
            lane right = high(carry, m_j, q);
            carry = zero;
            m_j = spread(m->digits[j]);
            acc[j] = add(acc[j], low(right, m_j, q));
        }
        if (i > 0) {
            lane right = high(carry, m_j, q);
            carry = zero;
            m_j = spread(m->digits[i]);
            acc[i] = add(low(acc[i], digit, digit), low(right, m_j, q));
            j = i + 1;
        }
        for (; j < l; j++) {
            lane left = high(acc[j], a_j, digit), right = high(carry, m_j, q);
            carry = zero;
            a_j = j == i + 1 ? both(up(a[j]), mask) : twice[j];
            m_j = spread(m->digits[j]);
            left = low(left, a_j, digit);
            right = low(right, m_j, q);
            acc[j] = add(left, right);
        }
        acc[l] = add(high(acc[l], a_j, digit), high(carry, m_j, q));
    }
    carried(out, sums + l, l);
}

/* out = a^2 / R mod m, doubled in the lanes where `twofold` is all ones and not 0: each lane has a modulus of its own, of
   digits `m`, with its `inverse`. Below 4 m for a below 4 m, as long as m < 2^(52 l - 4). out may be a. */
LANES static void square_each(lane *out, const lane *a, const lane *m, lane inverse, lane twofold, int l)
{
    lane sums[2 * MOST_DIGITS + 1], twice[MOST_DIGITS];
    const lane zero = spread(0), mask = spread(MASK);
    doubled(twice, a, l);
    for (int j = 0; j <= 2 * l; j++)
        sums[j] = zero;
    for (int i = 0; i < l; i++) { /* as `square` */
        lane *acc = sums + i;
        const lane digit = a[i];
        lane a_j = digit;
        if (i == 0)
            acc[0] = low(acc[0], digit, digit);
        const lane q = low(zero, acc[0], inverse);
        lane carry = down(low(acc[0], m[0], q), 52);
        int j = 1;
        for (; j < i; j++) {
            acc[j] = add(acc[j], low(high(carry, m[j - 1], q), m[j], q));
            carry = zero;
        }
        if (i > 0) {
            acc[i] = add(low(acc[i], digit, digit), low(high(carry, m[i - 1], q), m[i], q));
            carry = zero;
            j = i + 1;
        }
        for (; j < l; j++) {
            lane left = high(acc[j], a_j, digit);
            a_j = j == i + 1 ? both(up(a[j]), mask) : twice[j];
            left = low(left, a_j, digit);
            acc[j] = add(left, low(high(carry, m[j - 1], q), m[j], q));
            carry = zero;
        }
        acc[l] = add(high(acc[l], a_j, digit), high(carry, m[l - 1], q));
    }
    lane carry = zero;
    for (int j = 0; j < l; j++) {
        const lane sum = add(add(sums[l + j], both(sums[l + j], twofold)), carry);
        out[j] = both(sum, mask);
        carry = down(sum, 52);
    }
}

/* out = (a b + c d + plus) / R mod m; without the second product where c is NULL. out may be any of them. */
LANES static void multiply_two(lane *out, const lane *a, const lane *b, const lane *c, const lane *d, const lane *plus,
                               const modulus *m)
{
    lane sums[2 * MOST_DIGITS + 1];
    const int l = m->l;
    const lane zero = spread(0), inverse = spread(m->inverse);
    for (int j = 0; j <= 2 * l; j++)
        sums[j] = j < l ? plus[j] : zero;
    for (int i = 0; i < l; i++) {
        lane *acc = sums + i;
        const lane x = b[i], y = c ? d[i] : zero;
        lane first = low(acc[0], a[0], x);
        if (c)
            first = low(first, c[0], y);
        const lane q = low(zero, first, inverse);
        lane a_j = a[0], c_j = c ? c[0] : zero, m_j = spread(m->digits[0]);
        lane carry = down(low(first, m_j, q), 52);
        if (c)
            for (int j = 1; j < l; j++) {
                lane left = high(acc[j], a_j, x), middle = high(zero, c_j, y), right = high(carry, m_j, q);
                carry = zero;
                a_j = a[j];
                c_j = c[j];
                m_j = spread(m->digits[j]);
                left = low(left, a_j, x);
                middle = low(middle, c_j, y);
                right = low(right, m_j, q);
                acc[j] = add(add(left, middle), right);
            }
        else
            for (int j = 1; j < l; j++) {
                lane left = high(acc[j], a_j, x), right = high(carry, m_j, q);
                carry = zero;
                a_j = a[j];
                m_j = spread(m->digits[j]);
                left = low(left, a_j, x);
                right = low(right, m_j, q);
                acc[j] = add(left, right);
            }
        acc[l] = add(high(acc[l], a_j, x), high(carry, m_j, q));
        if (c)
            acc[l] = high(acc[l], c_j, y);
    }
    carried(out, sums + l, l);
}

/* Pairs: l digits of a, then l of b, for a - m b mod m^2. out may be x or y. */
LANES static void multiply_pair(lane *out, const lane *x, const lane *y, const modulus *m)
{
    lane quotient[MOST_DIGITS], first[MOST_DIGITS];
    const int l = m->l;
    multiply(first, quotient, x, y, l, m);
    multiply_two(out + l, x, y + l, x + l, y, quotient, m);
    memcpy(out, first, sizeof(lane) * l);
}

LANES static void square_pair(lane *out, const lane *x, const modulus *m)
{
    lane quotient[MOST_DIGITS], first[MOST_DIGITS], twice[MOST_DIGITS];
    const int l = m->l;
    doubled(twice, x, l);
    square(first, quotient, x, twice, m);
    multiply_two(out + l, twice, x + l, NULL, NULL, quotient, m);
    memcpy(out, first, sizeof(lane) * l);
}

/* Digit i of the numbers at table + at[0], ... in the lanes of out[i], for i < d; up to 7 more are read and written. */
LANES static void side_by_side(lane *out, const uint64_t *table, const size_t at[8], int d)
{
    for (int i = 0; i < d; i += 8) {
#ifdef TACIT_PORTABLE
        for (int j = 0; j < 8; j++)
            for (int k = 0; k < 8; k++)
                out[i + j].word[k] = table[at[k] + i + j];
#else
        lane rows[8], pairs[8];
        for (int k = 0; k < 8; k++)
            rows[k] = eight(table + at[k] + i);
        for (int k = 0; k < 8; k += 2) { /* pairs[k]: digits 0, 2, 4, 6 of two numbers; pairs[k + 1]: 1, 3, 5, 7 */
            pairs[k] = _mm512_unpacklo_epi64(rows[k], rows[k + 1]);
            pairs[k + 1] = _mm512_unpackhi_epi64(rows[k], rows[k + 1]);
        }
        for (int odd = 0; odd < 2; odd++) {
            const lane a = _mm512_shuffle_i64x2(pairs[odd], pairs[odd + 2], 0x88);
            const lane b = _mm512_shuffle_i64x2(pairs[odd + 4], pairs[odd + 6], 0x88);
            const lane c = _mm512_shuffle_i64x2(pairs[odd], pairs[odd + 2], 0xdd);
            const lane e = _mm512_shuffle_i64x2(pairs[odd + 4], pairs[odd + 6], 0xdd);
            out[i + odd] = _mm512_shuffle_i64x2(a, b, 0x88);
            out[i + odd + 4] = _mm512_shuffle_i64x2(a, b, 0xdd);
            out[i + odd + 2] = _mm512_shuffle_i64x2(c, e, 0x88);
            out[i + odd + 6] = _mm512_shuffle_i64x2(c, e, 0xdd);
        }
#endif
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

/* The same number in all lanes. */
LANES static void load_one(lane *to, int l, const uint8_t *number, int size)
{
    uint64_t digits[MOST_DIGITS];
    digits_of(digits, l, number, size);
    for (int i = 0; i < l; i++)
        to[i] = spread(digits[i]);
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

/* **One number after another.** Where each number depends on the one before, the digits of ONE number lie side by side,
   eight in a register, in `v` registers: a step of Montgomery's multiplication adds the lower halves of a b_i and m q,
   moves all digits down by one, and adds the upper halves (as S. Gueron, V. Krasnov 2012, and OpenSSL's rsaz). Pairs are
   v registers of a, then v of b. */
#define WIDEST 8 /* registers of a number */
#ifdef TACIT_PORTABLE
#define EVERY(v) for (int k = 0; k < (v); k++)
#define SHAPED static
#else /* compiled for each v, with the sums in registers */
#define EVERY(v) _Pragma("GCC unroll 8") for (int k = 0; k < (v); k++)
#define SHAPED LANES static inline __attribute__((always_inline))
#endif

/* The digits of `sums`, each below 2^62, carried: once to the next digit, then the ones that remain, all at once. */
SHAPED void settled(lane *out, const lane *sums, int v)
{
    const lane mask = spread(MASK);
    lane before = spread(0);
    uint64_t over = 0, full = 0;
    EVERY(v)
    {
        const lane carry = down(sums[k], 52);
        out[k] = add(both(sums[k], mask), moved_up(before, carry));
        before = carry;
        over |= words_above(out[k], MASK) << 8 * k;
        full |= words_equal(out[k], MASK) << 8 * k;
    }
    const uint64_t carries = (full + (over << 1)) ^ full;
    EVERY(v) out[k] = both(one_more(out[k], carries >> 8 * k), mask);
}

/* One digit of a reduction: `sums` so far, with the lower halves of the products added. */
SHAPED lane lowered(lane *sums, const lane *m, lane inverse, int v)
{
    const lane q = first_of(low(spread(0), sums[0], inverse));
    EVERY(v) sums[k] = low(sums[k], m[k], q);
    const lane carry = only_first(down(sums[0], 52));
    EVERY(v) sums[k] = moved_down(sums[k], k + 1 < v ? sums[k + 1] : spread(0));
    sums[0] = add(sums[0], carry);
    EVERY(v) sums[k] = high(sums[k], m[k], q);
    return q;
}

/* out = x y mod m^2 like `multiply_pair`; x^2 if y is x and `twice` are the digits of 2 a of x, else NULL. */
SHAPED void multiply_long(lane *out, const lane *x, const lane *y, const lane *twice, const lane *m, lane inverse, int l,
                          int v)
{
    const uint64_t *digits = (const uint64_t *)y;
    const lane *a = twice ? twice : x;
    lane first[WIDEST], second[WIDEST];
    EVERY(v) first[k] = second[k] = spread(0);
    for (int i = 0; i < l; i++) {
        const lane c = spread(digits[i]), d = spread(digits[8 * v + i]);
        EVERY(v) first[k] = low(first[k], x[k], c);
        const lane q = lowered(first, m, inverse, v);
        EVERY(v) first[k] = high(first[k], x[k], c);
        second[0] = add(second[0], only_first(q));
        EVERY(v)
        {
            second[k] = low(second[k], a[k], d);
            if (!twice)
                second[k] = low(second[k], x[v + k], c);
        }
        lowered(second, m, inverse, v);
        EVERY(v)
        {
            second[k] = high(second[k], a[k], d);
            if (!twice)
                second[k] = high(second[k], x[v + k], c);
        }
    }
    settled(out, first, v);
    settled(out + v, second, v);
}

SHAPED void square_long(lane *x, const lane *m, lane inverse, int l, int v)
{
    lane twice[WIDEST], before = spread(0);
    EVERY(v)
    {
        const lane carry = down(x[k], 51);
        twice[k] = add(both(up(x[k]), spread(MASK)), moved_up(before, carry));
        before = carry;
    }
    multiply_long(x, x, x, twice, m, inverse, l, v);
}
#endif
