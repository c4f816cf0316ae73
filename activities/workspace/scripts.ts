/** What git of the guest is asked to do, as the user of the stage's work. What it answers is the guest's word. */

/**
 * Where git of the guest finds what the stage starts from, as a pack with its index: to index it takes an emulated CPU longer
 * than to check it out. What an earlier stage left builds on that, and lies where no command of git looks.
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
 * Of a repository whose files the host has put there, beside objects and the index: git believes the times and sizes in that
 * index, of which alone the host knows what they are.
 */
export function gitFilesAt(base: string): Readonly<Record<string, string>> {
  return {
    '.git/HEAD': HEAD,
    '.git/config': `${CONFIG}[core]\n\tcheckStat = minimal\n`,
    '.git/refs/voidbox/base': `${base}\n`,
    '.git/refs/heads/voidbox': `${base}\n`,
  };
}

/** After the files are there: a VM without git fails before its stage has worked, and the command of this key stands. */
export const CHECKED_OUT_SCRIPT = `command -v git > /dev/null || { echo 'sh: git: not found' >&2; exit 127; }
`;

/**
 * `$1` the folder, in which the files lie, `$2` the commit that the stage starts from. No template, so no hook; commits have an author whose name nobody has to set.
 * What is checked out is one branch, `voidbox`, at what the stage starts from. Files in place of commands of git wherever they
 * are as simple: where VMs are emulated, each process takes a tenth of a second.
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

/** How the script below ends where the image lacks what it needs. */
export const CHANGES_UNFIT = 90;

/** The size of what cannot be read, in KiB: a save leaves it out, and says so. */
const UNREADABLE_KIB = 1_099_511_627_776;

/** `$1` the folder. Puts out what git ignores in it, folders as one: `<KiB>\t<name>`, each with a NUL behind it. */
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

/** The first entry of the tar that the script below puts out: names of files of the checkout that are not there any more. */
export const REMOVED_NAME = 'voidbox-removed';

/**
 * `$1` a folder, `$2` the repository in it, `$3` the commit that the stage starts from; names of what git ignores and a save takes
 * along on standard input. Puts out a tar of what the folder has beside the checkout: the rest of the folder, what git itself has
 * there but the host's pack, files that are changed, not tracked, or named.
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

/** `$1` the folder, with a fresh checkout; names of files of it that are not there any more on standard input. */
export const RESTORE_SCRIPT = `set -eu
cd "$1"
find .git -mindepth 1 -maxdepth 1 ! -name objects -exec rm -rf {} +
xargs -0 -r rm -f --
find . -mindepth 1 -depth -type d -empty ! -path './.git/*' -exec rmdir {} +
`;
