/** Chooses the machine of the sessions, as `app/control/open-run-control.ts` does for runs. */
import { rememberSkillPaths, skillPaths } from '../../client/embedded/skill-paths.ts';
import { createEnvironmentError, createUsageError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import type { SessionControl } from './session-control.ts';

export interface SessionOptions {
  /** Returns absolute folders for the embedded worker, instead of those that it had; absent: it keeps them. */
  readonly skills?: (() => readonly string[]) | undefined;
  readonly onProgress: (line: string) => void;
}

/**
 * Connects to the sessions for a command, which may start the stack.
 * @throws AppError
 */
export async function openSessions(context: Machine, { skills, onProgress }: SessionOptions): Promise<SessionControl> {
  const { env } = context;
  if (env.service !== null) {
    if (skills !== undefined)
      throw createUsageError(
        '--skills works only on the machine of the service',
        'Load the step machines there: voidbox up --skills DIR',
      );
    return (await import('./remote-sessions.ts')).createRemoteSessions(env.service, context);
  }
  if (env.temporalConfigured && skills !== undefined)
    throw createUsageError(
      '--skills works only with the embedded worker',
      'Pass the folders to your worker: voidbox worker --skills DIR',
    );
  if (!env.temporalConfigured) {
    if (skills !== undefined) rememberSkillPaths(env.stateDir, skills(), 'replace');
    if (env.skills.length > 0) rememberSkillPaths(env.stateDir, env.skills, 'add');
    requireSkills(env.stateDir);
  }
  const { openServerLink } = await import('../../client/temporal/server-link.ts');
  const link = await openServerLink(context, { start: true, onProgress });
  if (link === null) throw new Error('the embedded stack was not started');
  const { createLocalSessions } = await import('./local-sessions.ts');
  const { COMMAND_CODES } = await import('./session-errors.ts');
  return createLocalSessions(link, context, COMMAND_CODES);
}

/**
 * Connects to the sessions for a process of the stack, which starts nothing.
 * @throws AppError
 */
export async function openServiceSessions(context: Machine): Promise<SessionControl> {
  if (!context.env.temporalConfigured) requireSkills(context.env.stateDir);
  const link = (await context.stackLink?.()) ?? null;
  if (link === null) throw createEnvironmentError('cli/no-server', 'the server of the embedded stack does not answer');
  const { createLocalSessions } = await import('./local-sessions.ts');
  const { API_SESSION_CODES } = await import('./session-errors.ts');
  return createLocalSessions(link, context, API_SESSION_CODES);
}

/** @throws AppError `skill/unknown` if the embedded worker has no step machine */
function requireSkills(stateDir: string): void {
  if (skillPaths(stateDir).length > 0) return;
  throw createEnvironmentError(
    'skill/unknown',
    'no folder of step machines is set',
    'Set one: voidbox up --skills DIR, or VOIDBOX_SKILLS',
  );
}
