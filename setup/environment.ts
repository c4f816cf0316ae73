/** The only module that reads the environment. Other modules get their settings from it. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';
import type { ServiceSettings } from '../domain/access/service-settings.ts';
import { type DaemonSettings, readDaemonSettings } from './daemon-settings.ts';
import { readServiceSettings } from './service-settings.ts';
import { SetupError } from './setup-error.ts';
import { parseWarmShapes, type WarmCount } from '../domain/plan/warm-shape.ts';
import { createMapping } from '../domain/units/mapping.ts';

/** The failures that runs survive: the death of processes, or also a power failure. */
export type Durability = 'process' | 'power';

export interface Environment {
  /** The folder of pieces that set-up makes or fetches, one folder each, keyed by a hash of their inputs. */
  readonly cacheDir: string;
  /** The folder of runs, artifacts, VMs and the embedded stack. */
  readonly stateDir: string;
  /** Explicit paths to pieces, by piece name: `VOIDBOX_TEMPORAL_CLI`, `VOIDBOX_QEMU`, `VOIDBOX_BWRAP`, `VOIDBOX_VM`, `VOIDBOX_KERNEL`, `VOIDBOX_INITRAMFS`. */
  readonly piecePaths: Readonly<Record<string, string>>;
  /** True if a variable of Temporal names your own server. */
  readonly temporalConfigured: boolean;
  /** The names of these variables. */
  readonly temporalVariables: readonly string[];
  /**
   * `VOIDBOX_SERVER`, with `VOIDBOX_TOKEN` and `VOIDBOX_SERVER_CA`: the service on another machine that has the runs;
   * null: this machine has them. Commands add the service of a login.
   */
  readonly service: ServiceSettings | null;
  /** The settings of `voidbox serve` from variables of Void-Box's daemon. */
  readonly daemon: DaemonSettings;
  /**
   * `VOIDBOX_KERNEL_KIND=debian|voidbox` selects the kernel of runs; if it is unset, a built Voidbox kernel is
   * preferred.
   */
  readonly kernelKind: 'debian' | 'voidbox' | null;
  /**
   * `VOIDBOX_BOOT_TIMEOUT_MS`: the limit of one boot until the guest's hello, for slow machines; null is the backend's
   * own limit.
   */
  readonly bootTimeoutMs: number | null;
  /**
   * `VOIDBOX_DISK_FULL_LIMIT_MS`: the time that a VM waits while the disk of the state folder is full; null is the
   * keeper's own limit.
   */
  readonly diskFullLimitMs: number | null;
  /**
   * `VOIDBOX_ORPHAN_TIMEOUT_MS`: the time for which a VM lives without a renewal by a worker; null is the keeper's own
   * limit.
   */
  readonly orphanTimeoutMs: number | null;
  /**
   * `VOIDBOX_SNAPSHOTS=on|off` and `VOIDBOX_SNAPSHOTS_MAX_MB`: the folder of snapshots of booted guests, in the cache, and
   * the limit of its size; null: each VM boots.
   */
  readonly snapshots: { readonly dir: string; readonly maxMib: number } | null;
  /** `VOIDBOX_VMM_CPU=host|portable`: the features of the CPU that VMs of `voidbox-vmm` have; `host` if it is unset. */
  readonly cpuTemplate: 'host' | 'portable';
  /** `VOIDBOX_WARM`: the VMs that wait for stages, with commas between the shapes; empty if it is unset or `off`. */
  readonly warm: readonly WarmCount[];
  /** `VOIDBOX_PREPARED_MAX_MB`: the limit for the room that all prepared sandboxes of a state folder use. */
  readonly preparedMaxMib: number;
  /** `VOIDBOX_DURABILITY=process|power`: the failures that a run survives without loss; null: see `durabilityOf`. */
  readonly durability: Durability | null;
  /** `VOIDBOX_SKILLS`: folders of skills, with `:` between them. */
  readonly skills: readonly string[];
  /** `VOIDBOX_SECRETS_FILE`: the variables that a worker of your own Temporal server provides to runs; null: no file. */
  readonly secretsFile: string | null;
  /** `VOIDBOX_SECRETS_KEY_FILE`: the keys that encrypt secrets of deployments; null: the embedded stack has its own. */
  readonly secretsKeyFile: string | null;
  /** `VOIDBOX_SKILL_TURN_LIMIT_MS`: the limit for callbacks of skills in one turn; null is the worker's own limit. */
  readonly skillTurnLimitMs: number | null;
  /** The file of the user's login; null: no folder of the user is known. */
  readonly loginFile: string | null;
  /** Packages that the user adds to the dev image: `dev-packages` in the folder of Voidbox's configuration. */
  readonly devPackagesFile: string;
  /**
   * `DATABASE_URL`, or `DATABASE_URL_FILE`: your own PostgreSQL server for tokens and the audit log; null: the embedded
   * one. The file is not read yet.
   */
  readonly database: DatabasePlace | null;
  /** `VOIDBOX_BIN`: the `voidbox` that a skill's own command line uses for durable sessions; null: it looks for one. */
  readonly voidboxBin: string | null;
  readonly path: string;
  readonly noColor: boolean;
  /** `TERM=dumb`: a terminal that only prints lines, such as the one of Emacs. */
  readonly isDumbTerminal: boolean;
  readonly isCi: boolean;
  /** True if npm started this process (`npx voidbox`, `npm start`), so that `voidbox` may not be on the PATH. */
  readonly isStartedByNpm: boolean;
  /** All variables, for child processes and for the variables that a spec names. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Names of variables whose bytes are not UTF-8, so that their values in `variables` are wrong. */
  readonly undecodable: readonly string[];
}

export type DatabasePlace =
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'file'; readonly path: string };

const PIECE_VARIABLES: Readonly<Record<string, string>> = {
  'temporal-cli': 'VOIDBOX_TEMPORAL_CLI',
  qemu: 'VOIDBOX_QEMU',
  bwrap: 'VOIDBOX_BWRAP',
  keeper: 'VOIDBOX_VM',
  kernel: 'VOIDBOX_KERNEL',
  initramfs: 'VOIDBOX_INITRAMFS',
};

/**
 * Each of these variables names a server, so a run must not start on another one because a second variable is missing.
 */
const NAMES_A_SERVER = /^TEMPORAL_(?:ADDRESS|NAMESPACE|API_KEY|PROFILE|CONFIG_FILE|TLS(?:_[A-Z_]+)?)$/;

/**
 * An empty variable counts as unset, as in shells and for the XDG folders.
 * @throws SetupError for a variable of Voidbox with an invalid value
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
  const service = readServiceSettings(read);
  if (service !== null && temporalVariables.length > 0)
    throw new SetupError(
      `VOIDBOX_SERVER and ${temporalVariables[0]!} name two places for runs.`,
      'Unset one of them: a service uses its own Temporal server.',
    );
  const cacheDir = resolve(
    read('VOIDBOX_CACHE_DIR') ?? join(read('XDG_CACHE_HOME') ?? join(home, '.cache'), 'voidbox'),
  );
  return {
    cacheDir,
    stateDir: resolve(
      read('VOIDBOX_STATE_DIR') ?? join(read('XDG_STATE_HOME') ?? join(home, '.local', 'state'), 'voidbox'),
    ),
    piecePaths,
    temporalConfigured: temporalVariables.length > 0,
    temporalVariables: temporalVariables.sort(),
    service,
    daemon: readDaemonSettings(read),
    kernelKind: kernelKind(read('VOIDBOX_KERNEL_KIND')),
    bootTimeoutMs: milliseconds('VOIDBOX_BOOT_TIMEOUT_MS', read('VOIDBOX_BOOT_TIMEOUT_MS')),
    diskFullLimitMs: milliseconds('VOIDBOX_DISK_FULL_LIMIT_MS', read('VOIDBOX_DISK_FULL_LIMIT_MS')),
    orphanTimeoutMs: milliseconds(
      'VOIDBOX_ORPHAN_TIMEOUT_MS',
      read('VOIDBOX_ORPHAN_TIMEOUT_MS'),
      LEAST_ORPHAN_TIMEOUT_MS,
    ),
    snapshots: snapshots(cacheDir, read('VOIDBOX_SNAPSHOTS'), read('VOIDBOX_SNAPSHOTS_MAX_MB')),
    cpuTemplate: readCpuTemplate(read('VOIDBOX_VMM_CPU')),
    warm: readWarm(read('VOIDBOX_WARM')),
    preparedMaxMib: readMebibytes('VOIDBOX_PREPARED_MAX_MB', read('VOIDBOX_PREPARED_MAX_MB') ?? '10240', 1),
    durability: durability(read('VOIDBOX_DURABILITY')),
    skills: (read('VOIDBOX_SKILLS') ?? '')
      .split(':')
      .filter((path) => path !== '')
      .map((path) => resolve(path)),
    secretsFile: read('VOIDBOX_SECRETS_FILE') === null ? null : resolve(read('VOIDBOX_SECRETS_FILE')!),
    secretsKeyFile: read('VOIDBOX_SECRETS_KEY_FILE') === null ? null : resolve(read('VOIDBOX_SECRETS_KEY_FILE')!),
    skillTurnLimitMs: milliseconds('VOIDBOX_SKILL_TURN_LIMIT_MS', read('VOIDBOX_SKILL_TURN_LIMIT_MS')),
    loginFile: findLoginFile(read('XDG_CONFIG_HOME'), home),
    devPackagesFile: join(read('XDG_CONFIG_HOME') ?? join(home, '.config'), 'voidbox', 'dev-packages'),
    database: readDatabasePlace(read('DATABASE_URL'), read('DATABASE_URL_FILE')),
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

/** Node replaces bytes that are not UTF-8 by U+FFFD; the kernel still has the original bytes of this process. */
function undecodableOf(variables: Readonly<Record<string, string | undefined>>): readonly string[] {
  const suspects = Object.keys(variables).filter((name) => variables[name]?.includes('\uFFFD') === true);
  if (suspects.length === 0) return [];
  const started = new Set(findUndecodableEntries('/proc/self/environ'));
  return suspects.filter((name) => started.has(`${name}=${variables[name]!}`));
}

/** Returns arguments of this process whose bytes are not UTF-8, in the form that Node gives them. */
export function findUndecodableArguments(args: readonly string[]): readonly string[] {
  const suspects = args.filter((arg) => arg.includes('\uFFFD'));
  if (suspects.length === 0) return [];
  const started = new Set(findUndecodableEntries('/proc/self/cmdline'));
  return suspects.filter((arg) => started.has(arg));
}

/** Reads texts that end with a zero byte. */
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

/** Returns the variables with which this process was started, including withheld ones. */
export function originalVariables(): Readonly<Record<string, string | undefined>> {
  return withheld ?? createMapping(Object.entries(process.env));
}

/** Removes from `process.env` all variables that `isKept` rejects. A later call does not bring removed ones back. */
export function withholdVariables(isKept: (name: string) => boolean): void {
  withheld ??= createMapping(Object.entries(process.env));
  for (const name of Object.keys(process.env)) if (!isKept(name)) delete process.env[name];
}

/** Adds variables to `process.env`. */
export function grantVariables(values: Readonly<Record<string, string>>): void {
  Object.assign(process.env, values);
}

/** Undoes `withholdVariables` and `grantVariables`. */
export function restoreVariables(): void {
  if (withheld === null) return;
  for (const [name, value] of Object.entries(withheld)) if (value !== undefined) process.env[name] = value;
  withheld = null;
}

/** Removes variables from `process.env`. */
export function withdrawVariables(names: readonly string[]): void {
  for (const name of names) delete process.env[name];
}

type Scope = Record<string, string>;

let scopes: AsyncLocalStorage<Scope | null> | null = null;

/**
 * Runs `work`, in which `process.env` contains only these variables, also in later callbacks. Other code of the process
 * still sees the real environment. With null, `work` also sees the real environment.
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

function readCpuTemplate(value: string | null): Environment['cpuTemplate'] {
  if (value === null) return 'host';
  if (value === 'host' || value === 'portable') return value;
  throw new SetupError(
    `VOIDBOX_VMM_CPU is \`${value}\`, which is not a CPU template.`,
    'Set it to host or portable, or unset it.',
  );
}

function readWarm(value: string | null): Environment['warm'] {
  if (value === null || value === 'off') return [];
  const shapes = parseWarmShapes(value.split(','));
  if (!('problem' in shapes)) return shapes;
  throw new SetupError(
    `VOIDBOX_WARM is \`${value}\`: ${shapes.problem}.`,
    'Set it to shapes such as base:512x1=1, or to off.',
  );
}

function snapshots(cacheDir: string, value: string | null, maxMb: string | null): Environment['snapshots'] {
  if (value !== null && value !== 'on' && value !== 'off')
    throw new SetupError(`VOIDBOX_SNAPSHOTS is \`${value}\`, which is neither on nor off.`, 'Set it to on or off.');
  // One snapshot has up to 80 MiB.
  const maxMib = readMebibytes('VOIDBOX_SNAPSHOTS_MAX_MB', maxMb ?? '2048', 128);
  return value === 'off' ? null : { dir: snapshotFolder({ cacheDir }), maxMib };
}

function readMebibytes(name: string, text: string, least: number): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < least || value > 0xffff_ffff)
    throw new SetupError(
      `${name} is \`${text}\`, which is not a size in MiB.`,
      `Set it to a whole number from ${least}.`,
    );
  return value;
}

/** The folder of snapshots of booted guests, also if they are off. */
export function snapshotFolder({ cacheDir }: Pick<Environment, 'cacheDir'>): string {
  return join(cacheDir, 'snapshots');
}

/** A relative folder would be below the working folder, whose files may be of another author. */
function findLoginFile(configDir: string | null, home: string): string | null {
  const folder = [configDir, join(home, '.config')].find((path) => path !== null && isAbsolute(path));
  return folder === undefined ? null : join(folder!, 'voidbox', 'login.json');
}

/** If both are set, the file is used: a program that sets `DATABASE_URL` for its own database does not know the other. */
function readDatabasePlace(url: string | null, file: string | null): DatabasePlace | null {
  if (file !== null) return { kind: 'file', path: resolve(file) };
  return url === null ? null : { kind: 'url', url };
}

function durability(value: string | null): Durability | null {
  if (value === null || value === 'process' || value === 'power') return value;
  throw new SetupError(
    `VOIDBOX_DURABILITY is \`${value}\`, which is not a durability.`,
    'Set it to process or power, or unset it.',
  );
}

/** The default durability: the embedded server survives the death of processes, and other servers survive more. */
export function durabilityOf({ durability: said }: Environment, server: 'embedded' | 'own'): Durability {
  return said ?? (server === 'embedded' ? 'process' : 'power');
}

/** A worker that died must restart within this time. */
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
