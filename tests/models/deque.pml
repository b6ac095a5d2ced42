/* SPDX-License-Identifier: MIT */
/* The work-stealing deque, taskman/cpu/deque.c: one owner pushes and takes, two thieves steal, and the array grows
 * while they do.  Every task is got exactly once.
 *
 * Each statement is one access of the C code to `top`, `bottom`, `array` or a slot, in its order.  The model is
 * sequentially consistent, as are the accesses of `top` and `bottom` that race in the code; what is weaker
 * there (slots, the owner's own variables) is published by them.
 *
 * -DBROKEN: the owner takes the last task without racing the thieves for it. */
#ifndef TASKS
#define TASKS 3
#endif
#define THIEVES 2
#define SIZE(a) (2 + 2 * (a)) /* array 0 has two slots, the one that replaces it four */
#define SLOT(a, i) slots[(a) * 2 + (i) % SIZE(a)]

byte top, bottom, array; /* struct gy_deque */
byte slots[6];           /* array 0, array 1 */
byte got[TASKS + 1];
byte pushed, ended;

inline get(task)
{
    assert(task > 0);
    got[task]++;
    assert(got[task] == 1)
}

/* gy_deque_push_list() with a list of one */
inline push()
{
    b = bottom;
    t = top;
    if /* room_for() */
    :: b - t == SIZE(array) ->
        i = t;
        do
        :: i < b -> SLOT(1, i) = SLOT(array, i); i++ /* slot_store(larger, slot_load(array)) */
        :: else -> break
        od;
        array = 1 /* atomic_store(&deque->array) */
    :: else
    fi;
    SLOT(array, b) = pushed + 1; /* slot_store() */
    pushed++;
    bottom = b + 1 /* atomic_store(&deque->bottom) */
}

/* gy_deque_take(); x is 0 for NULL */
inline take()
{
    x = 0;
    if
    :: bottom == top /* gy_deque_is_empty() */
    :: else ->
        b = bottom - 1;
        bottom = b;
        t = top;
        if
        :: t < b -> x = SLOT(array, b)
        :: t == b ->
            x = SLOT(array, b);
#ifdef BROKEN
            top = t + 1;
#else
            atomic { /* compare_exchange(&deque->top) */
                if
                :: top == t -> top = t + 1
                :: else -> x = 0
                fi
            };
#endif
            bottom = b + 1
        :: t > b -> bottom = b + 1
        fi
    fi
}

proctype owner()
{
    byte b, t, i, x;
    do
    :: pushed < TASKS -> push()
    :: pushed > 0 ->
        take();
        if
        :: x != 0 -> get(x)
        :: x == 0 && pushed == TASKS -> break
        :: else
        fi
    od;
    ended++
}

/* gy_deque_steal(), twice */
proctype thief()
{
    byte b, t, a, x, tries;
    do
    :: tries < 2 ->
        tries++;
        t = top;
        b = bottom;
        if
        :: t >= b
        :: else ->
            a = array;
            x = SLOT(a, t);
            atomic {
                if
                :: top == t -> top = t + 1; got[x]++; assert(x > 0 && got[x] == 1)
                :: else /* lost the race */
                fi
            }
        fi
    :: tries == 2 -> break
    od;
    ended++
}

init {
    byte i;
    atomic {
        run owner();
        run thief();
        run thief()
    };
    ended == 1 + THIEVES;
    i = 1;
    do
    :: i <= TASKS -> assert(got[i] == 1); i++
    :: else -> break
    od
}
