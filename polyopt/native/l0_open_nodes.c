/* unfused */
/* The open nodes of the L0 tree: a heap by their bounds and, once it is full, a stack; and what is opened. */
#include "l0_tree.h"

static const double MIN_COEFFICIENT = 1e-9;    /* a coefficient under this share of its cap counts as none */
static const double REL_SCORE_ROUNDING = 1e-6; /* of a score: its rounding */
static const double BOUND_ROUNDING = 1e-15;    /* of a bound of one centre more, relative to its terms */

static bool comes_before(const L0Nodes *nodes, index_t one, index_t other) {
    if (nodes->bound[one] != nodes->bound[other])
        return nodes->bound[one] < nodes->bound[other];
    return nodes->number[one] < nodes->number[other];
}

/* The proven lower bound on every score. */
API double l0_proven(const L0Nodes *nodes, const L0Memory *memory) {
    double found = smallest(memory->values[CLOSED], memory->values[BEST]);
    if (nodes->counts[HEAP] > 0)
        found = smallest(found, nodes->bound[nodes->heap[0]]);
    for (index_t at = 0; at < nodes->counts[STACK]; at++)
        found = smallest(found, nodes->bound[nodes->stack[at]]);
    return found;
}

/* The slot of the node to look into next, -1 if none is open. */
API index_t l0_first_open(const L0Nodes *nodes) {
    if (nodes->counts[STACK] > 0)
        return nodes->stack[nodes->counts[STACK] - 1];
    return nodes->counts[HEAP] > 0 ? nodes->heap[0] : -1;
}

static void take_from_stack(L0Nodes *nodes, index_t slot) {
    for (index_t at = 0; at < nodes->counts[STACK]; at++)
        if (nodes->stack[at] == slot) {
            nodes->counts[STACK]--;
            for (index_t later = at; later < nodes->counts[STACK]; later++)
                nodes->stack[later] = nodes->stack[later + 1];
            return;
        }
}

static void take_first_of_heap(L0Nodes *nodes) {
    index_t *heap = nodes->heap, at = 0;
    const index_t size = --nodes->counts[HEAP], last = heap[size];
    while (2 * at + 1 < size) {
        index_t child = 2 * at + 1;
        if (child + 1 < size && comes_before(nodes, heap[child + 1], heap[child]))
            child++;
        if (!comes_before(nodes, heap[child], last))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
}

/* Take out a node, which is the first one of the heap or anywhere on the stack; its slot is free. */
API void l0_close(L0Nodes *nodes, index_t slot) {
    nodes->spare[nodes->counts[SPARE]++] = slot;
    if (nodes->counts[HEAP] > 0 && nodes->heap[0] == slot)
        take_first_of_heap(nodes);
    else
        take_from_stack(nodes, slot);
}

/* Put a node on the heap, or on the stack once there is no more room. */
static void put_node(L0Nodes *nodes, index_t slot) {
    if (nodes->counts[STACK] > 0 || nodes->counts[HEAP] >= nodes->counts[ROOM]) {
        nodes->stack[nodes->counts[STACK]++] = slot;
        return;
    }
    index_t *heap = nodes->heap, at = nodes->counts[HEAP]++;
    for (; at > 0 && comes_before(nodes, slot, heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = slot;
}

/* Keep the point of a solved program, if its score

       #{a_j > 0} + sum of caps_i [1 - y_i (outputs_i + b)]_+

   is the best so far. */
void l0_offer(const L0Problem *of, const L0Given *given, L0Memory *memory, L0Desk *desk, const L0State *at) {
    const index_t n = of->n, p = of->p;
    double score = 0.0, *margins = desk->outputs, *a = desk->point;
    for (index_t i = 0; i < n; i++)
        margins[i] = of->y[i] * at->rest[POINT_B] - 1.0;
    for (index_t j = 0; j < p; j++) {
        a[j] = smallest(largest(at->a[j] / given->full[j], 0.0), 1.0);
        if (a[j] > MIN_COEFFICIENT) {
            score += 1.0;
            add_multiple(margins, a[j] * given->full[j], given->columns + j * n, n);
        } else
            a[j] = 0.0;
    }
    for (index_t i = 0; i < n; i++)
        score += of->caps[i] * largest(-margins[i], 0.0);
    if (score < memory->values[BEST]) {
        memory->values[BEST] = score;
        memory->values[BEST_B] = at->rest[POINT_B];
        memcpy(memory->a, a, p * sizeof(double));
    }
}

/* Decide the free centres of which the multipliers prove that their other side is no better, and count the others
   that the point uses in part; all of a program that was not solved.

   On, a centre costs 1 and saves its rate at most; off, it saves 1. */
static index_t decide_further(const L0Given *given, L0Memory *memory, const double *rates, int8_t *fixed,
                              const L0State *at, index_t ended, double bound, bool decides) {
    const index_t p = at->p;
    const double goal = l0_enough(memory), *least = rates, *most = rates + p;
    index_t left = 0;
    for (index_t j = 0; j < p; j++) {
        if (fixed[j] != FREE)
            continue;
        double on = bound + 1.0 - largest(0.0, most[j]), off = bound + least[j] - 1.0;
        on -= BOUND_ROUNDING * (fabs(on) + fabs(most[j]) + 1.0);
        off -= BOUND_ROUNDING * (fabs(off) + fabs(least[j]) + 1.0);
        if (decides && on >= goal) {
            fixed[j] = OFF;
            l0_note_closed(memory, on);
        } else if (decides && off >= goal) {
            fixed[j] = ON;
            l0_note_closed(memory, off);
        } else if (ended != OPTIMAL || (0.0 < at->a[j] && at->a[j] < given->full[j]))
            left++;
    }
    return left;
}

/* True if rounding the point's support up may be better than the best: bound + unpaid is what its score is worth. */
static bool may_be_best(const L0Given *given, const L0Memory *memory, const int8_t *fixed, const L0State *at,
                        double bound) {
    double unpaid = 0.0;
    for (index_t j = 0; j < at->p; j++)
        if (fixed[j] == FREE && at->a[j] > 0.0)
            unpaid += 1.0 - at->a[j] / given->full[j];
    return bound + unpaid < memory->values[BEST] * (1.0 + REL_SCORE_ROUNDING);
}

/* Open the node of a solved or stopped program, if there is anything left to decide; its slot, or -1.

   fixed (p,): what the node decides; more is decided here, unless each decision is to be a node of its own.
   at, ended: the program's state, and how its steps ended.
   bound, desk->rates: what its multipliers prove. */
index_t l0_open(const L0Problem *of, const L0Given *given, L0Nodes *nodes, L0Memory *memory, L0Desk *desk,
                int8_t *fixed, const L0State *at, index_t ended, double bound) {
    const index_t n = of->n, p = of->p, deepest = memory->counts[MAX_DEPTH];
    index_t left = 0, decided = 0;
    if (ended == OPTIMAL && may_be_best(given, memory, fixed, at, bound))
        l0_offer(of, given, memory, desk, at);
    for (index_t j = 0; j < p; j++)
        decided += fixed[j] != FREE;
    if (bound < l0_enough(memory) && (deepest == 0 || decided < deepest))
        left = decide_further(given, memory, desk->rates, fixed, at, ended, bound, deepest == 0);
    if (left == 0) { /* of no use, or a leaf */
        l0_note_closed(memory, bound);
        return -1;
    }
    const index_t slot = nodes->spare[--nodes->counts[SPARE]];
    nodes->bound[slot] = bound;
    nodes->number[slot] = ++memory->counts[MADE];
    memcpy(nodes->fixed + slot * p, fixed, p);
    memcpy(nodes->rows + slot * n, at->rows, n);
    memcpy(nodes->cols + slot * p, at->cols, p);
    memcpy(nodes->on + slot * p, at->on, p);
    put_node(nodes, slot);
    return slot;
}
