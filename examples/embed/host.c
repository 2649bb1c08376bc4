/* host.c: a C program that trains while it computes. It lends ctrain its memory, its log and its
 * data, calls a step that a Lua script declares, and reads results where they lie.
 *
 *     cc host.c $(pkg-config --cflags --libs ctrain) -lm -o host
 *
 * Every part checks its own results; the program's exit status is 0 when all of them hold. */
#include <ctrain.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong;

static void expect(int holds, const char *what) {
    printf("%s: %s\n", holds ? "ok" : "not ok", what);
    wrong += !holds;
}

/* ---- What the host brings ------------------------------------------------------------------- */

typedef struct memory {
    long blocks; /* handed out and not yet given back */
    long asked;
} memory;

/* As realloc with free, for ctrain's tensors: aligned to 64 bytes; bytes == 0 frees. */
static void *allocate(void *context, void *pointer, size_t bytes) {
    memory *m = context;
    if (bytes == 0) {
        m->blocks -= pointer != NULL;
        free(pointer);
        return NULL;
    }
    void *block = aligned_alloc(64, (bytes + 63) / 64 * 64);
    m->blocks += block != NULL;
    m->asked++;
    return block;
}

static void keep_line(void *context, ct_log_level level, const char *line) {
    (void)level;
    snprintf(context, 200, "%s", line);
}

/* The host's own layout: what ctrain is to see are two members of it. */
typedef struct particle {
    double mass;
    float x, y;
    int cell;
} particle;

enum { PARTICLES = 256, STEPS = 400 };

static void mark(void *context) {
    *(int *)context = 1;
}

/* ---- The script ----------------------------------------------------------------------------- */

static const char script[] =
    "local ct = require 'ctrain'\n"
    "ct.manual_seed(1)\n"
    "local model = ct.nn.Sequential(ct.nn.Linear(2, 32), ct.nn.Tanh(), ct.nn.Linear(32, 1))\n"
    "local optimizer = ct.optim.Adam(model:parameters(), { lr = 0.02 })\n"
    "step = ct.trace(function(positions, potential)\n"
    "  local loss = ct.nn.functional.mse_loss(model(positions), potential)\n"
    "  optimizer:zero_grad()\n"
    "  loss:backward()\n"
    "  optimizer:step()\n"
    "  return loss\n"
    "end)\n"
    "function predict(positions) return ct.no_grad(function() return model(positions) end) end\n"
    "function double(values) return values * 2 end\n"
    "function shift(values) values:add_(1) end\n";

/* ---- Parts ---------------------------------------------------------------------------------- */

/* A column of a host matrix goes in as it lies there, and what
 * Lua computes is read where it lies. */
static void share(ct_runtime *runtime) {
    float matrix[3][4] = {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}};
    const int64_t shape[1] = {3}, strides[1] = {4};
    int released = 0;
    ct_error error;
    ct_tensor *doubled = NULL;
    ct_tensor *column = ct_tensor_wrap(runtime, CT_FLOAT32, 1, shape, strides, &matrix[0][1], mark,
                                       &released, &error);
    expect(column != NULL, "a strided array of the host is a tensor");
    ct_status status = ct_call(runtime, "double", &column, 1, &doubled, 1, &error);
    const float *values = status == CT_OK ? ct_tensor_data(doubled, &error) : NULL;
    const int64_t stride = values ? ct_tensor_strides(doubled)[0] : 0;
    expect(values && values[0] == 2 && values[stride] == 10 && values[2 * stride] == 18,
           "a result is read without a copy");
    status = ct_call(runtime, "shift", &column, 1, NULL, 0, &error);
    expect(status == CT_OK && matrix[0][1] == 2 && matrix[1][1] == 6 && matrix[2][1] == 10,
           "what Lua writes lands in the host's memory");
    expect(matrix[0][0] == 0 && matrix[0][2] == 2 && matrix[1][2] == 6, "and nowhere else");
    ct_tensor_free(doubled);
    ct_tensor_free(column);
    /* The collector may still know the tensor. */
    ct_run_string(runtime, "collectgarbage() collectgarbage()", "host", &error);
    expect(released == 1, "the host is told when its array is free again");
}

/* A mistake in a script is a message; the runtime works on. */
static void survive(ct_runtime *runtime) {
    ct_error error;
    ct_status status = ct_run_string(
        runtime, "local ct = require 'ctrain'\nreturn ct.ones(2, 3):matmul(ct.ones(4, 5))",
        "input deck", &error);
    expect(status == CT_ERR_LUA && strstr(error.message, "input deck:2:") &&
               strstr(error.message, "matmul"),
           "an error names the script's line and the operation");
    printf("    it reads: %.*s\n", (int)strcspn(error.message, "\n"), error.message);
    status = ct_call(runtime, "no_such_function", NULL, 0, NULL, 0, &error);
    expect(status == CT_ERR_LUA && strstr(error.message, "no_such_function"),
           "so does a missing function");
    status = ct_run_string(runtime, "x = 6 * 7", "host", &error);
    expect(status == CT_OK, "the runtime works on after errors");
}

static float potential_at(float x, float y) {
    return sinf(2 * x) * cosf(2 * y);
}

static float uniform(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 8388608.0f - 1; /* within [-1, 1) */
}

/* The host's own loop: it moves its particles, and the step learns from them where they are. */
static void train(ct_runtime *runtime) {
    static particle particles[PARTICLES];
    static float potential[PARTICLES];
    const int64_t shape[2] = {PARTICLES, 2}, column[2] = {PARTICLES, 1};
    const int64_t strides[2] = {sizeof(particle) / sizeof(float), 1};
    ct_error error;
    ct_tensor *batch[2] = {
        ct_tensor_wrap(runtime, CT_FLOAT32, 2, shape, strides, &particles[0].x, NULL, NULL, &error),
        ct_tensor_wrap(runtime, CT_FLOAT32, 2, column, NULL, potential, NULL, NULL, &error),
    };
    double first = NAN, last = NAN;
    unsigned seed = 7;
    ct_status status = batch[0] && batch[1] ? CT_OK : error.status;
    for (int step = 0; step < STEPS && status == CT_OK; step++) {
        for (int i = 0; i < PARTICLES; i++) {
            particles[i].x = uniform(&seed);
            particles[i].y = uniform(&seed);
            potential[i] = potential_at(particles[i].x, particles[i].y);
        }
        ct_tensor *loss = NULL;
        status = ct_call(runtime, "step", batch, 2, &loss, 1, &error);
        if (status == CT_OK)
            status = ct_tensor_item(loss, &last, &error);
        if (step == 0)
            first = last;
        ct_tensor_free(loss);
    }
    if (status != CT_OK)
        fprintf(stderr, "%s\n", error.message);
    printf("    loss: %.5f at first, %.5f after %d steps\n", first, last, STEPS);
    expect(status == CT_OK && last < first / 10, "the loss falls");

    ct_tensor *predicted = NULL;
    status = ct_call(runtime, "predict", batch, 1, &predicted, 1, &error);
    const float *values = status == CT_OK ? ct_tensor_data(predicted, &error) : NULL;
    double squares = 0;
    for (int i = 0; values && i < PARTICLES; i++)
        squares += pow(values[i * ct_tensor_strides(predicted)[0]] - potential[i], 2);
    expect(values && squares / PARTICLES < 2 * last + 1e-3,
           "the model predicts as well as it was trained");
    ct_tensor_free(predicted);
    ct_tensor_free(batch[0]);
    ct_tensor_free(batch[1]);
}

int main(void) {
    memory own = {0, 0};
    char line[200] = "";
    ct_error error;
    const ct_config config = {
        .allocate = allocate, .allocate_context = &own, .log = keep_line, .log_context = line};
    ct_runtime *runtime = ct_runtime_new(&config, &error);
    if (!runtime) {
        fprintf(stderr, "%s\n", error.message);
        return EXIT_FAILURE;
    }
    if (ct_run_string(runtime, script, "script", &error) != CT_OK) {
        fprintf(stderr, "%s\n", error.message);
        ct_runtime_free(runtime);
        return EXIT_FAILURE;
    }
    share(runtime);
    survive(runtime);
    train(runtime);
    ct_run_string(runtime, "require('ctrain').backend('CPU', { cluster_config = {} })", "host",
                  &error);
    expect(line[0] != '\0', "warnings reach the host's log");

    ct_tensor *kept = ct_tensor_full(runtime, CT_FLOAT64, 0, NULL, 0.5, &error);
    double value = 0;
    ct_tensor_data(kept, &error);
    ct_runtime_free(runtime);
    expect(ct_tensor_item(kept, &value, &error) == CT_OK && value == 0.5,
           "a tensor that the host holds outlives the runtime");
    ct_tensor_free(kept);
    expect(own.asked > 0 && own.blocks == 0, "all of the host's memory came back");
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
