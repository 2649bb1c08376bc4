/* create.c: new tensors from a recipe. Constants, ranges and random numbers are deferred by the
 * graph until their elements are read, so a large model can be declared first. */
#include <math.h>

#include "bind/bind.h"

typedef struct creation {
    ct_dtype dtype;
    bool requires_grad;
} creation;

/* (dtype, requires_grad) at `index`, by position or as a table. */
static creation read_creation(lua_State *L, int index, const char *function, ct_dtype absent) {
    static const char *const options[] = {"dtype", "requires_grad", NULL};
    creation c = {absent, false};
    ct_lua_spread_options(L, index, function, options);
    if (!lua_isnil(L, index))
        c.dtype = ct_lua_dtype(L, index, function, "dtype");
    c.requires_grad = ct_lua_flag(L, index + 1, function, "requires_grad", false);
    if (c.requires_grad && !ct_dtype_is_float(c.dtype))
        ct_lua_raise(L, function,
                     "a tensor of %s has no gradient; 'requires_grad' needs a floating type",
                     ct_dtype_name(c.dtype));
    return c;
}

static int finish(ct_lua_call *call, ct_node *node, const creation *c) {
    ct_lua_finish(call, node);
    if (c->requires_grad && ct_tensor_require_grad(*call->result, true, &call->error) != CT_OK)
        return ct_lua_raise_error(call->L, call->function, &call->error);
    return 1;
}

static void check_holds(lua_State *L, const char *function, const ct_scalar *value,
                        ct_dtype dtype) {
    char text[CT_LUA_TEXT];
    if (!ct_lua_fits(*value, dtype))
        ct_lua_raise(L, function, "%s does not fit into %s", ct_lua_number_text(value->f, text),
                     ct_dtype_name(dtype));
}

static int fill(lua_State *L, const char *function, const ct_shape *shape, ct_scalar value,
                const creation *c) {
    ct_lua_call call;
    check_holds(L, function, &value, c->dtype);
    if (ct_dtype_is_float(c->dtype) && fabs(value.f) < 9007199254740992.0)
        value.is_int = false; /* -0 stays -0 */
    ct_lua_begin(&call, L, function);
    return finish(&call, ct_constant(&call.builder, c->dtype, shape, value), c);
}

static ct_dtype read_fill_value(lua_State *L, int index, const char *function, ct_scalar *value) {
    char text[CT_LUA_TEXT];
    if (lua_isboolean(L, index)) {
        *value = ct_scalar_int(lua_toboolean(L, index));
        return CT_BOOL;
    }
    if (!ct_lua_scalar(L, index, value))
        ct_lua_raise(L, function, "'value' must be a number or a boolean, got %s",
                     ct_lua_describe(L, index, text));
    return CT_FLOAT32;
}

/* full(shape, value, dtype) */
static int full(lua_State *L) {
    ct_shape shape;
    ct_scalar value;
    char text[CT_LUA_TEXT];
    if (!lua_istable(L, 1))
        return ct_lua_raise(L, "ct.full", "'shape' must be a list of whole numbers, got %s",
                            ct_lua_describe(L, 1, text));
    ct_lua_shape(L, 1, "ct.full", &shape);
    ct_dtype natural = read_fill_value(L, 2, "ct.full", &value);
    creation c = read_creation(L, 3, "ct.full", natural);
    return fill(L, "ct.full", &shape, value, &c);
}

static int filled(lua_State *L, const char *function, int value) {
    ct_shape shape;
    int next = ct_lua_shape(L, 1, function, &shape);
    creation c = read_creation(L, next, function, CT_FLOAT32);
    return fill(L, function, &shape, ct_scalar_int(value), &c);
}

static int zeros(lua_State *L) {
    return filled(L, "ct.zeros", 0);
}

static int ones(lua_State *L) {
    return filled(L, "ct.ones", 1);
}

static int filled_like(lua_State *L, const char *function, int value) {
    const ct_tensor *like = ct_lua_tensor(L, 1, function, "self");
    creation c = read_creation(L, 2, function, like->dtype);
    return fill(L, function, &like->view.shape, ct_scalar_int(value), &c);
}

static int zeros_like(lua_State *L) {
    return filled_like(L, "zeros_like", 0);
}

static int ones_like(lua_State *L) {
    return filled_like(L, "ones_like", 1);
}

static int full_like(lua_State *L) {
    ct_scalar value;
    const ct_tensor *like = ct_lua_tensor(L, 1, "full_like", "self");
    read_fill_value(L, 2, "full_like", &value);
    creation c = read_creation(L, 3, "full_like", like->dtype);
    return fill(L, "full_like", &like->view.shape, value, &c);
}

/* arange(stop), arange(start, stop, step): start + i * step
 * below stop; int64 where all are whole */
static int arange(lua_State *L) {
    int n = 0;
    double number[3] = {0, 0, 1};
    ct_scalar part[3];
    ct_lua_call call;
    bool whole = true;
    while (n < 3 && lua_type(L, n + 1) == LUA_TNUMBER) {
        number[n] = ct_lua_real(L, n + 1, "ct.arange", "stop");
        ct_lua_scalar(L, n + 1, &part[n]);
        whole = whole && part[n].is_int;
        n++;
    }
    if (n == 0)
        ct_lua_real(L, 1, "ct.arange", "stop");
    if (n == 1)
        number[1] = number[0], number[0] = 0;
    double start = number[0], stop = number[1], step = number[2];
    if (!isfinite(start) || !isfinite(stop) || !isfinite(step))
        return ct_lua_raise(L, "ct.arange",
                            "'start', 'stop' and 'step' must be finite, got %g, %g, %g", start,
                            stop, step);
    if (step == 0)
        return ct_lua_raise(L, "ct.arange", "'step' must not be 0");
    if ((step > 0 && stop < start) || (step < 0 && stop > start))
        return ct_lua_raise(L, "ct.arange", "from %g to %g does not go the way of step %g", start,
                            stop, step);
    creation c = read_creation(L, n + 1, "ct.arange", whole ? CT_INT64 : CT_FLOAT32);
    double count = ceil((stop - start) / step);
    if (count > 4e18)
        return ct_lua_raise(L, "ct.arange", "from %g to %g by %g is too many elements", start, stop,
                            step);
    ct_lua_begin(&call, L, "ct.arange");
    ct_scalar first = whole ? ct_scalar_int((int64_t)start) : ct_scalar_float(start);
    ct_scalar stride = whole ? ct_scalar_int((int64_t)step) : ct_scalar_float(step);
    return finish(&call, ct_iota(&call.builder, c.dtype, (int64_t)count, first, stride), &c);
}

/* linspace(start, stop, n): n numbers, both ends among them */
static int linspace(lua_State *L) {
    ct_lua_call call;
    double start = ct_lua_real(L, 1, "ct.linspace", "start"),
           stop = ct_lua_real(L, 2, "ct.linspace", "stop");
    int64_t n = ct_lua_integer(L, 3, "ct.linspace", "n");
    creation c = read_creation(L, 4, "ct.linspace", CT_FLOAT32);
    if (n < 0)
        return ct_lua_raise(L, "ct.linspace", "'n' must not be negative, got %lld", (long long)n);
    if (!ct_dtype_is_float(c.dtype))
        return ct_lua_raise(L, "ct.linspace", "'dtype' must be a floating type, got %s",
                            ct_dtype_name(c.dtype));
    ct_lua_begin(&call, L, "ct.linspace");
    double step = n > 1 ? (stop - start) / (double)(n - 1) : 0;
    return finish(&call,
                  ct_iota(&call.builder, c.dtype, n, ct_scalar_float(start), ct_scalar_float(step)),
                  &c);
}

/* eye(n, m = n) */
static int eye(lua_State *L) {
    ct_lua_call call;
    int64_t n = ct_lua_integer(L, 1, "ct.eye", "n"), m = n;
    int next = 2;
    if (lua_type(L, 2) == LUA_TNUMBER)
        m = ct_lua_integer(L, next++, "ct.eye", "m");
    creation c = read_creation(L, next, "ct.eye", CT_FLOAT32);
    if (n < 0 || m < 0)
        return ct_lua_raise(L, "ct.eye", "extents must not be negative, got %lld and %lld",
                            (long long)n, (long long)m);
    ct_lua_begin(&call, L, "ct.eye");
    ct_builder *b = &call.builder;
    ct_scalar zero = ct_scalar_int(0), one = ct_scalar_int(1);
    ct_shape column = {2, {n, 1}};
    ct_node *row = ct_reshape(b, ct_iota(b, CT_INT64, n, zero, one), &column);
    return finish(&call,
                  ct_cast(b, ct_binary(b, CT_EQ, row, ct_iota(b, CT_INT64, m, zero, one)), c.dtype),
                  &c);
}

static int random(lua_State *L, const char *function, ct_random kind, const ct_shape *shape,
                  const creation *c) {
    ct_lua_call call;
    if (!ct_dtype_is_float(c->dtype))
        return ct_lua_raise(L, function, "'dtype' must be a floating type, got %s",
                            ct_dtype_name(c->dtype));
    ct_lua_begin(&call, L, function);
    return finish(&call, ct_random_node(&call.builder, c->dtype, shape, kind, 0, 0), c);
}

static int random_of_shape(lua_State *L, const char *function, ct_random kind) {
    ct_shape shape;
    int next = ct_lua_shape(L, 1, function, &shape);
    creation c = read_creation(L, next, function, CT_FLOAT32);
    return random(L, function, kind, &shape, &c);
}

static int rand_uniform(lua_State *L) {
    return random_of_shape(L, "ct.rand", CT_RANDOM_UNIFORM);
}

static int rand_normal(lua_State *L) {
    return random_of_shape(L, "ct.randn", CT_RANDOM_NORMAL);
}

static int random_like(lua_State *L, const char *function, ct_random kind) {
    const ct_tensor *like = ct_lua_tensor(L, 1, function, "self");
    creation c = read_creation(L, 2, function, like->dtype);
    return random(L, function, kind, &like->view.shape, &c);
}

static int rand_like(lua_State *L) {
    return random_like(L, "rand_like", CT_RANDOM_UNIFORM);
}

static int randn_like(lua_State *L) {
    return random_like(L, "randn_like", CT_RANDOM_NORMAL);
}

/* randint(high, {shape}), randint(low, high, shape): low <= n < high */
static int randint(lua_State *L) {
    ct_shape shape;
    ct_lua_call call;
    int64_t low = 0, high;
    int next = 2;
    if (lua_istable(L, 2)) {
        high = ct_lua_integer(L, 1, "ct.randint", "high");
    } else {
        low = ct_lua_integer(L, 1, "ct.randint", "low");
        high = ct_lua_integer(L, next++, "ct.randint", "high");
    }
    next = ct_lua_shape(L, next, "ct.randint", &shape);
    creation c = read_creation(L, next, "ct.randint", CT_INT64);
    if (high <= low)
        return ct_lua_raise(L, "ct.randint", "'high' (%lld) must be above 'low' (%lld)",
                            (long long)high, (long long)low);
    ct_scalar least = ct_scalar_int(low), most = ct_scalar_int(high - 1);
    check_holds(L, "ct.randint", &least, c.dtype);
    check_holds(L, "ct.randint", &most, c.dtype);
    ct_lua_begin(&call, L, "ct.randint");
    return finish(&call,
                  ct_random_node(&call.builder, c.dtype, &shape, CT_RANDOM_INTEGER, low, high), &c);
}

/* randperm(n): 0..n-1 in random order */
static int randperm(lua_State *L) {
    ct_lua_call call;
    ct_shape shape = {1, {ct_lua_integer(L, 1, "ct.randperm", "n")}};
    creation c = read_creation(L, 2, "ct.randperm", CT_INT64);
    if (shape.dim[0] < 0)
        return ct_lua_raise(L, "ct.randperm", "'n' must not be negative, got %lld",
                            (long long)shape.dim[0]);
    ct_lua_begin(&call, L, "ct.randperm");
    ct_builder *b = &call.builder;
    ct_node *key = ct_random_node(b, CT_FLOAT64, &shape, CT_RANDOM_UNIFORM, 0, 0);
    return finish(&call, ct_cast(b, ct_argsort(b, key, 0, false), c.dtype), &c);
}

/* 1 with probability p, else 0, of p's type and shape */
static ct_node *bernoulli_node(ct_builder *b, ct_node *p, ct_dtype dtype) {
    if (!p)
        return NULL;
    ct_dtype drawn = p->dtype == CT_FLOAT64 ? CT_FLOAT64 : CT_FLOAT32;
    ct_node *draw = ct_random_node(b, drawn, &p->shape, CT_RANDOM_UNIFORM, 0, 0);
    return ct_cast(b, ct_binary(b, CT_LT, draw, ct_cast(b, p, drawn)), dtype);
}

static int bernoulli(lua_State *L) {
    ct_lua_call call;
    ct_tensor *p = ct_lua_tensor(L, 1, "bernoulli", "p");
    if (!ct_dtype_is_float(p->dtype))
        return ct_lua_raise(L, "bernoulli", "'p' must be of a floating type, got %s",
                            ct_dtype_name(p->dtype));
    ct_lua_begin(&call, L, "bernoulli");
    return ct_lua_finish(&call, bernoulli_node(&call.builder, ct_lua_node(&call, p), p->dtype));
}

static int manual_seed(lua_State *L) {
    int64_t seed = ct_lua_integer(L, 1, "ct.manual_seed", "seed");
    ct_runtime *runtime = ct_bind_of(L)->runtime;
    runtime->seed = (uint64_t)seed;
    runtime->draws = 0;
    return 0;
}

static ct_tensor *fill_target(lua_State *L, const char *function, bool floating) {
    ct_tensor *tensor = ct_lua_tensor(L, 1, function, "self");
    if (floating && !ct_dtype_is_float(tensor->dtype))
        ct_lua_raise(L, function, "the tensor must be of a floating type, got %s",
                     ct_dtype_name(tensor->dtype));
    return tensor;
}

/* Writes over the tensor at index 1 and returns it. */
static int write(ct_lua_call *call, ct_tensor *target, ct_node *value) {
    ct_lua_end(call, value && ct_tensor_write(&call->builder, target, value) == CT_OK);
    lua_pushvalue(call->L, 1);
    return 1;
}

static int fill_with(lua_State *L, const char *function, ct_scalar value) {
    ct_lua_call call;
    ct_tensor *target = fill_target(L, function, false);
    static const ct_shape scalar = {0, {0}};
    check_holds(L, function, &value, target->dtype);
    ct_lua_begin(&call, L, function);
    const ct_shape *shape = target->whole ? &target->view.shape : &scalar;
    return write(&call, target, ct_constant(&call.builder, target->dtype, shape, value));
}

static int fill_value(lua_State *L) {
    ct_scalar value;
    fill_target(L, "fill_", false);
    read_fill_value(L, 2, "fill_", &value);
    return fill_with(L, "fill_", value);
}

static int zero(lua_State *L) {
    return fill_with(L, "zero_", ct_scalar_int(0));
}

/* copy_(source): converts as :to does */
static int copy(lua_State *L) {
    ct_lua_call call;
    ct_tensor *target = fill_target(L, "copy_", false),
              *source = ct_lua_tensor(L, 2, "copy_", "source");
    ct_lua_begin(&call, L, "copy_");
    return write(&call, target, ct_lua_node(&call, source));
}

/* A draw of the target's shape, scaled and shifted. */
static ct_node *drawn(ct_lua_call *call, const ct_tensor *target, ct_random kind, double scale,
                      double shift) {
    return ct_random_scaled(&call->builder, target->dtype, &target->view.shape, kind, scale, shift);
}

/* uniform_(low = 0, high = 1) */
static int uniform(lua_State *L) {
    ct_lua_call call;
    ct_tensor *target = fill_target(L, "uniform_", true);
    double low = ct_lua_real_or(L, 2, "uniform_", "low", 0),
           high = ct_lua_real_or(L, 3, "uniform_", "high", 1);
    if (!(low <= high))
        return ct_lua_raise(L, "uniform_", "'low' (%g) must not be above 'high' (%g)", low, high);
    ct_lua_begin(&call, L, "uniform_");
    return write(&call, target, drawn(&call, target, CT_RANDOM_UNIFORM, high - low, low));
}

/* normal_(mean = 0, std = 1) */
static int normal(lua_State *L) {
    ct_lua_call call;
    ct_tensor *target = fill_target(L, "normal_", true);
    double mean = ct_lua_real_or(L, 2, "normal_", "mean", 0),
           std = ct_lua_real_or(L, 3, "normal_", "std", 1);
    if (!(std >= 0))
        return ct_lua_raise(L, "normal_", "'std' must not be negative, got %g", std);
    ct_lua_begin(&call, L, "normal_");
    return write(&call, target, drawn(&call, target, CT_RANDOM_NORMAL, std, mean));
}

/* bernoulli_(p = 0.5) */
static int bernoulli_in_place(lua_State *L) {
    ct_lua_call call;
    ct_tensor *target = fill_target(L, "bernoulli_", false);
    double p = ct_lua_real_or(L, 2, "bernoulli_", "p", 0.5);
    if (!(p >= 0 && p <= 1))
        return ct_lua_raise(L, "bernoulli_", "'p' must lie between 0 and 1, got %g", p);
    ct_lua_begin(&call, L, "bernoulli_");
    ct_node *chance =
        ct_constant(&call.builder, CT_FLOAT32, &target->view.shape, ct_scalar_float(p));
    return write(&call, target, bernoulli_node(&call.builder, chance, target->dtype));
}

void ct_open_create(lua_State *L, int core, int methods) {
    static const luaL_Reg functions[] = {
        {"full", full},
        {"zeros", zeros},
        {"ones", ones},
        {"arange", arange},
        {"linspace", linspace},
        {"eye", eye},
        {"rand", rand_uniform},
        {"randn", rand_normal},
        {"randint", randint},
        {"randperm", randperm},
        {"manual_seed", manual_seed},
        {NULL, NULL},
    };
    static const luaL_Reg method_functions[] = {
        {"zeros_like", zeros_like},
        {"ones_like", ones_like},
        {"full_like", full_like},
        {"rand_like", rand_like},
        {"randn_like", randn_like},
        {"bernoulli", bernoulli},
        {"fill_", fill_value},
        {"zero_", zero},
        {"copy_", copy},
        {"uniform_", uniform},
        {"normal_", normal},
        {"bernoulli_", bernoulli_in_place},
        {NULL, NULL},
    };
    static const luaL_Reg free_functions[] = {
        {"zeros_like", zeros_like},
        {"ones_like", ones_like},
        {"full_like", full_like},
        {"rand_like", rand_like},
        {"randn_like", randn_like},
        {"bernoulli", bernoulli},
        {NULL, NULL},
    };
    ct_lua_add(L, core, functions);
    ct_lua_add(L, core, free_functions);
    ct_lua_add(L, methods, method_functions);
}
