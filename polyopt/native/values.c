/* Kernel values between points and samples: exponentials in place, and their sums with coefficients. */
#include "elementary.h"
#include "vectors.h"

#define VALUE double
#define KIND f8
#include "values.inc"
#undef VALUE
#undef KIND
#define VALUE float
#define KIND f4
#include "values.inc"
#undef VALUE
#undef KIND
