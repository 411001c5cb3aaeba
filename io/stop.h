// Graceful stopping on signals, with the results saved:
//
//   io::catch_stop_signals();                        // the first line of main
//   while (step < steps && !io::stop_asked()) ...    // Ctrl-C, SIGTERM or a lost terminal: save a checkpoint and end
//
// Used instead of a signal handler, which is unsafe with this library: it would run on the interrupted code's stack,
// which a matrix product inside oneDNN's generated code does not survive (observed: heap corruption after Ctrl-C).
#pragma once

namespace mantissa::io {

// From now on SIGINT and SIGTERM do not end the program but make stop_asked() true. A second one ends it at once; a
// SIGTERM within a second of the first signal counts as the same request, because ranks of a job get it both from
// the job manager and from their launcher. SIGHUP, sent when the terminal is closed or its connection breaks, also
// makes stop_asked() true, and never ends the program, however often it is sent. It is left alone under nohup, or if
// the program has a handler for it. A dedicated thread waits for the signals, and they are blocked in threads created
// from now on: call this before creating threads. Further calls do nothing.
void catch_stop_signals();
bool stop_asked();

}  // namespace mantissa::io
