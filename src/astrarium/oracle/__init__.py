"""The engine in plain Python: the same Plan as the compiled core, to the same integers, under our own rules.

It runs where no compiler was at hand, it is what the tests hold the core against, and it is the place to read how a run
works. It simulates every rank and every message. ASTRA-sim's rules (`compat: astra_sim`) are in the core only.

Read it in this order:

1. `clock`: the order of events in an instant, durations, speeds that change.
2. `tables`, `record`: what a run reads, as lists; what it measures.
3. `nodes`: which of a rank's nodes are ready, and which goes next.
4. `meetings`, `collectives`, `custom`: who meets whom; chunks, phases and their messages; programs by hand.
5. `fabric`: links, and the route of a message.
6. `medium`, then one file for each: `ports` (closed_form), `links` (contention), `flows` (fluid), `packets` (with
   `net`, `credits` and `roce`).
7. `engine`, `run`: all of it put together; the entries, and the sentences of a run that cannot go on.
"""

from astrarium.oracle.run import execute, feed

__all__ = ["execute", "feed"]
