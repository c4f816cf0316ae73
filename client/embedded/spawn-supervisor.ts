/** Starts a supervisor: detached, without the variables of the shell, and with the lock of its folder. */
import { spawn } from 'node:child_process';
import { closeSync, fstatSync, ftruncateSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Environment } from '../../setup/environment.ts';
import type { StackPieces } from '../../setup/pieces/host-pieces.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { logsDir, stackLockFile } from './stack-info.ts';
import { createMapping } from '../../domain/units/mapping.ts';

/** The number of log lines that are shown after a failed start. */
const LAST_LINES = 16;
/** The length to which each shown line is cut, because Temporal's server writes lines of several KiB. */
const LINE_CHARACTERS = 400;
const START_LOG_BYTES = 256 * 1024;
/** The exit code of `voidbox-vm lock` if another supervisor holds the lock. */
export const EXIT_LOCKED = 75;

export interface SpawnedSupervisor {
  /** The end of what the supervisor and its children wrote; empty if they wrote nothing. */
  lastWords(): string;
  exitCode(): number | null;
}

export function spawnSupervisor(env: Environment, pieces: StackPieces, build: string): SpawnedSupervisor {
  mkdirSync(logsDir(env.stateDir), { recursive: true, mode: 0o700 });
  const logFile = join(logsDir(env.stateDir), 'supervisor-start.log');
  // Append, so that a second client does not erase the output of the first one's supervisor.
  const log = openSync(logFile, 'a', 0o600);
  if (fstatSync(log).size > START_LOG_BYTES) ftruncateSync(log);
  const logFrom = fstatSync(log).size;
  const script = join(findPackageRoot(), 'dist/workers/embedded/supervisor.js');
  const child = spawn(
    pieces.keeper,
    [
      'lock',
      '--file',
      stackLockFile(env.stateDir),
      '--',
      process.execPath,
      script,
      '--state-dir',
      env.stateDir,
      '--cache-dir',
      env.cacheDir,
      '--build',
      build,
      '--pieces',
      JSON.stringify(pieces),
    ],
    { detached: true, stdio: ['ignore', log, log], env: stackVariables(env), cwd: '/' },
  );
  closeSync(log);
  let exit: number | null = null;
  child.once('error', () => (exit = 127));
  child.once('exit', (code) => (exit = code ?? 128));
  child.unref();
  return { lastWords: () => readLastLines(logFile, logFrom), exitCode: () => exit };
}

function readLastLines(file: string, from: number): string {
  try {
    return readFileSync(file)
      .subarray(from)
      .toString('utf8')
      .trimEnd()
      .split('\n')
      .slice(-LAST_LINES)
      .map(shortenLine)
      .join('\n');
  } catch {
    // The log is gone. The error names its folder in any case.
    return '';
  }
}

/** Shortens a line but keeps its end, which names the problem more often than its middle. */
function shortenLine(line: string): string {
  if (line.length <= LINE_CHARACTERS) return line;
  return `${line.slice(0, LINE_CHARACTERS / 2)} … ${line.slice(-LINE_CHARACTERS / 2)}`;
}

const OF_PROGRAMS = /^(PATH|HOME|USER|LOGNAME|LANG|LC_.*|TZ|TMPDIR|XDG_.*|VOIDBOX_.*|NODE_EXTRA_CA_CERTS)$/;
/** They are for clients and for `serve`. */
const TOKENS = /^VOIDBOX_(?:DAEMON_)?TOKEN$/;

/** Whether the stack gets a variable of the shell. The address of the database is the only secret that it needs. */
export function isStackVariable(name: string): boolean {
  return (OF_PROGRAMS.test(name) && !TOKENS.test(name)) || isDatabaseVariable(name);
}

/** Whether the variable names the database of tokens, which only the HTTP API may know. */
export function isDatabaseVariable(name: string): boolean {
  return name === 'DATABASE_URL' || name === 'DATABASE_URL_FILE';
}

/** Selects the variables for the stack, which outlives the shell. */
function stackVariables(env: Environment): Record<string, string> {
  const kept: Record<string, string> = createMapping();
  for (const [name, value] of Object.entries(env.variables)) {
    if (value !== undefined && isStackVariable(name)) kept[name] = value;
  }
  // The supervisor works in another folder.
  if (env.database?.kind === 'file') kept['DATABASE_URL_FILE'] = env.database.path;
  if (env.secretsKeyFile !== null) kept['VOIDBOX_SECRETS_KEY_FILE'] = env.secretsKeyFile;
  // Temporal's server needs a user name, and a uid that the list of users does not contain has no name.
  kept['USER'] ??= `uid-${process.getuid?.()}`;
  return kept;
}
