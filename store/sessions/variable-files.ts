/**
 * Values of variables that a skill declares, on their way from the client that starts a session to the code of the
 * skill. They are in a file of the session's folder that only its owner can read. A client cannot know the variables
 * before a worker has loaded the skill. So the worker writes the names to a file as well, and the client, which waits
 * until the session is open, answers.
 */
import { createHmac, randomBytes } from 'node:crypto';
import {
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Receiver, SessionStart, SessionVariables, Wanted } from '../../activities/ports/session-stores.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { isPlain } from '../../domain/step-machine/deep-merge.ts';
import {
  findEnvProblems,
  describeMissing,
  missingOf,
  MOST_VARIABLE_BYTES,
  type Variables,
  valuesOf,
} from '../../domain/step-machine/skill-variables.ts';
import { listHalfFilesOf, nameHalfFile, removeHalfFilesOf } from '../half-files.ts';
import { keepStateFormat } from '../state-format.ts';
import { sessionRecordsDir } from './record-files.ts';
import { folderUse } from '../server-mark.ts';

/** A client answers within moments, when there is one. */
const ANSWER_LIMIT_MS = 10_000;
const POLL_MS = 25;
/** A client writes them before its session is there to be asked about. */
const LEAST_AGE_MS = 60_000;

/** A run id of Temporal is a UUID. */
const MOST_RUN_CHARACTERS = 200;

const VARIABLES = 'variables.json';
const WANTED = 'wanted-variables.json';
/** No session has a name with a full stop at its beginning. */
const OPENER_KEY = '.opener-key';
const KEY_BYTES = 32;

type Values = Readonly<Record<string, string>>;

/** The values that a session received. They are only for that skill. */
interface VariableFile {
  readonly skill: string;
  readonly values: Values;
  /** The first run in the request. */
  readonly firstRun: string;
}

export function createVariableFiles(stateDir: string): SessionVariables {
  return {
    handedOver: async (receiver, skill) => valuesHandedOver(stateDir, receiver, skill),
    waitFor: (session, wanted, own) => waitForVariables(stateDir, session, wanted, own),
    answer: (start, variables, opening, onHandOver) => answerRequests(stateDir, start, variables, opening, onHandOver),
    nameOpener: async (session) => nameOpener(stateDir, session),
    drop: async (session) => dropVariables(stateDir, session),
    holders: async (serverId, nowMs) => sessionsWithVariables(stateDir, serverId, nowMs),
  };
}

/** Nothing when it was handed nothing, or another skill or another workflow of that id was. */
export function valuesHandedOver(stateDir: string, { session, firstRun }: Receiver, skill: string): Values {
  const found = readHandedOver(stateDir, session);
  if (found?.skill !== skill) return {};
  return firstRun === null || found.firstRun === firstRun ? found.values : {};
}

/**
 * Waits for the values of the client that starts the session. Values that the worker has itself (`own`) count as well.
 * @throws CodedError `skill/variable-missing`
 */
export async function waitForVariables(
  stateDir: string,
  session: string,
  wanted: Wanted,
  own: Variables,
): Promise<void> {
  const { skill, names, firstRun, opener } = wanted;
  const missing = (): readonly string[] =>
    missingOf(names, { ...own, ...valuesHandedOver(stateDir, { session, firstRun }, skill) });
  const before = readHandedOver(stateDir, session);
  // The values belong to an earlier, terminated workflow with the same id; this session has no answer yet.
  if (before !== null && before.firstRun !== firstRun) dropVariables(stateDir, session);
  if (missing().length === 0) return;
  if (opener === null) throw new CodedError('skill/variable-missing', describeMissing(skill, missing()));
  write(stateDir, session, WANTED, wanted);
  try {
    for (
      const end = Date.now() + ANSWER_LIMIT_MS;
      Date.now() < end && !isAnswer(readHandedOver(stateDir, session), wanted);
    )
      await sleep(POLL_MS);
  } finally {
    rmSync(join(sessionRecordsDir(stateDir, session), WANTED), { force: true });
  }
  if (missing().length > 0) throw new CodedError('skill/variable-missing', describeMissing(skill, missing()));
}

/**
 * While a session is being opened: hands over the values that its worker asks for, once. Another client may open a session
 * with the same id at this moment, and the server refuses one of both only later. So a request counts only if it names
 * this start.
 */
export async function answerRequests(
  stateDir: string,
  { session, opener }: SessionStart,
  variables: Variables,
  opening: AbortSignal,
  onHandOver: (names: readonly string[]) => void,
): Promise<void> {
  while (!opening.aborted) {
    const wanted = readWanted(stateDir, session);
    const before = readHandedOver(stateDir, session);
    if (wanted?.opener === opener && (before === null || before.firstRun !== wanted.firstRun)) {
      const values = valuesOf(wanted.names, variables);
      const bytes = Buffer.byteLength(JSON.stringify(values));
      if (bytes > MOST_VARIABLE_BYTES) {
        throw new CodedError(
          'skill/variable-missing',
          `the values of ${wanted.names.join(', ')} have ${bytes} bytes; at most ${MOST_VARIABLE_BYTES} are allowed`,
        );
      }
      const { skill, firstRun } = wanted;
      write(stateDir, session, VARIABLES, { skill, firstRun, values } satisfies VariableFile);
      onHandOver(Object.keys(values));
    }
    await sleep(POLL_MS);
  }
}

/** The key is a file of this user, so other clients of the server cannot compute an opener. */
export function nameOpener(stateDir: string, session: string): string {
  return createHmac('sha256', readOpenerKey(stateDir)).update(session).digest('hex');
}

function readOpenerKey(stateDir: string): Uint8Array {
  const file = join(stateDir, 'sessions', OPENER_KEY);
  for (;;)
    try {
      const key = readFileSync(file);
      if (key.byteLength === KEY_BYTES) return key;
      throw new CodedError('store/io', `${file} is not what was written; remove it`);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      makeOpenerKey(file, stateDir);
    }
}

/** A process that finds it made has lost a race, and takes that one. */
function makeOpenerKey(file: string, stateDir: string): void {
  keepStateFormat(stateDir);
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const half = nameHalfFile(file);
  try {
    writeFileSync(half, randomBytes(KEY_BYTES), { mode: 0o600 });
    linkSync(half, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(half, { force: true });
  }
}

export function dropVariables(stateDir: string, session: string): void {
  for (const name of [VARIABLES, WANTED]) {
    const file = join(sessionRecordsDir(stateDir, session), name);
    rmSync(file, { force: true });
    removeHalfFilesOf(file);
  }
}

/** Sessions that hold values, were not opened a moment ago, and belong to no other server. */
export function sessionsWithVariables(stateDir: string, serverId: string, nowMs: number): readonly string[] {
  return sessionNames(stateDir).filter((session) => {
    const folder = join(stateDir, 'sessions', session);
    try {
      const file = join(folder, VARIABLES);
      // A half file has values, too.
      const found = [file, ...listHalfFilesOf(file)].flatMap((each): readonly Stats[] => {
        const stats = statSync(each, { throwIfNoEntry: false });
        return stats === undefined ? [] : [stats];
      });
      if (found.length === 0 || found.some(({ mtimeMs }) => nowMs - mtimeMs < LEAST_AGE_MS)) return false;
      const servers = folderUse(folder)?.servers ?? [];
      return servers.length === 0 || servers.includes(serverId);
    } catch {
      // It holds none, or is no folder, or cannot be looked into: others are looked at all the same.
      return false;
    }
  });
}

function sessionNames(stateDir: string): readonly string[] {
  try {
    return readdirSync(join(stateDir, 'sessions')).filter((name) => !name.startsWith('.'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

function readHandedOver(stateDir: string, session: string): VariableFile | null {
  const value = readJson(stateDir, session, VARIABLES);
  if (value === null) return null;
  const { skill, values, firstRun } = value;
  const areTexts = isPlain(values) && Object.values(values).every((one) => typeof one === 'string');
  return typeof skill === 'string' && areTexts && isRun(firstRun)
    ? { skill, values: values as Values, firstRun }
    : null;
}

function isAnswer(found: VariableFile | null, { skill, firstRun }: Wanted): boolean {
  return found?.skill === skill && found.firstRun === firstRun;
}

function readWanted(stateDir: string, session: string): Wanted | null {
  const value = readJson(stateDir, session, WANTED);
  if (value === null) return null;
  const { skill, names, firstRun, opener } = value;
  if (typeof skill !== 'string' || findEnvProblems(names).length > 0 || !isRun(firstRun)) return null;
  return { skill, names: names as readonly string[], firstRun, opener: typeof opener === 'string' ? opener : null };
}

function isRun(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MOST_RUN_CHARACTERS;
}

function readJson(stateDir: string, session: string, name: string): Readonly<Record<string, unknown>> | null {
  try {
    const value = JSON.parse(readFileSync(join(sessionRecordsDir(stateDir, session), name), 'utf8')) as unknown;
    return isPlain(value) ? value : null;
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

function write(stateDir: string, session: string, name: string, value: object): void {
  const dir = sessionRecordsDir(stateDir, session);
  keepStateFormat(stateDir);
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const file = join(dir, name);
  const next = nameHalfFile(file);
  try {
    writeFileSync(next, `${JSON.stringify(value)}\n`, { mode: 0o600 });
    renameSync(next, file);
  } catch (error) {
    // On a full disk it holds a part of the values.
    rmSync(next, { force: true });
    throw error;
  }
}
