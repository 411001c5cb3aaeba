#!/bin/sh
# Compiler launcher of the avx2 and avx512 kernels: isolate.sh LD READELF OBJCOPY compiler...
# Runs the compiler, then makes the inline functions in the new object file private to it. Otherwise the linker,
# which keeps one copy of each inline function for the whole program, may keep the one compiled for AVX-512,
# and a processor without AVX-512 would stop there with an illegal instruction.
set -eu
ld=$1 readelf=$2 objcopy=$3
shift 3
"$@"

object=''
previous=''
for argument in "$@"; do
  [ "$previous" = -o ] && object=$argument
  previous=$argument
done
# Dissolve the COMDAT groups first: a group that another file wins would take the private functions with it.
"$ld" -r --force-group-allocation -o "$object.grouped" "$object"
# Static variables of inline functions stay one per program: without their group they must be weak.
# Columns of readelf: number, value, size, type, binding, visibility, section, name.
"$readelf" -sW "$object.grouped" | awk '
  $4 == "FUNC" && $5 == "WEAK" && $7 != "UND" { print "--localize-symbol=" $8 }
  $5 == "UNIQUE" { print "--weaken-symbol=" $8 }' >"$object.options"
"$objcopy" "@$object.options" "$object.grouped" "$object"
rm -f "$object.grouped" "$object.options"
