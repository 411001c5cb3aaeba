// Formats rows of words as a table with aligned columns, for reports.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace mantissa::amp {

// All rows must have as many words as the first.
inline std::string text_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> width(rows[0].size());
  for (const auto& row : rows)
    for (std::size_t k = 0; k < row.size(); ++k) width[k] = std::max(width[k], row[k].size());
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t k = 0; k < row.size(); ++k) {
      text += row[k];
      if (k + 1 < row.size()) text.append(width[k] - row[k].size() + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

}  // namespace mantissa::amp
