/* Goal: the registry loads the models that requests need, and never unloads a model with a
 * reference. It keeps all plans within the memory, and loses no waiting request. */
#include "models_impl.h"

#include "base/cancel.h"
#include "base/check.h"
#include "base/os.h"

#include "../../tests/unit.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_MAX = 6 };

/* A loader without models. Model i takes size[i] bytes; a negative size is a damaged file. */
static struct fake {
    int64_t size[N_MAX];
    int64_t least[N_MAX]; /* smaller plans fail with ERR_LIMIT */
    struct session session[N_MAX];
    _Atomic bool open[N_MAX];
    _Atomic int n_load, n_unload;
    int load_us; /* duration of a load */
    /* true: a measurement or a load takes until it is cancelled, at most 20 s */
    atomic_bool slow_measure, slow_load;
    atomic_bool ignores; /* true: a load that takes until it is cancelled succeeds nevertheless */
    _Atomic int n_begun; /* number of these measurements and loads */
    const struct api *_Atomic measured; /* reference to drop in the next measurement; NULL: none */
} fake;

static const char *const names[N_MAX] = {"a", "b", "c", "d", "e", "f"};
static struct served_spec specs[N_MAX];

/* Wait until the work is cancelled. Return false if it is not. */
static bool wait_cancelled(struct fake *f)
{
    f->n_begun++;
    for (int k = 0; k < 20000 && !cancelled(); k++) usleep(1000);
    return cancelled();
}

static int fake_measure(void *ctx, int i, int attempt, int64_t *n_byte, struct err *e)
{
    struct fake *f = ctx;
    if (f->size[i] < 0) return err_set(e, ERR_FORMAT, "%s is damaged", names[i]);
    served_drop(atomic_exchange(&f->measured, NULL));
    if (f->slow_measure && wait_cancelled(f)) return err_cancelled(e);
    *n_byte = f->size[i] << attempt;
    return attempt < 3 ? 0 : err_set(e, ERR_LIMIT, "too large");
}

static int fake_load(void *ctx, int i, int64_t n_byte, struct api *out, struct err *e)
{
    struct fake *f = ctx;
    if (f->load_us) usleep((useconds_t)f->load_us);
    if (f->slow_load && wait_cancelled(f) && !f->ignores) return err_cancelled(e);
    if (n_byte < f->least[i]) return err_set(e, ERR_LIMIT, "too small");
    CHECK(!f->open[i], "model %d is loaded twice", i);
    f->open[i] = true;
    f->n_load++;
    out->session = &f->session[i];
    return 0;
}

static void fake_unload(void *ctx, int i)
{
    struct fake *f = ctx;
    CHECK(f->open[i], "model %d is not loaded", i);
    f->open[i] = false;
    f->n_unload++;
}

static int n_place;      /* maximum number of waiting requests; 0: the default */
static int64_t quiet_us; /* as models_options.quiet_us */
static int n_max;        /* maximum number of models; 0: no model may be added */

/* Add a model whose name is that of the spec. */
static int fake_add(void *ctx, int i, const struct served_spec *spec, struct served_spec *out,
                    struct err *e)
{
    (void)ctx;
    if (fake.size[i] == 0) return err_set(e, ERR_MEMORY, "none");
    *out = *spec;
    return 0;
}

/* Open a registry of n fake models of 100 bytes. */
static struct models *open_fake(int n, int64_t bytes_max, int n_loaded_max, int64_t idle_us)
{
    struct models *m = NULL;
    struct err e = {0};
    for (int i = 0; i < n; i++) {
        specs[i].name = &names[i];
        specs[i].n_name = 1;
    }
    const struct models_options o = {.spec = specs,
                                     .n = n,
                                     .n_max = n_max,
                                     .loader = {.measure = fake_measure,
                                                .load = fake_load,
                                                .unload = fake_unload,
                                                .add = n_max ? fake_add : NULL,
                                                .ctx = &fake},
                                     .n_loaded_max = n_loaded_max,
                                     .bytes_max = bytes_max,
                                     .idle_us = idle_us,
                                     .n_waiting_max = n_place,
                                     .quiet_us = quiet_us};
    if (models_open(&m, &o, &e) != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    return m;
}

/* Open a registry as open_fake does, with a number of places. */
static struct models *open_fake_places(int n, int64_t bytes_max, int places)
{
    n_place = places;
    struct models *m = open_fake(n, bytes_max, 0, -1);
    n_place = 0;
    return m;
}

static void reset(void)
{
    fake = (struct fake){0};
    for (int i = 0; i < N_MAX; i++) {
        fake.size[i] = 100;
        specs[i] = (struct served_spec){0};
    }
}

/* A waiting request. */
struct visitor {
    struct served_waiter w;
    struct queue *bell; /* owned */
};

static void wake(void *arg)
{
    struct visitor *v = arg;
    (void)queue_push(v->bell, "");
}

static void visitor_open(struct visitor *v)
{
    *v = (struct visitor){.bell = queue_open(4, 1)};
    v->w.wake = wake;
    v->w.arg = v;
}

/* Acquire a model, and wait for it. Return the error code. */
static int visit(struct visitor *v, struct models *m, int i, const struct api **a, struct err *e)
{
    char byte;
    int rc = served_take(models_at(m, i), &v->w, a, e);
    if (rc != 0 || *a) return rc;
    if (!queue_pop(v->bell, &byte, 20 * 1000000)) test_fail(__FILE__, __LINE__, "lost: %d", i);
    rc = served_taken(&v->w, a, e);
    served_leave(&v->w);
    return rc;
}

/* Acquire and drop a model. */
static void touch(struct models *m, int i)
{
    struct visitor v;
    const struct api *a = NULL;
    struct err e = {0};
    visitor_open(&v);
    EXPECT_INT(visit(&v, m, i, &a, &e), 0);
    EXPECT(a && a->session == &fake.session[i]);
    served_drop(a);
    queue_close(v.bell);
}

static enum served_state state(struct models *m, int i)
{
    return served_status(models_at(m, i)).state;
}

/* Wait until a model has a state. */
static bool becomes(struct models *m, int i, enum served_state s)
{
    for (int k = 0; k < 5000 && state(m, i) != s; k++) usleep(1000);
    return state(m, i) == s;
}

TEST(models_are_loaded_on_demand_and_the_least_recent_is_unloaded)
{
    reset();
    struct models *m = open_fake(3, 250, 0, -1);
    if (!m) return;
    EXPECT_INT(fake.n_load, 0);
    touch(m, 0);
    touch(m, 1);
    touch(m, 0);
    EXPECT_INT(fake.n_load, 2);
    touch(m, 2); /* model 1 is the least recently used */
    EXPECT(fake.open[0] && !fake.open[1] && fake.open[2]);
    touch(m, 0);
    EXPECT_INT(fake.n_load, 3);
    EXPECT(models_check(m) == NULL);
    EXPECT(models_find(m, "b:latest") == models_at(m, 1) && !models_find(m, "x"));
    EXPECT(!models_find(m, NULL) && !models_only(m));
    models_close(m);
    EXPECT_INT(fake.n_unload, fake.n_load);
}

TEST(models_n_loaded_max_limits_the_number)
{
    reset();
    struct models *m = open_fake(3, 1000, 1, -1);
    if (!m) return;
    for (int i = 0; i < 6; i++) touch(m, i % 3);
    EXPECT_INT(fake.n_load, 6);
    models_close(m);
}

TEST(models_with_a_reference_drain_before_they_are_unloaded)
{
    struct visitor v[3];
    const struct api *a[3] = {0};
    struct err e = {0};
    reset();
    struct models *m = open_fake(2, 150, 0, -1);
    if (!m) return;
    for (int i = 0; i < 3; i++) visitor_open(&v[i]);
    EXPECT_INT(visit(&v[0], m, 0, &a[0], &e), 0);
    EXPECT_INT(served_take(models_at(m, 1), &v[1].w, &a[1], &e), 0);
    EXPECT(becomes(m, 0, SERVED_DRAINING));
    usleep(20000);
    EXPECT(fake.open[0] && !a[1]);
    /* a request for the draining model waits until it is loaded again */
    EXPECT_INT(served_take(models_at(m, 0), &v[2].w, &a[2], &e), 0);
    EXPECT(!a[2]);
    served_drop(a[0]);
    char byte;
    EXPECT(queue_pop(v[1].bell, &byte, 5000000));
    EXPECT_INT(served_taken(&v[1].w, &a[1], &e), 0);
    EXPECT(a[1] && !fake.open[0]);
    served_leave(&v[1].w);
    served_drop(a[1]);
    EXPECT(queue_pop(v[2].bell, &byte, 5000000));
    served_leave(&v[2].w); /* a granted reference that no caller acquires is dropped */
    EXPECT_INT(served_status(models_at(m, 0)).n_ref, 0);
    models_close(m);
    for (int i = 0; i < 3; i++) queue_close(v[i].bell);
}

TEST(models_fail_alone_and_with_their_names)
{
    struct visitor v;
    const struct api *a = NULL;
    struct err e = {0};
    reset();
    fake.size[1] = -1;
    fake.size[2] = 1000;
    fake.least[0] = 400; /* the third attempt finds a sufficient size */
    struct models *m = open_fake(4, 400, 0, -1);
    if (!m) return;
    visitor_open(&v);
    touch(m, 0);
    EXPECT_INT(served_status(models_at(m, 0)).n_byte, 400);
    for (int i = 1; i <= 2; i++) {
        EXPECT_INT(visit(&v, m, i, &a, &e), ERR_IO);
        EXPECT(!a && strstr(e.text, i == 1 ? "model \"b\": b is damaged" : "model \"c\""));
        EXPECT_INT(state(m, i), SERVED_FAILED);
        /* for some time requests get the error immediately, and no model is unloaded */
        EXPECT_INT(served_take(models_at(m, i), &v.w, &a, &e), ERR_IO);
    }
    EXPECT(fake.open[0]);
    EXPECT_INT(fake.n_unload, 0);
    touch(m, 3);
    fake.size[1] = 100;
    EXPECT_INT(served_load(models_at(m, 1), &e), 0); /* an explicit load is tried immediately */
    EXPECT(becomes(m, 1, SERVED_READY));
    models_close(m);
    queue_close(v.bell);
}

TEST(models_pinned_ones_are_never_unloaded)
{
    struct visitor v;
    const struct api *a = NULL;
    struct err e = {0};
    reset();
    specs[0].pinned = true;
    struct models *m = open_fake(3, 250, 0, 1000);
    if (!m) return;
    visitor_open(&v);
    EXPECT(becomes(m, 0, SERVED_READY));
    touch(m, 1);
    touch(m, 2);
    usleep(20000);
    EXPECT(fake.open[0]);
    fake.size[1] = 200;
    served_unload(models_at(m, 1), &e);
    EXPECT(becomes(m, 1, SERVED_UNLOADED));
    EXPECT_INT(visit(&v, m, 1, &a, &e), ERR_IO);
    EXPECT(fake.open[0]);
    models_close(m);
    queue_close(v.bell);
}

TEST(models_are_unloaded_after_an_idle_time)
{
    reset();
    struct models *m = open_fake(2, 1000, 0, 30000);
    if (!m) return;
    touch(m, 0);
    touch(m, 1);
    served_keep(models_at(m, 1), -1);
    /* reading figures does not count as a use */
    for (int i = 0; i < 5000 && state(m, 0) != SERVED_UNLOADED; i++) {
        served_unpeek(served_peek(models_at(m, 0)));
        usleep(100);
    }
    EXPECT_INT(state(m, 0), SERVED_UNLOADED);
    usleep(50000);
    EXPECT_INT(state(m, 1), SERVED_READY);
    served_keep(models_at(m, 1), 0);
    EXPECT(becomes(m, 1, SERVED_UNLOADED));
    models_close(m);
}

TEST(models_forget_a_request_that_leaves)
{
    struct visitor v[2];
    const struct api *a[2] = {0};
    struct err e = {0};
    reset();
    struct models *m = open_fake(2, 150, 0, -1);
    if (!m) return;
    visitor_open(&v[0]);
    visitor_open(&v[1]);
    EXPECT_INT(visit(&v[0], m, 0, &a[0], &e), 0);
    EXPECT_INT(served_take(models_at(m, 1), &v[1].w, &a[1], &e), 0);
    served_leave(&v[1].w);
    served_leave(&v[1].w); /* a second call has no effect */
    served_drop(a[0]);
    usleep(30000);
    EXPECT(!fake.open[1]);
    EXPECT_INT(fake.n_load, 1);
    EXPECT(models_check(m) == NULL);
    models_close(m);
    queue_close(v[0].bell);
    queue_close(v[1].bell);
}

TEST(models_share_the_places_of_waiting_requests)
{
    /* Goal: a flood of one holder leaves places for another holder. */
    enum { N_PLACE = 8 };
    struct visitor flood[N_PLACE + 1], v, other[2];
    const struct api *a = NULL, *b = NULL;
    struct err e = {0};
    char byte;
    reset();
    struct models *m = open_fake_places(2, 150, N_PLACE);
    if (!m) return;
    visitor_open(&v);
    EXPECT_INT(visit(&v, m, 0, &a, &e), 0);
    for (int i = 0; i <= N_PLACE; i++) {
        visitor_open(&flood[i]);
        flood[i].w.holder = 7;
        EXPECT_INT(served_take(models_at(m, 1), &flood[i].w, &b, &e), i < N_PLACE ? 0 : ERR_BUSY);
    }
    for (int i = 0; i < 2; i++) {
        visitor_open(&other[i]);
        other[i].w.holder = 8;
        EXPECT_INT(served_take(models_at(m, 1), &other[i].w, &b, &e), 0);
        /* the newest request of the flood lost its place */
        EXPECT(queue_pop(flood[N_PLACE - 1 - i].bell, &byte, 1000000));
        EXPECT_INT(served_taken(&flood[N_PLACE - 1 - i].w, &b, &e), ERR_BUSY);
        EXPECT(models_check(m) == NULL);
    }
    served_drop(a);
    for (int i = 0; i < 2; i++) {
        EXPECT(queue_pop(other[i].bell, &byte, 5000000));
        served_leave(&other[i].w);
        queue_close(other[i].bell);
    }
    for (int i = 0; i <= N_PLACE; i++) {
        if (i < N_PLACE - 2) EXPECT(queue_pop(flood[i].bell, &byte, 5000000));
        served_leave(&flood[i].w);
        queue_close(flood[i].bell);
    }
    models_close(m);
    queue_close(v.bell);
}

TEST(models_end_waits_when_the_server_stops)
{
    struct visitor v;
    const struct api *a = NULL, *b = NULL;
    struct err e = {0};
    reset();
    struct models *m = open_fake(2, 150, 0, -1);
    if (!m) return;
    visitor_open(&v);
    EXPECT_INT(visit(&v, m, 0, &a, &e), 0);
    EXPECT_INT(served_take(models_at(m, 1), &v.w, &b, &e), 0);
    models_stop(m);
    EXPECT_INT(served_taken(&v.w, &b, &e), ERR_UNAVAILABLE);
    served_leave(&v.w);
    EXPECT_INT(served_take(models_at(m, 1), &v.w, &b, &e), ERR_UNAVAILABLE);
    served_drop(a);
    models_close(m);
    queue_close(v.bell);
}

/* Begin a wait for model 0, and wait until its slow measurement or load has begun. */
static void begin_slow(struct visitor *v, struct models *m)
{
    const struct api *a = NULL;
    struct err e = {0};
    const int before = fake.n_begun;
    EXPECT_INT(served_take(models_at(m, 0), &v->w, &a, &e), 0);
    for (int k = 0; k < 5000 && fake.n_begun == before; k++) usleep(1000);
    EXPECT(!a && fake.n_begun > before);
}

/* Expect that the wait ended with an error. */
static void expect_ended(struct visitor *v, int rc)
{
    const struct api *a = NULL;
    struct err e = {0};
    char byte;
    EXPECT(queue_pop(v->bell, &byte, 5000000));
    EXPECT_INT(served_taken(&v->w, &a, &e), rc);
    EXPECT(!a);
    served_leave(&v->w);
}

/* Cancel slow loads of model 0 in all ways, n times each. Model 1 is not affected. */
static void cancel_loads(struct models *m, struct visitor *v, bool measures)
{
    struct err e = {0};
    _Atomic bool *slow = measures ? &fake.slow_measure : &fake.slow_load;
    for (int i = 0; i < 3; i++) {
        *slow = true;
        begin_slow(v, m);
        EXPECT_INT(served_unload(models_at(m, 0), &e), 0);
        expect_ended(v, ERR_UNAVAILABLE);
        EXPECT(becomes(m, 0, SERVED_UNLOADED));
        /* a request that arrives before the end of a cancelled load gets the model */
        begin_slow(v, m);
        *slow = false;
        EXPECT_INT(served_unload(models_at(m, 0), &e), 0);
        expect_ended(v, ERR_UNAVAILABLE);
        touch(m, 0);
        EXPECT_INT(served_unload(models_at(m, 0), &e), 0);
        EXPECT(becomes(m, 0, SERVED_UNLOADED));
        *slow = true;
        begin_slow(v, m);
        EXPECT_INT(models_sleep(m, true, &e), 0);
        expect_ended(v, ERR_UNAVAILABLE);
        EXPECT(becomes(m, 0, SERVED_UNLOADED));
        *slow = false;
        EXPECT_INT(models_sleep(m, false, &e), 0);
        EXPECT(becomes(m, 0, SERVED_READY));
        EXPECT_INT(served_unload(models_at(m, 0), &e), 0);
        EXPECT(becomes(m, 0, SERVED_UNLOADED));
        touch(m, 1);
        EXPECT(models_check(m) == NULL);
    }
}

TEST(models_loads_are_cancelled)
{
    struct visitor v;
    reset();
    struct models *m = open_fake(2, 1000, 0, -1);
    if (!m) return;
    visitor_open(&v);
    cancel_loads(m, &v, true);
    cancel_loads(m, &v, false);
    EXPECT_INT(fake.n_load - fake.n_unload, 1);
    /* a load that ends before the cancellation takes effect is unloaded */
    fake.ignores = true;
    cancel_loads(m, &v, false);
    EXPECT_INT(served_status(models_at(m, 0)).rc, 0);
    models_close(m);
    EXPECT_INT(fake.n_load, fake.n_unload);
    queue_close(v.bell);
}

TEST(models_stop_cancels_the_load_without_waiting)
{
    for (int measures = 0; measures < 2; measures++) {
        struct visitor v;
        const struct api *a = NULL, *b = NULL;
        struct err e = {0};
        reset();
        struct models *m = open_fake(2, 1000, 0, -1);
        if (!m) return;
        visitor_open(&v);
        EXPECT_INT(visit(&v, m, 1, &a, &e), 0);
        *(measures ? &fake.slow_measure : &fake.slow_load) = true;
        begin_slow(&v, m);
        const int64_t start = time_us();
        models_stop(m);
        expect_ended(&v, ERR_UNAVAILABLE);
        EXPECT_INT(served_take(models_at(m, 0), &v.w, &b, &e), ERR_UNAVAILABLE);
        served_drop(a); /* a reference outlives models_stop */
        models_close(m);
        EXPECT(time_us() - start < 5000000);
        EXPECT_INT(fake.n_load, fake.n_unload);
        queue_close(v.bell);
    }
}

TEST(models_sleep_and_load_again_what_was_loaded)
{
    struct visitor v;
    const struct api *a = NULL, *b = NULL;
    struct err e = {0};
    reset();
    struct models *m = open_fake(3, 1000, 0, -1);
    if (!m) return;
    visitor_open(&v);
    touch(m, 0);
    EXPECT_INT(visit(&v, m, 1, &a, &e), 0);
    EXPECT_INT(models_sleep(m, true, &e), 0);
    EXPECT(models_asleep(m) && becomes(m, 0, SERVED_UNLOADED));
    EXPECT_INT(state(m, 1), SERVED_DRAINING);
    EXPECT_INT(served_take(models_at(m, 0), &v.w, &b, &e), ERR_UNAVAILABLE);
    EXPECT_INT(served_load(models_at(m, 0), &e), ERR_UNAVAILABLE);
    served_drop(a);
    EXPECT(becomes(m, 1, SERVED_UNLOADED));
    EXPECT_INT(models_sleep(m, false, &e), 0);
    EXPECT(!models_asleep(m) && becomes(m, 0, SERVED_READY) && becomes(m, 1, SERVED_READY));
    EXPECT_INT(state(m, 2), SERVED_UNLOADED);
    EXPECT_INT(fake.n_load, 4);
    models_close(m);
    queue_close(v.bell);
}

/* ---- models that come and go ---- */

TEST(models_are_added_and_removed)
{
    struct visitor v[2];
    const struct api *a[2] = {0};
    struct served *b = NULL, *again = NULL;
    struct err e = {0};
    const struct served_spec spec = {.name = &names[1], .n_name = 1};
    char byte;
    reset();
    n_max = 3;
    struct models *m = open_fake(1, 150, 0, -1);
    n_max = 0;
    if (!m) return;
    for (int i = 0; i < 2; i++) visitor_open(&v[i]);
    EXPECT(!models_find(m, "b") && models_find(m, NULL) == models_at(m, 0));
    EXPECT_INT(models_add(m, &spec, &b, &e), 0);
    EXPECT(models_find(m, "b") == b && !models_find(m, NULL) && models_n(m) == 2);
    EXPECT_INT(visit(&v[0], m, 1, &a[0], &e), 0);
    models_remove(b);
    models_remove(b);
    EXPECT(!models_find(m, "b") && served_gone(b) && models_find(m, NULL) == models_at(m, 0));
    EXPECT_INT(state(m, 1), SERVED_DRAINING);
    EXPECT_INT(served_take(b, &v[1].w, &a[1], &e), ERR_MISSING);
    EXPECT_TEXT(e.field, "model");
    EXPECT_INT(served_load(b, &e), ERR_MISSING);
    EXPECT(fake.open[1]);
    served_drop(a[0]);
    EXPECT(becomes(m, 1, SERVED_UNLOADED) && !fake.open[1]);
    /* another model of that name; a request that waits for it ends when it is removed */
    EXPECT_INT(models_add(m, &spec, &again, &e), 0);
    EXPECT(again != b && models_find(m, "b") == again);
    EXPECT_INT(visit(&v[0], m, 0, &a[0], &e), 0);
    EXPECT_INT(served_take(again, &v[1].w, &a[1], &e), 0);
    EXPECT(!a[1] && served_waits(&v[1].w));
    models_remove(again);
    EXPECT(queue_pop(v[1].bell, &byte, 20 * 1000000));
    EXPECT_INT(served_taken(&v[1].w, &a[1], &e), ERR_MISSING);
    served_leave(&v[1].w);
    served_drop(a[0]);
    EXPECT(models_check(m) == NULL);
    EXPECT_INT(models_add(m, &spec, &b, &e), ERR_LIMIT);
    EXPECT(!b && models_n(m) == 3);
    for (int i = 0; i < 2; i++) queue_close(v[i].bell);
    models_close(m);
    EXPECT_INT(fake.n_unload, fake.n_load);
}

/* Goal: the thread does not miss the last reference of a draining model while it measures another
 * model. */
TEST(models_drain_during_a_measurement)
{
    struct visitor v;
    const struct api *a = NULL, *b = NULL;
    struct err e = {0};
    reset();
    struct models *m = open_fake(2, 150, 0, -1);
    if (!m) return;
    visitor_open(&v);
    EXPECT_INT(visit(&v, m, 0, &a, &e), 0);
    EXPECT_INT(served_unload(models_at(m, 0), &e), 0);
    fake.measured = a;
    EXPECT_INT(visit(&v, m, 1, &b, &e), 0);
    EXPECT(b && b->session == &fake.session[1] && !fake.open[0]);
    served_drop(b);
    queue_close(v.bell);
    models_close(m);
}

TEST(models_that_cannot_be_added)
{
    struct served *b = NULL;
    struct err e = {0};
    const struct served_spec spec = {.name = &names[1], .n_name = 1};
    reset();
    struct models *m = open_fake(1, 150, 0, -1);
    if (!m) return;
    EXPECT_INT(models_add(m, &spec, &b, &e), ERR_UNSUPPORTED);
    models_close(m);
    n_max = 2;
    m = open_fake(0, 150, 0, -1);
    n_max = 0;
    if (!m) return;
    EXPECT(!models_find(m, NULL) && models_n(m) == 0);
    fake.size[0] = 0;
    EXPECT_INT(models_add(m, &spec, &b, &e), ERR_MEMORY);
    EXPECT(!b && models_n(m) == 0);
    models_close(m);
}

/* ---- many requests ---- */

struct crowd {
    struct models *m; /* borrowed */
    unsigned seed;
    int n, n_left, n_done;
};

/* Request random models. Some requests end before they get a model. */
static void *crowd_run(void *crowd)
{
    struct crowd *c = crowd;
    for (int k = 0; k < c->n; k++) {
        struct visitor v;
        const struct api *a = NULL;
        struct err e = {0};
        const int i = (int)((c->seed = c->seed * 1103515245 + 12345) >> 16) % 4;
        const bool leaves = (c->seed >> 8) % 8 == 0;
        struct api own;
        visitor_open(&v);
        v.w.patient = (c->seed >> 12) % 3 == 0;
        if (leaves && served_take(models_at(c->m, i), &v.w, &a, &e) == 0) {
            served_leave(&v.w);
            c->n_left++;
        } else if (!leaves && visit(&v, c->m, i, &a, &e) == 0) {
            if (!a || a->session != &fake.session[i] || !fake.open[i])
                test_fail(__FILE__, __LINE__, "model %d is not loaded", i);
            if (k % 4 == 0) usleep(200);
            c->n_done += fake.open[i];
        }
        if (a) own = *a, own.patient = v.w.patient;
        served_drop(a ? &own : NULL);
        const char *wrong = models_check(c->m);
        if (wrong) test_fail(__FILE__, __LINE__, "%s", wrong);
        queue_close(v.bell);
    }
    return NULL;
}

TEST(models_serve_a_crowd_within_the_memory)
{
    enum { N_THREAD = 6 };
    const int n = test_long() ? 4000 : 150;
    struct crowd c[N_THREAD];
    pthread_t thread[N_THREAD];
    reset();
    fake.load_us = 50;
    fake.size[3] = 140;
    quiet_us = 2000; /* patient requests need not wait long for clients */
    struct models *m = open_fake(4, 250, 2, 300);
    quiet_us = 0;
    if (!m) return;
    for (int i = 0; i < N_THREAD; i++) {
        c[i] = (struct crowd){.m = m, .seed = (unsigned)i * 77 + 5, .n = n};
        if (pthread_create(&thread[i], NULL, crowd_run, &c[i]) != 0) abort(); /* check: test */
    }
    int n_done = 0, n_left = 0;
    for (int i = 0; i < N_THREAD; i++) {
        pthread_join(thread[i], NULL);
        n_done += c[i].n_done;
        n_left += c[i].n_left;
    }
    EXPECT_INT(n_done + n_left, N_THREAD * n);
    EXPECT(fake.n_unload > 10);
    models_close(m);
    EXPECT_INT(fake.n_unload, fake.n_load);
}

TEST(models_check_counts_the_model_that_loads)
{
    /* the plan of a model that loads counts against the memory and the number of models (2) */
    struct served v[2] = {{.state = SERVED_READY, .n_byte = 60},
                          {.state = SERVED_LOADING, .n_byte = 40}};
    struct models m = {.o = {.bytes_max = 100, .n_loaded_max = 2}, .v = v, .n = 2};
    v[0].models = v[1].models = &m;
    EXPECT(plan_check(&m) == NULL);
    v[1].n_byte = 41;
    EXPECT(plan_check(&m) != NULL);
    v[1].n_byte = 40;
    m.o.n_loaded_max = 1;
    EXPECT(plan_check(&m) != NULL);
}

/* Visit model i as a line of a batch, and drop it. Return the error code. */
static int touch_patiently(struct models *m, int i)
{
    struct visitor v;
    const struct api *a = NULL;
    struct err e = {0};
    visitor_open(&v);
    v.w.patient = true;
    const int rc = visit(&v, m, i, &a, &e);
    EXPECT((rc == 0) == (a != NULL));
    if (a) {
        struct api own = *a;
        own.patient = true;
        served_drop(&own);
    }
    queue_close(v.bell);
    return rc;
}

TEST(models_of_clients_are_not_unloaded_for_patient_requests)
{
    struct visitor v;
    const struct api *a = NULL;
    struct err e = {0};
    reset();
    quiet_us = 300000;
    struct models *m = open_fake(3, 150, 0, -1);
    quiet_us = 0;
    if (!m) return;
    const int64_t begin = time_us(); /* before the end of the client's request */
    touch(m, 0);
    EXPECT_INT(touch_patiently(m, 1), 0);
    EXPECT(time_us() - begin >= 300000 && fake.open[1] && !fake.open[0]);
    EXPECT(models_check(m) == NULL);
    models_close(m);
    EXPECT_INT(fake.n_unload, fake.n_load);
    /* models that no client has used lately are loaded at once, and clients do not wait: any wait
     * would be longer than a visit's limit */
    reset();
    quiet_us = (int64_t)3600 * 1000000;
    m = open_fake(3, 150, 0, -1);
    quiet_us = 0;
    if (!m) return;
    fake.size[2] = -1;
    for (int i = 0; i < 3; i++) EXPECT_INT(touch_patiently(m, i % 2), 0);
    touch(m, 1);
    touch(m, 0);
    visitor_open(&v);
    v.w.patient = true;
    EXPECT_INT(served_take(models_at(m, 1), &v.w, &a, &e), 0);
    EXPECT(!a && served_waits(&v.w) && fake.open[0] && !fake.open[1]);
    served_leave(&v.w);
    EXPECT_INT(touch_patiently(m, 2), ERR_IO);
    EXPECT(models_check(m) == NULL);
    models_close(m);
    queue_close(v.bell);
    EXPECT_INT(fake.n_unload, fake.n_load);
}

/* Goal: patient requests of one model give way to those of another one, and clients do not. */
TEST(models_of_patient_requests_take_turns)
{
    struct visitor v[2];
    const struct api *a = NULL, *b = NULL;
    struct err e = {0};
    char byte;
    reset();
    quiet_us = 20000;
    struct models *m = open_fake(2, 150, 0, -1);
    quiet_us = 0;
    if (!m) return;
    for (int i = 0; i < 2; i++) visitor_open(&v[i]), v[i].w.patient = true;
    const int64_t begin = time_us(); /* before the load, and so before the turn */
    EXPECT_INT(visit(&v[0], m, 0, &a, &e), 0);
    EXPECT_INT(served_take(models_at(m, 1), &v[1].w, &b, &e), 0);
    EXPECT(!b && becomes(m, 0, SERVED_DRAINING) && time_us() - begin >= 120000);
    EXPECT(becomes(m, 0, SERVED_DRAINING) && fake.open[0] && models_check(m) == NULL);
    struct api own = *a;
    own.patient = true;
    served_drop(&own);
    EXPECT(queue_pop(v[1].bell, &byte, 5000000));
    EXPECT_INT(served_taken(&v[1].w, &b, &e), 0);
    EXPECT(b && fake.open[1] && !fake.open[0] && models_check(m) == NULL);
    served_leave(&v[1].w);
    own = *b;
    own.patient = true;
    /* a client uses the model, too */
    b = NULL;
    EXPECT_INT(served_take(models_at(m, 1), NULL, &b, &e), 0);
    v[0].w = (struct served_waiter){.wake = v[0].w.wake, .arg = v[0].w.arg, .patient = true};
    a = NULL;
    EXPECT_INT(served_take(models_at(m, 0), &v[0].w, &a, &e), 0);
    usleep(20000);
    EXPECT(!a && served_waits(&v[0].w) && state(m, 1) == SERVED_READY);
    served_leave(&v[0].w);
    served_drop(&own);
    served_drop(b);
    EXPECT(models_check(m) == NULL);
    models_close(m);
    for (int i = 0; i < 2; i++) queue_close(v[i].bell);
    EXPECT_INT(fake.n_unload, fake.n_load);
}

TEST(models_patient_requests_leave_and_fail)
{
    struct visitor v;
    const struct api *a = NULL;
    struct err e = {0};
    reset();
    specs[0].pinned = true;
    struct models *m = open_fake(3, 250, 0, -1);
    if (!m) return;
    fake.size[2] = 200;
    visitor_open(&v);
    v.w.patient = true;
    EXPECT(becomes(m, 0, SERVED_READY));
    EXPECT_INT(touch_patiently(m, 1), 0);      /* there is memory */
    EXPECT_INT(touch_patiently(m, 2), ERR_IO); /* the pinned model needs it */
    EXPECT_INT(state(m, 1), SERVED_UNLOADED);
    touch(m, 1);
    fake.size[2] = 150;
    EXPECT_INT(served_take(models_at(m, 2), &v.w, &a, &e), ERR_IO); /* it has failed lately */
    EXPECT_INT(served_load(models_at(m, 2), &e), 0);
    EXPECT(becomes(m, 2, SERVED_READY));
    touch(m, 2);
    EXPECT_INT(served_take(models_at(m, 1), &v.w, &a, &e), 0);
    usleep(20000);
    EXPECT(!a && served_waits(&v.w) && fake.open[2]);
    served_leave(&v.w);
    EXPECT(models_check(m) == NULL);
    models_close(m);
    queue_close(v.bell);
}
