/* element.h: the words of the expressions in ops.def, for float32, float64 and the integers, on GNU vectors and on
 * scalars alike. The eager loops include this file and compiled steps carry its text, so it needs no other
 * header, and its results are the same bits everywhere: every word is IEEE operations and explicit fma, lane by lane;
 * a scalar form is lane 0 of the vector form. It must be compiled with -ffp-contract=off.
 *
 * Types: ct_f32 ct_f64 ct_i8 ct_u8 ct_i16 ct_i32 ct_i64, and with a v behind them vectors of CT_VECTOR bytes, the
 * width of the target's registers. An expression stands where the typedefs ct_t (the type of the value, vector or
 * scalar) and ct_e (its element) are in scope; CT_K reads them. A vector mask is a vector of signed
 * integers of the same width, -1 or 0; a scalar one is an int.
 *
 * Largest error measured against long double, in units of the last place:
 *   float32: exp 1.1, log 0.9, log1p 1.0, expm1 1.0, sin 1.5, cos 1.5, tanh 1.4, sigmoid 2.4, erf 1.0, pow 0.51
 *   float64: exp 1.0, log 0.8, log1p 0.9, expm1 1.5, sin 0.8, cos 0.9, tanh 2.4, sigmoid 2.4, erf 1.0, pow 1.2
 * Infinities, NaN, subnormals and signed zeros are as in C's Annex F. */
#ifndef CT_GRAPH_ELEMENT_H
#define CT_GRAPH_ELEMENT_H

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__)
#define CT_VECTOR 64
#elif defined(__AVX2__) && defined(__FMA__)
#define CT_VECTOR 32
#else
#define CT_VECTOR 16
#endif

#define CT_INLINE static inline __attribute__((always_inline, unused))
#define CT_VECTOR_OF(E) __attribute__((vector_size(CT_VECTOR))) E

typedef float ct_f32;
typedef double ct_f64;
typedef __INT8_TYPE__ ct_i8;
typedef __UINT8_TYPE__ ct_u8;
typedef __INT16_TYPE__ ct_i16;
typedef __UINT16_TYPE__ ct_u16;
typedef __INT32_TYPE__ ct_i32;
typedef __UINT32_TYPE__ ct_u32;
typedef __INT64_TYPE__ ct_i64;
typedef __UINT64_TYPE__ ct_u64;
typedef CT_VECTOR_OF(ct_f32) ct_f32v;
typedef CT_VECTOR_OF(ct_f64) ct_f64v;
typedef CT_VECTOR_OF(ct_i8) ct_i8v;
typedef CT_VECTOR_OF(ct_u8) ct_u8v;
typedef CT_VECTOR_OF(ct_i16) ct_i16v;
typedef CT_VECTOR_OF(ct_u16) ct_u16v;
typedef CT_VECTOR_OF(ct_i32) ct_i32v;
typedef CT_VECTOR_OF(ct_u32) ct_u32v;
typedef CT_VECTOR_OF(ct_i64) ct_i64v;
typedef CT_VECTOR_OF(ct_u64) ct_u64v;
/* vectors of half the width, for what changes width */
typedef __attribute__((vector_size(CT_VECTOR / 2))) ct_f32 ct_f32h;

#define CT_LANES_OF(V, E) ((int)(sizeof(V) / sizeof(E)))

/* ---- Dispatch on the type of the (second) operand ------------------------------------------------- */

#define CT_FLOATS(word, x)                                                                                \
    _Generic((x), ct_f32v: ct_##word##_f32v, ct_f64v: ct_##word##_f64v, ct_f32: ct_##word##_f32,        \
             ct_f64: ct_##word##_f64)
#define CT_INTEGERS(word, x)                                                                              \
    _Generic((x), ct_i8v: ct_##word##_i8v, ct_u8v: ct_##word##_u8v, ct_i16v: ct_##word##_i16v,            \
             ct_i32v: ct_##word##_i32v, ct_i64v: ct_##word##_i64v, ct_i8: ct_##word##_i8,                 \
             ct_u8: ct_##word##_u8, ct_i16: ct_##word##_i16, ct_i32: ct_##word##_i32,                     \
             ct_i64: ct_##word##_i64)
#define CT_ALL(word, x)                                                                                   \
    _Generic((x), ct_f32v: ct_##word##_f32v, ct_f64v: ct_##word##_f64v, ct_i8v: ct_##word##_i8v,          \
             ct_u8v: ct_##word##_u8v, ct_i16v: ct_##word##_i16v, ct_i32v: ct_##word##_i32v,               \
             ct_i64v: ct_##word##_i64v, ct_f32: ct_##word##_f32, ct_f64: ct_##word##_f64,                 \
             ct_i8: ct_##word##_i8, ct_u8: ct_##word##_u8, ct_i16: ct_##word##_i16,                       \
             ct_i32: ct_##word##_i32, ct_i64: ct_##word##_i64)

#define CT_K(c) (-(ct_t){0} + (ct_e)(c))
#define CT_CMP(c) (c)
#define CT_SEL(mask, a, b) CT_ALL(sel, a)(mask, a, b)
#define CT_FMA(a, b, c) CT_FLOATS(fma, a)(a, b, c)
#define CT_ABS(x) CT_FLOATS(abs, x)(x)
#define CT_SQRT(x) CT_FLOATS(sqrt, x)(x)
#define CT_FLOOR(x) CT_FLOATS(floor, x)(x)
#define CT_CEIL(x) CT_FLOATS(ceil, x)(x)
#define CT_ROUND(x) CT_FLOATS(round, x)(x)
#define CT_TRUNC(x) CT_FLOATS(trunc, x)(x)
#define CT_EXP(x) CT_FLOATS(exp, x)(x)
#define CT_LOG(x) CT_FLOATS(log, x)(x)
#define CT_LOG1P(x) CT_FLOATS(log1p, x)(x)
#define CT_EXPM1(x) CT_FLOATS(expm1, x)(x)
#define CT_SIN(x) CT_FLOATS(sin, x)(x)
#define CT_COS(x) CT_FLOATS(cos, x)(x)
#define CT_TANH(x) CT_FLOATS(tanh, x)(x)
#define CT_SIGMOID(x) CT_FLOATS(sigmoid, x)(x)
#define CT_ERF(x) CT_FLOATS(erf, x)(x)
#define CT_POW(x, y) CT_FLOATS(pow, x)(x, y)
#define CT_MOD(x, y) CT_FLOATS(mod, x)(x, y)
#define CT_FLOORDIV(x, y) CT_FLOATS(floordiv, x)(x, y)
/* Integers. Division by zero gives 0 here; the eager loops report it, see elementwise.c. */
#define CT_IMOD(x, y) CT_INTEGERS(imod, x)(x, y)
#define CT_IFLOORDIV(x, y) CT_INTEGERS(ifloordiv, x)(x, y)
#define CT_IPOW(x, y) CT_INTEGERS(ipow, x)(x, y)
#define CT_SHL(x, y) CT_INTEGERS(shl, x)(x, y)
#define CT_SHR(x, y) CT_INTEGERS(shr, x)(x, y)

/* ---- Selection, and the operations a machine may have an instruction for -------------------------- */

#define CT_DEFINE_SEL(S, M)                                                                               \
    CT_INLINE ct_##S##v ct_sel_##S##v(M##v mask, ct_##S##v a, ct_##S##v b) {                              \
        return (ct_##S##v)(((M##v)a & mask) | ((M##v)b & ~mask));                                         \
    }                                                                                                     \
    CT_INLINE ct_##S ct_sel_##S(int mask, ct_##S a, ct_##S b) { return mask ? a : b; }
CT_DEFINE_SEL(f32, ct_i32)
CT_DEFINE_SEL(f64, ct_i64)
CT_DEFINE_SEL(i8, ct_i8)
CT_DEFINE_SEL(u8, ct_i8)
CT_DEFINE_SEL(i16, ct_i16)
CT_DEFINE_SEL(i32, ct_i32)
CT_DEFINE_SEL(i64, ct_i64)

#define CT_DEFINE_LANES(word, builtin)                                                                    \
    CT_INLINE ct_f32v ct_##word##_f32v(ct_f32v x) {                                                       \
        for (int i = 0; i < CT_LANES_OF(ct_f32v, ct_f32); i++)                                            \
            x[i] = builtin##f(x[i]);                                                                      \
        return x;                                                                                         \
    }                                                                                                     \
    CT_INLINE ct_f64v ct_##word##_f64v(ct_f64v x) {                                                       \
        for (int i = 0; i < CT_LANES_OF(ct_f64v, ct_f64); i++)                                            \
            x[i] = builtin(x[i]);                                                                         \
        return x;                                                                                         \
    }

#if CT_VECTOR == 64
CT_INLINE ct_f32v ct_fma_f32v(ct_f32v a, ct_f32v b, ct_f32v c) {
    return (ct_f32v)__builtin_ia32_vfmaddps512_mask(a, b, c, (ct_u16)-1, 4);
}
CT_INLINE ct_f64v ct_fma_f64v(ct_f64v a, ct_f64v b, ct_f64v c) {
    return (ct_f64v)__builtin_ia32_vfmaddpd512_mask(a, b, c, (ct_u8)-1, 4);
}
#ifdef __clang__
CT_INLINE ct_f32v ct_sqrt_f32v(ct_f32v x) { return __builtin_ia32_sqrtps512(x, 4); }
CT_INLINE ct_f64v ct_sqrt_f64v(ct_f64v x) { return __builtin_ia32_sqrtpd512(x, 4); }
#else
CT_INLINE ct_f32v ct_sqrt_f32v(ct_f32v x) {
    return __builtin_ia32_sqrtps512_mask(x, x, (ct_u16)-1, 4);
}
CT_INLINE ct_f64v ct_sqrt_f64v(ct_f64v x) { return __builtin_ia32_sqrtpd512_mask(x, x, (ct_u8)-1, 4); }
#endif
#define CT_DEFINE_ROUND(word, mode)                                                                       \
    CT_INLINE ct_f32v ct_##word##_f32v(ct_f32v x) {                                                       \
        return __builtin_ia32_rndscaleps_mask(x, mode, x, (ct_u16)-1, 4);                                 \
    }                                                                                                     \
    CT_INLINE ct_f64v ct_##word##_f64v(ct_f64v x) {                                                       \
        return __builtin_ia32_rndscalepd_mask(x, mode, x, (ct_u8)-1, 4);                                  \
    }
CT_INLINE int ct_any(ct_i32v mask) { return __builtin_ia32_cvtd2mask512(mask) != 0; }
#elif CT_VECTOR == 32
CT_INLINE ct_f32v ct_fma_f32v(ct_f32v a, ct_f32v b, ct_f32v c) {
    return __builtin_ia32_vfmaddps256(a, b, c);
}
CT_INLINE ct_f64v ct_fma_f64v(ct_f64v a, ct_f64v b, ct_f64v c) {
    return __builtin_ia32_vfmaddpd256(a, b, c);
}
#ifdef __clang__
CT_DEFINE_LANES(sqrt, __builtin_sqrt)
#else
CT_INLINE ct_f32v ct_sqrt_f32v(ct_f32v x) { return __builtin_ia32_sqrtps256(x); }
CT_INLINE ct_f64v ct_sqrt_f64v(ct_f64v x) { return __builtin_ia32_sqrtpd256(x); }
#endif
#define CT_DEFINE_ROUND(word, mode)                                                                       \
    CT_INLINE ct_f32v ct_##word##_f32v(ct_f32v x) { return __builtin_ia32_roundps256(x, mode); }          \
    CT_INLINE ct_f64v ct_##word##_f64v(ct_f64v x) { return __builtin_ia32_roundpd256(x, mode); }
CT_INLINE int ct_any(ct_i32v mask) { return __builtin_ia32_movmskps256((ct_f32v)mask) != 0; }
#else
CT_INLINE ct_f32v ct_fma_f32v(ct_f32v a, ct_f32v b, ct_f32v c) {
    for (int i = 0; i < CT_LANES_OF(ct_f32v, ct_f32); i++)
        a[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return a;
}
CT_INLINE ct_f64v ct_fma_f64v(ct_f64v a, ct_f64v b, ct_f64v c) {
    for (int i = 0; i < CT_LANES_OF(ct_f64v, ct_f64); i++)
        a[i] = __builtin_fma(a[i], b[i], c[i]);
    return a;
}
CT_DEFINE_LANES(sqrt, __builtin_sqrt)
#ifdef __SSE4_1__
#define CT_DEFINE_ROUND(word, mode)                                                                       \
    CT_INLINE ct_f32v ct_##word##_f32v(ct_f32v x) { return __builtin_ia32_roundps(x, mode); }             \
    CT_INLINE ct_f64v ct_##word##_f64v(ct_f64v x) { return __builtin_ia32_roundpd(x, mode); }
#endif
CT_INLINE int ct_any(ct_i32v mask) { return (mask[0] | mask[1] | mask[2] | mask[3]) != 0; }
#endif

#ifdef CT_DEFINE_ROUND
CT_DEFINE_ROUND(round, 8)
CT_DEFINE_ROUND(floor, 9)
CT_DEFINE_ROUND(ceil, 10)
CT_DEFINE_ROUND(trunc, 11)
#else
CT_DEFINE_LANES(round, __builtin_rint)
CT_DEFINE_LANES(floor, __builtin_floor)
CT_DEFINE_LANES(ceil, __builtin_ceil)
CT_DEFINE_LANES(trunc, __builtin_trunc)
#endif

CT_INLINE ct_f32v ct_abs_f32v(ct_f32v x) { return (ct_f32v)((ct_i32v)x & 0x7fffffff); }
CT_INLINE ct_f64v ct_abs_f64v(ct_f64v x) { return (ct_f64v)((ct_i64v)x & 0x7fffffffffffffff); }
/* the magnitude of a with the sign of b */
CT_INLINE ct_f32v ct_sign_f32v(ct_f32v a, ct_f32v b) {
    return (ct_f32v)(((ct_i32v)a & 0x7fffffff) | ((ct_i32v)b & ~0x7fffffff));
}
CT_INLINE ct_f64v ct_sign_f64v(ct_f64v a, ct_f64v b) {
    return (ct_f64v)(((ct_i64v)a & 0x7fffffffffffffff) | ((ct_i64v)b & ~0x7fffffffffffffff));
}
CT_INLINE ct_f32v ct_all_f32v(ct_f32 c) { return -(ct_f32v){0} + c; }
CT_INLINE ct_f64v ct_all_f64v(ct_f64 c) { return -(ct_f64v){0} + c; }

/* ---- float32 ---------------------------------------------------------------------------------------
 * Polynomials are fits at Chebyshev nodes, low coefficients rounded first and the rest fitted again. */

#define CT_F(a, b, c) ct_fma_f32v(a, b, c)
#define CT_C(c) ct_all_f32v(c)

/* x * 2^k in two steps, so that a subnormal result is rounded once; |k| <= 252. */
CT_INLINE ct_f32v ct_scale_f32v(ct_f32v x, ct_i32v k) {
    ct_i32v half = k >> 1;
    return x * (ct_f32v)((half + 127) << 23) * (ct_f32v)((k - half + 127) << 23);
}

CT_INLINE ct_f32v ct_exp_f32v(ct_f32v x) {
    ct_i32v none = x < -104.0f; /* 0, by a way on which no subnormal number slows the machine down */
    ct_f32v c = ct_sel_f32v(x > 89.0f, CT_C(89.0f), x);
    c = ct_sel_f32v(none, CT_C(0.0f), c);
    ct_f32v t = CT_F(c, CT_C(0x1.715476p+0f), CT_C(0x1.8p23f)); /* its low bits are the integer */
    ct_f32v k = t - 0x1.8p23f;
    ct_f32v r = CT_F(k, CT_C(-0x1.62e430p-1f), c);
    r = CT_F(k, CT_C(0x1.05c610p-29f), r);
    ct_f32v p = CT_F(r, CT_C(0x1.6d308ep-10f), CT_C(0x1.120c38p-7f));
    p = CT_F(p, r, CT_C(0x1.5555p-5f));
    p = CT_F(p, r, CT_C(0x1.5554dcp-3f));
    p = CT_F(p, r, CT_C(0.5f));
    p = CT_F(p, r * r, r) + 1.0f;
    p = ct_scale_f32v(p, (ct_i32v)t - 0x4b400000);
    p = ct_sel_f32v(none, CT_C(0.0f), p);
    return ct_sel_f32v(x == x, p, x);
}

CT_INLINE ct_f32v ct_expm1_f32v(ct_f32v x) {
    ct_f32v c = ct_sel_f32v(x > 89.0f, CT_C(89.0f), x);
    c = ct_sel_f32v(x < -18.0f, CT_C(-18.0f), c);
    ct_f32v t = CT_F(c, CT_C(0x1.715476p+0f), CT_C(0x1.8p23f));
    ct_f32v k = t - 0x1.8p23f;
    ct_f32v r = CT_F(k, CT_C(-0x1.62e430p-1f), c);
    r = CT_F(k, CT_C(0x1.05c610p-29f), r);
    ct_f32v p = CT_F(r, CT_C(0x1.a2cb1cp-13f), CT_C(0x1.6d308ep-10f));
    p = CT_F(p, r, CT_C(0x1.110fc8p-7f));
    p = CT_F(p, r, CT_C(0x1.5555p-5f));
    p = CT_F(p, r, CT_C(0x1.555556p-3f));
    p = CT_F(p, r, CT_C(0.5f));
    p = p * (r * r);
    /* 2^k (r + p + 1) - 1, as twice its half, since 2^128 is no float; the low part of r + p is kept */
    ct_f32v high = r + p, low = (r - high) + p;
    ct_f32v s = (ct_f32v)(((ct_i32v)t - 0x4b400000 + 126) << 23);
    ct_f32v d = s - 0.5f, e = ct_sel_f32v(k < 0.0f, (s - (d + 0.5f)), (s - d) - 0.5f);
    e = ct_sel_f32v(k < 0.0f, (-0.5f - d) + s, e);
    ct_f32v a = high * s, sum = d + a;
    ct_f32v big = ct_sel_f32v(ct_abs_f32v(d) > ct_abs_f32v(a), (d - sum) + a, (a - sum) + d);
    ct_f32v y = sum + (big + (e + CT_F(high, s, -a) + low * s));
    y = ct_sel_f32v(k == 0.0f, high, y + y);
    y = ct_sel_f32v(ct_abs_f32v(x) < 0x1p-13f, CT_F(x * 0.5f, x, x), y);
    y = ct_sel_f32v(x == 0.0f, x, y);
    return ct_sel_f32v(x == x, y, x);
}

/* log(1 + f) for f in [2/3 - 1, 4/3 - 1] */
CT_INLINE ct_f32v ct_log_poly_f32v(ct_f32v f) {
    ct_f32v s = f * f;
    ct_f32v p = CT_F(f, CT_C(-0x1.075edep-3f), CT_C(0x1.1ef280p-3f));
    p = CT_F(p, f, CT_C(-0x1.f3643cp-4f));
    p = CT_F(p, f, CT_C(0x1.1eb6cap-3f));
    p = CT_F(p, f, CT_C(-0x1.559a78p-3f));
    p = CT_F(p, f, CT_C(0x1.99d27ep-3f));
    p = CT_F(p, f, CT_C(-0x1.ffff06p-3f));
    p = CT_F(p, f, CT_C(0x1.5555p-2f));
    p = CT_F(p, f, CT_C(-0.5f));
    return p * s;
}

CT_INLINE ct_f32v ct_log_f32v(ct_f32v x) {
    ct_i32v tiny = x < 0x1p-126f;
    ct_f32v c = ct_sel_f32v(tiny, x * 0x1p23f, x);
    ct_i32v e = ((ct_i32v)c - 0x3f2aaaab) & ~0x7fffff;
    ct_f32v f = (ct_f32v)((ct_i32v)c - e) - 1.0f;
    ct_f32v k = __builtin_convertvector(e >> 23, ct_f32v) - ct_sel_f32v(tiny, CT_C(23.0f), CT_C(0.0f));
    ct_f32v y = CT_F(k, CT_C(0x1.62e43p-1f), CT_F(k, CT_C(-0x1.05c61p-29f), ct_log_poly_f32v(f)) + f);
    y = ct_sel_f32v(x == CT_C(__builtin_inff()), x, y);
    y = ct_sel_f32v(x < 0.0f, CT_C(__builtin_nanf("")), y);
    y = ct_sel_f32v(x == 0.0f, CT_C(-__builtin_inff()), y);
    return ct_sel_f32v(x == x, y, x);
}

CT_INLINE ct_f32v ct_log1p_f32v(ct_f32v x) {
    ct_f32v u = 1.0f + x;
    ct_i32v e = ((ct_i32v)u - 0x3f2aaaab) & ~0x7fffff;
    /* (1 + x) 2^-e - 1, with what the sum 1 + x lost put back */
    ct_f32v lost = ct_sel_f32v(x > 1.0f, 1.0f - (u - x), x - (u - 1.0f));
    ct_f32v scale = (ct_f32v)(0x3f800000 - e);
    ct_f32v f = ((ct_f32v)((ct_i32v)u - e) - 1.0f), g = ct_sel_f32v(x > 0x1p30f, CT_C(0.0f), lost * scale);
    ct_f32v k = __builtin_convertvector(e >> 23, ct_f32v);
    /* log(1 + f + g) = log(1 + f) + g / (1 + f) nearly */
    ct_f32v y = CT_F(k, CT_C(-0x1.05c61p-29f), ct_log_poly_f32v(f) + g / (1.0f + f));
    y = CT_F(k, CT_C(0x1.62e43p-1f), y + f);
    y = ct_sel_f32v(e == 0, ct_log_poly_f32v(x) + x, y);
    y = ct_sel_f32v(x == CT_C(__builtin_inff()), x, y);
    y = ct_sel_f32v(x < -1.0f, CT_C(__builtin_nanf("")), y);
    y = ct_sel_f32v(x == -1.0f, CT_C(-__builtin_inff()), y);
    y = ct_sel_f32v(x == 0.0f, x, y);
    return ct_sel_f32v(x == x, y, x);
}

CT_INLINE ct_f32v ct_tanh_f32v(ct_f32v x) {
    ct_f32v a = ct_abs_f32v(x), s = x * x;
    ct_f32v p = CT_F(s, CT_C(-0x1.8f8336p-8f), CT_C(0x1.57feecp-6f));
    p = CT_F(p, s, CT_C(-0x1.b92412p-5f));
    p = CT_F(p, s, CT_C(0x1.110e0cp-3f));
    p = CT_F(p, s, CT_C(-0x1.555552p-2f));
    ct_f32v near = CT_F(p * s, x, x);
    ct_f32v far = 1.0f - 2.0f / (ct_exp_f32v(a + a) + 1.0f);
    ct_f32v y = ct_sign_f32v(ct_sel_f32v(a < 0.625f, near, far), x);
    return ct_sel_f32v(x == x, y, x);
}

CT_INLINE ct_f32v ct_sigmoid_f32v(ct_f32v x) {
    ct_f32v z = ct_exp_f32v(-ct_abs_f32v(x));
    return ct_sel_f32v(x < 0.0f, z, CT_C(1.0f)) / (1.0f + z);
}

CT_INLINE ct_f32v ct_erf_f32v(ct_f32v x) {
    ct_f32v a = ct_abs_f32v(x), s = x * x;
    ct_f32v p = CT_F(s, CT_C(-0x1.393a22p-11f), CT_C(0x1.470e66p-8f));
    p = CT_F(p, s, CT_C(-0x1.b685a2p-6f));
    p = CT_F(p, s, CT_C(0x1.ce1a38p-4f));
    p = CT_F(p, s, CT_C(-0x1.8126e6p-2f));
    p = CT_F(p, s, CT_C(0x1.06eba6p-3f));
    ct_f32v near = CT_F(p, x, x);
    ct_f32v t = ct_sel_f32v(a > 4.0f, CT_C(4.0f), a); /* erfc(t) = exp(t P(t)) */
    ct_f32v q = CT_F(t, CT_C(-0x1.339d44p-18f), CT_C(0x1.5b2bap-15f));
    q = CT_F(q, t, CT_C(0x1.26fd42p-14f));
    q = CT_F(q, t, CT_C(-0x1.875824p-9f));
    q = CT_F(q, t, CT_C(0x1.74eb92p-6f));
    q = CT_F(q, t, CT_C(-0x1.af7bccp-4f));
    q = CT_F(q, t, CT_C(-0x1.456b74p-1f));
    q = CT_F(q, t, CT_C(-0x1.074a8p-3f));
    ct_f32v far = 1.0f - ct_exp_f32v(CT_F(q, t, -t));
    ct_f32v y = ct_sel_f32v(a < 0.925f, near, ct_sign_f32v(far, x));
    return ct_sel_f32v(x == x, y, x);
}

/* ---- Reduction of arguments to sin and cos --------------------------------------------------------- */

/* x = q pi/2 + high + low for any finite x, after Payne and Hanek ("Radian reduction for trigonometric functions",
 * SIGNUM 1983): the fraction of x * 2/pi from the bits of 2/pi that matter. Returns q modulo 4. */
__attribute__((noinline, unused)) static int ct_reduce_huge(ct_f64 x, ct_f64 *high, ct_f64 *low) {
    static const ct_u64 bits[] = {
        0,                  0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
        0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41,
        0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
        0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
        0xf0cfbc209af4361d, 0, 0, 0};
    union {
        ct_f64 f;
        ct_u64 u;
    } as = {x};
    int exponent = (int)(as.u >> 52 & 2047) - 1075; /* |x| = m 2^exponent */
    ct_u64 m = (as.u & 0xfffffffffffff) | 0x10000000000000;
    /* 256 bits of 2/pi that begin so that m times the first of them weighs 2^(64 + at least 2) */
    int skip = exponent + 62;
    ct_u64 w[4];
    for (int i = 0; i < 4; i++) {
        int word = skip / 64 + i, shift = skip % 64;
        w[i] = shift ? bits[word] << shift | bits[word + 1] >> (64 - shift) : bits[word];
    }
    unsigned __int128 p2 = (unsigned __int128)m * w[3];
    unsigned __int128 p1 = (unsigned __int128)m * w[2] + (ct_u64)(p2 >> 64);
    unsigned __int128 p0 = (unsigned __int128)m * w[1] + (ct_u64)(p1 >> 64);
    ct_u64 a = m * w[0] + (ct_u64)(p0 >> 64), b = (ct_u64)p0, c = (ct_u64)p1;
    /* a.b.c is x 2/pi modulo 4, the point behind bit 62 of a */
    int q = (int)(a >> 62);
    a = a << 2 | b >> 62;
    b = b << 2 | c >> 62;
    int negative = a >> 63; /* the fraction is above one half: take it from the next q */
    q += negative;
    if (negative) {
        a = ~a;
        b = ~b;
    }
    int zeros = a ? __builtin_clzll(a) : 64;
    if (zeros) {
        a = zeros < 64 ? a << zeros | b >> (64 - zeros) : b;
        b = zeros < 64 ? b << zeros : 0;
    }
    union {
        ct_u64 u;
        ct_f64 f;
    } scale = {(ct_u64)(1023 - 64 - zeros) << 52};
    ct_f64 h = (ct_f64)(a >> 11) * 0x1p11 * scale.f;
    ct_f64 l = ((ct_f64)(a & 2047) + (ct_f64)b * 0x1p-64) * scale.f;
    *high = h * 0x1.921fb54442d18p+0;
    *low = __builtin_fma(h, 0x1.921fb54442d18p+0, -*high) + h * 0x1.1a62633145c07p-54 + l * 0x1.921fb54442d18p+0;
    if (negative ^ (int)(as.u >> 63)) {
        *high = -*high;
        *low = -*low;
    }
    return (as.u >> 63 ? -q : q) & 3;
}

CT_INLINE ct_i32v ct_reduce_f32v(ct_f32v x, ct_f32v *r) {
    ct_f32v t = CT_F(x, CT_C(0x1.45f306p-1f), CT_C(0x1.8p23f));
    ct_f32v k = t - 0x1.8p23f;
    ct_f32v y = CT_F(k, CT_C(-0x1.921fb6p+0f), x);
    y = CT_F(k, CT_C(0x1.777a5cp-25f), y);
    y = CT_F(k, CT_C(0x1.ee59dap-50f), y);
    ct_i32v q = (ct_i32v)t & 3;
    ct_i32v huge = ct_abs_f32v(x) > 48000.0f;
    if (__builtin_expect(ct_any(huge), 0))
        for (int i = 0; i < CT_LANES_OF(ct_f32v, ct_f32); i++) {
            if (!huge[i])
                continue;
            ct_f64 high = __builtin_nan(""), low = 0;
            if (x[i] - x[i] == 0)
                q[i] = ct_reduce_huge(x[i], &high, &low);
            y[i] = (ct_f32)(high + low);
        }
    *r = y;
    return q;
}

/* sin (odd 0) or cos (odd 1) of q pi/2 + r */
CT_INLINE ct_f32v ct_circle_f32v(ct_i32v q, ct_f32v r, int odd) {
    ct_f32v z = r * r;
    ct_f32v s = CT_F(z, CT_C(0x1.877534p-19f), CT_C(-0x1.a08312p-13f));
    s = CT_F(s, z, CT_C(0x1.111198p-7f));
    s = CT_F(s, z, CT_C(-0x1.555556p-3f));
    s = CT_F(s * z, r, r);
    ct_f32v c = CT_F(z, CT_C(-0x1.58df86p-22f), CT_C(0x1.a0f596p-16f));
    c = CT_F(c, z, CT_C(-0x1.6c17d4p-10f));
    c = CT_F(c, z, CT_C(0x1.555556p-5f));
    c = CT_F(c, z, CT_C(-0.5f));
    c = CT_F(c, z, CT_C(1.0f));
    q = q + odd;
    ct_f32v y = ct_sel_f32v((q & 1) != 0, c, s);
    return (ct_f32v)((ct_i32v)y ^ ((q & 2) << 30));
}
CT_INLINE ct_f32v ct_sin_f32v(ct_f32v x) {
    ct_f32v r;
    ct_i32v q = ct_reduce_f32v(x, &r);
    return ct_sel_f32v(x == 0.0f, x, ct_circle_f32v(q, r, 0));
}
CT_INLINE ct_f32v ct_cos_f32v(ct_f32v x) {
    ct_f32v r;
    ct_i32v q = ct_reduce_f32v(x, &r);
    return ct_circle_f32v(q, r, 1);
}
#undef CT_F
#undef CT_C

/* ---- float64 --------------------------------------------------------------------------------------- */

#define CT_F(a, b, c) ct_fma_f64v(a, b, c)
#define CT_C(c) ct_all_f64v(c)

CT_INLINE ct_f64v ct_scale_f64v(ct_f64v x, ct_i64v k) {
    ct_i64v half = k >> 1;
    return x * (ct_f64v)((half + 1023) << 52) * (ct_f64v)((k - half + 1023) << 52);
}

/* (e^r - 1 - r) / r^2 for |r| <= log(2) / 2 */
CT_INLINE ct_f64v ct_exp_poly_f64v(ct_f64v r) {
    ct_f64v p = CT_F(r, CT_C(0x1.818417a2f9973p-33), CT_C(0x1.1f7919372c623p-29));
    p = CT_F(p, r, CT_C(0x1.ae4d966858ba3p-26));
    p = CT_F(p, r, CT_C(0x1.27e4d7fddc246p-22));
    p = CT_F(p, r, CT_C(0x1.71de40556235ep-19));
    p = CT_F(p, r, CT_C(0x1.a01a01a82049dp-16));
    p = CT_F(p, r, CT_C(0x1.a01a019ea908ap-13));
    p = CT_F(p, r, CT_C(0x1.6c16c16c15fefp-10));
    p = CT_F(p, r, CT_C(0x1.111111111137ep-7));
    p = CT_F(p, r, CT_C(0x1.5555555555556p-5));
    p = CT_F(p, r, CT_C(0x1.5555555555555p-3));
    return CT_F(p, r, CT_C(0.5));
}

/* exp(x + low), |low| small against x's last place times 2^20 */
CT_INLINE ct_f64v ct_exp2_f64v(ct_f64v x, ct_f64v low) {
    ct_f64v c = ct_sel_f64v(x > 710.0, CT_C(710.0), x);
    c = ct_sel_f64v(x < -746.0, CT_C(-746.0), c);
    ct_f64v t = CT_F(c, CT_C(0x1.71547652b82fep+0), CT_C(0x1.8p52));
    ct_f64v k = t - 0x1.8p52;
    ct_f64v r = CT_F(k, CT_C(-0x1.62e42fefa39efp-1), c);
    r = CT_F(k, CT_C(-0x1.abc9e3b39803fp-56), r) + low;
    ct_f64v p = CT_F(ct_exp_poly_f64v(r), r * r, r) + 1.0;
    p = ct_scale_f64v(p, (ct_i64v)t - 0x4338000000000000);
    return ct_sel_f64v(x == x, p, x);
}
CT_INLINE ct_f64v ct_exp_f64v(ct_f64v x) { return ct_exp2_f64v(x, CT_C(0.0)); }

CT_INLINE ct_f64v ct_expm1_f64v(ct_f64v x) {
    ct_f64v c = ct_sel_f64v(x > 710.0, CT_C(710.0), x);
    c = ct_sel_f64v(x < -40.0, CT_C(-40.0), c);
    ct_f64v t = CT_F(c, CT_C(0x1.71547652b82fep+0), CT_C(0x1.8p52));
    ct_f64v k = t - 0x1.8p52;
    ct_f64v r = CT_F(k, CT_C(-0x1.62e42fefa39efp-1), c);
    r = CT_F(k, CT_C(-0x1.abc9e3b39803fp-56), r);
    ct_f64v p = ct_exp_poly_f64v(r) * (r * r);
    ct_f64v high = r + p, low = (r - high) + p;
    ct_f64v s = (ct_f64v)(((ct_i64v)t - 0x4338000000000000 + 1022) << 52);
    ct_f64v d = s - 0.5, e = ct_sel_f64v(k < 0.0, (-0.5 - d) + s, (s - d) - 0.5);
    ct_f64v a = high * s, sum = d + a;
    ct_f64v big = ct_sel_f64v(ct_abs_f64v(d) > ct_abs_f64v(a), (d - sum) + a, (a - sum) + d);
    ct_f64v y = sum + (big + (e + CT_F(high, s, -a) + low * s));
    y = ct_sel_f64v(k == 0.0, high, y + y);
    y = ct_sel_f64v(ct_abs_f64v(x) < 0x1p-30, CT_F(x * 0.5, x, x), y);
    y = ct_sel_f64v(x == 0.0, x, y);
    return ct_sel_f64v(x == x, y, x);
}

/* For f = m - 1: s (f^2/2 + R) with log(m) = f - f^2/2 + that, s = f / (2 + f), as in Tang's and Sun's logarithms. */
CT_INLINE ct_f64v ct_log_poly_f64v(ct_f64v f, ct_f64v half_square) {
    ct_f64v s = f / (2.0 + f), z = s * s;
    ct_f64v p = CT_F(z, CT_C(0x1.2b603c353ce44p-3), CT_C(0x1.39fdbf11a829dp-3));
    p = CT_F(p, z, CT_C(0x1.7462b955b60ccp-3));
    p = CT_F(p, z, CT_C(0x1.c71c62d66e137p-3));
    p = CT_F(p, z, CT_C(0x1.2492492dfacb6p-2));
    p = CT_F(p, z, CT_C(0x1.99999999952c6p-2));
    p = CT_F(p, z, CT_C(0x1.5555555555558p-1));
    return s * CT_F(p, z, half_square);
}

/* The exponent of c, m = c 2^-k in [1/sqrt 2, sqrt 2), and k as a number. */
CT_INLINE ct_f64v ct_split_f64v(ct_f64v c, ct_f64v *k) {
    ct_i64v e = ((ct_i64v)c - 0x3fe6a09e667f3bcd) & ~0xfffffffffffff;
    /* |e| 2^-52 as an integer in the low bits of 1.5 * 2^52 */
    *k = (ct_f64v)((e >> 52) + 0x4338000000000000) - 0x1.8p52;
    return (ct_f64v)((ct_i64v)c - e);
}

CT_INLINE ct_f64v ct_log_f64v(ct_f64v x) {
    ct_i64v tiny = x < 0x1p-1022;
    ct_f64v k, m = ct_split_f64v(ct_sel_f64v(tiny, x * 0x1p52, x), &k);
    k = k - ct_sel_f64v(tiny, CT_C(52.0), CT_C(0.0));
    ct_f64v f = m - 1.0, half_square = 0.5 * f * f;
    ct_f64v y = ct_log_poly_f64v(f, half_square);
    y = k * 0x1.62e42fefa3800p-1 - ((half_square - (y + k * 0x1.ef35793c76730p-45)) - f);
    y = ct_sel_f64v(x == CT_C(__builtin_inf()), x, y);
    y = ct_sel_f64v(x < 0.0, CT_C(__builtin_nan("")), y);
    y = ct_sel_f64v(x == 0.0, CT_C(-__builtin_inf()), y);
    return ct_sel_f64v(x == x, y, x);
}

CT_INLINE ct_f64v ct_log1p_f64v(ct_f64v x) {
    ct_f64v u = 1.0 + x, k, m = ct_split_f64v(u, &k);
    ct_f64v lost = ct_sel_f64v(x > 1.0, 1.0 - (u - x), x - (u - 1.0)) / u;
    ct_i64v small = k == 0.0;
    lost = ct_sel_f64v(small, CT_C(0.0), lost);
    ct_f64v f = ct_sel_f64v(small, x, m - 1.0), half_square = 0.5 * f * f;
    ct_f64v y = ct_log_poly_f64v(f, half_square);
    y = k * 0x1.62e42fefa3800p-1 - ((half_square - (y + (k * 0x1.ef35793c76730p-45 + lost))) - f);
    y = ct_sel_f64v(x == CT_C(__builtin_inf()), x, y);
    y = ct_sel_f64v(x < -1.0, CT_C(__builtin_nan("")), y);
    y = ct_sel_f64v(x == -1.0, CT_C(-__builtin_inf()), y);
    y = ct_sel_f64v(x == 0.0, x, y);
    return ct_sel_f64v(x == x, y, x);
}

CT_INLINE ct_f64v ct_tanh_f64v(ct_f64v x) {
    ct_f64v a = ct_abs_f64v(x);
    a = ct_sel_f64v(a > 20.0, CT_C(20.0), a);
    ct_f64v e = ct_expm1_f64v(a + a);
    ct_f64v y = ct_sel_f64v(a < 0.55, e, CT_C(2.0)) / (e + 2.0);
    y = ct_sel_f64v(a < 0.55, y, 1.0 - y);
    y = ct_sel_f64v(x == 0.0, x, ct_sign_f64v(y, x));
    return ct_sel_f64v(x == x, y, x);
}

CT_INLINE ct_f64v ct_sigmoid_f64v(ct_f64v x) {
    ct_f64v z = ct_exp_f64v(-ct_abs_f64v(x));
    return ct_sel_f64v(x < 0.0, z, CT_C(1.0)) / (1.0 + z);
}

CT_INLINE ct_f64v ct_erf_f64v(ct_f64v x) {
    static const ct_f64 near[] = {
        -0x1.3719533e62dc2p-35, 0x1.46d47671dc356p-32, -0x1.fbaaf18836880p-30, 0x1.11289c19070a9p-26,
        -0x1.622465af90574p-23, 0x1.ba29d078221cbp-20, -0x1.f4d6e39d4c49fp-17, 0x1.f9a35d6154cf9p-14,
        -0x1.c02db5bf44215p-11, 0x1.565bcd17e78b1p-8,  -0x1.b82ce312c9040p-6,  0x1.ce2f21a043b39p-4,
        -0x1.812746b037a02p-2,  0x1.06eba8214db69p-3};
    static const ct_f64 far[] = {/* exp(a^2) erfc(a) in t = (a - 2) / (a + 2) */
        0x1.46ae4e46ba8f1p-18,  0x1.c329852a1803bp-18,  0x1.3fdf2d5122ee2p-18, 0x1.dfc7844975ed7p-22,
        -0x1.e276495405004p-17, -0x1.ce60b34b6dce1p-16, 0x1.ce6d6e82876edp-16, 0x1.6dab990409e81p-13,
        0x1.6d5c44d8dba64p-15,  -0x1.016b614ddd426p-10, -0x1.bc25a418995e4p-11, 0x1.ca95ed5929161p-8,
        0x1.e9471597ee380p-9,   -0x1.437f0b68c175dp-4,  0x1.eeea7dc8a7869p-3,  -0x1.b57034efd3f71p-2,
        0x1.058671b52c776p-2};
    ct_f64v a = ct_abs_f64v(x), s = x * x;
    a = ct_sel_f64v(a > 6.0, CT_C(6.0), a);
    ct_f64v p = CT_C(near[0]), q = CT_C(far[0]), t = (a - 2.0) / (a + 2.0);
    for (int i = 1; i < 14; i++)
        p = CT_F(p, s, CT_C(near[i]));
    for (int i = 1; i < 17; i++)
        q = CT_F(q, t, CT_C(far[i]));
    ct_f64v y = ct_sign_f64v(1.0 - ct_exp_f64v(-(a * a)) * q, x);
    y = ct_sel_f64v(a < 1.0, CT_F(p, x, x), y);
    return ct_sel_f64v(x == x, y, x);
}

CT_INLINE ct_i64v ct_reduce_f64v(ct_f64v x, ct_f64v *high, ct_f64v *low) {
    ct_f64v t = CT_F(x, CT_C(0x1.45f306dc9c883p-1), CT_C(0x1.8p52));
    ct_f64v k = t - 0x1.8p52;
    ct_f64v a = CT_F(k, CT_C(-0x1.921fb54442d18p+0), x); /* exact: a multiple of 2^-52 below 1 */
    ct_f64v b = k * 0x1.1a62633145c07p-54, lost = CT_F(k, CT_C(0x1.1a62633145c07p-54), -b);
    ct_f64v h = a - b, back = a - h;
    ct_f64v l = (back - b) + ((a - (h + back)) - lost) + k * 0x1.f1976b7ed8fbcp-110;
    ct_i64v q = (ct_i64v)t & 3;
    ct_i64v huge = ct_abs_f64v(x) > 0x1p20;
    if (__builtin_expect(ct_any((ct_i32v)huge), 0))
        for (int i = 0; i < CT_LANES_OF(ct_f64v, ct_f64); i++) {
            if (!huge[i])
                continue;
            ct_f64 y = __builtin_nan(""), z = 0;
            if (x[i] - x[i] == 0)
                q[i] = ct_reduce_huge(x[i], &y, &z);
            h[i] = y;
            l[i] = z;
        }
    *high = h;
    *low = l;
    return q;
}

CT_INLINE ct_f64v ct_circle_f64v(ct_i64v q, ct_f64v r, ct_f64v low, int odd) {
    ct_f64v z = r * r;
    ct_f64v s = CT_F(z, CT_C(-0x1.8dc40a95e2836p-41), CT_C(0x1.60e694a9b66dap-33));
    s = CT_F(s, z, CT_C(-0x1.ae63f90709ef2p-26));
    s = CT_F(s, z, CT_C(0x1.71de3a10d6808p-19));
    s = CT_F(s, z, CT_C(-0x1.a01a019fe8dc5p-13));
    s = CT_F(s, z, CT_C(0x1.111111111101fp-7));
    s = CT_F(s, z, CT_C(-0x1.5555555555555p-3));
    s = r + CT_F(s * z, r, CT_F(-0.5 * z, low, low)); /* sin(r + low) = sin r + low cos r */
    ct_f64v c = CT_F(z, CT_C(0x1.35ab3554ac5a4p-45), CT_C(-0x1.92a81992c9e90p-37));
    c = CT_F(c, z, CT_C(0x1.1eecd71c4bbdcp-29));
    c = CT_F(c, z, CT_C(-0x1.27e4faef7e369p-22));
    c = CT_F(c, z, CT_C(0x1.a01a019fb80f0p-16));
    c = CT_F(c, z, CT_C(-0x1.6c16c16c16a33p-10));
    c = CT_F(c, z, CT_C(0x1.5555555555555p-5));
    ct_f64v half = 0.5 * z, one = 1.0 - half;
    c = one + (((1.0 - one) - half) + CT_F(c * z, z, -r * low));
    q = q + odd;
    ct_f64v y = ct_sel_f64v((q & 1) != 0, c, s);
    return (ct_f64v)((ct_i64v)y ^ ((q & 2) << 62));
}
CT_INLINE ct_f64v ct_sin_f64v(ct_f64v x) {
    ct_f64v r, low;
    ct_i64v q = ct_reduce_f64v(x, &r, &low);
    return ct_sel_f64v(x == 0.0, x, ct_circle_f64v(q, r, low, 0));
}
CT_INLINE ct_f64v ct_cos_f64v(ct_f64v x) {
    ct_f64v r, low;
    ct_i64v q = ct_reduce_f64v(x, &r, &low);
    return ct_circle_f64v(q, r, low, 1);
}

/* log(x) of a positive finite x as an unevaluated sum, relative error about 2^-65: with m = x 2^-k and
 * s = (m - 1) / (m + 1), log(m) = 2 s (1 + z / 3 + z^2 / 5 + ...), z = s^2. */
CT_INLINE ct_f64v ct_log2_f64v(ct_f64v x, ct_f64v *low) {
    ct_i64v tiny = x < 0x1p-1022;
    ct_f64v k, m = ct_split_f64v(ct_sel_f64v(tiny, x * 0x1p52, x), &k);
    k = k - ct_sel_f64v(tiny, CT_C(52.0), CT_C(0.0));
    ct_f64v f = m - 1.0, g = m + 1.0, g_low = m - (g - 1.0);
    ct_f64v s = f / g, s_low = (CT_F(-s, g, f) - s * g_low) / g;
    ct_f64v z = s * s, z_low = CT_F(s, s, -z) + 2.0 * s * s_low;
    ct_f64v p = CT_F(z, CT_C(0x1.daab780b76965p-4), CT_C(0x1.e018eabf1d00fp-4));
    p = CT_F(p, z, CT_C(0x1.11155346e46cap-3));
    p = CT_F(p, z, CT_C(0x1.3b13a9c33f62cp-3));
    p = CT_F(p, z, CT_C(0x1.745d173cf2fd2p-3));
    p = CT_F(p, z, CT_C(0x1.c71c71c74c6e7p-3));
    p = CT_F(p, z, CT_C(0x1.24924924922fep-2));
    p = CT_F(p, z, CT_C(0x1.999999999999ap-2)) * z; /* from z^2 on */
    ct_f64v c = 0x1.5555555555555p-1 + p;           /* 2/3 + p, and what that lost */
    ct_f64v c_low = (0x1.5555555555555p-1 - c) + p + 0x1.5555555555555p-55;
    ct_f64v t = z * c, t_low = CT_F(z, c, -t) + z * c_low + z_low * c;
    ct_f64v u = s * t, u_low = CT_F(s, t, -u) + s * t_low + s_low * t; /* log(m) - 2 s */
    ct_f64v h = k * 0x1.62e42fefa3800p-1;                              /* exact */
    ct_f64v a = h + 2.0 * s;
    ct_f64v a_low = ct_sel_f64v(k == 0.0, CT_C(0.0), (h - a) + 2.0 * s);
    ct_f64v b = a + u, b_low = (a - b) + u;
    b_low = b_low + (a_low + (2.0 * s_low + u_low + k * 0x1.ef35793c76730p-45));
    ct_f64v sum = b + b_low;
    *low = (b - sum) + b_low;
    return sum;
}

/* What pow is where exp(y log |x|) says nothing or the wrong sign; C Annex F. */
CT_INLINE ct_f64v ct_pow_edges_f64v(ct_f64v x, ct_f64v y, ct_f64v r) {
    ct_f64v infinity = CT_C(__builtin_inf()), a = ct_abs_f64v(x);
    ct_i64v whole = ct_trunc_f64v(y) == y;
    ct_i64v odd = whole & (ct_trunc_f64v(0.5 * y) != 0.5 * y);
    ct_i64v grows = ((a > 1.0) & (y > 0.0)) | ((a < 1.0) & (y < 0.0));
    ct_i64v extreme = (a == 0.0) | (a == infinity) | (ct_abs_f64v(y) == infinity);
    r = ct_sel_f64v(extreme, ct_sel_f64v(grows, infinity, CT_C(0.0)), r);
    r = (ct_f64v)((ct_i64v)r ^ (odd & (ct_i64v)x & (ct_i64v)CT_C(-0.0)));
    r = ct_sel_f64v((x < 0.0) & ~whole & (a != infinity), CT_C(__builtin_nan("")), r);
    r = ct_sel_f64v((x != x) | (y != y), x + y, r);
    ct_i64v one = (x == 1.0) | (y == 0.0) | ((x == -1.0) & (ct_abs_f64v(y) == infinity));
    return ct_sel_f64v(one, CT_C(1.0), r);
}

CT_INLINE ct_f64v ct_pow_f64v(ct_f64v x, ct_f64v y) {
    ct_f64v low, log = ct_log2_f64v(ct_abs_f64v(x), &low);
    ct_f64v big = 0x1p66 - (ct_f64v){0}; /* |y log x| is far beyond 746 or below 2^-54 outside of this */
    ct_f64v c = ct_sel_f64v(y > big, big, y);
    c = ct_sel_f64v(y < -big, -big, c);
    ct_f64v h = c * log, l = CT_F(c, log, -h) + c * low;
    l = ct_sel_f64v(ct_abs_f64v(h) < 800.0, l, CT_C(0.0));
    return ct_pow_edges_f64v(x, y, ct_exp2_f64v(h, l));
}

/* C's fmod, then the sign of y as Lua's %. Exact, whichever way it is found. */
CT_INLINE ct_f64v ct_fmod_f64v(ct_f64v x, ct_f64v y) {
    ct_f64v a = ct_abs_f64v(x), b = ct_abs_f64v(y), q = ct_trunc_f64v(a / b);
    ct_f64v r = CT_F(-q, b, a); /* the quotient may have been rounded up */
    r = ct_sel_f64v(r < 0.0, r + b, r);
    r = ct_sign_f64v(r, x);
    ct_i64v hard = ~((q < 0x1p51) & (b > 0x1p-900) & (b < CT_C(__builtin_inf())));
    if (__builtin_expect(ct_any((ct_i32v)hard), 0))
        for (int i = 0; i < CT_LANES_OF(ct_f64v, ct_f64); i++)
            if (hard[i])
                r[i] = __builtin_fmod(x[i], y[i]);
    return r;
}
#undef CT_F
#undef CT_C

CT_INLINE ct_f32v ct_fmod_f32v(ct_f32v x, ct_f32v y) {
    ct_f32v a = ct_abs_f32v(x), b = ct_abs_f32v(y), q = ct_trunc_f32v(a / b);
    ct_f32v r = ct_fma_f32v(-q, b, a);
    r = ct_sel_f32v(r < 0.0f, r + b, r);
    r = ct_sign_f32v(r, x);
    ct_i32v hard = ~((q < 0x1p22f) & (b > 0x1p-100f) & (b < ct_all_f32v(__builtin_inff())));
    if (__builtin_expect(ct_any(hard), 0))
        for (int i = 0; i < CT_LANES_OF(ct_f32v, ct_f32); i++)
            if (hard[i])
                r[i] = __builtin_fmodf(x[i], y[i]);
    return r;
}

#define CT_DEFINE_DIVISION(S, M)                                                                          \
    CT_INLINE ct_##S##v ct_mod_##S##v(ct_##S##v x, ct_##S##v y) {                                         \
        ct_##S##v r = ct_fmod_##S##v(x, y);                                                               \
        M##v other = (r != 0) & ((r < 0) ^ (y < 0));                                                      \
        return ct_sel_##S##v(other, r + y, r);                                                            \
    }                                                                                                     \
    /* The floor of the exact quotient nearly always; where that is no float, the quotient of x - x mod y,  \
     * as Python and PyTorch have it. x / 0 is infinite. */                                               \
    CT_INLINE ct_##S##v ct_floordiv_##S##v(ct_##S##v x, ct_##S##v y) {                                    \
        ct_##S##v r = ct_fmod_##S##v(x, y), q = (x - r) / y, plain = x / y;                               \
        q = ct_sel_##S##v((r != 0) & ((r < 0) ^ (y < 0)), q - 1, q);                                      \
        ct_##S##v f = ct_floor_##S##v(q);                                                                 \
        f = ct_sel_##S##v(q - f > ct_all_##S##v((ct_##S)0.5), f + 1, f);                                  \
        f = ct_sel_##S##v(q == 0, ct_sign_##S##v(ct_all_##S##v(0), plain), f);                            \
        return ct_sel_##S##v(y == 0, plain, f);                                                           \
    }
CT_DEFINE_DIVISION(f32, ct_i32)
CT_DEFINE_DIVISION(f64, ct_i64)

/* float32 pow through float64: two halves of a vector. */
CT_INLINE ct_f32v ct_pow_f32v(ct_f32v x, ct_f32v y) {
    union {
        ct_f32v whole;
        ct_f32h half[2];
    } a = {x}, b = {y}, r;
    for (int i = 0; i < 2; i++) {
        ct_f64v u = __builtin_convertvector(a.half[i], ct_f64v), v = __builtin_convertvector(b.half[i], ct_f64v);
        ct_f64v h = v * ct_log_f64v(ct_abs_f64v(u));
        r.half[i] = __builtin_convertvector(ct_pow_edges_f64v(u, v, ct_exp_f64v(h)), ct_f32h);
    }
    return r.whole;
}

/* ---- Scalars: lane 0 -------------------------------------------------------------------------------- */

#define CT_DEFINE_SCALAR1(word)                                                                           \
    CT_INLINE ct_f32 ct_##word##_f32(ct_f32 x) { return ct_##word##_f32v(ct_all_f32v(x))[0]; }            \
    CT_INLINE ct_f64 ct_##word##_f64(ct_f64 x) { return ct_##word##_f64v(ct_all_f64v(x))[0]; }
#define CT_DEFINE_SCALAR2(word)                                                                           \
    CT_INLINE ct_f32 ct_##word##_f32(ct_f32 x, ct_f32 y) {                                                \
        return ct_##word##_f32v(ct_all_f32v(x), ct_all_f32v(y))[0];                                       \
    }                                                                                                     \
    CT_INLINE ct_f64 ct_##word##_f64(ct_f64 x, ct_f64 y) {                                                \
        return ct_##word##_f64v(ct_all_f64v(x), ct_all_f64v(y))[0];                                       \
    }
CT_DEFINE_SCALAR1(round)
CT_DEFINE_SCALAR1(floor)
CT_DEFINE_SCALAR1(ceil)
CT_DEFINE_SCALAR1(trunc)
CT_DEFINE_SCALAR1(sqrt)
CT_DEFINE_SCALAR1(exp)
CT_DEFINE_SCALAR1(log)
CT_DEFINE_SCALAR1(log1p)
CT_DEFINE_SCALAR1(expm1)
CT_DEFINE_SCALAR1(sin)
CT_DEFINE_SCALAR1(cos)
CT_DEFINE_SCALAR1(tanh)
CT_DEFINE_SCALAR1(sigmoid)
CT_DEFINE_SCALAR1(erf)
CT_DEFINE_SCALAR2(pow)
CT_DEFINE_SCALAR2(mod)
CT_DEFINE_SCALAR2(floordiv)
CT_INLINE ct_f32 ct_abs_f32(ct_f32 x) { return __builtin_fabsf(x); }
CT_INLINE ct_f64 ct_abs_f64(ct_f64 x) { return __builtin_fabs(x); }
CT_INLINE ct_f32 ct_fma_f32(ct_f32 a, ct_f32 b, ct_f32 c) { return __builtin_fmaf(a, b, c); }
CT_INLINE ct_f64 ct_fma_f64(ct_f64 a, ct_f64 b, ct_f64 c) { return __builtin_fma(a, b, c); }

/* ---- Integers: no vector instruction divides, so lane by lane --------------------------------------- */

#define CT_NEGATIVE(x) ((ct_i64)(x) >> 63 != 0)
#define CT_DEFINE_INTEGER(S, U, BITS)                                                                     \
    /* y's sign as Lua's %; by -1 apart, since the least integer has no negative */                       \
    CT_INLINE ct_##S ct_imod_##S(ct_##S x, ct_##S y) {                                                    \
        if (y == 0 || (ct_##S)(y + 1) == 0)                                                               \
            return (ct_##S)-1 < 0 || y == 0 ? 0 : x % y;                                                  \
        ct_##S r = (ct_##S)(x % y);                                                                       \
        return r != 0 && CT_NEGATIVE(r ^ y) ? (ct_##S)(r + y) : r;                                               \
    }                                                                                                     \
    CT_INLINE ct_##S ct_ifloordiv_##S(ct_##S x, ct_##S y) {                                               \
        if (y == 0)                                                                                       \
            return 0;                                                                                     \
        if ((ct_##S)-1 < 0 && (ct_##S)(y + 1) == 0)                                                       \
            return (ct_##S)(0 - (U)x);                                                                    \
        ct_##S q = (ct_##S)(x / y);                                                                       \
        return CT_NEGATIVE(x ^ y) && x % y != 0 ? (ct_##S)(q - 1) : q;                                           \
    }                                                                                                     \
    /* wraps; to a negative power: 1, -1, or 0 as the truncated quotient */                               \
    CT_INLINE ct_##S ct_ipow_##S(ct_##S x, ct_##S y) {                                                    \
        if (CT_NEGATIVE(y))                                                                                \
            return x == 1 ? 1 : (ct_##S)(x + 1) == 0 ? (ct_##S)(y & 1 ? x : 1) : 0;                       \
        ct_u64 base = (ct_u64)x, power = (ct_u64)y, r = 1;                                                \
        for (; power; power >>= 1, base *= base)                                                          \
            if (power & 1)                                                                                \
                r *= base;                                                                                \
        return (ct_##S)r;                                                                                 \
    }                                                                                                     \
    CT_INLINE ct_##S ct_shl_##S(ct_##S x, ct_##S y) {                                                     \
        return (U)y < BITS ? (ct_##S)((ct_u64)x << (y & (BITS - 1))) : 0;                                 \
    }                                                                                                     \
    /* a count outside the width leaves the sign */                                                       \
    CT_INLINE ct_##S ct_shr_##S(ct_##S x, ct_##S y) {                                                     \
        return (U)y < BITS ? (ct_##S)(x >> (y & (BITS - 1))) : CT_NEGATIVE(x) ? (ct_##S)-1 : 0;            \
    }                                                                                                     \
    CT_DEFINE_INTEGER_LANES(S, imod)                                                                      \
    CT_DEFINE_INTEGER_LANES(S, ifloordiv)                                                                 \
    CT_DEFINE_INTEGER_LANES(S, ipow)                                                                      \
    CT_DEFINE_INTEGER_LANES(S, shl)                                                                       \
    CT_DEFINE_INTEGER_LANES(S, shr)
#define CT_DEFINE_INTEGER_LANES(S, word)                                                                  \
    CT_INLINE ct_##S##v ct_##word##_##S##v(ct_##S##v x, ct_##S##v y) {                                    \
        union {                                                                                           \
            ct_##S##v whole;                                                                              \
            ct_##S lane[CT_LANES_OF(ct_##S##v, ct_##S)];                                                  \
        } a = {x}, b = {y};                                                                               \
        for (int i = 0; i < CT_LANES_OF(ct_##S##v, ct_##S); i++)                                          \
            a.lane[i] = ct_##word##_##S(a.lane[i], b.lane[i]);                                            \
        return a.whole;                                                                                   \
    }
CT_DEFINE_INTEGER(i8, ct_u8, 8)
CT_DEFINE_INTEGER(u8, ct_u8, 8)
CT_DEFINE_INTEGER(i16, ct_u16, 16)
CT_DEFINE_INTEGER(i32, ct_u32, 32)
CT_DEFINE_INTEGER(i64, ct_u64, 64)

#endif
