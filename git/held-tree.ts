/** Finds files below a held folder by their paths. It follows no link. */
import type { Buffer } from 'node:buffer';
import type { HeldFolder } from './held-folder.ts';
import { WorkspaceProblem } from './workspace-problem.ts';

const SLASH = 0x2f;

export class HeldTree {
  readonly #top: HeldFolder;
  /** The open folders of the last path, from the top down. */
  #open: { readonly name: string; readonly folder: HeldFolder }[] = [];

  constructor(top: HeldFolder) {
    this.#top = top;
  }

  /**
   * @param path  names with slashes between them, in git's form
   * @returns the folder, which stays open until the next call, and the name in it; no folder if one in the path is
   * missing or a link
   * @throws WorkspaceProblem for a path that leads outside
   */
  async find(path: Buffer): Promise<{ readonly folder: HeldFolder | null; readonly name: Buffer }> {
    const names = split(path);
    if (names.some((name) => ['', '.', '..'].includes(name.toString('latin1'))))
      throw new WorkspaceProblem(
        `the index of ${this.#top.path} names ${JSON.stringify(path.toString())}, which leads out of it`,
      );
    const name = names.pop()!;
    const texts = names.map((each) => each.toString('latin1'));
    const known = this.#open.findIndex((each, at) => each.name !== texts[at]);
    await this.#closeFrom(known === -1 ? Math.min(this.#open.length, texts.length) : known);
    for (const each of names.slice(this.#open.length)) {
      const folder = await (this.#open.at(-1)?.folder ?? this.#top).folderWithoutLink(each);
      if (folder === null) return { folder: null, name };
      this.#open.push({ name: each.toString('latin1'), folder });
    }
    return { folder: this.#open.at(-1)?.folder ?? this.#top, name };
  }

  async close(): Promise<void> {
    await this.#closeFrom(0);
  }

  async #closeFrom(depth: number): Promise<void> {
    for (const { folder } of this.#open.splice(depth).reverse()) await folder.close();
  }
}

function split(path: Buffer): Buffer[] {
  const names: Buffer[] = [];
  let from = 0;
  for (let end = path.indexOf(SLASH); end !== -1; end = path.indexOf(SLASH, from)) {
    names.push(path.subarray(from, end));
    from = end + 1;
  }
  names.push(path.subarray(from));
  return names;
}
