/** What git of the guest is asked to do, as the user of the stage's work. What it answers is the guest's word. */

/** Beside the repository's own data, where no command of git looks. */
export const BUNDLES = { base: '.git/voidbox/base.bundle', earlier: '.git/voidbox/earlier.bundle' } as const;

/**
 * `$1` the folder, in which the bundles lie. No template, so no hook; commits have an author whose name nobody has to set.
 * What is checked out is one branch, `voidbox`, at what the stage starts from.
 */
export const UNPACK_SCRIPT = `set -eu
cd "$1"
git init -q --template= -b voidbox .
git config user.name Voidbox
git config user.email voidbox@localhost
git config gc.auto 0
git fetch -q --no-tags ${BUNDLES.base} +refs/voidbox/base:refs/voidbox/base
start=refs/voidbox/base
if [ -s ${BUNDLES.earlier} ]; then
  git fetch -q --no-tags ${BUNDLES.earlier} +refs/heads/voidbox:refs/voidbox/earlier
  start=refs/voidbox/earlier
fi
git update-ref refs/heads/voidbox "$(git rev-parse "$start")"
git symbolic-ref HEAD refs/heads/voidbox
git reset -q --hard
rm -rf .git/voidbox
`;

/** Bytes before the pack: a commit and the end of its line. */
export const COMMIT_LINE_BYTES = 41;

/**
 * `$1` the folder, `$2` the message of a commit with what is not committed. Puts out that commit, or the last one, on a line, and
 * then a pack with what is new. The index and the branches of the guest stay as they are. Its hooks, signatures and housekeeping
 * are left out, because they cost time and may fail; what they could do, the stage's own work could do.
 */
export const COLLECT_SCRIPT = `set -eu
cd "$1"
quiet() { git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c commit.gpgSign=false -c gc.auto=0 "$@"; }
dir=$(quiet rev-parse --absolute-git-dir)
top=$(quiet rev-parse --show-toplevel)
if [ "$top" != "$(pwd -P)" ]; then echo "the repository is not at $1 any more" >&2; exit 1; fi
head=$(quiet rev-parse -q --verify 'HEAD^{commit}') || { echo "HEAD names no commit" >&2; exit 1; }
GIT_INDEX_FILE=$dir/voidbox-index
export GIT_INDEX_FILE
rm -f "$GIT_INDEX_FILE" "$GIT_INDEX_FILE.lock"
if [ -f "$dir/index" ]; then cp "$dir/index" "$GIT_INDEX_FILE"; fi
quiet add -A . >&2
tree=$(quiet write-tree)
commit=$head
if [ "$tree" != "$(quiet rev-parse "$head^{tree}")" ]; then commit=$(quiet commit-tree "$tree" -p "$head" -m "$2"); fi
base=$(quiet rev-parse -q --verify refs/voidbox/base) || base=
printf '%s\\n' "$commit"
{ printf '%s\\n' "$commit"; if [ -n "$base" ]; then printf '^%s\\n' "$base"; fi; } |
  quiet pack-objects --revs --thin --stdout -q --delta-base-offset
`;
