/** The only place that reads values of host variables; the redactor gets the same list. */
import { Buffer } from 'node:buffer';
import { credentialFileOf } from '../../domain/agent/credentials.ts';
import { readCodexLogin, tokensOfLogin } from '../../domain/agent/codex-login.ts';
import { endOfToken, loginEndKey, readLoginEnd } from '../../domain/agent/login-end.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { answeringOf } from '../../domain/plan/work.ts';
import { demandedVariablesOf, environmentOf, hostVariablesOf } from '../../domain/plan-rules/variables.ts';
import type { Secret } from '../../domain/security/redactor.ts';
import type { AgentLogin } from '../agent/shared/login.ts';
import type { ActivityDeps } from '../deps.ts';
import type { HostVariables } from '../ports/host-variables.ts';
import type { StageRequest } from '../calls/requests.ts';
import { isConfined } from '../ports/starters.ts';
import { createMapping } from '../../domain/units/mapping.ts';

type Sources = Pick<ActivityDeps, 'lentVariables' | 'starters'> & {
  readonly hostVariables: Pick<HostVariables, 'get'>;
};

const CLAUDE_LOGIN = 'CLAUDE_CODE_OAUTH_TOKEN';
/**
 * The limit of all host variables of a run together, because the redactor searches output for every form of each value.
 */
const SECRETS_BYTES = 64 * 1024;

export interface CredentialText {
  readonly guestPath: string;
  readonly text: string;
}

export interface StageEnvironment {
  readonly env: Readonly<Record<string, string>>;
  /** Logins that the stage's agent reads from files instead of variables. */
  readonly credentials: readonly CredentialText[];
  /** All values of the host that the run knows: a stage may print a value that another stage left in a file. */
  readonly secrets: readonly Secret[];
  /** Names of the host variables that the stage itself reads. */
  readonly named: ReadonlySet<string>;
  /** The subset of `named` that is not set: the stage gets an empty value. */
  readonly unset: readonly string[];
  /** The login of the agent; null: no login, or a login without a known expiry. */
  readonly login: AgentLogin | null;
}

/** @throws CodedError `host/variable-missing`, `host/variable-too-large`, `host/secrets-file` */
export async function resolveEnvironment(
  sources: Sources,
  { runId, stage, hostVariables }: Pick<StageRequest, 'runId' | 'stage' | 'hostVariables'>,
): Promise<StageEnvironment> {
  const named = new Set(hostVariablesOf([stage]));
  const values = await readVariables(sources, runId, [...new Set([...hostVariables, ...named])]);
  const env = environmentOf(stage.work).map(({ name, value }): readonly [string, string] => {
    if (value.kind === 'literal') return [name, value.text];
    const text = values.get(value.fromHost);
    if (text === undefined && value.ifUnset === undefined)
      throw createMissingError([{ name: value.fromHost, stage: stage.id }]);
    return [name, text ?? ''];
  });
  return {
    ...withCredentials(stage, env),
    login: await loginOf(sources, runId, stage, values),
    secrets: secretsOf(values),
    named,
    unset: [...named].filter((name) => !values.has(name)),
  };
}

/**
 * Returns the agent's login if its expiry is known. A Codex token contains its expiry. For Claude, only the client
 * knows it that read the login from the person's file.
 */
async function loginOf(
  { hostVariables }: Sources,
  runId: string,
  { work }: StageRequest['stage'],
  values: ReadonlyMap<string, string>,
): Promise<AgentLogin | null> {
  const agent = answeringOf(work);
  if (agent === null || agent.played === true) return null;
  const file = credentialFileOf(agent);
  for (const { name, value } of environmentOf(work)) {
    const text = value.kind === 'literal' ? value.text : values.get(value.fromHost);
    if (text === undefined) continue;
    if (name === file?.name) return loginUntil('Codex', endOfToken(readCodexLogin(text)?.accessToken ?? ''));
    if (value.kind === 'literal' || name !== CLAUDE_LOGIN) continue;
    const handedOver = await hostVariables.get(runId);
    // A value that the worker lends under this name is a different login.
    if (handedOver[value.fromHost] !== text) return null;
    return loginUntil('Claude', readLoginEnd(handedOver[loginEndKey(value.fromHost)]));
  }
  return null;
}

function loginUntil(owner: AgentLogin['owner'], endsAtMs: number | null): AgentLogin | null {
  return endsAtMs === null ? null : { owner, endsAtMs };
}

/**
 * Returns all host values of the run that are known here.
 * @throws as `resolveEnvironment`, except for missing variables
 */
export async function readSecrets(
  sources: Sources,
  runId: string,
  hostVariables: readonly string[],
): Promise<readonly Secret[]> {
  return secretsOf(await readVariables(sources, runId, hostVariables));
}

/**
 * Returns the secrets. Each token of a login is a secret of its own, because other files and requests contain a token
 * without the rest.
 */
function secretsOf(values: ReadonlyMap<string, string>): readonly Secret[] {
  return [...values].flatMap(([name, value]) =>
    [value, ...tokensOfLogin(value)].map((text): Secret => ({ name, value: text })),
  );
}

/** Moves the login of an agent from the environment into a file. @throws CodedError `host/login-invalid` */
function withCredentials(
  { id, work }: StageRequest['stage'],
  env: readonly (readonly [name: string, text: string])[],
): Pick<StageEnvironment, 'env' | 'credentials'> {
  const agent = answeringOf(work);
  const file = agent === null ? null : credentialFileOf(agent);
  const isFile = ([name]: readonly [string, string]): boolean => name === file?.name;
  return {
    env: createMapping(env.filter((variable) => !isFile(variable))),
    credentials: env.filter(isFile).flatMap(([name, text]) => {
      if (text === '') return [];
      const login = readCodexLogin(text);
      if (login !== null) return [{ guestPath: file!.guestPath, text: login.forGuest }];
      throw new CodedError(
        'host/login-invalid',
        `stage ${id} uses the login in ${name}, which is not what \`codex login\` writes into auth.json for a ChatGPT subscription: an object with tokens.access_token and tokens.account_id`,
      );
    }),
  };
}

/**
 * Checks the variables before the first VM: a run with missing secrets does not begin.
 * @param plan its `stages` are the stages that will run
 * @throws CodedError `host/variable-missing`, `host/variable-too-large`, `host/secrets-file`
 */
export async function requireVariables(
  sources: Sources,
  runId: string,
  { hostVariables, stages }: Pick<Plan, 'hostVariables' | 'stages'>,
): Promise<void> {
  const values = await readVariables(sources, runId, hostVariables);
  const lacking = demandedVariablesOf(stages).filter(({ name }) => !values.has(name));
  if (lacking.length > 0) throw createMissingError(lacking);
}

/**
 * Reads the values. Values that a client handed over for the run take precedence over values that this worker lends.
 * A run of a token or of a deployment gets only the former.
 */
async function readVariables(
  { hostVariables, lentVariables, starters }: Sources,
  runId: string,
  names: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (names.length === 0) return new Map();
  const handedOver = new Map(Object.entries(await hostVariables.get(runId)));
  const isAll = names.every((name) => handedOver.has(name));
  const isLent = !isAll && !isConfined(await starters.starterOf(runId));
  const lent = !isLent ? new Map<string, string>() : new Map(Object.entries(await lentVariables.read()));
  const values = names.flatMap((name) => {
    const value = handedOver.get(name) ?? lent.get(name);
    return value === undefined ? [] : [[name, value] as const];
  });
  refuseTooLarge(values);
  return new Map(values);
}

function refuseTooLarge(values: readonly (readonly [name: string, value: string])[]): void {
  const bytes = values.reduce((sum, [, value]) => sum + Buffer.byteLength(value), 0);
  if (bytes <= SECRETS_BYTES) return;
  const [largest] = values.toSorted((a, b) => b[1].length - a[1].length)[0]!;
  throw new CodedError(
    'host/variable-too-large',
    `the values of host variables that the run reads have ${bytes} bytes together (most of them in ${largest}); at most ${SECRETS_BYTES} are allowed: mount large data as a file`,
  );
}

function createMissingError(lacking: readonly { readonly name: string; readonly stage: string }[]): CodedError {
  const named = lacking.slice(0, 8).map(({ name, stage }) => `stage ${stage} reads the variable ${name}`);
  const more = lacking.length > named.length ? `, and ${lacking.length - named.length} more are read` : '';
  const it = lacking.length === 1 ? 'it' : 'them';
  return new CodedError(
    'host/variable-missing',
    `${named.join(', ')}${more}, but neither the run nor its worker sets ${it}: set ${it} in the shell that runs \`voidbox run\`; for your own Temporal server, put ${it} into the worker's secrets file (\`voidbox worker --secrets-file\`)`,
  );
}
