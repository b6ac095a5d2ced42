/* SPDX-License-Identifier: MIT */
#include "cli/page_data.h"

#define LINE_COLUMNS 120u

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_digit(struct page_data *data, uint32_t digit)
{
    fputc(digits[digit], data->file);
    if (++data->column == LINE_COLUMNS) {
        fputc('\n', data->file);
        data->column = 0;
    }
}

void cli_page_number(struct page_data *data, uint64_t value)
{
    for (; value > 31; value >>= 5) {
        put_digit(data, (uint32_t)(value & 31) | 32);
    }
    put_digit(data, (uint32_t)value);
}

void cli_page_change(struct page_data *data, uint64_t from, uint64_t to)
{
    cli_page_number(data, to >= from ? (to - from) << 1 : (from - to) << 1 | 1);
}
