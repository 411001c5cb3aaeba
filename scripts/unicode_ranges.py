#!/usr/bin/env python3
"""Writes data/unicode_ranges.h: which characters are letters and which are numbers (needs: pip install
unicodedata2==16.0.0, the version of Unicode that Hugging Face's tokenizers and tiktoken know today)."""

import pathlib
import unicodedata2

version = "16.0.0"
assert unicodedata2.unidata_version == version, unicodedata2.unidata_version

ranges = []  # first, last, class
for c in range(0x80, 0x110000):
    kind = unicodedata2.category(chr(c))[0]
    if kind not in "LN":
        continue
    if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == kind:
        ranges[-1][1] = c
    else:
        ranges.append([c, c, kind])

lines, line = [], " "
for first, last, kind in ranges:
    item = f" {{0x{first:x}, 0x{last:x}, {kind}}},"
    if len(line) + len(item) > 120:
        lines.append(line)
        line = " "
    line += item
lines.append(line)

text = f"""\
// Letters (L) and numbers (N) among the characters above 0x7f in Unicode {version}, as ranges, ascending. Written by
// scripts/unicode_ranges.py. A table of our own, because no library in Debian 12 knows this version, a pattern that
// decides how text becomes tokens must not depend on the machine, and nothing else of ICU or PCRE would be used.
#pragma once

#include <cstdint>

namespace mantissa::data::unicode {{

enum Class : std::uint8_t {{ L, N }};
struct Range {{
  std::uint32_t first, last;
  Class kind;
}};
inline constexpr Range ranges[] = {{
{chr(10).join(lines)}
}};

}}  // namespace mantissa::data::unicode
"""
target = pathlib.Path(__file__).parent.parent / "data" / "unicode_ranges.h"
target.write_text(text)
print(f"{len(ranges)} ranges, {len(lines)} lines: {target}")
