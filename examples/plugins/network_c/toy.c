/*
 * A toy network simulator behind Astrarium's C ABI: every NPU sends one message at a time, and each takes
 * size / bandwidth + latency, with the bandwidth and latency of the design's innermost dim.
 *
 *     start     = max(now, when the source is free)
 *     delivered = start + size / bandwidth + latency
 *
 * It has a clock of its own (a heap of events), as a real simulator has. toy.py is its twin in Python.
 */
#include "astrarium_network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024 };

typedef struct { int64_t size, tag; int32_t src, dst; } address;

typedef struct {                       /* a delivery, or a callback that sim_schedule asked for */
    int64_t time;
    uint64_t serial, message;
    address key;
    void (*callback)(void *);
    void *argument;
} event;

typedef struct waiting {               /* a message without a receive, or a receive without a message */
    struct waiting *next;
    address key;
    uint64_t message;
} waiting;

typedef struct {
    const astrarium_host *host;
    int64_t now, latency, *free_at;
    double bandwidth;                  /* bytes per ns */
    uint64_t serial;
    event *heap;
    size_t count, room;
    waiting *there[BUCKETS], *wanted[BUCKETS];
    const char *error;
} toy;

static const char *create_error;

static int sooner(const event *a, const event *b) {
    return a->time != b->time ? a->time < b->time : a->serial < b->serial;
}

static int push(toy *t, event e) {
    size_t i = t->count++;
    if (t->count > t->room) {
        size_t room = t->room ? 2 * t->room : 64;
        event *heap = realloc(t->heap, room * sizeof *heap);
        if (!heap) return t->error = "out of memory", -1;
        t->heap = heap, t->room = room;
    }
    e.serial = t->serial++;
    for (; i > 0 && sooner(&e, &t->heap[(i - 1) / 2]); i = (i - 1) / 2) t->heap[i] = t->heap[(i - 1) / 2];
    t->heap[i] = e;
    return 0;
}

static event pop(toy *t) {
    event first = t->heap[0], last = t->heap[--t->count];
    size_t i = 0, child;
    for (; (child = 2 * i + 1) < t->count; i = child) {
        if (child + 1 < t->count && sooner(&t->heap[child + 1], &t->heap[child])) ++child;
        if (!sooner(&t->heap[child], &last)) break;
        t->heap[i] = t->heap[child];
    }
    if (t->count) t->heap[i] = last;
    return first;
}

static unsigned bucket(const address *k) {
    uint64_t h = (uint64_t)k->tag * 0x9e3779b97f4a7c15u ^ (uint64_t)k->size;
    h = (h ^ (uint64_t)k->src << 32 ^ (uint64_t)(uint32_t)k->dst) * 0xbf58476d1ce4e5b9u;
    return (unsigned)(h >> 40) % BUCKETS;
}

/* Takes the first one with this key out of a table; 0 when there is none. Tables keep order of arrival. */
static int take(waiting **table, const address *key, uint64_t *message) {
    for (waiting **at = &table[bucket(key)]; *at; at = &(*at)->next) {
        waiting *found = *at;
        if (found->key.size != key->size || found->key.tag != key->tag || found->key.src != key->src || found->key.dst != key->dst)
            continue;
        *message = found->message;
        *at = found->next;
        free(found);
        return 1;
    }
    return 0;
}

static int keep(toy *t, waiting **table, const address *key, uint64_t message) {
    waiting *fresh = malloc(sizeof *fresh), **at = &table[bucket(key)];
    if (!fresh) return t->error = "out of memory", -1;
    *fresh = (waiting){NULL, *key, message};
    while (*at) at = &(*at)->next;
    *at = fresh;
    return 0;
}

static void *create(const astrarium_host *host, const astrarium_fabric *fabric, const char *options) {
    toy *t = calloc(1, sizeof *t);
    (void)options;
    if (!t || !(t->free_at = calloc((size_t)fabric->npus, sizeof *t->free_at))) return create_error = "out of memory", free(t), NULL;
    t->host = host;
    t->latency = llround(fabric->dim[0].latency * 1000.0);
    t->bandwidth = fabric->dim[0].bandwidth;
    host->log(host->run, ASTRARIUM_INFO, "a toy network was made");
    return t;
}

static void destroy(void *network) {
    toy *t = network;
    for (int i = 0; i < BUCKETS; ++i)
        for (int side = 0; side < 2; ++side)
            for (waiting *w = side ? t->there[i] : t->wanted[i], *next; w; w = next) next = w->next, free(w);
    free(t->heap), free(t->free_at), free(t);
}

static int sim_send(void *network, uint64_t message, int64_t size, int32_t src, int32_t dst, int64_t tag) {
    toy *t = network;
    int64_t start = t->free_at[src] > t->now ? t->free_at[src] : t->now;
    t->free_at[src] = start + (int64_t)floor((double)size * 1000.0 / t->bandwidth);
    event e = {t->free_at[src] + t->latency, 0, message, {size, tag, src, dst}, NULL, NULL};
    return push(t, e);
}

static int sim_recv(void *network, uint64_t message, int64_t size, int32_t src, int32_t dst, int64_t tag) {
    toy *t = network;
    address key = {size, tag, src, dst};
    uint64_t sent;
    return take(t->there, &key, &sent) ? t->host->delivered(t->host->run, message) : keep(t, t->wanted, &key, message);
}

static int sim_schedule(void *network, int64_t delta, void (*callback)(void *), void *argument) {
    toy *t = network;
    event e = {t->now + delta, 0, 0, {0, 0, 0, 0}, callback, argument};
    if (delta < 0) return t->error = "sim_schedule: a negative delta", -1;
    return push(t, e);
}

static int64_t sim_get_time(void *network) { return ((toy *)network)->now; }

static int64_t next_event_time(void *network) {
    toy *t = network;
    return t->count ? t->heap[0].time : ASTRARIUM_NEVER;
}

static int deliver(toy *t, const event *e) {
    uint64_t receive;
    if (t->host->delivered(t->host->run, e->message)) return -1;
    if (take(t->wanted, &e->key, &receive)) return t->host->delivered(t->host->run, receive);
    return keep(t, t->there, &e->key, e->message);
}

static int advance(void *network, int64_t to) {
    toy *t = network;
    while (t->count && t->heap[0].time <= to) {
        event e = pop(t);
        t->now = e.time;
        if (e.callback)
            e.callback(e.argument);
        else if (deliver(t, &e))
            return -1;
    }
    t->now = to;
    return 0;
}

static const char *error(void *network) { return network ? ((toy *)network)->error : create_error; }

ASTRARIUM_EXPORT const astrarium_network *astrarium_network_v1(void) {
    static const astrarium_network table = {sizeof table, ASTRARIUM_NETWORK_VERSION, "toy", create, destroy, sim_send,
                                            sim_recv, sim_schedule, sim_get_time, next_event_time, advance, error};
    return &table;
}
