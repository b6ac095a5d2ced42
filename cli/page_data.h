/* Base64 of whole numbers: the form in which a page holds a recording. */
#ifndef CLI_PAGE_DATA_H
#define CLI_PAGE_DATA_H

#include <stdint.h>
#include <stdio.h>

struct page_data {
    FILE *file;
    uint32_t bits;  /* bytes that are not written yet, the first is the highest */
    uint32_t count; /* the number of these bytes, at most 2 */
    uint32_t column;
};

/* Seven bits per byte, the lowest first; the eighth says that more follow. */
void cli_page_number(struct page_data *data, uint64_t value);
/* Write the rest. */
void cli_page_number_end(struct page_data *data);

#endif
