// Tables from comma-separated text (RFC 4180): numeric features, one column as the label.
//
//   data::Dataset iris = data::read_csv("iris.csv", {.label = "species"});
//   for (auto [row, label] : data::Pipeline(iris).shuffle().batch(16)) ...   // rows normalised to mean 0 and std 1
//
// Fields may be quoted ("a, b"; "" inside is a quote) and may then contain separators and line breaks; lines end in LF
// or CRLF; a UTF-8 byte order mark is skipped. Every error is a FormatError with file and line.
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"

namespace mantissa::data {

struct CsvOptions {
  char separator = ',';
  bool header = true;      // the first line names the columns; otherwise they are "0", "1", ...
  std::string label = {};  // name of the label column; empty: the last one
  bool regression = false; // labels are targets, f32 [N], instead of classes
  bool missing = false;    // an empty field becomes NaN instead of an error
  std::vector<std::string> ignore = {};  // columns to skip, with any content
};

// images: f32 [N, columns without the label]. Classes are numbered in the order of their names, or by value if all are
// numbers; see class_names. mean and std are per column.
Dataset read_csv(const std::string& path, const CsvOptions& options = {});

// All fields as text, row by row. FormatError: lines of different length, a misplaced quote, a NUL byte.
struct CsvText {
  std::vector<std::string> names;              // of the columns
  std::vector<std::vector<std::string>> rows;
  std::vector<std::int64_t> lines;             // line number in the file where each row begins, from 1
};
CsvText read_csv_text(const std::string& path, char separator = ',', bool header = true);

}  // namespace mantissa::data
