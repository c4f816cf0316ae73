/**
 * Decides whether the host can write the files of a commit into a guest, byte for byte as the guest's git would. Makes
 * the index for them. If this is not certain, the guest's git does the checkout, and rejects what it does not write.
 */
import { Buffer } from 'node:buffer';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cleanPath, linkStaysInside } from '../../tar/inside.ts';
import { type IndexEntry, readIndex, setSizes } from '../../git/checkout-index.ts';
import type { PrivateRepository } from '../../git/private-repository.ts';
import { readBlobs } from '../../git/read-blobs.ts';
import { GitError, type GitHost, readGitBytes } from '../../git/run-git.ts';

export const CHECKOUT_LIMITS = {
  files: 100_000,
  /** The most bytes of all files together. */
  bytes: 1024 * 1024 * 1024,
  /** The most bytes of one file, because git holds it in memory. */
  fileBytes: 100 * 1024 * 1024,
  /** The most bytes of attributes and link targets, which are read to decide. */
  judgedBytes: 4 * 1024 * 1024,
} as const;
type CheckoutLimits = { readonly [Name in keyof typeof CHECKOUT_LIMITS]: number };

export type PlannedCheckout =
  | {
      /** With the sizes of files, and no times yet. */
      readonly index: Buffer;
    }
  | { readonly unfit: string };

const LIST_BYTES = 64 * 1024 * 1024;
export const LINK_MODE = 0o120000;
const MODES: ReadonlySet<number> = new Set([0o100644, 0o100755, LINK_MODE]);
/** These change bytes at a checkout, or a macro may; `eol=lf` does not. */
const CHANGING = /eol|crlf|ident|filter|encoding/;

class Unfit extends Error {}

export async function planCheckout(
  host: GitHost,
  repository: PrivateRepository,
  commit: string,
  limits: CheckoutLimits = CHECKOUT_LIMITS,
): Promise<PlannedCheckout> {
  try {
    return { index: await plan(host, repository, commit, limits) };
  } catch (error) {
    if (error instanceof Unfit) return { unfit: error.message };
    // Git rejects some names in an index, and a list may be too long.
    if (error instanceof GitError && (error.reason === 'failed' || error.reason === 'too-large'))
      return { unfit: error.detail };
    throw error;
  }
}

async function plan(
  host: GitHost,
  repository: PrivateRepository,
  commit: string,
  limits: CheckoutLimits,
): Promise<Buffer> {
  const file = join(repository.folder, 'checkout-index');
  const sizes = await sizesOf(host, repository, commit, limits);
  await repository.text(['read-tree', commit], { env: { GIT_INDEX_FILE: file } });
  const index = await readFile(file);
  const entries = readEntries(index);
  if (entries.length !== sizes.count) throw new Unfit('a name is in its tree more than once');
  const sizeOf = ({ id, path }: IndexEntry): number => {
    const sizeBytes = sizes.byId.get(id);
    if (sizeBytes === undefined) throw new Unfit(`${path} is not a file`);
    return sizeBytes;
  };
  judgeNames(entries);
  judgeSizes(entries.map(sizeOf), limits);
  await judgeContents(host, repository, entries, sizeOf, limits);
  setSizes(index, entries, sizeOf);
  return index;
}

function readEntries(index: Buffer): readonly IndexEntry[] {
  try {
    return readIndex(index);
  } catch (error) {
    throw new Unfit((error as Error).message);
  }
}

async function sizesOf(
  host: GitHost,
  { gitDir }: PrivateRepository,
  commit: string,
  limits: CheckoutLimits,
): Promise<{ readonly count: number; readonly byId: ReadonlyMap<string, number> }> {
  const args = ['ls-tree', '-r', '-l', '-z', '--full-tree', commit];
  const list = await readGitBytes(host, args, { env: { GIT_DIR: gitDir }, mostBytes: LIST_BYTES, confined: true });
  const byId = new Map<string, number>();
  let count = 0;
  for (let from = 0, end = list.indexOf(0); end !== -1; from = end + 1, end = list.indexOf(0, from)) {
    const match = /^[0-7]+ blob ([0-9a-f]{40}) +(\d+)\t/.exec(list.toString('latin1', from, from + 100));
    if (match === null) throw new Unfit('it has a submodule, or what git of this host does not know');
    byId.set(match[1]!, Number(match[2]));
    count += 1;
    if (count > limits.files) throw new Unfit(`it has more than ${limits.files} files`);
  }
  return { count, byId };
}

function judgeNames(entries: readonly IndexEntry[]): void {
  const all = new Set(entries.map(({ path }) => path));
  let last = '';
  for (const { path, mode } of entries) {
    const quoted = JSON.stringify(path);
    if (path <= last) throw new Unfit(`${quoted} is in its tree twice`);
    last = path;
    if (!MODES.has(mode)) throw new Unfit(`${quoted} is neither a file nor a link`);
    if (cleanPath(path) !== path || path.includes('\n')) throw new Unfit(`${quoted} is not a name that a tar carries`);
    const parts = path.split('/');
    if (parts.some(isGitsOwn)) throw new Unfit(`${quoted} is a name of git's own`);
    if (mode === LINK_MODE && /^\.?git/i.test(parts.at(-1)!)) throw new Unfit(`${quoted} is a link instead of a file`);
    for (let slash = path.indexOf('/'); slash !== -1; slash = path.indexOf('/', slash + 1))
      if (all.has(path.slice(0, slash))) throw new Unfit(`${quoted} is below a file`);
  }
}

/** Whether another file system would treat the name as `.git`; git has the same check. */
function isGitsOwn(part: string): boolean {
  const text = Buffer.from(part, 'latin1')
    .toString('utf8')
    .replace(/[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/gu, '')
    .toLowerCase();
  return text.split('\\').some((name) => /^(\.git|git~1)[ .]*(:.*)?$/su.test(name));
}

function judgeSizes(sizes: readonly number[], limits: CheckoutLimits): void {
  if (sizes.some((sizeBytes) => sizeBytes > limits.fileBytes))
    throw new Unfit(`it has a file of more than ${limits.fileBytes} bytes`);
  if (sizes.reduce((sum, sizeBytes) => sum + sizeBytes, 0) > limits.bytes)
    throw new Unfit(`its files have more than ${limits.bytes} bytes`);
}

async function judgeContents(
  host: GitHost,
  { gitDir }: PrivateRepository,
  entries: readonly IndexEntry[],
  sizeOf: (entry: IndexEntry) => number,
  limits: CheckoutLimits,
): Promise<void> {
  const judged = entries.filter(({ path, mode }) => mode === LINK_MODE || /(^|\/)\.gitattributes$/.test(path));
  const wanted = judged.map((entry) => ({ id: entry.id, sizeBytes: sizeOf(entry) }));
  if (wanted.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) > limits.judgedBytes)
    throw new Unfit(`its links and attributes have more than ${limits.judgedBytes} bytes`);
  let text = '';
  for await (const { at, part, isLast } of readBlobs(host, wanted, { gitDir })) {
    text += part.toString('latin1');
    if (!isLast) continue;
    judgeContent(judged[at]!, text);
    text = '';
  }
}

function judgeContent({ path, mode }: IndexEntry, text: string): void {
  const quoted = JSON.stringify(path);
  if (mode !== LINK_MODE) {
    if (CHANGING.test(text.replace(/\beol=lf(?=\s|$)/g, ''))) throw new Unfit(`${quoted} may change files`);
  } else if (!linkStaysInside(path, text) || text.includes('\n')) throw new Unfit(`${quoted} is a link that leads out`);
}
