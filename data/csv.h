// Tables as comma-separated text (RFC 4180): numbers as features, one column as the label.
//
//   data::Dataset iris = data::read_csv("iris.csv", {.label = "species"});
//   for (auto [row, label] : data::Pipeline(iris).shuffle().batch(16)) ...   // rows scaled to mean 0 and std 1
//
// Fields may be quoted ("a, b"; "" inside is a quote) and then hold separators and line breaks; lines end in LF or
// CRLF; a UTF-8 byte order mark is passed over. Every mistake is a FormatError with file and line.
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"

namespace mantissa::data {

struct CsvOptions {
  char separator = ',';
  bool header = true;      // the first line names the columns; without it they are "0", "1", ...
  std::string label = {};  // the column with the label; none: the last one
  bool regression = false; // labels are numbers, f32 [N], instead of classes
  bool missing = false;    // an empty field is NaN instead of an error
  std::vector<std::string> ignore = {};  // columns to leave out, of any content
};

// images: f32 [N, columns without the label]. Classes are numbered in the order of their names, or by value where all
// of them are numbers; class_names has them. mean and std are those of the columns.
Dataset read_csv(const std::string& path, const CsvOptions& options = {});

// All fields as text, line by line. FormatError: lines of different length, a quote in the wrong place, a NUL byte.
struct CsvText {
  std::vector<std::string> names;              // of the columns
  std::vector<std::vector<std::string>> rows;
  std::vector<std::int64_t> lines;             // where each row begins in the file, from 1
};
CsvText read_csv_text(const std::string& path, char separator = ',', bool header = true);

}  // namespace mantissa::data
