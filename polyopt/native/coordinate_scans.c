/* Coordinate ascent: scores and steps on all faces at once. */
#include "coordinate_ascent.h"

#define TEMPLATE "coordinate_scans.inc"
#include "each_row_type.inc"
