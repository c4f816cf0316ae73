/**
 * Reads the login of this machine's user, for agents that work by a subscription. Voidbox takes only the access token
 * from the files of the command line, because it expires. The refresh token, which creates new tokens for months, stays
 * in its file.
 */
import { type Stats, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { readCodexLogin } from '../../domain/agent/codex-login.ts';
import { endOfToken, loginEndKey, writeLoginEnd } from '../../domain/agent/login-end.ts';
import { credentialFileOf, credentialsOf } from '../../domain/agent/credentials.ts';
import type { LlmProvider, Plan, StagePlan } from '../../domain/plan/plan.ts';
import { answeringOf, isService } from '../../domain/plan/work.ts';
import { environmentOf } from '../../domain/plan-rules/variables.ts';
import { isDateMs } from '../../domain/units/time.ts';
import { createEnvironmentError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { createMapping } from '../../domain/units/mapping.ts';

const FILE_BYTES = 1024 * 1024;

type Env = Pick<Machine['env'], 'variables'>;

interface Login {
  /** The value for the variable. */
  readonly value: string;
  /** Null: the login does not contain its expiry. */
  readonly expiresAtMs: number | null;
}

interface LoginKind {
  readonly provider: LlmProvider;
  /** The variable that the login is a value for. */
  readonly variable: string;
  /** Whose login it is. */
  readonly owner: string;
  readonly program: string;
  /** The command that creates a login. */
  readonly login: string;
  /** Another way, for the remedy. */
  readonly otherwise: string;
  file(env: Env): string;
  /** Parses the text of the file. Null: the format is not known. */
  read(text: string): Login | null;
}

const CLAUDE: LoginKind = {
  provider: 'claude-personal',
  variable: 'CLAUDE_CODE_OAUTH_TOKEN',
  owner: 'Claude',
  program: 'claude',
  login: 'claude /login',
  otherwise: 'set CLAUDE_CODE_OAUTH_TOKEN to what `claude setup-token` prints',
  file: ({ variables }) =>
    join(variables['CLAUDE_CONFIG_DIR'] || join(variables['HOME'] ?? '/', '.claude'), '.credentials.json'),
  read(text) {
    const file = JSON.parse(text) as { readonly claudeAiOauth?: unknown } | null;
    const login = file?.claudeAiOauth as { readonly accessToken?: unknown; readonly expiresAt?: unknown } | null;
    const { accessToken, expiresAt } = login ?? {};
    if (typeof accessToken !== 'string' || accessToken === '') return null;
    if (!isDateMs(expiresAt)) return null;
    return { value: accessToken, expiresAtMs: expiresAt };
  },
};

const CODEX: LoginKind = {
  provider: 'codex-personal',
  variable: 'CODEX_AUTH_JSON',
  owner: 'Codex',
  program: 'codex',
  login: 'codex login',
  otherwise: 'set CODEX_AUTH_JSON to the `auth.json` of a login that lasts longer',
  file: ({ variables }) => join(variables['CODEX_HOME'] || join(variables['HOME'] ?? '/', '.codex'), 'auth.json'),
  read(text) {
    const login = readCodexLogin(text);
    return login === null ? null : { value: login.forGuest, expiresAtMs: endOfToken(login.accessToken) };
  },
};

const KINDS = [CLAUDE, CODEX];

/**
 * Returns values for variables that are not set, and replacements for variables that are set to a whole login. Each
 * value has its expiry next to it (`loginEndKey`), if the expiry is known.
 * @param stages  those that are to run
 * @param lent  the variables that the run may read; by default those of this process
 * @throws AppError `host/login-expires`, `host/login-invalid`
 */
export function readLogins(
  stages: Plan['stages'],
  { env, now, confinedTo }: Pick<Machine, 'env' | 'now' | 'confinedTo'>,
  lent: Env['variables'] = env.variables,
): Readonly<Record<string, string>> {
  const taken: Record<string, string> = createMapping();
  for (const stage of stages.toSorted((a, b) => b.timeoutMs - a.timeoutMs)) {
    for (const [variable, login, kind] of loginsOf(stage, confinedTo === undefined ? env : null, lent)) {
      if (taken[variable] !== undefined) continue;
      requireLoginTime(login, kind, stage, now().getTime());
      taken[variable] = login.value;
      // The worker checks the expiry again when its stage begins.
      if (login.expiresAtMs !== null) taken[loginEndKey(variable)] = writeLoginEnd(login.expiresAtMs);
    }
  }
  return taken;
}

/** Lists the owners and files of the logins of this machine that supply values of unset variables. */
export function loginsTaken(
  values: Readonly<Record<string, string>>,
  env: Env,
): readonly { readonly owner: string; readonly file: string }[] {
  return KINDS.filter(({ variable }) => values[variable] !== undefined && env.variables[variable] === undefined).map(
    ({ owner, file }) => ({ owner, file: file(env) }),
  );
}

/** Checks whether this machine has a login for this variable, however soon it expires. */
export function hasLogin(variable: string, env: Env): boolean {
  const kind = KINDS.find((known) => known.variable === variable);
  return kind !== undefined && readFile(kind, env) !== null;
}

/** The commands that create logins for the variables. */
export function loginCommandsFor(variables: readonly string[]): readonly string[] {
  return KINDS.filter(({ variable }) => variables.includes(variable)).map(({ login }) => login);
}

/**
 * Returns the login of a stage's agent, by the variable of the host.
 * @param env  null: the caller is not the user of this machine, whose logins are not read
 */
function loginsOf(
  { id, work }: StagePlan,
  env: Env | null,
  lent: Env['variables'],
): readonly (readonly [variable: string, Login, LoginKind])[] {
  const agent = answeringOf(work);
  const kind = KINDS.find(({ provider }) => provider === agent?.llm?.provider);
  if (agent === null || kind === undefined) return [];
  const isFile = credentialFileOf(agent) !== null;
  const read = isFile ? environmentOf(work) : credentialsOf(agent);
  return read.flatMap(({ name, value }) => {
    if (value.kind !== 'from-host' || name !== kind.variable) return [];
    const { fromHost } = value;
    const set = lent[fromHost];
    // A plain token is passed on unchanged.
    if (set !== undefined && (!isFile || set === '')) return [];
    const found =
      set === undefined ? (env !== null && fromHost === kind.variable ? readFile(kind, env) : null) : kind.read(set);
    if (found !== null) return [[fromHost, found, kind] as const];
    if (set === undefined) return [];
    throw createEnvironmentError(
      'host/login-invalid',
      `stage ${id} uses the login in ${fromHost}, which is not what \`${kind.program} login\` writes for a subscription`,
      `Set it to the text of ${env === null ? '`auth.json`' : kind.file(env)}, or unset it where \`${kind.program}\` is logged in`,
    );
  });
}

function requireLoginTime(
  { expiresAtMs }: Login,
  kind: LoginKind,
  { id, timeoutMs, work }: StagePlan,
  nowMs: number,
): void {
  if (expiresAtMs === null || expiresAtMs >= nowMs + timeoutMs) return;
  throw createEnvironmentError(
    'host/login-expires',
    `the login of ${kind.owner} on this machine ends at ${new Date(expiresAtMs).toISOString()}, and stage ${id} ${isService(work) ? 'serves until it is cancelled' : `may take ${timeoutMs / 1000} s from now`}`,
    `Start \`${kind.program}\` once, which renews it, lower \`timeout_secs\`, or ${kind.otherwise}`,
  );
}

/**
 * Null: the user is not logged in, or the format of the file is not known. The run then demands the variable by its
 * name.
 */
function readFile(kind: LoginKind, env: Env): Login | null {
  try {
    const path = kind.file(env);
    const stats: Stats = statSync(path);
    if (!stats.isFile() || stats.size > FILE_BYTES) return null;
    return kind.read(readFileSync(path, 'utf8'));
  } catch {
    return null;
  }
}
