/*
 * astrarium_network.h: a network simulator of your own inside Astrarium, as a shared library.
 *
 * Export one function, astrarium_network_v1, which gives a table of functions. Astrarium owns the loop: it calls
 * advance() to run your clock up to an instant, and sim_send / sim_recv at that instant. You answer with
 * host->delivered(host->run, message), once per sim_send (the message has left your hands: it is delivered at its
 * destination) and once per sim_recv (a matching message is there). Messages match when source, destination, tag and
 * size are equal: the k-th sent with the k-th received.
 *
 * Plain C (C99 and later, C++). Times are integer picoseconds from the start of the run and never go back; sizes are
 * bytes. All calls come from one thread; several networks of one library may live at once, each in a thread of its own,
 * so keep your state in what create() returns. No call may throw or longjmp. Functions that return int give 0 when all
 * is well; anything else ends the run with the text of error().
 *
 * Stability: fields are only ever added at the end. `size` is sizeof the struct as its writer was compiled, `version` the
 * ABI number: read no field beyond the other side's size. A change that breaks this gets another exported name (_v2).
 */
#ifndef ASTRARIUM_NETWORK_H
#define ASTRARIUM_NETWORK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ASTRARIUM_NETWORK_VERSION 1u
#define ASTRARIUM_NEVER INT64_MAX

#if defined(_WIN32)
#define ASTRARIUM_EXPORT __declspec(dllexport)
#else
#define ASTRARIUM_EXPORT __attribute__((visibility("default")))
#endif

enum astrarium_shape {
    ASTRARIUM_RING = 0,            /* both ways */
    ASTRARIUM_SWITCH = 1,
    ASTRARIUM_FULLY_CONNECTED = 2,
    ASTRARIUM_RING_ONE_WAY = 3,
    ASTRARIUM_MESH = 4,
    ASTRARIUM_HYPERCUBE = 5
};

enum astrarium_log_level { ASTRARIUM_DEBUG = 10, ASTRARIUM_INFO = 20, ASTRARIUM_WARNING = 30, ASTRARIUM_ERROR = 40 };

/* One dim of the design's network. */
typedef struct astrarium_dim {
    int32_t shape;      /* enum astrarium_shape */
    int32_t npus;
    double bandwidth;   /* bytes per ns of one link, one direction */
    double latency;     /* ns of one hop */
} astrarium_dim;

/* The design's network, innermost dim first: NPU = sum of coordinate * product of the inner dims' npus. */
typedef struct astrarium_fabric {
    uint32_t size;      /* sizeof(astrarium_fabric) */
    uint32_t dim_size;  /* sizeof(astrarium_dim): step from one dim to the next in bytes */
    int32_t npus;
    int32_t dims;
    const astrarium_dim *dim;
} astrarium_fabric;

/* What Astrarium offers; valid from create() to destroy(). `run` is the first argument of every function. */
typedef struct astrarium_host {
    uint32_t size;
    uint32_t version;
    void *run;
    int64_t (*now)(void *run);
    /* Calls callback(argument) delta >= 0 ps from now, for a network that has no clock of its own. */
    int (*schedule)(void *run, int64_t delta, void (*callback)(void *argument), void *argument);
    /* The callback of a sim_send or sim_recv: now, and once. Anything but 0: refused, and the run will end. */
    int (*delivered)(void *run, uint64_t message);
    void (*log)(void *run, int level, const char *text);
} astrarium_host;

/* Your functions. `network` is what create() returned. */
typedef struct astrarium_network {
    uint32_t size;
    uint32_t version;
    const char *name;
    /* A network at time 0; NULL: it cannot be made (error(NULL) says why). `options` is the user's text, never NULL. */
    void *(*create)(const astrarium_host *host, const astrarium_fabric *fabric, const char *options);
    void (*destroy)(void *network);
    /* ASTRA-sim's four functions; `message` stands for the callback. */
    int (*sim_send)(void *network, uint64_t message, int64_t msg_size, int32_t src, int32_t dst, int64_t tag);
    int (*sim_recv)(void *network, uint64_t message, int64_t msg_size, int32_t src, int32_t dst, int64_t tag);
    int (*sim_schedule)(void *network, int64_t delta, void (*callback)(void *argument), void *argument);
    int64_t (*sim_get_time)(void *network);
    /* Co-simulation. Both NULL: the network lives on host->schedule and has no clock of its own. */
    int64_t (*next_event_time)(void *network);       /* ASTRARIUM_NEVER when nothing is to come */
    int (*advance)(void *network, int64_t to);       /* run everything up to `to`, and stand there */
    /* The last failure in words, or NULL. `network` is NULL after a failed create(). */
    const char *(*error)(void *network);
} astrarium_network;

typedef const astrarium_network *(*astrarium_network_v1_function)(void);

#ifdef __cplusplus
}
#endif
#endif
