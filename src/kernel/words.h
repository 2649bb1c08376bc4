/* words.h: what kernels are written in, behind element.h. A step of a vector loop takes `4` or `8`
 * elements for every CT_VECTOR bytes: as many as a register has of 4-byte types, or of 8-byte ones
 * where the kernel has such. Narrower values fill the low lanes of a whole register. A bool is a
 * mask: ct_i32v of 0 and -1, or an int. */

#define CT_CALLED static __attribute__((noinline, unused))

#define W4 (CT_VECTOR / 4)
#define W8 (CT_VECTOR / 8)

typedef ct_i32v ct_maskv;
typedef int ct_mask;

/* P4_f32: W4 elements in memory, wherever they lie */
#define CT_PARTS(S)                                                                                \
    typedef __attribute__((vector_size(W4 * sizeof(ct_##S)), aligned(sizeof(ct_##S)), may_alias))  \
    ct_##S P4_##S;                                                                                 \
    typedef __attribute__((vector_size(W8 * sizeof(ct_##S)), aligned(sizeof(ct_##S)), may_alias))  \
    ct_##S P8_##S;
CT_PARTS(f32)
CT_PARTS(f64)
CT_PARTS(i8)
CT_PARTS(u8)
CT_PARTS(i16)
CT_PARTS(i32)
CT_PARTS(i64)

/* The low lanes of a register, and a register whose low lanes they are. */
#define CT_LOW(W, S)                                                                               \
    CT_INLINE P##W##_##S LOW##W##_##S(ct_##S##v v) {                                               \
        P##W##_##S part;                                                                           \
        __builtin_memcpy(&part, &v, sizeof part);                                                  \
        return part;                                                                               \
    }                                                                                              \
    CT_INLINE ct_##S##v WHOLE##W##_##S(P##W##_##S part) {                                          \
        ct_##S##v v = {0};                                                                         \
        __builtin_memcpy(&v, &part, sizeof part);                                                  \
        return v;                                                                                  \
    }
CT_LOW(4, f32)
CT_LOW(4, i8)
CT_LOW(4, u8)
CT_LOW(4, i16)
CT_LOW(4, i32)
CT_LOW(8, f32)
CT_LOW(8, f64)
CT_LOW(8, i8)
CT_LOW(8, u8)
CT_LOW(8, i16)
CT_LOW(8, i32)
CT_LOW(8, i64)

#define CT_MEMORY(W, S, name)                                                                      \
    CT_INLINE ct_##S##v LOAD##W##_##name(const ct_##S *p) {                                        \
        return WHOLE##W##_##S(*(const P##W##_##S *)p);                                             \
    }                                                                                              \
    CT_INLINE void STORE##W##_##name(ct_##S *p, ct_##S##v v) {                                     \
        *(P##W##_##S *)p = LOW##W##_##S(v);                                                        \
    }                                                                                              \
    CT_INLINE ct_##S##v GATHER##W##_##name(const ct_##S *p, ct_i64 stride) {                       \
        P##W##_##S part;                                                                           \
        for (int i = 0; i < CT_VECTOR / W; i++)                                                    \
            part[i] = p[i * stride];                                                               \
        return WHOLE##W##_##S(part);                                                               \
    }
#define CT_SCATTER(W, S, name)                                                                     \
    CT_INLINE void SCATTER##W##_##name(ct_##S *p, ct_i64 stride, ct_##S##v v) {                    \
        for (int i = 0; i < CT_VECTOR / W; i++)                                                    \
            p[i * stride] = v[i];                                                                  \
    }
CT_SCATTER(4, f32, float32)
CT_SCATTER(4, i8, int8)
CT_SCATTER(4, u8, uint8)
CT_SCATTER(4, i16, int16)
CT_SCATTER(4, i32, int32)
CT_SCATTER(8, f32, float32)
CT_SCATTER(8, f64, float64)
CT_SCATTER(8, i8, int8)
CT_SCATTER(8, u8, uint8)
CT_SCATTER(8, i16, int16)
CT_SCATTER(8, i32, int32)
CT_SCATTER(8, i64, int64)
CT_MEMORY(4, f32, float32)
CT_MEMORY(4, i8, int8)
CT_MEMORY(4, u8, uint8)
CT_MEMORY(4, i16, int16)
CT_MEMORY(4, i32, int32)
CT_MEMORY(8, f32, float32)
CT_MEMORY(8, f64, float64)
CT_MEMORY(8, i8, int8)
CT_MEMORY(8, u8, uint8)
CT_MEMORY(8, i16, int16)
CT_MEMORY(8, i32, int32)
CT_MEMORY(8, i64, int64)

#define CT_MASKS(W)                                                                                \
    CT_INLINE ct_maskv LOAD##W##_bool(const ct_u8 *p) {                                            \
        return WHOLE##W##_i32(__builtin_convertvector(*(const P##W##_u8 *)p, P##W##_i32) != 0);    \
    }                                                                                              \
    CT_INLINE void STORE##W##_bool(ct_u8 *p, ct_maskv v) {                                         \
        *(P##W##_u8 *)p = __builtin_convertvector(LOW##W##_i32(v) & 1, P##W##_u8);                 \
    }                                                                                              \
    CT_INLINE ct_maskv GATHER##W##_bool(const ct_u8 *p, ct_i64 stride) {                           \
        P##W##_i32 part;                                                                           \
        for (int i = 0; i < CT_VECTOR / W; i++)                                                    \
            part[i] = -(p[i * stride] != 0);                                                       \
        return WHOLE##W##_i32(part);                                                               \
    }                                                                                              \
    CT_INLINE void SCATTER##W##_bool(ct_u8 *p, ct_i64 stride, ct_maskv v) {                        \
        for (int i = 0; i < CT_VECTOR / W; i++)                                                    \
            p[i * stride] = (ct_u8)(v[i] & 1);                                                     \
    }
CT_MASKS(4)
CT_MASKS(8)

#define CT_SCALARS(S, name)                                                                        \
    CT_INLINE ct_##S GET_##name(const ct_##S *p) {                                                 \
        return *p;                                                                                 \
    }                                                                                              \
    CT_INLINE void PUT_##name(ct_##S *p, ct_##S x) {                                               \
        *p = x;                                                                                    \
    }                                                                                              \
    CT_INLINE ct_##S##v SPLAT_##S(ct_##S x) {                                                      \
        return CT_ZERO_##S + x;                                                                    \
    }
#define CT_ZERO_f32                                                                                \
    -(ct_f32v) {                                                                                   \
        0                                                                                          \
    }
#define CT_ZERO_f64                                                                                \
    -(ct_f64v) {                                                                                   \
        0                                                                                          \
    }
#define CT_ZERO_i8                                                                                 \
    (ct_i8v) {                                                                                     \
        0                                                                                          \
    }
#define CT_ZERO_u8                                                                                 \
    (ct_u8v) {                                                                                     \
        0                                                                                          \
    }
#define CT_ZERO_i16                                                                                \
    (ct_i16v) {                                                                                    \
        0                                                                                          \
    }
#define CT_ZERO_i32                                                                                \
    (ct_i32v) {                                                                                    \
        0                                                                                          \
    }
#define CT_ZERO_i64                                                                                \
    (ct_i64v) {                                                                                    \
        0                                                                                          \
    }
CT_SCALARS(f32, float32)
CT_SCALARS(f64, float64)
CT_SCALARS(i8, int8)
CT_SCALARS(u8, uint8)
CT_SCALARS(i16, int16)
CT_SCALARS(i32, int32)
CT_SCALARS(i64, int64)
CT_INLINE ct_mask GET_bool(const ct_u8 *p) {
    return -(*p != 0);
}
CT_INLINE void PUT_bool(ct_u8 *p, ct_mask x) {
    *p = (ct_u8)(x & 1);
}
CT_INLINE ct_maskv SPLAT_mask(ct_mask x) {
    return (ct_maskv){0} + x;
}

/* ---- masks of other widths ---- */

#define CT_MASK_WIDTHS(W, S)                                                                       \
    CT_INLINE ct_maskv MASK##W##_##S(ct_##S##v m) {                                                \
        return WHOLE##W##_i32(__builtin_convertvector(LOW##W##_##S(m), P##W##_i32));               \
    }                                                                                              \
    CT_INLINE ct_##S##v WIDE##W##_##S(ct_maskv m) {                                                \
        return WHOLE##W##_##S(__builtin_convertvector(LOW##W##_i32(m), P##W##_##S));               \
    }
CT_MASK_WIDTHS(4, i8)
CT_MASK_WIDTHS(4, i16)
CT_MASK_WIDTHS(8, i8)
CT_MASK_WIDTHS(8, i16)
CT_MASK_WIDTHS(8, i64)
#define MASK4_i32(m) (m)
#define MASK8_i32(m) (m)
#define WIDE4_i32(m) (m)
#define WIDE8_i32(m) (m)

/* ---- bools: addition is or, multiplication and ---- */

#define CT_LOGIC(F, T)                                                                             \
    CT_INLINE T F##_add_mask(T x, T y) {                                                           \
        return x | y;                                                                              \
    }                                                                                              \
    CT_INLINE T F##_mul_mask(T x, T y) {                                                           \
        return x & y;                                                                              \
    }                                                                                              \
    CT_INLINE T F##_maximum_mask(T x, T y) {                                                       \
        return x | y;                                                                              \
    }                                                                                              \
    CT_INLINE T F##_minimum_mask(T x, T y) {                                                       \
        return x & y;                                                                              \
    }                                                                                              \
    CT_INLINE T F##_bitwise_and_mask(T x, T y) {                                                   \
        return x & y;                                                                              \
    }                                                                                              \
    CT_INLINE T F##_bitwise_or_mask(T x, T y) {                                                    \
        return x | y;                                                                              \
    }                                                                                              \
    CT_INLINE T F##_bitwise_xor_mask(T x, T y) {                                                   \
        return x ^ y;                                                                              \
    }                                                                                              \
    CT_INLINE T F##_bitwise_not_mask(T x) {                                                        \
        return ~x;                                                                                 \
    }                                                                                              \
    CT_INLINE T F##_eq_mask(T x, T y) {                                                            \
        return ~(x ^ y);                                                                           \
    }                                                                                              \
    CT_INLINE T F##_ne_mask(T x, T y) {                                                            \
        return x ^ y;                                                                              \
    }                                                                                              \
    CT_INLINE T F##_lt_mask(T x, T y) {                                                            \
        return ~x & y;                                                                             \
    }                                                                                              \
    CT_INLINE T F##_le_mask(T x, T y) {                                                            \
        return ~x | y;                                                                             \
    }                                                                                              \
    CT_INLINE T F##_where_mask(T m, T x, T y) {                                                    \
        return (m & x) | (~m & y);                                                                 \
    }
CT_LOGIC(V4, ct_maskv)
CT_LOGIC(V8, ct_maskv)
CT_LOGIC(S, ct_mask)

/* ---- conversions ---- */

#define CT_CONVERT(W, to, from)                                                                    \
    CT_INLINE ct_##to##v V##W##_##to##_from_##from(ct_##from##v x) {                               \
        return WHOLE##W##_##to(__builtin_convertvector(LOW##W##_##from(x), P##W##_##to));          \
    }
#define CT_CONVERT_SCALAR(to, from)                                                                \
    CT_INLINE ct_##to S_##to##_from_##from(ct_##from x) {                                          \
        return (ct_##to)x;                                                                         \
    }
#define CT_CONVERT_BOOL(to, M)                                                                     \
    CT_INLINE ct_##to S_##to##_from_mask(ct_mask x) {                                              \
        return (ct_##to)(x & 1);                                                                   \
    }                                                                                              \
    CT_INLINE ct_mask S_mask_from_##to(ct_##to x) {                                                \
        return -(x != 0);                                                                          \
    }                                                                                              \
    CT_INLINE ct_##to##v V8_##to##_from_mask(ct_maskv x) {                                         \
        return WHOLE8_##to(__builtin_convertvector(LOW8_i32(x & 1), P8_##to));                     \
    }                                                                                              \
    CT_INLINE ct_maskv V8_mask_from_##to(ct_##to##v x) {                                           \
        return MASK8_##M((ct_##M##v)(x != 0));                                                     \
    }
#define CT_CONVERT_BOOL4(to, M)                                                                    \
    CT_INLINE ct_##to##v V4_##to##_from_mask(ct_maskv x) {                                         \
        return WHOLE4_##to(__builtin_convertvector(LOW4_i32(x & 1), P4_##to));                     \
    }                                                                                              \
    CT_INLINE ct_maskv V4_mask_from_##to(ct_##to##v x) {                                           \
        return MASK4_##M((ct_##M##v)(x != 0));                                                     \
    }
CT_CONVERT_BOOL(f32, i32)
CT_CONVERT_BOOL(f64, i64)
CT_CONVERT_BOOL(i8, i8)
CT_CONVERT_BOOL(u8, i8)
CT_CONVERT_BOOL(i16, i16)
CT_CONVERT_BOOL(i32, i32)
CT_CONVERT_BOOL(i64, i64)
CT_CONVERT_BOOL4(f32, i32)
CT_CONVERT_BOOL4(i8, i8)
CT_CONVERT_BOOL4(u8, i8)
CT_CONVERT_BOOL4(i16, i16)
CT_CONVERT_BOOL4(i32, i32)
#define CT_CONVERT_BOTH(to, from)                                                                  \
    CT_CONVERT_SCALAR(to, from) CT_CONVERT(4, to, from) CT_CONVERT(8, to, from)
#define CT_CONVERT_WIDE(to, from) CT_CONVERT_SCALAR(to, from) CT_CONVERT(8, to, from)
CT_CONVERT_BOTH(f32, i8)
CT_CONVERT_BOTH(f32, u8)
CT_CONVERT_BOTH(f32, i16)
CT_CONVERT_BOTH(f32, i32)
CT_CONVERT_WIDE(f32, i64)
CT_CONVERT_WIDE(f32, f64)
CT_CONVERT_WIDE(f64, i8)
CT_CONVERT_WIDE(f64, u8)
CT_CONVERT_WIDE(f64, i16)
CT_CONVERT_WIDE(f64, i32)
CT_CONVERT_WIDE(f64, i64)
CT_CONVERT_WIDE(f64, f32)
CT_CONVERT_BOTH(i8, u8)
CT_CONVERT_BOTH(i8, i16)
CT_CONVERT_BOTH(i8, i32)
CT_CONVERT_WIDE(i8, i64)
CT_CONVERT_BOTH(u8, i8)
CT_CONVERT_BOTH(u8, i16)
CT_CONVERT_BOTH(u8, i32)
CT_CONVERT_WIDE(u8, i64)
CT_CONVERT_BOTH(i16, i8)
CT_CONVERT_BOTH(i16, u8)
CT_CONVERT_BOTH(i16, i32)
CT_CONVERT_WIDE(i16, i64)
CT_CONVERT_BOTH(i32, i8)
CT_CONVERT_BOTH(i32, u8)
CT_CONVERT_BOTH(i32, i16)
CT_CONVERT_WIDE(i32, i64)
CT_CONVERT_WIDE(i64, i8)
CT_CONVERT_WIDE(i64, u8)
CT_CONVERT_WIDE(i64, i16)
CT_CONVERT_WIDE(i64, i32)

/* ---- counting: start + index * step ---- */

#define CT_IOTA(S)                                                                                 \
    CT_INLINE ct_##S S_IOTA_##S(ct_i64 at, ct_i64 stride, ct_i64 start, ct_i64 step) {             \
        (void)stride;                                                                              \
        return (ct_##S)(start + at * step);                                                        \
    }                                                                                              \
    CT_INLINE ct_##S##v V8_IOTA_##S(ct_i64 at, ct_i64 stride, ct_i64 start, ct_i64 step) {         \
        P8_##S part;                                                                               \
        for (int i = 0; i < W8; i++)                                                               \
            part[i] = (ct_##S)(start + (at + i * stride) * step);                                  \
        return WHOLE8_##S(part);                                                                   \
    }                                                                                              \
    CT_INLINE ct_##S S_STEPS_##S(ct_i64 at, ct_i64 stride, double start, double step) {            \
        (void)stride;                                                                              \
        return (ct_##S)(start + (double)at * step);                                                \
    }                                                                                              \
    CT_INLINE ct_##S##v V8_STEPS_##S(ct_i64 at, ct_i64 stride, double start, double step) {        \
        P8_##S part;                                                                               \
        for (int i = 0; i < W8; i++)                                                               \
            part[i] = (ct_##S)(start + (double)(at + i * stride) * step);                          \
        return WHOLE8_##S(part);                                                                   \
    }
#define CT_IOTA4(S)                                                                                \
    CT_INLINE ct_##S##v V4_IOTA_##S(ct_i64 at, ct_i64 stride, ct_i64 start, ct_i64 step) {         \
        P4_##S part;                                                                               \
        for (int i = 0; i < W4; i++)                                                               \
            part[i] = (ct_##S)(start + (at + i * stride) * step);                                  \
        return WHOLE4_##S(part);                                                                   \
    }                                                                                              \
    CT_INLINE ct_##S##v V4_STEPS_##S(ct_i64 at, ct_i64 stride, double start, double step) {        \
        P4_##S part;                                                                               \
        for (int i = 0; i < W4; i++)                                                               \
            part[i] = (ct_##S)(start + (double)(at + i * stride) * step);                          \
        return WHOLE4_##S(part);                                                                   \
    }
CT_IOTA(f32)
CT_IOTA(f64)
CT_IOTA(i32)
CT_IOTA(i64)
CT_IOTA4(f32)
CT_IOTA4(i32)

/* ---- matrix products with every extent at most 16: k in order, a multiplication and an addition
 * each ---- */

#define CT_TINY(S, W)                                                                              \
    typedef __attribute__((vector_size(W * sizeof(ct_##S)), aligned(sizeof(ct_##S)), may_alias))   \
    ct_##S tiny_row_##S##_##W;                                                                     \
    CT_INLINE void tiny_##S##_##W(int m, int n, int k, const ct_##S *a, ct_i64 a_row,              \
                                  ct_i64 a_column, const ct_##S *b, ct_i64 b_row, ct_i64 b_column, \
                                  ct_##S *out) {                                                   \
        tiny_row_##S##_##W rows[16];                                                               \
        _Pragma("GCC unroll 16") for (int l = 0; l < k; l++) {                                     \
            if (n == W && b_column == 1) {                                                         \
                rows[l] = *(const tiny_row_##S##_##W *)(b + l * b_row);                            \
            } else {                                                                               \
                rows[l] = (tiny_row_##S##_##W){0};                                                 \
                for (int j = 0; j < n; j++)                                                        \
                    rows[l][j] = b[l * b_row + j * b_column];                                      \
            }                                                                                      \
        }                                                                                          \
        for (int i = 0; i < m; i++) {                                                              \
            tiny_row_##S##_##W sum = {0};                                                          \
            _Pragma("GCC unroll 16") for (int l = 0; l < k; l++) sum =                             \
                sum + a[i * a_row + l * a_column] * rows[l];                                       \
            if (n == W)                                                                            \
                *(tiny_row_##S##_##W *)(out + i * n) = sum;                                        \
            else                                                                                   \
                for (int j = 0; j < n; j++)                                                        \
                    out[i * n + j] = sum[j];                                                       \
        }                                                                                          \
    }
CT_TINY(f32, 4)
CT_TINY(f32, 8)
CT_TINY(f32, 16)
CT_TINY(f64, 4)
CT_TINY(f64, 8)
CT_TINY(f64, 16)

/* ---- results of blocks, combined like the carries of a counter; `d` counts the blocks ---- */

#define CARRY(c, d, value, combine)                                                                \
    {                                                                                              \
        __typeof__(c[0]) block = value;                                                            \
        int top = __builtin_popcountll(d);                                                         \
        for (ct_u64 carry = d; carry & 1; carry >>= 1)                                             \
            block = combine(c[--top], block);                                                      \
        c[top] = block;                                                                            \
        d++;                                                                                       \
    }
#define CARRIED(c, d, result, combine)                                                             \
    {                                                                                              \
        int top = __builtin_popcountll(d);                                                         \
        result = c[--top];                                                                         \
        while (top > 0) {                                                                          \
            top--;                                                                                 \
            result = combine(c[top], result);                                                      \
        }                                                                                          \
    }
