/**
 * Makes a private copy of the parts of an author's repository that git needs to find commits: references, and second
 * names of the files with objects. Git of the host works with the copy, whose configuration is Voidbox's own.
 */
import { Buffer } from 'node:buffer';
import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { HeldFolder, type ReadPermission } from './held-folder.ts';
import { type OpenRepository, SMALL_FILE_BYTES } from './open-repository.ts';
import { WorkspaceProblem } from './workspace-problem.ts';

export interface RepositoryCopy {
  /** The git folder with which git finds commits. */
  readonly gitDir: string;
  /** The folder with all objects, including those of alternates. */
  readonly objects: string;
}

export const COPY_LIMITS = {
  /** The limit of files with references, and of their folders. */
  references: 100_000,
  /** The limit of loose objects and files of packs. */
  objectFiles: 1_000_000,
  /** The size limit of object files on another file system than the state folder. */
  objectBytes: 4 * 1024 * 1024 * 1024,
  /** The size limit of `packed-refs`, or of all tables of references. */
  packedReferenceBytes: 256 * 1024 * 1024,
  referenceBytes: 4 * 1024,
  alternates: 32,
} as const;

/** References next to `refs`. */
const HEADS = [
  'ORIG_HEAD',
  'FETCH_HEAD',
  'MERGE_HEAD',
  'CHERRY_PICK_HEAD',
  'REVERT_HEAD',
  'REBASE_HEAD',
  'BISECT_HEAD',
  'AUTO_MERGE',
];
const REFERENCE_DEPTH = 32;
/** The number of files that are linked at the same time. */
const AT_ONCE = 64;

/** @param into  a folder that does not exist yet @throws WorkspaceProblem, RefusedPlace */
export async function copyRepository(
  repository: OpenRepository,
  into: string,
  mayRead: ReadPermission,
): Promise<RepositoryCopy> {
  const { gitDir, commonDir, refStorage } = repository;
  const isLinked = gitDir !== commonDir;
  const own = isLinked ? join(into, 'worktrees', 'here') : into;
  await mkdir(own, { recursive: true, mode: 0o700 });
  await writeFile(join(into, 'config'), configOf(refStorage));
  const budget = { left: COPY_LIMITS.references, most: COPY_LIMITS.references, what: 'references' };
  await copyHeads(gitDir, own);
  await copyReferences(gitDir, own, budget, refStorage);
  if (isLinked) {
    await writeFile(join(own, 'commondir'), '../..\n');
    await copyHeads(commonDir, into);
    await copyReferences(commonDir, into, budget, refStorage);
  }
  await commonDir.copyTo('packed-refs', join(into, 'packed-refs'), COPY_LIMITS.packedReferenceBytes);
  const objects = join(into, 'objects');
  await mkdir(join(objects, 'pack'), { recursive: true });
  await copyObjects(commonDir, objects, mayRead);
  return { gitDir: own, objects };
}

function configOf(refStorage: OpenRepository['refStorage']): string {
  const core = '[core]\n\trepositoryFormatVersion = 1\n\tbare = true\n\tlogAllRefUpdates = false\n';
  return refStorage === 'files' ? core : `${core}[extensions]\n\trefStorage = ${refStorage}\n`;
}

async function copyHeads(folder: HeldFolder, into: string): Promise<void> {
  const facts = await folder.facts('HEAD');
  const target = facts?.isSymbolicLink() === true ? (await folder.readLink('HEAD')).toString('latin1') : '';
  // Old versions of git wrote a link.
  if (/^refs\/heads\/[^\n]+$/.test(target)) await writeFile(join(into, 'HEAD'), `ref: ${target}\n`, 'latin1');
  else await folder.copyTo('HEAD', join(into, 'HEAD'), COPY_LIMITS.referenceBytes);
  for (const name of HEADS) await folder.copyTo(name, join(into, name), SMALL_FILE_BYTES);
}

interface Budget {
  left: number;
  readonly most: number;
  readonly what: string;
}

function spend(budget: Budget, folder: HeldFolder, count: number): void {
  budget.left -= count;
  if (budget.left < 0)
    throw new WorkspaceProblem(
      `${folder.path} and the folders before it have more than ${budget.most} ${budget.what}; pack them with \`git gc\`, or name a clone`,
    );
}

async function copyReferences(
  folder: HeldFolder,
  into: string,
  budget: Budget,
  refStorage: OpenRepository['refStorage'],
): Promise<void> {
  await mkdir(join(into, 'refs'), { recursive: true });
  await openWithin(folder, 'refs', (refs) => copyTree(refs, Buffer.from(join(into, 'refs')), budget, REFERENCE_DEPTH));
  if (refStorage === 'reftable')
    await openWithin(folder, 'reftable', (tables) => copyTables(tables, join(into, 'reftable'), budget));
}

async function copyTree(folder: HeldFolder, into: Buffer, budget: Budget, depth: number): Promise<void> {
  const entries = await folder.entries();
  spend(budget, folder, entries.length);
  if (depth === 0) throw new WorkspaceProblem(`${folder.path} is deeper than ${REFERENCE_DEPTH} folders`);
  for (const entry of entries) {
    const { name } = entry;
    const path = Buffer.concat([into, SLASH, name]);
    if (entry.isDirectory() || (entry.isSymbolicLink() && (await folder.isFolder(name)))) {
      await mkdir(path, { recursive: true });
      await openWithin(folder, name, (inner) => copyTree(inner, path, budget, depth - 1));
    } else if (!name.toString('latin1').endsWith('.lock')) await folder.copyTo(name, path, COPY_LIMITS.referenceBytes);
  }
}

const SLASH = Buffer.from('/');

async function copyTables(tables: HeldFolder, into: string, budget: Budget): Promise<void> {
  const entries = await tables.entries();
  spend(budget, tables, entries.length);
  await mkdir(into, { recursive: true });
  let bytes: number = COPY_LIMITS.packedReferenceBytes;
  for (const { name } of entries) {
    const text = name.toString('latin1');
    if (!/^(tables\.list|[\w-]+\.ref)$/.test(text)) continue;
    const facts = await tables.facts(name);
    await tables.copyTo(name, join(into, text), bytes);
    bytes -= facts?.size ?? 0;
  }
}

interface ObjectBudget {
  readonly files: Budget;
  bytes: number;
}

/** The name of an object is the hash of its content, so objects of several folders fit into one. */
async function copyObjects(commonDir: HeldFolder, into: string, mayRead: ReadPermission): Promise<void> {
  const most = COPY_LIMITS.objectFiles;
  const budget: ObjectBudget = {
    files: { left: most, most, what: 'files with objects' },
    bytes: COPY_LIMITS.objectBytes,
  };
  const seen = new Set<string>();
  const copy = async (objects: HeldFolder): Promise<void> => {
    if (seen.has(objects.path)) return;
    seen.add(objects.path);
    if (seen.size > COPY_LIMITS.alternates)
      throw new WorkspaceProblem(`${commonDir.path} borrows objects from more than ${COPY_LIMITS.alternates} folders`);
    await copyObjectFolder(objects, into, budget);
    for (const path of await alternatesOf(objects)) {
      const place = objects.placeOf('info/alternates');
      const alternate = await HeldFolder.open(resolve(objects.path, path), mayRead, place).catch((error: unknown) => {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
        throw new WorkspaceProblem(`${place} names a folder that does not exist: ${path}`);
      });
      try {
        await copy(alternate);
      } finally {
        await alternate.close();
      }
    }
  };
  await openWithin(commonDir, 'objects', copy);
}

async function alternatesOf(objects: HeldFolder): Promise<readonly string[]> {
  const text = await openWithin(objects, 'info', (info) => info.readFile('alternates', SMALL_FILE_BYTES));
  const lines = (text ?? Buffer.alloc(0)).toString('utf8').split('\n');
  return lines.filter((line) => line !== '' && !line.startsWith('#'));
}

async function copyObjectFolder(objects: HeldFolder, into: string, budget: ObjectBudget): Promise<void> {
  for (const { name } of await objects.entries()) {
    const text = name.toString('latin1');
    if (/^[0-9a-f]{2}$/.test(text)) await placeFiles(objects, text, join(into, text), /^[0-9a-f]{38}$/, budget);
  }
  await placeFiles(objects, 'pack', join(into, 'pack'), /^[\w.-]+\.(?:pack|idx)$/, budget);
}

async function placeFiles(
  objects: HeldFolder,
  name: string,
  into: string,
  wanted: RegExp,
  budget: ObjectBudget,
): Promise<void> {
  await openWithin(objects, name, async (folder) => {
    await mkdir(into, { recursive: true });
    const names = (await folder.entries())
      .map((entry) => entry.name.toString('latin1'))
      .filter((each) => wanted.test(each));
    spend(budget.files, folder, names.length);
    const others: string[] = [];
    for (let from = 0; from < names.length; from += AT_ONCE)
      await Promise.all(
        names.slice(from, from + AT_ONCE).map(async (each) => {
          if ((await folder.linkTo(each, join(into, each))) === 'other') others.push(each);
        }),
      );
    for (const each of others) budget.bytes -= (await folder.copyTo(each, join(into, each), budget.bytes))?.size ?? 0;
  });
}

async function openWithin<T>(
  folder: HeldFolder,
  name: string | Buffer,
  work: (inner: HeldFolder) => Promise<T>,
): Promise<T | null> {
  const inner = await folder.folder(name);
  if (inner === null) return null;
  try {
    return await work(inner);
  } finally {
    await inner.close();
  }
}
