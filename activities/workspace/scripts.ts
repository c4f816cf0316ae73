/** Scripts that run git in the guest, as the user of the stage's work. Their output is not trusted. */

/**
 * The files that the guest's git starts from: a pack with its index, because indexing takes an emulated CPU longer than
 * the checkout. The bundle of an earlier stage builds on that pack. It is in a place that no git command reads.
 */
export const UNPACKED_FILES = {
  pack: '.git/objects/pack/pack-base.pack',
  index: '.git/objects/pack/pack-base.idx',
  earlier: '.git/voidbox/earlier.bundle',
} as const;

const HEAD = 'ref: refs/heads/voidbox\n';
const CONFIG = `[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
[user]
\tname = Voidbox
\temail = voidbox@localhost
[gc]
\tauto = 0
`;

/**
 * Returns files of `.git` for a repository whose files the host has written, in addition to objects and the index. Git
 * trusts the times and sizes in that index, and only the host knows them.
 */
export function gitFilesAt(base: string): Readonly<Record<string, string>> {
  return {
    '.git/HEAD': HEAD,
    '.git/config': `${CONFIG}[core]\n\tcheckStat = minimal\n`,
    '.git/refs/voidbox/base': `${base}\n`,
    '.git/refs/heads/voidbox': `${base}\n`,
  };
}

/**
 * Runs after the files are written: a VM without git then fails before its stage has worked, and the command of this
 * key exists.
 */
export const CHECKED_OUT_SCRIPT = `command -v git > /dev/null || { echo 'sh: git: not found' >&2; exit 127; }
`;

/** Does nothing: the exec key of this command marks that the files are written. */
export const FILES_WRITTEN_SCRIPT = ':\n';

/**
 * `$1` is the folder that contains the files, `$2` the commit that the stage starts from. There is no template, so
 * there is no hook; commits have an author without any settings. The checkout has one branch, `voidbox`, at the commit
 * that the stage starts from. The script writes files instead of running git commands where that is as simple: in
 * emulated VMs, each process takes a tenth of a second.
 */
export const UNPACK_SCRIPT = `set -eu
cd "$1"
mkdir -p .git/refs/heads .git/refs/voidbox
printf '%s' '${HEAD}' > .git/HEAD
printf '%s' '${CONFIG}' > .git/config
start=$2
printf '%s\\n' "$start" > .git/refs/voidbox/base
if [ -s ${UNPACKED_FILES.earlier} ]; then
  start=$(git bundle unbundle ${UNPACKED_FILES.earlier} | {
    found=
    while read -r id name; do if [ "$name" = refs/heads/voidbox ]; then found=$id; fi; done
    if [ -z "$found" ]; then echo "the bundle of the earlier stage has no refs/heads/voidbox" >&2; exit 1; fi
    printf '%s\\n' "$found"
  })
  printf '%s\\n' "$start" > .git/refs/voidbox/earlier
fi
printf '%s\\n' "$start" > .git/refs/heads/voidbox
git read-tree -u --reset HEAD
rm -rf .git/voidbox
`;

/** `$1` is the folder. Prints a tar of its files, for an image without git. */
export const COLLECT_FILES_SCRIPT = `cd "$1" && exec tar -cf - .
`;

/** The bytes before the pack: a commit and the end of its line. */
export const COMMIT_LINE_BYTES = 41;

/**
 * `$1` is the folder, `$2` the message of a commit with uncommitted changes. Prints that commit, or else the last
 * commit, on a line, and then a pack of the new objects. The index and the branches of the guest stay unchanged. The
 * script disables hooks, signatures and housekeeping, because they cost time and may fail. The stage's own work can
 * still run them.
 */
export const COLLECT_SCRIPT = `set -eu
cd "$1"
quiet() { git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c commit.gpgSign=false -c gc.auto=0 "$@"; }
dir=$(quiet rev-parse --absolute-git-dir)
top=$(quiet rev-parse --show-toplevel)
if [ "$top" != "$(pwd -P)" ]; then echo "the repository is no longer at $1" >&2; exit 1; fi
head=$(quiet rev-parse -q --verify 'HEAD^{commit}') || { echo "HEAD names no commit" >&2; exit 1; }
GIT_INDEX_FILE=$dir/voidbox-index
export GIT_INDEX_FILE
rm -f "$GIT_INDEX_FILE" "$GIT_INDEX_FILE.lock"
# With its time: git reads a file again that was changed in the second in which the index was written.
if [ -f "$dir/index" ]; then cp -p "$dir/index" "$GIT_INDEX_FILE"; fi
quiet add -A . >&2
tree=$(quiet write-tree)
commit=$head
if [ "$tree" != "$(quiet rev-parse "$head^{tree}")" ]; then commit=$(quiet commit-tree "$tree" -p "$head" -m "$2"); fi
base=$(quiet rev-parse -q --verify refs/voidbox/base) || base=
printf '%s\\n' "$commit"
{ printf '%s\\n' "$commit"; if [ -n "$base" ]; then printf '^%s\\n' "$base"; fi; } |
  quiet pack-objects --revs --thin --stdout -q --delta-base-offset
`;

/** The exit code of the next script if the image lacks a program that it needs. */
export const CHANGES_UNFIT = 90;

/** The size of an unreadable file in KiB, so large that a save skips the file and reports it. */
const UNREADABLE_KIB = 1_099_511_627_776;

/**
 * `$1` is the folder. Prints the names that git ignores in it, with a folder as one name: `<KiB>\t<name>`, each
 * followed by a NUL.
 */
export const MEASURE_IGNORED_SCRIPT = `set -eu
cd "$1"
command -v git > /dev/null && tar --version 2> /dev/null | grep -q 'GNU tar' || exit ${CHANGES_UNFIT}
du -sk0 .git/HEAD > /dev/null 2>&1 || exit ${CHANGES_UNFIT}
lists=$(mktemp -d)
trap 'rm -rf "$lists"' EXIT
git -c core.fsmonitor=false ls-files -o -i --exclude-standard --directory -z > "$lists/names"
# A file that vanishes now needs no save. Any other failure has one name as its cause, so each name is measured again.
if ! xargs -0 -r du -sk0 -- < "$lists/names" > "$lists/sizes" 2> "$lists/said" &&
  grep -qv 'No such file or directory$' "$lists/said"; then
  xargs -0 -r sh -c 'for name; do
    if [ -e "$name" ] || [ -L "$name" ]; then
      line=$(du -sk -- "$name" 2> /dev/null) && kib=\${line%%[!0-9]*} || kib=${UNREADABLE_KIB}
      printf "%s\\t%s\\0" "$kib" "$name"
    fi
  done' sh < "$lists/names" > "$lists/sizes"
fi
cat "$lists/sizes"
`;

/** The first entry of the tar that the next script prints: names of files of the checkout that no longer exist. */
export const REMOVED_NAME = 'voidbox-removed';

/**
 * `$1` is a folder, `$2` the repository in it, `$3` the commit that the stage starts from. Standard input has the names
 * of ignored files that a save takes. Prints a tar of everything in the folder that the checkout lacks. This is the
 * rest of the folder, git's own files except the host's pack, and files that are changed, untracked or named.
 */
export const CHANGES_SCRIPT = `set -eu
cd "$1"
inner=./$2
lists=$(mktemp -d)
trap 'rm -rf "$lists"' EXIT
cat > "$lists/names"
quiet() { git -C "$inner" -c core.fsmonitor=false -c core.hooksPath=/dev/null "$@"; }
# Not read from its file: git pack-refs puts it elsewhere.
start=$(quiet rev-parse -q --verify refs/voidbox/earlier) || start=$3
compare() { quiet diff --name-only -z --no-renames --no-ext-diff "--diff-filter=$1" "$start" --; }
compare D > "$lists/${REMOVED_NAME}"
compare d >> "$lists/names"
quiet ls-files -o --exclude-standard -z >> "$lists/names"
xargs -0 -r sh -c 'inner=$1; shift; for name; do
  if [ -e "$inner/$name" ] || [ -L "$inner/$name" ]; then printf "%s/%s\\0" "$inner" "$name"; fi
done' sh "$inner" < "$lists/names" > "$lists/there"
if [ "$2" != . ]; then find . -path "$inner" -prune -o -print0 > "$lists/all"; fi
find "$inner/.git" ! -path '*/.git/objects/pack/pack-base.*' -print0 >> "$lists/all"
xargs -0 -r sh -c 'find "$@" -print0' sh < "$lists/there" >> "$lists/all"
tar --null --verbatim-files-from --no-recursion --hard-dereference -cf - -C "$lists" ${REMOVED_NAME} -C "$1" -T "$lists/all"
`;

/** `$1` is the folder with a fresh checkout. Standard input has the names of its files that no longer exist. */
export const RESTORE_SCRIPT = `set -eu
cd "$1"
find .git -mindepth 1 -maxdepth 1 ! -name objects -exec rm -rf {} +
xargs -0 -r rm -f --
find . -mindepth 1 -depth -type d -empty ! -path './.git/*' -exec rmdir {} +
`;
