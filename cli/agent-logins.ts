/**
 * The login of a person on this machine, for agents that work by a subscription: of what Claude Code keeps, the access token, which
 * ends by itself. The refresh token, which makes new ones for months, stays where it is.
 */
import { type Stats, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { credentialsOf } from '../domain/agent/credentials.ts';
import type { Plan, StagePlan } from '../domain/plan/plan.ts';
import { answeringOf } from '../domain/plan/work.ts';
import { environmentError } from './cli-error.ts';
import type { CliContext } from './context.ts';

export const LOGIN_VARIABLE = 'CLAUDE_CODE_OAUTH_TOKEN';
const FILE_BYTES = 1024 * 1024;

/** `claude` keeps it there, by mode 0600. */
export function loginFile({ variables }: Pick<CliContext['env'], 'variables'>): string {
  const folder = variables['CLAUDE_CONFIG_DIR'] || join(variables['HOME'] ?? '/', '.claude');
  return join(folder, '.credentials.json');
}

/**
 * What stands for variables that are not set.
 * @param stages  those that are to run
 * @throws CliError `host/login-expires`
 */
export function loginsFor(
  stages: Plan['stages'],
  { env, now }: Pick<CliContext, 'env' | 'now'>,
): Readonly<Record<string, string>> {
  const [longest] = stages.filter(readsLogin).toSorted((a, b) => b.timeoutMs - a.timeoutMs);
  if (longest === undefined || env.variables[LOGIN_VARIABLE] !== undefined) return {};
  const login = readLogin(loginFile(env));
  if (login === null) return {};
  if (login.expiresAtMs < now().getTime() + longest.timeoutMs)
    throw environmentError(
      'host/login-expires',
      `the login of Claude on this machine ends at ${new Date(login.expiresAtMs).toISOString()}, and stage ${longest.id} may take ${longest.timeoutMs / 1000} s from now`,
      `Start \`claude\` once, which renews it, lower \`timeout_secs\`, or set ${LOGIN_VARIABLE} to what \`claude setup-token\` prints`,
    );
  return { [LOGIN_VARIABLE]: login.accessToken };
}

/** Whether somebody is logged in here, for how long ever. */
export function hasLogin(env: Pick<CliContext['env'], 'variables'>): boolean {
  return readLogin(loginFile(env)) !== null;
}

function readsLogin({ work }: StagePlan): boolean {
  const agent = answeringOf(work);
  return (
    agent?.llm?.provider === 'claude-personal' &&
    credentialsOf(agent).some(({ value }) => value.kind === 'from-host' && value.fromHost === LOGIN_VARIABLE)
  );
}

interface Login {
  readonly accessToken: string;
  readonly expiresAtMs: number;
}

/** Null: nobody is logged in, or the file is none that is known; then the variable is demanded by its name. */
function readLogin(path: string): Login | null {
  try {
    const stats: Stats = statSync(path);
    if (!stats.isFile() || stats.size > FILE_BYTES) return null;
    const file = JSON.parse(readFileSync(path, 'utf8')) as { readonly claudeAiOauth?: unknown } | null;
    const login = file?.claudeAiOauth as { readonly accessToken?: unknown; readonly expiresAt?: unknown } | null;
    const { accessToken, expiresAt } = login ?? {};
    if (typeof accessToken !== 'string' || accessToken === '') return null;
    if (typeof expiresAt !== 'number' || !(Math.abs(expiresAt) <= 8.64e15)) return null;
    return { accessToken, expiresAtMs: expiresAt };
  } catch {
    return null;
  }
}
