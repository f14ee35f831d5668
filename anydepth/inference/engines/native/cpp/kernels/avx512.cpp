// Kernels for x86 processors with AVX-512 and its 8-bit dot-products (VNNI).
#include "kernels/kernels.h"

#ifdef ANYDEPTH_X86
#include <immintrin.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma"))), \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")
#endif

#define ANYDEPTH_SET avx512
#define ANYDEPTH_WIDTH 16
#define ANYDEPTH_VECTORS 4
#define ANYDEPTH_ROWS 6
#include "kernels/kernels_of_set.h"

#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
