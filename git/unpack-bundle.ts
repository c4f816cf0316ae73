/**
 * Makes a bare repository of the bundle that a client sends. The bundle is hostile: git only reads it as data, in a
 * private repository, within limits of size, memory and time.
 */
import { rename } from 'node:fs/promises';
import { type Base, readBundle, SENT_REFS } from './base-bundle.ts';
import { type PrivateRepository, withPrivateRepository } from './private-repository.ts';
import { GitError, type GitHost } from './run-git.ts';

/** The client caused this error; `message` may quote texts that the client chose. */
export class RefusedBundle extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'RefusedBundle';
  }
}

/**
 * The repository has the commit of the bundle as its HEAD, and the commit with uncommitted changes beside it, so
 * `packRepository` packs it as the client did.
 * @param bytes  a bundle of `packRepository`
 * @param folder  the absolute path of the repository; it does not exist yet, and is on the disk of `host.scratch`
 * @throws RefusedBundle; GitError if git is missing or the disk is full
 */
export async function unpackBundle(host: GitHost, bytes: AsyncIterable<Uint8Array>, folder: string): Promise<void> {
  await withPrivateRepository(host, async (repository) => {
    try {
      const { commit, base } = await readSentBase(host, repository, bytes);
      await repository.text(['update-ref', '--no-deref', 'HEAD', commit]);
      await repository.text(['update-ref', SENT_REFS.base, base]);
    } catch (error) {
      throw toRefusal(error);
    }
    // Only a whole repository gets its name.
    await rename(repository.gitDir, folder);
  });
}

async function readSentBase(
  host: GitHost,
  repository: PrivateRepository,
  bytes: AsyncIterable<Uint8Array>,
): Promise<Base> {
  const { tips } = await readBundle(host, repository, bytes, 'links');
  const [commit, base] = [tips.get(SENT_REFS.commit), tips.get(SENT_REFS.base)];
  if (commit === undefined || base === undefined || tips.size !== 2)
    throw new RefusedBundle(`it does not have the references ${SENT_REFS.commit} and ${SENT_REFS.base}`);
  await requireCommit(repository, commit);
  const parents = await requireCommit(repository, base);
  if (base !== commit && (parents.length !== 1 || parents[0] !== commit))
    throw new RefusedBundle(`${SENT_REFS.base} is not the next commit after ${SENT_REFS.commit}`);
  return { commit, base };
}

/** @returns the ids of its parents */
async function requireCommit({ text }: PrivateRepository, id: string): Promise<readonly string[]> {
  const confined = { confined: true };
  if ((await text(['cat-file', '-t', id], confined)).trim() !== 'commit') throw new RefusedBundle(`${id} is no commit`);
  const [, ...parents] = (await text(['rev-list', '--parents', '--max-count=1', id], confined)).trim().split(' ');
  return parents;
}

function toRefusal(error: unknown): unknown {
  if (error instanceof RefusedBundle) return error;
  if (error instanceof GitError && (error.reason === 'missing' || error.reason === 'disk-full')) return error;
  // A stream that fails has an error with a code of the system.
  if (error instanceof Error && (error as NodeJS.ErrnoException).code === undefined)
    return new RefusedBundle(error.message);
  return error;
}
