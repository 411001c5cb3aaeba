#!/usr/bin/env bash
# Kills a training run with SIGKILL at random moments, resumes it each time, and compares the final checkpoint
# (weights, optimizer, scaler, random state, position in the data) byte by byte with that of an undisturbed run.
#   scripts/check_resume.sh [build folder] [trials] [sample and its options]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
trials=${2:-20}
shift $(($# < 2 ? $# : 2))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Dropout, mixed precision with a loss scale, shuffling by two loader threads: all of it must come back.
[ $# -gt 0 ] || set -- mnist --dataset synthetic --limit 1536 --batch 32 --epochs 2 --amp f16 --workers 2 --seed 7
sample=$1
shift
train=("$build/$sample" "$@")

begin=$(date +%s%N)
"${train[@]}" --save "$folder/whole.ckpt" >/dev/null
milliseconds=$((($(date +%s%N) - begin) / 1000000))

good=0 kills=0
for trial in $(seq "$trials"); do
  file=$folder/trial.ckpt
  rm -f "$file"
  while true; do
    resume=()
    [ -f "$file" ] && resume=(--resume "$file")
    "${train[@]}" --save "$file" --save-every 1 "${resume[@]}" >/dev/null &
    child=$!
    delay=$(awk -v most="$milliseconds" -v seed="$trial$RANDOM" 'BEGIN { srand(seed); printf "%.3f", (0.1 + rand()) * most / 1000 }')
    (sleep "$delay" && kill -9 "$child") 2>/dev/null &
    killer=$!
    if wait "$child" 2>/dev/null; then
      kill "$killer" 2>/dev/null || true
      break
    fi
    kills=$((kills + 1))
  done
  if cmp -s "$folder/whole.ckpt" "$file"; then good=$((good + 1)); else echo "trial $trial: the final checkpoints differ"; fi
done
echo "resumed runs bitwise equal to the undisturbed one: $good / $trials ($kills kills)"
[ "$good" -eq "$trials" ]
