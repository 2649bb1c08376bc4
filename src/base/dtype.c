/* dtype.c: the table of element types, promotion, and scalar conversion. */
#include "base/dtype.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} table[CT_DTYPES] = {
    [CT_BOOL] = {"bool", 1},       [CT_UINT8] = {"uint8", 1},       [CT_INT8] = {"int8", 1},
    [CT_INT16] = {"int16", 2},     [CT_INT32] = {"int32", 4},       [CT_INT64] = {"int64", 8},
    [CT_FLOAT16] = {"float16", 2}, [CT_BFLOAT16] = {"bfloat16", 2}, [CT_FLOAT32] = {"float32", 4},
    [CT_FLOAT64] = {"float64", 8},
};

const char *ct_dtype_name(ct_dtype dtype) {
    return (unsigned)dtype < CT_DTYPES ? table[dtype].name : "no dtype";
}

size_t ct_dtype_size(ct_dtype dtype) {
    return (unsigned)dtype < CT_DTYPES ? table[dtype].size : 0;
}

ct_dtype ct_dtype_from_name(const char *name) {
    static const struct {
        const char *name;
        ct_dtype dtype;
    } aliases[] = {{"float", CT_FLOAT32}, {"double", CT_FLOAT64}, {"half", CT_FLOAT16},
                   {"long", CT_INT64},    {"int", CT_INT32},      {"short", CT_INT16}};
    for (int d = 0; d < CT_DTYPES; d++)
        if (strcmp(name, table[d].name) == 0)
            return (ct_dtype)d;
    for (size_t a = 0; a < sizeof aliases / sizeof *aliases; a++)
        if (strcmp(name, aliases[a].name) == 0)
            return aliases[a].dtype;
    return CT_DTYPES;
}

bool ct_dtype_is_float(ct_dtype dtype) {
    return dtype >= CT_FLOAT16 && dtype <= CT_FLOAT64;
}

bool ct_dtype_is_int(ct_dtype dtype) {
    return dtype >= CT_UINT8 && dtype <= CT_INT64;
}

ct_dtype ct_dtype_promote(ct_dtype a, ct_dtype b) {
    if (a == b)
        return a;
    if (a > b) {
        ct_dtype swap = a;
        a = b;
        b = swap;
    }
    if (a == CT_UINT8 && b == CT_INT8)
        return CT_INT16; /* the smallest type that holds both */
    if (a == CT_FLOAT16 && b == CT_BFLOAT16)
        return CT_FLOAT32; /* neither holds the other */
    return b;              /* the order of the enum is the order of promotion otherwise */
}

/* Rounds a double to a binary format of `mantissa` stored bits and minimum normal exponent `emin`,
 * to nearest, ties to even; the result is exact in a double. */
static double round_to(double value, int mantissa, int emin) {
    int exponent;
    frexp(value, &exponent); /* |value| in [2^(exponent-1), 2^exponent) */
    int quantum = (exponent - 1 < emin ? emin : exponent - 1) - mantissa;
    return ldexp(nearbyint(ldexp(value, -quantum)), quantum);
}

uint16_t ct_f16_from_f64(double value) {
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    if (isnan(value))
        return sign | 0x7e00;
    double magnitude = fabs(value);
    if (magnitude >= 65520.0)
        return sign | 0x7c00;
    magnitude = round_to(magnitude, 10, -14);
    if (magnitude < 0x1p-14)
        return sign | (uint16_t)(magnitude * 0x1p24);
    int exponent;
    double fraction = frexp(magnitude, &exponent);
    return sign | (uint16_t)((exponent + 14) << 10) | (uint16_t)((fraction * 2 - 1) * 1024);
}

uint16_t ct_bf16_from_f64(double value) {
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    if (isnan(value))
        return sign | 0x7fc0;
    double magnitude = fabs(value);
    if (magnitude >= 0x1.ffp127) /* halfway between the largest and infinity */
        return sign | 0x7f80;
    float rounded = (float)round_to(magnitude, 7, -126);
    uint32_t bits;
    memcpy(&bits, &rounded, 4);
    return sign | (uint16_t)(bits >> 16);
}

float ct_f16_to_f32(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
             mantissa = bits & 1023;
    uint32_t result;
    if (exponent == 31)
        result = sign | 0x7f800000 | mantissa << 13;
    else if (exponent > 0)
        result = sign | (exponent + 112) << 23 | mantissa << 13;
    else {
        float value = (float)mantissa * 0x1p-24f;
        memcpy(&result, &value, 4);
        result |= sign;
    }
    float value;
    memcpy(&value, &result, 4);
    return value;
}

float ct_bf16_to_f32(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}

ct_scalar ct_scalar_float(double value) {
    return (ct_scalar){.is_int = false, .f = value};
}

ct_scalar ct_scalar_int(int64_t value) {
    return (ct_scalar){.is_int = true, .i = value, .f = (double)value};
}

/* As cvttsd2si: what does not fit gives the minimum. */
static int64_t truncate_f64(double value) {
    return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : INT64_MIN;
}

void ct_scalar_store(ct_scalar value, ct_dtype dtype, void *element) {
    double f = value.is_int ? (double)value.i : value.f;
    int64_t i = value.is_int ? value.i : truncate_f64(value.f);
    switch (dtype) {
    case CT_BOOL: *(uint8_t *)element = value.is_int ? value.i != 0 : value.f != 0; break;
    case CT_UINT8: *(uint8_t *)element = (uint8_t)i; break;
    case CT_INT8: *(int8_t *)element = (int8_t)i; break;
    case CT_INT16: *(int16_t *)element = (int16_t)i; break;
    case CT_INT32:
        if (!value.is_int && !(value.f > -2147483649.0 && value.f < 2147483648.0))
            i = INT32_MIN;
        *(int32_t *)element = (int32_t)i;
        break;
    case CT_INT64: *(int64_t *)element = i; break;
    case CT_FLOAT16: *(uint16_t *)element = ct_f16_from_f64(f); break;
    case CT_BFLOAT16: *(uint16_t *)element = ct_bf16_from_f64(f); break;
    case CT_FLOAT32: *(float *)element = value.is_int ? (float)value.i : (float)value.f; break;
    case CT_FLOAT64: *(double *)element = f; break;
    case CT_DTYPES: break;
    }
}

ct_scalar ct_scalar_load(ct_dtype dtype, const void *element) {
    switch (dtype) {
    case CT_BOOL:
    case CT_UINT8: return ct_scalar_int(*(const uint8_t *)element);
    case CT_INT8: return ct_scalar_int(*(const int8_t *)element);
    case CT_INT16: return ct_scalar_int(*(const int16_t *)element);
    case CT_INT32: return ct_scalar_int(*(const int32_t *)element);
    case CT_INT64: return ct_scalar_int(*(const int64_t *)element);
    case CT_FLOAT16: return ct_scalar_float((double)ct_f16_to_f32(*(const uint16_t *)element));
    case CT_BFLOAT16: return ct_scalar_float((double)ct_bf16_to_f32(*(const uint16_t *)element));
    case CT_FLOAT32: return ct_scalar_float((double)*(const float *)element);
    case CT_FLOAT64: return ct_scalar_float(*(const double *)element);
    case CT_DTYPES: break;
    }
    return ct_scalar_int(0);
}
