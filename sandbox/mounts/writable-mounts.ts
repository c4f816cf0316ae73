/**
 * Folders of the host to which VMs write. Each folder is captured once for a scope. After a success, the changes of a
 * VM are copied back, relative to the capture or the last copy. All state is in the run's folder, so a restarted
 * worker, and the VM after a lost one, use the same state.
 */
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { CopiedBack, MountKey, WritableMounts } from '../../activities/ports/mounts.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { syncFolder } from '../../files/publish-folder.ts';
import { CAPTURE_MANIFEST, CAPTURE_TAR, captureFolder, type CaptureLimits } from './capture.ts';
import { changesBetween, nameOf, parentOf, type Change } from './changes.ts';
import { isBelowDotGit, keepGitData, liesInGitData, type SplitChanges } from './git-data.ts';
import { errno, Folder, FolderPath, syncEntries } from './folder.ts';
import { readIncoming } from './incoming.ts';
import { readManifest, isSameEntry, writeManifest, type Manifest, type MountEntry } from './manifest.ts';
import { Staging } from './staging.ts';
import { applyChanges, checkChanges, type Refusal } from './write-back.ts';

/** The state of the host that Voidbox produced: the capture, and every copy since. */
const COPIED = 'copied.jsonl';
/** Written before the first change of a copy: the planned state of each path. */
const COPYING = 'copying.jsonl';
/**
 * Exists while a VM was not filled from the capture. A path that the VM lacks may have been added to the host later, so
 * its absence is not a removal by a stage.
 */
const ADOPTED = 'adopted';
/** Names the copy that began last: only this copy may record the host's state. */
const COPIER = 'copier';
const CHUNK_BYTES = 256 * 1024;

/** Opens the file when it is first read: a stream opens it at once and leaks it if no VM reads it. */
async function* readWhenAsked(path: string): AsyncIterable<Uint8Array> {
  yield* createReadStream(path, { highWaterMark: CHUNK_BYTES }) as AsyncIterable<Buffer>;
}

/** @param mountsDir  returns the folder of a run for the state of its mounts */
export function createWritableMounts(mountsDir: (runId: string) => string): WritableMounts {
  const dirOf = (key: MountKey): string => join(mountsDir(key.runId), nameOfMount(key));
  return {
    async capture(key, limits, signal) {
      const dir = join(dirOf(key), 'capture');
      if (!(await exists(dir))) await captureFolder(key, dir, limits, signal);
      return readWhenAsked(join(dir, CAPTURE_TAR));
    },

    async adopt(key, capture) {
      for await (const _ of capture) break;
      await writeManifest(join(dirOf(key), ADOPTED), []);
    },

    async copyBack(key, tar) {
      return new Copy(key, dirOf(key)).run(tar);
    },

    async dropRun(runId) {
      const dir = mountsDir(runId);
      try {
        await rm(dir, { recursive: true, force: true });
      } catch (error) {
        throw new CodedError('store/io', `cannot remove ${dir}: ${(error as Error).message}`, { cause: error });
      }
    },
  };
}

export type { CaptureLimits };

/** Hashes the key, because scope ids and guest paths may be any text of any length. */
function nameOfMount({ scope, guestPath }: MountKey): string {
  return createHash('sha256')
    .update(JSON.stringify([scope, guestPath]))
    .digest('hex')
    .slice(0, 24);
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (errno(error) === 'ENOENT') return false;
    throw new CodedError('store/io', `cannot look at ${path}: ${(error as Error).message}`, { cause: error });
  }
}

interface GitRule {
  /** Returns true for a path whose contents are never copied to the host. */
  readonly keepsByName: (path: string) => boolean;
  readonly split: (before: Manifest, entries: Manifest) => Promise<SplitChanges>;
}

/** One copy back of one mount. */
class Copy {
  readonly #key: MountKey;
  readonly #dir: string;
  readonly #name = randomBytes(8).toString('hex');

  constructor(key: MountKey, dir: string) {
    this.#key = key;
    this.#dir = dir;
  }

  async run(tar: AsyncIterable<Uint8Array>): Promise<CopiedBack> {
    let root: Folder;
    try {
      root = await Folder.open(this.#key.hostPath);
    } catch (error) {
      return this.#refused({
        code: 'stage/mount-conflict',
        message: `the folder itself is no longer a folder (${errno(error)})`,
      });
    }
    const staging = new Staging(root, JSON.stringify([this.#key.runId, this.#key.scope, this.#key.guestPath]));
    try {
      await staging.stopOthers();
      const before = await this.#before(root);
      await writeFile(join(this.#dir, COPIER), this.#name, { mode: 0o600 });
      const git = await this.#gitRule(root);
      const incoming = await readIncoming(tar, before, staging, git.keepsByName);
      if (await exists(join(this.#dir, ADOPTED)))
        for (const path of before.keys()) if (!incoming.entries.has(path)) before.delete(path);
      const { changes, entries, kept } = await git.split(before, incoming.entries);
      const left = kept === undefined ? {} : { kept };
      if (changes.length === 0) return { refusal: null, written: 0, removed: 0, ...left };
      const checked = await checkChanges(root, changes, before);
      if (checked.refusal !== null) return this.#refused(checked.refusal);
      await this.#assertNewest();
      await writeManifest(join(this.#dir, COPYING), targets(changes));
      const refusal = await applyChanges(root, checked.todo, incoming.staged, staging);
      await this.#assertNewest();
      if (refusal !== null) {
        await this.#settle(root, before);
        return this.#refused(refusal);
      }
      // If removal fails, the next copy removes the folder. No later change is moved through it.
      await staging.dispose().catch(() => undefined);
      await syncEntries(root, targets(changes));
      await this.#keep(entries, ADOPTED);
      const removed = checked.todo.filter(({ change }) => change.to === null).length;
      return { refusal: null, written: checked.todo.length - removed, removed, ...left };
    } catch (error) {
      return this.#translated(error);
    } finally {
      await staging.dispose().catch(() => undefined);
      await root.close();
    }
  }

  /** Returns the part of the folder that the guest must not change. */
  async #gitRule(root: Folder): Promise<GitRule> {
    if (this.#key.git === 'writable')
      return {
        keepsByName: () => false,
        split: async (before, entries) => ({ changes: changesBetween(before, entries), entries }),
      };
    const isAllGit = await liesInGitData(await root.realPath());
    return {
      keepsByName: isAllGit ? () => true : isBelowDotGit,
      split: (before, entries) => keepGitData(root, isAllGit, before, entries, changesBetween(before, entries)),
    };
  }

  /** Returns the state of the host that Voidbox produced, after checking an interrupted copy. */
  async #before(root: Folder): Promise<Map<string, MountEntry>> {
    const known =
      (await readManifest(join(this.#dir, COPIED))) ??
      (await readManifest(join(this.#dir, 'capture', CAPTURE_MANIFEST)));
    if (known === null)
      throw new CodedError(
        'mount/unusable',
        `what ${this.#key.hostPath} held when its run began is not in ${this.#dir}: start the run again`,
      );
    return this.#settle(root, new Map([...known].filter((each): each is [string, MountEntry] => each[1] !== null)));
  }

  /** Records the changes that an interrupted copy has made. */
  async #settle(root: Folder, before: Map<string, MountEntry>): Promise<Map<string, MountEntry>> {
    const planned = await readManifest(join(this.#dir, COPYING));
    if (planned === null) return before;
    const folders = new FolderPath(root);
    try {
      for (const [path, target] of planned) {
        const found = (await (await folders.at(parentOf(path)))?.look(nameOf(path))) ?? null;
        if (found !== null && found.kind !== 'other' && target !== null && isSameEntry(found, target))
          before.set(path, target);
        // The folder was made, but its mode was not set yet.
        else if (found?.kind === 'dir' && target?.kind === 'dir' && before.get(path)?.kind !== 'dir')
          before.set(path, found);
        // The path was removed as planned, or its kind is being replaced.
        else if (found === null) before.delete(path);
      }
    } finally {
      await folders.reset();
    }
    await syncEntries(root, planned);
    await this.#keep(before);
    return before;
  }

  /** A delayed worker that wakes after its successor must not overwrite the successor's state. */
  async #assertNewest(): Promise<void> {
    const newest = await readFile(join(this.#dir, COPIER), 'utf8');
    if (newest !== this.#name)
      throw new CodedError('fence/stale', `another worker has started to copy ${this.#key.guestPath} back`);
  }

  /**
   * Call this only for changes that are on the disk. A plan that reappeared after a power loss would claim later edits
   * of the host.
   */
  async #keep(entries: ReadonlyMap<string, MountEntry>, ...alsoDone: readonly string[]): Promise<void> {
    await writeManifest(join(this.#dir, COPIED), entries);
    for (const name of [COPYING, ...alsoDone]) await rm(join(this.#dir, name), { force: true });
    await syncFolder(this.#dir);
  }

  #refused({ code, message }: Refusal): CopiedBack {
    return {
      refusal: { code, message: `${this.#key.guestPath} is not copied back to ${this.#key.hostPath}: ${message}` },
    };
  }

  #translated(error: unknown): CopiedBack {
    if (error instanceof CodedError || errno(error) === '') throw error;
    if (['EACCES', 'EPERM', 'EROFS'].includes(errno(error)))
      return this.#refused({
        code: 'stage/mount-unwritable',
        message: `the folder cannot be written on the host (${errno(error)})`,
      });
    throw new CodedError(
      'store/io',
      `copying ${this.#key.guestPath} back to ${this.#key.hostPath}: ${(error as Error).message}`,
      { cause: error },
    );
  }
}

function* targets(changes: readonly Change[]): Generator<readonly [string, MountEntry | null]> {
  for (const { path, to } of changes) yield [path, to];
}
