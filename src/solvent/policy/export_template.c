/* A policy written by Solvent $version, for the model with the fingerprint $fingerprint.
 *
 * C99; no library functions, no allocation, no global state. Amounts are integers: multiples of ${prefix}_units.
 *
 *     ${prefix}_account account;
 *     ${prefix}_begin(&account, first_state);
 *     while (account.step < ${upper_prefix}_HORIZON) {
 *         int32_t action = ${prefix}_act(&account);        an action, or a negative ${prefix}_status
 *         ...                                              take it, and see what it costs and where it leads
 *         ${prefix}_observe(&account, state, cost);        ${upper_prefix}_OK, or a negative ${prefix}_status
 *     }
 *
 * States, actions and resources are positions in ${prefix}_states, ${prefix}_actions and ${prefix}_resources. ${prefix}_act
 * returns ${upper_prefix}_NO_DECISION in a terminal state, and where it has no decision after outcomes that the model does not
 * have. As long as every outcome is one of the model, no limit is broken. ${prefix}_observe checks the limits, and not
 * whether an outcome is one of the model.
 */
#include <stdint.h>

enum {
    ${upper_prefix}_HORIZON = $horizon,
    ${upper_prefix}_STATES = $n_states,
    ${upper_prefix}_ACTIONS = $n_actions,
    ${upper_prefix}_RESOURCES = $n_resources
};

typedef enum ${prefix}_status {
    ${upper_prefix}_OK = 0,
    ${upper_prefix}_NO_DECISION = -1,  /* the policy has no decision here */
    ${upper_prefix}_BAD_ARGUMENT = -2, /* no such state, or the episode has ended */
    ${upper_prefix}_OVER_LIMIT = -3    /* a limit is broken: the outcome is not one of the model */
} ${prefix}_status;

typedef struct ${prefix}_account {
    int32_t step;
    int32_t state;
    int64_t spent[$n_amounts];
} ${prefix}_account;

$tables

int ${prefix}_begin(${prefix}_account *account, int32_t state);
int32_t ${prefix}_act(const ${prefix}_account *account);
int ${prefix}_observe(${prefix}_account *account, int32_t state, const int64_t *cost);

/* Return amount d of a node. */
static int64_t ${prefix}_amount(int64_t node, int d)
{
    return ${prefix}_spent[node * $n_amounts + d];
}

/* Return the first node from low to high whose amount d is at least key (or, if after is set, greater than key). */
static int64_t ${prefix}_bound(int64_t low, int64_t high, int d, int64_t key, int after)
{
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int64_t found = ${prefix}_amount(middle, d);
        if (found < key || (after && found == key)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Return the group of a state at a step, or -1. */
static int64_t ${prefix}_group(int32_t step, int32_t state)
{
    int64_t low = ${prefix}_step_indptr[step], end = ${prefix}_step_indptr[step + 1], high = end;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (${prefix}_group_state[middle] < state) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < end && ${prefix}_group_state[low] == state ? low : -1;
}

int ${prefix}_begin(${prefix}_account *account, int32_t state)
{
    int d;
    if (state < 0 || state >= ${upper_prefix}_STATES) {
        return ${upper_prefix}_BAD_ARGUMENT;
    }
    account->step = 0;
    account->state = state;
    for (d = 0; d < $n_amounts; d++) {
        account->spent[d] = ${prefix}_initial[d];
    }
    return ${upper_prefix}_OK;
}

int32_t ${prefix}_act(const ${prefix}_account *account)
{
    const int lookup = $lookup; /* nodes are: 0 single amounts, 1 upper ends of runs, 2 lower ends of runs */
    int64_t keys[$n_amounts], group, low, high;
    int d, n_equal = ${upper_prefix}_RESOURCES - (lookup != 0);
    if (account->step < 0 || account->step >= ${upper_prefix}_HORIZON) {
        return ${upper_prefix}_BAD_ARGUMENT;
    }
    group = ${prefix}_group(account->step, account->state);
    if (group < 0) {
        return ${upper_prefix}_NO_DECISION;
    }
    for (d = 0; d < $n_amounts; d++) {
        keys[d] = account->spent[d];
        if ($settled && ${prefix}_settled_low[$settled * (group * $n_amounts + d)] <= keys[d] &&
            keys[d] <= ${prefix}_settled_high[$settled * (group * $n_amounts + d)]) {
            keys[d] = INT64_MIN; /* settled: the amount no longer matters */
        }
    }
    low = ${prefix}_node_indptr[group];
    high = ${prefix}_node_indptr[group + 1];
    for (d = 0; d < n_equal; d++) {
        int64_t first = ${prefix}_bound(low, high, d, keys[d], 0);
        high = ${prefix}_bound(first, high, d, keys[d], 1);
        low = first;
    }
    if (low == high) {
        return ${upper_prefix}_NO_DECISION;
    }
    if (lookup != 0) {
        const int last = ${upper_prefix}_RESOURCES > 0 ? ${upper_prefix}_RESOURCES - 1 : 0;
        const int64_t key = keys[last];
        if (lookup == 1) {
            low = ${prefix}_bound(low, high, last, key, 0);
            if (low == high) {
                return ${upper_prefix}_NO_DECISION;
            }
        } else if (key == INT64_MIN) {
            if (${prefix}_amount(low, last) != INT64_MIN) {
                low = high - 1;
            }
        } else {
            int64_t place = ${prefix}_bound(low, high, last, key, 1) - 1;
            if (place < low || ${prefix}_amount(place, last) == INT64_MIN) {
                return ${upper_prefix}_NO_DECISION;
            }
            low = place;
        }
    }
    return ${prefix}_action[low];
}

int ${prefix}_observe(${prefix}_account *account, int32_t state, const int64_t *cost)
{
    int d, status = ${upper_prefix}_OK;
    if (state < 0 || state >= ${upper_prefix}_STATES || account->step < 0 || account->step >= ${upper_prefix}_HORIZON) {
        return ${upper_prefix}_BAD_ARGUMENT;
    }
    for (d = 0; d < ${upper_prefix}_RESOURCES; d++) {
        int64_t spent = account->spent[d];
        if (cost[d] > 0 && spent > INT64_MAX - cost[d]) {
            spent = INT64_MAX;
        } else if (cost[d] < 0 && spent < INT64_MIN + 1 - cost[d]) {
            spent = INT64_MIN + 1;
        } else {
            spent += cost[d];
        }
        spent = spent < ${prefix}_floor[d] ? ${prefix}_floor[d] : spent;
        spent = spent > ${prefix}_ceiling[d] ? ${prefix}_ceiling[d] : spent;
        if (spent < ${prefix}_lower[account->step * $n_amounts + d] ||
            spent > ${prefix}_upper[account->step * $n_amounts + d]) {
            status = ${upper_prefix}_OVER_LIMIT;
        }
        account->spent[d] = spent;
    }
    account->step++;
    account->state = state;
    return status;
}
