/* dtype.h: element types: conversion with one correct rounding (to nearest, ties to even),
 * promotion, and the scalar that a Lua or C number becomes. */
#ifndef CT_BASE_DTYPE_H
#define CT_BASE_DTYPE_H

#include "ctrain.h"

bool ct_dtype_is_float(ct_dtype dtype);
bool ct_dtype_is_int(ct_dtype dtype); /* signed or unsigned, not bool */

/* IEEE binary16 and bfloat16 bits. From double in one
 * rounding; NaN stays NaN whatever its payload. */
uint16_t ct_f16_from_f64(double value);
uint16_t ct_bf16_from_f64(double value);
float ct_f16_to_f32(uint16_t bits);
float ct_bf16_to_f32(uint16_t bits);

/* A number on its way into a tensor: an integer where it has an exact one, else a double. */
typedef struct ct_scalar {
    bool is_int;
    int64_t i;
    double f; /* valid also when is_int */
} ct_scalar;

ct_scalar ct_scalar_float(double value);
ct_scalar ct_scalar_int(int64_t value);
/* Writes one element as a cast would: floats round once, integers wrap, float to integer truncates
 * (out of range and NaN give the type's minimum, as x86 does for int32 and int64), to bool is != 0.
 */
void ct_scalar_store(ct_scalar value, ct_dtype dtype, void *element);
ct_scalar ct_scalar_load(ct_dtype dtype, const void *element);

#endif
