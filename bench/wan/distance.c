/*
 * Puts a distance between TCP clients and servers of this machine.
 *
 *   distance RTT_US REQUEST_WINDOW ANSWER_WINDOW LATE_PER_MILLION LATE_US CAP SEED LISTEN:TARGET...
 *
 * Every byte reaches the other side half a round trip after it was read, in order. A new connection carries its first
 * byte one round trip after it was accepted, as a handshake takes. A window (bytes; 0: none) limits what one side of a
 * connection has sent and not yet got acknowledged: the acknowledgement of a byte comes back half a round trip after
 * the byte was handed over. LATE_PER_MILLION of the chunks (what one read returned, 64 KiB at most) take LATE_US
 * longer, and what follows on the same direction of the same connection waits behind them, as behind a lost segment.
 * CAP bounds the bytes that one direction of a connection holds; above it nothing more is read.
 *
 * Prints {"ready": true} when it listens. On every line of its standard input it prints one JSON line of counters; at
 * the end of its standard input it exits. One thread, one epoll.
 *
 * It is written in C because Python's proxy is the limit at 100 MiB/s on a machine that also runs what is measured.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    BLOCK_BYTES = 64 * 1024,
    SMALL_BYTES = 8 * 1024,      /* A chunk up to this size gets memory of its own size, so that CAP means memory. */
    POOL_BLOCKS = 4096,
    READS_PER_EVENT = 16,        /* 1 MiB, then the next connection. */
    WRITE_BLOCKS = 32,
    LEAST_READ_BYTES = 8 * 1024, /* A window that is nearly full is not filled by crumbs. */
    BUFFER_BYTES = 128 * 1024,   /* Of the sockets of a limited direction: the window is the limit, not the kernel. */
    GRID_US = 500,               /* Due times are rounded up to this, so that one wake serves many connections. */
    MAX_EVENTS = 256,
    MAX_PORTS = 16,
};

static const int64_t NEVER = INT64_MAX;

struct block {
    struct block *next;
    int64_t due_us;
    uint32_t at, end;
    int pooled;
    unsigned char data[];
};

struct credit {
    struct credit *next;
    int64_t at_us;
    uint64_t bytes;
};

struct connection;

/* One of the two directions of a connection. */
struct direction {
    struct connection *connection;
    int source, sink; /* Indexes into connection->fd. */
    uint64_t window;
    struct block *first, *last;
    struct credit *first_credit, *last_credit;
    uint64_t queued;     /* Read and not yet written. */
    uint64_t unacked;    /* Read and not yet acknowledged; counted only with a window. */
    int64_t last_due_us;
    int64_t end_due_us;  /* When the end of the stream is due; NEVER before it was read. */
    int ended, blocked, finished;
    uint64_t *carried;
};

struct connection {
    struct connection *previous, *next;
    int fd[2]; /* Client, server. */
    uint32_t interest[2];
    int64_t open_at_us;
    int hung_up[2]; /* Both ways of the socket are over; epoll no longer watches it. */
    int dead;
    struct direction way[2]; /* Requests: from fd[0] to fd[1]; answers: from fd[1] to fd[0]. */
};

/* What an epoll event belongs to. */
struct tag {
    enum { LISTENER, CLIENT, SERVER, TIMER, INPUT } kind;
    struct connection *connection;
    int fd;
    int target_port;
};

struct held {
    struct connection connection;
    struct tag tags[2];
};

static int64_t rtt_us, late_us;
static uint64_t window_bytes[2], cap_bytes;
static uint32_t late_per_million;
static uint64_t random_state;

static int poll_fd, timer_fd;
static int64_t next_at_us = INT64_MAX, armed_at_us = INT64_MAX;
static struct connection *connections, *graveyard;
static struct block *pool;
static int pool_size;
static uint64_t carried[2], late_chunks, chunks, accepted, open_now, open_most, held_now, held_most;

static int64_t now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void *must(void *memory)
{
    if (!memory)
        die("memory");
    return memory;
}

static uint32_t random_below(uint32_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 16) % limit);
}

static int64_t on_grid(int64_t at_us)
{
    return (at_us + GRID_US - 1) / GRID_US * GRID_US;
}

static void wake_at(int64_t at_us)
{
    if (at_us < next_at_us)
        next_at_us = at_us;
}

/* ---- memory ---- */

static struct block *take_block(void)
{
    struct block *block = pool;
    if (block) {
        pool = block->next;
        pool_size--;
    } else {
        block = must(malloc(sizeof *block + BLOCK_BYTES));
        block->pooled = 1;
    }
    return block;
}

static void drop_block(struct block *block)
{
    if (block->pooled && pool_size < POOL_BLOCKS) {
        block->next = pool;
        pool = block;
        pool_size++;
    } else {
        free(block);
    }
}

/* ---- connections ---- */

static void set_interest(struct held *held, int side, uint32_t wanted)
{
    struct connection *connection = &held->connection;
    if (connection->interest[side] == wanted || connection->hung_up[side])
        return;
    struct epoll_event event = {.events = wanted, .data.ptr = &held->tags[side]};
    if (epoll_ctl(poll_fd, EPOLL_CTL_MOD, connection->fd[side], &event))
        die("epoll_ctl");
    connection->interest[side] = wanted;
}

static uint64_t may_read(const struct direction *way)
{
    uint64_t allowed = way->queued < cap_bytes ? cap_bytes - way->queued : 0;
    if (way->window) {
        uint64_t left = way->unacked < way->window ? way->window - way->unacked : 0;
        if (left < LEAST_READ_BYTES && way->unacked)
            left = 0;
        if (left < allowed)
            allowed = left;
    }
    return allowed;
}

static void update_interest(struct connection *connection, int64_t now)
{
    if (connection->dead)
        return;
    for (int side = 0; side < 2; side++) {
        const struct direction *from = &connection->way[side], *to = &connection->way[1 - side];
        uint32_t wanted = 0;
        if (!from->ended && now >= connection->open_at_us && may_read(from))
            wanted |= EPOLLIN;
        if (to->blocked)
            wanted |= EPOLLOUT;
        set_interest((struct held *)connection, side, wanted);
    }
}

/* Closes both sockets; without `in_order` both peers get a reset. The memory is freed after the current events. */
static void bury(struct connection *connection, int in_order)
{
    if (connection->dead)
        return;
    connection->dead = 1;
    for (int side = 0; side < 2; side++) {
        if (!in_order) {
            struct linger reset = {.l_onoff = 1, .l_linger = 0};
            setsockopt(connection->fd[side], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        }
        close(connection->fd[side]);
        struct direction *way = &connection->way[side];
        held_now -= way->queued;
        for (struct block *block = way->first, *next; block; block = next) {
            next = block->next;
            drop_block(block);
        }
        for (struct credit *credit = way->first_credit, *next; credit; credit = next) {
            next = credit->next;
            free(credit);
        }
    }
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        connections = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    connection->next = graveyard;
    graveyard = connection;
    open_now--;
}

static void start_direction(struct connection *connection, int side)
{
    struct direction *way = &connection->way[side];
    way->connection = connection;
    way->source = side;
    way->sink = 1 - side;
    way->window = window_bytes[side];
    way->end_due_us = NEVER;
    way->carried = &carried[side];
    if (way->window) {
        int size = BUFFER_BYTES;
        setsockopt(connection->fd[side], SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
        setsockopt(connection->fd[1 - side], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    }
}

static void accept_one(const struct tag *listener)
{
    int client = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (client < 0) {
        if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR)
            return;
        die("accept");
    }
    int server = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (server < 0)
        die("socket");
    struct held *held = must(calloc(1, sizeof *held));
    struct connection *connection = &held->connection;
    connection->fd[0] = client;
    connection->fd[1] = server;
    start_direction(connection, 0);
    start_direction(connection, 1);
    int on = 1;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(listener->target_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(server, (struct sockaddr *)&address, sizeof address) && errno != EINPROGRESS) {
        close(client); /* The broker is down: so its client finds it. */
        close(server);
        free(held);
        return;
    }
    for (int side = 0; side < 2; side++) {
        held->tags[side] = (struct tag){.kind = side ? SERVER : CLIENT, .connection = connection};
        struct epoll_event event = {.events = 0, .data.ptr = &held->tags[side]};
        if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, connection->fd[side], &event))
            die("epoll_ctl");
    }
    connection->open_at_us = on_grid(now_us() + rtt_us);
    connection->next = connections;
    if (connections)
        connections->previous = connection;
    connections = connection;
    wake_at(connection->open_at_us);
    accepted++;
    if (++open_now > open_most)
        open_most = open_now;
}

/* ---- bytes ---- */

static void enqueue(struct direction *way, struct block *block, int64_t now)
{
    int64_t due_us = now + rtt_us / 2;
    chunks++;
    if (late_per_million && random_below(1000000) < late_per_million) {
        due_us += late_us;
        late_chunks++;
    }
    due_us = on_grid(due_us);
    if (due_us < way->last_due_us)
        due_us = way->last_due_us;
    way->last_due_us = block->due_us = due_us;
    block->next = NULL;
    if (way->last)
        way->last->next = block;
    else
        way->first = block;
    way->last = block;
    uint32_t size = block->end - block->at;
    way->queued += size;
    if (way->window)
        way->unacked += size;
    held_now += size;
    if (held_now > held_most)
        held_most = held_now;
    if (!way->blocked)
        wake_at(due_us);
}

/* Reads what the window and the cap allow; with `hung_up`, what is left, whatever they allow. */
static void pull(struct direction *way, int64_t now, int hung_up)
{
    struct connection *connection = way->connection;
    for (int turn = 0; turn < READS_PER_EVENT && !way->ended; turn++) {
        uint64_t allowed = hung_up ? BLOCK_BYTES : may_read(way);
        if (!allowed)
            return;
        struct block *block = take_block();
        size_t wanted = allowed < BLOCK_BYTES ? allowed : BLOCK_BYTES;
        ssize_t size = read(connection->fd[way->source], block->data, wanted);
        if (size <= 0) {
            drop_block(block);
            if (size < 0) {
                if (errno != EAGAIN && errno != EINTR)
                    bury(connection, 0);
                return;
            }
            way->ended = 1;
            way->end_due_us = on_grid(now + rtt_us / 2);
            if (way->end_due_us < way->last_due_us)
                way->end_due_us = way->last_due_us;
            wake_at(way->end_due_us);
            return;
        }
        if (size <= SMALL_BYTES) {
            struct block *small = must(malloc(sizeof *small + size));
            memcpy(small->data, block->data, size);
            small->pooled = 0;
            drop_block(block);
            block = small;
        }
        block->at = 0;
        block->end = (uint32_t)size;
        enqueue(way, block, now);
        if ((size_t)size < wanted)
            return;
    }
}

/* `handed_us`: when the bytes reached the other side. */
static void written(struct direction *way, uint64_t size, int64_t handed_us)
{
    way->queued -= size;
    held_now -= size;
    *way->carried += size;
    if (way->window) {
        struct credit *credit = must(malloc(sizeof *credit));
        *credit = (struct credit){.at_us = on_grid(handed_us + rtt_us / 2), .bytes = size};
        if (way->last_credit)
            way->last_credit->next = credit;
        else
            way->first_credit = credit;
        way->last_credit = credit;
        wake_at(credit->at_us);
    }
    while (size) {
        struct block *block = way->first;
        uint32_t left = block->end - block->at;
        if (size < left) {
            block->at += (uint32_t)size;
            return;
        }
        size -= left;
        way->first = block->next;
        if (!way->first)
            way->last = NULL;
        drop_block(block);
    }
}

/*
 * Writes what is due. Unless the receiver was slow (`stalled`), bytes count as handed over when they were due: that this
 * process got its CPU late is not part of the distance.
 */
static void push(struct direction *way, int64_t now, int stalled)
{
    struct connection *connection = way->connection;
    while (way->first && way->first->due_us <= now) {
        struct iovec parts[WRITE_BLOCKS];
        int count = 0;
        int64_t due_us = now;
        for (struct block *block = way->first; block && block->due_us <= now && count < WRITE_BLOCKS; block = block->next) {
            parts[count++] = (struct iovec){block->data + block->at, block->end - block->at};
            due_us = block->due_us;
        }
        ssize_t size = writev(connection->fd[way->sink], parts, count);
        if (size < 0) {
            if (errno == EAGAIN || errno == EINTR)
                way->blocked = 1;
            else
                bury(connection, 0);
            return;
        }
        way->blocked = 0;
        written(way, (uint64_t)size, stalled ? now : due_us);
    }
    way->blocked = 0;
    if (!way->first && !way->finished && way->end_due_us <= now) {
        way->finished = 1;
        shutdown(connection->fd[way->sink], SHUT_WR);
        if (connection->way[0].finished && connection->way[1].finished)
            bury(connection, 1);
    }
}

static void take_credits(struct direction *way, int64_t now)
{
    struct credit *credit;
    while ((credit = way->first_credit) && credit->at_us <= now) {
        way->unacked -= credit->bytes;
        way->first_credit = credit->next;
        if (!way->first_credit)
            way->last_credit = NULL;
        free(credit);
    }
}

static void wake_for(const struct direction *way)
{
    if (way->first && !way->blocked)
        wake_at(way->first->due_us);
    if (!way->first && !way->finished)
        wake_at(way->end_due_us);
    if (way->first_credit)
        wake_at(way->first_credit->at_us);
}

/* Does everything that is due on all connections, and finds out when something is due next. */
static void tick(int64_t now)
{
    next_at_us = NEVER;
    for (struct connection *connection = connections, *next; connection; connection = next) {
        next = connection->next;
        for (int side = 0; side < 2 && !connection->dead; side++) {
            take_credits(&connection->way[side], now);
            if (!connection->way[side].blocked)
                push(&connection->way[side], now, 0);
        }
        if (connection->dead)
            continue;
        if (connection->open_at_us > now)
            wake_at(connection->open_at_us);
        wake_for(&connection->way[0]);
        wake_for(&connection->way[1]);
        update_interest(connection, now);
    }
}

static void on_socket(struct connection *connection, int side, uint32_t events, int64_t now)
{
    struct direction *from = &connection->way[side], *to = &connection->way[1 - side];
    if (connection->dead)
        return;
    if (events & EPOLLERR) {
        bury(connection, 0);
        return;
    }
    if (events & EPOLLOUT) {
        to->blocked = 0;
        push(to, now, 1);
        if (!connection->dead)
            wake_for(to); /* What became due later than the receiver was ready has no wake yet. */
    }
    if (!connection->dead && events & (EPOLLIN | EPOLLHUP)) {
        if (events & EPOLLHUP && from->ended) {
            /* Level-triggered, it would be told until the bytes under way to the other side have arrived. */
            epoll_ctl(poll_fd, EPOLL_CTL_DEL, connection->fd[side], NULL);
            connection->hung_up[side] = 1;
            return;
        }
        pull(from, now, (events & EPOLLHUP) != 0);
    }
    update_interest(connection, now);
}

/* ---- main ---- */

static void arm(void)
{
    if (next_at_us == armed_at_us)
        return;
    armed_at_us = next_at_us;
    struct itimerspec at = {0};
    if (next_at_us != NEVER) {
        int64_t time_us = next_at_us > 0 ? next_at_us : 1;
        at.it_value.tv_sec = time_us / 1000000;
        at.it_value.tv_nsec = time_us % 1000000 * 1000;
    }
    if (timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &at, NULL))
        die("timerfd_settime");
}

static void tell(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu_s = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec
                   + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    printf("{\"request_bytes\": %llu, \"answer_bytes\": %llu, \"connections\": %llu, \"connections_most\": %llu, "
           "\"accepted\": %llu, \"chunks\": %llu, \"late_chunks\": %llu, \"held_most_bytes\": %llu, \"cpu_s\": %.3f}\n",
           (unsigned long long)carried[0], (unsigned long long)carried[1], (unsigned long long)open_now,
           (unsigned long long)open_most, (unsigned long long)accepted, (unsigned long long)chunks,
           (unsigned long long)late_chunks, (unsigned long long)held_most, cpu_s);
    fflush(stdout);
    open_most = open_now;
    held_most = held_now;
}

static void on_input(void)
{
    char text[256];
    ssize_t size = read(STDIN_FILENO, text, sizeof text);
    if (size <= 0)
        exit(0);
    for (ssize_t at = 0; at < size; at++)
        if (text[at] == '\n')
            tell();
}

static void watch(int fd, struct tag *tag)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = tag};
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event))
        die("epoll_ctl");
}

static void listen_on(const char *pair, struct tag *tag)
{
    int port, target_port, on = 1;
    if (sscanf(pair, "%d:%d", &port, &target_port) != 2) {
        fprintf(stderr, "not LISTEN:TARGET: %s\n", pair);
        exit(2);
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 512))
        die(pair);
    *tag = (struct tag){.kind = LISTENER, .fd = fd, .target_port = target_port};
    watch(fd, tag);
}

static void serve(void)
{
    struct epoll_event events[MAX_EVENTS];
    for (;;) {
        arm();
        int count = epoll_wait(poll_fd, events, MAX_EVENTS, -1);
        if (count < 0 && errno != EINTR)
            die("epoll_wait");
        int64_t now = now_us();
        for (int at = 0; at < count; at++) {
            struct tag *tag = events[at].data.ptr;
            uint64_t fired;
            switch (tag->kind) {
            case LISTENER:
                accept_one(tag);
                break;
            case CLIENT:
            case SERVER:
                on_socket(tag->connection, tag->kind == SERVER, events[at].events, now);
                break;
            case TIMER:
                if (read(timer_fd, &fired, sizeof fired) > 0)
                    armed_at_us = NEVER;
                break;
            case INPUT:
                on_input();
                break;
            }
        }
        if (now >= next_at_us)
            tick(now);
        while (graveyard) {
            struct connection *dead = graveyard;
            graveyard = dead->next;
            free(dead);
        }
    }
}

int main(int count, char **words)
{
    if (count < 9 || count - 8 > MAX_PORTS) {
        fprintf(stderr, "usage: distance RTT_US REQUEST_WINDOW ANSWER_WINDOW LATE_PER_MILLION LATE_US CAP SEED "
                        "LISTEN:TARGET...\n");
        return 2;
    }
    rtt_us = atoll(words[1]);
    window_bytes[0] = strtoull(words[2], NULL, 10);
    window_bytes[1] = strtoull(words[3], NULL, 10);
    late_per_million = (uint32_t)atoll(words[4]);
    late_us = atoll(words[5]);
    cap_bytes = strtoull(words[6], NULL, 10);
    random_state = strtoull(words[7], NULL, 10) * 2654435769u + 88172645463325252u;
    signal(SIGPIPE, SIG_IGN);
    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (poll_fd < 0 || timer_fd < 0)
        die("epoll or timerfd");
    static struct tag timer = {.kind = TIMER}, input = {.kind = INPUT}, listeners[MAX_PORTS];
    watch(timer_fd, &timer);
    watch(STDIN_FILENO, &input);
    for (int at = 8; at < count; at++)
        listen_on(words[at], &listeners[at - 8]);
    printf("{\"ready\": true}\n");
    fflush(stdout);
    serve();
}
