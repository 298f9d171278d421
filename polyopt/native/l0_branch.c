/* Branch and bound of the L0 tree: nodes looked into one after the other, each split by reliability branching.

   The steps that a trial of a centre has made are kept: where that centre is chosen, its children go on from there.
   A program that the steps fail in is left to the caller. Reference: Achterberg, Koch & Martin, Branching rules
   revisited (2005). */
#include "l0_tree.h"

/* Reliability branching, its rows and columns, and its rounding. None of these is critical: on five problems of 69 to
   114 samples, 50 to 1,011 nodes each, any one of them at a third or less, and at two and a half times or more, made
   20 % fewer to 45 % more nodes; all five together took 0.9 to 1.2 times as long. */
static const double RELIABLE_GAINS = 4.0;  /* gains of a centre's children seen, from which on it is not tried */
static const index_t TRIES = 12;           /* centres tried at a node at most, with few pivots each */
static const index_t TRIAL_PIVOTS = 40;    /* of such a trial, at most */
static const index_t MAX_IDLE_CENTRES = 6; /* centres in a row that are no better, after which the best is taken */
static const double MIN_REL_RISE = 1e-3;   /* of a gap: a rise of less counts as this much */
static const double MIN_MOVE = 1e-3;       /* of a centre's coefficient, by which a gain is divided */
static const index_t STEPS_PER_NUMBER = 20; /* for each row and column, after which a program is given up */
static const double PERTURBATION = 1e-8;   /* relative change of costs and caps, so that no two steps tie */
/* A centre is on where its coefficient, in units of the cap, is over one of these. All are tried at the first nodes,
   then one of them at every fifth. */
static const double ROUNDING[] = {0.0, 0.25, 0.5, 0.75};
enum { THRESHOLDS = 4, ROUND_FIRST = 3, ROUND_EVERY = 5 };

enum { OFF_ONLY, ON_ONLY, BOTH, NEITHER };  /* sides of a centre that are left */
enum { DONE, PAUSE, LIMIT, FULL, LOST }; /* how a run ended */

typedef struct {
    const L0Problem *of;
    L0Given *given;
    L0Nodes *nodes;
    L0Memory *memory;
    L0Desk *desk;
} Search;

/* The centre to decide, the sides that may have scores under the best, and where their states are. */
typedef struct {
    index_t centre, sides, off, on;
} Choice;

static index_t place_of_largest(index_t n, const double *of) {
    index_t found = 0;
    for (index_t j = 1; j < n; j++)
        if (of[j] > of[found])
            found = j;
    return found;
}

static inline double clipped(double rise, double gap) { return smallest(largest(rise, MIN_REL_RISE * gap), gap); }

/* What a state's dual value must reach so that its multipliers prove the goal in spite of the perturbation. */
static inline double cutoff_of(double goal) { return goal + 4.0 * PERTURBATION * fabs(goal); }

/* Set the caps and the marks of a node. */
static void decide(const Search *of, const int8_t *fixed) {
    const index_t p = of->of->p;
    for (index_t j = 0; j < p; j++) {
        of->given->cap[j] = fixed[j] == OFF ? 0.0 : of->given->full[j];
        of->desk->marks[j] = fixed[j] == ON;
    }
    memcpy(of->desk->fixed, fixed, p);
}

/* Decide a free centre: off, on, or free again. */
static void set_side(const Search *of, index_t j, int mark) {
    of->given->cap[j] = mark == OFF ? 0.0 : of->given->full[j];
    of->desk->marks[j] = mark == ON;
}

/* Steps after which a program is given up. */
static index_t max_steps(const Search *of) { return STEPS_PER_NUMBER * (of->of->n + of->of->p); }

/* Steps from a state; each counts. */
static index_t run(const Search *of, L0State *at, index_t most, double cutoff) {
    at->sizes[RUN_STEPS] = 0;
    const index_t ended = l0_pivot_to_optimum(of->of->p, of->given, at, of->desk->marks, most, cutoff);
    of->memory->counts[STEPS] += at->sizes[RUN_STEPS] + 1;
    return ended;
}

/* What a state's multipliers prove of the node that decides so much; the rates are left on the desk. */
static double prove(const Search *of, const int8_t *fixed, const L0State *at) {
    L0Desk *desk = of->desk;
    return l0_prove(of->of, fixed, at->u, desk->multipliers, desk->point, desk->rates);
}

/* Note which free centres a node's point uses in part, -1 for the others; whether there is one. */
static bool note_shares(const Search *of, const L0State *base) {
    const index_t p = of->of->p;
    double *shares = of->desk->shares;
    for (index_t j = 0; j < p; j++) {
        const double share = base->a[j] / of->given->full[j];
        shares[j] = of->desk->fixed[j] == FREE && 0.0 < share && share < 1.0 ? share : -1.0;
    }
    return shares[place_of_largest(p, shares)] > 0.0;
}

/* Expected product of gains of deciding each centre, -1 for those that are not used in part.

   The gain of a centre is that seen so far for each unit that it moves, or else all centres' mean. */
static void estimate_worths(const Search *of, double gap) {
    const index_t p = of->of->p;
    const double *gains = of->memory->gain, *times = of->memory->seen, *shares = of->desk->shares;
    double usual[2] = {1.0, 1.0}, *worths = of->desk->worths;
    for (int side = 0; side < 2; side++) {
        double gain = 0.0, seen = 0.0;
        for (index_t j = 0; j < p; j++) {
            gain += gains[side * p + j];
            seen += times[side * p + j];
        }
        if (seen > 0.0)
            usual[side] = gain / seen;
    }
    for (index_t j = 0; j < p; j++) {
        worths[j] = shares[j] > 0.0 ? 1.0 : -1.0;
        for (int side = 0; side < 2 && shares[j] > 0.0; side++) {
            const double seen = times[side * p + j], gain = seen > 0.0 ? gains[side * p + j] / seen : usual[side];
            worths[j] *= clipped(gain * (side ? 1.0 - shares[j] : shares[j]), gap);
        }
    }
}

/* Remember by how much deciding a centre raises the bound, for each unit that it moves. */
static void learn(const Search *of, index_t j, int side, double rise, double gap) {
    const double share = of->desk->shares[j], moved = side ? 1.0 - share : share;
    const index_t place = side * of->of->p + j;
    of->memory->gain[place] += smallest(largest(rise, 0.0), gap) / largest(moved, MIN_MOVE);
    of->memory->seen[place] += 1.0;
}

/* What the node on the desk decides, and one centre more. */
static int8_t *with_one_more(const Search *of, index_t j, int side) {
    memcpy(of->desk->marked, of->desk->fixed, of->of->p);
    of->desk->marked[j] = side ? ON : OFF;
    return of->desk->marked;
}

/* The bound after some steps with one centre more decided; infinite if it reaches the goal. */
static double try_side(const Search *of, L0State *at, index_t j, int side, double bound) {
    const double goal = l0_enough(of->memory);
    l0_copy(l0_state(of->desk, BASE), at);
    set_side(of, j, side ? ON : OFF);
    const index_t ended = run(of, at, TRIAL_PIVOTS, cutoff_of(goal));
    set_side(of, j, FREE);
    if (ended == FAILED) {
        l0_copy(l0_state(of->desk, BASE), at);
        return bound;
    }
    double value = at->rest[DUAL_VALUE];
    if (value >= goal) {
        const double proven = prove(of, with_one_more(of, j, side), at);
        if (proven >= goal) {
            l0_note_closed(of->memory, proven);
            value = INFINITY;
        }
    }
    learn(of, j, side, value - bound, goal - bound);
    return value;
}

/* Try a centre on both sides, from the states at off and on; which sides are left, and the product of the gains. */
static index_t try_centre(const Search *of, index_t j, index_t off, index_t on, double bound, double gap,
                          double *gains) {
    index_t sides = BOTH;
    *gains = 1.0;
    for (int side = 0; side < 2; side++) {
        const double found = try_side(of, l0_state(of->desk, side ? on : off), j, side, bound);
        if (found == INFINITY)
            sides = sides == BOTH ? (side ? OFF_ONLY : ON_ONLY) : NEITHER;
        *gains *= clipped(found - bound, gap);
    }
    return sides;
}

static void copy_base(const Search *of, index_t off, index_t on) {
    l0_copy(l0_state(of->desk, BASE), l0_state(of->desk, off));
    l0_copy(l0_state(of->desk, BASE), l0_state(of->desk, on));
}

static inline void swap(index_t *one, index_t *other) {
    const index_t kept = *one;
    *one = *other;
    *other = kept;
}

/* Choose the centre that raises both bounds most: the promising ones are tried until their gains are reliable. */
static Choice choose(const Search *of, double bound) {
    const index_t p = of->of->p;
    const double gap = l0_enough(of->memory) - bound, *seen = of->memory->seen;
    double *worths = of->desk->worths, most = -1.0;
    index_t off = OFF_SIDE, on = ON_SIDE, tries = 0, idle = 0;
    estimate_worths(of, gap);
    Choice best = {place_of_largest(p, worths), BOTH, BEST_OFF, BEST_ON};
    copy_base(of, best.off, best.on);
    for (index_t turn = 0; turn < p; turn++) {
        const index_t j = place_of_largest(p, worths);
        double value = worths[j];
        worths[j] = -1.0;
        if (value < 0.0 || idle >= MAX_IDLE_CENTRES)
            break;
        if (smallest(seen[j], seen[p + j]) < RELIABLE_GAINS && tries < TRIES) {
            tries++;
            const index_t sides = try_centre(of, j, off, on, bound, gap, &value);
            if (sides != BOTH)
                return (Choice){j, sides, off, on};
            if (value > most) {
                swap(&off, &best.off);
                swap(&on, &best.on);
            }
        } else if (value > most)
            copy_base(of, best.off, best.on);
        idle++;
        if (value > most) {
            best.centre = j;
            most = value;
            idle = 0;
        }
    }
    return best;
}

/* A pattern's hash; the node on the desk is the pattern of the coefficients over a threshold. */
static uint64_t round_at(const Search *of, const L0State *at, double threshold) {
    uint64_t mark = 1469598103934665603u;
    for (index_t j = 0; j < of->of->p; j++) {
        of->desk->sigma[j] = at->a[j] / of->given->full[j] > threshold ? ON : OFF;
        mark = (mark ^ (uint64_t)(of->desk->sigma[j] + 3)) * 1099511628211u;
    }
    return mark;
}

/* Try the patterns of the larger coefficients: all at the first nodes, then one now and then. */
static void round_pattern(const Search *of, const L0State *at) {
    L0Desk *desk = of->desk;
    L0State *spare = l0_state(desk, PATTERN);
    const index_t number = of->memory->counts[NODES];
    memcpy(desk->before, desk->fixed, of->of->p);
    for (index_t turn = 0; turn < THRESHOLDS; turn++) {
        if (number > ROUND_FIRST && turn != number / ROUND_EVERY % THRESHOLDS)
            continue;
        const uint64_t mark = round_at(of, at, ROUNDING[turn]);
        uint64_t *tried = of->memory->tried + (mark >> 20) % (uint64_t)of->memory->n_tried;
        if (*tried == mark)
            continue;
        *tried = mark;
        l0_copy(at, spare);
        decide(of, desk->sigma);
        if (run(of, spare, max_steps(of), cutoff_of(l0_enough(of->memory))) == OPTIMAL)
            l0_offer(of->of, of->given, of->memory, desk, spare);
    }
    decide(of, desk->before);
}

/* Solve the program of a child, from what was tried of it, and open its node; whether it was solved. */
static bool make_child(const Search *of, L0State *at, index_t j, int side, double bound) {
    const double goal = l0_enough(of->memory), cutoff = cutoff_of(goal);
    int8_t *marked = with_one_more(of, j, side);
    set_side(of, j, side ? ON : OFF);
    index_t ended = run(of, at, max_steps(of), cutoff);
    bool well = ended == OPTIMAL || (ended == STOPPED && at->rest[DUAL_VALUE] >= cutoff);
    double own = prove(of, marked, at);
    if (well && ended != OPTIMAL && own < goal) { /* stopped at what is not quite proven */
        ended = run(of, at, max_steps(of), INFINITY);
        well = ended == OPTIMAL;
        own = prove(of, marked, at);
    }
    set_side(of, j, FREE);
    if (!well)
        return false;
    learn(of, j, side, own - bound, goal - bound);
    own = largest(own, bound);
    const index_t slot = l0_open(of->of, of->given, of->nodes, of->memory, of->desk, marked, at, ended, own);
    const index_t number = of->memory->counts[NODES];
    if (slot >= 0 && (number <= ROUND_FIRST || number % ROUND_EVERY == 0))
        round_pattern(of, at);
    return true;
}

/* Put a node and its basis on the desk, with its point; false if the steps failed in its program. */
static bool take_up(const Search *of, index_t slot) {
    const index_t n = of->of->n, p = of->of->p;
    const L0Nodes *nodes = of->nodes;
    L0State *base = l0_state(of->desk, BASE);
    decide(of, nodes->fixed + slot * p);
    memcpy(base->rows, nodes->rows + slot * n, n);
    memcpy(base->cols, nodes->cols + slot * p, p);
    memcpy(base->on, nodes->on + slot * p, p);
    if (!l0_load(of->given, base))
        return false;
    of->memory->counts[STEPS] += base->sizes[BASIS_SIZE];
    if (note_shares(of, base))
        return true;
    /* The node was adopted, with a basis that is not its own. */
    return run(of, base, max_steps(of), INFINITY) == OPTIMAL && note_shares(of, base);
}

/* Decide one centre more of a node, and open what is left of both; whether all programs were solved. */
static bool branch(const Search *of, index_t slot) {
    const double bound = of->nodes->bound[slot];
    index_t *looked = of->memory->looked;
    looked[NUMBER] = of->nodes->number[slot];
    looked[CENTRE] = -1;
    looked[DONE_SIDES] = 0;
    if (!take_up(of, slot))
        return false;
    const Choice choice = choose(of, bound);
    looked[CENTRE] = choice.centre;
    looked[OFF_PLACE] = choice.off;
    looked[ON_PLACE] = choice.on;
    of->memory->counts[NODES]++;
    for (int side = 0; side < 2; side++) {
        L0State *at = l0_state(of->desk, side ? choice.on : choice.off);
        if ((choice.sides == BOTH || choice.sides == side) && !make_child(of, at, choice.centre, side, bound))
            return false;
        looked[DONE_SIDES] = side + 1;
    }
    l0_close(of->nodes, slot);
    return true;
}

/* Solve a node's program, from the first of the desk's states, and open it; whether it was solved.

   Its multipliers are the state's. The node of a pattern has nothing to decide: its point is offered. */
API index_t l0_plant(index_t p, const L0Problem *problem, L0Given *given, L0Nodes *nodes, L0Memory *memory,
                     L0Desk *desk, int8_t *fixed) {
    const Search of = {problem, given, nodes, memory, desk};
    L0State *base = l0_state(desk, BASE);
    decide(&of, fixed);
    const index_t ended = run(&of, base, max_steps(&of), INFINITY);
    if (ended != OPTIMAL)
        return false;
    const double bound = largest(prove(&of, fixed, base), 0.0);
    if (l0_open(problem, given, nodes, memory, desk, fixed, base, ended, bound) >= 0)
        round_pattern(&of, base);
    return true;
}

/* Open a node whose program was solved elsewhere, or left unsolved: the desk's state at `place` has a basis to begin
   from, multipliers, a and b; the node's scores are known to be `least` or more. */
API void l0_adopt(index_t p, const L0Problem *problem, L0Given *given, L0Nodes *nodes, L0Memory *memory, L0Desk *desk,
                  int8_t *fixed, index_t place, double least, index_t is_solved) {
    const Search of = {problem, given, nodes, memory, desk};
    const L0State *at = l0_state(desk, place);
    const double bound = largest(prove(&of, fixed, at), least);
    l0_open(problem, given, nodes, memory, desk, fixed, at, is_solved ? OPTIMAL : FAILED, bound);
}

/* Look into nodes, each of which is brought to its end, until nothing is open, a limit is reached, or so many steps are
   made. LOST: a program of the first open node failed; memory->looked says how far it came. */
API index_t l0_grow(const L0Problem *problem, L0Given *given, L0Nodes *nodes, L0Memory *memory, L0Desk *desk,
                       index_t steps) {
    const Search of = {problem, given, nodes, memory, desk};
    const index_t until = memory->counts[STEPS] + steps;
    while (true) {
        const index_t slot = l0_first_open(nodes);
        if (slot < 0 || l0_proven(nodes, memory) >= l0_enough(memory))
            return DONE;
        if (nodes->bound[slot] >= l0_enough(memory)) {
            l0_note_closed(memory, nodes->bound[slot]);
            l0_close(nodes, slot);
            continue;
        }
        if (memory->counts[NODES] >= memory->counts[MAX_NODES])
            return LIMIT;
        if (nodes->counts[SPARE] < 2)
            return FULL;
        if (memory->counts[STEPS] >= until)
            return PAUSE;
        if (!branch(&of, slot))
            return LOST;
    }
}
