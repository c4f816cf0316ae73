/**
 * A folder within the mounted folder. A copy back prepares its changes here, and then moves them to their place. Every
 * change goes through this folder, so removing it stops the copy: a delayed worker that wakes after its successor finds
 * no staging folder and changes nothing.
 */
import { createHash, randomBytes } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { errno, type Folder } from './folder.ts';

const PREFIX = '.voidbox-copy-';
/** Attempts to remove a folder while the copy that is being stopped may still write to it. */
const REMOVE_ROUNDS = 5;

/** Returns true for a name at the top of a mounted folder that is reserved for copies. */
export function isStaging(name: string): boolean {
  return name.startsWith(PREFIX);
}

export class Staging {
  readonly #root: Folder;
  readonly #owner: string;
  #name: string | null = null;
  #folder: Folder | null = null;
  #count = 0;

  /** @param owner  the run, scope and mount of the copies; copies of other owners are not touched */
  constructor(root: Folder, owner: string) {
    this.#root = root;
    this.#owner = `${PREFIX}${createHash('sha256').update(owner).digest('hex').slice(0, 12)}-`;
  }

  /** Stops earlier copies of the same owner, whether their worker is dead or delayed. */
  async stopOthers(): Promise<void> {
    for (const name of await this.#root.names())
      if (name.startsWith(this.#owner) && name !== this.#name) await removeWhole(this.#root, name);
  }

  /** Makes the folder at the first use, so that a copy without changes writes nothing. */
  async folder(): Promise<Folder> {
    if (this.#folder !== null) return this.#folder;
    this.#name = `${this.#owner}${randomBytes(6).toString('hex')}`;
    await this.#root.makeFolder(this.#name, 0o700);
    this.#folder = await this.#root.child(this.#name);
    return this.#folder;
  }

  newName(): string {
    this.#count += 1;
    return String(this.#count);
  }

  async newFile(): Promise<{ readonly name: string; readonly file: FileHandle }> {
    const name = this.newName();
    return { name, file: await (await this.folder()).newFile(name) };
  }

  async dispose(): Promise<void> {
    await this.#folder?.close();
    if (this.#name !== null) await removeWhole(this.#root, this.#name);
    this.#folder = null;
    this.#name = null;
  }
}

async function removeWhole(root: Folder, name: string): Promise<void> {
  for (let round = 1; ; round += 1) {
    try {
      return await root.removeAll(name);
    } catch (error) {
      if (errno(error) !== 'ENOTEMPTY' || round === REMOVE_ROUNDS) throw error;
    }
  }
}
