// Stopping when asked to, with what has been learnt saved:
//
//   io::catch_stop_signals();                        // the first line of main
//   while (step < steps && !io::stop_asked()) ...    // Ctrl-C, SIGTERM or a lost terminal: save a checkpoint and end
//
// Instead of a signal handler, which may not be used with this library: it would run on the stack of whatever it
// interrupts, and a product inside oneDNN's generated code does not survive that (seen: a corrupted heap after Ctrl-C).
#pragma once

namespace mantissa::io {

// From here on SIGINT and SIGTERM do not end the program but make stop_asked() true. A second one ends it at once; a
// SIGTERM within half a second of the first one counts as the same request, because ranks of a job get it both from the
// job manager and from their launcher. SIGHUP, which comes when the terminal is closed or its connection breaks, makes
// stop_asked() true as well, and never ends the program, however often it comes. It stays as it is under nohup, or where
// the program has a handler for it.
// A thread waits for them, and every thread made from here on leaves them to it: call it before others are made.
// Further calls do nothing.
void catch_stop_signals();
bool stop_asked();

}  // namespace mantissa::io
