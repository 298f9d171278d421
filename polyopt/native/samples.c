/* Single passes over dense samples: float32 or float64, centred in double precision. */
#include "vectors.h"

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
