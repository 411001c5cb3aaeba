// Finds the name nearest to an unknown one, for messages: "did you mean ...?".
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mantissa::amp {

// Damerau-Levenshtein distance: insertions, deletions, substitutions and transpositions of adjacent characters.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> above(b.size() + 1), row(above), now(above);  // rows for i - 2, i - 1 and i letters of a
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({row[j - 1] + (a[i - 1] != b[j - 1]), row[j] + 1, now[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], above[j - 2] + 1);
    }
    above.swap(row);
    row.swap(now);
  }
  return row[b.size()];
}

template <class Names> std::string nearest(std::string_view name, const Names& names) {
  std::string best;
  std::size_t least = SIZE_MAX;
  for (const auto& candidate : names) {
    const std::size_t d = edit_distance(name, candidate);
    if (d >= least) continue;
    least = d;
    best = candidate;
  }
  return best;
}

}  // namespace mantissa::amp
