/**
 * Names that git takes for a repository's own data. Git runs programs that such files name, even for `git status`, so
 * files of a guest with these names are more than data.
 */

/**
 * The names that make a folder a repository for git: `HEAD` with `objects` and `refs`, or with the name of a folder
 * that has them.
 */
export const REPOSITORY_PARTS = ['HEAD', 'objects', 'refs', 'commondir'] as const;
export type RepositoryPart = (typeof REPOSITORY_PARTS)[number];

/** Characters that HFS+ ignores in names, so that git takes a name with them for `.git`. */
const IGNORED_BY_HFS = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g;

/**
 * Whether a file system could take a name for `.git`: in any case, with characters that HFS+ ignores, and in the forms
 * of NTFS (`git~1`, `.git.`, `.git::$INDEX_ALLOCATION`). A folder of Linux may be on each of these file systems.
 * @param name  one component of a path
 */
export function isDotGit(name: string): boolean {
  return /^(?:\.git|git~[0-9]+)$/.test(foldName(name));
}

/** Returns the part of a repository that has this name; null if a file of this name makes no folder a repository. */
export function repositoryPartNamed(name: string): RepositoryPart | null {
  const folded = foldName(name);
  return REPOSITORY_PARTS.find((part) => part.toLowerCase() === folded) ?? null;
}

/** Returns whether git takes a folder with these parts for a repository. Their contents do not matter here. */
export function isRepositoryLayout(parts: ReadonlySet<RepositoryPart>): boolean {
  return parts.has('HEAD') && (parts.has('commondir') || (parts.has('objects') && parts.has('refs')));
}

/** Folds names that some file system takes for the same name. */
export function foldName(name: string): string {
  return (/[^ -~]/.test(name) ? name.normalize('NFKC') : name)
    .replace(IGNORED_BY_HFS, '')
    .toLowerCase()
    .replace(/[:\\].*$/s, '')
    .replace(/[. ]+$/, '');
}
