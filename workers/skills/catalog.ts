/** The skills that a worker has: entries below the folders it was given, bundled when their files change. */
import { existsSync, realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { isSha256 } from '../../domain/units/sha256.ts';
import { entriesAt, entryNamed } from '../../skill-kit/bundle/find-entry.ts';
import { textOf, type Log } from '../log.ts';
import { type BundledSkill, bundleFile, bundleSkill, signatureOf } from '../../skill-kit/bundle/bundle-skill.ts';
import type { ChildHello } from './protocol.ts';

/** Files are checked again after this time; until then, a turn uses the previous result. */
const FRESH_MS = 1_000;
/** The number of digits of a hash that is shown and typed. */
const SHOWN_DIGITS = 12;

export interface LoadedSkill extends BundledSkill {
  readonly name: string;
  readonly version: string;
  readonly entry: string;
}

interface CatalogEntry {
  readonly signature: string;
  readonly inputs: readonly string[];
  /** Or why it could not be loaded. */
  readonly skill: LoadedSkill | string;
}

export interface CatalogOptions {
  /** Each is a skill's entry, a skill's folder, or a folder of such folders. */
  readonly paths: readonly string[];
  readonly stateDir: string;
  /** Loads the code once and returns its identity. @throws CodedError `skill/unusable` */
  readonly identify: (bundled: BundledSkill) => Promise<ChildHello>;
  readonly log: Log;
}

export class SkillCatalog {
  readonly #options: CatalogOptions;
  readonly #byEntry = new Map<string, CatalogEntry>();
  #lookedAtMs = -Infinity;
  #looking: { readonly anew: boolean; readonly done: Promise<void> } | null = null;

  constructor(options: CatalogOptions) {
    this.#options = options;
  }

  /**
   * @param codeHash  selects only this code; its first digits are enough
   * @throws CodedError `skill/unknown`, `skill/ambiguous`, or `skill/unusable` if its files exist but contain no skill
   */
  async find(name: string, version?: string, codeHash?: string): Promise<LoadedSkill> {
    await this.#look(true);
    const named = this.#skills().filter((skill) => skill.name === name);
    const fitting = named.filter(
      (skill) => (version === undefined || skill.version === version) && skill.codeHash.startsWith(codeHash ?? ''),
    );
    if (fitting.length === 1) return fitting[0]!;
    if (fitting.length > 1) throw ambiguous(name, fitting);
    const broken = [...this.#byEntry.values()].flatMap(({ skill }) => (typeof skill === 'string' ? [skill] : []));
    const loaded = this.#skills().map(
      (skill) => `${skill.name} ${skill.version}${skill.name === name ? ` (code ${shortHash(skill)})` : ''}`,
    );
    const which = [
      ...(version === undefined ? [] : [` in version ${version}`]),
      ...(codeHash === undefined ? [] : [` with code ${codeHash}`]),
    ];
    const wanted = `"${name}"${which.join('')}`;
    const here = loaded.length === 0 ? 'no skill is loaded' : `loaded: ${loaded.join(', ')}`;
    throw new CodedError(
      broken.length > 0 && named.length === 0 ? 'skill/unusable' : 'skill/unknown',
      [`skill ${wanted} is not loaded; ${here}. Folders: ${this.#options.paths.join(', ')}`, ...broken].join('\n'),
    );
  }

  /** Returns the skill that now has that name; null if no skill or several skills have it. */
  async current(name: string): Promise<LoadedSkill | null> {
    await this.#look(false);
    const named = this.#skills().filter((skill) => skill.name === name);
    return named.length === 1 ? named[0]! : null;
  }

  /**
   * Returns the skill at a path: its entry, or the folder of one.
   * @throws CodedError `skill/unknown`, or `skill/unusable` when it cannot be loaded
   */
  async at(path: string): Promise<LoadedSkill> {
    await this.#look(true);
    const looked = this.#byEntry.get(findRealEntry(path) ?? '');
    if (looked !== undefined && typeof looked.skill !== 'string') return looked.skill;
    if (looked !== undefined) throw new CodedError('skill/unusable', looked.skill as string);
    throw new CodedError(
      'skill/unknown',
      `the skill ${path} is not among those of this worker: ${this.#options.paths.join(', ')}`,
    );
  }

  /** Returns the path of a bundle that was made earlier; null if it is not on this host. */
  kept(codeHash: string): string | null {
    if (!isSha256(codeHash)) return null;
    const file = bundleFile(this.#options.stateDir, codeHash);
    return existsSync(file) ? file : null;
  }

  /** The same code in several places is one skill. */
  #skills(): LoadedSkill[] {
    const byHash = new Map<string, LoadedSkill>();
    for (const { skill } of this.#byEntry.values())
      if (typeof skill !== 'string' && !byHash.has(skill.codeHash)) byHash.set(skill.codeHash, skill);
    return [...byHash.values()];
  }

  async #look(anew: boolean): Promise<void> {
    if (!anew && Date.now() - this.#lookedAtMs < FRESH_MS) return;
    const looking = this.#looking;
    if (looking !== null) {
      await looking.done;
      return anew && !looking.anew ? await this.#look(true) : undefined;
    }
    const done = this.#lookNow(anew).finally(() => {
      this.#looking = null;
      this.#lookedAtMs = Date.now();
    });
    this.#looking = { anew, done };
    await done;
  }

  async #lookNow(anew: boolean): Promise<void> {
    // A skill that is named twice, by its folder and by a link to it, is one skill.
    const entries = [
      ...new Set(this.#options.paths.flatMap((path) => entriesAt(resolve(path))).map((entry) => realpathSync(entry))),
    ];
    for (const entry of this.#byEntry.keys()) if (!entries.includes(entry)) this.#byEntry.delete(entry);
    for (const entry of entries) {
      const known = this.#byEntry.get(entry);
      if (known !== undefined && isFresh(known, anew)) continue;
      this.#byEntry.set(entry, await this.#load(entry));
    }
  }

  async #load(entry: string): Promise<CatalogEntry> {
    let bundled: BundledSkill | null = null;
    try {
      bundled = await bundleSkill(entry, this.#options.stateDir);
      const { name, version } = await this.#options.identify(bundled);
      this.#options.log('info', `skill ${name} ${version} (${bundled.codeHash.slice(0, 12)}) from ${entry}`);
      return { signature: bundled.signature, inputs: bundled.inputs, skill: { ...bundled, name, version, entry } };
    } catch (error) {
      const inputs = bundled?.inputs ?? [entry];
      this.#options.log('warning', `${entry}: ${textOf(error)}`);
      return { signature: signatureOf(inputs), inputs, skill: `${entry}: ${textOf(error)}` };
    }
  }
}

/** Null: no skill is there. */
function findRealEntry(path: string): string | null {
  try {
    return realpathSync(entryNamed(path));
  } catch (error) {
    if (error instanceof CodedError) return null;
    throw error;
  }
}

function ambiguous(name: string, skills: readonly LoadedSkill[]): CodedError {
  const lines = skills.map((skill) => `  ${shortHash(skill)}  version ${skill.version}, ${skill.entry}`);
  return new CodedError(
    'skill/ambiguous',
    `${skills.length} different codes are loaded as skill "${name}":\n${lines.join('\n')}`,
  );
}

function shortHash({ codeHash }: LoadedSkill): string {
  return codeHash.slice(0, SHOWN_DIGITS);
}

/**
 * A bundle may have been pruned. A skill that could not be loaded may have been corrected in a file that the catalog
 * does not watch, so the start of a session tries again.
 */
function isFresh({ signature, inputs, skill }: CatalogEntry, anew: boolean): boolean {
  return (typeof skill === 'string' ? !anew : existsSync(skill.bundle)) && signature === signatureOf(inputs);
}
