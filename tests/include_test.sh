#!/bin/sh
# Checks the house rules of includes: include_test.sh SOURCE COMPILER [FLAGS...]
# 1. a folder includes only folders below it (docs/design.md); 2. public headers need no third-party header, but
# core/format.h fmt's; 3. every public header compiles on its own: x.cpp includes x.h before all else, so the build has shown
# it, and only those without a .cpp are compiled here; all of them give no warning; 4. prints what the umbrella header costs.
set -eu
source=$1
shift
cd "$source"
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
complain() {
  echo "$1"
  failures=$((failures + 1))
}

allowed_for() {
  case $1 in
    core) echo "core" ;;
    autograd) echo "core autograd" ;;
    amp) echo "core autograd amp" ;;
    ops) echo "core autograd amp ops" ;;
    io) echo "core io" ;;
    nn) echo "core autograd amp ops io nn" ;;
    optim) echo "core autograd amp io optim" ;;
    data) echo "core io data" ;;
    jit) echo "core autograd amp ops jit" ;;
  esac
}
folders="core autograd amp ops io nn optim data jit"

for folder in $folders; do
  allowed=" $(allowed_for "$folder") "
  # Lines "file:3:#include "core/tensor.h"" become "file:3 core".
  grep -rnE --include='*.h' --include='*.cpp' '^ *#include "' "$folder" |
    sed -E 's/^([^:]+:[0-9]+): *#include "([^"]+)".*/\1 \2/' >"$work/includes" || true
  while read -r place path; do
    case $path in
      */*) target=${path%%/*} ;;
      *) complain "$place: #include \"$path\" must name its folder, as in \"core/tensor.h\"" && continue ;;
    esac
    case $allowed in
      *" $target "*) ;;
      *) complain "$place: $folder/ must not include $path (allowed:$allowed)" ;;
    esac
    [ -e "$path" ] || complain "$place: $path does not exist"
  done <"$work/includes"
done

headers=$(for folder in $folders; do ls "$folder"/*.h 2>/dev/null || true; done)
third_party='fmt/|nlohmann/|xsimd/|oneapi/|CLI/|catch2/|dnnl|png|turbojpeg|utf8proc|zlib\.h|omp\.h|mantissa\.h'
if grep -nE "^ *#include [<\"]($third_party)" $headers | grep -v '^core/format\.h:.*<fmt/'; then  # it is for fmt
  complain "public headers must not include third-party headers or the umbrella"
fi

alone=
for header in $headers; do
  file=${header%.h}.cpp
  if [ ! -e "$file" ]; then
    alone="$alone $header"
  elif [ "$(grep -m 1 '^#include' "$file")" != "#include \"$header\"" ]; then
    complain "$file: its first #include must be \"$header\", which shows that the header needs no other"
  fi
done

set -- "$@" -std=c++20 -I. -Wall -Wextra -Werror
# compile_alone FILE COMPILER...: every header that FILE lists; $0 inside the small shell is the header.
compile_alone() {
  list=$1
  shift
  xargs -P "$(nproc)" -I '{}' sh -c 'header=$0; printf "#include \"%s\"\n" "$header" | "$@" -x c++ -fsyntax-only - ||
    { echo "$header does not compile on its own"; exit 1; }' '{}' "$@" <"$list"
}
# A header's own code comes after all of its includes. So what includes $base, directly or not, may find it compiled
# already: nothing becomes visible that was not. (That $base itself needs no other header is shown by precompiling it.)
printf '%s\n' $alone | sort >"$work/alone"
for base in nn/functions.h optim/optimizer.h core/ops.h core/tensor.h; do
  echo "$base" >"$work/known"
  while :; do
    sed 's/.*/#include "&"/' "$work/known" >"$work/patterns"
    { cat "$work/known" && grep -lFf "$work/patterns" $headers; } | sort -u >"$work/more"
    if cmp -s "$work/known" "$work/more"; then break; fi
    mv "$work/more" "$work/known"
  done
  printf '#include "%s"\n' "$base" >"$work/base.h"
  "$@" -x c++-header "$work/base.h" -o "$work/base.h.gch"
  comm -12 "$work/alone" "$work/known" >"$work/these"
  compile_alone "$work/these" "$@" -include "$work/base.h" || failures=$((failures + 1))
  comm -23 "$work/alone" "$work/these" >"$work/others"
  mv "$work/others" "$work/alone"
done
compile_alone "$work/alone" "$@" || failures=$((failures + 1))
if ! printf '#include "%s"\n' $headers | "$@" -x c++ -fsyntax-only -; then
  failures=$((failures + 1))
fi

start=$(date +%s%N)
echo '#include "mantissa.h"' | "$@" -O0 -x c++ -c -o /dev/null -
echo "mantissa.h compiles in $((($(date +%s%N) - start) / 1000000)) ms at -O0"

echo "$(printf '%s\n' $headers | wc -l) public headers checked, $failures failures"
[ "$failures" -eq 0 ]
