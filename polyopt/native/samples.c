/* unfused */
/* Single passes over dense samples, float32 or float64, in double precision: the same numbers give the same bits in
   both types. (A compiler fuses products and sums of one loop and not of another.) */
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
