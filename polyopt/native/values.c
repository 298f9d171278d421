/* Kernel values between points and samples: exponentials in place, and their sums with coefficients. */
#include "elementary.h"
#include "vectors.h"

#define TEMPLATE "values.inc"
#include "each_float_type.inc"
