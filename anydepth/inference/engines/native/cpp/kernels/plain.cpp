// Kernels for any processor.
#include "kernels/kernels.h"

#define ANYDEPTH_SET plain
#define ANYDEPTH_WIDTH 4
#define ANYDEPTH_VECTORS 4
#define ANYDEPTH_ROWS 6
#include "kernels/kernels_of_set.h"
