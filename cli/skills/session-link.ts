/** Parts that commands of `voidbox session` share: the connection, parsing of values, and printing of results. */
import { resolve } from 'node:path';
import type { SessionView } from '../../activities/contract-session.ts';
import { separateId } from '../../domain/run/run-id.ts';
import { isSessionName, SESSION_NAME_RULE } from '../../domain/step-machine/session-id.ts';
import type { SessionResult } from '../../domain/step-machine/result.ts';
import { findLostNumber } from '../../domain/units/lost-number.ts';
import { readTextFile } from '../../skill-kit/cli/input-bytes.ts';
import { createUsageError } from '../../app/app-error.ts';
import { openSessions } from '../../app/sessions/open-sessions.ts';
import type { SessionControl } from '../../app/sessions/session-control.ts';
import type { CliContext } from '../context.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';
import { renderResult } from '../render/skills/session.ts';
import { resolveSkillFolders } from './skill-folders.ts';
import { shorten } from '../../domain/units/quote.ts';

/** @param skills  folders for the embedded worker, instead of those that it had */
export async function connectSessions(context: CliContext, skills?: readonly string[]): Promise<SessionControl> {
  return await openSessions(context, {
    skills: skills === undefined ? undefined : () => resolveSkillFolders(skills, context.cwd),
    onProgress: (line) => void context.stderr.write(`==> ${line}\n`),
  });
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
