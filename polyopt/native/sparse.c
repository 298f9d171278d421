/* Sparse samples: dense rows packed without their zeros, and products of sparse rows with sparse rows. */
#include "vectors.h"

#define KIND f8
#define ENTRY double
#include "packed.inc"
#undef KIND
#undef ENTRY
#define KIND f4
#define ENTRY float
#include "packed.inc"
#undef KIND
#undef ENTRY
#define KIND u1
#define ENTRY uint8_t
#include "packed.inc"
#undef KIND
#undef ENTRY

#define GROUP 64    /* samples at the right that are multiplied at once: columns of `group` */
#define ROWS 16     /* samples at the left whose products are written at once */
#define ENTRIES 512 /* entries of a sample at the left that are gathered at once */

#define KIND f8_i4
#define ENTRY double
#define VECTOR vector_f8
#define INDEX int32_t
#include "products.inc"
#undef KIND
#undef INDEX
#define KIND f8_i8
#define INDEX int64_t
#include "products.inc"
#undef KIND
#undef ENTRY
#undef VECTOR
#define KIND f4_i8
#define ENTRY float
#define VECTOR vector_f4
#include "products.inc"
#undef KIND
#undef INDEX
#define KIND f4_i4
#define INDEX int32_t
#include "products.inc"
#undef KIND
#undef ENTRY
#undef VECTOR
#undef INDEX
