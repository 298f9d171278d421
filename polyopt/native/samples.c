/* unfused */
/* Single passes over dense samples, float32 or float64, in double precision: the same numbers give the same bits in
   both types. (A compiler fuses products and sums of one loop and not of another.) */
#include "vectors.h"

#define TEMPLATE "samples.inc"
#include "each_float_type.inc"
