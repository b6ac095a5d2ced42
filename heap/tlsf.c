/* SPDX-License-Identifier: MIT */
#include "heap/tlsf.h"

#include <assert.h>
#include <stdbool.h>

/* The number of ranges to look at per column when the address decides; it bounds find(). */
#define SCAN_LIMIT 64
/* The same number, for a search for a range of about the right size. */
#define CLOSE_LIMIT 8

struct cell {
    unsigned row;
    unsigned column;
};

static unsigned log2_floor(size_t value)
{
    return 63u - (unsigned)__builtin_clzll(value);
}

/* The cell where a range of `pages` pages lives. */
static struct cell cell_of(size_t pages)
{
    if (pages < GY_TLSF_COLUMNS) {
        return (struct cell){0, (unsigned)pages};
    }
    unsigned log2 = log2_floor(pages);
    return (struct cell){log2 - GY_TLSF_COLUMN_BITS + 1,
                         (unsigned)(pages >> (log2 - GY_TLSF_COLUMN_BITS)) - GY_TLSF_COLUMNS};
}

bool gy_tlsf_column_is_valid(const struct gy_tlsf *tlsf, size_t pages)
{
    const struct cell cell = cell_of(pages);
    const struct gy_range *head = tlsf->heads[cell.row][cell.column];
    const bool has_column = (tlsf->columns[cell.row] >> cell.column & 1u) != 0;
    const bool has_row = (tlsf->rows >> cell.row & 1u) != 0;
    if (has_column != (head != NULL) || has_row != (tlsf->columns[cell.row] != 0)) {
        return false;
    }
    const struct cell of_head = head != NULL ? cell_of(head->pages) : cell;
    return head == NULL || (head->prev == NULL && gy_range_is_idle(head) && head->pages <= tlsf->pages &&
                            of_head.row == cell.row && of_head.column == cell.column);
}

bool gy_tlsf_link_is_valid(const struct gy_tlsf *tlsf, const struct gy_range *range)
{
    const struct cell cell = cell_of(range->pages);
    const bool follows = range->prev != NULL ? range->prev->next == range && range->prev != range
                                             : tlsf->heads[cell.row][cell.column] == range;
    return follows && gy_range_is_idle(range) && (range->next == NULL || range->next->prev == range);
}

void gy_tlsf_insert(struct gy_tlsf *tlsf, struct gy_range *range)
{
    assert(gy_range_is_idle(range) && range->pages > 0);
    assert(gy_tlsf_column_is_valid(tlsf, range->pages));
    struct cell cell = cell_of(range->pages);
    struct gy_range **head = &tlsf->heads[cell.row][cell.column];
    range->prev = NULL;
    range->next = *head;
    if (*head != NULL) {
        (*head)->prev = range;
    }
    *head = range;
    tlsf->pages += range->pages;
    tlsf->columns[cell.row] |= 1u << cell.column;
    tlsf->rows |= (uint64_t)1 << cell.row;
    assert(gy_tlsf_column_is_valid(tlsf, range->pages));
    assert(gy_tlsf_link_is_valid(tlsf, range));
}

void gy_tlsf_remove(struct gy_tlsf *tlsf, struct gy_range *range)
{
    assert(gy_tlsf_link_is_valid(tlsf, range));
    assert(gy_tlsf_column_is_valid(tlsf, range->pages));
    struct cell cell = cell_of(range->pages);
    tlsf->pages -= range->pages;
    if (range->next != NULL) {
        range->next->prev = range->prev;
    }
    if (range->prev != NULL) {
        range->prev->next = range->next;
        return;
    }
    tlsf->heads[cell.row][cell.column] = range->next;
    if (range->next != NULL) {
        assert(gy_tlsf_column_is_valid(tlsf, range->pages));
        return;
    }
    tlsf->columns[cell.row] &= ~(1u << cell.column);
    if (tlsf->columns[cell.row] == 0) {
        tlsf->rows &= ~((uint64_t)1 << cell.row);
    }
    assert(gy_tlsf_column_is_valid(tlsf, range->pages));
}

static bool holds(const struct gy_range *range, size_t pages, size_t alignment)
{
    size_t skip = (size_t)(-range->base & (alignment - 1)) >> GY_PAGE_SHIFT;
    return range->pages >= skip && range->pages - skip >= pages;
}

static struct gy_range *scan_column(struct gy_range *head, size_t pages, size_t alignment)
{
    for (unsigned looked = 0; head != NULL && looked < SCAN_LIMIT; head = head->next, looked++) {
        if (holds(head, pages, alignment)) {
            return head;
        }
    }
    return NULL;
}

/* Find the first column at `cell` or behind it that has a range; false when there is none. */
static bool next_cell(const struct gy_tlsf *tlsf, struct cell *cell)
{
    if (cell->row >= GY_TLSF_ROWS) {
        return false;
    }
    uint32_t columns = cell->column < GY_TLSF_COLUMNS ? tlsf->columns[cell->row] & (~0u << cell->column) : 0;
    if (columns == 0) {
        uint64_t rows = cell->row + 1 < GY_TLSF_ROWS ? tlsf->rows & (~(uint64_t)0 << (cell->row + 1)) : 0;
        if (rows == 0) {
            return false;
        }
        cell->row = (unsigned)__builtin_ctzll(rows);
        columns = tlsf->columns[cell->row];
    }
    cell->column = (unsigned)__builtin_ctz(columns);
    return true;
}

/* The first cell of which every range has at least `pages` pages. */
static struct cell cell_above(size_t pages)
{
    if (pages < GY_TLSF_COLUMNS) {
        return cell_of(pages);
    }
    size_t width = (size_t)1 << (log2_floor(pages) - GY_TLSF_COLUMN_BITS);
    return cell_of(pages + width - 1);
}

struct gy_range *gy_tlsf_find(struct gy_tlsf *tlsf, size_t pages, size_t alignment)
{
    struct cell cell = cell_above(pages);
    if (alignment <= GY_PAGE_BYTES && next_cell(tlsf, &cell)) {
        assert(holds(tlsf->heads[cell.row][cell.column], pages, alignment));
        return tlsf->heads[cell.row][cell.column];
    }
    /* With an alignment above a page, the address decides as well; and a range in the request's own column
     * may fit. */
    for (cell = cell_of(pages); next_cell(tlsf, &cell); cell.column++) {
        struct gy_range *range = scan_column(tlsf->heads[cell.row][cell.column], pages, alignment);
        if (range != NULL) {
            return range;
        }
    }
    return NULL;
}

struct gy_range *gy_tlsf_find_close(struct gy_tlsf *tlsf, size_t pages, size_t alignment)
{
    struct cell cell = cell_of(pages);
    struct gy_range *best = NULL;
    struct gy_range *range = tlsf->heads[cell.row][cell.column];
    for (unsigned looked = 0; range != NULL && looked < CLOSE_LIMIT; range = range->next, looked++) {
        if (holds(range, pages, alignment) && (best == NULL || range->pages < best->pages)) {
            best = range;
        }
    }
    return best != NULL ? best : gy_tlsf_find(tlsf, pages, alignment);
}

size_t gy_tlsf_largest(const struct gy_tlsf *tlsf)
{
    if (tlsf->rows == 0) {
        return 0;
    }
    unsigned row = log2_floor(tlsf->rows);
    unsigned column = 31u - (unsigned)__builtin_clz(tlsf->columns[row]);
    size_t largest = 0;
    for (const struct gy_range *range = tlsf->heads[row][column]; range != NULL; range = range->next) {
        largest = range->pages > largest ? range->pages : largest;
    }
    assert(largest <= tlsf->pages);
    return largest;
}
