#!/usr/bin/env bash
# Packs what a machine without a network needs to build, test and benchmark Mantissa: scripts/gpu_pack.sh [options]
#   --out DIR    the folder to make anew (default build/gpu_pack), which scripts/gpu.sh --deps DIR takes there
#   --data DIR   where data sets lie; may be repeated. Also looked at: $MANTISSA_DATA, ../shared/data, the folder that
#                scripts/download.sh fills, and Debian's dataset-fashion-mnist
#   --programs BUILD  compile what scripts/gpu.sh runs in this folder, for --arch (default 90a), and pack it too: then nothing
#                is compiled on that machine. Its system must be as new as this one (libc, libstdc++)
#   --most MIB   what the folder and the working tree may have together (default 64): data sets that do not fit are left
#                out, the largest first, and when it is still too much nothing is kept
# DIR/deps.tar.xz has include/, lib/ and share/cmake/ of the installed Debian packages named below: headers, shared
# libraries with their links, CMake files. Nothing in it names the place where it is unpacked. Static libraries and
# documentation stay behind, but for Catch2's, which has no other. DIR/programs.tar.xz has the programs, DIR/data the data
# sets as they are packed.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages=(libfmt-dev libfmt9 libdnnl-dev libdnnl2 ocl-icd-libopencl1 libturbojpeg0-dev libturbojpeg0 libpng-dev
          libpng16-16 libutf8proc-dev libutf8proc2 zlib1g-dev zlib1g nlohmann-json3-dev libxsimd-dev libcli11-dev catch2)

out=build/gpu_pack most=64 build='' gpu=90a data=()
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$2 && shift 2 ;;
    --data) data+=("$2") && shift 2 ;;
    --programs) build=$2 && shift 2 ;;
    --arch) gpu=$2 && shift 2 ;;
    --most) most=$2 && shift 2 ;;
    *) sed -n '2,12p' "${BASH_SOURCE[0]}" && exit 2 ;;
  esac
done
data+=(${MANTISSA_DATA:+"$MANTISSA_DATA"} ../shared/data ../../shared/data
       "${XDG_DATA_HOME:-$HOME/.local/share}/mantissa/datasets" /usr/share/datasets)

missing=()
for p in "${packages[@]}"; do dpkg -s "$p" >/dev/null 2>&1 || missing+=("$p"); done
[ ${#missing[@]} -eq 0 ] || stop "these packages are not installed: ${missing[*]} (scripts/test.sh installs them)"
git check-ignore -q "$out" || stop "$out is not ignored by git: nothing of it may get into the repository"

rm -rf "$out"
mkdir -p "$out/data"
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT

# ---- libraries ----
wanted='^(/usr)?/(include/|lib/.*\.so(\.[0-9.]+)?$|lib/libCatch2WithMain\.a$|(lib|share)/.*cmake/.*\.cmake$)'
dpkg -L "${packages[@]}" | grep -E "$wanted" | sort -u | while read -r file; do
  [ -d "$file" ] && [ ! -L "$file" ] && continue
  target=$prefix/${file#/usr}
  mkdir -p "$(dirname "$target")"
  if [ -L "$file" ]; then  # relative, whatever it was: a library's link points into its own folder
    link=$(readlink "$file")
    case $link in /*) link=$(basename "$link") ;; esac
    ln -sf "$link" "$target"
  else
    cp -p "$file" "$target"
  fi
done
arch=$(c++ -print-multiarch)
# For what does not look in lib/ARCH:
for so in "$prefix/lib/$arch"/*.so*; do ln -s "$arch/$(basename "$so")" "$prefix/lib/"; done
broken=$(find "$prefix" -xtype l)
[ -z "$broken" ] || stop "links that point nowhere: $broken"
tar -C "$prefix" --sort=name --owner=0 --group=0 -cf - include lib share | xz -6 -T0 >"$out/deps.tar.xz"

# ---- programs: one shared library, which all of them need, and each of them ----
if [ -n "$build" ]; then
  mapfile -t programs < <(scripts/gpu.sh --programs)
  # They look for the libraries beside them as scripts/gpu.sh lays them out; by RPATH, which serves what those need too.
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DMANTISSA_CUDA=ON \
    "-DCMAKE_CUDA_ARCHITECTURES=$gpu" -DMANTISSA_TESTS=ON -DMANTISSA_BENCH=ON -DMANTISSA_SAMPLES=OFF -DMANTISSA_INSTALL=OFF \
    "-DCMAKE_BUILD_RPATH=\$ORIGIN;\$ORIGIN/../deps/lib;\$ORIGIN/../cuda" \
    -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags -DCMAKE_SHARED_LINKER_FLAGS=-Wl,--disable-new-dtags
  cmake --build "$build" --target "${programs[@]}"
  stage=$prefix/programs
  mkdir -p "$stage/ptxas"
  cp -p "${programs[@]/#/$build/}" "$stage/"
  soname=$(objdump -p "$build/libmantissa.so" | awk '$1 == "SONAME" { print $2 }')  # by which the programs ask for it
  cp -p "$(readlink -f "$build/libmantissa.so")" "$stage/$soname"
  for program in "$stage"/*; do  # the time is what tells whether a program is another than before
    [ ! -f "$program" ] || strip --preserve-dates "$program"
  done
  (cd "$build/CMakeFiles/mantissa_cuda_objects.dir" && find . -name '*.ptxas' -exec cp --parents {} "$stage/ptxas/" \;)
  scripts/gpu.sh --sources >"$stage/sources"
  echo "$gpu" >"$stage/arch"
  echo "$(c++ --version | head -n 1), nvcc $(nvcc --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')" >"$stage/compilers"
  tar -C "$stage" --sort=name --owner=0 --group=0 -cf - . | xz -9 -T1 >"$out/programs.tar.xz"
fi

# ---- data ----
first_of() {  # path under one of the data folders: the first that exists
  local d
  for d in "${data[@]}"; do
    if [ -e "$d/$1" ]; then echo "$d/$1" && return; fi
  done
}
take() {  # name, files...
  mkdir -p "$out/data/$1"
  cp -L "${@:2}" "$out/data/$1/"
  chmod -R u+w "$out/data/$1"
}
digits=$(first_of mnist/train-images-idx3-ubyte.gz)
[ -n "$digits" ] || digits=$(first_of fashion-mnist/train-images-idx3-ubyte.gz)
[ -z "$digits" ] || take "$(basename "$(dirname "$digits")")" "$(dirname "$digits")"/*-ubyte.gz
text=$(first_of tinyshakespeare/input.txt)
[ -z "$text" ] || take tinyshakespeare "$text"
# CIFAR-10 as JPEG with its own unpack.py where that is there (all of it), else the first fifth of its binary layout.
jpegs=$(first_of cifar10-jpeg/unpack.py)
binary=$(first_of cifar-10-batches-bin/data_batch_1.bin)
[ -n "$binary" ] || binary=$(first_of cifar10/cifar-10-batches-bin/data_batch_1.bin)
if [ -n "$jpegs" ]; then take cifar10-jpeg "$(dirname "$jpegs")"/*
elif [ -n "$binary" ]; then
  mkdir -p "$out/data/cifar-10-batches-bin"
  xz -6 -T0 -c "$binary" >"$out/data/cifar-10-batches-bin/data_batch_1.bin.xz"
fi

# ---- what travels ----
bytes_of() { xargs -0 -r du -cb --apparent-size | awk '$2 == "total" { s += $1 } END { print s + 0 }'; }
tree=$(git ls-files -z --cached --others --exclude-standard | bytes_of)
weigh() { pack=$(find "$out" -type f -print0 | bytes_of); }
weigh
left_out=()
while [ $((tree + pack)) -gt $((most << 20)) ] && [ -n "$(ls "$out/data")" ]; do
  largest=$(du -sb --apparent-size "$out/data"/* | sort -n | tail -n 1 | cut -f 2)
  rm -rf "$largest"
  left_out+=("$(basename "$largest")")
  weigh
done
mib() { awk -v n="$1" 'BEGIN { printf "%.1f MiB", n / 1048576 }'; }
{
  echo "commit $(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown), $(c++ --version | head -n 1)"
  dpkg-query -W -f '${Package} ${Version}\n' "${packages[@]}"
} >"$out/contents.txt"
du -ah --apparent-size "$out" | sort -k 2
echo "$out: $(mib "$pack"), unpacked libraries $(mib "$(find "$prefix" -type f -print0 | bytes_of)")"
echo "working tree: $(mib "$tree")"
for d in "digits=$digits" "pictures=$jpegs$binary" "text=$text"; do
  [ -n "${d#*=}" ] || echo "no ${d%=} are here: benchmarks draw them"
done
[ ${#left_out[@]} -eq 0 ] || echo "left out, as all together is over $most MiB: ${left_out[*]}; benchmarks draw them"
if [ $((tree + pack)) -gt $((most << 20)) ]; then
  rm -rf "$out"
  stop "together over $most MiB: nothing was kept"
fi
