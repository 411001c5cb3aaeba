// How many threads of this process can run at the same time: the default of num_threads() (core/parallel.h).
//
// A machine may have more: a container, a batch job or taskset restricts a process to part of it, and more threads than
// that only take turns. Taken into account are the affinity mask, cgroup quotas (v1 and v2), as in Rust's
// std::thread::available_parallelism, and that hyperthreads of one core share its execution units, as in PyTorch's
// default.
#pragma once

#include <string>
#include <vector>

namespace mantissa {

// Both at least 1, and at most what the quotas allow, rounded up.
struct Processors {
  int threads = 1;  // hardware threads
  int cores = 1;    // physical cores of these threads
};

// Of this process, determined at the first call.
const Processors& usable_processors();

// Of a process with this affinity mask, with /proc and /sys read under `root`. Files that cannot be read impose no
// limit.
Processors processors_under(const std::string& root, const std::vector<int>& allowed);

}  // namespace mantissa
