/* Reads LZ4 frames: engine/wire/frames/lz4.py in C. What is not exactly as the format says is left to the Python way. */
#include "native.h"

enum { FRAME_MAGIC = 0x184D2204, SHORT_HEADER = 7, LONG_HEADER = 15, SIZE_BYTES = 4, CHECKSUM_BYTES = 4 };
enum { VERSION_BITS = 0xE3, INDEPENDENT_BLOCKS = 0x60, CONTENT_SIZE_BIT = 0x08, BLOCK_CHECKSUM_BIT = 0x10 };
enum { LEAST_MATCH = 4, LAST_LITERALS = 5, LAST_MATCH = 12, MOST_EXPANSION = 255 };
#define STORED_BIT 0x80000000u

static inline uint32_t read_u32_le(const uint8_t *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Adds the bytes of a length that four bits do not hold. Every byte adds at most 255, so no sum overflows. */
static int read_more(const uint8_t **at, const uint8_t *end, size_t *length) {
    uint8_t byte;
    do {
        if (*at == end)
            return 0;
        byte = *(*at)++;
        *length += byte;
    } while (byte == 255);
    return 1;
}

/* Repeats the `length` bytes that begin `distance` before `to`; they may overlap. */
static void repeat(uint8_t *to, size_t distance, size_t length) {
    const uint8_t *from = to - distance;
    while (length != 0) {
        size_t step = (size_t)(to - from) < length ? (size_t)(to - from) : length;
        memcpy(to, from, step);
        to += step;
        length -= step;
    }
}

/* Inflates a block to `out`; returns its size, or -1 if it needs more than `room` or is otherwise than the format says:
 * its end is literals, and its last match begins well before the end. */
static Py_ssize_t inflate_block(const uint8_t *at, size_t size, uint8_t *out, size_t room) {
    const uint8_t *end = at + size;
    size_t made = 0, match_at = 0, matches = 0;
    while (at < end) {
        uint8_t token = *at++;
        size_t literals = token >> 4, length = token & 0x0F;
        if (literals == 0x0F && !read_more(&at, end, &literals))
            return -1;
        if (literals > (size_t)(end - at) || literals > room - made)
            return -1;
        memcpy(out + made, at, literals);
        at += literals;
        made += literals;
        if (at == end) {
            int is_end = matches == 0 || (literals >= LAST_LITERALS && made - match_at >= LAST_MATCH);
            return is_end ? (Py_ssize_t)made : -1;
        }
        if (end - at < 2)
            return -1;
        size_t distance = at[0] | (size_t)at[1] << 8;
        at += 2;
        if (length == 0x0F && !read_more(&at, end, &length))
            return -1;
        length += LEAST_MATCH;
        if (distance == 0 || distance > made || length > room - made)
            return -1;
        repeat(out + made, distance, length);
        match_at = made;
        made += length;
        matches++;
    }
    return -1;
}

/* The largest block of a frame, by its BD byte; 0 for a byte that says something else. */
static size_t largest_block(uint8_t descriptor) {
    int step = (descriptor >> 4) - 4;
    return (descriptor & 0x0F) == 0 && step >= 0 && step <= 3 ? (size_t)1 << (16 + 2 * step) : 0;
}

int lz4_inflate(const uint8_t *frame, size_t size, size_t most, Inflated *to) {
    to->size = 0;
    if (size < SHORT_HEADER || read_u32_le(frame) != FRAME_MAGIC || (frame[4] & VERSION_BITS) != INDEPENDENT_BLOCKS)
        return LZ4_UNFIT;
    size_t largest = largest_block(frame[5]), at = frame[4] & CONTENT_SIZE_BIT ? LONG_HEADER : SHORT_HEADER;
    size_t behind = frame[4] & BLOCK_CHECKSUM_BIT ? CHECKSUM_BYTES : 0;
    while (largest != 0 && at <= size && size - at >= SIZE_BYTES) {
        uint32_t word = read_u32_le(frame + at);
        size_t block = word & ~STORED_BIT;
        at += SIZE_BYTES;
        if (block == 0)
            return LZ4_INFLATED;
        if (block > largest || block > size - at)
            return LZ4_UNFIT;
        int is_stored = (word & STORED_BIT) != 0;
        size_t room = is_stored ? block : block > largest / MOST_EXPANSION ? largest : MOST_EXPANSION * block;
        if (!make_room(&to->bytes, &to->room, to->size, room))
            return LZ4_NO_MEMORY;
        Py_ssize_t made = (Py_ssize_t)block;
        if (is_stored)
            memcpy(to->bytes + to->size, frame + at, block);
        else
            made = inflate_block(frame + at, block, to->bytes + to->size, room);
        if (made < 0)
            return LZ4_UNFIT;
        to->size += (size_t)made;
        if (to->size > most)
            return LZ4_TOO_LARGE;
        at += block + behind;
    }
    return LZ4_UNFIT;
}
