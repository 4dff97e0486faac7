/* The native way of a batch: what its parts share. engine/wire/native/__init__.py says what the module is for.
 *
 * Rules: every read is checked against the end of its buffer first; every number that comes from a batch is unfit until
 * it was checked; what is irregular is never judged here but left to the Python way, which has the words for errors.
 */
#ifndef RAYMIRROR_NATIVE_H
#define RAYMIRROR_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The header of a batch, format v2: engine/wire/header.py. */
enum {
    BASE_OFFSET_AT = 0,
    LENGTH_AT = 8,
    EPOCH_AT = 12,
    MAGIC_AT = 16,
    CRC_AT = 17,
    ATTRIBUTES_AT = 21,
    LAST_DELTA_AT = 23,
    BASE_TIMESTAMP_AT = 27,
    MAX_TIMESTAMP_AT = 35,
    PRODUCER_ID_AT = 43,
    PRODUCER_EPOCH_AT = 51,
    BASE_SEQUENCE_AT = 53,
    COUNT_AT = 57,
    HEADER_BYTES = 61,
    LOG_OVERHEAD_BYTES = 12,
    PREFIX_BYTES = 17,
};

enum { CODEC_MASK = 0x07, LOG_APPEND_BIT = 0x08, TRANSACTIONAL_BIT = 0x10, CONTROL_BIT = 0x20, HORIZON_BIT = 0x40 };
enum { NONE = 0, LZ4 = 3, LAST_CODEC = 4 };

static inline uint16_t read_u16(const uint8_t *p) { return (uint16_t)((uint16_t)p[0] << 8 | p[1]); }

static inline uint32_t read_u32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline uint64_t read_u64(const uint8_t *p) { return (uint64_t)read_u32(p) << 32 | read_u32(p + 4); }
static inline int32_t read_i32(const uint8_t *p) { return (int32_t)read_u32(p); }
static inline int64_t read_i64(const uint8_t *p) { return (int64_t)read_u64(p); }

static inline void write_u16(uint8_t *p, uint16_t value) {
    p[0] = (uint8_t)(value >> 8);
    p[1] = (uint8_t)value;
}

static inline void write_u32(uint8_t *p, uint32_t value) {
    write_u16(p, (uint16_t)(value >> 16));
    write_u16(p + 2, (uint16_t)value);
}

static inline void write_u64(uint8_t *p, uint64_t value) {
    write_u32(p, (uint32_t)(value >> 32));
    write_u32(p + 4, (uint32_t)value);
}

/* crc32c.c */
void crc32c_start(void);
uint32_t crc32c(const uint8_t *data, size_t size);
uint32_t crc32c_by_table(const uint8_t *data, size_t size);
/* The change of a CRC if its message changes in bytes that `after` other bytes follow; `change`: the CRC of the old
 * bytes xor the CRC of the new ones. */
uint32_t crc32c_behind(uint32_t change, size_t after);
int crc32c_in_hardware(void);

/* Makes `bytes`, of which `size` are used, grow by `wanted`; 0 without memory. `room`: how many there are. Here, so that
 * it costs no call for each record. */
static inline int make_room(uint8_t **bytes, size_t *room, size_t size, size_t wanted) {
    if (*room >= size + wanted) /* not a difference: before the first call there may be less room than the header */
        return 1;
    size_t larger = size + *room / 2 + wanted;
    uint8_t *grown = (uint8_t *)realloc(*bytes, larger);
    if (grown == NULL)
        return 0;
    *bytes = grown;
    *room = larger;
    return 1;
}

/* lz4.c: what a frame holds, in memory that is used again; free `bytes` at the end. */
typedef struct {
    uint8_t *bytes;
    size_t size, room;
} Inflated;
enum { LZ4_INFLATED, LZ4_TOO_LARGE, LZ4_UNFIT, LZ4_NO_MEMORY };
/* Replaces what `to` holds by the content of a frame, of at most `most` bytes. */
int lz4_inflate(const uint8_t *frame, size_t size, size_t most, Inflated *to);

/* The functions of the module. */
PyObject *native_survey(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *native_merge(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *native_merge_areas(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *native_write_areas(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *native_restamp(PyObject *self, PyObject *const *args, Py_ssize_t count);

/* Whole-number arguments from `args[from]` on, `wanted` of them; -1 with an exception set if one is none. */
int read_numbers(PyObject *const *args, Py_ssize_t from, Py_ssize_t wanted, int64_t *numbers);
/* -1 with an exception set unless the function got `wanted` arguments. */
int check_count(const char *name, Py_ssize_t count, Py_ssize_t wanted);

#endif
