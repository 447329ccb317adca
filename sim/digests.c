/* The hashes of an event and of a frame, HMAC-SHA256, and the keys of random streams: see digests.py, whose Python code
gives the same bytes. It is called for a value that is not exactly a str, bytes, float, bool or int of 64 bits. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* SHA-256 (FIPS 180-4), by the processor's own instructions where it has them. */

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static const uint32_t beginning[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static uint32_t word(const uint8_t *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

static uint32_t turned(uint32_t value, int by)
{
    return value >> by | value << (32 - by);
}

static void blocks_in_c(uint32_t state[8], const uint8_t *data, size_t count)
{
    for (; count; count--, data += 64) {
        uint32_t w[64], a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (int i = 0; i < 16; i++)
            w[i] = word(data + 4 * i);
        for (int i = 16; i < 64; i++) {
            uint32_t far = w[i - 15], near = w[i - 2];
            w[i] = w[i - 16] + (turned(far, 7) ^ turned(far, 18) ^ far >> 3) + w[i - 7]
                   + (turned(near, 17) ^ turned(near, 19) ^ near >> 10);
        }
        for (int i = 0; i < 64; i++) {
            uint32_t first = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + w[i];
            uint32_t second = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

__attribute__((target("sha,sse4.1,ssse3"))) static void blocks_by_instructions(uint32_t state[8], const uint8_t *data,
                                                                               size_t count)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
    __m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0);
    for (; count; count--, data += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)data + i), swap);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m128i here = w[i & 3];
            if (i >= 4) {
                __m128i before = w[(i + 3) & 3];
                here = _mm_add_epi32(_mm_sha256msg1_epu32(here, w[(i + 1) & 3]),
                                     _mm_alignr_epi8(before, w[(i + 2) & 3], 4));
                here = w[i & 3] = _mm_sha256msg2_epu32(here, before);
            }
            here = _mm_add_epi32(here, _mm_loadu_si128((const __m128i *)constants + i));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, here);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(here, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    low = _mm_shuffle_epi32(abef, 0x1b);
    high = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(low, high, 0xf0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(high, low, 8));
}

static int has_instructions(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 29 & 1 && __builtin_cpu_supports("sse4.1");
}
#else
#define blocks_by_instructions blocks_in_c
static int has_instructions(void)
{
    return 0;
}
#endif

static void (*blocks)(uint32_t state[8], const uint8_t *data, size_t count) = blocks_in_c;

/* A hash under way: what was put in since the last whole block is in `rest`. */
typedef struct {
    uint32_t state[8];
    uint8_t rest[64];
    uint64_t size;
} hash;

static void begin(hash *h)
{
    memcpy(h->state, beginning, sizeof beginning);
    h->size = 0;
}

static void put(hash *h, const void *data, size_t size)
{
    const uint8_t *from = data;
    size_t here = h->size % 64;
    h->size += size;
    if (here) {
        size_t more = size < 64 - here ? size : 64 - here;
        memcpy(h->rest + here, from, more);
        from += more, size -= more;
        if (here + more < 64)
            return;
        blocks(h->state, h->rest, 1);
    }
    blocks(h->state, from, size / 64);
    if (size % 64)
        memcpy(h->rest, from + size / 64 * 64, size % 64);
}

static void finish(hash *h, uint8_t digest[32])
{
    uint8_t last[128] = {0};
    size_t here = h->size % 64, size = here < 56 ? 64 : 128;
    memcpy(last, h->rest, here);
    last[here] = 0x80;
    for (int i = 0; i < 8; i++)
        last[size - 1 - i] = (uint8_t)(h->size * 8 >> 8 * i);
    blocks(h->state, last, size / 64);
    for (int i = 0; i < 32; i++)
        digest[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

static PyObject *end(hash *h)
{
    uint8_t digest[32];
    finish(h, digest);
    return PyBytes_FromStringAndSize((const char *)digest, 32);
}

/* MessagePack, as msgspec writes it. */

#define ROOM 4096 /* bytes of an encoding; longer ones are left to Python */

typedef struct {
    uint8_t *at, *end;
} place;

/* Write `mark` and the lowest `count` bytes of `value`, the highest first. */
static int number(place *p, uint8_t mark, uint64_t value, int count)
{
    if (p->end - p->at <= count)
        return 0;
    *p->at++ = mark;
    for (int i = count - 1; i >= 0; i--)
        *p->at++ = (uint8_t)(value >> 8 * i);
    return 1;
}

static int copied(place *p, const char *data, Py_ssize_t size)
{
    if (p->end - p->at < size)
        return 0;
    memcpy(p->at, data, (size_t)size);
    p->at += size;
    return 1;
}

/* The header of a text or a byte string, of which the one for lengths of 8 bits begins with `mark`. */
static int header(place *p, uint8_t mark, Py_ssize_t size)
{
    return size < 1 << 8 ? number(p, mark, (uint64_t)size, 1) : number(p, mark + 1, (uint64_t)size, 2);
}

static int encoded(place *p, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyUnicode_Type) {
        Py_ssize_t size;
        const char *text = PyUnicode_AsUTF8AndSize(value, &size);
        if (text == NULL) {
            PyErr_Clear();
            return 0;
        }
        if (size >= ROOM)
            return 0;
        return (size < 32 ? number(p, 0xa0 | (uint8_t)size, 0, 0) : header(p, 0xd9, size)) && copied(p, text, size);
    }
    if (type == &PyLong_Type) {
        int overflow;
        long long n = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (overflow)
            return 0;
        if (n < 128 && n >= -32)
            return number(p, (uint8_t)n, 0, 0);
        if (n > 0)
            return n < 1LL << 8 ? number(p, 0xcc, (uint64_t)n, 1) : n < 1LL << 16 ? number(p, 0xcd, (uint64_t)n, 2)
                   : n < 1LL << 32 ? number(p, 0xce, (uint64_t)n, 4) : number(p, 0xcf, (uint64_t)n, 8);
        return n >= -(1LL << 7) ? number(p, 0xd0, (uint64_t)n, 1) : n >= -(1LL << 15) ? number(p, 0xd1, (uint64_t)n, 2)
               : n >= -(1LL << 31) ? number(p, 0xd2, (uint64_t)n, 4) : number(p, 0xd3, (uint64_t)n, 8);
    }
    if (type == &PyFloat_Type) {
        double real = PyFloat_AS_DOUBLE(value);
        uint64_t bits;
        memcpy(&bits, &real, 8);
        return number(p, 0xcb, bits, 8);
    }
    if (type == &PyBytes_Type) {
        Py_ssize_t size = PyBytes_GET_SIZE(value);
        return size < ROOM && header(p, 0xc4, size) && copied(p, PyBytes_AS_STRING(value), size);
    }
    if (type == &PyBool_Type)
        return number(p, value == Py_True ? 0xc3 : 0xc2, 0, 0);
    return 0;
}

/* Encode the values of a tuple of at most 15 behind `mark`, to which their number is added. */
static int encoded_all(place *p, uint8_t mark, PyObject *values)
{
    Py_ssize_t count = PyTuple_GET_SIZE(values);
    if (count > 15 || !number(p, mark + (uint8_t)count, 0, 0))
        return 0;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!encoded(p, PyTuple_GET_ITEM(values, i)))
            return 0;
    return 1;
}

/* Functions of the module. */

static PyObject *fallbacks[5]; /* in Python: of chained, framed, digest_of, hmac_of and stream_key */
static int is_used = 1; /* whether what this file can compute is computed here */

static PyObject *in_python(int which, PyObject *const *given, Py_ssize_t count)
{
    if (fallbacks[which] == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the functions in Python were not given");
        return NULL;
    }
    return PyObject_Vectorcall(fallbacks[which], given, (size_t)count, NULL);
}

static PyObject *pair(PyObject *one, PyObject *other)
{
    PyObject *both = one && other ? PyTuple_New(2) : NULL;
    if (both == NULL) {
        Py_XDECREF(one);
        Py_XDECREF(other);
        return NULL;
    }
    PyTuple_SET_ITEM(both, 0, one);
    PyTuple_SET_ITEM(both, 1, other);
    return both;
}

static PyObject *chained(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    (void)self;
    uint8_t buffer[2 * ROOM];
    place p = {buffer, buffer + sizeof buffer};
    if (!is_used || count != 4 || !PyBytes_CheckExact(given[0]) || !PyBytes_CheckExact(given[1])
        || !PyTuple_CheckExact(given[2]) || !PyTuple_CheckExact(given[3]) || !encoded_all(&p, 0x90, given[2]))
        return in_python(0, given, count);
    size_t first = (size_t)(p.at - buffer);
    if (!encoded_all(&p, 0x90, given[3]))
        return in_python(0, given, count);
    hash trace, shape;
    begin(&trace);
    put(&trace, PyBytes_AS_STRING(given[0]), (size_t)PyBytes_GET_SIZE(given[0]));
    put(&trace, buffer, (size_t)(p.at - buffer));
    begin(&shape);
    put(&shape, PyBytes_AS_STRING(given[1]), (size_t)PyBytes_GET_SIZE(given[1]));
    put(&shape, buffer, first);
    return pair(end(&trace), end(&shape));
}

static PyObject *framed(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    (void)self;
    uint8_t buffer[ROOM];
    place p = {buffer, buffer + sizeof buffer};
    if (!is_used || count != 3 || !PyTuple_CheckExact(given[0]) || PyTuple_GET_SIZE(given[0]) > 14
        || !PyLong_CheckExact(given[1]) || !(given[2] == Py_None || PyBytes_CheckExact(given[2])))
        return in_python(1, given, count);
    int overflow;
    long long length = PyLong_AsLongLongAndOverflow(given[1], &overflow);
    if (overflow || length < 0 || length >= 1LL << 32 || !encoded_all(&p, 0x91, given[0])
        || !(length < 1 << 8 ? number(&p, 0xc4, (uint64_t)length, 1)
             : length < 1 << 16 ? number(&p, 0xc5, (uint64_t)length, 2) : number(&p, 0xc6, (uint64_t)length, 4)))
        return in_python(1, given, count);
    PyObject *head = PyBytes_FromStringAndSize((const char *)buffer, p.at - buffer);
    if (given[2] == Py_None)
        return pair(head, PyBytes_FromStringAndSize(NULL, 0));
    hash h;
    begin(&h);
    put(&h, buffer, (size_t)(p.at - buffer));
    put(&h, PyBytes_AS_STRING(given[2]), (size_t)PyBytes_GET_SIZE(given[2]));
    return pair(head, end(&h));
}

static PyObject *digest_of(PyObject *self, PyObject *data)
{
    (void)self;
    /* OpenSSL is as fast for more bytes, and faster than plain C. */
    if (!is_used || !PyBytes_CheckExact(data) || PyBytes_GET_SIZE(data) > ROOM || blocks == blocks_in_c)
        return in_python(2, &data, 1);
    hash h;
    begin(&h);
    put(&h, PyBytes_AS_STRING(data), (size_t)PyBytes_GET_SIZE(data));
    return end(&h);
}

/* hmac_of(key, message) */
static PyObject *hmac_of(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    (void)self;
    if (!is_used || count != 2 || !PyBytes_CheckExact(given[0]) || !PyBytes_CheckExact(given[1])
        || PyBytes_GET_SIZE(given[0]) > 64 || PyBytes_GET_SIZE(given[1]) > ROOM)
        return in_python(3, given, count);
    uint8_t inner[64] = {0}, outer[64], digest[32];
    memcpy(inner, PyBytes_AS_STRING(given[0]), (size_t)PyBytes_GET_SIZE(given[0]));
    for (int i = 0; i < 64; i++)
        outer[i] = inner[i] ^ 0x5c, inner[i] ^= 0x36;
    hash h;
    begin(&h);
    put(&h, inner, sizeof inner);
    put(&h, PyBytes_AS_STRING(given[1]), (size_t)PyBytes_GET_SIZE(given[1]));
    finish(&h, digest);
    begin(&h);
    put(&h, outer, sizeof outer);
    put(&h, digest, sizeof digest);
    return end(&h);
}

/* numpy's SeedSequence (numpy/random/bit_generator.pyx): four words into which all words of a number are mixed. */

enum { POOL = 4 };

static uint32_t stirred(uint32_t value, uint32_t *hashing, uint32_t by)
{
    value ^= *hashing;
    *hashing *= by;
    value *= *hashing;
    return value ^ value >> 16;
}

static uint32_t mixed(uint32_t one, uint32_t other)
{
    uint32_t both = 0xca01f9ddu * one - 0x4973f715u * other;
    return both ^ both >> 16;
}

/* stream_key(number, spawned): `number` is 32 bytes, big-endian, whose first four are not all zero. */
static PyObject *stream_key(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    (void)self;
    uint32_t words[9], pool[POOL], hashing = 0x43b0d7e5u;
    if (!is_used || count != 2 || !PyBytes_CheckExact(given[0]) || PyBytes_GET_SIZE(given[0]) != 32
        || !PyLong_CheckExact(given[1]))
        return in_python(4, given, count);
    int overflow;
    long long spawned = PyLong_AsLongLongAndOverflow(given[1], &overflow);
    for (int i = 0; i < 8; i++)
        words[i] = word((const uint8_t *)PyBytes_AS_STRING(given[0]) + 4 * (7 - i));
    if (overflow || spawned < 0 || spawned >= 1LL << 32 || words[7] == 0)
        return in_python(4, given, count);
    words[8] = (uint32_t)spawned;
    for (int i = 0; i < POOL; i++)
        pool[i] = stirred(words[i], &hashing, 0x931e8875u);
    for (int from = 0; from < POOL; from++)
        for (int to = 0; to < POOL; to++)
            if (from != to)
                pool[to] = mixed(pool[to], stirred(pool[from], &hashing, 0x931e8875u));
    for (int from = POOL; from < 9; from++)
        for (int to = 0; to < POOL; to++)
            pool[to] = mixed(pool[to], stirred(words[from], &hashing, 0x931e8875u));
    uint64_t key[2] = {0, 0};
    hashing = 0x8b51f9ddu;
    for (int i = 0; i < POOL; i++)
        key[i / 2] |= (uint64_t)stirred(pool[i], &hashing, 0x58f38dedu) << (i % 2 ? 32 : 0);
    return PyBytes_FromStringAndSize((const char *)key, sizeof key);
}

/* fall_back_on(chained, framed, digest_of, hmac_of, stream_key): the functions in Python. */
static PyObject *fall_back_on(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    (void)self;
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "fall_back_on takes five functions");
        return NULL;
    }
    for (int i = 0; i < 5; i++)
        Py_XSETREF(fallbacks[i], Py_NewRef(given[i]));
    Py_RETURN_NONE;
}

/* use(where): compute in Python (0), in plain C (1), or with the processor's instructions (2), if it has them. Returns
   what was used before. */
static PyObject *use(PyObject *self, PyObject *where)
{
    (void)self;
    long wanted = PyLong_AsLong(where), before = !is_used ? 0 : blocks == blocks_in_c ? 1 : 2;
    if (wanted == -1 && PyErr_Occurred())
        return NULL;
    is_used = wanted > 0;
    blocks = wanted == 2 && has_instructions() ? blocks_by_instructions : blocks_in_c;
    return PyLong_FromLong(before);
}

static PyMethodDef functions[] = {
    {"chained", (PyCFunction)(void (*)(void))chained, METH_FASTCALL, NULL},
    {"framed", (PyCFunction)(void (*)(void))framed, METH_FASTCALL, NULL},
    {"digest_of", digest_of, METH_O, NULL},
    {"hmac_of", (PyCFunction)(void (*)(void))hmac_of, METH_FASTCALL, NULL},
    {"stream_key", (PyCFunction)(void (*)(void))stream_key, METH_FASTCALL, NULL},
    {"fall_back_on", (PyCFunction)(void (*)(void))fall_back_on, METH_FASTCALL, NULL},
    {"use", use, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_digests", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__digests(void)
{
    if (has_instructions())
        blocks = blocks_by_instructions;
    return PyModule_Create(&module);
}
