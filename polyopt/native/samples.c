/* Single passes over dense samples. */
#include "common.h"

#define ENTRY double
#define KIND f8
#include "samples.inc"
#undef ENTRY
#undef KIND
#define ENTRY float
#define KIND f4
#include "samples.inc"
#undef ENTRY
#undef KIND
