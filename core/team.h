// The thread pool behind parallel_for (core/parallel.h). Threads are started once and wait for work: after a job a
// worker spins for half a millisecond, then sleeps, so that an idle process uses no processor time. Handing out a job
// costs 0.2 us while workers spin, and a wake-up system call when they sleep.
//
// The blocks of a job are dealt out in equal runs, the same run to the same worker every time
// (its cache then holds the data it needs), and a worker that is done takes over blocks of others. A caller therefore
// never waits for a worker that has not started, only for blocks in progress. Several threads may have jobs at once.
#pragma once

#include <cstdint>

#include "core/parallel.h"

namespace mantissa {

inline constexpr int max_team = 128;  // threads that can share one job, including the caller

// Calls body(state, begin, end) for each of the blocks [b * grain, (b + 1) * grain) of [0, n), on at most `team`
// threads, which see the caller's context(). If blocks throw, all blocks are run nevertheless and the exception of the
// first block is rethrown.
void run_in_team(int team, std::int64_t n, std::int64_t grain, RangeBody body, void* state);

// From now on every parallel_for of the calling thread runs on that thread alone: for background threads.
void run_serially_in_this_thread();

}  // namespace mantissa
