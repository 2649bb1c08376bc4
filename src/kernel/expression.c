// expression.c: one member as one declaration. Values in registers are of five kinds of floats and
// integers; half types are float32 that was rounded, bool is a mask (all bits set, or none).
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernel/loops.h"
#include "kernel/order.h"

#define OPERAND 96

const char *ct_word(ct_dtype dtype) {
    switch (dtype) {
    case CT_BOOL: return "mask";
    case CT_UINT8: return "u8";
    case CT_INT8: return "i8";
    case CT_INT16: return "i16";
    case CT_INT32: return "i32";
    case CT_INT64: return "i64";
    case CT_FLOAT64: return "f64";
    default: return "f32";
    }
}

const char *ct_memory_type(ct_dtype dtype) {
    static const char *const types[] = {"ct_u8",  "ct_u8",  "ct_i8",  "ct_i16", "ct_i32",
                                        "ct_i64", "ct_u16", "ct_u16", "ct_f32", "ct_f64"};
    return types[dtype];
}

const char *ct_value_type(ct_dtype dtype, bool vector) {
    static const char *const vectors[] = {"ct_maskv", "ct_u8v",  "ct_i8v",  "ct_i16v", "ct_i32v",
                                          "ct_i64v",  "ct_f32v", "ct_f32v", "ct_f32v", "ct_f64v"};
    static const char *const scalars[] = {"ct_mask", "ct_u8",  "ct_i8",  "ct_i16", "ct_i32",
                                          "ct_i64",  "ct_f32", "ct_f32", "ct_f32", "ct_f64"};
    return vector ? vectors[dtype] : scalars[dtype];
}

const char *ct_form(const ct_nest *nest) {
    return !nest->vector ? "S" : nest->width == 4 ? "V4" : "V8";
}

void ct_constant_text(char *text, size_t size, ct_scalar value, ct_dtype dtype) {
    unsigned char element[8] = {0};
    ct_scalar_store(value, dtype, element);
    ct_scalar rounded = ct_scalar_load(dtype, element);
    const char *suffix = dtype == CT_FLOAT64 ? "" : "f";
    if (dtype == CT_BOOL) {
        snprintf(text, size, rounded.f != 0 ? "-1" : "0");
    } else if (!ct_dtype_is_float(dtype)) {
        if (rounded.i == INT64_MIN)
            snprintf(text, size, "INT64_MIN");
        else if (dtype == CT_INT64)
            snprintf(text, size, "INT64_C(%lld)", (long long)rounded.i);
        else
            snprintf(text, size, "(%s)%lld", ct_value_type(dtype, false), (long long)rounded.i);
    } else if (isnan(rounded.f)) {
        snprintf(text, size, "%s__builtin_nan%s(\"\")", signbit(rounded.f) ? "-" : "", suffix);
    } else if (isinf(rounded.f)) {
        snprintf(text, size, "%s__builtin_inf%s()", rounded.f < 0 ? "-" : "", suffix);
    } else {
        snprintf(text, size, "%a%s", rounded.f, suffix);
    }
}

/* The operand's text where the member is computed: a vector where the member is one. */
static ct_dtype operand_text(const ct_nest *nest, const ct_member *member, int index,
                             char text[OPERAND]) {
    const ct_origin *operand = &member->operand[index];
    const char *word = ct_word(operand->dtype);
    char literal[64];
    switch (operand->kind) {
    case CT_OPERAND_CONST:
        ct_constant_text(literal, sizeof literal, operand->value, operand->dtype);
        if (nest->vector)
            snprintf(text, OPERAND, "SPLAT_%s(%s)", word, literal);
        else
            snprintf(text, OPERAND, "%s", literal);
        break;
    case CT_OPERAND_MEMBER: {
        const ct_member *source = &nest->kernel->members[operand->index];
        bool spread = nest->vector && !nest->across && nest->kernel->kind == CT_KERNEL_ROWS &&
                      source->level == CT_LEVEL_PART;
        if (spread)
            snprintf(text, OPERAND, "SPLAT_%s(m%d)", word, operand->index);
        else
            snprintf(text, OPERAND, "m%d", operand->index);
        break;
    }
    case CT_OPERAND_LOAD: snprintf(text, OPERAND, "x%d", operand->index); break;
    }
    return operand->dtype;
}

void ct_render_member(ct_nest *nest, int index) {
    const ct_member *member = &nest->kernel->members[index];
    const ct_node *node = member->node;
    char text[3][OPERAND] = {"", "", ""}, value[512];
    ct_dtype dtype = CT_DTYPES;
    for (int i = 0; i < member->operands; i++) {
        ct_dtype of = operand_text(nest, member, i, text[i]);
        if (i == 0 || node->op == CT_WHERE)
            dtype = of;
    }
    const char *form = ct_form(nest);
    if (node->op == CT_COPY || (node->op == CT_CAST && dtype == node->dtype)) {
        snprintf(value, sizeof value, "%s", text[0]);
    } else if (node->op == CT_CAST) {
        snprintf(value, sizeof value, "%s_%s_from_%s(%s)", form, ct_word(node->dtype),
                 ct_word(dtype), text[0]);
    } else {
        int used = snprintf(value, sizeof value, "%s_%s_%s(", form, ct_op_table[node->op].name,
                            ct_word(dtype));
        for (int i = 0; i < member->operands; i++) {
            used += snprintf(value + used, sizeof value - (size_t)used, "%s%s", i > 0 ? ", " : "",
                             text[i]);
        }
        snprintf(value + used, sizeof value - (size_t)used, ")");
    }
    ct_line_out(nest, "const %s m%d = %s;", ct_value_type(node->dtype, nest->vector), index, value);
}

bool ct_renders(const ct_node *node) {
    const ct_op_info *info = &ct_op_table[node->op];
    ct_dtype first =
        node->n_sources > 0 ? node->sources[node->op == CT_WHERE ? 1 : 0]->dtype : node->dtype;
    if (first == CT_FLOAT16 || first == CT_BFLOAT16 || node->dtype == CT_FLOAT16 ||
        node->dtype == CT_BFLOAT16) {
        return false; // rounding of half types is the eager loops'
    }
    switch (info->class) {
    case CT_CLASS_UNARY:
    case CT_CLASS_BINARY:
    case CT_CLASS_COMPARE:
    case CT_CLASS_SELECT: break;
    default: return node->op == CT_COPY;
    }
    if (node->op == CT_CAST) { // floats out of an integer's range are the eager loops'
        return !(ct_dtype_is_float(first) && ct_dtype_is_int(node->dtype));
    }
    if (first == CT_BOOL) {
        return node->op == CT_ADD || node->op == CT_MUL || node->op == CT_MAXIMUM ||
               node->op == CT_MINIMUM || node->op == CT_BITAND || node->op == CT_BITOR ||
               node->op == CT_BITXOR || node->op == CT_BITNOT || node->op == CT_WHERE ||
               info->class == CT_CLASS_COMPARE;
    }
    if (ct_dtype_is_float(first))
        return info->float_expression != NULL;
    // a division by 0 is an error that the eager loops report
    return info->int_expression != NULL && node->op != CT_FLOORDIV && node->op != CT_MOD;
}

/* ---- the functions ---- */

static const char *mask_word(ct_dtype dtype) {
    switch (ct_dtype_size(dtype)) {
    case 1: return "i8";
    case 2: return "i16";
    case 4: return "i32";
    default: return "i64";
    }
}

static void put_operation(ct_text *out, ct_op op, ct_dtype dtype, const char *form, int width) {
    static const char *const names[] = {"x", "y", "z"};
    const ct_op_info *info = &ct_op_table[op];
    const char *expression =
        ct_dtype_is_float(dtype) ? info->float_expression : info->int_expression;
    bool compares = info->class == CT_CLASS_COMPARE, selects = info->class == CT_CLASS_SELECT;
    bool vector = width != 0;
    const char *type = ct_value_type(dtype, vector);
    // the long functions are called where a loop takes one element: that saves the compiler much
    // and costs little
    bool called = !vector && strstr(expression, "CT_") != NULL && !compares && !selects &&
                  info->class != CT_CLASS_BINARY;
    called = called || (!vector && (op == CT_POW || op == CT_MOD || op == CT_FLOORDIV));
    ct_put(out, "%s %s %s_%s_%s(", called ? "CT_CALLED" : "CT_INLINE",
           compares ? ct_value_type(CT_BOOL, vector) : type, form, info->name, ct_word(dtype));
    for (int i = 0; i < info->sources; i++) {
        const char *of = selects && i == 0 ? ct_value_type(CT_BOOL, vector) : type;
        ct_put(out, "%s%s %s", i > 0 ? ", " : "", of, selects && i == 0 ? "mask" : names[i]);
    }
    ct_put(out, ") {\n    typedef %s ct_t; typedef %s ct_e;\n", type, ct_value_type(dtype, false));
    if (selects && vector) {
        ct_put(out, "    const ct_%sv x = WIDE%d_%s(mask);\n", mask_word(dtype), width,
               mask_word(dtype));
    } else if (selects) {
        ct_put_text(out, "    const ct_mask x = mask;\n");
    }
    if (compares && vector)
        ct_put(out, "    return MASK%d_%s(%s);\n}\n", width, mask_word(dtype), expression);
    else if (compares)
        ct_put(out, "    return -(%s);\n}\n", expression);
    else
        ct_put(out, "    return (ct_t)(%s);\n}\n", expression);
}

void ct_render_operations(ct_text *out, const ct_plan *plan) {
    bool used[CT_OPS][CT_DTYPES] = {{false}};
    for (int k = 0; k < plan->n_kernels; k++) {
        const ct_kernel *kernel = plan->kernels[k];
        if (kernel->kind == CT_KERNEL_CALL)
            continue;
        for (int i = 0; i < kernel->n_members; i++) {
            const ct_node *node = kernel->members[i].node;
            if (node->op == CT_COPY || node->op == CT_CAST)
                continue;
            used[node->op][node->sources[node->op == CT_WHERE ? 1 : 0]->dtype] = true;
        }
    }
    ct_put_text(out, "\n/* ---- operations ---- */\n\n");
    for (int op = 0; op < CT_OPS; op++) {
        for (int dtype = 0; dtype < CT_DTYPES; dtype++) {
            if (!used[op][dtype] || dtype == CT_BOOL)
                continue;
            if (ct_op_table[op].class == CT_CLASS_REDUCE) {
                ct_order_operation(out, (ct_op)op, (ct_dtype)dtype);
                continue;
            }
            put_operation(out, (ct_op)op, (ct_dtype)dtype, "S", 0);
            if (ct_dtype_size((ct_dtype)dtype) <= 4)
                put_operation(out, (ct_op)op, (ct_dtype)dtype, "V4", 4);
            put_operation(out, (ct_op)op, (ct_dtype)dtype, "V8", 8);
        }
    }
}
