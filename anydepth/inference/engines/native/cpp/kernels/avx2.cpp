// Kernels for x86 processors with AVX2 and FMA.
#include "kernels/kernels.h"

#ifdef ANYDEPTH_X86
#include <immintrin.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

#define ANYDEPTH_SET avx2
#define ANYDEPTH_WIDTH 8
#define ANYDEPTH_VECTORS 2
#define ANYDEPTH_ROWS 6
#include "kernels/kernels_of_set.h"

#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
