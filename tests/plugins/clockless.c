/* A network without a clock of its own: it lives on host->schedule, and does what its options say, right or wrong. */
#include "astrarium_network.h"

#include <stdlib.h>
#include <string.h>

typedef struct waiting {
    struct waiting *next;
    uint64_t message;
    int64_t size, tag;
    int32_t src, dst;
    int received, there;
    struct net *net;
} waiting;

typedef struct net {
    const astrarium_host *host;
    const char *error;
    char mode[16];
    waiting *all;
} net;

static void *create(const astrarium_host *host, const astrarium_fabric *fabric, const char *options) {
    net *n;
    if (fabric->npus > 64 || !strcmp(options, "refuse")) return NULL;
    n = calloc(1, sizeof *n);
    n->host = host;
    strncpy(n->mode, options, sizeof n->mode - 1);
    return n;
}

static void destroy(void *network) {
    net *n = network;
    waiting *w, *next;
    for (w = n->all; w; w = next) next = w->next, free(w);
    free(n);
}

static waiting *fresh(net *n, uint64_t message, int64_t size, int32_t src, int32_t dst, int64_t tag, int received) {
    waiting *w = calloc(1, sizeof *w), **at = &n->all;
    w->message = message, w->size = size, w->tag = tag, w->src = src, w->dst = dst, w->received = received, w->net = n;
    while (*at) at = &(*at)->next;
    return *at = w;
}

static waiting *match(net *n, const waiting *to, int received) {
    waiting *w;
    for (w = n->all; w; w = w->next)
        if (w->there && w->received == received && w->size == to->size && w->tag == to->tag && w->src == to->src && w->dst == to->dst)
            return w;
    return NULL;
}

static void arrive(void *argument) {
    waiting *w = argument, *r;
    net *n = w->net;
    n->host->delivered(n->host->run, w->message);
    if (!strcmp(n->mode, "twice")) n->host->delivered(n->host->run, w->message);
    w->there = 1;
    r = match(n, w, 1);
    if (r) w->there = r->there = 0, n->host->delivered(n->host->run, r->message);
}

static int sim_send(void *network, uint64_t message, int64_t size, int32_t src, int32_t dst, int64_t tag) {
    net *n = network;
    if (!strcmp(n->mode, "fail")) return n->error = "the cable is out", 7;
    if (!strcmp(n->mode, "past")) return n->host->schedule(n->host->run, -5, arrive, NULL), 0;
    if (!strcmp(n->mode, "unknown")) return n->host->delivered(n->host->run, message + 12345), 0;
    if (!strcmp(n->mode, "lose")) return 0;
    return n->host->schedule(n->host->run, 2000, arrive, fresh(n, message, size, src, dst, tag, 0));
}

static int sim_recv(void *network, uint64_t message, int64_t size, int32_t src, int32_t dst, int64_t tag) {
    net *n = network;
    waiting *r = fresh(n, message, size, src, dst, tag, 1), *w;
    r->there = 1;
    w = match(n, r, 0);
    if (!w) return 0;
    r->there = w->there = 0;
    return n->host->delivered(n->host->run, message);
}

static int sim_schedule(void *network, int64_t delta, void (*callback)(void *), void *argument) {
    net *n = network;
    return n->host->schedule(n->host->run, delta, callback, argument);
}

static int64_t sim_get_time(void *network) {
    net *n = network;
    return n->host->now(n->host->run);
}

static const char *error(void *network) { return network ? ((net *)network)->error : "not with these options"; }

#ifndef VERSION
#define VERSION ASTRARIUM_NETWORK_VERSION
#endif

ASTRARIUM_EXPORT const astrarium_network *astrarium_network_v1(void) {
    static const astrarium_network table = {sizeof table, VERSION, "clockless", create, destroy, sim_send, sim_recv,
                                            sim_schedule, sim_get_time, NULL, NULL, error};
    return &table;
}
