/* Visits to samples by the Polyceptron: Algorithms 1 and 2 of Manwani & Sastry (2011). */
#include "rows.h"

/* Places in the tally of a visit. */
enum { CRITERION, MISTAKES, NORM };

#define WEIGHT double
#define WEIGHT_KIND f8
#define TEMPLATE "polyceptron.inc"
#include "each_row_type.inc"
