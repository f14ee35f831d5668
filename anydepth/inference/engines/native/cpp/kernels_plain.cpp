// Kernels for any processor.
#include "kernels.h"

#define ANYDEPTH_SET plain
#define ANYDEPTH_WIDTH 4
#define ANYDEPTH_VECTORS 4
#define ANYDEPTH_ROWS 6
#include "kernels_impl.h"
