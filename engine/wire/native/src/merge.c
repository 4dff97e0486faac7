/* Writes the records of consecutive batches as the records of one batch: engine/wire/areas.py in C. */
#include "native.h"

#include <stdlib.h>

enum { LONGEST_VARINT = 10, LEAST_RECORD = 7, GROWTH = 5 + LONGEST_VARINT + 5 };
enum { WRITTEN, UNFIT, FULL, FAILED };

/* Some records of one source batch, as in engine/wire/areas.py. */
typedef struct {
    const uint8_t *raw;
    Py_ssize_t at, end;
    int64_t records, before, last_delta, base_offset, base_timestamp;
    int is_flat; /* every record has the base timestamp */
} Source;

typedef struct {
    int64_t index, source_offset;
} Run;

/* The batch that is written; `size` and `room` in bytes. */
typedef struct {
    uint8_t *bytes;
    size_t size, room, most;
    Run *runs;
    size_t run_count, run_room;
    int64_t records, base_timestamp, max_delta, next_offset;
} Target;

/* Where a merge is, and what it has used. */
typedef struct {
    Py_ssize_t region, at, batches;
    int64_t next_offset;
} Place;

/* Opens compressed batches of a merge; each number is what is left of what the caller allows. */
typedef struct {
    int64_t bytes_left, inflated_left, batches_left, records_left;
    int64_t opening_left; /* what it costs to open them: engine/wire/merging/merge.py */
    PyObject *decompress, *held; /* the bytes that the present source is in */
    Inflated inflated;
} Opener;

/* Reads a varint below `end`; 0 if it is none. Excess bits of the tenth byte are dropped, as in engine/wire/varint.py. */
static inline int read_varint(const uint8_t *raw, Py_ssize_t *at, Py_ssize_t end, int64_t *value) {
    uint64_t bits = 0;
    for (int index = 0; index < LONGEST_VARINT && *at < end; index++) {
        uint8_t byte = raw[(*at)++];
        bits |= (uint64_t)(byte & 0x7F) << (7 * index);
        if (byte < 0x80) {
            *value = (int64_t)((bits >> 1) ^ (0 - (bits & 1)));
            return 1;
        }
    }
    return 0;
}

static inline size_t write_varint(uint8_t *out, int64_t value) {
    uint64_t bits = ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
    size_t size = 0;
    for (; bits > 0x7F; bits >>= 7)
        out[size++] = (uint8_t)(bits | 0x80);
    out[size++] = (uint8_t)bits;
    return size;
}

static int add_run(Target *t, int64_t index, int64_t source_offset) {
    if (t->run_count == t->run_room) {
        size_t room = 2 * t->run_room + 8;
        Run *grown = realloc(t->runs, room * sizeof(Run));
        if (grown == NULL)
            return 0;
        t->runs = grown;
        t->run_room = room;
    }
    t->runs[t->run_count++] = (Run){index, source_offset};
    return 1;
}

/* Appends the record at `*at`; `*delta`: the offset delta before it, and then its own. */
static int add_record(Target *t, const Source *s, int64_t shift_ms, Py_ssize_t *at, int64_t *delta) {
    Py_ssize_t start = *at, next = start;
    int64_t length, timestamp_delta, offset_delta, new_timestamp_delta;
    if (!read_varint(s->raw, &next, s->end, &length) || next >= s->end)
        return UNFIT;
    Py_ssize_t body = next++; /* past the attributes */
    if (!read_varint(s->raw, &next, s->end, &timestamp_delta))
        return UNFIT;
    Py_ssize_t delta_at = next;
    if (!read_varint(s->raw, &next, s->end, &offset_delta))
        return UNFIT;
    Py_ssize_t tail = next;
    if (length <= tail - body || length > s->end - body)
        return UNFIT;
    Py_ssize_t end = body + (Py_ssize_t)length;
    if (offset_delta <= *delta || offset_delta > s->last_delta)
        return UNFIT;
    if (s->is_flat)
        new_timestamp_delta = shift_ms;
    else if (__builtin_add_overflow(timestamp_delta, shift_ms, &new_timestamp_delta))
        return UNFIT;
    int64_t source_offset = s->base_offset + offset_delta;
    if (!make_room(&t->bytes, &t->room, t->size, (size_t)(end - start) + GROWTH))
        return FAILED;
    if (source_offset != t->next_offset || t->run_count == 0) {
        if (!add_run(t, t->records, source_offset))
            return FAILED;
    }
    uint8_t *out = t->bytes + t->size;
    if (offset_delta == t->records && shift_ms == 0 && !s->is_flat) {
        memcpy(out, s->raw + start, (size_t)(end - start));
        out += end - start;
    } else {
        uint8_t stamps[2 * LONGEST_VARINT];
        size_t stamps_size;
        if (shift_ms == 0 && !s->is_flat) { /* the timestamp delta as it is written, perhaps with more bytes than needed */
            stamps_size = (size_t)(delta_at - body - 1);
            memcpy(stamps, s->raw + body + 1, stamps_size);
        } else {
            stamps_size = write_varint(stamps, new_timestamp_delta);
        }
        stamps_size += write_varint(stamps + stamps_size, t->records);
        size_t rest = (size_t)(end - tail);
        out += write_varint(out, (int64_t)(1 + stamps_size + rest));
        *out++ = s->raw[body];
        memcpy(out, stamps, stamps_size);
        out += stamps_size;
        memcpy(out, s->raw + tail, rest);
        out += rest;
    }
    t->size = (size_t)(out - t->bytes);
    t->records++;
    t->next_offset = source_offset + 1;
    if (new_timestamp_delta > t->max_delta)
        t->max_delta = new_timestamp_delta;
    *at = end;
    *delta = offset_delta;
    return WRITTEN;
}

/* Appends all records of a source, or none of them. */
static int add_source(Target *t, const Source *s) {
    Target before = *t;
    Py_ssize_t at = s->at;
    int64_t delta = s->before, shift_ms;
    int found = WRITTEN;
    if (s->records < 0 || s->records > (s->end - s->at) / LEAST_RECORD || s->last_delta > INT32_MAX)
        return UNFIT;
    if (s->base_offset < 0 || s->base_offset > INT64_MAX - INT32_MAX - 1)
        return UNFIT;
    if (__builtin_sub_overflow(s->base_timestamp, t->base_timestamp, &shift_ms))
        return UNFIT;
    if (t->records > INT32_MAX - s->records)
        return FULL;
    for (int64_t index = 0; index < s->records && found == WRITTEN; index++) {
        found = add_record(t, s, shift_ms, &at, &delta);
        if (found == WRITTEN && t->size > t->most)
            found = FULL;
    }
    if (found == WRITTEN && at != s->end)
        found = UNFIT;
    if (found != WRITTEN) {
        t->size = before.size;
        t->run_count = before.run_count;
        t->records = before.records;
        t->max_delta = before.max_delta;
        t->next_offset = before.next_offset;
    }
    return found;
}

static PyObject *runs_of(const Target *t) {
    PyObject *runs = PyTuple_New((Py_ssize_t)t->run_count);
    for (size_t index = 0; runs != NULL && index < t->run_count; index++) {
        const Run *run = &t->runs[index];
        PyObject *pair = Py_BuildValue("(LL)", (long long)run->index, (long long)run->source_offset);
        if (pair == NULL || PyTuple_SetItem(runs, (Py_ssize_t)index, pair) < 0)
            Py_CLEAR(runs);
    }
    return runs;
}

static void free_target(Target *t) {
    free(t->bytes);
    free(t->runs);
}

/* Puts the header before the written records and returns the whole batch. NULL if a timestamp is beyond 64 bits. */
static PyObject *sealed(Target *t) {
    int64_t newest;
    if (__builtin_add_overflow(t->base_timestamp, t->max_delta, &newest)) {
        PyErr_SetString(PyExc_OverflowError, "a timestamp beyond 64 bits");
        return NULL;
    }
    uint8_t *batch = t->bytes;
    memset(batch, 0, HEADER_BYTES);
    write_u32(batch + LENGTH_AT, (uint32_t)(t->size - LOG_OVERHEAD_BYTES));
    write_u32(batch + EPOCH_AT, UINT32_MAX);
    batch[MAGIC_AT] = 2;
    write_u32(batch + LAST_DELTA_AT, (uint32_t)(t->records - 1));
    write_u64(batch + BASE_TIMESTAMP_AT, (uint64_t)t->base_timestamp);
    write_u64(batch + MAX_TIMESTAMP_AT, (uint64_t)(newest < -1 ? -1 : newest));
    write_u64(batch + PRODUCER_ID_AT, UINT64_MAX);
    write_u16(batch + PRODUCER_EPOCH_AT, UINT16_MAX);
    write_u32(batch + BASE_SEQUENCE_AT, UINT32_MAX);
    write_u32(batch + COUNT_AT, (uint32_t)t->records);
    write_u32(batch + CRC_AT, crc32c(batch + ATTRIBUTES_AT, t->size - ATTRIBUTES_AT));
    return PyByteArray_FromStringAndSize((const char *)batch, (Py_ssize_t)t->size);
}

/* Describes the batch at `at` as a source of plain records; `*whole`: its size in bytes. UNFIT if it is no whole v2
 * batch of records. */
static int describe(const uint8_t *data, Py_ssize_t at, Py_ssize_t end, Source *s, int64_t *whole) {
    if (end - at < HEADER_BYTES || data[at + MAGIC_AT] != 2)
        return UNFIT;
    const uint8_t *batch = data + at;
    int64_t size = (int64_t)read_i32(batch + LENGTH_AT) + LOG_OVERHEAD_BYTES;
    if (size < HEADER_BYTES || size > (int64_t)(end - at))
        return UNFIT;
    *whole = size;
    uint16_t attributes = read_u16(batch + ATTRIBUTES_AT);
    if (attributes & CONTROL_BIT || read_i32(batch + COUNT_AT) <= 0)
        return UNFIT;
    *s = (Source){
        .raw = data,
        .at = at + HEADER_BYTES,
        .end = at + (Py_ssize_t)size,
        .records = read_i32(batch + COUNT_AT),
        .before = -1,
        .last_delta = read_i32(batch + LAST_DELTA_AT),
        .base_offset = read_i64(batch + BASE_OFFSET_AT),
        .is_flat = (attributes & LOG_APPEND_BIT) != 0,
    };
    s->base_timestamp = read_i64(batch + (s->is_flat ? MAX_TIMESTAMP_AT : BASE_TIMESTAMP_AT));
    return WRITTEN;
}

static int codec_of(const uint8_t *batch) { return read_u16(batch + ATTRIBUTES_AT) & CODEC_MASK; }

static int open_plain(const uint8_t *data, Py_ssize_t at, Py_ssize_t end, Source *s, int64_t *whole) {
    int found = describe(data, at, end, s, whole);
    return found == WRITTEN && codec_of(data + at) != NONE ? UNFIT : found;
}

/* Lets Python inflate the records of a source. FULL if they do not inflate, or to more than what is left. */
static int inflate_in_python(Opener *o, int codec, Source *s) {
    const char *stored = (const char *)s->raw + s->at;
    PyObject *raw = PyObject_CallFunction(o->decompress, "iy#L", codec, stored, s->end - s->at, (long long)o->inflated_left);
    if (raw == NULL || raw == Py_None) {
        Py_XDECREF(raw);
        return raw == NULL ? FAILED : FULL;
    }
    Py_XDECREF(o->held);
    o->held = raw;
    char *bytes;
    if (PyBytes_AsStringAndSize(raw, &bytes, &s->end) < 0)
        return FAILED;
    s->raw = (const uint8_t *)bytes;
    s->at = 0;
    return WRITTEN;
}

static int inflate_source(Opener *o, int codec, Source *s) {
    if (codec != LZ4)
        return inflate_in_python(o, codec, s);
    switch (lz4_inflate(s->raw + s->at, (size_t)(s->end - s->at), (size_t)o->inflated_left, &o->inflated)) {
    case LZ4_INFLATED:
        s->raw = o->inflated.bytes;
        s->at = 0;
        s->end = (Py_ssize_t)o->inflated.size;
        return WRITTEN;
    case LZ4_TOO_LARGE:
        return FULL;
    case LZ4_NO_MEMORY:
        return FAILED;
    default:
        return inflate_in_python(o, codec, s);
    }
}

/* Describes the batch at `at`, of any codec, by its inflated records. FULL if the merge ends before it. */
static int open_any(Opener *o, const uint8_t *data, Py_ssize_t at, Py_ssize_t end, Source *s, int64_t *whole) {
    static const int opening[LAST_CODEC + 1] = {0, 4, 1, 0, 8}; /* none, gzip, snappy, lz4, zstd */
    if (describe(data, at, end, s, whole) != WRITTEN)
        return FULL;
    int codec = codec_of(data + at), found = WRITTEN;
    o->bytes_left -= *whole - HEADER_BYTES;
    o->records_left -= s->records;
    if (codec > LAST_CODEC)
        return FULL;
    o->opening_left -= opening[codec];
    if (o->bytes_left < 0 || o->records_left < 0 || o->opening_left < 0 || o->batches_left-- <= 0)
        return FULL;
    if (codec != NONE)
        found = inflate_source(o, codec, s);
    if (found == WRITTEN && (o->inflated_left -= s->end - s->at) < 0)
        return FULL;
    return found;
}

/* Chooses the base timestamp of a merged batch: the first source's, or its first record's if it has a delete horizon
 * there. 0 if that record cannot be read. */
static int choose_base(Target *t, const uint8_t *batch, const Source *s) {
    Py_ssize_t at = s->at;
    int64_t length, delta;
    t->base_timestamp = s->base_timestamp;
    if (s->is_flat || !(read_u16(batch + ATTRIBUTES_AT) & HORIZON_BIT))
        return 1;
    if (!read_varint(s->raw, &at, s->end, &length) || ++at >= s->end || !read_varint(s->raw, &at, s->end, &delta))
        return 0;
    return !__builtin_add_overflow(s->base_timestamp, delta, &t->base_timestamp);
}

/* Merges the batches of one region from `place->at` on; `o`: NULL for plain batches alone. Returns WRITTEN at the
 * region's end, else why it stopped before. */
static int merge_region(Target *t, Opener *o, const Py_buffer *view, Place *place) {
    const uint8_t *data = view->buf;
    while (place->at < view->len) {
        Source source;
        int64_t whole;
        int found = o == NULL ? open_plain(data, place->at, view->len, &source, &whole)
                              : open_any(o, data, place->at, view->len, &source, &whole);
        if (found == WRITTEN) {
            int is_based = place->batches != 0 || choose_base(t, data + place->at, &source);
            found = is_based ? add_source(t, &source) : UNFIT;
        }
        if (found != WRITTEN)
            return found;
        place->at += (Py_ssize_t)whole;
        place->next_offset = source.base_offset + source.last_delta + 1;
        place->batches++;
    }
    return WRITTEN;
}

static int merge_regions(Target *t, Opener *o, PyObject *regions, Place *place) {
    Py_ssize_t many = PySequence_Size(regions);
    int found = many < 0 ? FAILED : WRITTEN;
    while (found == WRITTEN && place->region < many) {
        Py_buffer view;
        PyObject *one = PySequence_GetItem(regions, place->region);
        if (one == NULL || PyObject_GetBuffer(one, &view, PyBUF_SIMPLE) < 0) {
            Py_XDECREF(one);
            found = FAILED;
            break;
        }
        size_t guess = (size_t)view.len < t->most ? (size_t)view.len : t->most;
        found = make_room(&t->bytes, &t->room, t->size, HEADER_BYTES + guess) ? merge_region(t, o, &view, place) : FAILED;
        PyBuffer_Release(&view);
        Py_DECREF(one);
        if (found == WRITTEN) {
            place->region++;
            place->at = 0;
        }
    }
    if (found == FAILED && !PyErr_Occurred())
        PyErr_NoMemory();
    return found;
}

/* merge(regions, most) -> (batch or None, records, runs, next offset, batches, index of region, index in it) */
PyObject *native_merge(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    int64_t most;
    if (check_count("merge", count, 2) < 0 || read_numbers(args, 1, 1, &most) < 0)
        return NULL;
    Target t = {.size = HEADER_BYTES, .most = most < 0 ? 0 : (size_t)(most > INT32_MAX ? INT32_MAX : most), .max_delta = INT64_MIN};
    Place p = {.next_offset = -1};
    PyObject *answer = NULL;
    int found = merge_regions(&t, NULL, args[0], &p);
    if (found != FAILED && p.batches == 0) {
        answer = Py_BuildValue("(OL()Lnnn)", Py_None, 0LL, -1LL, (Py_ssize_t)0, p.region, p.at);
    } else if (found != FAILED) {
        PyObject *batch = sealed(&t);
        PyObject *runs = batch == NULL ? NULL : runs_of(&t);
        if (runs == NULL)
            Py_XDECREF(batch);
        else
            answer = Py_BuildValue("(NLNLnnn)", batch, (long long)t.records, runs, (long long)p.next_offset, p.batches, p.region, p.at);
    }
    free_target(&t);
    return answer;
}

/* merge_areas(regions, most bytes, most inflated bytes, most batches, most cost of opening them, decompress)
 * -> (area, records, runs, next offset, batches, index of region, index in it, base timestamp, largest delta)
 * The merge ends before a batch that does not hold what it says. decompress(codec, bytes, most) -> bytes, or None if
 * that cannot be. */
PyObject *native_merge_areas(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    int64_t n[4];
    if (check_count("merge_areas", count, 6) < 0 || read_numbers(args, 1, 4, n) < 0)
        return NULL;
    for (int index = 0; index < 4; index++)
        n[index] = n[index] < 0 ? 0 : n[index] > INT32_MAX ? INT32_MAX : n[index];
    Target t = {.most = PY_SSIZE_T_MAX, .next_offset = -1, .max_delta = INT64_MIN};
    Opener o = {
        .bytes_left = n[0] - HEADER_BYTES,
        .inflated_left = n[1],
        .batches_left = n[2],
        .opening_left = n[3],
        .records_left = INT32_MAX,
        .decompress = args[5],
    };
    Place p = {.next_offset = -1};
    PyObject *answer = NULL;
    if (merge_regions(&t, &o, args[0], &p) != FAILED) {
        PyObject *area = PyBytes_FromStringAndSize((const char *)t.bytes, (Py_ssize_t)t.size);
        PyObject *runs = area == NULL ? NULL : runs_of(&t);
        if (runs == NULL)
            Py_XDECREF(area);
        else
            answer = Py_BuildValue(
                "(NLNLnnnLL)", area, (long long)t.records, runs, (long long)p.next_offset, p.batches, p.region, p.at,
                (long long)t.base_timestamp, (long long)t.max_delta);
    }
    Py_XDECREF(o.held);
    free(o.inflated.bytes);
    free_target(&t);
    return answer;
}

/* write_areas([(raw, at, end, records, before, last delta, base offset, base timestamp, is flat), ...], base timestamp)
 * -> (area, runs, last source offset + 1, largest timestamp delta) or None if a source does not hold what it says */
PyObject *native_write_areas(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    Target t = {.most = PY_SSIZE_T_MAX, .next_offset = -1, .max_delta = INT64_MIN};
    if (check_count("write_areas", count, 2) < 0 || read_numbers(args, 1, 1, &t.base_timestamp) < 0)
        return NULL;
    Py_ssize_t sources = PySequence_Size(args[0]);
    int found = sources < 0 ? FAILED : WRITTEN;
    for (Py_ssize_t index = 0; found == WRITTEN && index < sources; index++) {
        PyObject *one = PySequence_GetItem(args[0], index), *raw;
        Py_buffer view;
        long long n[7];
        int is_flat;
        found = FAILED;
        if (one != NULL && PyTuple_Check(one) &&
            PyArg_ParseTuple(one, "OLLLLLLLp", &raw, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6], &is_flat) &&
            PyObject_GetBuffer(raw, &view, PyBUF_SIMPLE) == 0) {
            if (n[0] < 0 || n[0] > n[1] || n[1] > view.len) {
                PyErr_Format(PyExc_ValueError, "write_areas: %lld to %lld of %zd bytes", n[0], n[1], view.len);
            } else {
                Source source = {view.buf, (Py_ssize_t)n[0], (Py_ssize_t)n[1], n[2], n[3], n[4], n[5], n[6], is_flat};
                found = make_room(&t.bytes, &t.room, t.size, (size_t)(n[1] - n[0])) ? add_source(&t, &source) : FAILED;
            }
            PyBuffer_Release(&view);
        } else if (one != NULL && !PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "write_areas: a source is a tuple of nine");
        }
        Py_XDECREF(one);
    }
    PyObject *answer = NULL;
    if (found == UNFIT || found == FULL) {
        answer = Py_None;
        Py_INCREF(answer);
    } else if (found == FAILED) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
    } else {
        PyObject *area = PyBytes_FromStringAndSize((const char *)t.bytes, (Py_ssize_t)t.size);
        PyObject *runs = area == NULL ? NULL : runs_of(&t);
        if (runs == NULL)
            Py_XDECREF(area);
        else
            answer = Py_BuildValue("(NNLL)", area, runs, (long long)t.next_offset, (long long)t.max_delta);
    }
    free_target(&t);
    return answer;
}
