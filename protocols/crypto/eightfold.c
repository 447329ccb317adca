/* Modular powers and products of many numbers, eight at a time: see eightfold.h.

**Who can measure time or cache.** `tacit_square_powers` executes the same instructions at the same addresses whatever
the bases and exponents are, but for the greatest length of an exponent: windows are of fixed width, a zero digit is
multiplied like another, and an entry is picked by reading all. The other functions read tables at indices that depend
on their arguments. And the numbers come from gmpy2, whose running times depend on them: nothing is protected as a
whole, like all big-number arithmetic of Tacit. */

#include "eightfold.h"

#ifdef LANES
#define WINDOW 5

static int bits_at(const uint8_t *exponent, long at, int width)
{
    int found = 0;
    for (int k = width - 1; k >= 0; k--)
        found = 2 * found + (exponent[(at + k) / 8] >> (at + k) % 8 & 1);
    return found;
}

LANES static int powers(const uint8_t *bases, int count, const uint8_t *one, const uint8_t *r_squared, const modulus *m,
                        int size, const uint8_t *exponent, long bits, uint8_t *out, int out_size)
{
    const int l = m->l;
    lane *table = aligned_alloc(64, sizeof(lane) * l * ((1 << WINDOW) + 3));
    if (!table)
        return 0;
    lane *result = table + (l << WINDOW), *factor = result + l, *twice = factor + l;
    for (int first = 0; first < count; first += 8) {
        const int here = count - first < 8 ? count - first : 8;
        load_one(table, l, one, size);
        load_one(factor, l, r_squared, size);
        load(result, l, bases + (size_t)first * size, here, size);
        multiply(table + l, NULL, result, factor, l, m);
        for (int k = 2; k < 1 << WINDOW; k++)
            multiply(table + k * l, NULL, table + (k - 1) * l, table + l, l, m);
        long at = (bits - 1) / WINDOW * WINDOW;
        memcpy(result, table + l * bits_at(exponent, at, (int)(bits - at)), sizeof(lane) * l);
        while ((at -= WINDOW) >= 0) {
            for (int k = 0; k < WINDOW; k++) {
                doubled(twice, result, l);
                square(result, NULL, result, twice, m);
            }
            const int digit = bits_at(exponent, at, WINDOW);
            if (digit)
                multiply(result, NULL, result, table + l * digit, l, m);
        }
        for (int i = 0; i < l; i++)
            factor[i] = spread(i == 0);
        multiply(result, NULL, result, factor, l, m);
        store(out + (size_t)first * out_size, here, out_size, result, l);
    }
    memset(table, 0, sizeof(lane) * l * ((1 << WINDOW) + 3));
    free(table);
    return 1;
}

/* 2^(m - 1) R mod m for `count` moduli, from R mod m of each in `ones`. Which numbers are prime decides how long it takes to
   find them, whatever is done here. */
LANES static int powers_of_two(const uint8_t *moduli, const uint8_t *ones, int count, int size, uint8_t *out, int out_size)
{
    lane result[MOST_DIGITS], m[MOST_DIGITS];
    const int l = (8 * size + 4 + 51) / 52;
    if (l > MOST_DIGITS)
        return 0;
    for (int first = 0; first < count; first += 8) {
        const int here = count - first < 8 ? count - first : 8;
        uint64_t inverses[8];
        load(m, l, moduli + (size_t)first * size, here, size);
        load(result, l, ones + (size_t)first * size, here, size);
        for (int k = 0; k < 8; k++) { /* unused lanes have a modulus of 0 and nothing to compute */
            modulus own;
            if (k < here && !modulus_of(&own, moduli + (size_t)(first + k) * size, size, 4))
                return 0;
            inverses[k] = k < here ? own.inverse : 0;
        }
        const lane inverse = eight(inverses);
        for (long at = 8L * size - 1; at >= 0; at--) {
            uint64_t bits[8] = {0};
            for (int k = 0; k < here && at; k++) /* m is odd: m - 1 ends with a 0 */
                bits[k] = moduli[(size_t)(first + k) * size + at / 8] >> at % 8 & 1;
            square_each(result, result, m, inverse, less(spread(0), eight(bits)), l);
        }
        store(out + (size_t)first * out_size, here, out_size, result, l);
    }
    return 1;
}

/* Pairs from memory, a and b of `size` bytes each, one pair after the other. */
LANES static void load_pairs(lane *to, int l, const uint8_t *pairs, int count, int size)
{
    uint64_t digits[MOST_DIGITS], *words = (uint64_t *)to;
    memset(to, 0, (size_t)2 * l * sizeof(lane));
    for (int k = 0; k < 2 * count; k++) {
        digits_of(digits, l, pairs + (size_t)k * size, size);
        for (int i = 0; i < l; i++)
            words[8 * (k % 2 * l + i) + k / 2] = digits[i];
    }
}

LANES static void store_pairs(uint8_t *pairs, int count, int size, const lane *from, int l)
{
    for (int k = 0; k < count; k++)
        for (int half = 0; half < 2; half++) {
            uint64_t digits[MOST_DIGITS];
            for (int i = 0; i < l; i++)
                digits[i] = ((const uint64_t *)(from + half * l + i))[k];
            bytes_of(pairs + (size_t)(2 * k + half) * size, size, digits, l);
        }
}

/* The entry of `size` lanes at `digit` of each lane, by reading all. */
LANES static void picked(lane *out, const lane *table, int size, int entries, lane digit)
{
    int i = 0;
    for (; i + 8 <= size; i += 8) {
        lane chosen[8];
        EVERY(8) chosen[k] = table[i + k];
        for (int entry = 1; entry < entries; entry++)
            EVERY(8) chosen[k] = pick(chosen[k], digit, (uint64_t)entry, table[size * entry + i + k]);
        EVERY(8) out[i + k] = chosen[k];
    }
    for (; i < size; i++) {
        out[i] = table[i];
        for (int entry = 1; entry < entries; entry++)
            out[i] = pick(out[i], digit, (uint64_t)entry, table[size * entry + i]);
    }
}

LANES static int square_powers(const uint8_t *bases, int count, const uint8_t *one, const uint8_t *r_squared,
                               const modulus *m, int size, const uint8_t *exponents, long stride, long bits,
                               uint8_t *out, int out_size)
{
    const int width = bits > 256 ? 5 : bits > 48 ? 4 : bits > 12 ? 3 : bits > 3 ? 2 : 1;
    const int l = m->l, entries = 1 << width;
    const size_t bytes = sizeof(lane) * 2 * l * (entries + 2);
    lane *table = aligned_alloc(64, bytes);
    if (!table)
        return 0;
    lane *result = table + 2 * l * entries, *factor = result + 2 * l;
    for (int first = 0; first < count; first += 8) {
        const int here = count - first < 8 ? count - first : 8;
        for (int half = 0; half < 2; half++) {
            load_one(table + half * l, l, one + half * size, size);
            load_one(factor + half * l, l, r_squared + half * size, size);
        }
        load_pairs(result, l, bases + (size_t)first * 2 * size, here, size);
        multiply_pair(table + 2 * l, result, factor, m);
        for (int k = 2; k < entries; k++)
            if (k % 2)
                multiply_pair(table + 2 * l * k, table + 2 * l * (k - 1), table + 2 * l, m);
            else
                square_pair(table + 2 * l * k, table + l * k, m);
        const long top = (bits - 1) / width * width;
        for (long at = top; at >= 0; at -= width) {
            uint64_t digits[8];
            for (int k = 0; k < 8; k++) {
                const uint8_t *own = exponents + (size_t)stride * (first + (k < here ? k : 0));
                digits[k] = (uint64_t)bits_at(own, at, at == top ? (int)(bits - at) : width);
            }
            picked(factor, table, 2 * l, entries, eight(digits));
            if (at == top) {
                memcpy(result, factor, sizeof(lane) * 2 * l);
                continue;
            }
            for (int k = 0; k < width; k++)
                square_pair(result, result, m);
            multiply_pair(result, result, factor, m);
        }
        for (int i = 0; i < 2 * l; i++)
            factor[i] = spread(i == 0);
        multiply_pair(result, result, factor, m);
        store_pairs(out + (size_t)first * 2 * out_size, here, out_size, result, l);
    }
    memset(table, 0, bytes);
    free(table);
    return 1;
}

static void pair_of(lane *to, const uint8_t *pair, int size, int l, int v)
{
    memset(to, 0, sizeof(lane) * 2 * v);
    for (int half = 0; half < 2; half++)
        digits_of((uint64_t *)(to + half * v), l, pair + half * size, size);
}

SHAPED void chain_of(const uint8_t *base, const uint8_t *one, const uint8_t *r_squared, const modulus *modulo, int size,
                     const uint8_t *exponent, long bits, long step, int count, uint8_t *out, int out_size, int v)
{
    lane table[2 * WIDEST << WINDOW], result[2 * WIDEST], written[2 * WIDEST], m[WIDEST], unit[2 * WIDEST];
    const int l = modulo->l, width = bits > 256 ? WINDOW : bits > 16 ? 3 : 1;
    const lane inverse = spread(modulo->inverse);
    memset(m, 0, sizeof m);
    memcpy(m, modulo->digits, sizeof(uint64_t) * l);
    memset(unit, 0, sizeof unit);
    unit[0] = only_first(spread(1));
    pair_of(table, one, size, l, v);
    pair_of(written, r_squared, size, l, v);
    pair_of(result, base, size, l, v);
    multiply_long(table + 2 * v, result, written, NULL, m, inverse, l, v);
    for (int k = 2; k < 1 << width; k++)
        multiply_long(table + 2 * v * k, table + 2 * v * (k - 1), table + 2 * v, NULL, m, inverse, l, v);
    long at = (bits - 1) / width * width;
    memcpy(result, table + 2 * v * bits_at(exponent, at, (int)(bits - at)), sizeof(lane) * 2 * v);
    while ((at -= width) >= 0) {
        for (int k = 0; k < width; k++)
            square_long(result, m, inverse, l, v);
        multiply_long(result, result, table + 2 * v * bits_at(exponent, at, width), NULL, m, inverse, l, v);
    }
    for (int number = 0; number < count; number++) {
        for (long k = 0; number && k < step; k++)
            square_long(result, m, inverse, l, v);
        multiply_long(written, result, unit, NULL, m, inverse, l, v);
        for (int half = 0; half < 2; half++)
            bytes_of(out + (size_t)(2 * number + half) * out_size, out_size, (const uint64_t *)(written + half * v), l);
    }
    memset(table, 0, sizeof table);
    memset(result, 0, sizeof result);
}

/* a - times m where that is not negative; returns 1 in the lanes where it was subtracted, else 0. */
LANES static lane reduced(lane *a, uint64_t times, const modulus *m)
{
    lane rest[MOST_DIGITS], carry = spread(0);
    const lane mask = spread(MASK), zero = spread(0);
    for (int j = 0; j < m->l; j++) {
        const lane digit = add(less(a[j], spread(times * m->digits[j])), carry);
        rest[j] = both(digit, mask);
        carry = down_signed(digit, 52);
    }
    for (int j = 0; j < m->l; j++)
        a[j] = pick(a[j], carry, 0, rest[j]);
    return pick(zero, carry, 0, spread(1));
}

static void scatter(uint64_t *table, const size_t at[8], int here, const lane *from, int l)
{
    const uint64_t *words = (const uint64_t *)from;
    for (int k = 0; k < here; k++)
        for (int i = 0; i < l; i++)
            table[at[k] + i] = words[8 * i + k];
}

/* Montgomery's trick in each lane, for numbers 8 s + lane: see `tacit_totals` and `tacit_splits`. Without `inverses` it
   ends with the totals. */
LANES static int split_in_lanes(const uint8_t *residues, const uint8_t *highs, int count, const uint8_t *one,
                                const uint8_t *r_squared, const uint8_t *inverses, const modulus *m, int size,
                                uint8_t *out, uint8_t *slopes)
{
    const int l = m->l, steps = (count + 7) / 8;
    lane *prefixes = aligned_alloc(64, sizeof(lane) * l * ((size_t)steps + 1));
    lane rest[MOST_DIGITS], number[MOST_DIGITS], own[MOST_DIGITS], factor[MOST_DIGITS];
    uint8_t *filled = malloc((size_t)8 * size);
    if (!prefixes || !filled) {
        free(prefixes);
        free(filled);
        return 0;
    }
    load_one(prefixes, l, one, size);
    load_one(factor, l, r_squared, size);
    for (int step = 0; step < steps; step++) {
        const int first = 8 * step, here = count - first < 8 ? count - first : 8;
        for (int k = 0; k < 8; k++) /* lanes without a number take `one`, which changes nothing */
            memcpy(filled + (size_t)k * size, k < here ? residues + (size_t)(first + k) * size : one, size);
        load(number, l, filled, 8, size);
        multiply(prefixes + (size_t)(step + 1) * l, NULL, prefixes + (size_t)step * l, number, l, m);
    }
    if (!inverses)
        store(out, 8, size + 1, prefixes + (size_t)steps * l, l);
    else
        load(rest, l, inverses, 8, size);
    for (int step = inverses ? steps - 1 : -1; step >= 0; step--) {
        const int first = 8 * step, here = count - first < 8 ? count - first : 8;
        for (int k = 0; k < 8; k++)
            memcpy(filled + (size_t)k * size, k < here ? residues + (size_t)(first + k) * size : one, size);
        load(number, l, filled, 8, size);
        multiply(own, NULL, rest, prefixes + (size_t)step * l, l, m);
        multiply(rest, NULL, rest, number, l, m);
        multiply(number, NULL, own, factor, l, m);
        reduced(own, 1, m);
        store(out + (size_t)first * size, here, size, own, l);
        load(own, l, highs + (size_t)first * size, here, size);
        multiply(own, NULL, number, own, l, m);
        reduced(own, 1, m);
        store(slopes + (size_t)first * size, here, size, own, l);
    }
    free(prefixes);
    free(filled);
    return 1;
}

/* Elements of tables of subset products, or their entries: l digits of each part, all numbers one after another. The
   residue of an element is a pair times R; inverses are times R. */
typedef struct {
    uint64_t *residue, *second, *slope, *inverse;
} parts;

/* Entry target[k] of the tables = entry source[k] by element[k], for eight k: with t = residue of the entry, (c, d) of
   the element, (t c + m q) / R = r and B = (t d + q) / R, the product is r - m B = r (1 - m B / r). */
LANES static void extend(const parts *entries, const parts *elements, const size_t source[8], const size_t element[8],
                         const size_t target[8], int here, const modulus *m)
{
    lane one[MOST_DIGITS + 7], two[MOST_DIGITS + 7], low_part[MOST_DIGITS], quotient[MOST_DIGITS], high_part[MOST_DIGITS];
    const int l = m->l;
    const lane mask = spread(MASK);
    side_by_side(one, entries->residue, source, l);
    side_by_side(two, elements->residue, element, l);
    multiply(low_part, quotient, one, two, l, m);
    side_by_side(two, elements->second, element, l);
    multiply_two(high_part, one, two, NULL, NULL, quotient, m);
    /* r below m: where m was subtracted, B is one less, and m - 1 is added. */
    const lane flag = reduced(low_part, 1, m);
    lane carry = less(spread(0), flag);
    for (int j = 0; j < l; j++) {
        const lane digit = add(add(high_part[j], low(spread(0), spread(m->digits[j]), flag)), carry);
        high_part[j] = both(digit, mask);
        carry = down_signed(digit, 52);
    }
    scatter(entries->residue, target, here, low_part, l);
    side_by_side(one, entries->inverse, source, l);
    side_by_side(two, elements->inverse, element, l);
    multiply(low_part, NULL, one, two, l, m);
    scatter(entries->inverse, target, here, low_part, l);
    multiply(high_part, NULL, high_part, low_part, l, m);
    side_by_side(one, entries->slope, source, l);
    side_by_side(two, elements->slope, element, l);
    carry = spread(0);
    for (int j = 0; j < l; j++) {
        const lane sum = add(add(one[j], two[j]), add(spread(2 * m->digits[j]), carry));
        const lane digit = less(sum, high_part[j]);
        low_part[j] = both(digit, mask);
        carry = down_signed(digit, 52);
    }
    reduced(low_part, 2, m);
    reduced(low_part, 1, m);
    scatter(entries->slope, target, here, low_part, l);
}

/* The parts of `count` elements, of which residue, slope and inverse are given. */
LANES static int prepare(const parts *elements, const uint8_t *numbers, int count, const uint8_t *r_squared, int size,
                          const modulus *m)
{
    lane pair[2 * MOST_DIGITS], factor[2 * MOST_DIGITS];
    uint8_t *column = malloc((size_t)8 * size);
    const int l = m->l;
    if (!column)
        return 0;
    load_one(factor, l, r_squared, size);
    load_one(factor + l, l, r_squared + size, size);
    for (int first = 0; first < count; first += 8) {
        const int here = count - first < 8 ? count - first : 8;
        size_t at[8];
        for (int k = 0; k < here; k++)
            at[k] = (size_t)(first + k) * l;
        for (int part = 0; part < 3; part++) {
            for (int k = 0; k < here; k++)
                memcpy(column + (size_t)k * size, numbers + (size_t)(3 * (first + k) + part) * size, size);
            load(pair, l, column, here, size);
            if (part == 1) {
                scatter(elements->slope, at, here, pair, l);
                continue;
            }
            if (part == 2) {
                multiply(pair, NULL, pair, factor, l, m);
                scatter(elements->inverse, at, here, pair, l);
                continue;
            }
            for (int i = 0; i < l; i++)
                pair[l + i] = spread(0);
            multiply_pair(pair, pair, factor, m);
            scatter(elements->residue, at, here, pair, l);
            scatter(elements->second, at, here, pair + l, l);
        }
    }
    free(column);
    return 1;
}

LANES static int subsets(const uint8_t *numbers, const int32_t *widths, int tables, const uint8_t *one,
                         const uint8_t *r_squared, int size, const modulus *m, uint8_t *residues, uint8_t *slopes,
                         int slope_size)
{
    const int l = m->l;
    size_t count = 0, number = 0;
    int widest = 0;
    for (int k = 0; k < tables; k++) {
        count += widths[k];
        number += (size_t)1 << widths[k];
        widest = widths[k] > widest ? widths[k] : widest;
    }
    const size_t all = (4 * count + 3 * number) * l + 8;
    uint64_t *words = calloc(all, sizeof(uint64_t));
    if (!words)
        return 0;
    const parts elements = {words, words + count * l, words + 2 * count * l, words + 3 * count * l};
    uint64_t *rest = words + 4 * count * l;
    const parts entries = {rest, NULL, rest + number * l, rest + 2 * number * l};
    if (!prepare(&elements, numbers, (int)count, r_squared, size, m)) {
        free(words);
        return 0;
    }
    for (size_t k = 0, start = 0; k < (size_t)tables; start += (size_t)1 << widths[k++]) {
        entries.residue[start * l] = 1;
        digits_of(entries.inverse + start * l, l, one, size);
    }
    size_t source[8] = {0}, target[8] = {0}, element[8] = {0};
    for (int step = 0; step < widest; step++) {
        int here = 0;
        size_t start = 0, first = 0;
        for (int k = 0; k < tables; start += (size_t)1 << widths[k], first += widths[k], k++)
            for (size_t s = 0; step < widths[k] && s < (size_t)1 << step; s++) {
                source[here] = (start + s) * l;
                target[here] = (start + s + ((size_t)1 << step)) * l;
                element[here] = (first + step) * l;
                if (++here == 8) {
                    extend(&entries, &elements, source, element, target, here, m);
                    here = 0;
                }
            }
        if (here)
            extend(&entries, &elements, source, element, target, here, m);
    }
    for (size_t k = 0; k < number; k++) {
        bytes_of(residues + k * size, size, entries.residue + k * l, l);
        bytes_of(slopes + k * slope_size, slope_size, entries.slope + k * l, l);
    }
    memset(words, 0, all * sizeof(uint64_t));
    free(words);
    return 1;
}

/* Where the entries that eight rows multiply by at step `step` begin in the table of numbers of d digits. */
static void places(size_t at[8], const int32_t *indices, size_t steps, size_t first, int here, size_t step, int d)
{
    for (int k = 0; k < 8; k++)
        at[k] = (size_t)indices[(first + (k < here ? k : 0)) * steps + step] * (size_t)d;
}

LANES static int products(const uint64_t *table, int d, const int32_t *indices, int rows, int columns, int blocks,
                          const modulus *m, uint8_t *out, int out_size)
{
    const int l = m->l;
    const size_t steps = (size_t)columns * blocks;
    lane *result = aligned_alloc(64, sizeof(lane) * (2 * l + d + 7)), *twice = result + l, *factor = twice + l;
    if (!result)
        return 0;
    for (int first = 0; first < rows; first += 8) {
        const int here = rows - first < 8 ? rows - first : 8;
        size_t at[8], next[8] = {0};
        if (steps)
            places(next, indices, steps, first, here, 0, d);
        for (int i = 0; i < l; i++)
            result[i] = spread(i == 0);
        for (size_t step = 0; step < steps; step++) {
            memcpy(at, next, sizeof at);
            if (step + 1 < steps) { /* a large table is not in the cache: asked for one multiplication ahead */
                places(next, indices, steps, first, here, step + 1, d);
                for (int k = 0; k < 8; k++)
                    for (int i = 0; i < d; i += 8)
                        __builtin_prefetch(table + next[k] + i);
            }
            if (step && step % blocks == 0) {
                doubled(twice, result, l);
                square(result, NULL, result, twice, m);
            }
            side_by_side(factor, table, at, d);
            multiply(result, NULL, result, factor, d, m);
        }
        store(out + (size_t)first * out_size, here, out_size, result, l);
    }
    free(result);
    return 1;
}

LANES static void sums(const uint32_t *entries, int words, const int32_t *indices, int columns, int blocks,
                       uint64_t *sum, int sum_words)
{
    memset(sum, 0, sizeof(uint64_t) * sum_words);
    for (int column = 0; column < columns; column++) {
        uint64_t carry = 0;
        for (int i = 0; column && i < sum_words; i++) {
            const uint64_t value = 2 * sum[i] + carry;
            sum[i] = (uint32_t)value;
            carry = value >> 32;
        }
        for (int block = 0; block < blocks; block++) {
            const uint32_t *entry = entries + (size_t)indices[(size_t)column * blocks + block] * words;
            for (int i = 0; i < words; i++)
                sum[i] += entry[i];
        }
    }
}

int tacit_eightfold(void)
{
#ifdef TACIT_PORTABLE
    return 1;
#else
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512ifma");
#endif
}

/* bases[k]^exponent mod m, below 2 m, for `count` numbers of `size` bytes; one = 2^(52 l) mod m, r_squared its square.
   Returns 0 where that is not possible. */
int tacit_powers(const uint8_t *bases, int count, const uint8_t *one, const uint8_t *r_squared, const uint8_t *modulo,
                 int size, const uint8_t *exponent, long bits, uint8_t *out, int out_size)
{
    modulus m;
    return bits > 0 && modulus_of(&m, modulo, size, 2) &&
           powers(bases, count, one, r_squared, &m, size, exponent, bits, out, out_size);
}

/* 2^(m - 1) R mod m, below 4 m, for each of `count` odd moduli of `size` bytes, where `ones` are R = 2^(52 l) mod m. Returns
   0 where that is not possible. */
int tacit_powers_of_two(const uint8_t *moduli, const uint8_t *ones, int count, int size, uint8_t *out, int out_size)
{
    return powers_of_two(moduli, ones, count, size, out, out_size);
}

/* bases[k]^exponents[k] mod m^2 for `count` pairs; numbers of pairs have `size` bytes, those of results `out_size`. one
   = 2^(52 l) mod m^2 and r_squared, its square, are pairs, too. An exponent has `bits` bits at most and lies `stride`
   bytes after the one before: 0 where all have the same. Returns 0 where that is not possible. */
int tacit_square_powers(const uint8_t *bases, int count, const uint8_t *one, const uint8_t *r_squared,
                        const uint8_t *modulo, int size, const uint8_t *exponents, long stride, long bits, uint8_t *out,
                        int out_size)
{
    modulus m;
    return bits > 0 && modulus_of(&m, modulo, size, 4) &&
           square_powers(bases, count, one, r_squared, &m, size, exponents, stride, bits, out, out_size);
}

/* base^exponent mod m^2, then `count` - 1 times the number before to the power of 2^step: each as a pair like those of
   `tacit_square_powers`. One number at a time: for powers of which each depends on the one before. Returns 0 where that
   is not possible. */
LANES int tacit_chain(const uint8_t *base, const uint8_t *one, const uint8_t *r_squared, const uint8_t *modulo, int size,
                      const uint8_t *exponent, long bits, long step, int count, uint8_t *out, int out_size)
{
    modulus m;
    if (bits < 1 || !modulus_of(&m, modulo, size, 4) || m.l > 8 * WIDEST)
        return 0;
    const int v = (m.l + 7) / 8;
    if (v <= 3) /* the lengths of usual moduli and their factors, each compiled apart */
        chain_of(base, one, r_squared, &m, size, exponent, bits, step, count, out, out_size, 3);
    else if (v <= 5)
        chain_of(base, one, r_squared, &m, size, exponent, bits, step, count, out, out_size, 5);
    else
        chain_of(base, one, r_squared, &m, size, exponent, bits, step, count, out, out_size, WIDEST);
    return 1;
}

/* The products of the numbers of each lane, number k in lane k mod 8, divided by powers of 2^(52 l): eight numbers of
   size + 1 bytes, below 2 m. one = 2^(52 l) mod m and r_squared, its square. Returns 0 where that is not possible. */
int tacit_totals(const uint8_t *numbers, int count, const uint8_t *one, const uint8_t *r_squared, const uint8_t *modulo,
                 int size, uint8_t *totals)
{
    modulus m;
    return modulus_of(&m, modulo, size, 4) &&
           split_in_lanes(numbers, NULL, count, one, r_squared, NULL, &m, size, totals, NULL);
}

/* The inverse of each number mod m, and its product by the one of `highs`, all of `size` bytes and below m; `inverses`
   are those of the eight totals. */
int tacit_splits(const uint8_t *numbers, const uint8_t *highs, int count, const uint8_t *one, const uint8_t *r_squared,
                 const uint8_t *inverses, const uint8_t *modulo, int size, uint8_t *out, uint8_t *slopes)
{
    modulus m;
    return modulus_of(&m, modulo, size, 4) &&
           split_in_lanes(numbers, highs, count, one, r_squared, inverses, &m, size, out, slopes);
}

/* The products of all subsets of the elements of each table, of which table k has widths[k]; entry S takes element i if
   bit i of S is set. An element r (1 + m s) mod m^2 is given by r, s and 1 / r mod m, each of `size` bytes. Of each
   entry the residue has `size` bytes and the slope `slope_size`, both below m. one = 2^(52 l) mod m; r_squared is the pair of
   its square mod m^2. */
int tacit_subsets(const uint8_t *elements, const int32_t *widths, int tables, const uint8_t *one,
                  const uint8_t *r_squared, const uint8_t *modulo, int size, uint8_t *residues, uint8_t *slopes,
                  int slope_size)
{
    modulus m;
    return modulus_of(&m, modulo, size, 4) &&
           subsets(elements, widths, tables, one, r_squared, size, &m, residues, slopes, slope_size);
}

/* The 52-bit digits of `number` numbers of `size` bytes, `count` digits each: a table for `tacit_products`, which reads
   up to 7 words beyond its end. */
int tacit_digits(const uint8_t *numbers, int number, int size, uint64_t *out, int count)
{
    for (int k = 0; k < number; k++)
        digits_of(out + (size_t)k * count, count, numbers + (size_t)k * size, size);
    return 1;
}

/* For each row, through its columns: square the result, then multiply it by the entry at each of its indices; entries
   are numbers of d digits below 2^(52 d - 2). Each multiplication divides by 2^(52 d) mod m, each squaring by 2^(52 l).
   Results are below 2 m. A row without indices gives 1. */
int tacit_products(const uint64_t *entries, int d, const int32_t *indices, int rows, int columns, int blocks,
                   const uint8_t *modulo, int size, uint8_t *out, int out_size)
{
    modulus m;
    return d <= MOST_DIGITS && modulus_of(&m, modulo, size, 2) &&
           products(entries, d, indices, rows, columns, blocks, &m, out, out_size);
}

/* For each row, through its columns: double the sum, then add the entry at each of its indices. Numbers are of 32-bit
   words, lowest first; a sum has `sum_words`, which must do, and each row at most 2^31 indices a column. */
int tacit_sums(const uint32_t *entries, int words, const int32_t *indices, int rows, int columns, int blocks,
               uint32_t *out, int sum_words)
{
    uint64_t *sum = malloc(sizeof(uint64_t) * (size_t)(sum_words + 1));
    if (!sum || sum_words < words) {
        free(sum);
        return 0;
    }
    for (int row = 0; row < rows; row++) {
        sums(entries, words, indices + (size_t)row * columns * blocks, columns, blocks, sum, sum_words);
        uint64_t carry = 0;
        for (int i = 0; i < sum_words; i++) {
            carry += sum[i];
            out[(size_t)row * sum_words + i] = (uint32_t)carry;
            carry >>= 32;
        }
    }
    free(sum);
    return 1;
}

#else
int tacit_eightfold(void) { return 0; }
#endif

/* Its functions are called by ctypes. Where Python's headers are, it is an empty module besides, which can be imported. */
#ifdef __has_include
#if __has_include(<Python.h>)
#include <Python.h>

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_eightfold", NULL, 0, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__eightfold(void)
{
    return PyModule_Create(&module);
}
#endif
#endif
