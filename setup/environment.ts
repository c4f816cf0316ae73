/** The one place that reads the environment. Everything else is handed what it needs. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { SetupError } from './setup-error.ts';
import { createMapping } from '../domain/units/mapping.ts';

/** The death of processes, or a power cut too. */
export type Durability = 'process' | 'power';

export interface Environment {
  /** Pieces that set-up makes or fetches, one folder each, keyed by a hash of their inputs. */
  readonly cacheDir: string;
  /** Runs, artifacts, VMs, the embedded stack. */
  readonly stateDir: string;
  /** Explicit paths to pieces, by piece name: `VOIDBOX_TEMPORAL_CLI`, `VOIDBOX_QEMU`, `VOIDBOX_BWRAP`, `VOIDBOX_VM`, `VOIDBOX_KERNEL`, `VOIDBOX_INITRAMFS`. */
  readonly piecePaths: Readonly<Record<string, string>>;
  /** True when a variable of Temporal's names your own server. */
  readonly temporalConfigured: boolean;
  /** Those variables, by name. */
  readonly temporalVariables: readonly string[];
  /** `VOIDBOX_KERNEL_KIND=debian|voidbox` forces which kernel runs get; unset prefers ours when it is built. */
  readonly kernelKind: 'debian' | 'voidbox' | null;
  /** `VOIDBOX_BOOT_TIMEOUT_MS`: how long one boot may take until the guest's hello; null is the backend's own limit. For slow machines. */
  readonly bootTimeoutMs: number | null;
  /** `VOIDBOX_DISK_FULL_LIMIT_MS`: how long a VM waits while the disk of the state folder is full; null is the keeper's own limit. */
  readonly diskFullLimitMs: number | null;
  /** `VOIDBOX_ORPHAN_TIMEOUT_MS`: how long a VM lives that no worker asks to keep; null is the keeper's own limit. */
  readonly orphanTimeoutMs: number | null;
  /** `VOIDBOX_DURABILITY=process|power`: what a run survives without losing anything; null: see `durabilityOf`. */
  readonly durability: Durability | null;
  /** `VOIDBOX_SKILLS`: folders of skills, with `:` between them. */
  readonly skills: readonly string[];
  /** `VOIDBOX_SECRETS_FILE`: what a worker of your own Temporal server lends to runs; null is nothing. */
  readonly secretsFile: string | null;
  /** `VOIDBOX_SKILL_TURN_LIMIT_MS`: how long callbacks of skills may take for one turn; null is the worker's own limit. */
  readonly skillTurnLimitMs: number | null;
  /** Packages that the user adds to the dev image: `dev-packages` in the folder of Voidbox's configuration. */
  readonly devPackagesFile: string;
  /** `VOIDBOX_BIN`: the `voidbox` that durable sessions of a skill's own command line go through; null looks for one. */
  readonly voidboxBin: string | null;
  readonly path: string;
  readonly noColor: boolean;
  /** `TERM=dumb`: a terminal that only takes lines, as Emacs has one. */
  readonly isDumbTerminal: boolean;
  readonly isCi: boolean;
  /** True when npm started this process (`npx voidbox`, `npm start`), so that `voidbox` alone may not be on the PATH. */
  readonly isStartedByNpm: boolean;
  /** All variables, for child processes and for the variables that a spec names. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Names of variables whose bytes are not UTF-8: their values in `variables` are other ones. */
  readonly undecodable: readonly string[];
}

const PIECE_VARIABLES: Readonly<Record<string, string>> = {
  'temporal-cli': 'VOIDBOX_TEMPORAL_CLI',
  qemu: 'VOIDBOX_QEMU',
  bwrap: 'VOIDBOX_BWRAP',
  keeper: 'VOIDBOX_VM',
  kernel: 'VOIDBOX_KERNEL',
  initramfs: 'VOIDBOX_INITRAMFS',
};

/** Each of them says that a run is to be on that server: it must not end on another one because one more is missing. */
const NAMES_A_SERVER = /^TEMPORAL_(?:ADDRESS|NAMESPACE|API_KEY|PROFILE|CONFIG_FILE|TLS(?:_[A-Z_]+)?)$/;

/**
 * A variable that is set to nothing counts as not set, as it does for shells and the XDG folders.
 * @throws SetupError for a variable of Voidbox whose value means nothing
 */
export function readEnvironment(
  variables: Readonly<Record<string, string | undefined>> = originalVariables(),
): Environment {
  const read = (name: string): string | null => variables[name] || null;
  const home = read('HOME') ?? homedir();
  const piecePaths: Record<string, string> = createMapping();
  for (const [piece, name] of Object.entries(PIECE_VARIABLES)) {
    const value = read(name);
    if (value !== null) piecePaths[piece] = resolve(value);
  }
  const temporalVariables = Object.keys(variables).filter((name) => NAMES_A_SERVER.test(name) && read(name) !== null);
  return {
    cacheDir: resolve(read('VOIDBOX_CACHE_DIR') ?? join(read('XDG_CACHE_HOME') ?? join(home, '.cache'), 'voidbox')),
    stateDir: resolve(
      read('VOIDBOX_STATE_DIR') ?? join(read('XDG_STATE_HOME') ?? join(home, '.local', 'state'), 'voidbox'),
    ),
    piecePaths,
    temporalConfigured: temporalVariables.length > 0,
    temporalVariables: temporalVariables.sort(),
    kernelKind: kernelKind(read('VOIDBOX_KERNEL_KIND')),
    bootTimeoutMs: milliseconds('VOIDBOX_BOOT_TIMEOUT_MS', read('VOIDBOX_BOOT_TIMEOUT_MS')),
    diskFullLimitMs: milliseconds('VOIDBOX_DISK_FULL_LIMIT_MS', read('VOIDBOX_DISK_FULL_LIMIT_MS')),
    orphanTimeoutMs: milliseconds(
      'VOIDBOX_ORPHAN_TIMEOUT_MS',
      read('VOIDBOX_ORPHAN_TIMEOUT_MS'),
      LEAST_ORPHAN_TIMEOUT_MS,
    ),
    durability: durability(read('VOIDBOX_DURABILITY')),
    skills: (read('VOIDBOX_SKILLS') ?? '')
      .split(':')
      .filter((path) => path !== '')
      .map((path) => resolve(path)),
    secretsFile: read('VOIDBOX_SECRETS_FILE') === null ? null : resolve(read('VOIDBOX_SECRETS_FILE')!),
    skillTurnLimitMs: milliseconds('VOIDBOX_SKILL_TURN_LIMIT_MS', read('VOIDBOX_SKILL_TURN_LIMIT_MS')),
    devPackagesFile: join(read('XDG_CONFIG_HOME') ?? join(home, '.config'), 'voidbox', 'dev-packages'),
    voidboxBin: read('VOIDBOX_BIN'),
    path: read('PATH') ?? '/usr/bin:/bin',
    noColor: read('NO_COLOR') !== null || variables['TERM'] === 'dumb',
    isDumbTerminal: variables['TERM'] === 'dumb',
    isCi: variables['CI'] === 'true',
    isStartedByNpm: read('npm_command') !== null,
    variables,
    undecodable: undecodableOf(variables),
  };
}

/** Node replaces bytes that are not UTF-8 by U+FFFD; the kernel has the bytes that this process was started with. */
function undecodableOf(variables: Readonly<Record<string, string | undefined>>): readonly string[] {
  const suspects = Object.keys(variables).filter((name) => variables[name]?.includes('\uFFFD') === true);
  if (suspects.length === 0) return [];
  const started = new Set(findUndecodableEntries('/proc/self/environ'));
  return suspects.filter((name) => started.has(`${name}=${variables[name]!}`));
}

/** Arguments of this process whose bytes are not UTF-8, as Node reads them. */
export function findUndecodableArguments(args: readonly string[]): readonly string[] {
  const suspects = args.filter((arg) => arg.includes('\uFFFD'));
  if (suspects.length === 0) return [];
  const started = new Set(findUndecodableEntries('/proc/self/cmdline'));
  return suspects.filter((arg) => started.has(arg));
}

/** Texts that end with a zero byte. */
function findUndecodableEntries(path: string): readonly string[] {
  const bytes = readFileSync(path);
  const entries: string[] = [];
  for (let start = 0, end = bytes.indexOf(0); end !== -1; start = end + 1, end = bytes.indexOf(0, start)) {
    const entry = bytes.subarray(start, end);
    if (!isUtf8(entry)) entries.push(entry.toString('utf8'));
  }
  return entries;
}

let withheld: Readonly<Record<string, string | undefined>> | null = null;

/** The variables that this process was started with, also those that were withheld since. */
export function originalVariables(): Readonly<Record<string, string | undefined>> {
  return withheld ?? createMapping(Object.entries(process.env));
}

/** From now on code that looks at `process.env` finds those variables alone. Once withheld, others stay away. */
export function withholdVariables(isKept: (name: string) => boolean): void {
  withheld ??= createMapping(Object.entries(process.env));
  for (const name of Object.keys(process.env)) if (!isKept(name)) delete process.env[name];
}

/** Code that looks at `process.env` finds these as well. */
export function grantVariables(values: Readonly<Record<string, string>>): void {
  Object.assign(process.env, values);
}

/** The opposite of both. */
export function restoreVariables(): void {
  if (withheld === null) return;
  for (const [name, value] of Object.entries(withheld)) if (value !== undefined) process.env[name] = value;
  withheld = null;
}

/** Code that looks at `process.env` finds these no more. */
export function withdrawVariables(names: readonly string[]): void {
  for (const name of names) delete process.env[name];
}

type Scope = Record<string, string>;

let scopes: AsyncLocalStorage<Scope | null> | null = null;

/**
 * What runs within `work`, also later, finds these variables at `process.env` and no others; everything else in the process finds
 * what there is. Null: within such work, what there is.
 */
export function withVariables<T>(variables: Readonly<Scope> | null, work: () => T): T {
  scopes ??= createScopedEnvironment();
  return scopes.run(variables === null ? null : { ...variables }, work);
}

function createScopedEnvironment(): AsyncLocalStorage<Scope | null> {
  const found = new AsyncLocalStorage<Scope | null>();
  const own = process.env;
  const currentVariables = (): Record<string, string | undefined> => found.getStore() ?? own;
  process.env = new Proxy(own, {
    get: (_target, name) => Reflect.get(currentVariables(), name) as unknown,
    set: (_target, name, value) => Reflect.set(currentVariables(), name, String(value)),
    has: (_target, name) => Reflect.has(currentVariables(), name),
    deleteProperty: (_target, name) => Reflect.deleteProperty(currentVariables(), name),
    ownKeys: () => Reflect.ownKeys(currentVariables()),
    getOwnPropertyDescriptor: (_target, name) => Reflect.getOwnPropertyDescriptor(currentVariables(), name),
    defineProperty: (_target, name, descriptor) => Reflect.defineProperty(currentVariables(), name, descriptor),
  });
  return found;
}

function kernelKind(value: string | null): Environment['kernelKind'] {
  if (value === null || value === 'debian' || value === 'voidbox') return value;
  throw new SetupError(
    `VOIDBOX_KERNEL_KIND is \`${value}\`, which is not a kernel kind.`,
    'Set it to debian or voidbox, or unset it.',
  );
}

function durability(value: string | null): Durability | null {
  if (value === null || value === 'process' || value === 'power') return value;
  throw new SetupError(
    `VOIDBOX_DURABILITY is \`${value}\`, which is not a durability.`,
    'Set it to process or power, or unset it.',
  );
}

/** What is not said: the embedded server promises to survive the death of processes, and other servers more. */
export function durabilityOf({ durability: said }: Environment, server: 'embedded' | 'own'): Durability {
  return said ?? (server === 'embedded' ? 'process' : 'power');
}

/** A worker that died has to be back within it. */
const LEAST_ORPHAN_TIMEOUT_MS = 10_000;

function milliseconds(name: string, text: string | null, leastMs = 1): number | null {
  if (text === null) return null;
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value <= 0)
    throw new SetupError(
      `${name} is \`${text}\`, which is not a number of milliseconds.`,
      `Set it to a whole number from ${leastMs}, or unset ${name}.`,
    );
  if (value < leastMs)
    throw new SetupError(
      `${name} is \`${text}\`, which is too short.`,
      `Set it to a whole number from ${leastMs}, or unset ${name}.`,
    );
  return value;
}
