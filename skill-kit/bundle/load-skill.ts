/** From the path of a skill's source to its definition. */
import { rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Buildable } from '../../domain/step-machine/definition.ts';
import { receiveOffers } from '../worker-handoff.ts';
import { toBuildable } from './buildable.ts';
import { bundle } from './bundle.ts';
import { findEntry } from './find-entry.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { guardLoading } from './while-loading.ts';

export interface LoadedSource {
  /** Its callbacks come from the bundle, so their source texts have no types. */
  readonly definition: Buildable;
  /** Full path. */
  readonly entry: string;
  /** The folder that contains `references/`. */
  readonly folder: string;
  /** Full paths of all files that the entry imports, itself included, packages too. */
  readonly modules: readonly string[];
  /** The code of all of them: an ES module with the definition as its default export. */
  readonly bundle: string;
}

/**
 * Runs the code of the entry and of all it imports, in this process. Writes nothing but a file of its own below the system's
 * folder for temporary files, which is gone afterwards.
 * @param path  the entry, or the folder of the skill
 * @throws CodedError `skill/not-found`, or `skill/unusable` when it does not bundle, fails, or exports no built skill or reference
 */
export async function loadSkill(path: string, cwd: string = process.cwd()): Promise<LoadedSource> {
  const entry = findEntry(path, cwd);
  const { code, modules } = await bundle(entry, { forWorker: true });
  return {
    definition: definitionIn(await importSkill(entry, code), entry),
    entry,
    folder: dirname(entry),
    modules,
    bundle: code,
  };
}

async function importSkill(entry: string, code: string): Promise<Readonly<Record<string, unknown>>> {
  // The default export is what counts.
  receiveOffers(() => undefined);
  const folder = await temporaryFolder();
  try {
    const file = join(folder, 'skill.mjs');
    await writeFile(file, code, { mode: 0o600 });
    return await guardLoading(async () => (await import(pathToFileURL(file).href)) as Record<string, unknown>);
  } catch (cause) {
    throw new CodedError(
      'skill/unusable',
      `${entry} fails when it is loaded: ${cause instanceof Error ? cause.message : String(cause)}`,
      { cause },
    );
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function definitionIn(exports: Readonly<Record<string, unknown>>, entry: string): Buildable {
  const found = toBuildable(exports['default']);
  if (typeof found !== 'string') return found;
  throw new CodedError(
    'skill/unusable',
    `${entry} ${Object.hasOwn(exports, 'default') ? found : describeMissingDefault(Object.keys(exports))}`,
  );
}

function describeMissingDefault(names: readonly string[]): string {
  const others = names.length === 0 ? '' : ` (it exports ${names.join(', ')})`;
  return `has no default export${others}; write \`export default skill({ … }).step(…).build();\``;
}
