#include "core/error.h"

#include <fmt/format.h>

#include <iterator>

namespace mantissa {

void append_part(std::string& s, std::string_view v) { s += v; }
void append_part(std::string& s, bool v) { s += v ? "true" : "false"; }
void append_part(std::string& s, long long v) { fmt::format_to(std::back_inserter(s), "{}", v); }
void append_part(std::string& s, unsigned long long v) { fmt::format_to(std::back_inserter(s), "{}", v); }
void append_part(std::string& s, double v) { fmt::format_to(std::back_inserter(s), "{:.6g}", v); }
void append_part(std::string& s, const Dims& d) {
  s += '[';
  for (int i = 0; i < d.rank(); ++i) fmt::format_to(std::back_inserter(s), "{}{}", i ? ", " : "", d[i]);
  s += ']';
}
void append_part(std::string& s, Dtype t) { s += name_of(t); }
void append_part(std::string& s, Device d) {
  s += d.is_cpu() ? "cpu" : fmt::format("cuda:{}", d.index);
}

void fail_with(std::string message) { throw Error(std::move(message)); }
void fail_rank(std::int64_t rank) {
  fail("a tensor has at most ", Dims::max_rank, " dimensions, asked for ", rank);
}

}  // namespace mantissa
