// How many threads of this process can run at the same time: what num_threads() begins with (core/parallel.h).
//
// A machine may have more: a container, a batch job or taskset leaves a process a part of it, and more threads than
// that only take turns. Heeded are the affinity mask and the quotas of control groups (versions 1 and 2), as by Rust's
// std::thread::available_parallelism, and that hardware threads of one core share its units, as by PyTorch's default.
#pragma once

#include <string>
#include <vector>

namespace mantissa {

// Both at least 1, and at most what the quotas allow, rounded up.
struct Processors {
  int threads = 1;  // hardware threads
  int cores = 1;    // those they belong to
};

// Of this process, as it was when it first asked.
const Processors& usable_processors();

// Of a process whose affinity mask holds these hardware threads, where /proc and /sys lie under `root`. What cannot be
// read there sets no limit.
Processors processors_under(const std::string& root, const std::vector<int>& allowed);

}  // namespace mantissa
