/**
 * Shared by the commands of `voidbox session`: the connection to the server, parsing of values, and printing of
 * results.
 */
import { resolve } from 'node:path';
import type { SessionView } from '../../activities/contract-session.ts';
import type { ErrorCode } from '../../domain/errors/codes.ts';
import { separateId } from '../../domain/run/run-id.ts';
import { isSessionName, SESSION_NAME_RULE } from '../../domain/step-machine/session-id.ts';
import type { SessionResult } from '../../domain/step-machine/result.ts';
import { findLostNumber } from '../../domain/units/lost-number.ts';
import { readTextFile } from '../../skill-kit/cli/input-bytes.ts';
import type * as Sessions from '../../client/sessions/sessions.ts';
import { rememberSkillPaths, skillPaths } from '../../client/embedded/skill-paths.ts';
import { AppError, createEnvironmentError, createUsageError } from '../../app/app-error.ts';
import type { CliContext } from '../context.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';
import { renderResult } from '../render/skills/session.ts';
import type { ServerLink } from '../../client/temporal/server-link.ts';
import { resolveSkillFolders } from './skill-folders.ts';
import { shorten } from '../../domain/units/quote.ts';

export interface SessionLink {
  readonly link: ServerLink;
  readonly sessions: typeof Sessions;
}

/** @param skills  folders for the embedded worker, instead of those that it had */
export async function sessionLink(context: CliContext, skills?: readonly string[]): Promise<SessionLink> {
  const { env, cwd } = context;
  if (env.temporalConfigured && skills !== undefined) {
    throw createUsageError(
      '--skills works only with the embedded worker',
      'Pass the folders to your worker: voidbox worker --skills DIR',
    );
  }
  if (!env.temporalConfigured) {
    if (skills !== undefined) rememberSkillPaths(env.stateDir, resolveSkillFolders(skills, cwd), 'replace');
    if (env.skills.length > 0) rememberSkillPaths(env.stateDir, env.skills, 'add');
    if (skillPaths(env.stateDir).length === 0)
      throw createEnvironmentError(
        'skill/unknown',
        'no folder of step machines is set',
        'Set one: voidbox up --skills DIR, or VOIDBOX_SKILLS',
      );
  }
  const { openServerLink } = await import('../../client/temporal/server-link.ts');
  const link = await openServerLink(context, {
    start: true,
    onProgress: (line) => void context.stderr.write(`==> ${line}\n`),
  });
  if (link === null) throw new Error('the embedded stack was not started');
  return { link, sessions: await import('../../client/sessions/sessions.ts') };
}

/** @throws AppError when it is not JSON or cannot be read */
export async function readJson(argument: string, flag: string, context: CliContext): Promise<unknown> {
  const text = await textOf(argument, flag, context);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw createUsageError(
      `${flag} is not JSON: ${(error as Error).message}`,
      `Quote a string twice: ${flag} '"text"'. From a file: ${flag} @FILE`,
    );
  }
  const number = findLostNumber(text);
  if (number === null) return value;
  throw createUsageError(
    `${flag} has the number ${number.slice(0, 80)}, which has no exact value`,
    'Use numbers within ±9007199254740991, or a string',
  );
}

async function textOf(argument: string, flag: string, context: CliContext): Promise<string> {
  if (argument === '-') return Buffer.from(await context.readStdin()).toString('utf8');
  if (!argument.startsWith('@')) return argument;
  try {
    return readTextFile(resolve(context.cwd, argument.slice(1)));
  } catch (error) {
    throw createUsageError(`${flag}: cannot read \`${argument.slice(1)}\`: ${(error as Error).message}`);
  }
}

export function checkSessionId(session: string): void {
  if (!isSessionName(session)) throw createUsageError(`\`${shorten(session)}\` is not a session id`, SESSION_NAME_RULE);
}

/** Steps that can be answered now, wherever they run. */
export function openSteps({ current }: SessionView): readonly { readonly step: string; readonly turn: number }[] {
  if (current?.kind !== 'prompt') return [];
  return [{ step: current.step, turn: current.turn! }, ...(current.open ?? [])];
}

/** As it is typed here. */
export function advanceCommand(session: string, context: CliContext): string {
  return context.advise(`voidbox session advance ${separateId(session)}`);
}

export async function printResult(
  session: string,
  result: SessionResult,
  options: { readonly json?: boolean },
  context: CliContext,
): Promise<ExitCode> {
  const code = exitCodeOf(result);
  if (options.json) await context.stdout.write(`${JSON.stringify({ session, result })}\n`);
  else {
    const sink = code === EXIT.success ? context.stdout : context.stderr;
    await sink.write(`${renderResult(session, result, advanceCommand(session, context), sink.style).join('\n')}\n`);
  }
  return code;
}

function exitCodeOf(result: SessionResult): ExitCode {
  if (result.kind !== 'error') return EXIT.success;
  switch (result.error) {
    case 'validation':
    case 'order':
    case 'busy':
      return EXIT.usage;
    case 'away':
      return EXIT.environment;
    case 'limit':
    case 'action':
    case 'failed':
    case 'cancelled':
      return EXIT.runFailed;
  }
}

const USAGE_CODES: ReadonlySet<string> = new Set<ErrorCode>(['skill/params', 'skill/unknown', 'skill/ambiguous']);

/** @throws the error that it was given, with a remedy if one is known */
export async function throwSessionError(error: unknown): Promise<never> {
  const { SessionFailedError, SessionExistsError, NoSuchSessionError, NoSessionWorkerError } =
    await import('../../client/sessions/errors.ts');
  const { isUnavailable, serverMessageOf } = await import('../../client/temporal/unavailable.ts');
  if (error instanceof NoSuchSessionError) throw createUsageError(error.message, 'List sessions: voidbox session list');
  if (error instanceof SessionExistsError)
    throw createUsageError(error.message, 'Choose another --id, or continue it: voidbox session status ID');
  if (error instanceof NoSessionWorkerError)
    throw createEnvironmentError('skill/unknown', error.message, 'Start one: voidbox worker --skills DIR');
  if (isUnavailable(error)) {
    throw createEnvironmentError(
      'cli/no-server',
      `the connection to the Temporal server was lost: ${serverMessageOf(error)}`,
      'Run it again: the same answer to the same --turn counts once. Check the server: voidbox ps',
    );
  }
  if (error instanceof SessionFailedError) {
    const { remedyOf } = await import('../../domain/errors/error-code.ts');
    const fault =
      error.code === 'skill/variable-missing' ? 'environment' : USAGE_CODES.has(error.code) ? 'usage' : 'failed';
    throw new AppError(fault, error.code, error.message, remedyOf(error.code));
  }
  throw error;
}
