/* Walks the bytes of one fetched partition: stretches of regular batches, and the place where one is irregular. */
#include "native.h"

typedef struct {
    int64_t wanted;          /* the first source offset that is not copied yet */
    int64_t most;            /* the target's largest batch, in bytes */
    int64_t small_plain;     /* batches up to this size, in bytes, may be merged */
    int64_t small_compressed;
    int committed;           /* a transactional batch is a committed one */
} Rules;

typedef struct {
    Py_ssize_t at, end;
    int64_t batches, base_offset, records, codec, first_timestamp, max_timestamp, leader_epoch;
    int is_small;
} Stretch;

enum { REGULAR, IRREGULAR, ENDED };

/* Judges the batch at `at` as far as its length goes; `whole`: its size in bytes. */
static int measure(const uint8_t *data, Py_ssize_t at, Py_ssize_t end, int is_first, int64_t *whole) {
    static const int32_t least[3] = {14, 22, HEADER_BYTES - LOG_OVERHEAD_BYTES};
    if (end - at < PREFIX_BYTES)
        return is_first && at < end ? IRREGULAR : ENDED;
    int8_t magic = (int8_t)data[at + MAGIC_AT];
    int32_t length = read_i32(data + at + LENGTH_AT);
    if (magic < 0 || magic > 2 || length < least[magic])
        return IRREGULAR;
    *whole = (int64_t)length + LOG_OVERHEAD_BYTES;
    if (*whole > (int64_t)(end - at))
        return is_first ? IRREGULAR : ENDED;
    return magic == 2 ? REGULAR : IRREGULAR;
}

/* Whether the whole v2 batch of `whole` bytes passes as it is (engine/wire/verdict.py, rule 10). */
static int passes(const uint8_t *batch, int64_t whole, int64_t expected, const Rules *rules) {
    int64_t offset = read_i64(batch + BASE_OFFSET_AT);
    int32_t last_delta = read_i32(batch + LAST_DELTA_AT), records = read_i32(batch + COUNT_AT);
    uint16_t attributes = read_u16(batch + ATTRIBUTES_AT);
    if (offset < expected || offset < rules->wanted || last_delta < 0 || records <= 0)
        return 0;
    if ((int64_t)records != (int64_t)last_delta + 1 || offset > INT64_MAX - records || whole > rules->most)
        return 0;
    if (attributes & (CONTROL_BIT | LOG_APPEND_BIT) || (attributes & TRANSACTIONAL_BIT && !rules->committed))
        return 0;
    return crc32c(batch + ATTRIBUTES_AT, (size_t)(whole - ATTRIBUTES_AT)) == read_u32(batch + CRC_AT);
}

/* As BatchHeader.first_timestamp, without log-append time. */
static int64_t first_timestamp(const uint8_t *batch) {
    int64_t base = read_i64(batch + BASE_TIMESTAMP_AT), newest = read_i64(batch + MAX_TIMESTAMP_AT);
    return base < 0 || base > newest || read_u16(batch + ATTRIBUTES_AT) & HORIZON_BIT ? newest : base;
}

static int add_row(PyObject *rows, const Stretch *s) {
    if (s->batches == 0)
        return 0;
    PyObject *row = Py_BuildValue(
        "(nnLLLLLLL)", s->at, s->end, (long long)s->batches, (long long)s->base_offset, (long long)s->records,
        (long long)s->codec, (long long)s->first_timestamp, (long long)s->max_timestamp, (long long)s->leader_epoch);
    if (row == NULL)
        return -1;
    int failed = PyList_Append(rows, row);
    Py_DECREF(row);
    return failed;
}

/* Adds the batch to the stretch before it, or begins another one. */
static int join(PyObject *rows, Stretch *s, const uint8_t *data, Py_ssize_t at, int64_t whole, const Rules *rules) {
    const uint8_t *batch = data + at;
    int64_t offset = read_i64(batch + BASE_OFFSET_AT), records = read_i32(batch + COUNT_AT);
    int64_t codec = read_u16(batch + ATTRIBUTES_AT) & CODEC_MASK, newest = read_i64(batch + MAX_TIMESTAMP_AT);
    int64_t epoch = read_i32(batch + EPOCH_AT);
    int is_small = codec <= LAST_CODEC && whole <= (codec ? rules->small_compressed : rules->small_plain);
    if (s->batches != 0 && s->is_small && is_small && offset == s->base_offset + s->records) {
        s->end = at + (Py_ssize_t)whole;
        s->batches++;
        s->records += records;
        s->codec = s->codec ? s->codec : codec;
        s->max_timestamp = newest > s->max_timestamp ? newest : s->max_timestamp;
        s->leader_epoch = epoch > s->leader_epoch ? epoch : s->leader_epoch;
        return 0;
    }
    if (add_row(rows, s) < 0)
        return -1;
    *s = (Stretch){at, at + (Py_ssize_t)whole, 1, offset, records, codec, first_timestamp(batch), newest, epoch, is_small};
    return 0;
}

static PyObject *walk(
    const uint8_t *data, Py_ssize_t start, Py_ssize_t end, int64_t expected, int is_first, const Rules *rules) {
    PyObject *rows = PyList_New(0);
    Stretch stretch = {0};
    Py_ssize_t at = start;
    int64_t whole = 0;
    int found = REGULAR;
    while (rows != NULL) {
        found = measure(data, at, end, is_first && at == start, &whole);
        if (found == REGULAR && !passes(data + at, whole, expected, rules))
            found = IRREGULAR;
        if (found != REGULAR)
            break;
        if (join(rows, &stretch, data, at, whole, rules) < 0) {
            Py_CLEAR(rows);
            break;
        }
        expected = read_i64(data + at) + read_i32(data + at + COUNT_AT);
        at += (Py_ssize_t)whole;
    }
    if (rows == NULL || add_row(rows, &stretch) < 0) {
        Py_XDECREF(rows);
        return NULL;
    }
    return Py_BuildValue("(NnLN)", rows, at, (long long)expected, PyBool_FromLong(found == ENDED));
}

/* survey(buffer, start, end, expected, is_first, wanted, most, small_plain, small_compressed, committed)
 * -> (rows, where it stopped, offset expected there, whether nothing whole is left) */
PyObject *native_survey(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    int64_t n[9];
    Py_buffer view;
    if (check_count("survey", count, 10) < 0 || read_numbers(args, 1, 9, n) < 0)
        return NULL;
    if (PyObject_GetBuffer(args[0], &view, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *found = NULL;
    if (n[0] < 0 || n[0] > n[1] || n[1] > view.len) {
        PyErr_Format(PyExc_ValueError, "survey: %lld to %lld of %zd bytes", (long long)n[0], (long long)n[1], view.len);
    } else {
        Rules rules = {n[4], n[5], n[6], n[7], n[8] != 0};
        found = walk(view.buf, (Py_ssize_t)n[0], (Py_ssize_t)n[1], n[2], n[3] != 0, &rules);
    }
    PyBuffer_Release(&view);
    return found;
}
