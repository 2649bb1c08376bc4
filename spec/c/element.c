/* The accuracy of the words in graph/element.h against long double, over sweeps of their domains:
 * the errors that its first comment states, with a little room. Scalar forms; vectors have the same
 * bits (spec/eager). */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "graph/element.h"

static int failures;

/* |value - truth| in units of the last place of a format of `bits` bits, exponents from `least`. */
static double ulps(long double value, long double truth, int bits, int least) {
    if (isnan(truth))
        return isnan(value) ? 0 : INFINITY;
    if (value == truth)
        return 0;
    if (isnan(value) || isinf(value) || isinf(truth))
        return INFINITY;
    int exponent;
    frexpl(truth, &exponent);
    if (exponent - 1 < least)
        exponent = least + 1;
    return (double)(fabsl(value - truth) / ldexpl(1, exponent - bits));
}

static void report(const char *name, const char *type, double worst, double at, double allowed) {
    int good = worst <= allowed;
    failures += !good;
    printf("%s element: %s of %s is within %.2f ulp (worst %.2f at %.17g)\n",
           good ? "ok" : "not ok", name, type, allowed, worst, at);
}

static long double sigmoidl(long double x) {
    return 1 / (1 + expl(-x));
}

#define SWEEP(WORD, TRUTH, LOW, HIGH, ULPS32, ULPS64)                                              \
    do {                                                                                           \
        double worst32 = 0, at32 = 0, worst64 = 0, at64 = 0;                                       \
        for (int i = 0; i <= 100000; i++) {                                                        \
            double x = (LOW) + ((HIGH) - (LOW)) * i / 100000.0;                                    \
            float f = (float)x;                                                                    \
            double off = ulps(WORD(x), TRUTH((long double)x), 53, -1022);                          \
            if (!(off <= worst64))                                                                 \
                worst64 = off, at64 = x;                                                           \
            off = ulps(WORD(f), TRUTH((long double)f), 24, -126);                                  \
            if (!(off <= worst32))                                                                 \
                worst32 = off, at32 = f;                                                           \
        }                                                                                          \
        report(#TRUTH, "float32", worst32, at32, ULPS32);                                          \
        report(#TRUTH, "float64", worst64, at64, ULPS64);                                          \
    } while (0)

int main(void) {
    SWEEP(CT_EXP, expl, -85.0, 88.0, 1.2, 1.1);
    SWEEP(CT_EXP, expl, -1e-3, 1e-3, 1.2, 1.1);
    SWEEP(CT_LOG, logl, 1e-30, 4.0, 1.0, 1.0);
    SWEEP(CT_LOG, logl, 0.9, 1.1, 1.0, 1.0);
    SWEEP(CT_LOG, logl, 1.0, 1e30, 1.0, 1.0);
    SWEEP(CT_LOG1P, log1pl, -0.999, 9.0, 1.2, 1.2);
    SWEEP(CT_LOG1P, log1pl, -1e-4, 1e-4, 1.2, 1.2);
    SWEEP(CT_EXPM1, expm1l, -5.0, 5.0, 1.2, 1.7);
    SWEEP(CT_EXPM1, expm1l, -1e-4, 1e-4, 1.2, 1.7);
    SWEEP(CT_SIN, sinl, -30.0, 30.0, 1.7, 1.1);
    SWEEP(CT_COS, cosl, -30.0, 30.0, 1.7, 1.1);
    SWEEP(CT_TANH, tanhl, -10.0, 10.0, 1.7, 2.7);
    SWEEP(CT_TANH, tanhl, -1e-3, 1e-3, 1.7, 2.7);
    SWEEP(CT_SIGMOID, sigmoidl, -80.0, 30.0, 2.7, 2.7);
    SWEEP(CT_ERF, erfl, -6.0, 6.0, 1.2, 1.2);
    SWEEP(CT_ERF, erfl, -1e-3, 1e-3, 1.2, 1.2);
    return failures != 0;
}
