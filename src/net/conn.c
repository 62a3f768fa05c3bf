/* conn.c - one connection: a state machine that advances without blocking, then waits for an event.
 *
 *   HANDSHAKE --> HEAD --head is there--> BODY --body is there--> ANSWER --written--> HEAD
 *                  |                        \__refused_____________^  \
 *                  +--refused--------------------------------------^   +--close--> LINGER
 *
 * (1) A connection has an exchange in BODY and ANSWER only. Each connection and exchange points to
 *     the other.
 * (2) A connection is in its holder's lists of closable connections (idle) in all states except
 *     BODY and ANSWER.
 * (3) A connection has a deadline, except in ANSWER if the client reads as fast as the handler
 *     writes.
 * (4) A connection has TLS if the server has TLS. Only connections with TLS have the state
 *     HANDSHAKE.
 * (5) net.conns contains the connections that are not dead; net.n_conn is their number. n_conn of a
 *     holder is the number of its connections.
 *
 * A hang-up and a half-closed connection both appear as a FIN from the client. The server sends
 * harmless bytes to distinguish a hang-up from a half-closed connection. The bytes are a second
 * "100 Continue" before the answer begins, or a comment in an event stream. The client's system
 * immediately resets the connection after a hang-up. A half-closed client continues to read. A unix
 * socket reports a hang-up itself. Loop thread. */
#include "net_impl.h"

#include "base/check.h"
#include "base/os.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* TURN_BYTES: bytes that one connection may send in a turn, so that it does not delay other
 * connections. BODY_BYTES_PER_S: slowest accepted rate of a body, see extend_deadline. */
enum { TURN_BYTES = 256 * 1024, BODY_BYTES_PER_S = 4096 };

static void set_deadline(struct conn *c, int ms)
{
    c->deadline_us = time_us() + (int64_t)ms * 1000;
}

/* ---- opening and closing ---- */

/* Set the state. In some states the connection may be closed to make room for another
 * connection. */
static void set_state(struct conn *c, enum conn_state state)
{
    c->state = state;
    if (state == CONN_BODY || state == CONN_ANSWER)
        holder_unlink(c);
    else
        holder_link(c, state == CONN_LINGER);
}

/* Close a connection if the table is full. Select the holder with most connections, and its oldest
 * connection without a complete head. Use the reserve if the holder has no connection without a
 * complete head. A new connection may belong to any holder until its first request contains a key.
 * Therefore the new connection remains open for grace_ms, unless there are too many new
 * connections. */
static void make_place(struct net *n, int64_t now_us)
{
    int over = atomic_load(&n->n_conn) - n->o.conn_max;
    if (over < 0) return;
    bool crowded = over >= REFUSED_MAX, flooded = over >= REFUSED_MAX + FRESH_MAX;
    struct conn *c = holder_victim(n, crowded, now_us - (int64_t)n->o.grace_ms * 1000);
    if (!c && flooded) c = holder_victim(n, true, INT64_MAX);
    if (c) conn_kill(c);
}

/* Take ownership of fd. Send the prepared 503 without TLS and close fd if the connection cannot be
 * kept. A client of a TLS server gets no answer, because the client expects a handshake. */
void conn_open(struct net *n, int fd, const char *peer, const struct address *address)
{
    int64_t now_us = time_us();
    make_place(n, now_us);
    int n_conn = atomic_load(&n->n_conn), conn_max = n->o.conn_max + REFUSED_MAX + FRESH_MAX;
    struct conn *c = n_conn < conn_max ? calloc(1, sizeof *c) : NULL;
    /* The steps below may fail in any order. The branch after them also releases a half-built
     * connection: tls_close and holder_drop accept NULL. */
    if (c) c->sock.fd = fd;
    if (c) c->tls = n->tls ? tls_accept(n->tls, &c->sock) : NULL;
    if (c) c->holder = holder_get(n, address_id(address));
    struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    if (!c || (n->tls && !c->tls) || !c->holder ||
        epoll_ctl(n->epoll, EPOLL_CTL_ADD, fd, &ev) != 0) {
        if (!n->tls) (void)!send(fd, n->no_room.whole, strlen(n->no_room.whole), MSG_NOSIGNAL);
        if (c) {
            tls_close(c->tls);
            holder_drop(n, c->holder);
        }
        free(c);
        close(fd);
        return;
    }
    c->net = n;
    c->accepted_us = now_us;
    c->address = *address;
    c->local = !address->known;
    c->refuse = n_conn >= n->o.conn_max;
    c->holder->n_conn++;
    set_state(c, c->tls ? CONN_HANDSHAKE : CONN_HEAD);
    snprintf(c->peer, sizeof c->peer, "%s", peer);
    set_deadline(c, n->o.head_ms);
    c->next = n->conns;
    if (c->next) c->next->prev = c;
    n->conns = c;
    atomic_store(&n->n_conn, n_conn + 1);
    atomic_fetch_add(&n->n_accepted, 1);
}

/* End the loop's part of an exchange. Status 499 means that the client disconnected before the
 * answer's end. Status 503 means that net_drain truncated the answer. */
static void leave_exchange(struct conn *c, int status)
{
    struct exchange *x = c->x;
    if (!x) return;
    count_answer(c->net, x, status);
    access_line(c->net, x, status);
    x->conn = NULL;
    c->x = NULL;
    exchange_drop(x);
}

/* Abandon the exchange of a closed connection. Notify its handler if a handler has begun. */
static void abandon_exchange(struct conn *c)
{
    struct exchange *x = c->x;
    if (!x) return;
    bool handled = c->state == CONN_ANSWER, cut = atomic_load(&c->net->cut);
    if (handled) {
        atomic_fetch_add(&c->net->n_hangup, !cut);
        atomic_store(&x->disconnected, true);
        if (lane_remove(c->net, x))
            exchange_drop(x);
        else
            exchange_wake(x);
    } else {
        body_release(x);  /* an evicted body needs its connection */
        exchange_drop(x); /* drop the reference of the handler side, because no handler begins */
    }
    leave_exchange(c, cut ? 503 : 499);
}

/* The memory of c remains allocated until the end of the loop's round. Only `dead` and `next`
 * remain valid. */
void conn_kill(struct conn *c)
{
    struct net *n = c->net;
    if (c->dead) return;
    abandon_exchange(c);
    holder_unlink(c);
    c->holder->n_conn--;
    holder_drop(n, c->holder);
    c->dead = true;
    if (c->tls && c->state != CONN_HANDSHAKE) tls_goodbye(c->tls);
    tls_close(c->tls);
    /* closing the descriptor also removes it from epoll */
    close(c->sock.fd);
    buf_deinit(&c->in);
    if (c->prev) c->prev->next = c->next;
    if (c->next) c->next->prev = c->prev;
    if (n->conns == c) n->conns = c->next;
    c->next = n->dead; /* events of this round may refer to the connection */
    n->dead = c;
    atomic_fetch_sub(&n->n_conn, 1);
}

/* ---- reading and writing ---- */

static ssize_t conn_read(struct conn *c, char *s, size_t n)
{
    return c->tls ? tls_read(c->tls, s, n) : sock_read(&c->sock, s, n);
}

static ssize_t conn_write(struct conn *c, const char *s, size_t n)
{
    return c->tls ? tls_write(c->tls, s, n) : sock_write(&c->sock, s, n);
}

/* Read once more and append to c->in. Return the number of bytes, or IO_*. The scratch buffer is
 * shared by all connections, so an idle connection has no buffer. */
static ssize_t read_input(struct conn *c)
{
    ssize_t n = conn_read(c, c->net->scratch, READ_BYTES);
    if (n > 0) buf_add(&c->in, c->net->scratch, (size_t)n);
    return c->in.failed ? IO_FAIL : n;
}

/* Drop the first n bytes of c->in. The rest is a pipelined request or a part of the body. */
static void drop_in(struct conn *c, size_t n)
{
    CHECK(n <= c->in.n, "%zu bytes of %zu", n, c->in.n);
    memmove(c->in.data, c->in.data + n, c->in.n - n);
    c->in.n -= n;
    if (c->in.n == 0) buf_deinit(&c->in); /* an idle connection needs no buffer */
}

/* ---- the request ---- */

/* Return a new exchange of c; NULL if the table is full or memory is exhausted. Invariant (1) holds
 * after the caller has set the state to BODY or ANSWER. */
static struct exchange *begin_exchange(struct conn *c)
{
    struct exchange *x = NULL;
    size_t n_max = c->net->exchange_max + REFUSED_MAX; /* the reserve is for quick routes */
    if ((size_t)atomic_load(&c->net->n_exchange) < n_max) x = exchange_open(c->net);
    if (!x) return NULL;
    snprintf(x->peer, sizeof x->peer, "%s", c->peer);
    x->holder_id = address_id(&c->address);
    x->conn = c;
    c->x = x;
    return x;
}

/* Send a FIN and discard input for LINGER_MS, see CONN_LINGER. */
static void begin_linger(struct conn *c)
{
    if (c->tls) tls_goodbye(c->tls);
    shutdown(c->sock.fd, SHUT_WR);
    set_state(c, CONN_LINGER);
    set_deadline(c, atomic_load(&c->net->draining) ? LINGER_DRAIN_MS : LINGER_MS);
}

/* Reject a request without an exchange. */
static void refuse_static(struct conn *c)
{
    (void)!conn_write(c, c->net->no_room.whole, strlen(c->net->no_room.whole));
    count_refused(c->net);
    begin_linger(c);
}

/* Send an error response through the exchange. Begin a new exchange if the connection has no
 * exchange. */
__attribute__((format(printf, 3, 4))) static void refuse(struct conn *c, int status,
                                                         const char *fmt, ...)
{
    struct exchange *x = c->x ? c->x : begin_exchange(c);
    char why[1000];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    if (!x) {
        refuse_static(c);
        return;
    }
    set_state(c, CONN_ANSWER);
    c->deadline_us = 0;
    body_release(x);
    buf_deinit(&x->body);
    x->close_wanted = true;
    exchange_error(x, &(struct net_error){.status = status, .retry_after = status == 503}, "%s",
                   why);
}

/* Send "100 Continue". Close the connection if the line cannot be sent completely. A partial line,
 * or a line that TLS must repeat first, cannot be cancelled. */
static void send_continue(struct conn *c)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    ssize_t n = (ssize_t)sizeof text - 1, put = conn_write(c, text, (size_t)n);
    if (put < n && (put != IO_AGAIN || c->tls)) conn_kill(c);
}

/* Send harmless bytes to a client that sent FIN before the end of its answer, to detect a
 * hang-up. */
static void probe(struct conn *c)
{
    struct exchange *x = c->x;
    if (c->probed || c->local || c->state != CONN_ANSWER) return;
    c->probed = true;
    if (atomic_load(&x->stage) != STAGE_NONE) {
        atomic_store(&x->ping, true);
        exchange_wake(x);
    } else if (x->head.minor == 1) {
        send_continue(c);
    }
}

/* Return true if a ping is due. An answer without pings has the server's interval, because a ping
 * also wakes the handler of an answer that has not begun. */
static bool ping_is_due(const struct exchange *x, int64_t now_us)
{
    const int64_t own = atomic_load(&x->ping_every_us), ms = x->net->o.ping_ms;
    const int64_t every = own > 0 ? own : (ms > 0 ? ms : PING_MS) * 1000;
    return x->idle_us && now_us - x->idle_us >= every;
}

/* Return true if the stream has pings. */
static bool has_pings(const struct exchange *x)
{
    const int64_t own = atomic_load(&x->ping_every_us);
    return own > 0 || (own == 0 && x->net->o.ping_ms > 0);
}

/* Pass a complete request to the handlers. The handler side owns its fields of the exchange after
 * lane_add. Settle the body first, because an eviction must not take the body from a handler. */
static void hand_over(struct conn *c)
{
    CHECK(c->x && c->x->conn == c && (c->state == CONN_HEAD || c->state == CONN_BODY), "state %d",
          (int)c->state);
    set_state(c, CONN_ANSWER);
    c->deadline_us = 0;
    c->probed = false;
    c->x->arrival_us = time_us();
    c->x->idle_us = c->x->arrival_us;
    body_settle(c->x);
    exchange_count(c->x);
    lane_add(c->net, c->x);
    if (!c->dead && c->sock.fin) probe(c);
}

/* Continue after a head without errors. A client that sent "Expect: 100-continue" and the first
 * bytes of the body does not wait, so the server sends no interim answer. */
static void begin_body(struct conn *c)
{
    struct exchange *x = c->x;
    if (x->head.n_body == 0 && !x->head.chunked) {
        hand_over(c);
        return;
    }
    set_state(c, CONN_BODY);
    c->chunks = (struct chunks){0};
    set_deadline(c, c->net->o.body_ms);
    if (x->head.expect_continue && c->in.n == 0) send_continue(c);
}

/* Parse the head of n bytes and remove it from c->in. Answer a rejected head, then close the
 * connection. Errors of the parser map to 431 (too many headers), 503 (memory) and 400. */
static void take_head(struct conn *c, size_t n)
{
    struct exchange *x = begin_exchange(c);
    struct err e = {0};
    int rc = x ? head_parse(&x->head, c->in.data, n, &e) : 0;
    drop_in(c, n);
    if (!x)
        refuse_static(c);
    else if (rc != 0)
        refuse(c, rc == ERR_LIMIT ? 431 : rc == ERR_MEMORY ? 503 : 400, "%s", e.text);
    else if (check_head(c, x))
        begin_body(c);
    else
        set_state(c, CONN_ANSWER), c->deadline_us = 0;
}

/* Process the head. Each step returns true if the next step may run immediately. */
static bool step_head(struct conn *c)
{
    size_t n = head_length(c->in.data, c->in.n), n_max = c->net->o.head_max;
    if (n > n_max || (n == 0 && c->in.n > n_max)) {
        refuse(c, 431, "the request's head has at least %zu bytes, more than %zu", n ? n : c->in.n,
               n_max);
        return !c->dead;
    }
    if (n > 0) {
        take_head(c, n);
        return !c->dead;
    }
    bool first = c->in.n == 0;
    ssize_t got = read_input(c);
    if (got < 0) conn_kill(c); /* a client that sent no byte or a partial head expects no answer */
    if (got > 0 && first) set_deadline(c, c->net->o.head_ms);
    return got > 0;
}

/* Extend the deadline for n bytes of the body, to at most body_ms from now. A client that sends
 * fast therefore cannot pause for long afterwards. */
static void extend_deadline(struct conn *c, size_t n)
{
    int64_t until = c->deadline_us + (int64_t)n * (1000000 / BODY_BYTES_PER_S);
    set_deadline(c, c->net->o.body_ms);
    if (until < c->deadline_us) c->deadline_us = until;
}

void conn_refuse_body(struct conn *c)
{
    CHECK(c && c->x && c->state == CONN_BODY, "state %d", c ? (int)c->state : -1);
    refuse(c, 503, "%s", body_full);
}

/* Append the bytes in c->in to the body. Return false if the body was rejected. */
static bool take_body(struct conn *c)
{
    struct exchange *x = c->x;
    size_t before = x->body.n, left = (size_t)x->head.n_body - before;
    ptrdiff_t used =
        x->head.chunked ? chunks_push(&c->chunks, c->in.data, c->in.n, &x->body, c->net->o.body_max)
                        : (ptrdiff_t)(c->in.n < left ? c->in.n : left);
    if (!x->head.chunked) buf_add(&x->body, c->in.data, (size_t)used);
    x->n_body = x->body.n;
    if (used < 0)
        refuse(c, 400, "the chunked body, byte %llu: expected %s",
               (unsigned long long)c->chunks.n_byte, chunks_expected(&c->chunks));
    else if (x->body.limited)
        refuse(c, 413, "the body has at least %llu bytes, more than %zu",
               (unsigned long long)(x->body.n + c->chunks.n_left), c->net->o.body_max);
    else if (x->body.failed)
        refuse(c, 503, "out of memory: the body; try again later");
    else if (!body_acquire(x))
        refuse(c, 503, "%s", body_full);
    else
        return extend_deadline(c, x->body.n - before), drop_in(c, (size_t)used), true;
    return false;
}

/* Process the bytes that arrived with the head before reading more, because they may contain the
 * complete body. */
static bool step_body(struct conn *c)
{
    struct exchange *x = c->x;
    if (c->in.n > 0 && !take_body(c)) return !c->dead;
    if (x->head.chunked ? c->chunks.state == CHUNK_DONE : x->body.n == (size_t)x->head.n_body) {
        hand_over(c);
        return !c->dead;
    }
    ssize_t got = read_input(c);
    if (got < 0) conn_kill(c);
    return got > 0;
}

/* ---- the answer ---- */

/* End an answer whose last byte the socket has accepted. */
static void complete(struct conn *c)
{
    CHECK(c->x && c->state == CONN_ANSWER, "state %d", (int)c->state);
    struct exchange *x = c->x;
    bool close = x->close_after || atomic_load(&c->net->draining);
    exchange_answered(x);
    leave_exchange(c, x->status);
    if (close) {
        begin_linger(c);
        return;
    }
    set_state(c, CONN_HEAD);
    /* the time limit of a head applies if bytes of a pipelined request have arrived */
    set_deadline(c, c->in.n ? c->net->o.head_ms : c->net->o.idle_ms);
}

/* Write s[0, n). Return the number of bytes, IO_AGAIN or IO_FAIL. Any progress resets the write
 * deadline. */
static ssize_t write_some(struct conn *c, const char *s, size_t n)
{
    ssize_t got = conn_write(c, s, n);
    if (got > 0) {
        c->x->n_sent += (uint64_t)got;
        c->deadline_us = 0;
    } else if (got == IO_AGAIN && c->deadline_us == 0) {
        set_deadline(c, c->net->o.write_ms);
    }
    return got == IO_EOF ? IO_FAIL : got;
}

/* Return the number of the answer's next bytes, and set *s to them; 0 if no bytes are left. An
 * answer's bytes are in this order:
 *    out     head, and the body of a complete answer
 *    ring    streamed bytes
 *    spill   last streamed bytes, and bytes that did not fit into the ring
 *    last    the chunk that ends a chunked body
 * The bytes of spill and last are sent in STAGE_COMPLETE only, because the loop then owns them. The
 * prepared answer `fixed` replaces all other bytes. */
static size_t next_bytes(struct exchange *x, enum answer_stage stage, const char **s)
{
    static const char last_chunk[] = "0\r\n\r\n";
    if (x->fixed) return *s = x->fixed + x->out_at, strlen(x->fixed + x->out_at);
    if (x->out_at < x->out.n) return *s = x->out.data + x->out_at, x->out.n - x->out_at;
    size_t n = x->ring.data ? ring_span(&x->ring, s) : 0;
    if (n > 0 || stage != STAGE_COMPLETE) return n;
    if (x->spill_at < x->spill.n) return *s = x->spill.data + x->spill_at, x->spill.n - x->spill_at;
    if (!x->sends_last_chunk) return 0;
    *s = last_chunk + x->last_at;
    return sizeof last_chunk - 1 - x->last_at;
}

/* Consume n bytes of the part that next_bytes returned for this state of the exchange. */
static void advance(struct exchange *x, size_t n)
{
    if (x->fixed || x->out_at < x->out.n)
        x->out_at += n;
    else if (x->ring.data && ring_used(&x->ring) > 0)
        ring_take(&x->ring, n);
    else if (x->spill_at < x->spill.n)
        x->spill_at += n;
    else
        x->last_at += n;
}

/* Send the answer. `stage` is read once, before the bytes. All bytes are visible if `stage` is
 * STAGE_COMPLETE. A later change causes another message of ring_loop, so no byte is missed. */
static bool step_answer(struct conn *c)
{
    struct exchange *x = c->x;
    enum answer_stage stage = atomic_load(&x->stage);
    if (stage == STAGE_NONE) return false;
    const char *s;
    size_t n;
    while ((n = next_bytes(x, stage, &s)) > 0) {
        ssize_t got = write_some(c, s, n);
        if (got == IO_FAIL) conn_kill(c);
        if (got <= 0) return false;
        advance(x, (size_t)got);
        x->idle_us = time_us();
    }
    if (atomic_exchange(&x->starved, false)) exchange_wake(x);
    if (stage != STAGE_COMPLETE) return false;
    complete(c);
    return true;
}

/* ---- linger and close ---- */

static bool step_linger(struct conn *c)
{
    ssize_t got = recv(c->sock.fd, c->net->scratch, READ_BYTES, 0);
    /* read all input, because closing with unread input resets the connection */
    if (got > 0) return true;
    if (got == 0 || errno != EAGAIN) conn_kill(c);
    return false;
}

/* Continue the TLS handshake. Send no answer after a failed handshake, because the client could not
 * read it. A client that sent HTTP without TLS gets an answer without TLS. */
static bool step_handshake(struct conn *c)
{
    int rc = tls_handshake(c->tls);
    if (rc == IO_FAIL) conn_kill(c);
    if (rc == IO_PLAIN) {
        (void)!sock_write(&c->sock, c->net->no_tls.whole, strlen(c->net->no_tls.whole));
        begin_linger(c);
        return true;
    }
    if (rc != 1) return false;
    set_state(c, CONN_HEAD);
    set_deadline(c, c->net->o.head_ms); /* the time for the head begins after the handshake */
    return true;
}

/* Queue c, so that the loop reads more from it in its next turn. */
static void mark_hot(struct conn *c)
{
    struct net *n = c->net;
    if (c->hot) return;
    c->hot = true;
    c->next_hot = NULL;
    *(n->hot ? &n->hot_last->next_hot : &n->hot) = c;
    n->hot_last = c;
}

/* Run steps until a step must wait for an event. A connection with more work after its turns is
 * hot: the loop calls conn_pump again after it has served other connections. The list of hot
 * connections is necessary, because edge-triggered epoll does not report unread bytes again. */
void conn_pump(struct conn *c)
{
    bool more = !c->dead;
    for (int turns = TURN_BYTES / READ_BYTES; more && turns > 0; turns--) switch (c->state) {
        case CONN_HANDSHAKE:
            more = step_handshake(c);
            break;
        case CONN_HEAD:
            more = step_head(c);
            break;
        case CONN_BODY:
            more = step_body(c);
            break;
        case CONN_ANSWER:
            more = step_answer(c);
            break;
        case CONN_LINGER:
            more = step_linger(c);
            break;
        }
    if (more && !c->dead) mark_hot(c);
}

void conn_event(struct conn *c, unsigned events)
{
    if (c->dead) return;
    sock_event(&c->sock, events);
    if (events & EPOLLIN) holder_received(c);
    if ((events & EPOLLERR) || ((events & EPOLLHUP) && c->state != CONN_LINGER))
        conn_kill(c);
    else if (c->state == CONN_BODY || c->hot)
        mark_hot(c); /* a round of the loop reads from few connections with bodies */
    else
        conn_pump(c);
    if (!c->dead && c->sock.fin) probe(c);
}

/* Advance c once more before its deadline counts, because the loop may be late although bytes, or
 * room for bytes, arrived in time. A connection that is still overdue is closed, or gets a 408 if
 * its client began a request. */
static void time_out(struct conn *c, int64_t now_us)
{
    c->sock.drained = false; /* the event for the unread bytes may be pending */
    conn_pump(c);
    if (c->dead || !c->deadline_us || now_us < c->deadline_us) return;
    if (c->state == CONN_BODY)
        refuse(c, 408, "timed out: %zu bytes of the body arrived, %d ms behind %d bytes/s",
               c->x->body.n, c->net->o.body_ms, BODY_BYTES_PER_S);
    else if (c->state == CONN_HEAD && c->in.n > 0)
        refuse(c, 408, "timed out: %zu bytes of the request's head arrived in %d ms", c->in.n,
               c->net->o.head_ms);
    else
        conn_kill(c);
    if (!c->dead) conn_pump(c);
}

void conn_sweep(struct conn *c, int64_t now_us)
{
    struct exchange *x = c->x;
    if (c->deadline_us && now_us >= c->deadline_us) {
        time_out(c, now_us);
    } else if (c->state == CONN_ANSWER && ping_is_due(x, now_us)) {
        x->idle_us = now_us;
        if (has_pings(x)) atomic_store(&x->ping, true);
        exchange_wake(x);
    }
}

/* ---- invariants ---- */

static const char *check_one(const struct conn *c)
{
    bool has_request = c->state == CONN_BODY || c->state == CONN_ANSWER;
    if (c->dead || !c->holder) return "a closed connection is in the list of open ones";
    if ((c->x != NULL) != has_request) return "a connection's exchange does not match its state";
    if (c->x && c->x->conn != c) return "an exchange belongs to another connection";
    if (c->idle == has_request) return "a connection may be closed, or not, against its state";
    if (c->deadline_us == 0 && c->state != CONN_ANSWER) return "a connection has no deadline";
    if ((c->tls != NULL) != (c->net->tls != NULL))
        return "a connection has TLS, or not, by mistake";
    if (c->state == CONN_HANDSHAKE && !c->tls) return "a handshake without TLS";
    if (c->prev ? c->prev->next != c : c->net->conns != c) return "a connection is not linked";
    return NULL;
}

/* Return the number of connections in the list; -1 if a link is broken or a connection is not of
 * h. */
static int n_closable(const struct conn_list *l, const struct holder *h)
{
    const struct conn *before = NULL;
    int n = 0;
    for (const struct conn *c = l->first; c; before = c, c = c->idle_next, n++)
        if (!c->idle || c->holder != h || c->idle_prev != before) return -1;
    return l->last == before ? n : -1;
}

const char *conn_check(const struct net *n)
{
    int n_conn = 0, n_idle = 0;
    for (const struct conn *c = n->conns; c; c = c->next) {
        const char *wrong = check_one(c);
        if (wrong) return wrong;
        n_conn++;
        n_idle += c->idle;
    }
    if (n_conn != atomic_load(&n->n_conn)) return "connections are not counted right";
    for (const struct holder *h = n->holders; h; h = h->next) {
        int idle = n_closable(&h->idle, h), silent = n_closable(&h->silent, h);
        if (idle < 0 || silent < 0) return "a holder's closable connections are not linked";
        n_conn -= h->n_conn;
        n_idle -= idle + silent;
    }
    if (n_conn != 0) return "a holder's connections are not counted right";
    return n_idle == 0 ? NULL : "a closable connection is in no list";
}
