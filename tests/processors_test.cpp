// The number of usable processors: cores, affinity and control group quotas, on simulated system files.
#include "core/processors.h"

#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "catch_compat.h"
#include "core/parallel.h"
#include "temp_dir.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

void write(const TempDir& root, const std::string& path, const std::string& text) {
  const std::string file = root / path;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  put_file(file, text);
}
std::vector<int> first(int n) {
  std::vector<int> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}
void check_found(const TempDir& root, const std::vector<int>& allowed, int threads, int cores) {
  const Processors found = processors_under(root.path(), allowed);
  CHECK(found.threads == threads);
  CHECK(found.cores == cores);
}

}  // namespace

TEST_CASE("processors: hardware threads of one core are one core") {
  const TempDir root;
  for (int i = 0; i < 8; ++i) {  // 0 and 4 are a core, 1 and 5, ...
    write(root, "sys/devices/system/cpu/cpu" + std::to_string(i) + "/topology/thread_siblings_list",
          std::to_string(i % 4) + "," + std::to_string(i % 4 + 4) + "\n");
  }
  check_found(root, first(8), 8, 4);
  check_found(root, {1, 2, 5}, 3, 2);  // what taskset left
}

TEST_CASE("processors: where nothing can be read there is no limit") {
  const TempDir root;
  check_found(root, first(6), 6, 6);
  check_found(root, {}, 1, 1);
}

TEST_CASE("processors: quotas of control groups, version 2") {
  const TempDir root;
  write(root, "proc/self/cgroup", "0::/job/step\n");
  write(root, "sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  check_found(root, first(16), 16, 16);
  write(root, "sys/fs/cgroup/job/cpu.max", "250000 100000\n");  // of the group around it, rounded up
  check_found(root, first(16), 3, 3);
  write(root, "sys/fs/cgroup/job/step/cpu.max", "10000 100000\n");
  check_found(root, first(16), 1, 1);
}

TEST_CASE("processors: quotas of control groups, version 1, by a path that only the host has") {
  const TempDir root;
  write(root, "proc/self/cgroup", "12:memory:/docker/4f2a\n4:cpu,cpuacct:/docker/4f2a\n0::/docker/4f2a\n");
  write(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  check_found(root, first(4), 4, 4);
  write(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
  check_found(root, first(4), 2, 2);
}

TEST_CASE("processors: files that make no sense set no limit") {
  const TempDir root;
  for (const char* groups : {"", ":", "0::", "0::job", "::::", "0::/..", "0::/../../..", "a\nb:c\n"}) {
    for (const char* quota : {"", "max", "0 0", "100000 0", "-5 100000", "nan 1", "1e999 1", "x y"}) {
      write(root, "proc/self/cgroup", groups);
      write(root, "sys/fs/cgroup/cpu.max", quota);
      check_found(root, first(4), 4, 4);
    }
  }
}

TEST_CASE("processors: of this process, which begins with as many threads") {
  const Processors& here = usable_processors();
  CAPTURE(here.threads, here.cores);
  CHECK(here.cores >= 1);
  CHECK(here.cores <= here.threads);
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) CHECK(here.threads <= CPU_COUNT(&mask));
  if (!std::getenv("MANTISSA_NUM_THREADS") && !std::getenv("OMP_NUM_THREADS")) CHECK(num_threads() == here.cores);
}
