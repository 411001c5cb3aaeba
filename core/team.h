// The threads behind parallel_for (core/parallel.h). They are started once and wait for work: after a job a worker
// looks for the next one for half a millisecond, then sleeps, so that an idle process uses no processor. Handing out a
// job costs 0.2 us while workers look and a wake-up call when they sleep.
//
// The blocks of a job are dealt out in equal runs, the same run to the same worker every time (what it has in its cache
// is what it needs next), and whoever is done takes over blocks of others. A caller therefore never waits for a
// worker that has not begun, only for blocks that are being worked on. Several threads may have jobs at once.
#pragma once

#include <cstdint>

#include "core/parallel.h"

namespace mantissa {

inline constexpr int max_team = 128;  // threads that can share one job, the caller among them

// Calls body(state, begin, end) for each of the blocks [b * grain, (b + 1) * grain) of [0, n), on at most
// `team` threads, which see the caller's context(). When blocks throw, all are run nevertheless and the
// exception of the first block is rethrown.
void run_in_team(int team, std::int64_t n, std::int64_t grain, RangeBody body, void* state);

// Every parallel_for of the calling thread runs on that thread alone from now on: for threads that serve others.
void run_serially_in_this_thread();

}  // namespace mantissa
