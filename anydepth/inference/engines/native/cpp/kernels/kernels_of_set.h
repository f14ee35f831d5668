// The table of the kernels of one instruction set. A file for each set includes this one, with these
// defined:
//   ANYDEPTH_SET     name of the instruction set, and of the namespace
//   ANYDEPTH_WIDTH   floats in a vector register
//   ANYDEPTH_VECTORS registers across a panel: its columns are WIDTH * VECTORS
//   ANYDEPTH_ROWS    rows of a tile; ROWS * VECTORS sums stay in registers
// Each set is compiled with other instructions, so everything from here on is static in the set's
// namespace, and no header of the standard library is included: the linker would keep one of three
// compiled versions of an inline function, perhaps one that this processor cannot run.
#pragma once

// In this order: all build on vectors.h, products_int8.h on products.h, attention.h and words.h on
// rows.h.
#include "kernels/vectors.h"
#include "kernels/products.h"
#include "kernels/products_int8.h"
#include "kernels/rows.h"
#include "kernels/attention.h"
#include "kernels/words.h"
#include "kernels/transposing.h"
#include "kernels/activations.h"

#define ANYDEPTH_TEXT(x) ANYDEPTH_TEXT_OF(x)
#define ANYDEPTH_TEXT_OF(x) #x
#define ANYDEPTH_JOIN(a, b) ANYDEPTH_JOIN_OF(a, b)
#define ANYDEPTH_JOIN_OF(a, b) a##b

namespace anydepth {

extern const Kernels ANYDEPTH_JOIN(kernels_, ANYDEPTH_SET) = {
    ANYDEPTH_TEXT(ANYDEPTH_SET), ANYDEPTH_SET::PANEL,       ANYDEPTH_SET::linear,           ANYDEPTH_SET::quantize,
    ANYDEPTH_SET::linear_int8,   ANYDEPTH_SET::add_norm,    ANYDEPTH_SET::attend_scattered, ANYDEPTH_SET::attend_dense,
    ANYDEPTH_SET::dot,           ANYDEPTH_SET::max_and_sum, ANYDEPTH_SET::top,              ANYDEPTH_SET::score_words,
    ANYDEPTH_SET::transpose,     ANYDEPTH_SET::gelu,        ANYDEPTH_SET::swish,
};

}  // namespace anydepth
