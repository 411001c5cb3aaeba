#include "core/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <thread>

namespace mantissa {
namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();

// quota / period if both are positive numbers: "max" (v2) and -1 (v1) mean no limit.
double processors_of(std::istream& quota, std::istream& period) {
  double allowed = 0, of = 0;
  return quota >> allowed && period >> of && allowed > 0 && of > 0 ? allowed / of : no_limit;
}
double limit_in(const std::string& folder) {
  std::ifstream both(folder + "/cpu.max"), quota(folder + "/cpu.cfs_quota_us"), period(folder + "/cpu.cfs_period_us");
  return std::min(processors_of(both, both), processors_of(quota, period));
}
// The strictest limit of a cgroup and its ancestors. In a container the path may be the host's, while the group itself
// is mounted at the top.
double limit_along(const std::string& top, std::filesystem::path group) {
  double least = limit_in(top);
  for (; group.has_relative_path(); group = group.parent_path())
    least = std::min(least, limit_in(top + group.string()));
  return least;
}
double group_limit(const std::string& root) {
  double least = no_limit;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // number:controllers:/path; v2 names no controllers
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos || line.compare(second + 1, 1, "/") != 0) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty() || ("," + controllers + ",").find(",cpu,") != line.npos)
      least = std::min(least, limit_along(root + "/sys/fs/cgroup/" + controllers, path));
  }
  return least;
}

// Cores are identified by their list of hardware threads.
int count_cores(const std::string& root, const std::vector<int>& allowed) {
  std::set<std::string> cores;
  for (int thread : allowed) {
    const std::string name = "cpu" + std::to_string(thread);
    std::ifstream siblings(root + "/sys/devices/system/cpu/" + name + "/topology/thread_siblings_list");
    std::string list;
    cores.insert(siblings >> list ? list : name);
  }
  return static_cast<int>(cores.size());
}

std::vector<int> affinity_mask() {
  std::vector<int> allowed;
  for (std::size_t sets = 1; sets <= 1024; sets *= 2) {  // of 1024 hardware threads each
    std::vector<cpu_set_t> mask(sets);
    const std::size_t bytes = sets * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, mask.data()) != 0) continue;  // the kernel's mask is larger
    for (std::size_t i = 0; i < 8 * bytes; ++i)
      if (CPU_ISSET_S(i, bytes, mask.data())) allowed.push_back(static_cast<int>(i));
    return allowed;
  }
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) allowed.push_back(static_cast<int>(i));
  return allowed;
}

}  // namespace

Processors processors_under(const std::string& root, const std::vector<int>& allowed) {
  const double limit = std::ceil(group_limit(root));
  const auto limited = [limit](std::size_t n) { return std::max(1, static_cast<int>(std::min(double(n), limit))); };
  return {.threads = limited(allowed.size()), .cores = limited(count_cores(root, allowed))};
}

const Processors& usable_processors() {
  static const Processors found = processors_under("", affinity_mask());
  return found;
}

}  // namespace mantissa
