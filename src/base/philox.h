/* philox.h: the counter-based generator Philox4x32-10 (Salmon et al., "Parallel random numbers: as
 * easy as 1, 2, 3", SC 2011). Stateless: a block of four words is a function of key and counter, so
 * the same numbers come out at any thread count and in any order. */
#ifndef CT_BASE_PHILOX_H
#define CT_BASE_PHILOX_H

#include <stdint.h>

/* Block number `block` of draw number `draw` under `seed`: four independent 32-bit words. Elements
 * 4b to 4b+3 of a draw take the words of block b (64-bit kinds take two words each: elements 2b and
 * 2b+1). */
void ct_philox(uint64_t seed, uint64_t draw, uint64_t block, uint32_t out[4]);

#endif
