/** The files that differ between two commits, for people who decide whether to apply them. */
import { findReasons } from './notable-files.ts';
import type { PrivateRepository } from './private-repository.ts';
import { type GitHost, readGitBytes } from './run-git.ts';

export interface ChangedFile {
  readonly path: string;
  /** The earlier name of a renamed file. */
  readonly from: string | null;
  readonly change: 'added' | 'changed' | 'deleted' | 'renamed' | 'type-changed';
  /** Null for a binary file. */
  readonly added: number | null;
  readonly removed: number | null;
  /** Reasons to read the file before it is applied; empty if there is no special reason. */
  readonly notable: readonly string[];
}

const LIST_BYTES = 64 * 1024 * 1024;
const ZEROS = '000000';

export async function listChangedFiles(
  host: GitHost,
  { gitDir }: PrivateRepository,
  from: string,
  to: string,
): Promise<readonly ChangedFile[]> {
  const args = ['diff-tree', '-r', '-M', '-z', '--no-ext-diff', '--no-textconv', from, to];
  const call = { env: { GIT_DIR: gitDir }, mostBytes: LIST_BYTES, confined: true };
  const raw = fields(await readGitBytes(host, [...args.slice(0, 1), '--raw', ...args.slice(1)], call));
  const counts = countsIn(fields(await readGitBytes(host, [...args.slice(0, 1), '--numstat', ...args.slice(1)], call)));
  const files: ChangedFile[] = [];
  for (let at = 0; at < raw.length;) {
    const [oldMode = '', newMode = '', , , status = ''] = raw[at]!.slice(1).split(' ');
    const isRename = status.startsWith('R');
    const first = raw[at + 1]!;
    const path = isRename ? raw[at + 2]! : first;
    at += isRename ? 3 : 2;
    const [added, removed] = counts.get(path) ?? [null, null];
    const notable = [...notableModes(oldMode, newMode), ...findReasons(path)];
    files.push({ path, from: isRename ? first : null, change: changeOf(status), added, removed, notable });
  }
  return files;
}

function fields(bytes: Buffer): string[] {
  const list = bytes.toString('utf8').split('\0');
  list.pop();
  return list;
}

function countsIn(list: readonly string[]): ReadonlyMap<string, readonly [number | null, number | null]> {
  const counts = new Map<string, readonly [number | null, number | null]>();
  for (let at = 0; at < list.length;) {
    // A name may have tabs of its own.
    const [, added = '', removed = '', path = ''] = /^([^\t]*)\t([^\t]*)\t([^]*)$/.exec(list[at]!) ?? [];
    // Git lists both names of a renamed file after its counts.
    const name = path === '' ? list[at + 2]! : path;
    at += path === '' ? 3 : 1;
    const count = (text: string): number | null => (text === '-' ? null : Number(text));
    counts.set(name, [count(added), count(removed)]);
  }
  return counts;
}

function changeOf(status: string): ChangedFile['change'] {
  switch (status.charAt(0)) {
    case 'A':
      return 'added';
    case 'D':
      return 'deleted';
    case 'R':
      return 'renamed';
    case 'T':
      return 'type-changed';
    default:
      return 'changed';
  }
}

function notableModes(before: string, after: string): readonly string[] {
  if (after === ZEROS) return [];
  if (after === '160000') return ['submodule'];
  if (after === '120000') return ['symbolic link'];
  if (after === '100755' && before !== '100755') return ['executable'];
  return before === '100755' && after === '100644' ? ['no longer executable'] : [];
}
