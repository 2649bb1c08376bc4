/* Philox4x32-10 against the known answers of its authors' Random123 distribution (kat_vectors). */
#include "base/philox.h"

#include <stdio.h>
#include <string.h>

static int failures;

/* key k1:k0, counter c3:c2 (draw), c1:c0 (block) */
static void check(const char *name, uint64_t key, uint64_t draw, uint64_t block,
                  const uint32_t expected[4]) {
    uint32_t words[4];
    ct_philox(key, draw, block, words);
    int good = memcmp(words, expected, sizeof words) == 0;
    failures += !good;
    printf("%s philox: %s\n", good ? "ok" : "not ok", name);
}

int main(void) {
    check("zeros", 0, 0, 0, (uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    check("ones", UINT64_MAX, UINT64_MAX, UINT64_MAX,
          (uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    check("digits of pi", UINT64_C(0x299f31d0a4093822), UINT64_C(0x0370734413198a2e),
          UINT64_C(0x85a308d3243f6a88),
          (uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
    return failures != 0;
}
