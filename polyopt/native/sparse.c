/* Sparse samples: dense rows packed without their zeros, lengths, and products of sparse rows with sparse rows. */
#include "vectors.h"

#define TEMPLATE "packed.inc"
#include "each_float_type.inc"
#define ENTRY uint8_t
#define KIND u1
#include TEMPLATE
#undef ENTRY
#undef KIND
#undef TEMPLATE

#define GROUP 64    /* samples at the right that are multiplied at once: columns of `group` */
#define ROWS 16     /* samples at the left whose products are written at once */
#define ENTRIES 512 /* entries of a sample at the left that are gathered at once */

#define Vector JOIN(vector, KIND)
#define TEMPLATE "products.inc"
#include "each_csr_type.inc"
