/* item_list_test.c - goal: items of a record are separated as a JSON parser separates them. */
#include "item_list.h"

#include "../../tests/unit.h"

#include <stdlib.h>
#include <string.h>

TEST(item_list_separates_at_commas_outside_of_values)
{
    static const char text[] = "{\"id\":\"a\",\"x\":[1,{\"y\":\"},{\"}]},"
                               "{\"id\":\"b\\\",\",\"t\":\"\\\\\"},7,\"s,\",{\"id\":\"c\"}";
    static const char *const want[] = {"{\"id\":\"a\",\"x\":[1,{\"y\":\"},{\"}]}",
                                       "{\"id\":\"b\\\",\",\"t\":\"\\\\\"}", "7", "\"s,\"",
                                       "{\"id\":\"c\"}"};
    struct buf b = {0};
    struct err e;
    item_list l;
    char id[64];
    buf_add(&b, text, strlen(text));
    NEED_OK(item_list_split(&l, &b, &e), &e);
    NEED(l.n == sizeof want / sizeof *want);
    for (size_t i = 0; i < l.n; i++)
        EXPECT(l.v[i].n == strlen(want[i]) && memcmp(l.v[i].text, want[i], l.v[i].n) == 0);
    EXPECT_INT(item_list_find(&l, "a"), 0);
    EXPECT_INT(item_list_find(&l, "b\","), 1);
    EXPECT_INT(item_list_find(&l, "c"), 4);
    EXPECT_INT(item_list_find(&l, ""), -1);
    EXPECT_INT(item_list_find(&l, "d"), -1);
    item_text_id(id, sizeof id, &l.v[2]);
    EXPECT(id[0] == 0);
    item_text_id(id, 2, &l.v[1]);
    EXPECT(id[0] == 0);
    vec_deinit(&l);
    buf_deinit(&b);
}

/* Goal: an empty text has no items, and a text that ends within a value is one item. */
TEST(item_list_of_odd_texts)
{
    struct buf b = {0};
    struct err e;
    item_list l;
    NEED_OK(item_list_split(&l, &b, &e), &e);
    EXPECT(l.n == 0);
    vec_deinit(&l);
    buf_add(&b, "\"a,\\", 4);
    NEED_OK(item_list_split(&l, &b, &e), &e);
    EXPECT(l.n == 1 && l.v[0].n == 4 && item_list_find(&l, "a") == -1);
    vec_deinit(&l);
    buf_deinit(&b);
}
