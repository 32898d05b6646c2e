// Long runs without the GIL still end on Ctrl-C: the clocks ask now and then.
#pragma once

namespace astrarium {

// Throws Python's exception when a signal handler has raised one. Defined where the interpreter is known.
void stop_if_interrupted();

}  // namespace astrarium
