/* Other names for the functions of product.c and pack.c, so that one program has them twice. */
#define fl_product plain_product
#define fl_product_part plain_product_part
#define fl_product_parts plain_product_parts
#define fl_form_of plain_form_of
#define fl_words_of plain_words_of
#define fl_pack_columns plain_pack_columns
#define fl_pack_rows plain_pack_rows
