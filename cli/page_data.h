/* SPDX-License-Identifier: MIT */
/* Whole numbers in the digits of base64: the form in which a page holds a recording. */
#ifndef CLI_PAGE_DATA_H
#define CLI_PAGE_DATA_H

#include <stdint.h>
#include <stdio.h>

struct page_data {
    FILE *file;
    uint32_t column;
};

/* Five bits per digit, the lowest first; the sixth says that more follow. */
void cli_page_number(struct page_data *data, uint64_t value);
/* The difference of two numbers below 2^62: twice its size, and 1 more where it is negative. */
void cli_page_change(struct page_data *data, uint64_t from, uint64_t to);

#endif
