/* CRC-32C (Castagnoli), by the processor's instruction where there is one, else by tables.
 *
 * A CRC is linear: the CRC of a message that is followed by n zero bytes is the message's CRC times x^(8n), modulo the
 * polynomial. So parts are computed side by side, which hides the three cycles that one instruction takes, and a CRC is
 * corrected for changed header bytes without reading the records behind them again.
 */
#include "native.h"

#define POLYNOMIAL 0x82F63B78u /* bits reversed: bit 31 is x^0 */
enum { LONG_LANE = 4096, SHORT_LANE = 256 };

static uint32_t by_byte[8][256];          /* the CRC of a byte that 0 .. 7 zero bytes follow */
static uint32_t power[16][16];            /* [k][j]: x^(8 * j * 16^k) */
static uint32_t past_long[4][256];        /* a CRC, byte by byte, times x^(8 * LONG_LANE) */
static uint32_t past_short[4][256];
static int has_instruction;

/* The product of two polynomials modulo POLYNOMIAL, without a branch. */
static uint32_t times(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (int bit = 31; bit >= 0; bit--) {
        product ^= b & (0u - ((a >> bit) & 1u));
        b = (b >> 1) ^ (POLYNOMIAL & (0u - (b & 1u)));
    }
    return product;
}

static uint32_t power_of_bytes(size_t count) {
    uint32_t found = 0x80000000u; /* x^0 */
    for (int k = 0; count != 0; k++, count >>= 4) {
        if (count & 15)
            found = times(power[k][count & 15], found);
    }
    return found;
}

uint32_t crc32c_behind(uint32_t change, size_t after) {
    for (int k = 0; after != 0; k++, after >>= 4) {
        if (after & 15)
            change = times(power[k][after & 15], change);
    }
    return change;
}

static void fill_lane(uint32_t table[4][256], size_t lane) {
    uint32_t factor = power_of_bytes(lane);
    for (int byte = 0; byte < 4; byte++) {
        for (uint32_t value = 0; value < 256; value++)
            table[byte][value] = times(factor, value << (8 * byte));
    }
}

void crc32c_start(void) {
    for (uint32_t value = 0; value < 256; value++) {
        uint32_t crc = value;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (POLYNOMIAL & (0u - (crc & 1u)));
        by_byte[0][value] = crc;
    }
    for (int behind = 1; behind < 8; behind++) {
        for (int value = 0; value < 256; value++) {
            uint32_t crc = by_byte[behind - 1][value];
            by_byte[behind][value] = (crc >> 8) ^ by_byte[0][crc & 0xFF];
        }
    }
    uint32_t step = 0x80000000u >> 8; /* x^8 */
    for (int k = 0; k < 16; k++) {
        power[k][0] = 0x80000000u;
        for (int j = 1; j < 16; j++)
            power[k][j] = times(power[k][j - 1], step);
        step = times(power[k][15], step); /* to the sixteenth power */
    }
    fill_lane(past_long, LONG_LANE);
    fill_lane(past_short, SHORT_LANE);
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    __builtin_cpu_init();
    has_instruction = __builtin_cpu_supports("sse4.2") != 0;
#endif
}

int crc32c_in_hardware(void) { return has_instruction; }

uint32_t crc32c_by_table(const uint8_t *data, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
    for (; size >= 8; data += 8, size -= 8) {
        crc ^= (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        crc = by_byte[7][crc & 0xFF] ^ by_byte[6][crc >> 8 & 0xFF] ^ by_byte[5][crc >> 16 & 0xFF] ^
              by_byte[4][crc >> 24] ^ by_byte[3][data[4]] ^ by_byte[2][data[5]] ^ by_byte[1][data[6]] ^
              by_byte[0][data[7]];
    }
    for (; size != 0; data++, size--)
        crc = (crc >> 8) ^ by_byte[0][(crc ^ *data) & 0xFF];
    return ~crc;
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <nmmintrin.h>

#define WITH_INSTRUCTION __attribute__((target("sse4.2")))

static inline uint64_t load_64(const uint8_t *p) {
    uint64_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

static inline uint32_t past(uint32_t table[4][256], uint32_t crc) {
    return table[0][crc & 0xFF] ^ table[1][crc >> 8 & 0xFF] ^ table[2][crc >> 16 & 0xFF] ^ table[3][crc >> 24];
}

/* The CRC over three lanes that are computed side by side. */
WITH_INSTRUCTION static inline uint32_t three_lanes(
    uint32_t crc, const uint8_t *data, size_t lane, uint32_t table[4][256]) {
    uint64_t first = crc, second = 0, third = 0;
    for (size_t at = 0; at < lane; at += 8) {
        first = _mm_crc32_u64(first, load_64(data + at));
        second = _mm_crc32_u64(second, load_64(data + lane + at));
        third = _mm_crc32_u64(third, load_64(data + 2 * lane + at));
    }
    crc = past(table, (uint32_t)first) ^ (uint32_t)second;
    return past(table, crc) ^ (uint32_t)third;
}

WITH_INSTRUCTION static uint32_t crc32c_by_instruction(const uint8_t *data, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
    for (; size >= 3 * LONG_LANE; data += 3 * LONG_LANE, size -= 3 * LONG_LANE)
        crc = three_lanes(crc, data, LONG_LANE, past_long);
    for (; size >= 3 * SHORT_LANE; data += 3 * SHORT_LANE, size -= 3 * SHORT_LANE)
        crc = three_lanes(crc, data, SHORT_LANE, past_short);
    uint64_t wide = crc;
    for (; size >= 8; data += 8, size -= 8)
        wide = _mm_crc32_u64(wide, load_64(data));
    crc = (uint32_t)wide;
    for (; size != 0; data++, size--)
        crc = _mm_crc32_u8(crc, *data);
    return ~crc;
}

uint32_t crc32c(const uint8_t *data, size_t size) {
    return has_instruction ? crc32c_by_instruction(data, size) : crc32c_by_table(data, size);
}
#else
uint32_t crc32c(const uint8_t *data, size_t size) { return crc32c_by_table(data, size); }
#endif
