/** Installs, removes and looks at the systemd user unit. It runs `systemctl --user` and changes nothing of the machine. */
import { lstatSync, mkdirSync, rmSync } from 'node:fs';
import { homedir, userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { replaceFile } from '../../client/embedded/replace-file.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { readFileWithin } from '../../files/open-file.ts';
import type { Environment } from '../../setup/environment.ts';
import { cutToLastLines, type ProgramResult, runProgram } from '../../setup/pieces/run-program.ts';
import { AppError, createUsageError } from '../app-error.ts';
import {
  findUnitOrigin,
  isOwnVariablesFile,
  quoteCommand,
  readServeArguments,
  renderServeUnit,
  renderUnit,
  renderVariablesFile,
  UNIT_NAME,
} from './unit-text.ts';
import { selectServeVariables, selectUnitVariables } from './unit-variables.ts';

/** The first start of the stack may fetch pieces. */
const START_MS = 15 * 60_000;
const MOST_UNIT_BYTES = 1024 * 1024;

export type RunTool = (program: string, args: readonly string[], timeoutMs?: number) => Promise<ProgramResult>;

export interface UnitTools {
  readonly env: Environment;
  readonly cwd: string;
  /** The absolute path of Node. */
  readonly node: string;
  /** The folder of the package. */
  readonly root: string;
  readonly run: RunTool;
  /** Gets each command before it runs, and each file before it is written. */
  readonly onStep: (line: string) => void;
}

export function createToolRunner(env: Environment): RunTool {
  return async (program, args, timeoutMs) =>
    await runProgram(env, program, args, timeoutMs === undefined ? {} : { timeoutMs });
}

export interface PlannedUnit {
  readonly path: string;
  readonly text: string;
  /** The file of the unit of `serve`; null: the unit starts the stack, and contains its variables. */
  readonly variables: VariablesFile | null;
  readonly commands: readonly (readonly string[])[];
}

export interface VariablesFile {
  readonly path: string;
  readonly text: string;
  readonly names: readonly string[];
}

const ENABLE = [
  ['systemctl', '--user', 'daemon-reload'],
  ['systemctl', '--user', 'enable', '--now', UNIT_NAME],
] as const;
const DISABLE = ['systemctl', '--user', 'disable', '--now', UNIT_NAME] as const;

/**
 * Plans the unit of the embedded stack, or of `serve` if variables name your own Temporal server. Changes nothing.
 * @param serveArguments  options of `serve`, with absolute paths
 * @throws AppError `cli/usage` if no unit can be made of this command line or of its variables; `cli/foreign-unit`
 */
export function planUnit(
  tools: Omit<UnitTools, 'run' | 'onStep'>,
  serveArguments: readonly string[] = [],
): PlannedUnit {
  return planQuoted(tools, quoteCommand(serveArguments));
}

function planQuoted(tools: Omit<UnitTools, 'run' | 'onStep'>, quotedArguments: string): PlannedUnit {
  const { env, cwd, node, root } = tools;
  if (!env.temporalConfigured && quotedArguments !== '')
    throw createUsageError(
      'these options are for `serve` with your own Temporal server, which no variable names',
      'Set TEMPORAL_ADDRESS first. The embedded stack keeps its options: voidbox up --listen HOST:PORT',
    );
  if (root.includes('/_npx/'))
    throw createUsageError(
      `${root} belongs to the cache of npx, which may delete it`,
      'Install the package first: npm install --global voidbox',
    );
  const path = locateUnit(env);
  refuseForeignUnit(path);
  const program = { node, main: join(root, 'bin', 'voidbox.js') };
  if (!env.temporalConfigured) {
    const text = renderUnit({ ...program, variables: selectUnitVariables(env, { node, cwd }) });
    return { path, text, variables: null, commands: ENABLE };
  }
  const variablesFile = locateVariables(env);
  refuseForeignVariables(variablesFile);
  const variables = selectServeVariables(env, { node, cwd });
  const names = Object.keys(variables).toSorted();
  return {
    path,
    text: renderServeUnit({ ...program, quotedArguments, variablesFile }),
    variables: { path: variablesFile, text: renderVariablesFile(variables), names },
    commands: ENABLE,
  };
}

function locateConfig({ variables }: Environment): string {
  return variables['XDG_CONFIG_HOME'] || join(variables['HOME'] || homedir(), '.config');
}

function locateUnit(env: Environment): string {
  return join(locateConfig(env), 'systemd', 'user', UNIT_NAME);
}

function locateVariables(env: Environment): string {
  return join(locateConfig(env), 'voidbox', 'serve.env');
}

/** @returns null if it does not exist; false if this command did not write it */
function readVariables(path: string): string | null | false {
  try {
    if (lstatSync(path, { throwIfNoEntry: false }) === undefined) return null;
    if (lstatSync(path).isSymbolicLink()) return false;
    const text = Buffer.from(readFileWithin(path, { roots: null, mostBytes: MOST_UNIT_BYTES })).toString('utf8');
    return isOwnVariablesFile(text) && text;
  } catch {
    // A folder, or a file of another user.
    return false;
  }
}

/** @throws AppError `cli/foreign-unit` */
function refuseForeignVariables(path: string): void {
  if (readVariables(path) !== false) return;
  throw new AppError(
    'usage',
    'cli/foreign-unit',
    `${path} was not written by \`voidbox service install\``,
    'Move it away, then install the unit again.',
  );
}

type UnitState = 'missing' | 'own' | 'foreign';

interface FoundUnit {
  readonly state: UnitState;
  /** Null for a unit of others. */
  readonly text: string | null;
}

const FOREIGN: FoundUnit = { state: 'foreign', text: null };

/** A link, a folder and an unreadable file belong to others. */
function readUnit(path: string): FoundUnit {
  try {
    if (lstatSync(path, { throwIfNoEntry: false }) === undefined) return { state: 'missing', text: null };
    if (lstatSync(path).isSymbolicLink()) return FOREIGN;
    const text = Buffer.from(readFileWithin(path, { roots: null, mostBytes: MOST_UNIT_BYTES })).toString('utf8');
    return findUnitOrigin(text) === 'own' ? { state: 'own', text } : FOREIGN;
  } catch {
    return FOREIGN;
  }
}

/** @throws AppError `cli/foreign-unit` */
function refuseForeignUnit(path: string): void {
  if (readUnit(path).state !== 'foreign') return;
  throw new AppError(
    'usage',
    'cli/foreign-unit',
    `${path} was not written by \`voidbox service install\`, or was changed since`,
    `Move it away, then install the unit again. Your own settings belong into a drop-in: systemctl --user edit ${UNIT_NAME}`,
  );
}

export interface InstalledUnit {
  readonly path: string;
  /** False: the file had this text already. */
  readonly isChanged: boolean;
  /** Whether the user's units start at boot. Null: systemd does not say. */
  readonly lingers: boolean | null;
}

/**
 * Writes the unit and starts it. The same call again repairs an install that was interrupted.
 * @throws AppError like `planUnit`; `cli/no-systemd`, `cli/unit-failed`
 */
export async function installUnit(tools: UnitTools, serveArguments: readonly string[] = []): Promise<InstalledUnit> {
  const { path, text, variables, commands } = planUnit(tools, serveArguments);
  await requireSystemd(tools);
  const hasNewVariables = variables !== null && readVariables(variables.path) !== variables.text;
  if (hasNewVariables) {
    tools.onStep(`write ${variables.path}`);
    mkdirSync(dirname(variables.path), { recursive: true, mode: 0o700 });
    replaceFile(variables.path, variables.text);
  }
  const hasNewText = readUnit(path).text !== text;
  if (hasNewText) {
    tools.onStep(`write ${path}`);
    mkdirSync(dirname(path), { recursive: true });
    replaceFile(path, text);
  }
  for (const command of commands) await runLoudly(command, tools);
  return { path, isChanged: hasNewText || hasNewVariables, lingers: await readLinger(tools) };
}

/**
 * Stops the stack or `serve`, and removes the unit and its file of variables. VMs of open runs stay for a time, and the next stack takes them over.
 * @returns false if there is no unit
 * @throws AppError `cli/foreign-unit`, `cli/no-systemd`, `cli/unit-failed`
 */
export async function removeUnit(tools: UnitTools): Promise<{ readonly path: string; readonly isRemoved: boolean }> {
  const path = locateUnit(tools.env);
  refuseForeignUnit(path);
  if (readUnit(path).state === 'missing') return { path, isRemoved: false };
  await requireSystemd(tools);
  await runLoudly(DISABLE, tools);
  tools.onStep(`remove ${path}`);
  rmSync(path);
  const variables = locateVariables(tools.env);
  if (typeof readVariables(variables) === 'string') {
    tools.onStep(`remove ${variables}`);
    rmSync(variables);
  }
  await runLoudly(ENABLE[0], tools);
  return { path, isRemoved: true };
}

export interface UnitStatus {
  readonly path: string;
  readonly file: UnitState;
  /** False: `voidbox service install` would write another text. Null: the file is no own unit. */
  readonly isCurrent: boolean | null;
  /** As systemd says it, such as `enabled`; null: systemd does not answer. */
  readonly enabled: string | null;
  readonly active: string | null;
  readonly lingers: boolean | null;
}

export async function readUnitStatus(tools: UnitTools): Promise<UnitStatus> {
  const path = locateUnit(tools.env);
  const { state, text } = readUnit(path);
  const ask = async (what: string): Promise<string | null> => {
    const { stdout } = await tools.run('systemctl', ['--user', what, UNIT_NAME]);
    const [word = ''] = stdout.trim().split('\n');
    return word === '' ? null : sanitizeLine(word);
  };
  const isAnswering = (await tools.run('systemctl', ['--user', 'show', '--property=Version'])).exitCode === 0;
  return {
    path,
    file: state,
    isCurrent: state === 'own' ? isPlanned(text, tools) : null,
    enabled: isAnswering ? await ask('is-enabled') : null,
    active: isAnswering ? await ask('is-active') : null,
    lingers: await readLinger(tools),
  };
}

/** A shell from which no unit can be made has another unit. */
function isPlanned(text: string | null, tools: UnitTools): boolean {
  try {
    const planned = planQuoted(tools, (text === null ? null : readServeArguments(text)) ?? '');
    return (
      planned.text === text &&
      (planned.variables === null || readVariables(planned.variables.path) === planned.variables.text)
    );
  } catch (error) {
    if (error instanceof AppError) return false;
    throw error;
  }
}

/** @throws AppError `cli/no-systemd` before anything is changed */
async function requireSystemd({ run }: UnitTools): Promise<void> {
  const answer = await run('systemctl', ['--user', 'show', '--property=Version']);
  if (answer.exitCode === 0) return;
  throw new AppError(
    'environment',
    'cli/no-systemd',
    `systemd does not answer for this user: ${sanitizeLine(cutToLastLines(answer, 1)) || 'systemctl --user fails'}`,
    'Log in as this user itself, instead of by `su` or `sudo`. Without systemd, start the stack with cron: @reboot voidbox up',
  );
}

async function runLoudly([program, ...args]: readonly string[], { run, onStep }: UnitTools): Promise<void> {
  const line = [program, ...args].join(' ');
  onStep(line);
  const result = await run(program!, args, START_MS);
  if (result.exitCode === 0) return;
  throw new AppError(
    'environment',
    'cli/unit-failed',
    `${line} failed: ${sanitizeLine(cutToLastLines(result, 3)) || `exit code ${result.exitCode}`}`,
    `Read why: journalctl --user -u ${UNIT_NAME} -n 50`,
  );
}

async function readLinger({ run }: UnitTools): Promise<boolean | null> {
  const { exitCode, stdout } = await run('loginctl', ['show-user', userInfo().username, '--property=Linger']);
  const [, value] = /^Linger=(yes|no)$/m.exec(stdout) ?? [];
  return exitCode !== 0 || value === undefined ? null : value === 'yes';
}
