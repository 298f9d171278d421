/* The search of the L0 tree: the problem, open nodes, what was seen, and room to work in.

   polyopt/sparse/node_program.py has the formulas, polyopt/sparse/tree.py the fields. */
#ifndef POLYOPT_L0_TREE_H
#define POLYOPT_L0_TREE_H

#include "l0_basis.h"

enum { OFF = -1, FREE = 0, ON = 1 };              /* what a node says of a centre */
enum { HEAP, STACK, SPARE, ROOM };                /* places in L0Nodes.counts */
enum { NODES, MADE, MAX_NODES, STEPS, MAX_DEPTH }; /* in L0Memory.counts */
enum { NUMBER, CENTRE, OFF_PLACE, ON_PLACE, DONE_SIDES }; /* in L0Memory.looked */
enum { BEST, BEST_B, CLOSED, TOL, GOAL };         /* in L0Memory.values */
enum { BASE, OFF_SIDE, ON_SIDE, BEST_OFF, BEST_ON, PATTERN }; /* in L0Desk.states */

typedef struct {
    index_t n, p;
    const double *signed_entries, *y, *caps, *sizes, *errors; /* C y_i K_ij t_j (n, p), (n,), (n,), (p,), (p,) */
} L0Problem;

/* Open nodes in slots: what each decides and the basis of its program; heap, stack and spare hold slots. */
typedef struct {
    index_t slots, p, n, n_counts;
    int8_t *fixed, *rows, *cols, *on; /* (slots, p), (slots, n), (slots, p), (slots, p) */
    double *bound;
    index_t *number, *heap, *stack, *spare, *counts;
} L0Nodes;

/* The best point, gains (2, p) of deciding each centre off or on so far and their numbers, patterns tried, numbers. */
typedef struct {
    index_t p, two, n_tried, n_looked, n_counts, n_values;
    double *a, *gain, *seen;
    uint64_t *tried;
    index_t *looked, *counts;
    double *values;
} L0Memory;

typedef struct {
    index_t p, two, n, n_states;
    int8_t *fixed, *marks, *marked, *sigma, *before; /* (p,): of the node, which are on, and room for three more */
    double *shares, *worths, *point, *rates;         /* (p,), (p,), (p,), (2, p) */
    double *multipliers, *outputs;                   /* (n,) */
    const index_t *states;                           /* addresses of six L0State */
} L0Desk;

static inline L0State *l0_state(const L0Desk *desk, index_t place) {
    return (L0State *)(intptr_t)desk->states[place];
}

/* A node of this bound need not be looked into. */
static inline double l0_enough(const L0Memory *memory) {
    const double *values = memory->values;
    return smallest(values[BEST] * (1.0 - values[TOL]), values[GOAL]);
}

/* What is closed counts in the proven bound. */
static inline void l0_note_closed(L0Memory *memory, double bound) {
    memory->values[CLOSED] = smallest(memory->values[CLOSED], bound);
}

/* l0_node.c */
double l0_prove(const L0Problem *of, const int8_t *fixed, const double *u, double *near, double *middle,
                double *rates);

/* l0_open_nodes.c */
index_t l0_first_open(const L0Nodes *nodes);
void l0_close(L0Nodes *nodes, index_t slot);
double l0_proven(const L0Nodes *nodes, const L0Memory *memory);
void l0_offer(const L0Problem *of, const L0Given *given, L0Memory *memory, L0Desk *desk, const L0State *at);
index_t l0_open(const L0Problem *of, const L0Given *given, L0Nodes *nodes, L0Memory *memory, L0Desk *desk,
                int8_t *fixed, const L0State *at, index_t ended, double bound);

#endif
