#include "cli/page_data.h"

#define LINE_COLUMNS 120u

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Four digits of three bytes; `padding` of them are "=". */
static void put_digits(struct page_data *data, uint32_t padding)
{
    char text[4];
    for (uint32_t i = 0; i < 4; i++) {
        text[i] = i + padding < 4 ? digits[data->bits >> (18 - 6 * i) & 63] : '=';
    }
    fwrite(text, 1, sizeof(text), data->file);
    data->bits = 0;
    data->count = 0;
    data->column += 4;
    if (data->column == LINE_COLUMNS) {
        fputc('\n', data->file);
        data->column = 0;
    }
}

static void put_byte(struct page_data *data, uint8_t byte)
{
    data->bits |= (uint32_t)byte << (16 - 8 * data->count);
    data->count++;
    if (data->count == 3) {
        put_digits(data, 0);
    }
}

void cli_page_number(struct page_data *data, uint64_t value)
{
    while (value > 127) {
        put_byte(data, (uint8_t)(value | 128));
        value >>= 7;
    }
    put_byte(data, (uint8_t)value);
}

void cli_page_number_end(struct page_data *data)
{
    if (data->count > 0) {
        put_digits(data, 3 - data->count);
    }
    fputc('\n', data->file);
}
