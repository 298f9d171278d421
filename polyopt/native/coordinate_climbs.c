/* Coordinate ascent: steps on one face at a time. */
#include "coordinate_ascent.h"

#define WEIGHT double
#define WEIGHT_KIND f8
#define TEMPLATE "coordinate_climbs.inc"
#include "each_row_type.inc"
